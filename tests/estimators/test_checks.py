"""scikit-learn's own checks, for every estimator."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.utils import _array_api
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

ROOT = Path(__file__).parents[2]
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
    # `test_scikit_learn_checks_of_array_libraries` runs these in an environment of their own.
    skipped = {r["check_name"] for r in found if r["status"] != "passed"}
    assert all(name.startswith("check_array_api") for name in skipped)


ARRAY_API = """
import sys, unittest
from sklearn.utils import estimator_checks
from tests.estimators.test_checks import CHECKED
for estimator in CHECKED:
    name, passed = type(estimator).__name__, 0
    if name in sys.argv[1:]:
        for check in estimator_checks._yield_array_api_checks(estimator):
            try:
                check(name, estimator)
                passed += 1
            except unittest.SkipTest:  # a library or device that is not here
                pass
        print(name, passed)
"""


def array_api_checks(*names: str) -> list[int]:
    """Number of scikit-learn's array-API checks that each estimator passes; failures raise.

    They fit with `array_api_dispatch` and transform, with all inputs in one library and in two,
    and expect an error if `transform` gets another library than `fit`. They need an environment
    variable that SciPy reads when it is imported.
    """
    if not hasattr(_array_api, "check_same_namespace"):
        pytest.skip("scikit-learn before 1.9 has other checks")
    done = subprocess.run(
        [sys.executable, "-c", ARRAY_API, *names],
        cwd=ROOT,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [int(line.split()[1]) for line in done.stdout.splitlines()]


def test_scikit_learn_checks_of_array_libraries():
    """NumPy, array-api-strict and, if it is installed, PyTorch."""
    assert min(array_api_checks("GaussianCompromise", "LaplacianScore")) >= 3


@pytest.mark.thorough
def test_scikit_learn_checks_of_array_libraries_for_all():
    found = array_api_checks(*(type(e).__name__ for e in CHECKED))
    assert len(found) == len(CHECKED)
    assert min(found) >= 3


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
