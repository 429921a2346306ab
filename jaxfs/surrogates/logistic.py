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
from jaxfs._numerics import eps, matmul
from jaxfs._types import ArrayLike, Scalar
from jaxfs.linalg._lapack import cho_solve, cholesky, solve_triangular
from jaxfs.surrogates import _shared
from jaxfs.surrogates._shared import ResampledScores

__all__ = ["LogisticFit", "ResampledScores", "fit", "resampled_scores"]

_NEWTON_STEPS = 40
_HALVINGS = 12
#: Rounding error of the objective, in units of eps. A step that gains less must not be halved.
_SLACK = 16


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

    margin: Float[Array, "n"]  # x_iᵀβ + b
    pull: Float[Array, "n"]  # C w (p − y)
    curvature: Float[Array, "n"]  # C w p (1 − p)
    whitened: Float[Array, "n r1"]  # T
    intercept: Float[Array, ""]
    converged: Bool[Array, ""]


def _loss(margin, y):
    """Return log(1 + exp(−s m)), s = 2 y − 1, with relative error eps.

    The form softplus(m) − y m would lose digits by cancellation.
    """
    return jax.nn.softplus((1 - 2 * y) * margin)


def _residual(margin, y):
    """Return p − y, computed without cancellation."""
    return (1 - 2 * y) * jax.nn.sigmoid((1 - 2 * y) * margin)


def _small(norm, reference) -> Bool[Array, "*b"]:
    return norm <= eps(norm.dtype) ** 0.5 * reference


def _model(z: Float[Array, "n r"], y: Float[Array, "n"], c, w) -> _FullFit:
    """Fit one label on all samples, by Newton's method on (γ, b), where x_iᵀβ = z_iᵀγ."""
    n, r = z.shape
    ones = jnp.ones((n, 1), z.dtype)
    zb = jnp.concat([z, ones], axis=1)
    penalty = jnp.append(jnp.ones(r, z.dtype), jnp.zeros(1, z.dtype))
    share = jnp.sum(w * y) / jnp.sum(w)
    start = jnp.zeros(r + 1, z.dtype).at[-1].set(jnp.log(share) - jnp.log1p(-share))

    def value(theta, margin):
        return 0.5 * jnp.sum(penalty * theta**2) + c * jnp.sum(w * _loss(margin, y))

    def derivatives(theta, margin):
        e = _residual(margin, y)
        gradient = penalty * theta + matmul(c * (w * e)[None], zb)[0]
        return gradient, c * w * jnp.abs(e) * (1 - jnp.abs(e))

    def hessian(curvature):
        h = matmul(zb.T * curvature[None], zb) + jnp.diag(penalty)
        # The intercept is not penalised, and has no curvature if all p are 0 or 1.
        return h.at[-1, -1].add(eps(z.dtype) * jnp.trace(h))

    reference = jnp.linalg.norm(matmul((c * w * (0.5 - y))[None], zb))

    def solve(curvature, right):
        return cho_solve(cholesky(hessian(curvature)), right[:, None])[:, 0]

    flat = jnp.broadcast_to(start[-1], (n,))
    theta, margin, norm = _newton(
        value, derivatives, solve, zb, (start, flat), reference, lambda now, _: now
    )
    _, curvature = derivatives(theta, margin)
    root = cholesky(hessian(curvature))
    whitened = solve_triangular(root, zb.T).T
    pull = c * w * _residual(margin, y)
    return _FullFit(margin, pull, curvature, whitened, theta[-1], _small(norm, reference))


