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
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, matmul, safe_divide
from jaxfs._types import ArrayLike, Scalar

_NEWTON_STEPS = 40
_CG_STEPS = 60
_HALVINGS = 12


class LogisticFit(NamedTuple):
    """`coefficients (l, p)`, `intercept (l,)`, and whether each fit reached its minimum, `(l,)`."""

    coefficients: Float[Array, "l p"]
    intercept: Float[Array, "l"]
    converged: Bool[Array, "l"]


class ResampledScores(NamedTuple):
    """|β| of every resample, divided by its sum: mean and variance over resamples, `(l, p)`.

    `num_counted (l,)`: the resamples with samples on both sides; the others have no model and are
    left out. `converged (l,)`: whether all of them reached their minimum.
    """

    mean: Float[Array, "l p"]
    variance: Float[Array, "l p"]
    num_counted: Int[Array, "l"]
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
    x, y, one = _data(x, y)
    _checks.number(c, "c", low=0, open_low=True, scalar=True)
    w = _weights(weights, x)
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
    x, y, one = _data(x, y)
    _checks.number(c, "c", low=0, open_low=True, scalar=True)
    masks = _checks.array(masks, "masks")
    if masks.ndim != 2 or masks.shape[1] != x.shape[0] or masks.shape[0] < 2:
        expected = f"of shape (B, {x.shape[0]}) with B ≥ 2 resamples"
        raise _checks.fail("masks", expected, f"shape {masks.shape}")
    chunk_size = _checks.integer(chunk_size, "chunk_size", low=1)
    w = _weights(weights, x)
    present = masks.astype(bool) & (w > 0)[None]
    out = _resampled(x, y, present, jnp.asarray(c, x.dtype), w, min(chunk_size, masks.shape[0]))
    return jax.tree.map(lambda a: a[0], out) if one else out


def _data(x, y):
    x = _checks.real(x, "x", ndim=2)
    if 0 in x.shape:
        raise _checks.fail("x", "(n, p) with n ≥ 1 samples and p ≥ 1 features", f"{x.shape}")
    y = _checks.array(y, "y")
    one = y.ndim == 1
    y = y[:, None] if one else y
    if y.ndim != 2 or y.shape[0] != x.shape[0]:
        expected = f"of shape ({x.shape[0]},) or ({x.shape[0]}, l), one label a sample"
        raise _checks.fail("y", expected, f"shape {y.shape}")
    if not _checks.is_traced(y) and not bool(jnp.all((y == 0) | (y == 1))):
        raise _checks.fail("y", "0 or 1", "other values")
    return x, jnp.matrix_transpose(y).astype(x.dtype), one


def _weights(weights, x):
    if weights is None:
        return jnp.ones(x.shape[0], x.dtype)
    return _checks.weights(weights, "weights", x.shape[0], x.dtype)


# ---- All samples --------------------------------------------------------------------------------


def _centred(x: Float[Array, "n p"], w) -> tuple[Float[Array, "n p"], Float[Array, "p"]]:
    """Samples less their mean, which the intercept takes over, 0 for those absent; and the mean."""
    x = jnp.where((w > 0)[:, None], x, 0)
    mean = matmul((w / jnp.sum(w))[None], x)[0]
    return jnp.where((w > 0)[:, None], x - mean[None], 0), mean


def _rows(x: Float[Array, "n p"]) -> Float[Array, "n r"]:
    """Rows with the inner products of the samples, r = min(n, p)."""
    if x.shape[1] < x.shape[0]:
        return x
    w, u = jnp.linalg.eigh(matmul(x, x.T))
    return u * jnp.sqrt(jnp.maximum(w, 0))[None]


class _Model(NamedTuple):
    """The fit of one label on all samples, and the metric that it gives."""

    margin: Float[Array, "n"]  # x_iᵀβ + b
    pull: Float[Array, "n"]  # C w (p − y)
    curvature: Float[Array, "n"]  # C w p (1 − p)
    whitened: Float[Array, "n r1"]  # T
    intercept: Float[Array, ""]
    converged: Bool[Array, ""]


def _loss(margin, y):
    """log(1 + exp(−s m)), s = 2 y − 1."""
    return jax.nn.softplus(margin) - y * margin


def _finished(before, after, reference) -> Bool[Array, "*b"]:
    """Whether the norm of the gradient is small, and fell no further: what is left is rounding."""
    return _small(after, reference) & (after > 0.7 * before) | (after == 0)


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
        p = jax.nn.sigmoid(margin)
        gradient = penalty * theta + matmul(c * (w * (p - y))[None], zb)[0]
        return gradient, c * w * p * (1 - p)

    def hessian(curvature):
        h = matmul(zb.T * curvature[None], zb) + jnp.diag(penalty)
        # The intercept alone is not penalised; where all p are 0 or 1 it has no curvature left.
        return h.at[-1, -1].add(eps(z.dtype) * jnp.trace(h))

    reference = jnp.linalg.norm(matmul((c * w * (0.5 - y))[None], zb))

    def step(state):
        theta, margin, before, count, _ = state
        gradient, curvature = derivatives(theta, margin)
        direction = -jax.scipy.linalg.solve(hessian(curvature), gradient, assume_a="pos")
        along = matmul(zb, direction[:, None])[:, 0]
        now = value(theta, margin)
        scale = _halve(
            lambda s: (
                value(theta + s * direction, margin + s * along)
                <= now + eps(z.dtype) * jnp.abs(now)
            ),
            jnp.ones((), z.dtype),
        )
        theta, margin = theta + scale * direction, margin + scale * along
        after = jnp.linalg.norm(derivatives(theta, margin)[0])
        return theta, margin, after, count + 1, _finished(before, after, reference)

    def unfinished(state):
        return ~state[4] & (state[3] < _NEWTON_STEPS)

    flat = jnp.broadcast_to(start[-1], (n,))
    first = jnp.linalg.norm(derivatives(start, flat)[0])
    begin = (start, flat, first, 0, jnp.asarray(False))
    theta, margin, norm, _, _ = lax.while_loop(unfinished, step, begin)
    _, curvature = derivatives(theta, margin)
    root = jnp.linalg.cholesky(hessian(curvature))
    whitened = jax.scipy.linalg.solve_triangular(root, zb.T, lower=True).T
    pull = c * w * (jax.nn.sigmoid(margin) - y)
    return _Model(margin, pull, curvature, whitened, theta[-1], _small(norm, reference))


