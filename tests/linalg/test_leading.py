"""leading_eigenpairs against a dense eigh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs.linalg import _leading, leading_eigenpairs
from tests.helpers import assert_close, rng

KEY = jax.random.key(0)
D, K = 60, 3


def product(a, v):
    return a @ v


def matrix(seed=0):
    """Indefinite, with a pair of equal eigenvalues among the leading ones."""
    w = np.concatenate([[5.0, 4.0, 4.0], np.linspace(2, -20, D - 3)])
    q = np.linalg.qr(rng(seed).normal(size=(D, D)))[0]
    return (q * w) @ q.T, w


solve = jax.jit(
    lambda key, a, start=None: leading_eigenpairs(
        key, jax.tree_util.Partial(product, a), D, K, start=start, oversample=2, dtype=a.dtype
    )
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_eigh(dtype):
    a, w = matrix()
    out = solve(KEY, a.astype(dtype))
    tolerance = 10 * np.sqrt(np.finfo(dtype).eps)
    assert out.vectors.dtype == out.values.dtype == dtype
    assert out.converged
    assert out.iterations > 0
    assert_close(out.values, w[:K], tolerance)
    vectors = np.asarray(out.vectors, np.float64)
    assert_close(vectors.T @ vectors, np.eye(K), tolerance)
    assert_close(a @ vectors, vectors * w[:K], tolerance)
    assert np.all(np.asarray(out.residuals) <= tolerance * w[0])
    top = np.argmax(np.abs(vectors), axis=0)
    assert np.all(np.take_along_axis(vectors, top[None], axis=0) > 0)


def test_vmap_is_a_loop_and_a_start_saves_rounds():
    stack = np.stack([matrix(seed)[0] for seed in range(2)])
    batched = jax.vmap(lambda a: solve(KEY, a))(stack)
    for i, a in enumerate(stack):
        one = solve(KEY, a)
        assert_close(batched.values[i], one.values, 1e-10)
        again = solve(KEY, a, one.vectors)
        assert again.iterations < one.iterations


def test_small_problems_are_decomposed_whole():
    a = np.diag(np.arange(7.0))
    out = leading_eigenpairs(KEY, lambda v: a @ v, 7, 7)
    assert_close(out.values, np.arange(7.0)[::-1], 1e-12)
    assert_close(out.vectors, np.eye(7)[:, ::-1], 1e-12)
    assert out.converged
    assert out.iterations == 0


def test_what_did_not_converge_is_said_and_nan_ends():
    a, _ = matrix()
    short = leading_eigenpairs(KEY, lambda v: a @ v, D, K, max_iterations=1, tolerance=1e-12)
    assert not short.converged
    assert short.iterations == 1
    assert np.max(short.residuals) > 1e-12
    a[3, 3] = np.nan
    assert np.all(np.isnan(solve(KEY, a).values))


def test_other_arrays_do_not_compile_anew():
    before = _leading._leading_eigenpairs._cache_size()
    for scale in (1.0, 2.0):
        a = jax.tree_util.Partial(product, scale * matrix()[0])
        assert leading_eigenpairs(KEY, a, D, K, oversample=1).converged
    assert _leading._leading_eigenpairs._cache_size() == before + 1


def test_answers_are_constants_and_rayleigh_quotients_are_not():
    a, w = matrix()

    def total(scale):
        scaled = lambda v: scale * (a @ v)  # noqa: E731
        out = leading_eigenpairs(KEY, scaled, D, K, oversample=2)
        return jnp.sum(out.values), jnp.sum(out.vectors * scaled(out.vectors))

    constant, quotient = jax.jacrev(total)(1.0)
    assert constant == 0
    assert_close(quotient, w[:K].sum(), 1e-6)


def test_mistakes_are_named():
    same = lambda v: v  # noqa: E731
    for arguments, options, message in [
        ((same, 4, 5), {}, r"k must be an integer in \[1, 4\], got 5"),
        ((same, 4, 2), {"oversample": -1}, "oversample must be at least 0"),
        ((same, 4, 2), {"dtype": "int32"}, "dtype must be float32 or float64, got int32"),
        ((same, 4, 2), {"tolerance": -1.0}, "tolerance must be at least 0"),
        ((same, 4, 2), {"start": np.ones((3, 2))}, r"start must be of shape \(4, j\)"),
        ((lambda v: v[:2], 4, 2), {}, "matvec must be a function of float64 blocks"),
    ]:
        with pytest.raises(ValueError, match=message):
            leading_eigenpairs(KEY, *arguments, **options)