def _newton(value, derivatives, solve, rows, start, reference, magnitude):
    """Minimise one objective, or a batch along the last axis, by Newton's method with step halving.

    `start` holds the parameters and `rows @ parameters`. `derivatives` returns the gradient and the
    weights of the Hessian. From these, `solve` computes a direction. Rounding errors of the
    objective are relative to `magnitude`. The function returns the parameters, `rows @ parameters`,
    and the norm of the gradient.
    """

    def step(state):
        theta, margin, before, count, done = state
        gradient, curvature = derivatives(theta, margin)
        gradient = jnp.where(jnp.expand_dims(done, 0), 0, gradient)
        direction = solve(curvature, -gradient)
        along = matmul(rows, direction)
        now = value(theta, margin)
        slack = _SLACK * eps(rows.dtype) * magnitude(now, margin)

        def moved(scale):
            scale = jnp.expand_dims(scale, 0)
            return theta + scale * direction, margin + scale * along

        scale = _halve(lambda s: value(*moved(s)) <= now + slack, jnp.ones_like(now))
        theta, margin = moved(scale)
        after = jnp.linalg.norm(derivatives(theta, margin)[0], axis=0)
        gain = -0.5 * jnp.sum(gradient * direction, axis=0)
        # The fit is done if the gradient is small and the step was idle. A step is idle if it
        # gained far less than the rounding error of the objective, or less than the rounding error
        # without lowering the gradient. The gradient alone is not a sufficient criterion: far from
        # the minimum, it can rise in a step that gains much.
        idle = (gain <= 1e-3 * slack) | ((gain <= slack) & (after > 0.7 * before))
        done = done | (idle & _small(after, reference)) | (after == 0)
        return theta, margin, after, count + 1, done

    def unfinished(state):
        return ~jnp.all(state[4]) & (state[3] < _NEWTON_STEPS)

    first = jnp.linalg.norm(derivatives(*start)[0], axis=0)
    begin = (*start, first, 0, jnp.zeros(first.shape, bool))
    return lax.while_loop(unfinished, step, begin)[:3]


def _halve(accepted, scale):
    """Return the first of scale, scale/2, … that is accepted, elementwise, or the last one."""

    def step(state):
        scale, _, count = state
        fine = accepted(scale)
        return jnp.where(fine, scale, 0.5 * scale), jnp.all(fine), count + 1

    start = scale, jnp.asarray(False), 0
    return lax.while_loop(lambda state: ~state[1] & (state[2] < _HALVINGS), step, start)[0]


@jax.jit
def _fit(x, y, c, w):
    x, mean = _numerics.centred(x, w)
    z = _shared.reduced_rows(x)

    def one(y):
        m = _model(z, y, c, w)
        beta = matmul(-m.pull[None], x)[0]
        two_sided = jnp.any((w > 0) & (y == 1)) & jnp.any((w > 0) & (y == 0))
        intercept = m.intercept - jnp.vdot(mean, beta)
        beta, intercept = (jnp.where(two_sided, a, jnp.nan) for a in (beta, intercept))
        return LogisticFit(beta, intercept, m.converged & two_sided)

    return lax.map(one, y)


# ---- Resamples ----------------------------------------------------------------------------------


def _resample(m: _FullFit, y, present: Float[Array, "n b"], c, w):
    """Return C m w (y − p) of every resample, `(n, b)`, and whether each fit converged."""
    t = m.whitened
    y, w, d = y[:, None], w[:, None], m.curvature[:, None]
    weight = c * present * w

    def value(delta, u):
        rest = weight * _loss(m.margin[:, None] + u, y) - m.pull[:, None] * u - 0.5 * d * u * u
        return 0.5 * jnp.sum(delta**2, axis=0) + jnp.sum(rest, axis=0)

    def derivatives(delta, u):
        e = _residual(m.margin[:, None] + u, y)
        force = weight * e - m.pull[:, None] - d * u
        return delta + matmul(t.T, force), weight * jnp.abs(e) * (1 - jnp.abs(e)) - d

    r, b = t.shape[1], present.shape[1]
    zero = jnp.zeros((r, b), t.dtype), jnp.zeros((t.shape[0], b), t.dtype)
    reference = jnp.linalg.norm(matmul(t.T, weight * (0.5 - y)), axis=0)

    def solve(change, right):
        return _shared.solve_near_identity(t, change, right, 1e-2)

    def magnitude(now, u):
        return jnp.abs(now) + jnp.sum(weight * _loss(m.margin[:, None] + u, y), axis=0)

    _, u, norm = _newton(value, derivatives, solve, t, zero, reference, magnitude)
    pull = -weight * _residual(m.margin[:, None] + u, y)
    return pull, _small(norm, reference)


@functools.partial(jax.jit, static_argnames="chunk")
def _resampled(x, y, masks, c, w, chunk):
    x, _ = _numerics.centred(x, w)
    z = _shared.reduced_rows(x)

    def one(y):
        m = _model(z, y, c, w)

        def fit(part):
            both = jnp.any(part & (y == 1)[None], axis=1) & jnp.any(part & (y == 0)[None], axis=1)
            # A resample without a model is fitted on all samples and does not count.
            present = jnp.where(both[:, None], part, True).T.astype(x.dtype)
            pull, done = _resample(m, y, present, c, w)
            return pull, both, done

        scores = _shared.stream(x, masks, chunk, -m.pull, fit)
        return scores._replace(converged=scores.converged & m.converged)

    return lax.map(one, y)
