"""scikit-learn's own checks, for every estimator."""

import pytest
from sklearn.utils.estimator_checks import check_estimator

from jaxfs import estimators
from jaxfs.estimators import (
    CFS,
    CMIM,
    FCBF,
    JMI,
    MCFS,
    METHODS,
    MRMR,
    SPEC,
    SSFS,
    AutoSelector,
    BorutaSelector,
    CanonicalCorrelation,
    CombinedSelector,
    DirichletGraphSelector,
    FilterSelector,
    GaussianCompromise,
    GaussianKL,
    LaplacianScore,
    ManiFeSt,
    MRMRRegression,
    MutualInformation,
    MutualInformationRegression,
    RecursiveSelector,
    ReliefF,
    RReliefF,
    StabilitySelector,
)

# Every estimator; where fewer steps, bins or resamples run faster, with fewer, and with one number
# of features where each is compiled for itself.
ONE = {"n_features_to_select": 1}
CHECKED = (
    ManiFeSt(),
    GaussianCompromise(),
    GaussianKL(**ONE),
    CanonicalCorrelation(**ONE),
    SSFS(n_pseudo_labels=1),
    DirichletGraphSelector(n_steps=2, n_restarts=1, n_neighbors=1, **ONE),
    ReliefF(n_neighbors=2),
    RReliefF(n_neighbors=2),
    MRMR(),
    MRMRRegression(),
    JMI(n_bins=2, **ONE),
    CMIM(n_bins=2, **ONE),
    CFS(n_bins=2, **ONE),
    FCBF(n_bins=2, **ONE),
    FilterSelector(),
    FilterSelector(criterion="t"),
    FilterSelector(criterion="chi2"),
    FilterSelector(criterion="pearson"),
    FilterSelector(criterion="variance"),
    MutualInformation(kind="binned", n_bins=2),
    MutualInformationRegression(n_neighbors=1),
    LaplacianScore(),
    SPEC(),
    MCFS(n_clusters=1, n_nonzero=1),
    CombinedSelector(estimators=[("a", FilterSelector()), ("v", FilterSelector(criterion="gini"))]),
    StabilitySelector(FilterSelector(), n_resamples=2),
    RecursiveSelector(FilterSelector()),
    BorutaSelector(FilterSelector(), n_trials=2, **ONE),
    AutoSelector(estimators=[("anova", FilterSelector())], target="classes", cv=2, **ONE),
)
#: One of each kind. The others take minutes of compilation, in code that these share.
SHORT = (MRMR, LaplacianScore, CombinedSelector, StabilitySelector)


@pytest.mark.parametrize(
    "estimator",
    [pytest.param(e, marks=() if isinstance(e, SHORT) else pytest.mark.thorough) for e in CHECKED],
    ids=map(repr, CHECKED),
)
@pytest.mark.filterwarnings("ignore:.* the same score")  # some of the checks' data have no order
def test_scikit_learn_checks(estimator):
    found = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in found if r["status"] == "failed"}
    assert not failed
    # It runs in an environment that SciPy must be told of before it is imported.
    skipped = {r["check_name"] for r in found if r["status"] != "passed"}
    assert skipped <= {"check_array_api_input"}


def test_every_estimator_is_checked():
    public = {v for v in vars(estimators).values() if isinstance(v, type)} - {
        estimators.Method,
        estimators.ComparedMethod,
        estimators.FDR,
    }
    assert public == {type(e) for e in CHECKED}


def test_catalogue_says_what_the_estimators_are():
    for name, method in METHODS.items():
        made = method.estimator()
        assert method.name == name
        assert method.targets == made._target_kind()
        assert method.supervised == made.__sklearn_tags__().target_tags.required
        assert method.summary.endswith(".")
