"""Nogueira's measure of how stable a selection of features is."""

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import matmul
from jaxfs._types import Scalar


class SelectionStability(NamedTuple):
    """Nogueira's stability, the variance of its estimate, and its confidence interval `(2,)`."""

    stability: Float[Array, ""]
    variance: Float[Array, ""]
    interval: Float[Array, "2"]


def nogueira(z: Bool[Array, "m d"], confidence: Scalar, dtype) -> SelectionStability:
    """Definition 4, theorem 7 and corollary 9; `z`: which of d features each of m selections has.

    Legend: p_f the frequency of feature f, k_i the size of selection i, k its mean.
    """
    m, d = z.shape
    z = z.astype(dtype)
    p, k_i = jnp.mean(z, axis=0), jnp.sum(z, axis=1) / d  # sizes in units of d
    k = jnp.mean(k_i)
    expected = k * (1 - k)
    stability = 1 - m / (m - 1) * jnp.mean(p * (1 - p)) / expected
    overlap = matmul(z, p[:, None])[:, 0] / d - k_i * k
    phi_i = (overlap + stability / 2 * (2 * k_i * k - k_i - k + 1)) / expected
    variance = 4 / m * jnp.mean(jnp.square(phi_i - jnp.mean(phi_i)))
    reach = ndtri(0.5 + jnp.asarray(confidence, dtype) / 2) * jnp.sqrt(variance)
    ends = jnp.stack([stability - reach, stability + reach])
    return SelectionStability(stability, variance, ends)
