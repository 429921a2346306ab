"""The rules for the number of features: gap, fdr and one_se, and the sentence on each of them."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control
from sklearn.base import clone
from sklearn.feature_selection import f_classif, f_regression

from jaxfs.estimators import (
    CFS,
    FDR,
    BorutaSelector,
    CombinedSelector,
    FilterSelector,
    GaussianCompromise,
    LaplacianScore,
    ManiFeSt,
    MutualInformation,
    ReliefF,
    RReliefF,
    StabilitySelector,
)


@pytest.fixture(scope="module")
def toy():
    """Sixty samples of two classes; the first four of forty features differ between them."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 40)), np.arange(60) % 2
    x[:, :4] += 2.0 * y[:, None]
    return x, y


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(3).normal(size=(40, 12)), np.arange(40) % 2


def test_fdr_by_the_law_of_the_score(toy):
    x, y = toy
    found = FilterSelector(n_features_to_select="fdr").fit(x, y)
    p = f_classif(x, y)[1]
    q = false_discovery_control(p)
    np.testing.assert_allclose(found.pvalues_, p, rtol=1e-9)
    np.testing.assert_allclose(found.qvalues_, q, rtol=1e-9)
    assert found.support_.tolist() == (q <= 0.1).tolist()
    number = int((q <= 0.1).sum())
    assert found.n_features_reason_ == (
        f"{number} of 40 features have q ≤ 0.1 by the distribution of the score."
    )
    target = x[:, 0] + x[:, 1]
    numbers = FilterSelector(criterion="f_regression", n_features_to_select=FDR(0.05))
    q = false_discovery_control(f_regression(x, target)[1])
    assert numbers.fit(x, target).support_.tolist() == (q <= 0.05).tolist()


@pytest.mark.parametrize(
    "selector",
    [
        FilterSelector(criterion="t"),
        FilterSelector(criterion="gini"),
        FilterSelector(criterion="fisher"),
        MutualInformation(kind="binned"),
        ReliefF(),
    ],
    ids=["t", "gini", "fisher", "mi", "relieff"],
)
def test_fdr_of_any_score_finds_the_relevant_features(selector, toy):
    found = clone(selector).set_params(n_features_to_select=FDR(n_permutations=999)).fit(*toy)
    assert found.support_[:4].all()
    assert found.n_features_ <= 7
    assert (found.qvalues_[found.support_] <= 0.1).all()
    assert (found.qvalues_[~found.support_] > 0.1).all()
    assert "999 relabelings" in found.n_features_reason_
    # Significant features have the first ranks, in the order of their scores.
    chosen = np.argsort(found.ranking_)[: found.n_features_]
    assert set(chosen) == set(np.flatnonzero(found.support_))
    assert (np.diff(found.scores_[chosen]) <= 0).all()


def test_fdr_of_manifest_and_of_numbers(toy):
    x, y = toy
    alone = {"combine": None, "factor": 1.0}
    found = ManiFeSt(n_features_to_select=FDR(0.2, n_permutations=99), **alone).fit(x[:, :8], y)
    assert found.pvalues_.shape == (8,)
    assert found.support_[:4].sum() >= 2
    number = RReliefF(n_features_to_select=FDR(n_permutations=199)).fit(x, x[:, 2])
    assert number.support_[2]
    several = ManiFeSt(n_features_to_select=FDR(0.5, n_permutations=19), **alone)
    shifted = x[:, :6] + 3.0 * (np.arange(60) % 3)[:, None] * (np.arange(6) < 2)
    assert several.fit(shifted, np.arange(60) % 3).pvalues_.min() == pytest.approx(1 / 20)
    low = ManiFeSt(solver="lowrank", lowrank_rank=3, n_features_to_select="fdr", random_state=0)
    with pytest.raises(ValueError, match="needs the exact solver"):
        low.fit(x[:, :8], y)
    with pytest.raises(ValueError, match="pass combine=None, and a factor"):
        ManiFeSt(n_features_to_select="fdr").fit(x[:, :8], y)


def test_default_permutations_let_one_feature_be_significant(noise):
    x, y = noise
    x = np.hstack([x, np.random.default_rng(5).normal(size=(40, 188))])
    x[:, 7] += 4.0 * y
    found = ReliefF(n_features_to_select=FDR(0.05)).fit(x, y)
    assert "with 4000 relabelings" in found.n_features_reason_  # 200 features / 0.05
    assert found.get_support(indices=True).tolist() == [7]


def test_nothing_significant_is_an_error_that_names_the_smallest_q(noise):
    x, y = noise
    smallest = false_discovery_control(f_classif(x, y)[1]).min()
    with pytest.raises(ValueError, match=f"the smallest q is {smallest:.3g}"):
        FilterSelector(n_features_to_select="fdr").fit(x, y)
    with pytest.raises(ValueError, match="At least 2 features must be significant together"):
        ReliefF(n_features_to_select=FDR(0.1, n_permutations=79)).fit(x, y)


def test_groups_are_exchanged_as_a_whole():
    rng = np.random.default_rng(1)
    patients = np.repeat([f"p{i}" for i in range(12)], 5)
    y = np.repeat(np.arange(12) % 2, 5)
    x = rng.normal(size=(12, 30))[np.repeat(np.arange(12), 5)] + 0.3 * rng.normal(size=(60, 30))
    assert FilterSelector(n_features_to_select="fdr").fit(x, y).n_features_ > 5  # all are false
    with pytest.raises(ValueError, match=r"no feature with q ≤ 0\.1 in a permutation test"):
        FilterSelector(n_features_to_select="fdr").fit(x, y, groups=patients)
    site = np.arange(60) % 3
    shifted = x + 9.0 * (y * site)[:, None] * (np.arange(30) == 2)
    within = FilterSelector(n_features_to_select=FDR(n_permutations=999))
    assert within.fit(shifted, y, strata=site).pvalues_[2] == pytest.approx(1e-3)


