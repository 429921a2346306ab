"""Tests that every public score and selector must pass.

One line registers a new function: in `SCORES`, in `SELECTORS` or, if it has no labels, in one of
the unions below them. An entry is called as `score(x, y, weights)`; `two_classes`, `supervised`,
`selector` and `unsupervised` adapt the signatures.

Compilation takes most of the time, so the tests of an entry share a few programs. `eager` calls the
entry with plain float32 data and x64 off. `answers` calls it with a stack of padded, weighted data
sets under `jit` and `vmap`: in float32 with x64 off, and in the thorough run also in float64. (In
float64, the oracles in the tests of the rooms are stricter.) `exported` has the derivatives, in
float32 with x64 on.
"""

import functools

import array_api_strict
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from tests.helpers import assert_close, rng

N, D, K, PADDING = 40, 6, 4, 3
Y = np.repeat([0, 1], N // 2)
#: Labels of padded data: each class is followed by its padding.
LABELS = np.repeat([0, 1], N // 2 + PADDING)
#: Number of data sets in a stack; one number, so that all stacks run the same program.
STACK = 4
PLATFORMS = ("cpu", "cuda", "tpu")


def two_classes(score, **options):
    """`score(x1, x2, weights1=…, weights2=…)`: the first half of the rows against the second."""

    def call(x, y=None, weights=None):
        h = x.shape[0] // 2
        w1, w2 = (None, None) if weights is None else (weights[:h], weights[h:])
        return score(x[:h, :], x[h:, :], weights1=w1, weights2=w2, **options)

    return call


def supervised(score, **options):
    """`score(x, y, num_classes=…, weights=…)`."""

    def call(x, y=Y, weights=None):
        return score(x, y, num_classes=2, weights=weights, **options)

    return call


def with_target(score, **options):
    """`score(x, y, weights=…)`; the codes of two classes serve as a numeric target."""

    def call(x, y=Y, weights=None):
        return score(x, y, weights=weights, **options)

    return call


def counting(score):
    """A score of counts: adds 100 to make numbers nonnegative. Text is passed on, to be refused."""

    def call(x, y=Y, weights=None):
        numeric = getattr(x.dtype, "kind", "f") != "U"
        return score(x + 100 if numeric else x, y, num_classes=2, weights=weights)

    return call


def combined(x, y=Y, weights=None):
    options = {"num_classes": 2, "weights": weights}
    return jaxfs.combine_scores(jaxfs.fisher_score(x, y, **options), jaxfs.t_score(x, y, **options))


SCORES = {
    "manifest_score": two_classes(jaxfs.manifest_score),
    "manifest_score spsd": two_classes(jaxfs.manifest_score, geometry="spsd", rank=3),
    "manifest_lowrank_score": two_classes(
        functools.partial(jaxfs.manifest_lowrank_score, jax.random.key(0), rank=4, bandwidth=4.0)
    ),
    "manifest_multiclass_score": supervised(jaxfs.manifest_multiclass_score),
    "fisher_score": supervised(jaxfs.fisher_score),
    "anova_score": supervised(jaxfs.anova_score),
    "t_score": supervised(jaxfs.t_score),
    "chi2_score": counting(jaxfs.chi2_score),
    "pearson_score": with_target(jaxfs.pearson_score),
    "f_regression_score": with_target(jaxfs.f_regression_score),
    "combine_scores": combined,
    "relieff_score": supervised(jaxfs.relieff_score, num_neighbors=5),
    "rrelieff_score": with_target(jaxfs.rrelieff_score, num_neighbors=5),
}
#: Functions of ranks and counts, which have no derivative.
BY_RANK = {
    "gini_score": supervised(jaxfs.gini_score),
    "mutual_information_score binned": supervised(
        jaxfs.mutual_information_score, estimator="binned", num_bins=2
    ),
}


def selector(select, **options):
    """`select(x, y, num_features, num_classes=…, weights=…)`."""

    def call(x, y=Y, weights=None):
        return select(x, y, K, num_classes=2, weights=weights, **options)

    return call


def numbered(select, x, y, **options):
    return select(x, y, K, **options)


SELECTORS = {
    "gc_select": selector(jaxfs.gc_select),
    "gc_select entropy": selector(jaxfs.gc_select, objective="entropy"),
    "gkl_select": selector(jaxfs.gkl_select),
    "gkl_select mi": selector(jaxfs.gkl_select, objective="mi"),
    "cca_select": selector(jaxfs.cca_select),
    "mrmr_select": selector(jaxfs.mrmr_select),
    "mrmr_select mi": selector(
        jaxfs.mrmr_select, scheme="difference", relevance="mi", redundancy="mi"
    ),
    "mrmr_regression_select": with_target(
        functools.partial(numbered, jaxfs.mrmr_regression_select)
    ),
    "jmi_select": selector(jaxfs.jmi_select),
    "cmim_select": selector(jaxfs.cmim_select, num_bins=3),
}
#: Selectors that may choose fewer features than they are asked for.
SELECTORS_THAT_STOP = {
    "cfs_select": selector(jaxfs.cfs_select, num_bins=3),
    "fcbf_select": selector(jaxfs.fcbf_select, num_bins=3),
}
SELECTORS |= SELECTORS_THAT_STOP


def unsupervised(score, **options):
    """`score(x, mask=…)`; the mask is true for samples of positive weight."""

    def call(x, y=None, weights=None):
        return score(x, mask=weights, **options)

    return call


def ssfs_scores(x, **options):
    return jaxfs.ssfs(jax.random.key(0), x, num_pseudo_labels=2, **options).scores


WITH_GRADIENTS = SCORES | {
    "variance_score": lambda x, y=None, weights=None: jaxfs.variance_score(x, weights=weights),
    "laplacian_score": unsupervised(jaxfs.laplacian_score),
    "laplacian_score adaptive": unsupervised(jaxfs.laplacian_score, graph="adaptive"),
}
ALL_SCORES = (
    WITH_GRADIENTS
    | BY_RANK
    | {
        "spec_score phi1": unsupervised(jaxfs.spec_score, ranking="phi1"),
        "mutual_information_score": supervised(jaxfs.mutual_information_score),
        "mutual_information_regression_score": with_target(
            jaxfs.mutual_information_regression_score
        ),
        "mcfs_score": unsupervised(jaxfs.mcfs_score, num_clusters=2, num_nonzero=3),
        "ssfs": unsupervised(ssfs_scores),
    }
)
EVERYTHING = ALL_SCORES | SELECTORS
WEIGHTED = SCORES | BY_RANK | SELECTORS

every_selector = pytest.mark.parametrize("select", SELECTORS.values(), ids=SELECTORS.keys())
everything = pytest.mark.parametrize("score", EVERYTHING.values(), ids=EVERYTHING.keys())
every_score = pytest.mark.parametrize("score", ALL_SCORES.values(), ids=ALL_SCORES.keys())
every_supervised = pytest.mark.parametrize(
    "score", (SCORES | BY_RANK).values(), ids=(SCORES | BY_RANK).keys()
)
every_weighted = pytest.mark.parametrize("score", WEIGHTED.values(), ids=WEIGHTED.keys())
every_smooth = pytest.mark.parametrize("score", WITH_GRADIENTS.values(), ids=WITH_GRADIENTS.keys())
both_dtypes = pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float64", marks=pytest.mark.thorough)]
)

#: Tolerances for results that may be summed in a different order: a few eps times the condition
#: number of the matrix that is inverted, which is 10² to 10³ for kernels with a ridge of 1e-2.
SAME = {"float32": 1e-4, "float64": 1e-12}


def data(seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Two classes that differ in the values of features 0 and 1, and in their correlation."""
    x = rng(seed).normal(size=(N, D))
    x[:, 1] = np.where(Y == 0, x[:, 0], -x[:, 0]) + 0.1 * x[:, 1]
    x[Y == 1, :2] += 1.0
    return x.astype(dtype)


def padded(x: np.ndarray, content: float = 7.0, weights=None) -> tuple[np.ndarray, np.ndarray]:
    """The samples with three rows of `content` added to each class, and the weights of all rows.

    The added rows have weight 0.
    """
    weights = np.ones(N) if weights is None else weights
    blank = np.full((PADDING, D), content, x.dtype)
    first, second = np.split(x, 2)
    rows = np.concatenate([first, blank, second, blank])
    w1, w2 = np.split(weights, 2)
    none = np.zeros(PADDING)
    return rows, np.concatenate([w1, none, w2, none]).astype(x.dtype)


def as_users_have_it(dtype: str):
    """A context with x64 off for float32, which is JAX's default, and with x64 on for float64.

    The tests of lowering trace float32 with x64 on.
    """
    return jax.enable_x64(dtype == "float64")


def eager(score, x):
    """The result for plain float32 data, outside `jit`."""
    with as_users_have_it("float32"):
        return score(x)


@functools.cache
def stacked(score):
    """A compiled `score` of a stack of padded data sets, and a list with one entry per tracing."""
    traced = []

    @jax.jit
    @jax.vmap
    def call(rows, weights):
        traced.append(rows.dtype)
        return score(rows, LABELS, weights)

    return call, traced


def answers(score, *sets: tuple[np.ndarray, np.ndarray]) -> list:
    """The results for data sets made by `padded`; one program per dtype computes all of them."""
    sets = sets + sets[:1] * (STACK - len(sets))
    rows, weights = (np.stack(arrays) for arrays in zip(*sets, strict=True))
    with as_users_have_it(str(rows.dtype)):
        batch = jax.tree.map(np.asarray, stacked(score)[0](rows, weights))
    return [jax.tree.map(lambda a, i=i: a[i], batch) for i in range(STACK)]


@functools.cache
def exported(score):
    """The scores of padded data and the gradient of their sum, as one program for all platforms."""

    def call(rows, weights):
        values, pull = jax.vjp(lambda rows: score(rows, LABELS, weights), rows)
        return values, pull(jnp.ones_like(values))[0]

    shapes = [jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in padded(data())]
    return jax.export.export(jax.jit(call), platforms=PLATFORMS)(*shapes)


def assert_same(got, expected, rtol: float) -> None:
    """Assert that scores, or the objectives of selections, agree to `rtol`, and indices exactly."""
    if isinstance(expected, jaxfs.Selection):
        np.testing.assert_array_equal(got.indices, expected.indices)
        # An entry without a chosen feature has the index −1 and the objective NaN.
        np.testing.assert_array_equal(np.isnan(got.objective), got.indices < 0)
        got, expected = np.nan_to_num(got.objective), np.nan_to_num(expected.objective)
    assert_close(got, expected, rtol)


@everything
def test_jit_vmap_and_padding_give_the_eager_answer(score):
    """Tested in float32, in which rounding errors are largest."""
    sets = [data(seed, "float32") for seed in (0, 1)]
    for got, x in zip(answers(score, *map(padded, sets)), sets, strict=False):
        assert_same(got, eager(score, x), SAME["float32"])


@everything
def test_padding_is_never_read(score):
    x = data(dtype="float32")
    first, *others = answers(score, *(padded(x, c) for c in (7.0, np.nan, np.inf, -1e30)))
    for other in others:
        jax.tree.map(np.testing.assert_array_equal, other, first)


@everything
@both_dtypes
def test_the_same_shapes_compile_once(score, dtype):
    answers(score, padded(data(dtype=dtype)))
    times = len(stacked(score)[1])
    answers(score, padded(data(2, dtype), weights=np.full(N, 0.5)))
    assert len(stacked(score)[1]) == times


@every_score
@both_dtypes
def test_shape_and_dtype(score, dtype):
    answer = eager(score, data(dtype="float32"))
    assert isinstance(answer, jax.Array)
    chex.assert_shape(answer, (D,))
    assert answer.dtype == "float32"
    assert answers(score, padded(data(dtype=dtype)))[0].dtype == dtype


@every_supervised
def test_larger_is_better(score):
    assert set(np.argsort(eager(score, data(dtype="float32")))[-2:]) == {0, 1}


@every_score
@both_dtypes
def test_features_may_be_permuted(score, dtype):
    x, order = data(dtype=dtype), rng(1).permutation(D)
    plain, permuted, *_ = answers(score, padded(x), padded(x[:, order]))
    assert_close(permuted, plain[order], SAME[dtype])


@every_weighted
@both_dtypes
def test_weights_count_samples(score, dtype):
    """A weight of 2 has the effect of two copies of a sample; a weight of 0 removes the sample."""
    x = data(3, dtype)
    doubled = x.copy()
    doubled[[1, N // 2 + 1]] = x[[0, N // 2]]
    weights = np.ones(N)
    weights[[0, N // 2]] = 2
    weights[[1, N // 2 + 1]] = 0
    got, expected, *_ = answers(score, padded(x, weights=weights), padded(doubled))
    assert_same(got, expected, SAME[dtype])


@every_score
def test_lowers_for_cpu_cuda_and_tpu(score):
    """The program includes the gradient."""
    assert exported(score).platforms == PLATFORMS
    assert [a.dtype for a in exported(score).out_avals] == ["float32", "float32"]


@every_smooth
def test_gradients_are_finite_and_padding_has_none(score):
    """Tested in float32, which overflows and underflows first."""
    rows, weights = padded(data(dtype="float32"), np.nan)
    gradient = np.asarray(exported(score).call(rows, weights)[1])
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[weights == 0] == 0)
    assert np.any(gradient[weights == 1] != 0)


@everything
def test_other_arrays_are_data(score):
    """The array API, and integers beyond 32 bits, which JAX without x64 would wrap.

    `tests/test_checks.py` has the other kinds: what is converted is converted there.
    """
    x = data(dtype="float32")
    assert_same(eager(score, array_api_strict.asarray(x)), eager(score, x), 0)
    whole = np.abs(np.round(10 * data())).astype(np.int64) * 2**30
    assert_same(eager(score, whole), eager(score, whole.astype(np.float32)), 0)


@every_score
@both_dtypes
def test_nan_reaches_the_scores_it_touches(score, dtype):
    x = data(dtype=dtype)
    spoilt = x.copy()
    spoilt[2, 3] = np.nan
    clean, answer, *_ = answers(score, padded(x), padded(spoilt))
    assert np.isnan(answer[3])
    others = np.isnan(answer) | (np.abs(answer - clean) <= SAME[dtype] * np.abs(clean).max())
    assert np.all(others), "a score is neither NaN nor what it was"


MISTAKES = {
    "1-d": (lambda x: x[0][:, None][:, 0], r"x\w? must be an array of 2 dimensions, got shape"),
    "complex": (
        lambda x: x.astype(complex),
        r"x\w? must be an array of real numbers, got dtype complex128",
    ),
    "half": (
        lambda x: x.astype("float16"),
        r"x\w? must be of dtype float32 or float64, got float16",
    ),
    "text": (lambda x: x.astype(str), r"x\w? must be an array of real numbers, got dtype <U"),
    "no features": (lambda x: x[:, :0], r"x\w? must be .*, got \(\d+, 0\)"),
}


@everything
def test_static_mistakes_are_named(score):
    for spoil, message in MISTAKES.values():
        x = spoil(data())
        call = functools.partial(_one_dimensional, score) if x.ndim == 1 else score
        with pytest.raises(ValueError, match=message):
            call(x)
    with pytest.raises(
        ValueError, match=r"(weights\w?|mask) must be of shape \(\d+,\), one weight"
    ):
        score(data(), Y, np.ones(N + 2))


def _one_dimensional(score, x):
    """Call a score with a vector. The adapters index two axes, so the vector ignores the index."""

    class Vector(np.ndarray):
        def __getitem__(self, key):
            return np.asarray(self)

    return score(x.view(Vector))


# ---- Selectors alone ----------------------------------------------------------------------------


@every_selector
@both_dtypes
def test_selection_has_indices_and_objective(select, dtype):
    x = data(dtype=dtype)
    assert isinstance(eager(select, data(dtype="float32")), jaxfs.Selection)
    answer = answers(select, padded(x))[0]
    assert isinstance(answer, jaxfs.Selection)
    chex.assert_shape((answer.indices, answer.objective), (K,))
    assert answer.indices.dtype == jnp.int32
    assert answer.objective.dtype == dtype
    chosen = np.asarray(answer.indices)
    number = int(np.sum(chosen >= 0))
    assert 0 < number <= K if select in SELECTORS_THAT_STOP.values() else number == K
    assert len(set(chosen[:number].tolist()) & set(range(D))) == number


@every_selector
@both_dtypes
def test_columns_may_be_permuted(select, dtype):
    x, order = data(dtype=dtype), rng(1).permutation(D)
    plain, permuted, *_ = answers(select, padded(x), padded(x[:, order]))
    found = np.asarray(permuted.indices)
    np.testing.assert_array_equal(np.where(found < 0, -1, order[found]), plain.indices)


@every_selector
def test_selector_lowers_for_cpu_cuda_and_tpu(select):
    shape = jax.ShapeDtypeStruct((N, D), jnp.float32)
    exported = jax.export.export(jax.jit(lambda x: select(x)), platforms=PLATFORMS)(shape)
    assert exported.platforms == PLATFORMS
    assert [a.dtype for a in exported.out_avals] == ["int32", "float32", "int32"]


@every_selector
def test_nothing_is_ranked_next_to_nan(select):
    for bad in (np.nan, np.inf):
        x = data(dtype="float32")
        x[2, 3] = bad
        answer = answers(select, padded(x))[0]
        assert np.all(answer.indices == -1)
        assert np.all(np.isnan(answer.objective))
