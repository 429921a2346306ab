"""Bandwidth rules and the Gaussian (RBF) kernel."""

from typing import ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxfs import _checks
from jaxfs._numerics import attained, decay, safe_sqrt
from jaxfs._types import ArrayLike, Record, Scalar
from jaxfs.kernels._distances import coordinate_weights, feature_squared_distances, within


class Percentile(Record):
    """Bandwidth rule: `factor` times the q-th percentile of the off-diagonal distances.

    If the percentile is 0, σ is `factor` times the smallest positive distance.

    **Arguments**

    - `q`: in [0, 100]; linearly interpolated between order statistics, as in NumPy. May be traced.
    - `factor`: positive. May be traced.
    - `sample`: static. The percentile is taken over the distances among a fixed choice of `sample`
      points; the choice depends only on the number of points. By default, or if there are at most
      `sample` points, all points are used.

    A rule is a pytree: it can be an argument of `jit`, `vmap` and `grad`, or a static constant.

    >>> Percentile(5.0, factor=2.0)
    Percentile(q=5.0, factor=2.0)
    """

    q: Scalar
    factor: Scalar = 1.0
    sample: int | None = eqx.field(static=True, default=None)

    def __post_init__(self):
        _check_rule(self, scalar=False)


class Median(Record):
    """Bandwidth rule: `factor` times the median of the off-diagonal distances.

    The result is the same as for `Percentile(50, factor, sample)`.

    >>> Median(0.1), Median(sample=1000)
    (Median(factor=0.1), Median(factor=1.0, sample=1000))
    """

    factor: Scalar = 1.0
    sample: int | None = eqx.field(static=True, default=None)
    q: ClassVar[float] = 50.0

    def __post_init__(self):
        _check_rule(self, scalar=False)


def _check_rule(rule: Median | Percentile, *, scalar: bool) -> None:
    _checks.number(rule.q, "q", low=0, high=100, scalar=scalar)
    _checks.number(rule.factor, "factor", low=0, open_low=True, scalar=scalar)
    if rule.sample is not None:
        _checks.integer(rule.sample, "sample", low=2)


#: The kernel scale σ itself, or a rule that computes σ from the data.
Bandwidth: TypeAlias = Scalar | Median | Percentile


def check_bandwidth(rule: Bandwidth) -> None:
    """Check that `rule` is a positive number, or a rule whose parameters are scalars."""
    if isinstance(rule, (Median, Percentile)):
        _check_rule(rule, scalar=True)
    elif isinstance(rule, (float, int, np.ndarray, np.generic, jax.Array)):
        _checks.number(rule, "bandwidth", low=0, open_low=True, scalar=True)
    else:
        raise _checks.fail("bandwidth", "a positive number, Median or Percentile", repr(rule))


def bandwidth(
    squared_distances: ArrayLike, rule: Bandwidth, *, mask: ArrayLike | None = None
) -> Float[Array, ""]:
    """The kernel scale σ that a rule computes from the distances between all pairs of points.

    **Arguments**

    - `squared_distances`: `(d, d)`, symmetric, nonnegative; the diagonal is ignored.
    - `rule`: σ itself, a positive number; `Median(factor)`; or `Percentile(q, factor)`: `factor`
      times the q-th percentile of the *distances*, linearly interpolated as in NumPy. The numbers
      may be traced; traced numbers out of range give NaN. With `sample=m`, the percentile is taken
      over the distances among m points; the choice of points depends on d alone.
    - `mask`: `(d,)`, false or 0 for points that are padding.

    **Returns** σ, a scalar. If the percentile is 0 (too many pairs coincide), σ is `factor`
    times the smallest positive distance. σ is 0 if all points coincide or there is only one point;
    `rbf` is then 1 at distance 0. σ is NaN if a distance is not finite.

    **Numerics** the order statistics are exact.

    **Derivatives** in the distances: σ has the derivative of the entries equal to the order
    statistics (or to the smallest positive distance, if σ uses it), and their mean derivative at
    ties; finite at distance 0. Also in `factor` and `q`; the derivative in `q` is 0 if σ uses the
    smallest positive distance.

    **Cost** 32 passes (float64: 64) over d²/2 numbers: a few percent of an `eigh` of that size.

    >>> import jax.numpy as jnp
    >>> d2 = feature_squared_distances(jnp.array([[0.0, 1.0, 3.0]]))
    >>> float(bandwidth(d2, Median(0.5))), float(bandwidth(d2, 7.0))
    (1.0, 7.0)
    """
    d2 = _checks.real(squared_distances, "squared_distances", ndim=2)
    d2 = _checks.square(d2, "squared_distances")
    check_bandwidth(rule)
    present = None if mask is None else _checks.presence(mask, d2.shape[0])
    return _sigma(d2, rule, present)


