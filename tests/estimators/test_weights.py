"""Sample weights: they count samples, and scikit-learn routes them through pipelines."""

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from jaxfs import estimators
from jaxfs.estimators import (
    CFS,
    CMIM,
    FCBF,
    FDR,
    JMI,
    MRMR,
    CanonicalCorrelation,
    CombinedSelector,
    FilterSelector,
    GaussianCompromise,
    GaussianKL,
    ManiFeSt,
    MRMRRegression,
    ReliefF,
    RReliefF,
)
from tests.estimators.test_checks import CHECKED
from tests.helpers import assert_close, rng

N, D = 40, 6
X = rng(0).normal(size=(N, D))
Y = np.arange(N) % 2
X[Y == 1, 2] += 1.5
TARGET = X[:, 1] + 0.5 * X[:, 3] + rng(1).normal(size=N)
WEIGHTS = np.ones(N)
WEIGHTS[[0, 3, 5, 8, 13, 21, 22]] = 2
WEIGHTS[9] = 3
WEIGHTS[[2, 7, 30]] = 0
#: Rows in which each sample occurs as often as its weight says.
COPIES = np.repeat(np.arange(N), WEIGHTS.astype(int))
THREE = {"n_features_to_select": 3}
WEIGHTED = (
    *(FilterSelector(criterion=c) for c in ("anova", "fisher", "t", "gini", "chi2")),
    *(FilterSelector(criterion=c) for c in ("pearson", "f_regression", "variance")),
    ReliefF(n_neighbors=5),
    ReliefF(n_neighbors=100),  # more than there are samples of a class
    RReliefF(),
    # Copies of a sample may come into different folds, so the choice of the bandwidth may differ.
    ManiFeSt(factor=0.5),
    ManiFeSt(factor=0.5, solver="lowrank", random_state=0),
    CombinedSelector(estimators=[("manifest", ManiFeSt(factor=0.5)), ("relieff", ReliefF())]),
    GaussianCompromise(**THREE),
    GaussianKL(**THREE),
    CanonicalCorrelation(**THREE),
    MRMR(**THREE),
    MRMR(relevance="mi", redundancy="mi", **THREE),
    MRMRRegression(**THREE),
    JMI(**THREE),
    CMIM(**THREE),
    CFS(**THREE),
    FCBF(**THREE),
)


def data(estimator):
    """Samples and a target that suit the estimator; counts are not negative."""
    numbers = estimator._target_kind() == "numbers"
    chi2 = getattr(estimator, "criterion", None) == "chi2"
    return np.abs(X) if chi2 else X, TARGET if numbers else Y


@pytest.mark.parametrize("estimator", WEIGHTED, ids=repr)
def test_weights_count_samples(estimator):
    x, y = data(estimator)
    weighted = sklearn.clone(estimator).fit(x, y, sample_weight=WEIGHTS)
    copied = sklearn.clone(estimator).fit(x[COPIES], y[COPIES])
    # The sketch of the low-rank solver sees other numbers of rows.
    assert_close(weighted.scores_, copied.scores_, 1e-8)
    assert weighted.support_.tolist() == copied.support_.tolist()
    plain = sklearn.clone(estimator).fit(x, y)
    assert (
        not np.array_equal(plain.scores_, weighted.scores_) or estimator.n_features_to_select == 3
    )


@pytest.mark.parametrize("estimator", [ManiFeSt(), ReliefF(), MRMR(**THREE)], ids=repr)
def test_weight_zero_leaves_a_sample_out(estimator):
    mask = WEIGHTS > 0
    weighted = sklearn.clone(estimator).fit(X, Y, sample_weight=mask)
    dropped = sklearn.clone(estimator).fit(X[mask], Y[mask])
    assert weighted.scores_.tolist() == dropped.scores_.tolist()
    # A class without weight is no class.
    labels = np.where(Y == 1, "b", "a")
    labels[[2, 7, 30]] = "c"
    assert sklearn.clone(estimator).fit(X, labels, WEIGHTS).classes_.tolist() == ["a", "b"]


