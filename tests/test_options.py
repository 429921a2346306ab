"""No option is accepted and ignored: a call with an option that has no effect raises an error.

`REFUSED` lists every option of a public function or estimator that has an effect only with some
other settings. Add a new option of this kind here, with a call in which it would have no effect.
"""

import dataclasses
import inspect

import jax
import numpy as np
import optax
import pytest

import jaxfs
from jaxfs import estimators, plot
from jaxfs.cli import _request
from jaxfs.cli.tables._columns import Refusal
from jaxfs.estimators import (
    MRMR,
    SPEC,
    SSFS,
    CombinedSelector,
    DirichletGraphSelector,
    FilterSelector,
    ManiFeSt,
    MutualInformation,
    StabilitySelector,
)
from jaxfs.geometry import spd
from jaxfs.linalg import leading_eigenpairs
from tests.helpers import rng

KEY = jax.random.key(0)
X = rng(0).normal(size=(24, 5))
TWO, THREE = np.arange(24) % 2, np.arange(24) % 3
KERNELS = np.eye(3), 2 * np.eye(3)
CLASSES = {"num_classes": 2}
E = np.arange(8.0).reshape(2, 4)
SPSD = {"geometry": "spsd"}


def classes(function, **options):
    return lambda: function(X, TWO, num_classes=2, **options)


def dirichlet(**options):
    return lambda: jaxfs.fit_dirichlet_selector(KEY, X, 2, **options)


def fit(estimator, y=TWO):
    return lambda: estimator.fit(X, y)


def operators():
    return jaxfs.ManifestOperators(*KERNELS, *KERNELS)


