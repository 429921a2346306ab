"""Accuracy and stability of clusterings, and stability of selections of features.

A clustering assigns a code 0 … k − 1 to each of n samples. If the codes are permuted, the results
stay the same.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int
from optax.assignment import hungarian_algorithm

from jaxfs import _checks
from jaxfs._types import ArrayLike, Scalar
from jaxfs.resample import SelectionStability, nogueira

__all__ = [
    "ClusteringStability",
    "SelectionStability",
    "clustering_accuracy",
    "clustering_stability",
    "selection_stability",
    "variation_of_information",
]

#: Maximum number of entries in a block of `clustering_stability`.
_BLOCK = 2**22


def clustering_accuracy(
    labels: ArrayLike,
    clusters: ArrayLike,
    *,
    num_classes: int,
    num_clusters: int | None = None,
    weights: ArrayLike | None = None,
) -> Float[Array, ""]:
    """Clustering accuracy: the share of samples in the right class under the best matching.

    It is max_π Σ_i δ(π(c_i), y_i) / n over all one-to-one matchings π of clusters with classes. The
    algorithm of Kuhn and Munkres finds the best π.

    **Arguments**

    - `labels`: y `(n,)`, integers 0 … num_classes − 1.
    - `clusters`: c `(n,)`, integers 0 … num_clusters − 1.
    - `num_classes`, `num_clusters`: static; `num_clusters` is `num_classes` by default. If the two
      numbers differ, some codes are not matched, and their samples count as wrong.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** a number in [0, 1], of JAX's default float dtype. It is 1 if both partitions of the
    samples are equal.

    **Numerics** exact up to one division for n < 2²⁴. Under `jit` a code out of range gives NaN.

    **Cost** O(n · num_classes · num_clusters + max(num_classes, num_clusters)³).

    **Reference** SSFS, section 5.1; Kuhn 1955, Munkres 1957.

    >>> import jax.numpy as jnp
    >>> labels, clusters = jnp.array([0, 0, 1, 1]), jnp.array([1, 1, 0, 1])
    >>> float(clustering_accuracy(labels, clusters, num_classes=2))
    0.75
    """
    num_classes = _checks.integer(num_classes, "num_classes", low=1)
    if num_clusters is None:
        num_clusters = num_classes
    num_clusters = _clusters(num_clusters, num_classes)
    n = _size(labels, "labels")
    y = _checks.labels(labels, "labels", n, num_classes)
    c = _checks.labels(clusters, "clusters", n, num_clusters)
    w = _checks.weights(weights, "weights", n, jnp.result_type(float))
    return _accuracy(y, c, w, num_classes, num_clusters)


def variation_of_information(
    a: ArrayLike, b: ArrayLike, *, num_clusters: int, weights: ArrayLike | None = None
) -> Float[Array, ""]:
    """The variation of information, a distance between two clusterings: H(a) + H(b) − 2 I(a; b).

    The distance equals H(a | b) + H(b | a), in nats. These terms are the uncertainty of each
    clustering if the other clustering is known.

    **Arguments**

    - `a`, `b`: `(n,)`, integers 0 … num_clusters − 1.
    - `num_clusters`: static, the larger of the two numbers of clusters. Codes may be unused.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** a number in [0, min(log n, 2 log num_clusters)], of JAX's default float dtype.

    **Numerics** no terms cancel. The result is exactly 0 for equal partitions, and otherwise has a
    relative error of a few eps (n < 2²⁴). Under `jit` a code out of range gives NaN.

    **Reference** Meilă, *Comparing clusterings by the variation of information*, 2003.

    >>> import jax.numpy as jnp
    >>> vi = variation_of_information(jnp.array([0, 0, 1, 1]), jnp.zeros(4, int), num_clusters=2)
    >>> print(f"{vi:.4f}")
    0.6931
    """
    k = _clusters(num_clusters)
    n = _size(a, "a")
    a, b = _checks.labels(a, "a", n, k), _checks.labels(b, "b", n, k)
    w = _checks.weights(weights, "weights", n, jnp.result_type(float))
    return _variation(a, b, w, k)


class ClusteringStability(NamedTuple):
    """Mean, standard deviation and `values (m,)` of the variation of information of pairs of runs.

    There are m = r(r − 1)/2 pairs (0, 1), (0, 2) … (r − 2, r − 1). The standard deviation has m in
    its denominator.
    """

    mean: Float[Array, ""]
    standard_deviation: Float[Array, ""]
    values: Float[Array, "m"]


def clustering_stability(
    clusterings: ArrayLike, *, num_clusters: int, weights: ArrayLike | None = None
) -> ClusteringStability:
    """Stability of a clustering: variation of information between several runs; small is stable.

    **Arguments**

    - `clusterings`: `(r, n)`, r ≥ 2 runs on the same n samples, integers 0 … num_clusters − 1.
    - `num_clusters`: static.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** `ClusteringStability`, in nats.

    **Numerics** are the same as for `variation_of_information`. Under `jit`, a run with a code out
    of range gives NaN for all its pairs.

    **Cost** O(r² n num_clusters²) time in matrix products; O(r² + r n) memory and one block of a
    fixed size.

    **Reference** SSFS, appendix B; Meilă 2003.

    >>> import jax.numpy as jnp
    >>> runs = jnp.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1]])
    >>> clustering_stability(runs, num_clusters=2).values.round(4).tolist()
    [0.0, 1.3863, 1.3863]
    """
    k = _clusters(num_clusters)
    runs = _checks.numpy_or_jax(clusterings, "clusterings")
    if runs.ndim != 2 or runs.shape[0] < 2 or runs.shape[1] == 0:
        expected = "of shape (r, n) with r ≥ 2 runs and n ≥ 1 samples"
        raise _checks.fail("clusterings", expected, f"shape {runs.shape}")
    r, n = runs.shape
    runs = _checks.labels(runs.reshape(-1), "clusterings", r * n, k).reshape(r, n)
    block = min(r, _BLOCK // (2 * n * k), math.isqrt(_BLOCK) // k)
    w = _checks.weights(weights, "weights", n, jnp.result_type(float))
    return _stability(runs, w, k, max(1, block))


def selection_stability(selected: ArrayLike, *, confidence: Scalar = 0.95) -> SelectionStability:
    """Nogueira's stability: the agreement of several selections of features.

    Φ = 1 − (1/d) Σ_f m/(m − 1) p_f (1 − p_f) / (k/d (1 − k/d)), where p_f is the share of the m
    selections that contain feature f, and k is the mean size of the selections.

    **Arguments**

    - `selected`: `(m, d)`, m ≥ 2 selections; true or 1 for the selected features.
    - `confidence`: confidence level of the interval, in (0, 1).

    **Returns** `SelectionStability(stability, variance, interval)`, of JAX's default float dtype:
    Φ, the variance of this estimate, and its asymptotic confidence interval `(2,)`. Φ is at most 1.
    It is 1 if all selections are the same, and its mean is 0 for random selections. The results are
    NaN if all selections are empty, or if all contain every feature.

    **Reference** Nogueira, Sechidis and Brown, *On the stability of feature selection algorithms*,
    JMLR 18, 2018: definition 4, theorem 7, corollary 9. See also `jaxfs.stability`, which computes
    the selections of a score on resamples.

    >>> import jax.numpy as jnp
    >>> selected = jnp.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]])
    >>> print(f"{selection_stability(selected).stability:.4f}")
    0.3333
    """
    z = _checks.numpy_or_jax(selected, "selected")
    if z.ndim != 2 or z.shape[0] < 2 or z.shape[1] == 0:
        expected = "of shape (m, d) with m ≥ 2 selections and d ≥ 1 features"
        raise _checks.fail("selected", expected, f"shape {z.shape}")
    if not _checks.is_traced(z) and not np.all(np.isin(np.asarray(z), (0, 1))):
        raise _checks.fail("selected", "true or false, 1 or 0", "other values")
    _checks.number(confidence, "confidence", low=0, high=1, open_low=True, scalar=True)
    return nogueira(_checks.array(z, "selected", bool), confidence, jnp.result_type(float))


def _clusters(number: int, num_classes: int | None = None) -> int:
    """Return the number of clusters; check that the table of counts fits into memory."""
    number = _checks.integer(number, "num_clusters", low=1)
    _checks.table_size(num_classes or number, number, "num_clusters")
    return number


def _size(codes: ArrayLike, name: str) -> int:
    shape = _checks.numpy_or_jax(codes, name).shape
    if len(shape) != 1 or shape[0] == 0:
        raise _checks.fail(name, "of shape (n,) with n ≥ 1, one code a sample", f"shape {shape}")
    return shape[0]


def _indicators(codes: Int[Array, "*b n"], w: Float[Array, "n"], k: int) -> Float[Array, "*b n k"]:
    """Return one column per code, with 1 for its samples; a code out of range makes its row NaN."""
    codes = jnp.where(jnp.broadcast_to(w > 0, codes.shape), codes, 0)  # ignore samples of weight 0
    known = (codes >= 0) & (codes < k)
    return jnp.where(known[..., None], jax.nn.one_hot(codes, k, dtype=w.dtype), jnp.nan)


def _tables(a: Int[Array, "p n"], b: Int[Array, "q n"], w, k: int, m: int):
    """Return Σ_i w_i [a_i = s][b_i = t] for all pairs of runs, `(p, q, k, m)`, by one product."""
    left = _indicators(a, w, k) * w[None, :, None]
    right = _indicators(b, w, m)
    return jnp.einsum("pns,qnt->pqst", left, right, precision=lax.Precision.HIGHEST)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _accuracy(y: Int[Array, "n"], c: Int[Array, "n"], w, num_classes: int, num_clusters: int):
    table = _tables(y[None], c[None], w, num_classes, num_clusters)[0, 0]
    known = jnp.all(jnp.isfinite(table))
    table = jnp.where(known, table, 0)  # with NaN, the matching would not terminate
    rows, columns = hungarian_algorithm(-table)
    return jnp.where(known, jnp.sum(table[rows, columns]) / jnp.sum(w), jnp.nan)


@functools.partial(jax.jit, static_argnums=3)
def _variation(a: Int[Array, "n"], b: Int[Array, "n"], w, k: int) -> Float[Array, ""]:
    return _conditional_entropies(_tables(a[None], b[None], w, k, k), w)[0, 0]


def _conditional_entropies(table: Float[Array, "*b k m"], w) -> Float[Array, "*b"]:
    """Return Σ_st (n_st / n) (log n_s/n_st + log n_t/n_st).

    No term is negative, so terms do not cancel.
    """
    empty = table == 0
    counts = jnp.where(empty, 1, table)

    def surprise(axis):
        others = jnp.sum(table, axis=axis, keepdims=True) - table
        return jnp.log1p(jnp.where(empty, 0, others / counts))

    return jnp.sum(table * (surprise(-1) + surprise(-2)), axis=(-2, -1)) / jnp.sum(w)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _stability(runs: Int[Array, "r n"], w, k: int, block: int) -> ClusteringStability:
    """Compare blocks of runs; one matrix product gives all tables of counts of two blocks."""
    r, n = runs.shape
    size = -(-r // block)
    # Copies of the first runs fill the last block; their results are dropped.
    blocks = runs[jnp.arange(size * block) % r].reshape(size, block, n)

    def between(pair):
        return _conditional_entropies(_tables(blocks[pair[0]], blocks[pair[1]], w, k, k), w)

    first, second = np.triu_indices(size)
    found = lax.map(between, (first, second))
    square = jnp.zeros((size, size, block, block), found.dtype).at[first, second].set(found)
    square = jnp.permute_dims(square, (0, 2, 1, 3)).reshape(size * block, size * block)
    values = square[np.triu_indices(r, 1)]
    return ClusteringStability(jnp.mean(values), jnp.std(values), values)