def test_weights_in_tests_and_groups():
    """p-values and groups refer to the samples that are left."""
    weighted = FilterSelector(n_features_to_select="fdr").fit(X, Y, sample_weight=WEIGHTS)
    copied = FilterSelector(n_features_to_select="fdr").fit(X[COPIES], Y[COPIES])
    assert_close(weighted.pvalues_, copied.pvalues_, 1e-9)
    assert_close(weighted.qvalues_, copied.qvalues_, 1e-9)
    rule = FDR(n_permutations=99, level=0.5)
    mask, groups = WEIGHTS > 0, np.arange(N) // 2
    options = {"n_features_to_select": rule}
    strata = FilterSelector(**options).fit(X, Y, mask, strata=groups % 2)
    dropped = FilterSelector(**options).fit(X[mask], Y[mask], strata=groups[mask] % 2)
    assert strata.pvalues_.tolist() == dropped.pvalues_.tolist()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WEIGHTS[:-1], r"sample_weight must be of shape \(40,\)"),
        (WEIGHTS[:, None], r"sample_weight must be of shape \(40,\)"),
        (-WEIGHTS, "sample_weight must be finite and nonnegative"),
        (WEIGHTS * np.nan, "sample_weight must be finite and nonnegative"),
        (WEIGHTS * 0, "at least one non-zero"),
        (Y, "one class: 1"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        FilterSelector().fit(X, Y, sample_weight=weights)


def test_weights_that_a_rule_does_not_use_are_refused():
    with pytest.raises(ValueError, match=r"one_se.*does not use sample_weight"):
        FilterSelector(n_features_to_select="one_se").fit(X, Y, sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="a total weight of 1 of one"):
        ReliefF().fit(X, Y, sample_weight=WEIGHTS * 0 + 0.05)


def test_only_methods_with_weights_accept_them():
    takes = {type(e).__name__ for e in CHECKED if has_fit_parameter(e, "sample_weight")}
    assert takes == {type(e).__name__ for e in WEIGHTED}
    with pytest.raises(TypeError, match="sample_weight"):
        estimators.SSFS().fit(X, sample_weight=WEIGHTS)
    mixed = CombinedSelector(estimators=[("a", FilterSelector()), ("s", estimators.SSFS())])
    with pytest.raises(ValueError, match="sample_weight: s of estimators do not take weights"):
        mixed.fit(X, Y, sample_weight=WEIGHTS)


# ---- Metadata routing ---------------------------------------------------------------------------


@pytest.fixture
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("_routing")
def test_routing_through_a_pipeline():
    wanted = FilterSelector(n_features_to_select=2).set_fit_request(sample_weight=True)
    model = LogisticRegression().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(wanted, model).fit(X, Y, sample_weight=WEIGHTS)
    expected = FilterSelector(n_features_to_select=2).fit(X, Y, WEIGHTS).scores_
    assert pipeline[0].scores_.tolist() == expected.tolist()
    ignored = make_pipeline(
        FilterSelector(n_features_to_select=2).set_fit_request(sample_weight=False),
        LogisticRegression().set_fit_request(sample_weight=True),
    ).fit(X, Y, sample_weight=WEIGHTS)
    assert ignored[0].scores_.tolist() == FilterSelector().fit(X, Y).scores_.tolist()
    undecided = make_pipeline(FilterSelector(), model)
    with pytest.raises(ValueError, match=r"FilterSelector\.fit"):
        undecided.fit(X, Y, sample_weight=WEIGHTS)


@pytest.mark.usefixtures("_routing")
def test_routing_through_a_search():
    steps = (
        StandardScaler().set_fit_request(sample_weight=False),
        ReliefF(n_neighbors=3).set_fit_request(sample_weight=True),
        LogisticRegression().set_fit_request(sample_weight=False),
    )
    grid = {"relieff__n_features_to_select": [1, 3]}
    scoring = get_scorer("accuracy").set_score_request(sample_weight=False)
    search = GridSearchCV(make_pipeline(*steps), grid, cv=2, scoring=scoring)
    search.fit(X, Y, sample_weight=WEIGHTS)
    scaled = StandardScaler().fit_transform(X)
    expected = ReliefF(n_neighbors=3).fit(scaled, Y, WEIGHTS).scores_
    assert_close(search.best_estimator_[1].scores_, expected, 1e-12)
