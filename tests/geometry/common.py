"""What the three geometry tests share."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.helpers import assert_close, directional_difference, rng

#: float32 values against float64 ones, on matrices of condition number ≤ 100.
FLOAT32 = 2e-5


def derivative_check(f):
    """A check of a scalar function's derivatives, compiled once and used at many points.

    `check(x, dx)`: forward and reverse derivative at the pytree `x` along `dx` against central
    differences; the gradient is finite throughout.
    """
    value = jax.jit(f)

    @jax.jit
    def derivatives(x, dx):
        gradient = jax.grad(f)(x)
        products = jax.tree.map(jnp.vdot, gradient, dx)
        finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)]
        return (
            jax.jvp(f, (x,), (dx,))[1],
            sum(jax.tree.leaves(products)),
            jnp.all(jnp.stack(finite)),
        )

    def check(x, dx, rtol=1e-6):
        x, dx = jax.tree.map(jnp.asarray, (x, dx))
        expected = directional_difference(value, x, dx)
        forward, reverse, finite = derivatives(x, dx)
        assert finite
        assert_close(forward, expected, rtol)
        assert_close(reverse, expected, rtol)

    return check


def probe(a):
    """A number that depends on every entry of an array, with no symmetry of its own."""
    return jnp.sum(a * jnp.asarray(rng(99).normal(size=a.shape), a.dtype))


def orthonormal(d: int, k: int, seed: int = 0, batch: tuple[int, ...] = ()) -> np.ndarray:
    """Random orthonormal bases."""
    return np.linalg.qr(rng(seed).normal(size=(*batch, d, k)))[0]


def projector(g):
    """G Gᵀ: what a basis says about its subspace."""
    return g @ g.mT


def spread_spd(m: int, d: int, condition: float, seed: int = 0) -> np.ndarray:
    """Positive definite matrices of a given condition number in unrelated eigenbases."""
    v = orthonormal(d, d, seed, (m,))
    w = condition ** np.linspace(-0.5, 0.5, d)
    return (v * w) @ np.swapaxes(v, -1, -2)
