"""Combination of several scores of the same features into one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._numerics import at, safe_divide, standard_scores
from jaxfs._types import ArrayLike, Scalar
from jaxfs.kernels._order import count_leading, sort_last

METHODS = ("sum", "robust", "mean_rank", "reciprocal_rank")
#: Default offset of reciprocal ranks, from Cormack, Clarke and Büttcher.
_OFFSET = 60.0


def combine_scores(
    *scores: ArrayLike, method: str = "sum", offset: Scalar | None = None
) -> Float[Array, "d"]:
    """Combine several scores of different scales into one score.

    "sum": Σ (s − min s) / (max s − min s), which scales each score to [0, 1]. "robust": Σ
    (s − median s) / MAD s, with MAD the median absolute deviation: a few features that one score
    separates from all others stay in front. "mean_rank": the mean
    share of the other features that a feature beats. "reciprocal_rank": Σ 1 / (offset + rank),
    where the best feature of a score has rank 1. Differences between the first ranks count more
    than differences between the last ranks.

    **Arguments**

    - `scores`: one or more arrays `(d,)` of the same dtype. In each, larger must be better.
    - `method`: static.
    - `offset`: nonnegative, for "reciprocal_rank" only; by default 60.

    **Returns** `(d,)`; larger is better. With m scores, "sum" is in [0, m], "mean_rank" in [0, 1],
    "robust" in any interval, and "reciprocal_rank" at most m / (1 + offset).

    **Numerics** a constant score adds 0 to the sum. Ties share the mean of their ranks. NaN in any
    score of a feature makes its result NaN and does not affect other features. An infinite
    score is treated as a limit: if a score is +∞ for one feature, "sum" scales its finite values to
    0. "robust" replaces it by the largest finite score.

    **Derivatives** "sum" and "robust" are differentiable in the scores, with subgradients if
    features tie for the largest or smallest value, or for the median. Ranks have no derivatives.

    **Cost** O(d) per score, or O(d log d) for ranks.

    **Reference** ManiFeSt + ReliefF (appendix of the ManiFeSt paper); Cormack, Clarke and Büttcher,
    *Reciprocal rank fusion*, 2009.

    >>> import jax.numpy as jnp
    >>> a, b = jnp.array([0.0, 1.0, 2.0]), jnp.array([30.0, 10.0, 20.0])
    >>> combine_scores(a, b).tolist()
    [1.0, 0.5, 1.5]
    >>> combine_scores(a, b, method="mean_rank").tolist()
    [0.5, 0.25, 0.75]
    """
    _checks.option(method, "method", METHODS)
    used = method == "reciprocal_rank"
    _checks.only_if(used, offset, "offset", 'method="reciprocal_rank"')
    offset = _OFFSET if offset is None else offset
    _checks.number(offset, "offset", low=0, scalar=True)
    if not scores:
        raise _checks.fail("scores", "at least one array", "none")
    arrays = [_checks.real(s, "scores", ndim=1) for s in scores]
    for other in arrays:
        _checks.alike(arrays[0], other, "scores", axes=slice(None))
    if arrays[0].size == 0:
        raise _checks.fail("scores", "of at least one feature", "shape (0,)")
    table = jnp.stack(arrays)
    if method == "sum":
        return jnp.sum(_to_unit_interval(table), axis=0)
    if method == "robust":
        return jnp.sum(standard_scores(table), axis=0)
    beaten = jax.vmap(_beaten)(table)
    others = jnp.sum(~jnp.isnan(table), axis=1, keepdims=True, dtype=table.dtype) - 1
    if method == "mean_rank":
        return jnp.mean(safe_divide(beaten, jnp.broadcast_to(others, beaten.shape)), axis=0)
    return jnp.sum(1 / (jnp.asarray(offset, table.dtype) + 1 + others - beaten), axis=0)


@jax.jit
def _to_unit_interval(s: Float[Array, "m d"]) -> Float[Array, "m d"]:
    # Replace infinity by a large number such that the reciprocal of the range is still normal.
    largest = float(jnp.finfo(s.dtype).max) / 16
    s = jnp.clip(s, -largest, largest)
    low, high = (f(s, axis=1, keepdims=True) for f in (jnp.nanmin, jnp.nanmax))
    share = safe_divide(s - low, jnp.broadcast_to(high - low, s.shape))
    return jnp.where(jnp.isnan(s), jnp.nan, share)


@jax.jit
def _beaten(s: Float[Array, "d"]) -> Float[Array, "d"]:
    """Number of smaller entries plus half the number of other equal entries; NaN for a NaN."""
    rising = sort_last(s)
    smaller = count_leading(lambda i: at(rising, i) < s, s.shape[0], s.shape)
    up_to = count_leading(lambda i: at(rising, i) <= s, s.shape[0], s.shape)
    return jnp.where(jnp.isnan(s), jnp.nan, 0.5 * (smaller + up_to - 1).astype(s.dtype))
