"""Lists of nearest neighbours, weights of a k-NN graph, and the Dirichlet energy on a graph."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs import _checks, _numerics
from jaxfs._numerics import map_chunks, matmul, safe_divide, smallest
from jaxfs._types import ArrayLike
from jaxfs.kernels._distances import distances_from, points_about, squarable

_SYMMETRIZE = ("none", "mean", "max", "min")


class Neighbors(NamedTuple):
    """Lists of neighbours, nearest first: indices `(n, k)` and squared distances `(n, k)`."""

    indices: Int[Array, "n k"]
    squared_distances: Float[Array, "n k"]


def nearest_neighbors(
    x: ArrayLike, k: int, *, mask: ArrayLike | None = None, block_size: int | None = None
) -> Neighbors:
    """The k nearest neighbours of every sample among the other samples.

    **Arguments**

    - `x`: `(n, p)`.
    - `k`: static, in [1, n − 1].
    - `mask`: `(n,)`, false or 0 for samples that are padding.
    - `block_size`: number of rows searched at a time; static. It changes speed and memory, not the
      result. The default keeps the temporary memory near 2²³ numbers.

    **Returns** `Neighbors`, in order of ascending distance, and of ascending index at ties. A
    sample is not its own neighbour, but its duplicates are. If a neighbour is missing (the mask
    leaves fewer than k, or the sample is padding), the index is −1 and the distance infinite.

    **Numerics** a matrix product gives 2k candidates. These are ranked again by distances computed
    from the differences x_i − x_j, which have relative errors of a few eps. A neighbour that is
    missed is nearer than a listed sample by rounding only: the squared distances of the two differ
    by less than √p·eps times the squared distances of the samples from their mean. If a sample that
    is present contains a non-finite number, all indices are −1 and all distances NaN.

    **Derivatives** in `x` through the distances; the indices have none.

    **Cost** O(n² p) time; memory O(block_size · (n + k p) + n k).

    >>> import jax.numpy as jnp
    >>> nearest_neighbors(jnp.array([[0.0], [1.0], [3.0]]), 1).indices.tolist()
    [[1], [0], [1]]
    """
    x = _checks.real(x, "x", ndim=2)
    n, p = x.shape
    k = _checks.integer(k, "k", low=1, high=n - 1)
    present = _checks.presence(mask, n)
    candidates = min(2 * k, n - 1)
    if block_size is None:
        block_size = max(1, 2**23 // (4 * n + candidates * p))
    block_size = _checks.integer(block_size, "block_size", low=1)
    return _search(x, present, k, candidates, min(block_size, n))


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _search(x: Array, present: Array, k: int, candidates: int, block_size: int) -> Neighbors:
    """The neighbours of all rows, a block at a time: find candidates, then rank them again."""
    n, p = x.shape
    # A sum of floats, which XLA compiles faster than `all`.
    known = jnp.sum((present[:, None] & ~squarable(x)).astype(x.dtype)) == 0
    w = jnp.ones((p,), x.dtype)
    points = lax.stop_gradient(points_about(x, w, present=present))
    x = jnp.where(present[:, None] & known, x, jnp.zeros_like(x))

    @jax.checkpoint  # so that the backward pass does not store the differences of all blocks
    def neighbors(i):
        others = present & present[i] & (jnp.arange(n) != i)
        _, near = smallest(jnp.where(others, distances_from(i, points), jnp.inf), candidates)
        near = jnp.sort(near)  # ties take the lowest index; missing candidates (−1) come first
        d2 = jnp.sum(jnp.square(x[near] - x[i][None, :]), axis=1)
        order = smallest(jnp.where(near < 0, jnp.inf, lax.stop_gradient(d2)), k)[1]
        found = order >= 0
        return jnp.where(found, near[order], -1), jnp.where(found, d2[order], jnp.inf)

    indices, d2 = map_chunks(neighbors, jnp.arange(n), block_size)
    return Neighbors(jnp.where(known, indices, -1), jnp.where(known, d2, jnp.nan))


def adaptive_weights(squared_distances: ArrayLike) -> Float[Array, "*b k"]:
    """The weights of an adaptive k-NN graph, in closed form from k + 1 sorted squared distances.

    s_j = (e_{k+1} − e_j) / Σ_{h ≤ k} (e_{k+1} − e_h) solves, for each row,
    min_s ½ Σ_j e_j s_j + ½ α ‖s‖² over the simplex, with the largest α that leaves k neighbours.

    **Arguments**

    - `squared_distances`: `(..., k + 1)`, ascending along the last axis, as from
      `nearest_neighbors(x, k + 1)`. Infinite distances mark missing neighbours.

    **Returns** `(..., k)`, nonnegative. A row sums to 1, or is 0 if it has no neighbours.

    **Numerics** weights are 1/k if all k + 1 distances tie. If the last distance is infinite, the
    weights take their limit: the finite distances have equal weights.

    **Derivatives** in the distances; 0 where all distances tie, which is a kink.

    **Reference** Dirichlet energy and k-NN by optimal transport, eq. 9 and S18.

    >>> import jax.numpy as jnp
    >>> adaptive_weights(jnp.array([1.0, 3.0, 4.0])).tolist()
    [0.75, 0.25]
    """
    e = _checks.real(squared_distances, "squared_distances")
    if e.ndim == 0 or e.shape[-1] < 2:
        expected = "of shape (..., k + 1) with k at least 1"
        raise _checks.fail("squared_distances", expected, f"shape {e.shape}")
    return _adaptive_weights(e)


@jax.jit
def _adaptive_weights(e: Float[Array, "*b k1"]) -> Float[Array, "*b k"]:
    present = ~jnp.isposinf(e)
    e = jnp.where(present, e, jnp.zeros_like(e))
    number = jnp.sum(present[..., :-1], axis=-1, keepdims=True, dtype=e.dtype)
    equal = present[..., :-1].astype(e.dtype) / jnp.maximum(number, 1)
    gap = e[..., -1:] - e[..., :-1]
    total = jnp.sum(gap, axis=-1, keepdims=True)
    tied = ~present[..., -1:] | (total == 0)
    total = jnp.where(tied, jnp.ones_like(total), total)
    unit = lax.stop_gradient(total)  # the derivative squares the divisor, which may be tiny
    return jnp.where(tied, equal, (gap / unit) / (total / unit))


def knn_adjacency(
    indices: ArrayLike, weights: ArrayLike | None = None, *, symmetrize: str = "mean"
) -> Float[Array, "n n"]:
    """The dense weight matrix of a graph that is given by lists of neighbours.

    **Arguments**

    - `indices`: `(n, k)`, integers; −1 means no neighbour.
    - `weights`: `(n, k)`; ones by default.
    - `symmetrize`: with A the directed graph, "none" gives A, "mean" ½(A + Aᵀ), "max" the larger of
      A and Aᵀ (at least one sample lists the other), "min" the smaller (both do); static.

    **Returns** `(n, n)`, in the dtype of the weights.

    **Derivatives** in the weights.

    >>> import jax.numpy as jnp
    >>> knn_adjacency(jnp.array([[1], [0], [1]]), symmetrize="max").tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    indices, weights = _edges(indices, weights)
    _checks.option(symmetrize, "symmetrize", _SYMMETRIZE)
    n = indices.shape[0]
    columns = jnp.where(indices < 0, n, indices)  # outside of the matrix, and dropped
    rows = jnp.broadcast_to(jnp.arange(n)[:, None], columns.shape)
    a = jnp.zeros((n, n), weights.dtype).at[rows, columns].add(weights, mode="drop")
    if symmetrize == "mean":
        return _numerics.symmetrize(a)
    if symmetrize == "none":
        return a
    return jnp.maximum(a, a.T) if symmetrize == "max" else jnp.minimum(a, a.T)


