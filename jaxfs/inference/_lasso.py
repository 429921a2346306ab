"""Lasso coefficients as a score: a penalised regression on all features at once."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxfs import _checks
from jaxfs._numerics import matmul, safe_divide, safe_sqrt, unit_columns
from jaxfs._types import ArrayLike

#: Number of penalties, ratio of the smallest to the largest, and number of sweeps for each.
_PENALTIES, _SMALLEST, _SWEEPS = 24, 0.02, 4


def lasso_score(x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Float[Array, "d"]:
    """Return |β_j| of the lasso on standardised features, with the penalty chosen by GCV.

    β minimises ½ ‖y − Xβ‖² + λ ‖β‖₁ and has k nonzero coefficients. The function tries 24
    penalties λ. It chooses, among those with k < n/2, the one with the smallest GCV criterion
    ‖y − Xβ‖² / (1 − k/n)². With knockoffs, the usual statistic is the score of a feature minus that
    of its copy.

    **Arguments** `x (n, d)`; `y (n,)`, real targets, or the codes of two classes; `weights (n,)`,
    zero leaves a sample out.

    **Returns** `(d,)`, at least 0; many are exactly 0.

    **Numerics** four sweeps of coordinate descent for each penalty, from the coefficients of the
    previous one. Constant features score 0. NaN makes all scores NaN.

    **Derivatives** none.

    **Cost** about 100 passes over `x`.

    >>> import jax
    >>> x = jax.random.normal(jax.random.key(0), (60, 5))
    >>> int(lasso_score(x, x[:, 2] + 0.5 * x[:, 0]).argmax())
    2
    """
    return _path(*_checks.samples_with_target(x, y, weights))


@jax.jit
def _path(x, y, w) -> Float[Array, "d"]:
    x, y, w = lax.stop_gradient((x, y, w))
    present = w > 0
    root = safe_sqrt(w)
    rows = (unit_columns(x, present) * root[:, None]).T  # features as contiguous rows
    r = unit_columns(y[:, None], present)[:, 0] * root
    size = jnp.sum(jnp.square(rows), axis=1)
    n, d = jnp.sum(w), x.shape[1]
    top = jnp.max(jnp.abs(matmul(rows, r[:, None])[:, 0]))
    shares = jnp.geomspace(1.0, _SMALLEST, _PENALTIES, dtype=x.dtype)

    def visit(penalty, j, state):
        beta, r = state
        row = lax.dynamic_index_in_dim(rows, j, keepdims=False)
        pull = jnp.sum(row * r) + size[j] * beta[j]
        new = jnp.sign(pull) * jnp.maximum(jnp.abs(pull) - penalty, 0)
        new = safe_divide(new, size[j])
        return beta.at[j].set(new), r - (new - beta[j]) * row

    def fit(state, penalty):
        sweep = functools.partial(lax.fori_loop, 0, d, functools.partial(visit, penalty))
        state = lax.fori_loop(0, _SWEEPS, lambda _, s: sweep(s), state)
        beta, r = state
        used = jnp.sum(beta != 0, dtype=r.dtype)
        gcv = jnp.sum(jnp.square(r)) / jnp.square(1 - jnp.minimum(used / n, 0.5))
        return state, (beta, jnp.where(used < n / 2, gcv, jnp.inf))

    _, (betas, gcv) = lax.scan(fit, (jnp.zeros(d, x.dtype), r), shares * top)
    beta = jnp.abs(betas[jnp.argmin(gcv)])
    return jnp.where(jnp.isfinite(top), beta, jnp.nan)
