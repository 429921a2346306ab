"""Ranking by any score, with a penalty for features that repeat those ranked before."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._numerics import matmul, nan_unless, unit_columns
from jaxfs._types import ArrayLike

#: Maximum number of features ranked sequentially; all others are ranked at once.
_SEQUENTIAL = 2048
#: Fraction of its score that a duplicate of a selected feature keeps.
_DUPLICATE = 0.001


def diverse_ranking(
    scores: ArrayLike, x: ArrayLike, *, weights: ArrayLike | None = None
) -> Float[Array, "d"]:
    """Scores with a penalty for redundancy, for any score: features that repeat others rank lower.

    Features are selected sequentially by argmax_f s_f (1 − max_g corr(f, g)²) over the features g
    selected before. The result of a feature is this value when it is selected.

    **Arguments**

    - `scores`: `(d,)`, larger is better. If some are negative, the smallest is subtracted.
    - `x`: `(n, d)`, the samples from which the correlations are computed; same dtype.
    - `weights`: `(n,)`, nonnegative. A sample of weight zero has no effect, even if it contains
      NaN. All samples of positive weight count equally.

    **Returns** `(d,)`, nonnegative; descending in the order of selection, because a selected
    feature can only lower the values of the others. A duplicate keeps 0.001 of its score, so that
    duplicates keep their order. After 2048 features, all others are ranked at once.

    **Numerics** a constant feature has no correlation. NaN in a score, or in a sample of positive
    weight, makes all results NaN.

    **Derivatives** in `scores` and `x`, with the order of selection held constant.

    **Cost** O(min(d, 2048) · n d).

    Features 0 and 1 are equal:

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    >>> diverse_ranking(jnp.array([3.0, 2.0, 1.0]), x).round(2).tolist()
    [3.0, 0.0, 1.0]
    """
    x = _checks.real(x, "x", ndim=2)
    scores = _checks.real(scores, "scores", ndim=1)
    if x.shape[0] == 0 or scores.shape != x.shape[1:] or scores.size == 0:
        expected = "(d,) and (n, d) with n ≥ 1 samples and d ≥ 1 features"
        raise _checks.fail("scores and x", expected, f"{scores.shape} and {x.shape}")
    if scores.dtype != x.dtype:
        raise _checks.fail("scores and x", "of one dtype", f"{scores.dtype} and {x.dtype}")
    w = _checks.weights(weights, "weights", x.shape[0], x.dtype)
    return _ranking(scores, x, w > 0)


@jax.jit
def _ranking(scores, x, present):
    known = jnp.all(~jnp.isnan(scores)) & jnp.all(jnp.isfinite(x) | ~present[:, None])
    x = jnp.where(present[:, None], x, 0)
    shifted = scores - jnp.minimum(jnp.min(scores), 0)
    return nan_unless(known, diverse(unit_columns(x, present), shifted))


def diverse(u: Float[Array, "n p"], scores: Float[Array, "p"]) -> Float[Array, "p"]:
    """Return the penalised score that each feature has when it is selected.

    Columns of `u` have norm 1, so that their inner products are correlations.
    """

    def select(_, state):
        final, overlap = state
        now = scores * (1 - overlap + _DUPLICATE)
        m = jnp.argmax(jnp.where(final != -jnp.inf, -1, now))
        # Two equal rows, because XLA compiles a product with one row slowly.
        correlation = matmul(jnp.broadcast_to(u[:, m], (2, u.shape[0])), u)[0]
        overlap = jnp.maximum(overlap, jnp.minimum(correlation**2, 1))
        return final.at[m].set(now[m]), overlap

    start = jnp.full_like(scores, -jnp.inf), jnp.zeros_like(scores)
    steps = min(scores.shape[0], _SEQUENTIAL)
    final, overlap = lax.fori_loop(0, steps, select, start)
    return jnp.where(final != -jnp.inf, final, scores * (1 - overlap + _DUPLICATE))
