"""The Gaussian affinity with a scale of its own for every sample, whole or a row at a time."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_sqrt
from jaxfs.kernels._distances import Points, between, centred, mean_point
from jaxfs.kernels._order import attained, smallest


@jax.jit
def decay(d2: Float[Array, "*s"], scale: Float[Array, "#*s"]) -> Float[Array, "*s"]:
    """exp(−d2 / scale), and its limit at scale 0.

    The derivative of a quotient squares its divisor, and a squared small scale is 0: so the divisor
    is the scale in units of itself, 1. Beyond underflow nothing is divided: ∞ times a vanished
    exponential is NaN in the derivative.
    """
    tiny = float(jnp.finfo(d2.dtype).tiny)
    limit = (scale < tiny) | (d2 > -2 * math.log(tiny) * scale)
    scale = jnp.where(scale < tiny, 1.0, scale)
    unit = lax.stop_gradient(scale)
    quotient = (jnp.where(limit, 0.0, d2) / unit) * (1 / (1 + (scale - unit) / unit))
    at_limit = jnp.where(d2 > 0, 0.0, 1.0 + lax.stop_gradient(d2))  # 1 at 0, and NaN stays NaN
    return jnp.where(limit, at_limit, jnp.exp(-quotient))


@functools.partial(jax.jit, static_argnums=0)
def self_tuning(k: int, d2: Float[Array, "n n"], present: Bool[Array, "n"]) -> Float[Array, "n n"]:
    others = present[None, :] & ~jnp.eye(d2.shape[0], dtype=bool)
    sigma = safe_sqrt(jax.vmap(functools.partial(_local_scale, k))(d2, others))
    affinity = decay(d2, sigma[:, None] * sigma[None, :])
    return jnp.where(present[:, None] & present[None, :], affinity, jnp.zeros_like(affinity))


def _local_scale(k: int, d2: Float[Array, "n"], others: Bool[Array, "n"]) -> Float[Array, ""]:
    """σ_i² of one row."""
    row = jnp.where(others, lax.stop_gradient(d2), jnp.inf)
    unknown = jnp.any(jnp.isnan(row))
    kth = smallest(jnp.where(unknown, jnp.zeros_like(row), row), k)[0][-1]
    positive = jnp.min(row, where=row > 0, initial=jnp.inf)
    positive = jnp.where(jnp.isinf(positive), jnp.zeros_like(kth), positive)
    kth = jnp.where(unknown | jnp.isinf(kth), jnp.nan, jnp.where(kth == 0, positive, kth))
    return attained(d2, others, kth)


# ---- Of very many samples -----------------------------------------------------------------------

#: Numbers of a block of rows.
BLOCK = 2**23


class Rows(NamedTuple):
    """The affinity of samples whose n × n matrix is never held: its rows are computed anew."""

    points: Points
    scales: Float[Array, "n"]
    present: Bool[Array, "n"]

    def times(self, v: Float[Array, "n b"]) -> Float[Array, "n b"]:
        """The product with a few vectors."""

        def row(i):
            d2 = _distances(self.points, i)
            weights = decay(d2, self.scales[i] * self.scales)
            here = self.present & self.present[i]
            return matmul(jnp.where(here, weights, 0.0)[None], v)[0]

        return _by_rows(row, self.present.size)


def rows_of_affinity(x: Float[Array, "n p"], k: int, present: Bool[Array, "n"]) -> Rows:
    """`self_tuning` of the squared distances of `x`, to rounding, in memory for some rows."""
    w = jnp.ones(x.shape[1], x.dtype)
    points = centred(x, w, mean_point(x, w, present), present)

    def scale(i):
        others = present & (jnp.arange(present.size) != i)
        return _local_scale(k, _distances(points, i), others)

    return Rows(points, safe_sqrt(_by_rows(scale, present.size)), present)


def _distances(points: Points, i: Int[Array, ""]) -> Float[Array, "n"]:
    one = jax.tree.map(lambda a: a[i][None], points)
    return between(one, points, jnp.ones(points.rest.shape[1], points.rest.dtype))[0]


def _by_rows(function, n: int) -> Array:
    """`function` of every row's number; the last block is filled up with rows done already."""
    size = max(1, min(n, BLOCK // n))
    out = lax.map(function, jnp.arange(n + -n % size) % n, batch_size=size)
    return out[:n]
