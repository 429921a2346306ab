"""What every public score and selector promises, in one suite.

A new one registers with one line: in `SCORES`, in `SELECTORS` or, without labels, in one of the
unions below them. An entry is called as `score(x, y, weights)`; `two_classes`, `supervised`,
`selector` and `unsupervised` adapt the signatures.
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

N, D, K = 40, 6, 4
Y = np.repeat([0, 1], N // 2)


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
    """`score(x, y, weights=…)`: the codes of two classes are numbers too."""

    def call(x, y=Y, weights=None):
        return score(x, y, weights=weights, **options)

    return call


def counting(score):
    """For what counts: data without negative values, and text, which is to be refused."""

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
    "jmi_select": selector(jaxfs.jmi_select),
    "cmim_select": selector(jaxfs.cmim_select, num_bins=3),
}
#: They may choose fewer than they are asked for.
SELECTORS_THAT_STOP = {
    "cfs_select": selector(jaxfs.cfs_select, num_bins=3),
    "fcbf_select": selector(jaxfs.fcbf_select, num_bins=3),
}
SELECTORS |= SELECTORS_THAT_STOP


def unsupervised(score, **options):
    """`score(x, mask=…)`: samples are there or not."""

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
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])

#: For answers that may be summed in another order: a few eps times the condition number of what is
#: inverted, some 10² to 10³ for kernels with a ridge of 1e-2.
SAME = {"float32": 1e-4, "float64": 1e-12}


def data(seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Features 0 and 1 tell the classes apart, by their values and by their association."""
    x = rng(seed).normal(size=(N, D))
    x[:, 1] = np.where(Y == 0, x[:, 0], -x[:, 0]) + 0.1 * x[:, 1]
    x[Y == 1, :2] += 1.0
    return x.astype(dtype)


def assert_same(got, expected, rtol: float) -> None:
    """Scores to `rtol`; of selections the indices exactly, and the objective to `rtol`."""
    if isinstance(expected, jaxfs.Selection):
        np.testing.assert_array_equal(got.indices, expected.indices)
        # What was not chosen has no objective.
        np.testing.assert_array_equal(np.isnan(got.objective), got.indices < 0)
        got, expected = np.nan_to_num(got.objective), np.nan_to_num(expected.objective)
    assert_close(got, expected, rtol)


def as_users_have_it(dtype: str):
    """float32 with x64 off, JAX's default; with x64 on it is traced in the tests of lowering."""
    return jax.enable_x64(dtype == "float64")


@every_score
@both_dtypes
def test_shape_and_dtype(score, dtype):
    with as_users_have_it(dtype):
        answer = score(data(dtype=dtype))
    assert isinstance(answer, jax.Array)
    chex.assert_shape(answer, (D,))
    assert answer.dtype == dtype


@every_supervised
def test_larger_is_better(score):
    assert set(np.argsort(score(data()))[-2:]) == {0, 1}


@every_score
@both_dtypes
def test_features_may_be_permuted(score, dtype):
    x, order = data(dtype=dtype), rng(1).permutation(D)
    with as_users_have_it(dtype):
        assert_close(score(x[:, order]), score(x)[order], SAME[dtype])


@functools.cache
def compiled(score):
    """`score(x, weights)` as one program for several tests, and a list as long as it was traced."""
    traced = []

    @jax.jit
    def call(x, weights):
        traced.append(x.shape)
        return score(x, weights=weights)

    return call, traced


@everything
def test_jit_is_eager_and_the_same_shapes_compile_once(score):
    (call, traced), x = compiled(score), data(1)
    assert_same(call(x, np.ones(N)), score(x), SAME["float64"])
    times = len(traced)
    call(data(2), np.full(N, 0.5))
    assert len(traced) == times


@everything
def test_vmap_is_a_loop(score):
    x = np.stack([data(seed) for seed in range(3)])
    batched = jax.vmap(lambda x: score(x))(x)
    for i, one in enumerate(x):
        assert_same(jax.tree.map(lambda a, i=i: a[i], batched), score(one), SAME["float64"])


@every_score
def test_lowers_for_cpu_cuda_and_tpu(score):
    def value_and_gradient(x):
        values, pull = jax.vjp(lambda x: score(x), x)
        return values, pull(jnp.ones_like(values))

    shape = jax.ShapeDtypeStruct((N, D), jnp.float32)
    platforms = ("cpu", "cuda", "tpu")
    exported = jax.export.export(jax.jit(value_and_gradient), platforms=platforms)(shape)
    assert exported.platforms == platforms
    assert [a.dtype for a in exported.out_avals] == ["float32", "float32"]


