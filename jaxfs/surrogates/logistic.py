"""l2-regularised logistic regression, many labels and many resamples of one data set at once.

The objective is scikit-learn's: ½‖β‖² + C Σ_i w_i log(1 + exp(−s_i (x_iᵀβ + b))), s_i = ±1, with an
intercept b that is not penalised. Resamples are weights m_i w_i, m_i ∈ {0, 1}.

With more features than samples, β lies in the span of the samples: rows z_i of U√Λ, XXᵀ = UΛUᵀ,
replace the x_i, and the work does not depend on the number of features. One fit per label on all
samples gives the starting point and the metric for all its resamples: in coordinates δ where that
fit is 0 and its Hessian is the identity, samples have rows t_i, and a resample's Hessian is

    I + Tᵀ (D_m − D) T,    D_i = C w_i p_i (1 − p_i), D_m that of the resample,

near the identity, so that Newton's equations take a few steps of conjugate gradients: products of
T with all resamples at once, and nothing else. At the minimum β = C Σ_i m_i w_i (y_i − p_i) x_i.
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
from jaxfs.surrogates import _common
from jaxfs.surrogates._common import ResampledScores

__all__ = ["LogisticFit", "ResampledScores", "fit", "resampled_scores"]

_NEWTON_STEPS = 40
_HALVINGS = 12
_SLACK = 16  # the rounding of an objective, in eps: a step that gains less must not be halved


class LogisticFit(NamedTuple):
    """`coefficients (l, p)`, `intercept (l,)`, and whether each fit reached its minimum, `(l,)`."""

    coefficients: Float[Array, "l p"]
    intercept: Float[Array, "l"]
    converged: Bool[Array, "l"]


def fit(
    x: ArrayLike, y: ArrayLike, *, c: Scalar = 1.0, weights: ArrayLike | None = None
) -> LogisticFit:
    """Logistic regression of one or several binary labels.

    **Arguments**

    - `x`: `(n, p)`.
    - `y`: `(n,)` or `(n, l)`, 0 or 1 (or booleans): l labels, each fitted by itself.
    - `c`: positive, the inverse strength of the penalty.
    - `weights`: `(n,)`, nonnegative sample weights; zero is as if absent.

    **Returns** `LogisticFit`; for `y (n,)` without the axis l.

    **Numerics** a label with samples on one side only has no finite intercept: NaN.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fit(x, jnp.array([0, 0, 1, 1])).coefficients.round(2).tolist()
    [1.01]
    """
    x, y, one = _binary(x, y)
    _checks.number(c, "c", low=0, open_low=True, scalar=True)
    w = _common.check_weights(weights, x)
    out = _fit(x, y, jnp.asarray(c, x.dtype), w)
    return jax.tree.map(lambda a: a[0], out) if one else out


def resampled_scores(
    x: ArrayLike,
    y: ArrayLike,
    masks: ArrayLike,
    *,
    c: Scalar = 1.0,
    weights: ArrayLike | None = None,
    chunk_size: int = 256,
) -> ResampledScores:
    """How the normalised |coefficients| vary when the model is fitted on parts of the samples.

    **Arguments**

    - `x`, `y`, `c`, `weights`: as in `fit`.
    - `masks`: `(B, n)`, 1 (or true) for the samples of each resample.
    - `chunk_size`: static, how many resamples are fitted at a time.

    **Returns** `ResampledScores`; the variance has B − 1 in its denominator. Means and variances
    are accumulated chunk by chunk: memory is O((n + p) · chunk), never B × p.
    """
    x, y, one = _binary(x, y)
    _checks.number(c, "c", low=0, open_low=True, scalar=True)
    w = _common.check_weights(weights, x)
    present, chunk = _common.check_masks(masks, chunk_size, w)
    out = _resampled(x, y, present, jnp.asarray(c, x.dtype), w, chunk)
    return jax.tree.map(lambda a: a[0], out) if one else out


def _binary(x, y):
    x, y, one = _common.check_samples(x, y)
    _common.check_binary(y)
    return x, jnp.matrix_transpose(y), one


# ---- All samples --------------------------------------------------------------------------------


class _Model(NamedTuple):
    """The fit of one label on all samples, and the metric that it gives."""

    margin: Float[Array, "n"]  # x_iᵀβ + b
    pull: Float[Array, "n"]  # C w (p − y)
    curvature: Float[Array, "n"]  # C w p (1 − p)
    whitened: Float[Array, "n r1"]  # T
    intercept: Float[Array, ""]
    converged: Bool[Array, ""]


def _loss(margin, y):
    """log(1 + exp(−s m)), s = 2 y − 1: good to eps of itself, where softplus(m) − y m is not."""
    return jax.nn.softplus((1 - 2 * y) * margin)


def _residual(margin, y):
    """p − y, likewise without the difference."""
    return (1 - 2 * y) * jax.nn.sigmoid((1 - 2 * y) * margin)


def _finished(before, after, reference, gain, slack) -> Bool[Array, "*b"]:
    """Whether the gradient is small, and the step was the last that could matter.

    It gained far less than the rounding of the objective, or less and did not lower the gradient.
    Far from the minimum the gradient can rise in a step that gains much.
    """
    idle = (gain <= 1e-3 * slack) | ((gain <= slack) & (after > 0.7 * before))
    return (idle & _small(after, reference)) | (after == 0)


def _small(norm, reference) -> Bool[Array, "*b"]:
    return norm <= eps(norm.dtype) ** 0.5 * reference


def _model(z: Float[Array, "n r"], y: Float[Array, "n"], c, w) -> _Model:
    """Newton's method on (γ, b), x_iᵀβ = z_iᵀγ, with halving steps."""
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
        # The intercept alone is not penalised; where all p are 0 or 1 it has no curvature left.
        return h.at[-1, -1].add(eps(z.dtype) * jnp.trace(h))

    reference = jnp.linalg.norm(matmul((c * w * (0.5 - y))[None], zb))

    def step(state):
        theta, margin, before, count, _ = state
        gradient, curvature = derivatives(theta, margin)
        direction = -cho_solve(cholesky(hessian(curvature)), gradient[:, None])[:, 0]
        along = matmul(zb, direction[:, None])[:, 0]
        now = value(theta, margin)
        slack = _SLACK * eps(z.dtype) * now
        scale = _halve(
            lambda s: value(theta + s * direction, margin + s * along) <= now + slack,
            jnp.ones((), z.dtype),
        )
        theta, margin = theta + scale * direction, margin + scale * along
        after = jnp.linalg.norm(derivatives(theta, margin)[0])
        gain = -0.5 * jnp.vdot(gradient, direction)
        done = _finished(before, after, reference, gain, slack)
        return theta, margin, after, count + 1, done

    def unfinished(state):
        return ~state[4] & (state[3] < _NEWTON_STEPS)

    flat = jnp.broadcast_to(start[-1], (n,))
    first = jnp.linalg.norm(derivatives(start, flat)[0])
    begin = (start, flat, first, 0, jnp.asarray(False))
    theta, margin, norm, _, _ = lax.while_loop(unfinished, step, begin)
    _, curvature = derivatives(theta, margin)
    root = cholesky(hessian(curvature))
    whitened = solve_triangular(root, zb.T).T
    pull = c * w * _residual(margin, y)
    return _Model(margin, pull, curvature, whitened, theta[-1], _small(norm, reference))