def _halve(accepted, scale):
    """The first of scale, scale/2, … that is accepted (elementwise), the last if none is."""
    return lax.fori_loop(0, _HALVINGS, lambda _, s: jnp.where(accepted(s), s, 0.5 * s), scale)


@jax.jit
def _fit(x, y, c, w):
    x, mean = _centred(x, w)
    z = _rows(x)

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
        p = jax.nn.sigmoid(m.margin[:, None] + u)
        force = weight * (p - y) - m.pull[:, None] - d * u
        return delta + matmul(t.T, force), weight * p * (1 - p) - d

    def newton(gradient, change):
        """Conjugate gradients on (I + Tᵀ diag(change) T) s = −gradient."""

        def product(v):
            return v + matmul(t.T, change * matmul(t, v))

        def step(state):
            s, residual, direction, norm, count = state
            image = product(direction)
            a = safe_divide(norm, jnp.sum(direction * image, axis=0))
            s, residual = s + a[None] * direction, residual - a[None] * image
            new = jnp.sum(residual**2, axis=0)
            direction = residual + safe_divide(new, norm)[None] * direction
            return s, residual, direction, new, count + 1

        def unfinished(state):
            return jnp.any(state[3] > goal) & (state[4] < _CG_STEPS)

        norm = jnp.sum(gradient**2, axis=0)
        goal = 1e-4 * norm
        start = (jnp.zeros_like(gradient), -gradient, -gradient, norm, 0)
        return lax.while_loop(unfinished, step, start)[0]

    r, b = t.shape[1], present.shape[1]
    zero = jnp.zeros((r, b), t.dtype), jnp.zeros((t.shape[0], b), t.dtype)
    reference = jnp.linalg.norm(matmul(t.T, weight * (0.5 - y)), axis=0)

    def step(state):
        delta, u, before, count, done = state
        gradient, change = derivatives(delta, u)
        direction = newton(jnp.where(done[None], 0, gradient), change)
        along = matmul(t, direction)
        now = value(delta, u)
        slack = eps(t.dtype) * jnp.abs(now)
        size = _halve(
            lambda s: value(delta + s[None] * direction, u + s[None] * along) <= now + slack,
            jnp.ones(b, t.dtype),
        )
        delta, u = delta + size[None] * direction, u + size[None] * along
        after = jnp.linalg.norm(derivatives(delta, u)[0], axis=0)
        return delta, u, after, count + 1, done | _finished(before, after, reference)

    def unfinished(state):
        return ~jnp.all(state[4]) & (state[3] < _NEWTON_STEPS)

    first = jnp.linalg.norm(derivatives(*zero)[0], axis=0)
    begin = (*zero, first, 0, jnp.zeros(b, bool))
    _, u, norm, _, _ = lax.while_loop(unfinished, step, begin)
    pull = weight * (y - jax.nn.sigmoid(m.margin[:, None] + u))
    return pull, _small(norm, reference)


@functools.partial(jax.jit, static_argnames="chunk")
def _resampled(x, y, masks, c, w, chunk):
    x, _ = _centred(x, w)
    z = _rows(x)
    size = -(-masks.shape[0] // chunk)
    padded = jnp.pad(masks, ((0, size * chunk - masks.shape[0]), (0, 0)))
    chunks = padded.reshape(size, chunk, -1)

    def normalised(pull):
        score = jnp.abs(matmul(x.T, pull))
        return safe_divide(score, jnp.broadcast_to(jnp.sum(score, axis=0), score.shape))

    def one(y):
        m = _model(z, y, c, w)
        centre = normalised(-m.pull[:, None])

        def add(total, part):
            both = jnp.any(part & (y == 1)[None], axis=1) & jnp.any(part & (y == 0)[None], axis=1)
            # A resample without a model is fitted on all samples, and not counted.
            present = jnp.where(both[:, None], part, True).T.astype(x.dtype)
            pull, done = _resample(m, y, present, c, w)
            away = jnp.where(both[None], normalised(pull) - centre, 0)
            count, first, second, fine = total
            return (
                count + jnp.sum(both, dtype=jnp.int32),
                first + jnp.sum(away, axis=1),
                second + jnp.sum(away * away, axis=1),
                fine & jnp.all(done | ~both),
            ), None

        zero = jnp.zeros(x.shape[1], x.dtype)
        (count, first, second, fine), _ = lax.scan(
            add, (jnp.int32(0), zero, zero, m.converged), chunks
        )
        number = count.astype(x.dtype)
        shift = first / number
        variance = (second - number * shift**2) / (number - 1)
        mean = centre[:, 0] + shift
        return ResampledScores(mean, jnp.maximum(variance, 0), count, fine)

    return lax.map(one, y)
