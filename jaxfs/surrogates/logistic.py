"""l2-regularised logistic regression of many labels and many resamples of one data set at once.

The objective is ½‖β‖² + C Σ_i w_i log(1 + exp(−s_i (x_iᵀβ + b))), s_i = ±1, as in scikit-learn. The
intercept b is not penalised. A resample has the weights m_i w_i, m_i ∈ {0, 1}.

With more features than samples, β lies in the span of the samples. The rows z_i of U√Λ, where
XXᵀ = UΛUᵀ, then replace the x_i, and the cost does not depend on the number of features. For each
label, one fit on all samples gives the starting point and the metric for all resamples. Coordinates
δ are chosen so that this fit is at δ = 0 and its Hessian is the identity. In these coordinates the
samples are rows t_i of a matrix T, and the Hessian of a resample is

    I + Tᵀ (D_m − D) T,    D_i = C w_i p_i (1 − p_i),

where D_m is computed from the weights and probabilities of the resample. This Hessian is near the
identity, so that a few steps of conjugate gradients solve Newton's equations. Each step multiplies
T by the vectors of all resamples at once. At the minimum β = C Σ_i m_i w_i (y_i − p_i) x_i.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jaxfs import _checks, _numerics
from jaxfs._numerics import eps, matmul, safe_divide, symmetrize
from jaxfs._types import ArrayLike, Scalar
from jaxfs.linalg import eigh
from jaxfs.linalg._lapack import cho_solve, cholesky, solve_triangular
from jaxfs.surrogates import _shared
from jaxfs.surrogates._shared import ResampledScores

__all__ = ["LogisticFit", "ResampledScores", "fit", "resampled_scores"]

#: Maximum number of evaluations of the objective in a fit.
_EVALUATIONS = 80
#: The shortest step tried, as a fraction of Newton's step.
_SHORTEST = 2.0**-12
#: Rounding error of the objective, in units of eps. A step that gains less must not be halved.
_SLACK = 16
#: Maximum number of steps of conjugate gradients, and their relative residual.
_CG_STEPS, _CG_TOLERANCE = 60, 1e-2


class LogisticFit(NamedTuple):
    """A logistic model for each of l labels, and whether each fit reached its minimum."""

    coefficients: Float[Array, "l p"]
    intercept: Float[Array, "l"]
    converged: Bool[Array, "l"]


def fit(
    x: ArrayLike, y: ArrayLike, *, c: Scalar = 1.0, weights: ArrayLike | None = None
) -> LogisticFit:
    """Fit logistic regression to one or several binary labels.

    **Arguments**

    - `x`: `(n, p)`.
    - `y`: `(n,)` or `(n, l)`, 0 or 1 (or booleans): l labels, each fitted separately.
    - `c`: positive, the inverse strength of the penalty.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** `LogisticFit`; for `y (n,)` without the axis l.

    **Numerics** a label with only one value has no finite intercept, and its results are NaN.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fit(x, jnp.array([0, 0, 1, 1])).coefficients.round(2).tolist()
    [1.01]
    """
    x, y, w, one = _shared.check_samples(x, y, weights, binary=True)
    _checks.number(c, "c", low=0, open_low=True, scalar=True)
    out = _fit(x, jnp.matrix_transpose(y), jnp.asarray(c, x.dtype), w)
    return _shared.without_label_axis(out, one)


def resampled_scores(
    x: ArrayLike,
    y: ArrayLike,
    masks: ArrayLike,
    *,
    c: Scalar = 1.0,
    weights: ArrayLike | None = None,
    chunk_size: int = 256,
) -> ResampledScores:
    """Return the mean and variance of normalised |coefficients| over models fitted on resamples.

    **Arguments**

    - `x`, `y`, `c`, `weights`: as in `fit`.
    - `masks`: `(B, n)`, 1 (or true) for the samples of each resample.
    - `chunk_size`: static, the number of resamples fitted at a time.

    **Returns** `ResampledScores`; the variance has B − 1 in its denominator. Means and variances
    are accumulated in chunks: memory is O((n + p) · chunk), never B × p.
    """
    x, y, w, one = _shared.check_samples(x, y, weights, binary=True)
    _checks.number(c, "c", low=0, open_low=True, scalar=True)
    present, chunk = _shared.check_masks(masks, chunk_size, w)
    out = _resampled(x, jnp.matrix_transpose(y), present, jnp.asarray(c, x.dtype), w, chunk)
    return _shared.without_label_axis(out, one)


# ---- All samples --------------------------------------------------------------------------------


class _FullFit(NamedTuple):
    """The fit of one label on all samples, and the metric that it defines."""

    margin: Float[Array, "n 1"]  # x_iᵀβ + b
    pull: Float[Array, "n 1"]  # C w (p − y)
    curvature: Float[Array, "n 1"]  # C w p (1 − p)
    whitened: Float[Array, "n r1"]  # T
    intercept: Float[Array, ""]
    converged: Bool[Array, ""]


def _terms(margin: Float[Array, "n b"], y: Float[Array, "n 1"], weight: Float[Array, "n b"]):
    """Return the loss of every sample, and its first and second derivative, without cancellation.

    These are, times the weight: log(1 + exp(−s m)) with s = 2 y − 1, p − y, and p (1 − p).
    """
    sign = 1 - 2 * y
    away = jax.nn.sigmoid(sign * margin)  # |p − y|
    return weight * jax.nn.softplus(sign * margin), weight * sign * away, weight * away * (1 - away)


def _model(z: Float[Array, "n r"], y: Float[Array, "n"], c, w) -> _FullFit:
    """Fit one label on all samples, by Newton's method on (γ, b), where x_iᵀβ = z_iᵀγ."""
    n, r = z.shape
    y, weight = y[:, None], (c * w)[:, None]
    zb = jnp.concat([z, jnp.ones((n, 1), z.dtype)], axis=1)
    penalty = (jnp.arange(r + 1) < r).astype(z.dtype)[:, None]
    share = jnp.sum(w * y[:, 0]) / jnp.sum(w)
    start = jnp.where(penalty == 0, jnp.log(share) - jnp.log1p(-share), 0)

    def evaluate(theta, margin):
        loss, pull, curvature = _terms(margin, y, weight)
        value = jnp.sum(0.5 * penalty * theta**2, axis=0) + jnp.sum(loss, axis=0)
        return value, value, penalty * theta + matmul(zb.T, pull), curvature

    def root(curvature):
        h = matmul((zb * curvature).T, zb) + jnp.diag(penalty[:, 0])
        # The intercept is not penalised, and has no curvature if all p are 0 or 1.
        return cholesky(h.at[-1, -1].add(eps(z.dtype) * jnp.trace(h)))

    def solve(curvature, right):
        return cho_solve(root(curvature), right)

    flat = jnp.broadcast_to(start[-1:], (n, 1))
    theta, margin, converged = _newton(evaluate, solve, zb, (start, flat), weight * (0.5 - y))
    _, pull, curvature = _terms(margin, y, weight)
    whitened = solve_triangular(root(curvature), zb.T).T
    return _FullFit(margin, pull, curvature, whitened, theta[-1, 0], converged[0])


