"""Public functions convert or refuse numbers that do not fit into 32 bits, and masked arrays."""

import contextlib

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs import _checks
from jaxfs.estimators import FilterSelector, RReliefF
from tests.helpers import assert_close, rng

LARGE = 3_000_000_000
Y = np.repeat([0, 1], 5)
X = rng().normal(size=(10, 3))


@pytest.fixture(autouse=True)
def without_x64():
    with jax.enable_x64(False):
        yield


@pytest.mark.parametrize(
    "kind", [np.array, list, array_api_strict.asarray], ids=["numpy", "list", "array API"]
)
def test_large_integers_keep_their_order(kind):
    scores = kind([1, LARGE, 2]), kind([1, 2, 3])
    assert_close(jaxfs.combine_scores(*scores), [0.0, 1.5, 1.0], 1e-6)


def test_torch_integers_keep_their_order():
    torch = pytest.importorskip("torch")
    assert_close(jaxfs.combine_scores(torch.tensor([1, LARGE, 2])), [0.0, 1.0, 0.0], 1e-6)


def test_tensors_that_require_a_gradient_are_refused():
    """A plain function would lose the gradient without a word."""
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X, requires_grad=True)
    with pytest.raises(ValueError, match=r"x must be an array without a gradient, .*interop\.wrap"):
        jaxfs.variance_score(tensor)
    assert_close(jaxfs.variance_score(tensor.detach()), X.var(axis=0), 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_named(dtype):
    message = rf"x must be of dtype float32 or float64, got (torch\.)?{dtype}; cast it first"
    given = [X.astype(getattr(jnp, dtype).dtype), jnp.asarray(X, dtype)]
    with contextlib.suppress(ImportError):
        import torch

        given.append(torch.tensor(X).to(getattr(torch, dtype)))
    for x in given:
        with pytest.raises(ValueError, match=message):
            jaxfs.variance_score(x)


@pytest.mark.parametrize("dtype", ["int64", "uint64", ">i8", ">f8"])
def test_wide_numbers_are_cast_and_not_wrapped(dtype):
    x = rng(1).integers(0, 2**40, (10, 3)).astype(dtype)
    assert_close(jaxfs.variance_score(x), x.astype(float).var(axis=0), 1e-6)


def test_large_integers_are_weights_targets_and_masks():
    weights = np.where(np.arange(10) < 4, 2**32, 0)  # 2**32 wraps to 0 in 32 bits
    expected = jaxfs.variance_score(X[:4])
    assert_close(jaxfs.variance_score(X, weights=np.where(weights > 0, LARGE, 0)), expected, 1e-6)
    assert_close(jaxfs.variance_score(X, weights=weights), expected, 1e-6)
    assert_close(jaxfs.pearson_score(X, LARGE * Y), jaxfs.pearson_score(X, Y), 1e-6)
    d2 = jaxfs.kernels.squared_distances(X)
    near = jaxfs.soft_knn(d2, 1, gamma=0, mask=2**32 * (1 - np.eye(10, dtype=int))).nearest
    np.testing.assert_array_equal(jnp.diag(near), np.zeros(10))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_labels_do_not_wrap(dtype):
    y = (Y + 2**32).astype(dtype)
    with pytest.raises(ValueError, match=r"y must be in 0 … 1 .* got the label 4294967296"):
        jaxfs.fisher_score(X, y, num_classes=2)
    with pytest.raises(ValueError, match=r"labels must be in 0 … 1 .* got the label 4294967296"):
        jaxfs.evaluate.clustering_accuracy(y, Y, num_classes=2)
    with pytest.raises(ValueError, match=r"clusterings must be in .* got the label 4294967296"):
        jaxfs.evaluate.clustering_stability(np.stack([y, y]), num_clusters=2)


def test_integers_that_must_stay_integers_are_refused():
    expected = r"must be within the range of int32, got 4294967296; JAX has 64-bit integers only"
    with pytest.raises(ValueError, match=rf"indices {expected}"):
        jaxfs.gc_objective(X, Y, [2**32, 1], num_classes=2)
    with pytest.raises(ValueError, match=rf"indices {expected}"):
        jaxfs.graphs.knn_adjacency([[1], [2**32]])
    mapped = jaxfs.distributed.map_datasets(lambda x: x, jax.make_mesh((1,), ("data",)))
    with pytest.raises(ValueError, match=rf"argument 0 {expected}"):
        mapped(np.array([[2**32]]))


REFUSED = {
    "x": lambda large: jaxfs.variance_score(large * X),
    "weights": lambda large: jaxfs.variance_score(X, weights=np.full(10, large)),
    "y": lambda large: jaxfs.pearson_score(X, large * (1 + Y)),
    "scores": lambda large: jaxfs.combine_scores([0.0, large]),
    "a": lambda large: jaxfs.linalg.sqrtm(large * np.eye(2)),
    "thresholds": lambda large: jaxfs.adaboost.fit(X, Y, thresholds=large),
    "scale": lambda large: jaxfs.soft_knn(X, 1, gamma=0.1, scale=large),
    "x of a block": lambda large: jaxfs.streaming.from_blocks(lambda: [(large * X, Y)]),
    "weights of a block": lambda large: jaxfs.streaming.from_blocks(
        lambda: [(X, Y, np.full(10, large))]
    ),
    "X": lambda large: FilterSelector(dtype="float32").fit(np.append(X, large * X, axis=1), Y),
}


@pytest.mark.parametrize("number", [1e300, 1e-300])
@pytest.mark.parametrize("name", REFUSED)
def test_numbers_beyond_float32_are_refused(name, number):
    expected = rf"^{name} must be within the range of float32, got -?\S+; rescale it, or compute in"
    if (name, number) == ("X", 1e300):
        expected = r"contains NaN or infinity: column 3 \(10 infinite\).* in float32 does not"
    with pytest.raises(ValueError, match=expected):
        REFUSED[name](number)


def test_the_dtype_of_x_decides_with_x64_too():
    with jax.enable_x64(True), pytest.raises(ValueError, match=r"y must be within the range of"):
        jaxfs.pearson_score(X.astype(np.float32), 1e300 * Y)
    with pytest.raises(ValueError, match=r"y must be within the range of float32, got 1e\+300"):
        RReliefF().fit(X.astype(np.float32), 1e300 * Y)


def test_small_numbers_next_to_larger_ones_are_rounded():
    x = np.where(np.arange(10)[:, None] % 2 == 0, 1e-300, X)
    assert_close(jaxfs.variance_score(x), x.var(axis=0), 1e-5)


def test_jax_arrays_of_64_bits_are_checked_where_x64_is_off():
    with jax.enable_x64(True):
        x, codes = jnp.asarray(1e300 * X), jnp.asarray(Y + 2**32)
    with pytest.raises(ValueError, match=r"x must be within the range of float32"):
        jaxfs.variance_score(x)
    with pytest.raises(ValueError, match=r"got the label 4294967296"):
        jaxfs.fisher_score(X, codes, num_classes=2)


def test_other_dtypes_are_named():
    with pytest.raises(ValueError, match=r"x must be of dtype float32 or float64, got float128"):
        jaxfs.variance_score(X.astype(np.longdouble))
    with pytest.raises(ValueError, match=r"y must be an array of real numbers, got dtype key"):
        jaxfs.pearson_score(X, jax.random.split(jax.random.key(0), 10))


MASKED = np.ma.masked_array(X, X > 1)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("x", lambda: jaxfs.variance_score(MASKED)),
        ("x", lambda: jaxfs.variance_score(list(MASKED))),
        ("weights", lambda: jaxfs.variance_score(X, weights=np.ma.masked_equal(Y, 1))),
        ("y", lambda: jaxfs.fisher_score(X, np.ma.masked_equal(Y, 1), num_classes=2)),
        ("sigma", lambda: jaxfs.kernels.rbf(X, np.ma.masked)),
        ("a block", lambda: jaxfs.streaming.from_blocks(lambda: [(MASKED, Y)])),
        ("data set 0", lambda: jaxfs.distributed.bucket([MASKED])),
        ("X", lambda: FilterSelector().fit(MASKED, Y)),
        ("y", lambda: FilterSelector().fit(X, np.ma.masked_equal(Y, 1))),
        ("X", lambda: FilterSelector().fit(X, Y).transform(MASKED)),
    ],
)
def test_masked_arrays_are_refused(name, call):
    expected = (
        rf"^{name} must be an array without a mask, got a masked array; use \.filled\(value\)"
    )
    with pytest.raises(ValueError, match=expected):
        call()


