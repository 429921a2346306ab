"""Rank features by their relation to a number, alone and among neighbours, on the diabetes data."""

from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

from jaxfs import plot
from jaxfs.estimators import FilterSelector, RReliefF

data = load_diabetes()
methods = {
    "F statistic": FilterSelector(criterion="f_regression"),
    "RReliefF": RReliefF(),
}

figure = Figure(figsize=(7.5, 2.6), layout="constrained")
axes = figure.subplots(1, 3)
for ax, (name, method) in zip(axes, methods.items(), strict=False):
    scores = method.fit(data.data, data.target).scores_
    plot.score_bars(scores, data.feature_names, ax=ax)
    ax.set_title(name)
axes[2].scatter(data.data[:, 2], data.target, s=4)
axes[2].set(xlabel="bmi", ylabel="progression of the disease")
figure.savefig("regression.png", dpi=80)
