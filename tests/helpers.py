"""Helpers of several test modules: tolerances by dtype, test matrices, finite differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

#: Maximum relative error of a well-conditioned computation.
RTOL = {"float32": 1e-4, "float64": 1e-10}

#: Maximum relative error of float32 gradients, compared with float64 gradients.
FLOAT32_GRADIENT = 1e-3


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def relative_error(got, expected) -> float:
    """max |got − expected| / max |expected|, or the absolute error if `expected` is all zero."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape, f"{got.shape} against {expected.shape}"
    return float(np.max(np.abs(got - expected)) / (np.max(np.abs(expected)) or 1.0))


def assert_close(got, expected, rtol: float) -> None:
    error = relative_error(got, expected)
    assert error <= rtol, f"relative error {error:.2e} > {rtol:.0e}"


def directional_difference(f, x, direction, step: float = 1e-5):
    """Central difference of `f` at `x` along `direction`.

    Richardson extrapolation makes the truncation error negligible. `f` is called four times, so
    pass a jitted function.
    """

    def at(h):
        return f(jax.tree.map(lambda a, d: a + h * d, x, direction))

    def central(h):
        return jax.tree.map(lambda p, m: (p - m) / (2 * h), at(h), at(-h))

    fine, coarse = central(step), central(2 * step)
    return jax.tree.map(lambda p, q: (4 * p - q) / 3, fine, coarse)


@functools.lru_cache(maxsize=4)
def _value_and_derivatives(f):
    """A function that returns the value, the forward and the reverse derivative, as one program.

    The finite differences use the same program, because most of the time of a test is compilation.
    """

    @jax.jit
    def all_three(x, direction):
        value, push = jax.linearize(f, x)
        (gradient,) = jax.linear_transpose(push, x)(jnp.ones_like(value))
        reverse = sum(jax.tree.leaves(jax.tree.map(jnp.vdot, gradient, direction)))
        return value, push(direction), reverse

    return all_three


def assert_derivatives(f, x, *directions, rtol: float = 1e-6, step: float = 1e-5) -> None:
    """Assert that forward and reverse derivatives of a scalar function equal finite differences.

    The derivatives are taken along each of the `directions`. Calls with the same `f` and the same
    shapes share one program.
    """
    x, *directions = (jax.tree.map(jnp.asarray, tree) for tree in (x, *directions))
    all_three = _value_and_derivatives(f)
    for direction in directions:
        expected = directional_difference(
            lambda x, along=direction: all_three(x, along)[0], x, direction, step
        )
        _, forward, reverse = all_three(x, direction)
        assert_close(forward, expected, rtol)
        assert_close(reverse, expected, rtol)


def spd(d: int, seed: int = 0, batch: tuple[int, ...] = ()) -> np.ndarray:
    """Well-conditioned random positive definite matrices."""
    a = rng(seed).normal(size=(*batch, d, d))
    return a @ np.swapaxes(a, -1, -2) / d + 0.5 * np.eye(d)


def symmetric(d: int, seed: int = 0) -> np.ndarray:
    a = rng(seed).normal(size=(d, d))
    return 0.5 * (a + a.T)


def circulant(d: int = 6) -> np.ndarray:
    """A symmetric circulant, positive definite matrix; its eigenvalues repeat by symmetry."""
    first = np.array([2.0, 0.6, 0.25, 0.1, 0.25, 0.6])[:d]
    return np.stack([np.roll(first, i) for i in range(d)])


def duplicated(d: int = 6, seed: int = 3) -> np.ndarray:
    """A Gram matrix with two equal rows and columns, as of duplicate features, plus a ridge."""
    a = rng(seed).normal(size=(d, d))
    a[-1] = a[-2]
    return a @ a.T / d + 0.3 * np.eye(d)


def degenerate_matrices(d: int = 6) -> dict[str, np.ndarray]:
    """Positive definite matrices. Derivatives through eigenvectors fail for most of them."""
    clustered = np.diag(1.0 + np.array([0.0, 0.0, 1e-12, 1e-9, 1e-6, 1e-3])[:d])
    return {
        "identity": np.eye(d),
        "diag(2,2,1)": np.diag(np.resize([2.0, 2.0, 1.0], d)),
        "circulant": circulant(d),
        "duplicated": duplicated(d),
        "clustered": clustered,
        "random": spd(d, seed=1),
    }