def _newton(evaluate, solve, rows: Float[Array, "n r"], start, flat_pull: Float[Array, "n b"]):
    """Minimise a batch of b objectives by Newton's method with step halving.

    `start` holds the parameters `(r, b)` and `rows @ parameters`. From these, `evaluate` returns
    the objective, the size of its terms (which determines its rounding error), the gradient, and
    the weights of the Hessian. `solve` computes a direction from the weights and a right-hand side.
    `flat_pull` is the derivative of the losses at margin 0; it gives the scale of gradients. The
    function returns the parameters, `rows @ parameters`, and which fits converged.
    """
    small = eps(rows.dtype) ** 0.5 * jnp.linalg.norm(matmul(rows.T, flat_pull), axis=0)

    def step(state):
        """Evaluate the objective after a step; then compute the next step, or halve this step."""
        at, value, slack, norm, toward, gain, scale, count, done = state
        trial = [a + scale[None] * b for a, b in zip(at, toward, strict=True)]
        now, size, gradient, curvature = evaluate(*trial)
        after = jnp.linalg.norm(gradient, axis=0)
        accepted = (now <= value + slack) | (scale <= _SHORTEST)
        # The fit is done if the gradient is small and the step was idle. A step is idle if it
        # gained far less than the rounding error of the objective, or less than the rounding error
        # without lowering the gradient. The gradient alone is not a sufficient criterion: far from
        # the minimum, it can rise in a step that gains much.
        idle = (gain <= 1e-3 * slack) | ((gain <= slack) & (after > 0.7 * norm))
        done = done | (accepted & ((idle & (after <= small)) | (after == 0)))
        right = jnp.where((accepted & ~done)[None], -gradient, 0)
        direction = solve(curvature, right)
        new = (
            trial,
            now,
            _SLACK * eps(rows.dtype) * size,
            after,
            [direction, matmul(rows, direction)],
            0.5 * jnp.sum(right * direction, axis=0),
            jnp.ones_like(scale),
        )
        old = (list(at), value, slack, norm, list(toward), gain, 0.5 * scale)
        kept = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)
        return *kept, count + 1, done

    def unfinished(state):
        return ~jnp.all(state[-1]) & (state[-2] < _EVALUATIONS)

    one = jnp.ones_like(small)
    still = [jnp.zeros_like(a) for a in start]
    begin = list(start), jnp.inf * one, one, one, still, jnp.inf * one, one, 0, one < 0
    (theta, margin), _, _, norm, *_ = lax.while_loop(unfinished, step, begin)
    return theta, margin, norm <= small