def padded(x: np.ndarray, content: float) -> tuple[np.ndarray, np.ndarray]:
    """Each half with three rows of `content` that have no weight."""
    blank = np.full((3, D), content, x.dtype)
    halves = np.split(x, 2)
    rows = np.concatenate([halves[0], blank, halves[1], blank])
    return rows, np.tile(np.repeat([1, 0], [N // 2, 3]), 2).astype(x.dtype)


@everything
def test_padding_without_weight_changes_nothing(score):
    """In float32, where rounding would show first."""
    x, labels = data(dtype="float32"), np.repeat([0, 1], N // 2 + 3)
    rows, weights = padded(x, 7.0)
    with as_users_have_it("float32"):
        answer = score(rows, labels, weights)
        assert_same(answer, score(x), SAME["float32"])
        for content in (np.nan, np.inf, -1e30):
            again = score(padded(x, content)[0], labels, weights)
            for leaf, expected in zip(jax.tree.leaves(again), jax.tree.leaves(answer), strict=True):
                np.testing.assert_array_equal(leaf, expected)


@every_smooth
def test_gradients_are_finite_and_padding_has_none(score):
    """In float32, where numbers overflow and vanish first."""
    x, labels = data(dtype="float32"), np.repeat([0, 1], N // 2 + 3)
    rows, weights = padded(x, np.nan)
    total = jax.jit(jax.grad(lambda rows: jnp.sum(score(rows, labels, weights))))
    gradient = total(rows)
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[weights == 0] == 0)
    assert np.any(gradient[weights == 1] != 0)


@every_weighted
def test_weights_count_samples(score):
    """A weight of 2 is the sample twice, and what has a weight of 0 is not there."""
    x = data(3)
    doubled = x.copy()
    doubled[[1, N // 2 + 1]] = x[[0, N // 2]]
    weights = np.ones(N)
    weights[[0, N // 2]] = 2
    weights[[1, N // 2 + 1]] = 0
    call, _ = compiled(score)
    assert_same(call(x, weights), score(doubled), SAME["float64"])


@everything
def test_array_api_input(score):
    x = data()
    assert_same(score(array_api_strict.asarray(x)), score(x), 0)


@everything
def test_torch_input(score):
    torch = pytest.importorskip("torch")
    x = data()
    assert_same(score(torch.asarray(x, requires_grad=True)), score(x), 0)


@everything
@both_dtypes
def test_integers_are_data(score, dtype):
    """Beyond 32 bits too: JAX without x64 would wrap them."""
    x = np.abs(np.round(10 * data())).astype(np.int64) * 2**30
    with as_users_have_it(dtype):
        assert_same(score(x), score(x.astype(dtype)), 0)


@every_score
@both_dtypes
def test_nan_reaches_the_scores_it_touches(score, dtype):
    x = data(dtype=dtype)
    with as_users_have_it(dtype):
        clean = np.asarray(score(x))
        x[2, 3] = np.nan
        answer = np.asarray(score(x))
    assert np.isnan(answer[3])
    others = np.isnan(answer) | (np.abs(answer - clean) <= SAME[dtype] * np.abs(clean).max())
    assert np.all(others), "a score is neither NaN nor what it was"


@everything
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x[0][:, None][:, 0], r"x\w? must be an array of 2 dimensions, got shape"),
        (
            lambda x: x.astype(complex),
            r"x\w? must be an array of real numbers, got dtype complex128",
        ),
        (lambda x: x.astype("float16"), r"x\w? must be of dtype float32 or float64, got float16"),
        (lambda x: x.astype(str), r"x\w? must be an array of real numbers, got dtype <U"),
        (lambda x: x[:, :0], r"x\w? must be .*, got \(\d+, 0\)"),
    ],
    ids=["1-d", "complex", "half", "text", "no features"],
)
def test_static_mistakes_are_named(score, spoil, message):
    x = spoil(data())
    if x.ndim == 1:
        score = functools.partial(_one_dimensional, score)
    with pytest.raises(ValueError, match=message):
        score(x)


def _one_dimensional(score, x):
    """Past the adapters, which slice two axes."""

    class Vector(np.ndarray):
        def __getitem__(self, key):
            return np.asarray(self)

    return score(x.view(Vector))


@everything
def test_weights_of_another_length_are_named(score):
    with pytest.raises(
        ValueError, match=r"(weights\w?|mask) must be of shape \(\d+,\), one weight"
    ):
        score(data(), Y, np.ones(N + 2))


# ---- Selectors alone ----------------------------------------------------------------------------


@every_selector
@both_dtypes
def test_selection_has_indices_and_objective(select, dtype):
    with as_users_have_it(dtype):
        answer = select(data(dtype=dtype))
    assert isinstance(answer, jaxfs.Selection)
    chex.assert_shape((answer.indices, answer.objective), (K,))
    assert answer.indices.dtype == jnp.int32
    assert answer.objective.dtype == dtype
    chosen = np.asarray(answer.indices)
    number = int(np.sum(chosen >= 0))
    assert 0 < number <= K if select in SELECTORS_THAT_STOP.values() else number == K
    assert len(set(chosen[:number].tolist()) & set(range(D))) == number


@every_selector
def test_columns_may_be_permuted(select):
    x, order = data(), rng(1).permutation(D)
    answer, permuted = select(x), select(x[:, order])
    found = np.asarray(permuted.indices)
    np.testing.assert_array_equal(np.where(found < 0, -1, order[found]), answer.indices)


@every_selector
def test_selector_lowers_for_cpu_cuda_and_tpu(select):
    shape = jax.ShapeDtypeStruct((N, D), jnp.float32)
    platforms = ("cpu", "cuda", "tpu")
    exported = jax.export.export(jax.jit(lambda x: select(x)), platforms=platforms)(shape)
    assert exported.platforms == platforms
    assert [a.dtype for a in exported.out_avals] == ["int32", "float32", "int32"]


@every_selector
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nothing_is_ranked_beside_nan(select, bad):
    x = data()
    x[2, 3] = bad
    answer = select(x)
    assert np.all(answer.indices == -1)
    assert np.all(np.isnan(answer.objective))
