"""What every public score promises, in one suite. A new score registers in `SCORES` with one line.

An entry is called as `score(x, y, weights)`; `two_classes` and `supervised` adapt the signatures.
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

N, D = 40, 6
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


SCORES = {
    "manifest_score": two_classes(jaxfs.manifest_score),
    "manifest_score spsd": two_classes(jaxfs.manifest_score, geometry="spsd", rank=3),
    "manifest_multiclass_score": supervised(jaxfs.manifest_multiclass_score),
}

every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES.keys())
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


@functools.cache
def compiled(score):
    return jax.jit(lambda x, weights=None: score(x, weights=weights))


@every_score
@both_dtypes
def test_shape_and_dtype(score, dtype):
    answer = score(data(dtype=dtype))
    assert isinstance(answer, jax.Array)
    chex.assert_shape(answer, (D,))
    assert answer.dtype == dtype


@every_score
def test_larger_is_better(score):
    assert set(np.argsort(score(data()))[-2:]) == {0, 1}


@every_score
@both_dtypes
def test_features_may_be_permuted(score, dtype):
    x, order = data(dtype=dtype), rng(1).permutation(D)
    assert_close(score(x[:, order]), score(x)[order], SAME[dtype])


@every_score
def test_jit_is_eager(score):
    x = data(1)
    assert_close(compiled(score)(x), score(x), SAME["float64"])


@every_score
def test_vmap_is_a_loop(score):
    x = np.stack([data(seed) for seed in range(3)])
    batched = jax.vmap(lambda x: score(x))(x)
    assert_close(batched, np.stack([compiled(score)(a) for a in x]), SAME["float64"])


@every_score
def test_the_same_shapes_compile_once(score):
    chex.clear_trace_counter()
    traced_once = jax.jit(chex.assert_max_traces(lambda x, w: score(x, weights=w), n=1))
    traced_once(data(1), np.ones(N))
    traced_once(data(2), np.full(N, 0.5))


@every_score
def test_lowers_for_cpu_cuda_and_tpu(score):
    def value_and_gradient(x):
        return score(x), jax.grad(lambda x: jnp.sum(score(x)))(x)

    shape = jax.ShapeDtypeStruct((N, D), jnp.float32)
    platforms = ("cpu", "cuda", "tpu")
    exported = jax.export.export(jax.jit(value_and_gradient), platforms=platforms)(shape)
    assert exported.platforms == platforms


def padded(x: np.ndarray, content: float) -> tuple[np.ndarray, np.ndarray]:
    """Each half with three rows of `content` that have no weight."""
    blank = np.full((3, D), content, x.dtype)
    halves = np.split(x, 2)
    rows = np.concatenate([halves[0], blank, halves[1], blank])
    return rows, np.tile(np.repeat([1, 0], [N // 2, 3]), 2).astype(x.dtype)


@every_score
@both_dtypes
def test_padding_without_weight_changes_nothing(score, dtype):
    x, labels = data(dtype=dtype), np.repeat([0, 1], N // 2 + 3)
    rows, weights = padded(x, 7.0)
    answer = score(rows, labels, weights)
    assert_close(answer, score(x), SAME[dtype])
    for content in (np.nan, np.inf, -1e30):
        assert np.array_equal(score(padded(x, content)[0], labels, weights), answer)


@every_score
@both_dtypes
def test_gradients_are_finite_and_padding_has_none(score, dtype):
    x, labels = data(dtype=dtype), np.repeat([0, 1], N // 2 + 3)
    rows, weights = padded(x, np.nan)
    total = jax.jit(jax.grad(lambda rows: jnp.sum(score(rows, labels, weights))))
    gradient = total(rows)
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[weights == 0] == 0)
    assert np.any(gradient[weights == 1] != 0)


@every_score
def test_weights_count_samples(score):
    """A weight of 2 is the sample twice."""
    x = data(3)
    doubled = np.concatenate([x[:1], x[: N // 2], x[N // 2 : N // 2 + 1], x[N // 2 :]])
    weights = np.ones(N)
    weights[[0, N // 2]] = 2
    labels = np.repeat([0, 1], N // 2 + 1)
    assert_close(score(x, Y, weights), score(doubled, labels), SAME["float64"])


@every_score
def test_array_api_input(score):
    x = data()
    assert_close(score(array_api_strict.asarray(x)), score(x), 0)


@every_score
def test_torch_input(score):
    torch = pytest.importorskip("torch")
    x = data()
    assert_close(score(torch.asarray(x, requires_grad=True)), score(x), 0)


@every_score
def test_integers_are_data(score):
    x = np.round(10 * data()).astype(int)
    assert_close(score(x), score(x.astype(float)), 0)


@every_score
@both_dtypes
def test_nan_reaches_the_scores_it_touches(score, dtype):
    x = data(dtype=dtype)
    clean = np.asarray(score(x))
    x[2, 3] = np.nan
    answer = np.asarray(score(x))
    assert np.isnan(answer[3])
    others = np.isnan(answer) | (np.abs(answer - clean) <= SAME[dtype] * np.abs(clean).max())
    assert np.all(others), "a score is neither NaN nor what it was"


@every_score
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


@every_score
def test_weights_of_another_length_are_named(score):
    with pytest.raises(ValueError, match=r"weights\w? must be of shape \(\d+,\), one weight"):
        score(data(), Y, np.ones(N + 2))