def _reduced_rows(x: Float[Array, "n p"]) -> Float[Array, "n r"]:
    """Return rows of length r = min(n, p) with the same inner products as the samples."""
    if x.shape[1] < x.shape[0]:
        return x
    w, u = eigh(symmetrize(matmul(x, x.T)))
    return u * jnp.sqrt(jnp.maximum(w, 0))[None]


@jax.jit
def _fit(x, y, c, w):
    x, mean = _numerics.centred(x, w)
    z = _reduced_rows(x)

    def one(y):
        m = _model(z, y, c, w)
        beta = matmul(-m.pull.T, x)[0]
        two_sided = jnp.any((w > 0) & (y == 1)) & jnp.any((w > 0) & (y == 0))
        intercept = m.intercept - jnp.vdot(mean, beta)
        beta, intercept = (jnp.where(two_sided, a, jnp.nan) for a in (beta, intercept))
        return LogisticFit(beta, intercept, m.converged & two_sided)

    return lax.map(one, y)


# ---- Resamples ----------------------------------------------------------------------------------


def _resample(m: _FullFit, y, present: Float[Array, "n b"], c, w):
    """Return C m w (y − p) of every resample, `(n, b)`, and whether each fit converged."""
    t, d, y = m.whitened, m.curvature, y[:, None]
    weight = c * present * w[:, None]

    def evaluate(delta, u):
        loss, pull, curvature = _terms(m.margin + u, y, weight)
        value = 0.5 * jnp.sum(delta**2, axis=0)
        value = value + jnp.sum(loss - m.pull * u - 0.5 * d * u * u, axis=0)
        size = jnp.abs(value) + jnp.sum(loss, axis=0)
        return value, size, delta + matmul(t.T, pull - m.pull - d * u), curvature - d

    b = present.shape[1]
    zero = jnp.zeros((t.shape[1], b), t.dtype), jnp.zeros((t.shape[0], b), t.dtype)
    solve = functools.partial(_solve_near_identity, t)
    _, u, converged = _newton(evaluate, solve, t, zero, weight * (0.5 - y))
    return -_terms(m.margin + u, y, weight)[1], converged


def _solve_near_identity(
    t: Float[Array, "n r"], change: Float[Array, "n b"], right: Float[Array, "r b"]
) -> Float[Array, "r b"]:
    """Solve (I + Tᵀ diag(change_b) T) s_b = right_b for every b, by conjugate gradients."""

    def step(state):
        s, residual, direction, norm, count = state
        image = direction + matmul(t.T, change * matmul(t, direction))
        a = safe_divide(norm, jnp.sum(direction * image, axis=0))
        s, residual = s + a[None] * direction, residual - a[None] * image
        new = jnp.sum(residual**2, axis=0)
        direction = residual + safe_divide(new, norm)[None] * direction
        return s, residual, direction, new, count + 1

    def unfinished(state):
        return jnp.any(state[3] > goal) & (state[4] < _CG_STEPS)

    norm = jnp.sum(right**2, axis=0)
    goal = _CG_TOLERANCE**2 * norm
    return lax.while_loop(unfinished, step, (jnp.zeros_like(right), right, right, norm, 0))[0]


@functools.partial(jax.jit, static_argnames="chunk")
def _resampled(x, y, masks, c, w, chunk):
    x, _ = _numerics.centred(x, w)
    z = _reduced_rows(x)

    def one(y):
        m = _model(z, y, c, w)

        def fit(part):
            # Sums of floats, which XLA compiles faster than `any`.
            ones, zeros = (
                jnp.sum((part & a[None]).astype(x.dtype), axis=1) for a in (y == 1, y == 0)
            )
            both = (ones > 0) & (zeros > 0)
            # A resample without a model is fitted on all samples and does not count.
            present = jnp.where(both[:, None], part, True).T.astype(x.dtype)
            pull, done = _resample(m, y, present, c, w)
            return pull, both, done

        scores = _shared.stream(x, masks, chunk, -m.pull, fit)
        return scores._replace(converged=scores.converged & m.converged)

    return lax.map(one, y)