def feature_bandwidth(
    x: ArrayLike, rule: Bandwidth, *, weights: ArrayLike | None = None
) -> Float[Array, ""]:
    """The kernel scale σ that a rule computes from the distances between the columns of `x`.

    **Arguments**

    - `x`: `(n, d)`.
    - `rule`: as in `bandwidth`. With `sample=m` only m columns are used, which gives m²/2
      distances instead of d²/2. The choice is the same for every `x` of d columns.
    - `weights`: `(n,)`, nonnegative sample weights; ones by default.

    **Returns** σ, a scalar: `bandwidth` of `feature_squared_distances(x)`, to rounding.

    **Numerics** with `sample=m` the rank of the percentile errs by about ½/√m. (For independent
    pairs the error would be ½/√(m²/2), but pairs that share a column are correlated.)
    `Median(1.0, sample=2048)` was 1.2% below `Median(1.0)` on real data of 5 966 features
    (`benchmarks/scale/manifest.py`).

    >>> import jax.numpy as jnp
    >>> float(feature_bandwidth(jnp.array([[0.0, 1.0, 3.0]]), Median(0.5)))
    1.0
    """
    x = _checks.real(x, "x", ndim=2)
    w = coordinate_weights(weights, jnp.matrix_transpose(x), "sample")
    check_bandwidth(rule)
    if not isinstance(rule, (Median, Percentile)):
        return _positive(jnp.asarray(rule, x.dtype))
    chosen = jnp.matrix_transpose(x[:, sampled(x.shape[1], rule.sample)])
    return _sigma(within(chosen, w), rule, None)


def sampled(d: int, size: int | None) -> np.ndarray:
    """Indices, ascending, of the `size` points that represent d points; all of them for `None`.

    The draw is random but fixed. Indices at regular steps would be biased, because the order of
    columns (pixels, genes) is often periodic.
    """
    if size is None or size >= d:
        return np.arange(d)
    return np.sort(np.random.default_rng(d).choice(d, size, replace=False))


def _sigma(d2: Float[Array, "d d"], rule: Bandwidth, present: Array | None) -> Float[Array, ""]:
    """σ by a checked rule. Parameters become arrays, so that new values do not recompile."""
    if not isinstance(rule, (Median, Percentile)):
        return _positive(jnp.asarray(rule, d2.dtype))
    if rule.sample is not None and rule.sample < d2.shape[0]:
        chosen = sampled(d2.shape[0], rule.sample)
        d2 = d2[chosen[:, None], chosen[None, :]]
        present = None if present is None else present[chosen]
    q, factor = (jnp.asarray(a, d2.dtype) for a in (rule.q, rule.factor))
    return _percentile(d2, q, _positive(factor), present)


def _positive(a: Float[Array, ""]) -> Float[Array, ""]:
    """`a`, or NaN for a traced value that is out of range."""
    return jnp.where(a > 0, a, jnp.nan)


@jax.jit
def _percentile(
    d2: Float[Array, "d d"], q: Float[Array, ""], factor: Float[Array, ""], present: Array | None
) -> Float[Array, ""]:
    """`factor` times a percentile of the distances.

    If the percentile is 0, the smallest positive distance replaces it.
    """
    pairs = ~jnp.eye(d2.shape[0], dtype=bool)
    number: Array | int = d2.shape[0] * (d2.shape[0] - 1) // 2
    if present is not None:
        pairs = pairs & present[:, None] & present[None, :]
        number = jnp.sum(pairs, dtype=jnp.int32) // 2
    rank, fraction = _position(q, number)
    low, high, positive = order_statistics(_fold(d2), _fold(pairs), rank)
    coincide = high * fraction + low == 0
    low = safe_sqrt(attained(d2, pairs, jnp.where(coincide, positive, low)))
    high = safe_sqrt(attained(d2, pairs, jnp.where(coincide, positive, high)))
    return factor * (low + fraction * (high - low))


def _position(q: Float[Array, ""], number: Int[Array, ""] | int) -> tuple[Array, Array]:
    """Rank and fraction of the q-th percentile: the parts of q/100 · (number − 1).

    Whole percents are multiplied as integers, because a float32 position among millions of pairs
    has no digits left for the fraction.
    """
    last = jnp.maximum(jnp.asarray(number, jnp.int32) - 1, 0)
    hundreds, units = last // 100, last % 100
    q = jnp.where((q >= 0) & (q <= 100), q, jnp.nan)
    whole = jnp.floor(q)
    rest = (q - whole) * hundreds.astype(q.dtype) + q * units.astype(q.dtype) / 100
    rank = whole.astype(jnp.int32) * hundreds + jnp.floor(rest).astype(jnp.int32)
    return jnp.clip(rank, 0, last), rest - jnp.floor(rest)


