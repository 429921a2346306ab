"""Feature selection in a scikit-learn pipeline: tune it, judge it, and read what it chose."""

# --8<-- [start:imports]
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from jaxfs import plot
from jaxfs.estimators import FilterSelector, GaussianCompromise, ReliefF, StabilitySelector

# --8<-- [end:imports]

# --8<-- [start:pipeline]
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = Pipeline(
    [
        ("scale", StandardScaler()),
        ("select", ReliefF(n_features_to_select=5)),
        ("classify", LogisticRegression()),
    ]
).set_output(transform="pandas")
model.fit(X, y)
print("columns:", ", ".join(model[:-1].get_feature_names_out()))
# --8<-- [end:pipeline]

# --8<-- [start:leak]
outer = StratifiedKFold(5, shuffle=True, random_state=0)
rng = np.random.default_rng(0)
noise, coins = rng.normal(size=(60, 2000)), rng.permutation(60) % 2
chosen = FilterSelector(n_features_to_select=10).fit_transform(noise, coins)
outside = cross_val_score(LogisticRegression(), chosen, coins, cv=outer).mean()
steps = [("select", FilterSelector(n_features_to_select=10)), ("classify", LogisticRegression())]
inside = cross_val_score(Pipeline(steps), noise, coins, cv=outer).mean()
print(f"noise, selection outside the folds: {outside:.2f}, inside: {inside:.2f}")
# --8<-- [end:leak]

# --8<-- [start:search]
counts = [2, 4, 8, 16]
selectors = [FilterSelector(), ReliefF(), GaussianCompromise()]
grid = {"select": selectors, "select__n_features_to_select": counts}
inner = StratifiedKFold(4, shuffle=True, random_state=1)
search = GridSearchCV(model, grid, cv=inner).fit(X, y)
selector, number = search.best_params_.values()
print(f"best: {selector} with {number} features")
print(f"accuracy on the folds that chose it: {search.best_score_:.3f}")
# --8<-- [end:search]

# --8<-- [start:judge]
every = Pipeline([("scale", StandardScaler()), ("classify", LogisticRegression())])
nested = cross_val_score(search, X, y, cv=outer)
baseline = cross_val_score(every, X, y, cv=outer)
print(f"searched: {nested.mean():.3f}, all 30 features: {baseline.mean():.3f}")
# --8<-- [end:judge]

results = search.cv_results_
curves = {}
for candidate in selectors:
    name = type(candidate).__name__
    same = [type(found).__name__ == name for found in results["param_select"]]
    folds = [results[f"split{i}_test_score"][same] for i in range(4)]
    numbers = results["param_select__n_features_to_select"][same].astype(int)
    curves[name] = np.array(folds)[:, np.argsort(numbers)]
figure = Figure(layout="constrained")
plot.accuracy_curve(counts, curves, baseline=baseline.mean(), ax=figure)
figure.savefig("search.png", dpi=90)

# --8<-- [start:stable]
relieff = ReliefF(n_features_to_select=5)
stable = StabilitySelector(relieff, n_resamples=50, threshold=0.9, random_state=0)
stable.fit(StandardScaler().set_output(transform="pandas").fit_transform(X), y)
print(f"stability {stable.stability_:.2f}; chosen in more than 90% of the subsamples:")
print(", ".join(stable.get_feature_names_out()))
# --8<-- [end:stable]

figure = Figure(layout="constrained")
ax = plot.score_bars(
    stable.scores_,
    stable.feature_names_in_,
    num_shown=12,
    selected=stable.get_support(indices=True),
    label="share of 50 subsamples",
    ax=figure,
)
ax.axvline(0.9, color="black", linewidth=1, linestyle=":")
figure.savefig("stable.png", dpi=90)