def _halve(accepted, scale):
    """The first of scale, scale/2, … that is accepted (elementwise), the last if none is."""

    def step(state):
        scale, _, count = state
        fine = accepted(scale)
        return jnp.where(fine, scale, 0.5 * scale), jnp.all(fine), count + 1

    start = scale, jnp.asarray(False), 0
    return lax.while_loop(lambda state: ~state[1] & (state[2] < _HALVINGS), step, start)[0]


@jax.jit
def _fit(x, y, c, w):
    x, mean = _numerics.centred(x, w)
    z = _common.reduced_rows(x)

    def one(y):
        m = _model(z, y, c, w)
        beta = matmul(-m.pull[None], x)[0]
        two_sided = jnp.any((w > 0) & (y == 1)) & jnp.any((w > 0) & (y == 0))
        intercept = m.intercept - jnp.vdot(mean, beta)
        beta, intercept = (jnp.where(two_sided, a, jnp.nan) for a in (beta, intercept))
        return LogisticFit(beta, intercept, m.converged & two_sided)

    return lax.map(one, y)


# ---- Resamples ----------------------------------------------------------------------------------


def _resample(m: _Model, y, present: Float[Array, "n b"], c, w):
    """C m w (y − p) of every resample, `(n, b)`, and whether it reached its minimum."""
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

    def step(state):
        delta, u, before, count, done = state
        gradient, change = derivatives(delta, u)
        gradient = jnp.where(done[None], 0, gradient)
        direction = _common.solve_near_identity(t, change, -gradient, 1e-2)
        along = matmul(t, direction)
        now = value(delta, u)
        loss = jnp.sum(weight * _loss(m.margin[:, None] + u, y), axis=0)
        slack = _SLACK * eps(t.dtype) * (jnp.abs(now) + loss)
        size = _halve(
            lambda s: value(delta + s[None] * direction, u + s[None] * along) <= now + slack,
            jnp.ones(b, t.dtype),
        )
        delta, u = delta + size[None] * direction, u + size[None] * along
        after = jnp.linalg.norm(derivatives(delta, u)[0], axis=0)
        gain = -0.5 * jnp.sum(gradient * direction, axis=0)
        done = done | _finished(before, after, reference, gain, slack)
        return delta, u, after, count + 1, done

    def unfinished(state):
        return ~jnp.all(state[4]) & (state[3] < _NEWTON_STEPS)

    first = jnp.linalg.norm(derivatives(*zero)[0], axis=0)
    begin = (*zero, first, 0, jnp.zeros(b, bool))
    _, u, norm, _, _ = lax.while_loop(unfinished, step, begin)
    pull = -weight * _residual(m.margin[:, None] + u, y)
    return pull, _small(norm, reference)


@functools.partial(jax.jit, static_argnames="chunk")
def _resampled(x, y, masks, c, w, chunk):
    x, _ = _numerics.centred(x, w)
    z = _common.reduced_rows(x)

    def one(y):
        m = _model(z, y, c, w)

        def fit(part):
            both = jnp.any(part & (y == 1)[None], axis=1) & jnp.any(part & (y == 0)[None], axis=1)
            # A resample without a model is fitted on all samples, and not counted.
            present = jnp.where(both[:, None], part, True).T.astype(x.dtype)
            pull, done = _resample(m, y, present, c, w)
            return pull, both, done

        scores = _common.stream(x, masks, chunk, -m.pull, fit)
        return scores._replace(converged=scores.converged & m.converged)

    return lax.map(one, y)
