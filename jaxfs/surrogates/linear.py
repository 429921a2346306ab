"""Linear regression with an l2 penalty, or on the path of an l1 penalty, for many labels at once.

Ridge regression minimises Σ_i w_i (y_i − x_iᵀβ − b)² + α‖β‖², as scikit-learn does. The intercept b
is not penalised. `_ridge.py` solves it, also for resamples; `_lars.py` follows the l1 path.
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
    """Ridge regression of one or several labels.

    **Arguments**

    - `x`: `(n, p)`.
    - `y`: `(n,)` or `(n, l)`, real: l labels, each fitted separately.
    - `alpha`: positive, the strength of the penalty.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** `LinearFit`; for `y (n,)` without the axis l.

    **Numerics** the relative error is some eps √(1 + λ/α), where λ is the largest eigenvalue of
    XᵀX, X centred. NaN in `x` makes all results NaN, NaN in `y` those of its label.

    **Derivatives** in all arguments; in a weight that is zero they are defined as 0.

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
    """Mean and variance of normalised |coefficients| over models of parts of the samples.

    **Arguments**

    - `x`, `y`, `alpha`, `weights`: as in `fit`.
    - `masks`: `(B, n)`, 1 (or true) for the samples of each resample. It is faster the fewer
      samples are left out.
    - `chunk_size`: static, the number of models fitted at a time.

    **Returns** `ResampledScores`; the variance has B − 1 in its denominator. A resample on which
    the label is constant has no coefficients to normalise, and does not count.

    **Cost** one `eigh` of size min(n, p). A resample that leaves out a group of g ≤ n/8 samples,
    g ≤ 4p, takes O(g³), and for each label two products with an `(n, n)` or `(n, p)` matrix. Other
    resamples take O(n min(n, p)²). Memory O(n min(n, p) + (n + p) · chunk), never B × p.
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
    """Least angle regression with a given number of features, just before one more would enter.

    The path starts at β = 0. All features in the model keep the same, largest |x_jᵀ residual|, and
    a feature enters when it attains that value.

    **Arguments**

    - `x`, `y`, `weights`: as in `fit`.
    - `num_nonzero`: static, ≥ 1; at most min(n − 1, p) can enter.
    - `method`: static. `"lasso"`: a feature whose coefficient returns to 0 leaves, so that each
      point solves ½ Σ_i w_i (y_i − x_iᵀβ − b)² + λ‖β‖₁ for some λ. `"lar"`: none leaves.

    **Returns** `LinearFit`; for `y (n,)` without the axis l. If the path reaches the least-squares
    fit with fewer features, that fit.

    **Numerics** constant features never enter, nor do features that depend linearly on those in the
    model: only the first of several duplicates enters. The path ends where all correlations are
    rounding errors, and after 16 `num_nonzero` features have left. NaN in `x` makes all results
    NaN, NaN in `y` those of its label.

    **Derivatives** none: constants.

    **Cost** O(np) for each feature that enters and each label, and a Cholesky decomposition of the
    size of the model.

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
    return jnp.where(alpha > 0, alpha, jnp.nan)  # a traced number cannot raise


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
            # Resamples without a model do not count; an empty one would have no equations.
            groups = ~part & (w > 0)[None] & jnp.any(part, axis=1)[:, None]
            away, found = model.without(full, residual, groups)
            return full[:, None] - away, varied, found

        return _shared.stream(model.basis, masks, chunk, full, fit)

    # All labels at once, because they share the equations of a resample.
    return jax.vmap(one, in_axes=1)(y, model.full, model.residual)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _lars(x, y, w, number, method):
    x, y, w = lax.stop_gradient((x, y, w))
    data = _centred(x, y, w)
    free = _numerics.varied(x, w > 0)
    return data.fit(path_end(data.a, data.r, free, number, method == "lasso"))
