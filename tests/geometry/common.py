"""Helpers of the tests of the three geometries."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.helpers import assert_close, directional_difference, rng

#: Maximum relative error of float32 results for matrices of condition number ≤ 100.
FLOAT32 = 2e-5


class DerivativeCheck:
    """The derivatives of a function that returns named numbers, compiled once for many points."""

    def __init__(self, f):
        @jax.jit
        def values_and_derivatives(x, dx):
            values, push = jax.linearize(f, x)
            pull = jax.linear_transpose(push, x)

            def along(row):
                (gradient,) = pull(dict(zip(values, row, strict=True)))
                products = jax.tree.map(lambda g, d: jnp.sum(g * d), gradient, dx)
                finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)]
                return jnp.where(
                    jnp.all(jnp.stack(finite)), sum(jax.tree.leaves(products)), jnp.nan
                )

            reverse = jax.vmap(along)(jnp.eye(len(values)))
            return values, push(dx), dict(zip(values, reverse, strict=True))

        self.program = values_and_derivatives

    def __call__(self, x, dx, *, kinks=(), rtol=1e-6):
        """Assert that derivatives at the pytree `x` along `dx` equal central differences.

        Forward and reverse derivatives are compared, with the tolerance `rtol` times their size,
        and at least `rtol`. The functions named in `kinks` are not differentiable at `x`; their
        derivatives must only be finite.
        """
        x, dx = jax.tree.map(jnp.asarray, (x, dx))
        expected = directional_difference(lambda x: self.program(x, dx)[0], x, dx)
        _, forward, reverse = self.program(x, dx)
        for name, number in expected.items():
            for got in (forward[name], reverse[name]):
                if name in kinks:
                    assert jnp.isfinite(got), name
                else:
                    assert abs(got - number) <= rtol * max(1, abs(number)), (name, got, number)

    def without(self, x, dx, spoilt):
        """Assert equal derivatives at `spoilt`, which differs from `x` only in ignored entries."""
        expected, got = self.program(x, dx), self.program(spoilt, dx)
        jax.tree.map(lambda p, q: assert_close(p, q, 1e-12), got, expected)


def probe(a):
    """A number that depends on every entry of an array, without any symmetry."""
    return jnp.sum(a * jnp.asarray(rng(99).normal(size=a.shape), a.dtype))


def orthonormal(d: int, k: int, seed: int = 0, batch: tuple[int, ...] = ()) -> np.ndarray:
    """Random orthonormal bases."""
    return np.linalg.qr(rng(seed).normal(size=(*batch, d, k)))[0]


def projector(g):
    """The projector G Gᵀ, which depends on the subspace and not on the choice of basis."""
    return g @ g.mT


def equation_10(g1, g2, t):
    """The Grassmann geodesic of the ManiFeSt paper, as it is printed."""
    o2, sigma, o1t = np.linalg.svd(g2.T @ g1)
    theta = np.arccos(np.clip(sigma, -1, 1))
    x = (np.eye(len(g1)) - g1 @ g1.T) @ g2 @ o2 @ np.linalg.pinv(np.diag(np.sin(theta)))
    return g1 @ o1t.T @ np.diag(np.cos(theta * t)) + x @ np.diag(np.sin(theta * t))


def spread_spd(m: int, d: int, condition: float, seed: int = 0) -> np.ndarray:
    """Positive definite matrices of a given condition number with different eigenvectors."""
    v = orthonormal(d, d, seed, (m,))
    w = condition ** np.linspace(-0.5, 0.5, d)
    return (v * w) @ np.swapaxes(v, -1, -2)