def test_traced_labels_of_64_bits_stay_so():
    """A 64-bit code that is out of range must not wrap to a valid code in 32 bits."""
    with jax.enable_x64(True):
        traced = jax.make_jaxpr(lambda y: _checks.labels(y, "y", 10, 2))(jnp.asarray(Y))
        assert traced.out_avals[0].dtype == jnp.int64
        assert _checks.labels(Y, "y", 10, 2).dtype == jnp.int32


# ---- What the fuzz test found -------------------------------------------------------------------

KEY = jax.random.key(0)
MISTAKES = {
    r"key must be a key, as from jax.random.key, got int": lambda: jaxfs.stability(
        0, lambda x, y, w: x[0], X, num_resamples=2, fraction=0.5, num_features=1
    ),
    r"key must be one key, got shape \(2,\)": lambda: jaxfs.ssfs(
        jax.random.split(KEY), X, num_pseudo_labels=1
    ),
    r"key must be a key, .* got float": lambda: jaxfs.gc_select(
        X, Y, 1, num_classes=2, fallback="random", key=0.5
    ),
    r"objective must be one of 'mi', 'entropy', got array\(": lambda: jaxfs.gc_select(
        X, Y, 1, num_classes=2, objective=np.ones(3)
    ),
    r"sigma must be a real number, got \[\[1.0\]": lambda: jaxfs.kernels.rbf(
        X, [[1.0], [2.0, 3.0]]
    ),
    r"y must be such that each of 1000000000 classes has samples, got 10 labels": lambda: (
        jaxfs.fisher_score(X, Y, num_classes=10**9)
    ),
    r"num_clusters must be such that a table has < 2²⁸ entries, got 10{9} × 10{9}": lambda: (
        jaxfs.evaluate.variation_of_information(Y, Y, num_clusters=10**9)
    ),
    r"num_clusters must be such that a table has < 2²⁸ entries, got 10{9} × 2": lambda: (
        jaxfs.evaluate.clustering_accuracy(Y, Y, num_classes=10**9, num_clusters=2)
    ),
    r"num_classes must be such that a table has < 2²⁸ entries": lambda: jaxfs.streaming.anova_score(
        jaxfs.streaming.from_blocks(lambda: [(X, Y)]), 10**9
    ),
    r"optimizer must be None or an optimiser of Optax, got array": lambda: (
        jaxfs.fit_dirichlet_selector(KEY, X, 1, optimizer=np.ones(3))
    ),
    r"model must be a Stumps, as `fit` gives, got int": lambda: jaxfs.adaboost.predict(0, X),
    r"model must be a BoostingFit, as `fit` gives": lambda: jaxfs.surrogates.boosting.predict(0, X),
    r"soft must be a SoftKNN, as `soft_knn` gives": lambda: jaxfs.transport.soft_weights(X, (X, X)),
    r"source must be a Source, as `from_blocks`": lambda: jaxfs.streaming.variance_score(X),
    r"read must be a function that gives blocks, got 3": lambda: jaxfs.streaming.from_blocks(3),
    r"datasets must be an iterable of data sets": lambda: jaxfs.distributed.bucket(3),
    r"mesh must be a mesh, as of jax.make_mesh": lambda: jaxfs.distributed.map_datasets(len, 3),
    r"score must be a function of the arrays": lambda: jaxfs.distributed.map_datasets(3, 3),
    r"matvec must be a function of blocks": lambda: jaxfs.linalg.leading_eigenpairs(KEY, 3, 5, 1),
    r"dtype must be float32 or float64, got 'text'": lambda: jaxfs.manifest_cost(
        9, 9, dtype="text"
    ),
    r"f must be a function, got 3": lambda: jaxfs.linalg.spectral_function(np.eye(2), 3, 3),
    r"s must be an SPSD": lambda: jaxfs.geometry.spsd.absm_diagonal(np.eye(2)),
    r"t must be a number or of shape \(\), as": lambda: jaxfs.linalg.powm(np.eye(2), np.ones(3)),
    r"a must be square": lambda: jaxfs.linalg.eigh(np.ones((2, 3))),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()


class OnGPU:
    """An array of CuPy or PyTorch in the memory of a GPU, as far as there can be one here."""

    dtype, shape, device = np.dtype("float32"), (10, 3), "cuda:0"

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        raise BufferError("no such device")

    def __array__(self, *_):
        raise AssertionError("the array passed through the host")


def test_arrays_on_a_gpu_do_not_pass_through_the_host(monkeypatch):
    message = "x must be contiguous, on a device that JAX has, got OnGPU on cuda:0"
    with pytest.raises(ValueError, match=message):
        jaxfs.variance_score(OnGPU())
    # With a GPU, JAX reads the memory where it is.
    monkeypatch.setattr(jnp, "from_dlpack", lambda x: jnp.asarray(X, x.dtype))
    assert_close(jaxfs.variance_score(OnGPU()), X.var(axis=0), 1e-6)


def test_cuda_array_interface_counts_as_gpu():
    class Numba:
        __cuda_array_interface__: dict = {}  # noqa: RUF012

    assert _checks.on_accelerator(Numba())
    assert not any(
        map(_checks.on_accelerator, (X, jnp.asarray(X), [1.0], array_api_strict.ones(2)))
    )
