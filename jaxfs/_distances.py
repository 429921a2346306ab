"""Squared distances by one matrix product that keep the digits of the small ones.

D = ‖a‖² + ‖b‖² − 2 a·b cancels when a and b are close together and far from the origin. The points
are therefore centred twice before they are multiplied, and what is left of rounding becomes 0.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs._numerics import eps, matmul, safe_divide, symmetrize


class Points(NamedTuple):
    """Points as x = centre + level + rest, with sums over the coordinates of the rest.

    The centre is near the mean point and the level near each point's own mean over the coordinates:
    then neither an offset common to all points nor one between them (features in different units)
    costs a small distance its digits. In exact arithmetic any centre and level give the same
    distances, so both are constants to differentiation.
    """

    rest: Float[Array, "n p"]
    level: Float[Array, "n"]
    total: Float[Array, "n"]  # Σ_p w_p rest_ip
    norm: Float[Array, "n"]  # Σ_p w_p rest_ip²


def mean_point(
    x: Float[Array, "n p"], w: Float[Array, "p"], present: Bool[Array, "n"]
) -> Float[Array, "1 p"]:
    """The centre of the points that are present, over the entries that are regular."""
    x = lax.stop_gradient(_regular(x, w))
    used = present[:, None] & ~jnp.isnan(x)
    return _coarse_mean(jnp.where(used, x, jnp.zeros_like(x)), used.astype(x.dtype), axis=0)


def centred(
    x: Float[Array, "n p"],
    w: Float[Array, "p"],
    centre: Float[Array, "1 p"],
    present: Bool[Array, "n"] | None = None,
) -> Points:
    """`x` as `Points` about a centre; points that are not present are put there."""
    x = _regular(x, w) - centre
    if present is not None:
        x = jnp.where(present[:, None], x, jnp.zeros_like(x))
    level = _coarse_mean(lax.stop_gradient(x), jnp.broadcast_to(w, x.shape), axis=1)
    rest = x - level
    weighted = rest * w[None, :]
    return Points(rest, level[:, 0], jnp.sum(weighted, axis=1), jnp.sum(weighted * rest, axis=1))


def squarable(x: Float[Array, "n p"]) -> Bool[Array, "n p"]:
    """Finite, and small enough for a squared distance of p such coordinates to be."""
    return jnp.abs(x) < math.sqrt(float(jnp.finfo(x.dtype).max) / max(1, x.shape[1])) / 8


def _regular(x: Float[Array, "n p"], w: Float[Array, "p"]) -> Float[Array, "n p"]:
    """NaN for what is not squarable, but 0 if its weight is 0: then 0 · anything is 0."""
    instead = jnp.where(w == 0, jnp.zeros_like(w), jnp.nan)[None, :]
    return jnp.where(squarable(x), x, instead)


def _coarse_mean(x: Array, weights: Array, axis: int) -> Array:
    """Within one standard deviation of the weighted mean of `x`, and a round number in binary.

    A multiple of a power of two of that size: subtracting it keeps integers, and all data on a
    binary grid, exact. Distances that tie in exact arithmetic then tie in floating point.
    """
    mass = jnp.sum(weights, axis=axis, keepdims=True)
    average = lambda v: safe_divide(jnp.sum(weights * v, axis=axis, keepdims=True), mass)  # noqa: E731
    mean = average(x)
    mean = mean + average(x - mean)  # the second pass removes the rounding of the first
    deviation = jnp.sqrt(average(jnp.square(x - mean)))
    grid = jnp.ldexp(jnp.ones_like(deviation), jnp.frexp(deviation)[1])
    return jnp.where(deviation == 0, mean, jnp.round(mean / grid) * grid)


def within(
    x: Float[Array, "n p"], w: Float[Array, "p"], present: Bool[Array, "n"]
) -> Float[Array, "n n"]:
    """Squared distances among the points of one set."""
    a = centred(x, w, mean_point(x, w, present), present)
    gram = symmetrize(matmul(a.rest * w[None, :], jnp.matrix_transpose(a.rest)))
    # Norms summed in the order of the products: what both round alike cancels.
    a = a._replace(norm=jnp.diagonal(gram))
    return _assemble(a, a, gram, w)


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
