"""Masks of random parts of the samples, and the stability of the features that a score selects.

A resample is a mask of the samples. The data keep their shape, so that one compiled program works
for every resample.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import flat_draw, map_chunks, matmul, nan_unless, rank_present
from jaxfs._types import ArrayLike, Scalar, Static, static_function

__all__ = ["Stability", "stability", "subsample_masks"]


def subsample_masks(
    key: Array,
    num_resamples: int,
    num_samples: int,
    *,
    fraction: Scalar = 0.95,
    groups: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    least: int = 1,
) -> Bool[Array, "b n"]:
    """Return masks of random parts of the samples, drawn without replacement.

    **Arguments**

    - `key`: a key of `jax.random`.
    - `num_resamples`, `num_samples`: static; the numbers B of resamples and n of samples.
    - `fraction`: fraction of the samples in each resample, in (0, 1]. The number of samples is
      rounded, but a fraction below 1 leaves out at least one sample, unless `least` forbids it.
    - `groups`: `(n,)`, any integers, such as classes. The fraction then applies to every group.
    - `mask`: `(n,)`, false or 0 for padding, which is in no resample.
    - `least`: static, the minimum number of samples of every group in a resample. A group of at
      most `least` samples is always complete.

    **Returns** `(B, n)`, true for the samples of each resample. Padding does not change which
    samples are drawn.

    >>> import jax
    >>> subsample_masks(jax.random.key(0), 3, 10, fraction=0.7).sum(axis=1).tolist()
    [7, 7, 7]
    """
    _checks.key(key)
    num_resamples = _checks.integer(num_resamples, "num_resamples", low=1)
    num_samples = _checks.integer(num_samples, "num_samples", low=1)
    _checks.number(fraction, "fraction", low=0, high=1, open_low=True, scalar=True)
    present = _checks.presence(mask, num_samples)
    group = _checks.codes(groups, "groups", num_samples)
    if group is None:
        group = jnp.asarray(np.zeros(num_samples, np.int32))
    fraction = jnp.asarray(fraction, jnp.result_type(float))
    least = _checks.integer(least, "least", low=1)
    return _masks(key, group, present, fraction, num_resamples, least)


@functools.partial(jax.jit, static_argnames=("num_resamples", "least"))
def _masks(key, group: Int[Array, "n"], present, fraction, num_resamples: int, least: int):
    shape = (present.size, num_resamples)
    draws = flat_draw(jax.random.uniform, key, shape, fraction.dtype)[rank_present(present)].T
    # Sort by group, then by random number; padding forms the last group.
    group = jnp.where(present, group, jnp.iinfo(group.dtype).max)
    index = lax.broadcasted_iota(jnp.int32, draws.shape, 1)
    by = jnp.broadcast_to(group, draws.shape), jnp.where(present[None], draws, 2.0), index
    order = lax.sort(by, dimension=1, num_keys=2, is_stable=True)[2]
    place = jnp.argsort(order, axis=1).astype(jnp.int32)
    ascending = jnp.sort(group)
    first, end = (jnp.searchsorted(ascending, group, side=side) for side in ("left", "right"))
    there = (end - first).astype(draws.dtype)
    size = jnp.round(fraction * there)
    size = jnp.where(fraction < 1, jnp.minimum(size, there - 1), size)
    size = jnp.maximum(size, jnp.minimum(there, least)).astype(jnp.int32)
    return (place - first[None] < size[None]) & present[None]


class Stability(NamedTuple):
    """Stability of the k best features in B resamples.

    - `frequencies (d,)`: share of the resamples in which a feature is among the k best.
    - `mean_ranks (d,)`, `rank_deviations (d,)`: mean and standard deviation (B − 1 in its
      denominator) of the rank of a feature; the largest score has rank 1.
    - `stability`, `variance`, `interval (2,)`: Nogueira's stability, the variance of this estimate,
      and its confidence interval.
    - `indices (B, k)`: the k best features of each resample, best first.
    """

    frequencies: Float[Array, "d"]
    mean_ranks: Float[Array, "d"]
    rank_deviations: Float[Array, "d"]
    stability: Float[Array, ""]
    variance: Float[Array, ""]
    interval: Float[Array, "2"]
    indices: Int[Array, "b k"]


def stability(
    key: Array,
    score: Callable[[Array, Any, Array], Array],
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    num_resamples: int,
    fraction: Scalar,
    num_features: int,
    weights: ArrayLike | None = None,
    confidence: Scalar = 0.95,
    chunk_size: int = 16,
) -> Stability:
    """Measure the stability of the features that a score selects from random parts of the samples.

    The score is computed on B resamples, drawn without replacement from every class. Let p_f be the
    share of the resamples in which feature f is among the k best of d features. Nogueira's
    stability is

        Φ = 1 − (1/d) Σ_f B/(B − 1) p_f (1 − p_f) / (k/d (1 − k/d)).

    Φ is 1 if the k best features are always the same, and about 0 if they are chosen at random.

    **Arguments**

    - `key`: a key of `jax.random`.
    - `score`: static; `score(x, y, weights)` returns `(d,)`, larger is better, computed from the
      samples of positive weight. Wrap scores that have other arguments:
      `lambda x, y, w: anova_score(x, y, num_classes=2, weights=w)`. Pass the same function in every
      call, not a new lambda, so that it is compiled once.
    - `x`: `(n, d)`.
    - `y`: passed to the score. Integers or booleans `(n,)` are classes, and every resample keeps
      the share of each class. Other targets do not affect the draws.
    - `num_resamples`: static, B ≥ 2.
    - `fraction`: fraction of each class, in (0, 1], as in `resample.subsample_masks`.
    - `num_features`: static, k < d.
    - `weights`: `(n,)`, nonnegative sample weights. The score receives the weights of the samples
      in the resample, and 0 for all others. A sample of weight 0 is ignored.
    - `confidence`: confidence level of the interval, in (0, 1).
    - `chunk_size`: static, the number of resamples scored at a time.

    **Returns** `Stability`.

    **Numerics** ties go to the lowest feature index. If a score is NaN in any resample, all results
    are NaN and all indices are −1. The interval is asymptotic and assumes B independent resamples.
    It may exceed 1, and it describes only resamples of these n samples, not new samples.

    **Cost** is the cost of B scores, `chunk_size` of which run together under `vmap`, and memory
    for B d numbers.

    **Reference** Nogueira, Sechidis and Brown, *On the stability of feature selection algorithms*,
    JMLR 18, 2018: definition 4, theorem 7, corollary 9.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.random.normal(jax.random.key(0), (40, 6)) * 3.0 ** jnp.arange(6.0)[None]
    >>> variance = lambda x, y, w: jnp.average(x**2, axis=0, weights=w)
    >>> options = {"num_resamples": 50, "fraction": 0.5, "num_features": 2}
    >>> result = stability(jax.random.key(1), variance, x, **options)
    >>> result.frequencies.tolist()
    [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    """
    x = _checks.samples(x, d=2)
    n, d = x.shape
    function = static_function(score, "score", "a function of x, y and weights")
    groups = None
    if y is not None:
        y = _checks.targets(y, n)
        if y.shape == (n,) and jnp.issubdtype(y.dtype, jnp.integer):
            groups = y.astype(jnp.int32)
    num_resamples = _checks.integer(num_resamples, "num_resamples", low=2)
    k = _checks.integer(num_features, "num_features", low=1, high=d - 1)
    _checks.number(confidence, "confidence", low=0, high=1, open_low=True, scalar=True)
    # Chunk sizes above the number of resamples share one program.
    chunk = min(_checks.integer(chunk_size, "chunk_size", low=1), num_resamples)
    w = _checks.weights(weights, "weights", n, x.dtype)
    # This call is outside of `_stability`, so that the draws are compiled once for all scores.
    masks = subsample_masks(key, num_resamples, n, fraction=fraction, groups=groups, mask=w)
    return _stability(function, x, y, w, masks, jnp.asarray(confidence, x.dtype), k, chunk)


@functools.partial(jax.jit, static_argnames=("score", "k", "chunk"))
def _stability(score: Static, x, y, w, masks, confidence, k: int, chunk: int) -> Stability:
    d = x.shape[1]

    def order(mask):
        """Return the features from best to worst, and whether no score is NaN."""
        scores = _checks.returned_scores(score.value(x, y, jnp.where(mask, w, 0)), d)
        scores = lax.stop_gradient(scores)
        return jnp.argsort(-scores, stable=True).astype(jnp.int32), ~jnp.any(jnp.isnan(scores))

    best, known = map_chunks(order, masks, chunk)
    ranks = jnp.argsort(best, axis=1).astype(x.dtype) + 1
    frequencies = jnp.mean(ranks <= k, axis=0, dtype=x.dtype)
    means, deviations = jnp.mean(ranks, axis=0), jnp.std(ranks, axis=0, ddof=1)
    found: SelectionStability = nogueira(ranks <= k, confidence, x.dtype)
    result = Stability(frequencies, means, deviations, *found, best[:, :k])
    return nan_unless(jnp.all(known), result)


class SelectionStability(NamedTuple):
    """Nogueira's stability, the variance of the estimate, and its confidence interval `(2,)`."""

    stability: Float[Array, ""]
    variance: Float[Array, ""]
    interval: Float[Array, "2"]


@functools.partial(jax.jit, static_argnums=2)
def nogueira(z: Bool[Array, "m d"], confidence: Scalar, dtype) -> SelectionStability:
    """Compute Nogueira's stability of m selections of d features.

    See definition 4, theorem 7 and corollary 9 of the paper. In the code, p is the frequency of
    each feature, k_i is the size of selection i divided by d, and k is the mean of k_i.
    """
    m, d = z.shape
    z = z.astype(dtype)
    p, k_i = jnp.mean(z, axis=0), jnp.sum(z, axis=1) / d
    k = jnp.mean(k_i)
    expected = k * (1 - k)
    stability = 1 - m / (m - 1) * jnp.mean(p * (1 - p)) / expected
    overlap = matmul(z, p[:, None])[:, 0] / d - k_i * k
    phi_i = (overlap + stability / 2 * (2 * k_i * k - k_i - k + 1)) / expected
    variance = 4 / m * jnp.mean(jnp.square(phi_i - jnp.mean(phi_i)))
    reach = ndtri(0.5 + jnp.asarray(confidence, dtype) / 2) * jnp.sqrt(variance)
    ends = jnp.stack([stability - reach, stability + reach])
    return SelectionStability(stability, variance, ends)