#: A call, and the two options that its error message must name.
REFUSED = {
    "manifest_score ridge": (
        lambda: jaxfs.manifest_score(X[:9], X[9:], ridge=0.1, **SPSD),
        ("ridge", "geometry"),
    ),
    "manifest_score rank": (
        lambda: jaxfs.manifest_score(X[:9], X[9:], rank=2),
        ("rank", "geometry"),
    ),
    "manifest_operators rank": (
        lambda: jaxfs.manifest_operators(X[:9], X[9:], rank=2),
        ("rank", "geometry"),
    ),
    "manifest_from_kernels rank": (
        lambda: jaxfs.manifest_from_kernels(*KERNELS, rank=2),
        ("rank", "geometry"),
    ),
    "manifest_multiclass_score rank": (
        classes(jaxfs.manifest_multiclass_score, rank=2),
        ("rank", "geometry"),
    ),
    "manifest_operators ridge": (
        lambda: jaxfs.manifest_operators(X[:9], X[9:], ridge=0.1, **SPSD),
        ("ridge", "geometry"),
    ),
    "manifest_from_kernels ridge": (
        lambda: jaxfs.manifest_from_kernels(*KERNELS, ridge=0.1, **SPSD),
        ("ridge", "geometry"),
    ),
    "manifest_multiclass_score ridge": (
        classes(jaxfs.manifest_multiclass_score, ridge=0.1, **SPSD),
        ("ridge", "geometry"),
    ),
    "manifest_multiclass_operators rank": (
        classes(jaxfs.manifest_multiclass_operators, rank=2),
        ("rank", "geometry"),
    ),
    "manifest_multiclass_operators ridge": (
        classes(jaxfs.manifest_multiclass_operators, ridge=0.1, **SPSD),
        ("ridge", "geometry"),
    ),
    "manifest_multiclass_from_kernels rank": (
        lambda: jaxfs.manifest_multiclass_from_kernels(np.stack(KERNELS), rank=2),
        ("rank", "geometry"),
    ),
    "manifest_multiclass_from_kernels ridge": (
        lambda: jaxfs.manifest_multiclass_from_kernels(np.stack(KERNELS), ridge=0.1, **SPSD),
        ("ridge", "geometry"),
    ),
    "manifest_cost landmarks": (
        lambda: jaxfs.manifest_cost(100, 10, landmarks=50),
        ("landmarks", "rank"),
    ),
    "manifest_cost block": (lambda: jaxfs.manifest_cost(100, 10, block=5), ("block", "rank")),
    "manifest_cost refine": (lambda: jaxfs.manifest_cost(100, 10, refine=1), ("refine", "rank")),
    "combine_scores offset": (
        lambda: jaxfs.combine_scores(X[0], X[1], offset=3.0),
        ("offset", "method"),
    ),
    "mrmr_select num_bins": (
        lambda: jaxfs.mrmr_select(X, TWO, 2, num_bins=4, **CLASSES),
        ("num_bins", "relevance"),
    ),
    "mrmr_select binning": (
        lambda: jaxfs.mrmr_select(X, TWO, 2, binning="width", **CLASSES),
        ("binning", "redundancy"),
    ),
    "mutual_information_score num_neighbors": (
        classes(jaxfs.mutual_information_score, estimator="binned", num_neighbors=2),
        ("num_neighbors", "estimator"),
    ),
    "mutual_information_score num_bins": (
        classes(jaxfs.mutual_information_score, num_bins=4),
        ("num_bins", "estimator"),
    ),
    "mutual_information_score binning": (
        classes(jaxfs.mutual_information_score, binning="width"),
        ("binning", "estimator"),
    ),
    "gc_select key": (
        lambda: jaxfs.gc_select(X, TWO, 2, key=KEY, **CLASSES),
        ("key", "fallback"),
    ),
    "spec_score num_eigenvectors": (
        lambda: jaxfs.spec_score(X, num_eigenvectors=3),
        ("num_eigenvectors", "ranking"),
    ),
    "soft_knn scale": (lambda: jaxfs.soft_knn(E, 2, gamma=0, scale=2.0), ("scale", "gamma")),
    "soft_knn num_candidates": (
        lambda: jaxfs.soft_knn(E, 2, gamma=0.0, num_candidates=3),
        ("num_candidates", "gamma"),
    ),
    "fit_dirichlet_selector learning_rate": (
        dirichlet(learning_rate=0.1, optimizer=optax.sgd(0.1)),
        ("learning_rate", "optimizer"),
    ),
    "fit_dirichlet_selector num_candidates": (
        dirichlet(num_candidates=10),
        ("num_candidates", "gamma"),
    ),
    "fit_dirichlet_selector num_candidates kept": (
        dirichlet(num_candidates=10, objective=jaxfs.Network(gamma=0)),
        ("num_candidates", "refresh_every"),
    ),
    "UniqueFeatureSelector epsilon": (
        lambda: jaxfs.UniqueFeatureSelector(E, unique=False, epsilon=0.1),
        ("epsilon", "unique"),
    ),
    "leading_eigenpairs dtype": (
        lambda: leading_eigenpairs(KEY, lambda v: v, 4, 1, start=E.T, dtype="float32"),
        ("dtype", "start"),
    ),
    "spd.mean max_iterations": (
        lambda: spd.mean(np.stack(KERNELS), metric="logeuclid", max_iterations=9),
        ("max_iterations", "metric"),
    ),
    "plot.eigenvectors names": (
        lambda: plot.eigenvectors(operators(), shape=(1, 3), names=list("abc")),
        ("names", "shape"),
    ),
    "plot.eigenvectors num_shown": (
        lambda: plot.eigenvectors(operators(), shape=(1, 3), num_shown=2),
        ("num_shown", "shape"),
    ),
    "ManiFeSt percentile": (
        fit(ManiFeSt(bandwidth=2.0, percentile=5.0)),
        ("percentile", "bandwidth"),
    ),
    "ManiFeSt factor": (fit(ManiFeSt(bandwidth=2.0, factor=2.0)), ("factor", "bandwidth")),
    "ManiFeSt ridge": (fit(ManiFeSt(ridge=0.1, **SPSD)), ("ridge", "geometry")),
    "ManiFeSt rank": (fit(ManiFeSt(rank=3)), ("rank", "geometry")),
    "ManiFeSt rank lowrank": (fit(ManiFeSt(rank=3, solver="lowrank")), ("rank", "geometry")),
    "ManiFeSt lowrank_rank": (
        fit(ManiFeSt(lowrank_rank=3, solver="exact")),
        ("lowrank_rank", "solver"),
    ),
    "ManiFeSt lowrank_rank spsd": (
        fit(ManiFeSt(lowrank_rank=3, **SPSD)),
        ("lowrank_rank", "geometry"),
    ),
    "ManiFeSt t": (fit(ManiFeSt(t=0.3), THREE), ("t", "classes")),
    "ManiFeSt aggregate": (fit(ManiFeSt(aggregate="sum")), ("aggregate", "classes")),
    "SPEC n_eigenvectors": (fit(SPEC(n_eigenvectors=3)), ("num_eigenvectors", "ranking")),
    "MRMR n_bins": (fit(MRMR(n_bins=4)), ("n_bins", "relevance")),
    "MRMR binning": (fit(MRMR(binning="width")), ("binning", "redundancy")),
    "MutualInformation n_neighbors": (
        fit(MutualInformation(kind="binned", n_neighbors=2)),
        ("n_neighbors", "kind"),
    ),
    "MutualInformation n_bins": (fit(MutualInformation(n_bins=4)), ("n_bins", "kind")),
    "MutualInformation binning": (fit(MutualInformation(binning="width")), ("binning", "kind")),
    "CombinedSelector offset": (
        fit(CombinedSelector(estimators=[("anova", FilterSelector())], offset=3.0)),
        ("offset", "method"),
    ),
    "StabilitySelector threshold": (
        fit(StabilitySelector(FilterSelector(), n_features_to_select=2, threshold=0.6)),
        ("threshold", "n_features_to_select"),
    ),
    "SSFS selection": (
        lambda: SSFS().set_params(selection__num_resamples=9),
        ("num_resamples", "selection"),
    ),
    "DirichletGraphSelector objective": (
        lambda: DirichletGraphSelector().set_params(objective__unique=False),
        ("unique", "objective"),
    ),
}