def test_groups_stay_in_one_fold_with_one_se(toy):
    x, y = toy
    groups = np.arange(60) // 2 // 5  # six groups, each with both classes
    plain = FilterSelector(n_features_to_select="one_se").fit(x, y)
    grouped = FilterSelector(n_features_to_select="one_se").fit(x, y, groups=groups)
    a, b = (found.cv_results_["split0_test_score"] for found in (plain, grouped))
    assert a.tolist() != b.tolist()
    assert plain.n_features_reason_.startswith(f"{plain.n_features_} is the smallest number")


def test_small_classes_have_fewer_folds(toy):
    x, y = toy
    rows = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:3]]
    found = FilterSelector(n_features_to_select="one_se").fit(x[rows], y[rows])
    assert [name for name in found.cv_results_ if name.startswith("split")][-1].startswith("split2")
    with pytest.raises(ValueError, match="smallest class, 1"):
        FilterSelector(n_features_to_select="one_se").fit(x[rows[:31]], y[rows[:31]])


def test_significance_without_a_selection(toy):
    x, y = toy
    found = FilterSelector(n_features_to_select=3).significance(x, y)
    np.testing.assert_allclose(found.p_values, f_classif(x, y)[1], rtol=1e-9)
    tested = ReliefF().significance(x, y, FDR(n_permutations=99))
    assert tested.p_values.min() == pytest.approx(0.01)
    with pytest.raises(ValueError, match="needs a score of every feature alone"):
        GaussianCompromise().significance(x, y)


def test_blocks_without_effect_are_refused(toy):
    x, y = toy
    with pytest.raises(ValueError, match="groups must be None unless"):
        FilterSelector(n_features_to_select=3).fit(x, y, groups=y)
    with pytest.raises(ValueError, match="strata must be None unless"):
        FilterSelector(n_features_to_select="one_se").fit(x, y, strata=y)
    with pytest.raises(ValueError, match="groups must be of shape"):
        FilterSelector(n_features_to_select="fdr").fit(x, y, groups=y[:-1])
    with pytest.raises(ValueError, match="strata must be labels without NaN"):
        FilterSelector(n_features_to_select="fdr").fit(x, y, strata=np.where(y, np.nan, 1.0))
    with pytest.raises(ValueError, match="y must be constant within each group"):
        FilterSelector(n_features_to_select="fdr").fit(x, y, groups=np.zeros(60))


def test_rules_that_a_method_cannot_follow(toy):
    x, y = toy
    for rule in ("gap", "fdr", FDR(0.2)):
        with pytest.raises(ValueError, match="needs a score of every feature alone"):
            GaussianCompromise(n_features_to_select=rule).fit(x, y)
    with pytest.raises(ValueError, match="needs a target, and LaplacianScore uses none"):
        LaplacianScore(n_features_to_select="fdr").fit(x)
    with pytest.raises(ValueError, match="relative to the best feature"):
        CombinedSelector(n_features_to_select="fdr").fit(x, y)
    with pytest.raises(ValueError, match='"auto", "gap", "fdr" or "one_se"'):
        FilterSelector(n_features_to_select="bic").fit(x, y)
    for wrong in ({"level": 0.0}, {"level": 1.0}, {"n_permutations": 0}, {"random_state": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            FDR(**wrong)


def test_gap_is_the_default_of_scores(toy):
    default, gap = (FilterSelector(n_features_to_select=k).fit(*toy) for k in ("auto", "gap"))
    assert default.support_.tolist() == gap.support_.tolist()
    assert gap.n_features_reason_ == (
        f"The scores of 40 features form two groups; {gap.n_features_} are in the upper group."
    )
    assert LaplacianScore(n_features_to_select="gap").fit(toy[0]).n_features_ >= 1


def test_every_number_has_a_reason(toy):
    x, y = toy
    cases = {
        "3 of 40 features were asked for.": FilterSelector(n_features_to_select=3),
        "A share of 0.5 of 40 features was asked for.": FilterSelector(n_features_to_select=0.5),
        "⌈√40⌉, at most 50, is the default.": GaussianCompromise(),
    }
    for reason, selector in cases.items():
        assert selector.fit(x, y).n_features_reason_ == reason
    stopped = CFS(n_features_to_select=30).fit(x, y)
    assert stopped.n_features_reason_.endswith(f"the method stopped at {stopped.n_features_}.")
    stable = StabilitySelector(FilterSelector(n_features_to_select=4), n_resamples=4).fit(x, y)
    assert "are selected in more than 0.5 of the resamples." in stable.n_features_reason_
    boruta = BorutaSelector(n_trials=12, random_state=0).fit(x, y)
    assert f"confirmed {boruta.n_features_} of 40" in boruta.n_features_reason_


def test_rules_survive_clone_and_can_be_searched(toy):
    selector = FilterSelector(n_features_to_select=FDR(0.3))
    again = clone(selector)
    assert again.n_features_to_select == FDR(0.3)
    assert again.set_params(n_features_to_select="gap").fit(*toy).n_features_ >= 1
    assert not hasattr(again, "pvalues_")
