"""The Gaussian affinity with one scale per sample, as a matrix or as products row by row."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs import _checks
from jaxfs._numerics import attained, decay, map_chunks, matmul, safe_sqrt, smallest
from jaxfs._types import ArrayLike
from jaxfs.kernels._distances import Points, distances_from, mean_point, points_about

#: Maximum number of entries in a block of rows.
BLOCK = 2**23


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


class AffinityRows(NamedTuple):
    """The affinity of very many samples; each row is computed whenever it is needed.

    The n × n matrix is never stored in memory.
    """

    points: Points
    scales: Float[Array, "n"]
    present: Bool[Array, "n"]

    def times(self, v: Float[Array, "n b"]) -> Float[Array, "n b"]:
        """The product of the affinity with b vectors."""

        def row(i):
            weights = decay(distances_from(i, self.points), self.scales[i] * self.scales)
            here = self.present & self.present[i]
            return matmul(jnp.where(here, weights, 0.0)[None], v)[0]

        n = self.present.size
        return map_chunks(row, jnp.arange(n), BLOCK // n)


def affinity_rows(x: Float[Array, "n p"], k: int, present: Bool[Array, "n"]) -> AffinityRows:
    """`self_tuning` of the squared distances of `x`, to rounding, with memory for a few rows."""
    w = jnp.ones(x.shape[1], x.dtype)
    points = points_about(x, w, mean_point(x, w, present), present)

    rows = jnp.arange(present.size)

    def scale(i):
        return _local_scale(k, distances_from(i, points), present & (rows != i))

    scales = map_chunks(scale, rows, BLOCK // present.size)
    return AffinityRows(points, safe_sqrt(scales), present)