def _edges(indices: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """Check and return lists of neighbours and their weights."""
    indices = _checks.array(indices, "indices")
    if indices.ndim != 2 or not jnp.issubdtype(indices.dtype, jnp.integer):
        got = f"shape {indices.shape} and dtype {indices.dtype}"
        raise _checks.fail("indices", "integers of shape (n, k)", got)
    n = indices.shape[0]
    if not _checks.is_traced(indices):
        _checks.number(indices, "indices", low=-1, high=n - 1)
    indices = jnp.where((indices < 0) | (indices >= n), -1, indices)
    if weights is None:
        return indices, jnp.ones(indices.shape, jnp.result_type(float))
    weights = _checks.real(weights, "weights")
    if weights.shape != indices.shape:
        got = f"{weights.shape} and {indices.shape}"
        raise _checks.fail("weights and indices", "of one shape", got)
    return indices, weights


def dirichlet_energies(
    x: ArrayLike, weights: ArrayLike, *, indices: ArrayLike | None = None
) -> Float[Array, "d"]:
    """The Dirichlet energy of each feature on a graph: ½ Σ_ij s_ij (x_if − x_jf)².

    The energy equals x_fᵀ L x_f with L the unnormalised Laplacian of ½(S + Sᵀ), even if S is not
    symmetric. The Laplacian Δ − S, with Δ the row sums of S itself, gives a different value unless
    the column sums equal the row sums.

    **Arguments**

    - `x`: `(n, d)`.
    - `weights`: S `(n, n)`, nonnegative; with `indices`, `(n, k)`, the weights of the listed edges.
    - `indices`: `(n, k)`, integers, neighbours of each sample; −1 means no neighbour.

    **Returns** `(d,)`; small for smooth features.

    **Numerics** with `indices`, the energy is a sum of squared differences: it is nonnegative, with
    a relative error of a few eps. For a dense S, the energy is a product with the centred features;
    its error is about eps · Σ_i δ_i x_if², with δ the degrees. A NaN makes the energy of its
    feature NaN. A sample without edges is ignored, even if it contains NaN.

    **Derivatives** in `x` and `weights`.

    **Cost** dense: one product of `(n, n)` and `(n, d)`. Lists: O(nkd) time and O(nd) memory.

    **Reference** SSFS, eq. 1 and 2; von Luxburg 2007.

    >>> import jax.numpy as jnp
    >>> dirichlet_energies(jnp.array([[0.0], [3.0]]), jnp.array([[0.0, 1.0], [1.0, 0.0]])).tolist()
    [9.0]
    """
    x = _checks.real(x, "x", ndim=2)
    if indices is not None:
        indices, s = _edges(indices, weights)
        _checks.alike(x, s, "x and weights", axes=slice(1))
        return _energies_of_lists(x, indices, s)
    s = _checks.square(_checks.array(weights, "weights", x.dtype), "weights")
    _checks.alike(x, s, "x and weights", axes=slice(1))
    return _energies_of_matrix(x, s)


def dirichlet_energy(
    x: ArrayLike, weights: ArrayLike, *, indices: ArrayLike | None = None
) -> Float[Array, ""]:
    """The Dirichlet energy of all features, ½ Σ_ij s_ij ‖x_i − x_j‖² = tr(Xᵀ L X).

    It is the sum of `dirichlet_energies`, with the same arguments and conventions.
    """
    return jnp.sum(dirichlet_energies(x, weights, indices=indices))


@jax.jit
def _energies_of_matrix(x: Float[Array, "n d"], s: Float[Array, "n n"]) -> Float[Array, "d"]:
    """Σ_i δ_i x_i² − Σ_ij s_ij x_i x_j of centred x, with δ the mean of row and column sums."""
    degree = 0.5 * (jnp.sum(s, axis=0) + jnp.sum(s, axis=1))[:, None]
    x = jnp.where((degree == 0) & ~squarable(x), jnp.zeros_like(x), x)
    # The energy does not change with a constant: subtract the mean, twice, to reduce rounding.
    total = jnp.broadcast_to(jnp.sum(degree), x.shape[1:])
    for _ in range(2):
        mean = safe_divide(jnp.sum(degree * x, axis=0), total)
        x = x - lax.stop_gradient(mean)[None, :]
    return jnp.sum(x * (degree * x - matmul(s, x)), axis=0)


@jax.jit
def _energies_of_lists(
    x: Float[Array, "n d"], indices: Int[Array, "n k"], s: Float[Array, "n k"]
) -> Float[Array, "d"]:
    """The energies, summed over one neighbour of every sample at a time to save memory."""

    @jax.checkpoint  # the backward pass does not store all differences either
    def add(total, edge):
        j, weight = edge
        found = (j >= 0)[:, None]
        gap = jnp.where(found, x - x[j], jnp.zeros_like(x))
        weight = jnp.where(found, weight[:, None], jnp.zeros_like(weight[:, None]))
        return total + 0.5 * jnp.sum(weight * jnp.square(gap), axis=0), None

    start = jnp.zeros(x.shape[1:], x.dtype)
    return lax.scan(add, start, (indices.T, s.T))[0]
