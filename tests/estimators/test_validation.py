"""The number of features and the method chosen by cross-validation."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, cross_val_score

from jaxfs.estimators import (
    AutoSelector,
    CombinedSelector,
    FilterSelector,
    LaplacianScore,
    RecursiveSelector,
    _validation,
)
from jaxfs.estimators._validation import AccuracyCurve, CrossValidation, feature_counts, split

METHODS = [("anova", FilterSelector()), ("gini", FilterSelector(criterion="gini"))]


@pytest.fixture(scope="module")
def toy():
    return make_classification(
        160, 24, n_informative=3, n_redundant=0, n_clusters_per_class=1, class_sep=1.5,
        shuffle=False, random_state=1,
    )  # fmt: skip


def test_the_curve_selects_inside_the_folds():
    # Selection from all rows would find features that predict labels of pure noise.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 400)), np.arange(60) % 2
    model, counts = _validation.default_model(classes=True), np.array([10])
    rank = _validation.ranked_by(FilterSelector(n_features_to_select=10))
    folds = split(y, 5, classes=True, seed=0)
    inside = CrossValidation(x, y, folds, model).curve(rank, counts)
    best = rank(x, y)
    outside = cross_val_score(model, x[:, best], y, cv=5).mean()
    assert outside > 0.8
    assert inside.mean()[0] < 0.65


def test_one_standard_error_rule_against_its_definition():
    rng = np.random.default_rng(1)
    accuracies = rng.uniform(size=(7, 5)) * 0.2 + np.array([0.5, 0.7, 0.72, 0.75, 0.74])
    curve = AccuracyCurve(np.array([1, 2, 4, 8, 16]), accuracies, np.zeros((7, 16), int))
    means = [np.mean(column) for column in accuracies.T]
    best = int(np.argmax(means))
    limit = means[best] - np.std(accuracies[:, best], ddof=1) / np.sqrt(7)
    assert curve.smallest_as_good() == min(i for i in range(5) if means[i] >= limit)


def test_one_se_finds_the_informative_features(toy):
    found = FilterSelector(n_features_to_select="one_se").fit(*toy)
    assert found.n_features_ <= 4
    assert found.get_support(indices=True).max() < 3 or found.n_features_ > 3
    assert found.cv_results_["n_features"].tolist() == feature_counts(24).tolist()
    assert (
        found.cv_results_["mean_test_score"].shape == found.cv_results_["split4_test_score"].shape
    )
    with pytest.raises(ValueError, match="needs a target, and LaplacianScore uses none"):
        LaplacianScore(n_features_to_select="one_se").fit(toy[0])


def test_folds_keep_groups_together_and_classes_balanced():
    y, groups = np.repeat([0, 1], 30), np.arange(60) // 3
    for train, test in split(y, 4, classes=True, groups=groups, repeats=2, seed=0):
        assert not set(groups[train]) & set(groups[test])
        assert abs(y[test].mean() - 0.5) < 0.15
    assert len(split(y, 4, classes=True, repeats=3, seed=0)) == 12
    with pytest.raises(ValueError, match="cv must be at most"):
        split(np.array([0] * 9 + [1]), 2, classes=True, seed=0)


def test_recursive_elimination_is_that_of_scikit_learn(toy):
    x, y = toy
    model = LogisticRegression(C=0.1)
    for step in (1e-9, 0.5):
        ours = RecursiveSelector(model, step=step, n_features_to_select=4).fit(x, y)
        # scikit-learn takes its share from the first number of features, not from the remaining.
        assert ours.n_features_ == 4
        assert sorted(ours.ranking_.tolist()) == list(range(1, 25))
    theirs = RFE(model, n_features_to_select=4, step=1).fit(x, y)
    single = RecursiveSelector(model, step=1e-9, n_features_to_select=4).fit(x, y)
    assert single.support_.tolist() == theirs.support_.tolist()
    with pytest.raises(ValueError, match="step must be in"):
        RecursiveSelector(model, step=0.0).fit(x, y)


def test_auto_names_the_winner_and_both_baselines(toy):
    found = AutoSelector(estimators=METHODS, n_repeats=1).fit(*toy)
    assert [row.name for row in found.comparison_[-2:]] == ["all features", "random features"]
    assert found.comparison_[0].name == found.best_
    assert found.comparison_[0].n_features == found.n_features_ <= 6
    assert f"{found.best_} with {found.n_features_} of 24 features has accuracy" in found.verdict_
    assert set(found.cv_results_) == {"anova", "gini"}
    again = AutoSelector(estimators=METHODS, n_repeats=1).fit(*toy)
    assert again.comparison_[0][:5] == found.comparison_[0][:5]


def test_auto_takes_fewer_folds_for_small_classes_and_shows_its_progress(toy, capsys):
    x, y = toy
    rows = np.r_[np.flatnonzero(y == 0)[:20], np.flatnonzero(y == 1)[:3]]
    selector = AutoSelector(estimators=METHODS, n_repeats=1, verbose=True)
    found = selector.fit(x[rows], y[rows])
    assert len(found.rankings_[found.best_]) == 3
    assert "100%" in capsys.readouterr().err
    with pytest.raises(ValueError, match="cv must be at most"):
        AutoSelector(estimators=METHODS, cv=5).fit(x[rows], y[rows])


def test_a_combination_takes_the_scores_of_the_methods_in_the_comparison(toy, monkeypatch):
    fits = []
    inner = [("a", FilterSelector()), ("g", FilterSelector(criterion="gini"))]
    methods = [*METHODS, ("both", CombinedSelector(estimators=inner))]
    plain = FilterSelector.fit

    def counted(self, x, y=None):
        fits.append(len(x))
        return plain(self, x, y)

    monkeypatch.setattr(FilterSelector, "fit", counted)
    found = AutoSelector(estimators=methods, n_repeats=1).fit(*toy)
    assert sum(n < 160 for n in fits) == 2 * 5  # in each fold, each method once
    alone = AutoSelector(estimators=methods[2:], n_repeats=1).fit(*toy)
    np.testing.assert_array_equal(alone.rankings_["both"], found.rankings_["both"])


def test_auto_says_when_there_is_nothing_to_find():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(60, 30)), np.arange(60) % 2
    verdict = AutoSelector(estimators=METHODS, n_repeats=1).fit(x, y).verdict_
    assert "nothing reliable" in verdict or "Random features are as good" in verdict


def test_auto_by_numbers_without_a_target_and_with_groups(toy):
    x, target = make_regression(80, 12, n_informative=2, random_state=0)
    found = AutoSelector(estimators=[("f", FilterSelector(criterion="f_regression"))]).fit(
        x, target
    )
    assert found.n_features_ == 2
    assert "R²" in found.verdict_
    methods = [("variance", FilterSelector(criterion="variance")), ("laplacian", LaplacianScore())]
    alone = AutoSelector(estimators=methods, n_repeats=1).fit(x)
    assert alone.n_features_ == 4
    assert "predicts all features with R²" in alone.verdict_
    assert "Random features are as good" in alone.verdict_  # the features are independent
    rng = np.random.default_rng(3)
    noisy = x[:, :5] @ rng.normal(size=(5, 20)) + 2 * rng.normal(size=(80, 20))
    related = AutoSelector(estimators=methods[:1], n_repeats=1).fit(np.c_[10 * x[:, :5], noisy])
    assert related.get_support(indices=True).tolist() == [0, 1, 2, 3, 4]
    assert "better than random features do" in related.verdict_
    noise = AutoSelector(estimators=[("f", FilterSelector(criterion="f_regression"))], n_repeats=1)
    shuffled = rng.permutation(target)
    assert "nothing about the target" in noise.fit(x, shuffled).verdict_
    groups = np.arange(160) // 4
    grouped = AutoSelector(estimators=METHODS, n_repeats=1, model=LogisticRegression())
    assert grouped.fit(*toy, groups=groups).n_features_ >= 1
    with pytest.raises(ValueError, match="target must be one of"):
        AutoSelector(target="labels").fit(*toy)


def test_groups_change_the_folds():
    y = np.linspace(0, 1, 12)
    groups = np.arange(12) // 2
    ours = split(y, 3, classes=False, groups=groups, seed=0)
    theirs = GroupKFold(3, shuffle=True, random_state=0).split(y[:, None], y, groups)
    assert all((a[1] == b[1]).all() for a, b in zip(ours, theirs, strict=True))


def test_importances_need_a_model_that_has_them(toy):
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(ValueError, match="feature_importances_ or coef_"):
        RecursiveSelector(KNeighborsClassifier()).fit(*toy)
    assert RecursiveSelector(Ridge()).fit(toy[0], toy[0][:, 0]).ranking_[0] == 1
