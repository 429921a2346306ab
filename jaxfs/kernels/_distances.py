"""Distances between points, and the Gaussian affinity with one scale per point.

Squared distances come from one matrix product. The formula D = ‖a‖² + ‖b‖² − 2 a·b loses digits by
cancellation when a and b are close together and far from the origin. The points are therefore
centred twice before they are multiplied, and distances at the level of rounding are set to 0.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import (
    attained,
    decay,
    eps,
    map_chunks,
    matmul,
    safe_divide,
    safe_sqrt,
    smallest,
    symmetrize,
)
from jaxfs._types import ArrayLike

#: Maximum number of entries in a block of rows of a self-tuning affinity.
BLOCK = 2**23
#: Number of coordinates added in one loop of `manhattan`. With 8 coordinates the sums are written
#: to memory too often; with 32 the loop runs out of registers. Both were slower on CPU. A reduction
#: over the axis of coordinates, instead of the explicit sum, took a hundred times as long.
_TOGETHER = 16


def squared_distances(
    x: ArrayLike,
    z: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> Float[Array, "n m"]:
    """Squared Euclidean distances between points: D_ij = Σ_p w_p (x_ip − z_jp)².

    **Arguments**

    - `x`: `(n, p)`, one point per row.
    - `z`: `(m, p)`; `x` itself by default.
    - `weights`: `(p,)`, nonnegative; ones by default. A coordinate of weight 0 is ignored.
    - `mask`: `(m,)`, false or 0 for rows of `z` (by default of `x`) that are padding. These
      rows do not affect the distances of other rows; their own distances are meaningless.

    **Returns** `(n, m)`. Without `z` the result is exactly symmetric, with an exact zero diagonal.

    **Numerics** one matrix product of centred points. Distances at the level of rounding,
    D_ij ≤ (4 + √p)·eps·(‖a_i‖² + ‖b_j‖²) with a, b the centred points, are set to exactly 0, so
    duplicates have distance 0. The result is exact for integers small enough for exact products. A
    coordinate that is not finite, or whose square overflows, makes the distances of its point NaN,
    and no other distances.

    **Derivatives** in `x`, `z` and `weights`: the derivatives of the formula, also at distance 0.

    **Cost** one product of `(n, p)` and `(p, m)`; memory O(nm + np + mp).

    >>> import jax.numpy as jnp
    >>> squared_distances(jnp.array([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    x = _checks.real(x, "x", ndim=2)
    w = coordinate_weights(weights, x, "coordinate")
    if z is None:
        return within(x, w, None if mask is None else _checks.presence(mask, x.shape[0]))
    z = _checks.real(z, "z", ndim=2)
    _checks.alike(x, z, "x and z", axes=slice(1, None))
    return _across(x, z, w, _checks.presence(mask, z.shape[0]))


def feature_squared_distances(
    x: ArrayLike, *, weights: ArrayLike | None = None
) -> Float[Array, "d d"]:
    """Squared distances between the columns of `x`: D_ij = Σ_n w_n (x_ni − x_nj)².

    **Arguments**

    - `x`: `(n, d)`.
    - `weights`: `(n,)`, nonnegative sample weights; ones by default. A sample of weight 0 is
      ignored.

    **Returns** `(d, d)`: `squared_distances` of the transpose of `x`, with the same properties.

    >>> import jax.numpy as jnp
    >>> feature_squared_distances(jnp.array([[0.0, 3.0], [0.0, 4.0]])).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    x = jnp.matrix_transpose(_checks.real(x, "x", ndim=2))
    return within(x, coordinate_weights(weights, x, "sample"))


def distances(
    x: ArrayLike,
    z: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> Float[Array, "n m"]:
    """Euclidean distances: the square root of `squared_distances`, with derivative 0 at 0."""
    return safe_sqrt(squared_distances(x, z, weights=weights, mask=mask))


def coordinate_weights(weights: ArrayLike | None, x: Array, what: str) -> Float[Array, "p"]:
    """Check and return the weights of the coordinates of points `x`; ones by default."""
    if weights is None:
        return jnp.ones(x.shape[1:], x.dtype)
    return _checks.weights(weights, "weights", x.shape[1], x.dtype, what=what)


# ---- Computation --------------------------------------------------------------------------------


class Points(NamedTuple):
    """Points split as x = centre + level + rest, with sums of `rest` over the coordinates.

    All points share the centre `(p,)`. All coordinates of a point share the level of the point.
    Small distances then keep their digits if coordinates or points (such as features in different
    units) have large offsets. In exact arithmetic any centre and level give the same distances, so
    derivatives treat both as constants.
    """

    rest: Float[Array, "n p"]
    level: Float[Array, "n"]
    total: Float[Array, "n"]  # Σ_p w_p rest_ip
    norm: Float[Array, "n"]  # Σ_p w_p rest_ip²


def mean_point(
    x: Float[Array, "n p"], w: Float[Array, "p"], present: Bool[Array, "n"] | None = None
) -> Float[Array, "1 p"]:
    """The coarse mean of the points present that contain no NaN, each minus its own mean."""
    x = lax.stop_gradient(_regular(x, w))
    mean = safe_divide(jnp.sum(w[None, :] * x, axis=1), jnp.sum(w))
    used = ~jnp.isnan(mean) if present is None else present & ~jnp.isnan(mean)
    x = jnp.where(used[:, None], x - mean[:, None], 0)
    return _coarse_mean(x, used.astype(x.dtype)[:, None], axis=0)


def points_about(
    x: Float[Array, "n p"],
    w: Float[Array, "p"],
    centre: Float[Array, "1 p"] | None = None,
    present: Bool[Array, "n"] | None = None,
) -> Points:
    """`x` as `Points` with the given centre, by default their `mean_point`.

    Points that are not present become the centre.
    """
    centre = mean_point(x, w, present) if centre is None else centre
    x = _regular(x, w)
    if present is not None:
        x = jnp.where(present[:, None], x, jnp.broadcast_to(centre, x.shape))
    level = _coarse_mean(lax.stop_gradient(x - centre), w[None, :], axis=1)
    # Add first: centre + level is exact because both are coarse. x − centre would lose a small x.
    rest = x - (centre + level)
    return reweighted(Points(rest, level[:, 0], level[:, 0], level[:, 0]), w)


def reweighted(points: Points, w: Float[Array, "p"]) -> Points:
    """The same points with sums for other weights of the coordinates."""
    weighted = points.rest * w[None, :]
    total, norm = jnp.sum(weighted, axis=1), jnp.sum(weighted * points.rest, axis=1)
    return points._replace(total=total, norm=norm)


def squarable(x: Float[Array, "n p"]) -> Bool[Array, "n p"]:
    """A mask of entries that are finite and small enough that squared distances are finite."""
    return jnp.abs(x) < math.sqrt(float(jnp.finfo(x.dtype).max) / max(1, x.shape[1])) / 8


def _regular(x: Float[Array, "n p"], w: Float[Array, "p"]) -> Float[Array, "n p"]:
    """`x` with every entry that is not squarable replaced by NaN, or by 0 if its weight is 0."""
    instead = jnp.where(w == 0, jnp.zeros_like(w), jnp.nan)[None, :]
    return jnp.where(squarable(x), x, instead)


def _coarse_mean(x: Float[Array, "n p"], weights: Float[Array, "#n #p"], axis: int) -> Array:
    """The weighted mean of `x`, rounded to a power of two of the size of a standard deviation.

    The rounding error is at most half a standard deviation. Subtracting the rounded mean is exact
    for integers, and for all data on a binary grid: distances that tie in exact arithmetic also tie
    in floating point.
    """
    moment = lambda a: jnp.sum(weights * a, axis=axis, keepdims=True)  # noqa: E731
    mass = jnp.maximum(moment(jnp.ones_like(x)), jnp.finfo(x.dtype).tiny)
    mean = moment(x) / mass
    rounding, square = moment(x - mean) / mass, moment(jnp.square(x - mean)) / mass
    mean = mean + rounding
    # The factor makes the variance of constant values exactly 0.
    grid = power_of_two(jnp.sqrt(jnp.maximum(square - 1.001 * rounding * rounding, 0)))
    return jnp.where(grid == 0, mean, jnp.round(mean / grid) * grid)


def power_of_two(x: Array) -> Array:
    """The largest power of two ≤ x, or 0 for x = 0: the float without its mantissa digits."""
    kind, exponent = (
        (jnp.int32, 0x7F800000) if x.dtype == jnp.float32 else (jnp.int64, 0x7FF0000000000000)
    )
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, kind) & kind(exponent), x.dtype)


@jax.jit
def within(
    x: Float[Array, "n p"], w: Float[Array, "p"], present: Bool[Array, "n"] | None = None
) -> Float[Array, "n n"]:
    """Squared distances among the points of one set."""
    a = points_about(x, w, present=present)
    gram = matmul(a.rest * w[None, :], jnp.matrix_transpose(a.rest))
    # Take the norms from the product itself: both then have equal rounding errors, which cancel.
    i = jnp.arange(gram.shape[0])
    a = a._replace(norm=gram.at[i, i].get(mode="promise_in_bounds"))
    return _assemble(a, a, symmetrize(gram), w)


@jax.jit
def _across(
    x: Float[Array, "n p"], z: Float[Array, "m p"], w: Float[Array, "p"], present: Bool[Array, "m"]
) -> Float[Array, "n m"]:
    """Squared distances from the points `x` to the points `z`, centred at the mean of `z`."""
    centre = mean_point(z, w, present)
    return between(points_about(x, w, centre), points_about(z, w, centre, present), w)


def between(a: Points, b: Points, w: Float[Array, "p"]) -> Float[Array, "n m"]:
    """Squared distances between two sets of points with the same centre."""
    return _assemble(a, b, matmul(a.rest * w[None, :], jnp.matrix_transpose(b.rest)), w)


def distances_from(i: Int[Array, ""], points: Points) -> Float[Array, "n"]:
    """Squared distances from point i to all points, with weights 1."""
    w = jnp.ones(points.rest.shape[1], points.rest.dtype)
    return between(jax.tree.map(lambda leaf: leaf[i][None], points), points, w)[0]


def _assemble(a: Points, b: Points, gram: Float[Array, "n m"], w: Array) -> Float[Array, "n m"]:
    """‖(rest_i + level_i) − (rest_j + level_j)‖² from the inner products of the `rest` vectors."""
    mass = jnp.sum(w)
    outer = lambda u, v: u[:, None] - v[None, :]  # noqa: E731
    shift, tilt = outer(a.level, b.level), outer(a.total, b.total)
    value = outer(a.norm, -b.norm) - 2 * gram + shift * (2 * tilt + mass * shift)
    # The rounding errors of p terms are random, so their sum grows as √p. The worst-case bound, p,
    # would set true distances to 0. Levels are squared only after they are subtracted.
    ulps = (4 + math.sqrt(w.size)) * eps(value.dtype)
    rounding = lambda c: ulps * (c.norm + ulps * mass * jnp.square(c.level))  # noqa: E731
    resolved = jnp.where(value <= outer(rounding(a), -rounding(b)), jnp.zeros_like(value), value)
    # D is smooth: where D is set to 0, keep the derivative of the formula.
    return value + lax.stop_gradient(resolved - value)


# ---- Self-tuning affinity -----------------------------------------------------------------------


def self_tuning_affinity(
    squared_distances: ArrayLike, num_neighbors: int = 2, *, mask: ArrayLike | None = None
) -> Float[Array, "n n"]:
    """The Gaussian affinity with a scale σ_i for every sample: exp(−D_ij / σ_i σ_j).

    **Arguments**

    - `squared_distances`: D `(n, n)`, symmetric, nonnegative.
    - `num_neighbors`: k; σ_i is the distance from sample i to its k-th neighbour. Sample i itself
      is not counted as a neighbour, but its duplicates are. Static, in [1, n − 1].
    - `mask`: `(n,)`, false or 0 for samples that are padding. They are neighbours of no sample
      and have affinity 0.

    **Returns** `(n, n)`, symmetric, 1 on the diagonal.

    **Numerics** where duplicates make σ_i 0, σ_i is the smallest positive distance of the sample;
    if all samples coincide, the affinity is 1. A NaN distance makes σ_i NaN. A traced mask that
    leaves k or fewer samples also makes σ_i NaN; a concrete mask raises an error.

    **Derivatives** through D and σ; at ties for the k-th neighbour, σ has their mean derivative.

    **Reference** SSFS, appendix F.3 (k = 2); Zelnik-Manor and Perona, *Self-tuning spectral
    clustering*, 2004.

    >>> import jax.numpy as jnp
    >>> d2 = jnp.array([[0.0, 1.0, 9.0], [1.0, 0.0, 4.0], [9.0, 4.0, 0.0]])
    >>> self_tuning_affinity(d2, 1).round(3).tolist()
    [[1.0, 0.368, 0.011], [0.368, 1.0, 0.135], [0.011, 0.135, 1.0]]
    """
    d2 = _checks.real(squared_distances, "squared_distances", ndim=2)
    n = _checks.square(d2, "squared_distances").shape[0]
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=n - 1)
    present = _checks.presence(mask, n)
    if mask is not None and not _checks.is_traced(present) and int(jnp.sum(present)) <= k:
        raise _checks.fail("mask", f"true for more than {k} samples", int(jnp.sum(present)))
    return self_tuning(k, d2, present)


@functools.partial(jax.jit, static_argnums=0)
def self_tuning(k: int, d2: Float[Array, "n n"], present: Bool[Array, "n"]) -> Float[Array, "n n"]:
    """`self_tuning_affinity` for arguments that are already checked."""
    others = present[None, :] & ~jnp.eye(d2.shape[0], dtype=bool)
    sigma = safe_sqrt(jax.vmap(functools.partial(_local_scale, k))(d2, others))
    affinity = decay(d2, sigma[:, None] * sigma[None, :])
    return jnp.where(present[:, None] & present[None, :], affinity, jnp.zeros_like(affinity))


def _local_scale(k: int, d2: Float[Array, "n"], others: Bool[Array, "n"]) -> Float[Array, ""]:
    """σ_i², from the squared distances of sample i and a mask of the other samples."""
    row = jnp.where(others, lax.stop_gradient(d2), jnp.inf)
    unknown = jnp.any(jnp.isnan(row))
    kth = smallest(jnp.where(unknown, jnp.zeros_like(row), row), k)[0][-1]
    positive = jnp.min(row, where=row > 0, initial=jnp.inf)
    positive = jnp.where(jnp.isinf(positive), jnp.zeros_like(kth), positive)
    kth = jnp.where(unknown | jnp.isinf(kth), jnp.nan, jnp.where(kth == 0, positive, kth))
    return attained(d2, others, kth)


def affinity_product(
    x: Float[Array, "n p"], k: int, present: Bool[Array, "n"]
) -> Callable[[Float[Array, "n b"]], Float[Array, "n b"]]:
    """The product of the self-tuning affinity of `x` with b vectors, as a function of the vectors.

    The matrix is never stored: each product computes all rows again, a few at a time.
    """
    points = points_about(x, jnp.ones(x.shape[1], x.dtype), present=present)
    rows, size = jnp.arange(present.size), BLOCK // present.size

    def scale(i):
        return _local_scale(k, distances_from(i, points), present & (rows != i))

    scales = safe_sqrt(map_chunks(scale, rows, size))

    def times(v):
        def row(i):
            weights = decay(distances_from(i, points), scales[i] * scales)
            return matmul(jnp.where(present & present[i], weights, 0.0)[None], v)[0]

        return map_chunks(row, rows, size)

    return times


# ---- Manhattan distances ------------------------------------------------------------------------


def coordinate_chunks(x: Float[Array, "n p"]) -> Float[Array, "c u n"]:
    """Points as columns, with their coordinates in chunks; the last chunk is padded with zeros.

    XLA's fused loops run over the points, so the values of each coordinate must be contiguous.
    """
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % _TOGETHER)))
    return x.T.reshape(-1, _TOGETHER, x.shape[0])


def manhattan(a: Float[Array, "c u b"], z: Float[Array, "c u n"]) -> Float[Array, "b n"]:
    """Manhattan distances Σ_p |a_ip − z_jp| between points in the form of `coordinate_chunks`.

    Unlike Euclidean distances, Manhattan distances cannot be computed by a matrix product.

    **Numerics** distances are symmetric to the last bit, 0 between equal points, and do not depend
    on the block.

    **Cost** O(b n p) time; memory O(b n).
    """

    def add(total, chunk):
        ours, theirs = chunk
        gaps = [jnp.abs(ours[u][:, None] - theirs[u][None, :]) for u in range(_TOGETHER)]
        return total + functools.reduce(jnp.add, gaps), None

    return lax.scan(add, jnp.zeros((a.shape[-1], z.shape[-1]), z.dtype), (a, z))[0]