def _fold(a: Shaped[Array, "d d"]) -> Shaped[Array, "h d"]:
    """The upper triangle stored in half the rows, which halves the time of a search.

    From the diagonal on, row i of the result is row i of the triangle. Left of the diagonal, it
    holds the part of row d − 1 − i right of the diagonal, reversed.
    """
    d = a.shape[0]
    i, j = jnp.arange(d)[: (d + 1) // 2, None], jnp.arange(d)[None, :]
    turned = jnp.flip(a)[: (d + 1) // 2]
    folded = jnp.where(j >= i, a[: (d + 1) // 2], turned)
    middle = (2 * i + 1 == d) & (j < i)  # a middle row would be stored twice
    return jnp.where(middle, jnp.zeros_like(folded), folded)


def order_statistics(
    values: Float[Array, "h d"], present: Bool[Array, "h d"], rank: Int[Array, ""] | int
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """The values of rank `rank` (from 0) and `rank + 1`, and the next larger distinct value.

    Nonnegative floats have the same order as the integers with the same bits. The function finds
    the bits of the result one at a time. Each bit takes one pass that counts the smaller values.

    **Arguments**

    - `values`: `(h, d)`, nonnegative where present.
    - `present`: `(h, d)`; absent values have no rank.
    - `rank`: traced or not, in [0, number present).

    **Returns** three scalars without derivative. The third is the smallest value larger than the
    first; it differs from the second at ties. If no value is larger, the third equals the first. If
    `rank` is the last rank, the second equals the first. All three are 0 if no value is present,
    and NaN if a present value is not finite. A denormal second or third value may be returned as 0.

    **Cost** 32 passes in float32, 64 in float64.
    """
    bits = _bits(lax.stop_gradient(values))
    infinity = _bits(jnp.asarray(jnp.inf, values.dtype))  # marks absent values
    bits = jnp.where(present, jnp.where(bits < infinity, bits, infinity + 1), infinity)

    def count(b):
        # XLA has a ready-made routine for sums of floats, and would have to generate code for sums
        # of integers. A sum of fewer than 2²⁴ ones is exact in float32.
        rows = jnp.sum((bits < b).astype(values.dtype), axis=1)
        return jnp.sum(rows if bits.size < 2**24 else rows.astype(jnp.int32)).astype(jnp.int32)

    def set_bit(i, b):
        higher = b + jnp.left_shift(jnp.ones_like(b), last - i)
        return jnp.where(count(higher) <= rank, higher, b)

    last = 8 * values.dtype.itemsize - 2  # bit 31 or 63 is the sign
    first_bits = lax.fori_loop(0, last + 1, set_bit, jnp.zeros((), bits.dtype))
    first = lax.bitcast_convert_type(first_bits, values.dtype)
    known = lax.bitcast_convert_type(bits, values.dtype)
    larger = jnp.min(jnp.where(bits > first_bits, known, jnp.inf))
    larger = jnp.where(jnp.isinf(larger), first, larger)
    second = jnp.where(count(first_bits + 1) > rank + 1, first, larger)
    # Test by a count, because a minimum may ignore NaN on CPU.
    finite = count(infinity + 1) == bits.size

    def value(v):
        return jnp.where(finite, jnp.where(jnp.isinf(first), 0, v), jnp.nan)

    return value(first), value(second), value(larger)


def _bits(values: Float[Array, "*s"]) -> Int[Array, "*s"]:
    """Map nonnegative floats to integers in the same order; infinity and NaN are the largest."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    return lax.bitcast_convert_type(jnp.abs(values), integer)  # abs: −0 is 0


def rbf(squared_distances: ArrayLike, sigma: Scalar) -> Float[Array, "*s"]:
    """The Gaussian kernel exp(−D / 2σ²).

    **Arguments**

    - `squared_distances`: D, any shape, nonnegative.
    - `sigma`: σ, a scalar, nonnegative; traced or not.

    **Returns** an array of the shape of D. At σ = 0 it holds the limit: 1 where D is 0, else 0.

    **Derivatives** in D and σ, finite wherever the value is finite; 0 at σ = 0.

    **Reference** ManiFeSt, eq. 1.

    >>> import jax.numpy as jnp
    >>> rbf(jnp.array([0.0, 1.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    d2 = _checks.real(squared_distances, "squared_distances")
    _checks.number(sigma, "sigma", low=0, scalar=True)
    scale = 2 * jnp.square(jnp.asarray(sigma, d2.dtype))
    scale = jnp.minimum(scale, jnp.finfo(d2.dtype).max)  # if the square overflows, the kernel is 1
    return decay(d2, jnp.broadcast_to(scale, (1,) * d2.ndim))


def feature_kernel(
    x: ArrayLike, *, bandwidth: Bandwidth, weights: ArrayLike | None = None
) -> Float[Array, "d d"]:
    """The RBF kernel between the features of a data set: K_ij = exp(−‖x_i − x_j‖² / 2σ²).

    **Arguments**

    - `x`: `(n, d)`; x_i is its i-th column.
    - `bandwidth`: σ, or a rule that computes σ from the distances between the columns.
    - `weights`: `(n,)`, nonnegative sample weights; ones by default.

    **Returns** `(d, d)`, symmetric with ones on the diagonal; all ones if the features coincide.

    **Derivatives** through the distances and the bandwidth.

    **Reference** ManiFeSt, eq. 1.

    >>> import jax.numpy as jnp
    >>> feature_kernel(jnp.ones((3, 2)), bandwidth=Median(1.0)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    check_bandwidth(bandwidth)
    d2 = feature_squared_distances(x, weights=weights)
    return rbf(d2, _sigma(d2, bandwidth, None))
