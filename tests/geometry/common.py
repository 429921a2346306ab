"""What the three geometry tests share."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.helpers import directional_difference, rng

#: float32 values against float64 ones, on matrices of condition number ≤ 100.
FLOAT32 = 2e-5


def derivative_check(f):
    """A check of the derivatives of a function that returns named numbers, compiled once.

    `check(x, dx)`: forward and reverse derivatives at the pytree `x` along `dx` equal central
    differences to 1e-6 (of their size, or of 1 if that is larger), and gradients are finite.
    """
    value = jax.jit(f)

    @jax.jit
    def derivatives(x, dx):
        def along(gradient):
            products = jax.tree.map(lambda g, d: jnp.sum(g * d), gradient, dx)
            finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)]
            return sum(jax.tree.leaves(products)), jnp.all(jnp.stack(finite))

        return jax.jvp(f, (x,), (dx,))[1], {k: along(g) for k, g in jax.jacrev(f)(x).items()}

    def check(x, dx, rtol=1e-6):
        x, dx = jax.tree.map(jnp.asarray, (x, dx))
        expected = directional_difference(value, x, dx)
        forward, reverse = derivatives(x, dx)
        for name, number in expected.items():
            tolerance = rtol * max(1, abs(number))
            backward, finite = reverse[name]
            assert finite, name
            assert abs(forward[name] - number) <= tolerance, (name, forward[name], number)
            assert abs(backward - number) <= tolerance, (name, backward, number)

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
