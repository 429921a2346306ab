"""Linear regression with an l2 penalty, or on the path of an l1 penalty, for many labels at once.

Ridge regression minimises Σ_i w_i (y_i − x_iᵀβ − b)² + α‖β‖², as in scikit-learn. The intercept b
is not penalised. `_ridge.py` solves this problem on all samples and on resamples. `_lars.py`
follows the path of the l1 penalty.
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
from jaxfs.surrogates import _shared
from jaxfs.surrogates._lars import path_end
from jaxfs.surrogates._ridge import ridge
from jaxfs.surrogates._shared import ResampledScores

__all__ = ["LinearFit", "ResampledScores", "fit", "lars", "resampled_scores"]

METHODS = ("lasso", "lar")


class LinearFit(NamedTuple):
    """A linear model for each of l labels: `coefficients (l, p)` and `intercept (l,)`."""

    coefficients: Float[Array, "l p"]
    intercept: Float[Array, "l"]


def fit(
    x: ArrayLike, y: ArrayLike, *, alpha: Scalar = 1.0, weights: ArrayLike | None = None
) -> LinearFit:
    """Fit ridge regression to one or several labels.

    **Arguments**

    - `x`: `(n, p)`.
    - `y`: `(n,)` or `(n, l)`, real: l labels, each fitted separately.
    - `alpha`: positive, the strength of the penalty.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** `LinearFit`; for `y (n,)` without the axis l.

    **Numerics** the relative error is of order eps √(1 + λ/α), where λ is the largest eigenvalue of
    XᵀX for centred X. NaN in `x` makes all results NaN. NaN in `y` makes the results of its label
    NaN.

    **Derivatives** exist in all arguments. The derivative in a weight that is zero is defined as 0.

    **Cost** one `eigh` of size min(n, p).

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fit(x, jnp.array([-1.0, -1.0, 1.0, 1.0])).coefficients.round(3).tolist()
    [0.545]
    """
    x, y, w, one = _shared.check_samples(x, y, weights)
    return _shared.without_label_axis(_fit(x, y, _alpha(alpha, x), w), one)


def resampled_scores(
    x: ArrayLike,
    y: ArrayLike,
    masks: ArrayLike,
    *,
    alpha: Scalar = 1.0,
    weights: ArrayLike | None = None,
    chunk_size: int = 256,
) -> ResampledScores:
    """Return the mean and variance of normalised |coefficients| over models fitted on resamples.

    **Arguments**

    - `x`, `y`, `alpha`, `weights`: as in `fit`.
    - `masks`: `(B, n)`, 1 (or true) for the samples of each resample. The fewer samples are
      left out, the faster the fit.
    - `chunk_size`: static, the number of models fitted at a time.

    **Returns** `ResampledScores`; the variance has B − 1 in its denominator. A resample on which
    the label is constant has no coefficients to normalise, and does not count.

    **Cost** one `eigh` of size min(n, p). If a resample leaves out g samples, g ≤ n/8 and g ≤ 4p,
    it takes O(g³), and for each label two products with an `(n, n)` or `(n, p)` matrix. Other
    resamples take O(n min(n, p)²). Memory is O(n min(n, p) + (n + p) · chunk), never B × p.
    """
    x, y, w, one = _shared.check_samples(x, y, weights)
    present, chunk = _shared.check_masks(masks, chunk_size, w)
    out = _resampled(x, y, present, _alpha(alpha, x), w, -(-chunk // y.shape[1]))
    return _shared.without_label_axis(out, one)


def lars(
    x: ArrayLike,
    y: ArrayLike,
    num_nonzero: int,
    *,
    method: str = "lasso",
    weights: ArrayLike | None = None,
) -> LinearFit:
    """Fit least angle regression with a given number of features, just before one more would enter.

    The path starts at β = 0. All features in the model have the same |x_jᵀ residual|, which is the
    largest of all features. Another feature enters when it attains this value.

    **Arguments**

    - `x`, `y`, `weights`: as in `fit`.
    - `num_nonzero`: static, ≥ 1; at most min(n − 1, p) can enter.
    - `method`: static. `"lasso"`: a feature leaves when its coefficient returns to 0, so that each
      point of the path minimises ½ Σ_i w_i (y_i − x_iᵀβ − b)² + λ‖β‖₁ for some λ. `"lar"`: no
      feature leaves.

    **Returns** `LinearFit`; for `y (n,)` without the axis l. If the path reaches the least-squares
    fit with fewer features, this fit is returned.

    **Numerics** constant features never enter. Features that depend linearly on the features in the
    model do not enter either: only the first of several duplicates enters. The path ends when all
    correlations are rounding errors, or after features have left 16 · `num_nonzero` times. NaN in
    `x` makes all results NaN. NaN in `y` makes the results of its label NaN.

    **Derivatives** none: the results are constants for differentiation.

    **Cost** O(np + k (k + n)) for each label and each feature that enters or leaves, where k is
    `num_nonzero`.

    **Reference** Efron, Hastie, Johnstone and Tibshirani, *Least angle regression*, 2004.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[3.0, 1.0, 0.0], [-3.0, 1.0, 1.0], [3.0, -1.0, 0.0], [-3.0, -1.0, 1.0]])
    >>> lars(x, x[:, 0] + x[:, 1], 1).coefficients.round(3).tolist()
    [0.889, 0.0, 0.0]
    """
    x, y, w, one = _shared.check_samples(x, y, weights)
    if x.shape[0] < 2:
        raise _checks.fail("x", "(n, p) with n ≥ 2 samples", f"{x.shape}")
    number = _checks.integer(num_nonzero, "num_nonzero", low=1)
    _checks.option(method, "method", METHODS)
    out = _lars(x, y, w, min(number, x.shape[0] - 1, x.shape[1]), method)
    return _shared.without_label_axis(out, one)


def _alpha(alpha: Scalar, x) -> Float[Array, ""]:
    _checks.number(alpha, "alpha", low=0, open_low=True, scalar=True)
    alpha = jnp.asarray(alpha, x.dtype)
    return jnp.where(alpha > 0, alpha, jnp.nan)  # a traced number cannot raise an error


class _Centred(NamedTuple):
    """Samples and labels minus their means, times √w; 0 for samples without weight."""

    a: Float[Array, "n p"]
    r: Float[Array, "n l"]
    x_mean: Float[Array, "p"]
    y_mean: Float[Array, "l"]

    def fit(self, beta: Float[Array, "l p"]) -> LinearFit:
        return LinearFit(beta, self.y_mean - matmul(beta, self.x_mean[:, None])[:, 0])


def _centred(x, y, w) -> _Centred:
    (a, x_mean), (r, y_mean) = _numerics.centred(x, w), _numerics.centred(y, w)
    root = safe_sqrt(w)[:, None]
    return _Centred(root * a, root * r, x_mean, y_mean)


# ---- Computation --------------------------------------------------------------------------------


@jax.jit
def _fit(x, y, alpha, w):
    data = _centred(x, y, w)
    model = ridge(data.a, data.r, alpha, w)
    return data.fit(matmul(model.full.T, model.basis))


@functools.partial(jax.jit, static_argnames="chunk")
def _resampled(x, y, masks, alpha, w, chunk):
    data = _centred(x, y, w)
    model = ridge(data.a, data.r, alpha, w)

    def one(y, full, residual):
        def fit(part):
            varied = jax.vmap(lambda there: _numerics.varied(y[:, None], there)[0])(part)
            # Resamples without a model do not count. An empty one is solved as if it had all
            # samples, because it would have no equations.
            groups = ~part & (w > 0)[None] & jnp.any(part, axis=1)[:, None]
            away, found = model.without(full, residual, groups)
            return full[:, None] - away, varied, found

        return _shared.stream(model.basis, masks, chunk, full[:, None], fit)

    # All labels are solved at once, because they share the equations of a resample.
    return jax.vmap(one, in_axes=1)(y, model.full, model.residual)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _lars(x, y, w, number, method):
    x, y, w = lax.stop_gradient((x, y, w))
    data = _centred(x, y, w)
    free = _numerics.varied(x, w > 0)
    return data.fit(path_end(data.a, data.r, free, number, method == "lasso"))
