"""Public distances, bandwidth rules and Gaussian kernels."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Shaped

from jaxfs import _checks
from jaxfs._numerics import safe_sqrt
from jaxfs._types import ArrayLike, Bandwidth, Median, Percentile, Scalar, check_bandwidth
from jaxfs.kernels._distances import across, within
from jaxfs.kernels._order import attained, order_statistics
from jaxfs.kernels._self_tuning import decay, self_tuning

# ---- Squared distances --------------------------------------------------------------------------


def squared_distances(
    x: ArrayLike,
    z: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> Float[Array, "n m"]:
    """Squared Euclidean distances between points: D_ij = Σ_p w_p (x_ip − z_jp)².

    **Arguments**

    - `x`: `(n, p)`, a point a row.
    - `z`: `(m, p)`; `x` itself by default.
    - `weights`: `(p,)`, nonnegative; ones by default. A coordinate of weight 0 is as if absent.
    - `mask`: `(m,)`, false or 0 for those rows of `z` (of `x`, by default) that are padding. They
      do not enter the arithmetic of the others; their own distances mean nothing.

    **Returns** `(n, m)`; without `z` exactly symmetric, its diagonal exactly 0.

    **Numerics** one matrix product of centred points. What it cannot tell from rounding,
    D_ij ≤ (4 + √p)·eps·(‖a_i‖² + ‖b_j‖²) with a, b the centred points, is exactly 0, so duplicates
    have distance 0. Between integers small enough for exact products it is exact. A coordinate that
    is not finite, or whose square overflows, makes NaN of its point's distances and of no others.

    **Derivatives** in `x`, `z` and `weights`: those of the formula, at zero distance too.

    **Cost** one product of `(n, p)` and `(p, m)`; memory O(nm + np + mp).

    >>> import jax.numpy as jnp
    >>> squared_distances(jnp.array([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    x = _checks.real(x, "x", ndim=2)
    w = coordinate_weights(weights, x, "coordinate")
    if z is None:
        return within(x, w, presence(mask, x.shape[0]))
    z = _checks.real(z, "z", ndim=2)
    _checks.alike(x, z, "x and z", axes=slice(1, None))
    return across(x, z, w, presence(mask, z.shape[0]))


def feature_squared_distances(
    x: ArrayLike, *, weights: ArrayLike | None = None
) -> Float[Array, "d d"]:
    """Squared distances between the columns of `x`: D_ij = Σ_n w_n (x_ni − x_nj)².

    **Arguments**

    - `x`: `(n, d)`.
    - `weights`: `(n,)`, nonnegative sample weights; ones by default. A sample of weight 0 is as if
      absent.

    **Returns** `(d, d)`. All else as in `squared_distances`, whose transpose this is.

    >>> import jax.numpy as jnp
    >>> feature_squared_distances(jnp.array([[0.0, 3.0], [0.0, 4.0]])).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    x = jnp.matrix_transpose(_checks.real(x, "x", ndim=2))
    return within(x, coordinate_weights(weights, x, "sample"), presence(None, x.shape[0]))


def distances(
    x: ArrayLike,
    z: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> Float[Array, "n m"]:
    """Euclidean distances: the root of `squared_distances`, with derivative 0 at distance 0."""
    return safe_sqrt(squared_distances(x, z, weights=weights, mask=mask))


def coordinate_weights(weights: ArrayLike | None, x: Array, what: str) -> Float[Array, "p"]:
    """Checked weights on the coordinates of points `x`; ones by default."""
    if weights is None:
        return jnp.ones(x.shape[1:], x.dtype)
    return _checks.weights(weights, "weights", x.shape[1], x.dtype, what=what)


def presence(mask: ArrayLike | None, n: int) -> Bool[Array, "n"]:
    """Which of n points exist: where the mask is not 0; all by default."""
    if mask is None:
        return jnp.ones((n,), bool)
    return _checks.weights(mask, "mask", n, jnp.result_type(float), what="point") > 0


# ---- Bandwidths ---------------------------------------------------------------------------------


def bandwidth(
    squared_distances: ArrayLike, rule: Bandwidth, *, mask: ArrayLike | None = None
) -> Float[Array, ""]:
    """The kernel scale σ that a rule takes from the distances between all pairs of points.

    **Arguments**

    - `squared_distances`: `(d, d)`, symmetric, nonnegative; the diagonal is not looked at.
    - `rule`: σ itself, a positive number; `Median(factor)`; or `Percentile(q, factor)`: `factor`
      times the q-th percentile of the *distances*, linearly interpolated as NumPy's. The numbers
      may be traced; traced ones that are out of range give NaN. With `sample=m`: of the distances
      among m of the points, drawn once for each d.
    - `mask`: `(d,)`, false or 0 for points that are padding.

    **Returns** σ, a scalar. Where the percentile is 0 (too many pairs coincide) the smallest
    positive distance stands for it, times `factor`. σ is 0 where all points coincide or there is
    only one; `rbf` is then 1 at distance 0. NaN if a distance is not finite.

    **Numerics** the order statistics are exact.

    **Derivatives** in the distances: those of the entries that attain the order statistics (or the
    smallest positive distance, where that stands for them), the mean of them at ties; finite at
    distance 0. Also in `factor`, and in `q`: 0 where the smallest positive distance stands.

    **Cost** some 15 passes over d²/2 numbers: a few percent of an `eigh` of that size.

    >>> import jax.numpy as jnp
    >>> d2 = squared_distances(jnp.array([[0.0], [1.0], [3.0]]))
    >>> float(bandwidth(d2, Median(0.5))), float(bandwidth(d2, 7.0))
    (1.0, 7.0)
    """
    d2 = _checks.real(squared_distances, "squared_distances", ndim=2)
    d2 = _checks.square(d2, "squared_distances")
    return _sigma(d2, rule, presence(mask, d2.shape[0]))


def feature_bandwidth(
    x: ArrayLike, rule: Bandwidth, *, weights: ArrayLike | None = None
) -> Float[Array, ""]:
    """The scale σ of the kernel between the columns of `x`, in the memory that its rule needs.

    **Arguments**

    - `x`: `(n, d)`.
    - `rule`: as in `bandwidth`. With `sample=m` only m columns are looked at, the same for every
      `x` of d columns: m²/2 distances instead of d²/2.
    - `weights`: `(n,)`, nonnegative sample weights; ones by default.

    **Returns** σ, a scalar; as `bandwidth` of `feature_squared_distances(x)`, to rounding.

    **Numerics** of pairs drawn alone the percentile would be off by ½/√(m²/2) in rank; pairs that
    share columns vary together, so that ½/√m is its size. `Median(1.0, sample=2048)` was 1.2% below
    `Median(1.0)` on real data of 5 966 features (`benchmarks/scale/manifest.py`).

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
    everyone = presence(None, chosen.shape[0])
    return _sigma(within(chosen, w, everyone), dataclasses.replace(rule, sample=None), everyone)


def sampled(d: int, size: int | None) -> np.ndarray:
    """Which `size` of d points stand for all, rising: a fixed draw, all of them for None.

    Not every so-manieth: columns often come in an order (pixels, genes) with a period of its own.
    """
    if size is None or size >= d:
        return np.arange(d)
    return np.sort(np.random.default_rng(d).choice(d, size, replace=False))


def _sigma(d2: Float[Array, "d d"], rule: Bandwidth, present: Array) -> Float[Array, ""]:
    """σ by a rule; its numbers become arrays of one dtype, so that no two spellings compile."""
    check_bandwidth(rule)
    if isinstance(rule, Median):
        rule = Percentile(50.0, rule.factor, rule.sample)
    if not isinstance(rule, Percentile):
        return _positive(jnp.asarray(rule, d2.dtype))
    if rule.sample is not None and rule.sample < d2.shape[0]:
        chosen = sampled(d2.shape[0], rule.sample)
        d2, present = d2[chosen[:, None], chosen[None, :]], present[chosen]
    q, factor = jnp.asarray(rule.q, d2.dtype), _positive(jnp.asarray(rule.factor, d2.dtype))
    return _percentile(d2, q, factor, present)


def _positive(a: Float[Array, ""]) -> Float[Array, ""]:
    """`a`, or NaN for a traced value that a check would have refused."""
    return jnp.where(a > 0, a, jnp.nan)


@jax.jit
def _percentile(
    d2: Float[Array, "d d"], q: Float[Array, ""], factor: Float[Array, ""], present: Array
) -> Float[Array, ""]:
    """`factor` times a percentile of the distances, or times the smallest positive one for 0."""
    pairs = present[:, None] & present[None, :] & ~jnp.eye(d2.shape[0], dtype=bool)
    once = _fold(pairs)
    rank, fraction = _position(q, jnp.sum(once, dtype=jnp.int32))
    low, high = order_statistics(_fold(d2), once, rank)
    coincide = high * fraction + low == 0
    positive = jnp.min(lax.stop_gradient(d2), where=pairs & (d2 > 0), initial=jnp.inf)
    positive = jnp.where(jnp.isinf(positive), jnp.zeros_like(positive), positive)
    low = safe_sqrt(attained(d2, pairs, jnp.where(coincide, positive, low)))
    high = safe_sqrt(attained(d2, pairs, jnp.where(coincide, positive, high)))
    return factor * (low + fraction * (high - low))


def _position(q: Float[Array, ""], number: Int[Array, ""]) -> tuple[Array, Array]:
    """Rank and fraction of the q-th percentile of so many values: q/100 · (number − 1).

    The whole percents are multiplied as integers: a float32 position among millions of pairs would
    have no digits left for the fraction.
    """
    last = jnp.maximum(number - 1, 0)
    hundreds, units = last // 100, last % 100
    q = jnp.where((q >= 0) & (q <= 100), q, jnp.nan)
    whole = jnp.floor(q)
    rest = (q - whole) * hundreds.astype(q.dtype) + q * units.astype(q.dtype) / 100
    rank = whole.astype(jnp.int32) * hundreds + jnp.floor(rest).astype(jnp.int32)
    return jnp.clip(rank, 0, last), rest - jnp.floor(rest)


def _fold(a: Shaped[Array, "d d"]) -> Shaped[Array, "h d"]:
    """The upper triangle, laid into half the rows: the lower half turned by 180° fills the gap.

    Below the diagonal row i holds the end of row d − 1 − i. Searching takes half the time then.
    """
    d = a.shape[0]
    i, j = jnp.arange(d)[: (d + 1) // 2, None], jnp.arange(d)[None, :]
    turned = jnp.flip(a)[: (d + 1) // 2]
    folded = jnp.where(j >= i, a[: (d + 1) // 2], turned)
    middle = (2 * i + 1 == d) & (j < i)  # a middle row would meet itself
    return jnp.where(middle, jnp.zeros_like(folded), folded)


# ---- Kernels ------------------------------------------------------------------------------------


def rbf(squared_distances: ArrayLike, sigma: Scalar) -> Float[Array, "*s"]:
    """The Gaussian kernel exp(−D / 2σ²).

    **Arguments**

    - `squared_distances`: D, any shape, nonnegative.
    - `sigma`: σ, a scalar, nonnegative; traced or not.

    **Returns** the shape of D. At σ = 0 the limit: 1 where D is 0, else 0.

    **Derivatives** in D and σ, finite wherever the value is; 0 at σ = 0.

    **Reference** ManiFeSt, eq. 1.

    >>> import jax.numpy as jnp
    >>> rbf(jnp.array([0.0, 1.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    d2 = _checks.real(squared_distances, "squared_distances")
    _checks.number(sigma, "sigma", low=0, scalar=True)
    scale = 2 * jnp.square(jnp.asarray(sigma, d2.dtype))
    scale = jnp.minimum(scale, jnp.finfo(d2.dtype).max)  # where a square overflows, the kernel is 1
    return decay(d2, jnp.broadcast_to(scale, (1,) * d2.ndim))


def feature_kernel(
    x: ArrayLike, *, bandwidth: Bandwidth, weights: ArrayLike | None = None
) -> Float[Array, "d d"]:
    """The RBF kernel between the features of a data set: K_ij = exp(−‖x_i − x_j‖² / 2σ²).

    **Arguments**

    - `x`: `(n, d)`; x_i is its i-th column.
    - `bandwidth`: σ, or the rule that takes it from the distances between the columns.
    - `weights`: `(n,)`, nonnegative sample weights; ones by default.

    **Returns** `(d, d)`, symmetric with ones on the diagonal; all ones if the features coincide.

    **Derivatives** through the distances and the bandwidth.

    **Reference** ManiFeSt, eq. 1.

    >>> import jax.numpy as jnp
    >>> feature_kernel(jnp.ones((3, 2)), bandwidth=Median(1.0)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    d2 = feature_squared_distances(x, weights=weights)
    return rbf(d2, _sigma(d2, bandwidth, presence(None, d2.shape[0])))


def self_tuning_affinity(
    squared_distances: ArrayLike, num_neighbors: int = 2, *, mask: ArrayLike | None = None
) -> Float[Array, "n n"]:
    """The Gaussian affinity with a scale of its own for every sample: exp(−D_ij / σ_i σ_j).

    **Arguments**

    - `squared_distances`: D `(n, n)`, symmetric, nonnegative.
    - `num_neighbors`: σ_i is the distance from sample i to its neighbour of this number, itself
      (by index) not counted; static, in [1, n − 1].
    - `mask`: `(n,)`, false or 0 for samples that are padding: nobody's neighbours, affinity 0.

    **Returns** `(n, n)`, symmetric, 1 on the diagonal.

    **Numerics** where duplicates make σ_i 0 it is the smallest positive distance of the sample, and
    if there is none (all coincide) the affinity is 1. A NaN distance makes NaN of σ_i. So does a
    traced mask that leaves fewer neighbours than asked for; a concrete one is an error.

    **Derivatives** through D and σ; at ties for the k-th neighbour the mean of those tied.

    **Reference** SSFS, appendix F.3 (k = 2); Zelnik-Manor and Perona, *Self-tuning spectral
    clustering*, 2004.

    >>> import jax.numpy as jnp
    >>> d2 = squared_distances(jnp.array([[0.0], [1.0], [3.0]]))
    >>> self_tuning_affinity(d2, 1).round(3).tolist()
    [[1.0, 0.368, 0.011], [0.368, 1.0, 0.135], [0.011, 0.135, 1.0]]
    """
    d2 = _checks.square(
        _checks.real(squared_distances, "squared_distances", ndim=2), "squared_distances"
    )
    n = d2.shape[0]
    k = _checks.integer(num_neighbors, "num_neighbors", low=1, high=n - 1)
    present = presence(mask, n)
    if mask is not None and not _checks.is_traced(present) and int(jnp.sum(present)) <= k:
        raise _checks.fail("mask", f"true for more than {k} samples", int(jnp.sum(present)))
    return self_tuning(k, d2, present)