@pytest.mark.parametrize(("call", "names"), REFUSED.values(), ids=REFUSED.keys())
def test_an_option_without_effect_is_refused_by_name(call, names):
    with pytest.raises(ValueError, match=names[0]) as refusal:
        call()
    assert names[1] in str(refusal.value)


def test_a_wrong_value_is_refused_whether_or_not_it_would_be_used():
    with pytest.raises(ValueError, match="aggregate must be one of 'max', 'sum', got 'mean'"):
        ManiFeSt(aggregate="mean").fit(X, TWO)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("manifest", ["rank=3"], "rank must be None unless geometry"),
        ("dirichlet", ["objective=energy", "objective__unique=false"], "objective__unique"),
        ("ssfs", ["selection__fraction=0.5"], "no option 'selection__fraction'"),
        ("ssfs", ["selection=stability", "selection__fraction=2"], "fraction must be in (0, 1]"),
        ("ssfs", ["selection=stability", "selection__fraction=x"], "must be a whole number or a"),
    ],
)
def test_the_command_line_refuses_them_too(method, options, words):
    request = _request.Request(method, options=tuple(options))
    with pytest.raises((Refusal, ValueError)) as refusal:
        _request.make_estimator(request).fit(X, TWO)
    assert words in str(refusal.value)


def test_the_command_line_sets_options_of_a_variant():
    words = ("selection__num_resamples=20", "selection=stability", "selection__model=ridge")
    made = _request.make_estimator(_request.Request("ssfs", options=words))
    assert made.selection == jaxfs.Stable("ridge", num_resamples=20)
    words = ("objective=network", "objective__gamma=1", "objective__unique=false")
    made = _request.make_estimator(_request.Request("dirichlet", options=words))
    assert made.objective == jaxfs.Network(gamma=1.0, unique=False)


