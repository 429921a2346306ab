"""Least squares, with an l2 penalty or on the path of an l1 penalty, for many labels at once.

Ridge regression is scikit-learn's: Σ_i w_i (y_i − x_iᵀβ − b)² + α‖β‖², with an intercept b that is
not penalised; `_ridge.py` solves it for resamples too. `_lars.py` follows the path.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxfs import _checks, _numerics
from jaxfs._numerics import matmul, safe_sqrt
from jaxfs._types import ArrayLike, Scalar
from jaxfs.surrogates import _common
from jaxfs.surrogates._common import ResampledScores
from jaxfs.surrogates._lars import path_end
from jaxfs.surrogates._ridge import ridge

__all__ = ["LinearFit", "ResampledScores", "fit", "lars", "resampled_scores"]

METHODS = ("lasso", "lar")


class LinearFit(NamedTuple):
    """`coefficients (l, p)` and `intercept (l,)`."""

    coefficients: Float[Array, "l p"]
    intercept: Float[Array, "l"]


def fit(
    x: ArrayLike, y: ArrayLike, *, alpha: Scalar = 1.0, weights: ArrayLike | None = None
) -> LinearFit:
    """Ridge regression of one or several labels.

    **Arguments**

    - `x`: `(n, p)`.
    - `y`: `(n,)` or `(n, l)`, real: l labels, each fitted by itself.
    - `alpha`: positive, the strength of the penalty.
    - `weights`: `(n,)`, nonnegative sample weights; zero is as if absent.

    **Returns** `LinearFit`; for `y (n,)` without the axis l.

    **Numerics** good to some eps √(1 + λ/α), λ the largest eigenvalue of XᵀX, X centred. NaN in `x`
    makes all NaN, in `y` its label.

    **Derivatives** in all arguments; in a weight that is zero they are taken as 0.

    **Cost** one `eigh` of size min(n, p).

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fit(x, jnp.array([-1.0, -1.0, 1.0, 1.0])).coefficients.round(3).tolist()
    [0.545]
    """
    x, y, one = _common.check_samples(x, y)
    w = _common.check_weights(weights, x)
    out = _fit(x, y, _alpha(alpha, x), w)
    return jax.tree.map(lambda a: a[0], out) if one else out


def resampled_scores(
    x: ArrayLike,
    y: ArrayLike,
    masks: ArrayLike,
    *,
    alpha: Scalar = 1.0,
    weights: ArrayLike | None = None,
    chunk_size: int = 256,
) -> ResampledScores:
    """How the normalised |coefficients| vary when the model is fitted on parts of the samples.

    **Arguments**

    - `x`, `y`, `alpha`, `weights`: as in `fit`.
    - `masks`: `(B, n)`, 1 (or true) for the samples of each resample; any, though the fewer are
      left out the faster it is.
    - `chunk_size`: static, how many models are fitted at a time.

    **Returns** `ResampledScores`; the variance has B − 1 in its denominator. A resample on which
    the label is constant has no coefficients to normalise, and does not count.

    **Cost** one `eigh` of size min(n, p). Resamples that leave out a group of g ≤ n/8 samples, and
    g ≤ 4p: O(g³) each, and for each label and resample two products with an `(n, n)` or `(n, p)`
    matrix. Others: O(n min(n, p)²) each. Memory O(n min(n, p) + (n + p) · chunk), never B × p.
    """
    x, y, one = _common.check_samples(x, y)
    w = _common.check_weights(weights, x)
    present, chunk = _common.check_masks(masks, chunk_size, w)
    out = _resampled(x, y, present, _alpha(alpha, x), w, -(-chunk // y.shape[1]))
    return jax.tree.map(lambda a: a[0], out) if one else out


def lars(
    x: ArrayLike,
    y: ArrayLike,
    num_nonzero: int,
    *,
    method: str = "lasso",
    weights: ArrayLike | None = None,
) -> LinearFit:
    """Least angle regression up to a number of features: the point where one more would enter.

    The path starts at β = 0 and moves so that the features in the model all keep the largest
    |x_jᵀ residual|; a feature enters when it attains that.

    **Arguments**

    - `x`, `y`, `weights`: as in `fit`.
    - `num_nonzero`: static, ≥ 1; at most min(n − 1, p) can enter.
    - `method`: static. `"lasso"`: a feature whose coefficient returns to 0 leaves, so that each
      point solves ½ Σ_i w_i (y_i − x_iᵀβ − b)² + λ‖β‖₁ for some λ. `"lar"`: none leaves.

    **Returns** `LinearFit`; for `y (n,)` without the axis l. Fewer features, and the least-squares
    fit, where it is reached before so many have entered.

    **Numerics** constant features never enter, nor do those that depend linearly on the features in
    the model: of duplicates the first enters. The path ends where the correlations are rounding. A
    path that turns back more than 16 `num_nonzero` times ends there. NaN in `x` makes all NaN, in
    `y` its label.

    **Derivatives** none: constants.

    **Cost** for each feature that enters O(np) a label, and a Cholesky decomposition of that size.

    **Reference** Efron, Hastie, Johnstone and Tibshirani, *Least angle regression*, 2004.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[3.0, 1.0, 0.0], [-3.0, 1.0, 1.0], [3.0, -1.0, 0.0], [-3.0, -1.0, 1.0]])
    >>> lars(x, x[:, 0] + x[:, 1], 1).coefficients.round(3).tolist()
    [0.889, 0.0, 0.0]
    """
    x, y, one = _common.check_samples(x, y)
    if x.shape[0] < 2:
        raise _checks.fail("x", "(n, p) with n ≥ 2 samples", f"{x.shape}")
    number = _checks.integer(num_nonzero, "num_nonzero", low=1)
    _checks.option(method, "method", METHODS)
    w = _common.check_weights(weights, x)
    out = _lars(x, y, w, min(number, x.shape[0] - 1, x.shape[1]), method)
    return jax.tree.map(lambda a: a[0], out) if one else out


def _alpha(alpha: Scalar, x) -> Float[Array, ""]:
    _checks.number(alpha, "alpha", low=0, open_low=True, scalar=True)
    alpha = jnp.asarray(alpha, x.dtype)
    return jnp.where(alpha > 0, alpha, jnp.nan)  # a traced one cannot be refused


class _Problem(NamedTuple):
    """Samples and labels less their means, times √w; 0 where there is no weight."""

    a: Float[Array, "n p"]
    r: Float[Array, "n l"]
    x_mean: Float[Array, "p"]
    y_mean: Float[Array, "l"]

    def answer(self, beta: Float[Array, "l p"]) -> LinearFit:
        return LinearFit(beta, self.y_mean - matmul(beta, self.x_mean[:, None])[:, 0])


def _problem(x, y, w) -> _Problem:
    (a, x_mean), (r, y_mean) = _numerics.centred(x, w), _numerics.centred(y, w)
    root = safe_sqrt(w)[:, None]
    return _Problem(root * a, root * r, x_mean, y_mean)


# ---- Computation --------------------------------------------------------------------------------


@jax.jit
def _fit(x, y, alpha, w):
    problem = _problem(x, y, w)
    model = ridge(problem.a, problem.r, alpha, w)
    return problem.answer(matmul(model.full.T, model.basis))


@functools.partial(jax.jit, static_argnames="chunk")
def _resampled(x, y, masks, alpha, w, chunk):
    problem = _problem(x, y, w)
    model = ridge(problem.a, problem.r, alpha, w)

    def one(y, full, residual):
        def fit(part):
            varied = jax.vmap(lambda there: _numerics.varied(y[:, None], there)[0])(part)
            # A resample without a model is not counted; without any sample it has no equations.
            groups = ~part & (w > 0)[None] & jnp.any(part, axis=1)[:, None]
            away, found = model.without(full, residual, groups)
            return full[:, None] - away, varied, found

        return _common.stream(model.basis, masks, chunk, full, fit)

    # All labels at once: they share the equations of a resample.
    return jax.vmap(one, in_axes=1)(y, model.full, model.residual)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _lars(x, y, w, number, method):
    x, y, w = lax.stop_gradient((x, y, w))
    problem = _problem(x, y, w)
    free = _numerics.varied(x, w > 0)
    return problem.answer(path_end(problem.a, problem.r, free, number, method == "lasso"))
