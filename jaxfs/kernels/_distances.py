"""Squared distances by one matrix product that keep the digits of the small ones.

D = ‖a‖² + ‖b‖² − 2 a·b cancels when a and b are close together and far from the origin. The points
are therefore centred twice before they are multiplied, and what is left of rounding becomes 0.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import eps, matmul, safe_divide, symmetrize


class Points(NamedTuple):
    """Points as x = centre + level + rest, with sums over the coordinates of the rest.

    The centre `(p,)` takes what all points share, the level what all coordinates of a point share:
    then neither coordinates nor points of different offsets (features in different units) cost a
    small distance its digits. In exact arithmetic any centre and level give the same distances, so
    both are constants to differentiation.
    """

    rest: Float[Array, "n p"]
    level: Float[Array, "n"]
    total: Float[Array, "n"]  # Σ_p w_p rest_ip
    norm: Float[Array, "n"]  # Σ_p w_p rest_ip²


def mean_point(
    x: Float[Array, "n p"], w: Float[Array, "p"], present: Bool[Array, "n"]
) -> Float[Array, "1 p"]:
    """The centre of the points that are present and hold no NaN, each about its own mean."""
    x = lax.stop_gradient(_regular(x, w))
    mean = _mean(x, w[None, :], axis=1)
    used = present[:, None] & ~jnp.isnan(mean)
    return _coarse_mean(jnp.where(used, x - mean, jnp.zeros_like(x)), used.astype(x.dtype), axis=0)


def centred(
    x: Float[Array, "n p"],
    w: Float[Array, "p"],
    centre: Float[Array, "1 p"],
    present: Bool[Array, "n"] | None = None,
) -> Points:
    """`x` as `Points` about a centre; points that are not present are put there."""
    x = _regular(x, w)
    if present is not None:
        x = jnp.where(present[:, None], x, jnp.broadcast_to(centre, x.shape))
    level = _coarse_mean(lax.stop_gradient(x - centre), w[None, :], axis=1)
    # Their sum first, exact since both are coarse: x − centre alone would round a small x away.
    rest = x - (centre + level)
    weighted = rest * w[None, :]
    return Points(rest, level[:, 0], jnp.sum(weighted, axis=1), jnp.sum(weighted * rest, axis=1))


def squarable(x: Float[Array, "n p"]) -> Bool[Array, "n p"]:
    """Finite, and small enough for a squared distance of p such coordinates to be."""
    return jnp.abs(x) < math.sqrt(float(jnp.finfo(x.dtype).max) / max(1, x.shape[1])) / 8


def _regular(x: Float[Array, "n p"], w: Float[Array, "p"]) -> Float[Array, "n p"]:
    """NaN for what is not squarable, but 0 if its weight is 0: then 0 · anything is 0."""
    instead = jnp.where(w == 0, jnp.zeros_like(w), jnp.nan)[None, :]
    return jnp.where(squarable(x), x, instead)


def _mean(x: Float[Array, "n p"], weights: Float[Array, "#n #p"], axis: int) -> Array:
    mass = jnp.sum(weights, axis=axis, keepdims=True)
    return safe_divide(jnp.sum(weights * x, axis=axis, keepdims=True), mass)


def _coarse_mean(x: Float[Array, "n p"], weights: Float[Array, "#n #p"], axis: int) -> Array:
    """Within half a standard deviation of the weighted mean of `x`, and round in binary.

    A multiple of a power of two of that size: subtracting it keeps integers, and all data on a
    binary grid, exact. Distances that tie in exact arithmetic then tie in floating point.
    """
    mean = _mean(x, weights, axis)
    mean = mean + _mean(x - mean, weights, axis)  # which removes the rounding of the first
    deviation = jnp.sqrt(_mean(jnp.square(x - mean), weights, axis))
    grid = power_of_two(deviation)
    coarse = jnp.round(mean / jnp.where(grid == 0, jnp.ones_like(grid), grid)) * grid
    return jnp.where(grid == 0, mean, coarse)


def power_of_two(x: Array) -> Array:
    """The largest power of two up to x, and 0 for 0: the float's exponent without its digits."""
    kind, exponent = (
        (jnp.int32, 0x7F800000) if x.dtype == jnp.float32 else (jnp.int64, 0x7FF0000000000000)
    )
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, kind) & kind(exponent), x.dtype)


@jax.jit
def within(
    x: Float[Array, "n p"], w: Float[Array, "p"], present: Bool[Array, "n"]
) -> Float[Array, "n n"]:
    """Squared distances among the points of one set."""
    a = centred(x, w, mean_point(x, w, present), present)
    gram = symmetrize(matmul(a.rest * w[None, :], jnp.matrix_transpose(a.rest)))
    # Norms summed in the order of the products: what both round alike cancels.
    a = a._replace(norm=jnp.diagonal(gram))
    return _assemble(a, a, gram, w)


@jax.jit
def across(
    x: Float[Array, "n p"], z: Float[Array, "m p"], w: Float[Array, "p"], present: Bool[Array, "m"]
) -> Float[Array, "n m"]:
    """Squared distances from one set of points to another, about the mean of the other."""
    centre = mean_point(z, w, present)
    return between(centred(x, w, centre), centred(z, w, centre, present), w)


def between(a: Points, b: Points, w: Float[Array, "p"]) -> Float[Array, "n m"]:
    """Squared distances between two sets of points about one centre."""
    return _assemble(a, b, matmul(a.rest * w[None, :], jnp.matrix_transpose(b.rest)), w)


def _assemble(a: Points, b: Points, gram: Float[Array, "n m"], w: Array) -> Float[Array, "n m"]:
    """‖(rest_i + level_i) − (rest_j + level_j)‖² from the inner products of the rests."""
    mass = jnp.sum(w)
    outer = lambda u, v: u[:, None] - v[None, :]  # noqa: E731
    shift, tilt = outer(a.level, b.level), outer(a.total, b.total)
    value = outer(a.norm, -b.norm) - 2 * gram + shift * (2 * tilt + mass * shift)
    # Roundings of p terms are random rather than aligned and grow as √p; the bound for aligned
    # ones, p, would swallow true distances. Levels are squared only after they were subtracted.
    ulps = (4 + math.sqrt(w.size)) * eps(value.dtype)
    rounding = lambda c: ulps * (c.norm + ulps * mass * jnp.square(c.level))  # noqa: E731
    resolved = jnp.where(value <= outer(rounding(a), -rounding(b)), jnp.zeros_like(value), value)
    # D is smooth: its derivative at 0 is the formula's, not that of a constant.
    return value + lax.stop_gradient(resolved - value)