# ---- Which options there are --------------------------------------------------------------------


#: Data, and parameters that scikit-learn defines; they always have an effect.
DATA = {"y", "weights", "weights1", "weights2", "mask", "random_state", "dtype", "estimators"}
#: Options that replace a default rule; they always have an effect.
EFFECTIVE = {
    "FDR n_permutations",
    "AutoSelector model",
    "BorutaSelector estimator",
    "CanonicalCorrelation ridge",
    "Coverage batch_size",
    "DirichletGraphSelector learning_rate",
    "Energy batch_size",
    "GaussianCompromise ridge",
    "GaussianCompromise shrinkage",
    "GaussianKL ridge",
    "GaussianKL shrinkage",
    "LaplacianScore n_neighbors",
    "MCFS n_neighbors",
    "MCFS n_nonzero",
    "Median sample",
    "Percentile sample",
    "SPEC n_neighbors",
    "SSFS n_eigenvectors",
    "Stable chunk_size",
    "Stable model",
    "cca_select initial",
    "cca_select ridge",
    "enable_compilation_cache folder",
    "fit_dirichlet_selector optimizer",
    "manifest_bandwidth combine",
    "gc_objective ridge",
    "gc_objective shrinkage",
    "gc_select initial",
    "gc_select ridge",
    "gc_select shrinkage",
    "gkl_objective ridge",
    "gkl_objective shrinkage",
    "gkl_select initial",
    "gkl_select ridge",
    "gkl_select shrinkage",
    "knockoff_select covariance",
    "knockoffs covariance",
    "permutation_test chunk_size",
    "permutation_test groups",
    "permutation_test strata",
    "stability_selection threshold",
    "structure_test chunk_size",
    "structure_test strata",
    "laplacian_score num_neighbors",
    "manifest_cost rank",
    "manifest_lowrank_score block",
    "manifest_lowrank_score landmarks",
    "manifest_lowrank_score refine",
    "mcfs_score num_neighbors",
    "mcfs_score num_nonzero",
    "relieff_score block_size",
    "relieff_score num_neighbors",
    "rrelieff_score block_size",
    "rrelieff_score num_neighbors",
    "soft_knn block_size",
    "spec_score num_neighbors",
    "ssfs num_eigenvectors",
}


def test_options_that_none_stands_for_are_listed():
    """An option whose default is `None` is in `REFUSED`, or always has an effect."""
    listed = {" ".join(name.split()[:2]) for name in REFUSED} | EFFECTIVE
    found = {
        f"{name} {option.name}"
        for module in (jaxfs, estimators)
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and not is_result(value)
        for option in inspect.signature(value).parameters.values()
        if option.default is None and option.name not in DATA
    }
    assert found - listed == set()
    assert EFFECTIVE - found == set()


def is_result(value) -> bool:
    """Whether a public class is a result, and not something that a user calls."""
    return isinstance(value, type) and issubclass(value, tuple)


def test_options_of_a_variant_are_parameters():
    """They are named as scikit-learn names the parameters of a nested estimator."""
    for estimator, name in ((SSFS(selection="stability"), "selection"), (SSFS(), "selection")):
        deep = estimator.get_params()
        record = {"stability": jaxfs.Stable, "predictability": jaxfs.Predictable}[deep[name]]
        fields = {f"{name}__{field.name}" for field in dataclasses.fields(record)}
        assert deep.keys() - estimator.get_params(deep=False).keys() == fields
    assert DirichletGraphSelector(objective="wrong").get_params()["objective"] == "wrong"
    with pytest.raises(ValueError, match="objective must be one of 'coverage'"):
        DirichletGraphSelector(objective="wrong").fit(X)
