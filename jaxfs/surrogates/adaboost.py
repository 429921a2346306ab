"""AdaBoost of decision stumps: rules `f_j ≥ θ` on a chosen set of features vote on the class.

Every round t adds the stump h_t that is best under the current sample weights w. A stump consists
of a feature j, a threshold θ, a class for samples with f_j < θ and a class for samples with
f_j ≥ θ. The error of the stump, e_t = Σ_i w_i [h_t(x_i) ≠ y_i], determines its weight

    α_t = η (log((1 − e_t)/e_t) + log(C − 1)),    and    w_i ← w_i exp(α_t [h_t(x_i) ≠ y_i]).

The prediction is the class with the largest Σ_t α_t [h_t(x) = c]. This algorithm is SAMME; for two
classes it is AdaBoost with twice the usual α.

The search uses weights that are whole multiples of 2⁻²³ (float32) or 2⁻⁵² (float64) of their sum.
Sums of these weights are exact in any order. Stumps that divide the samples in the same way
therefore tie, and the lowest feature wins.

**Reference** Freund and Schapire 1997; Zhu, Zou, Rosset and Hastie, *Multi-class AdaBoost*, 2009,
algorithm 2.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps
from jaxfs._types import ArrayLike, Scalar
from jaxfs.surrogates import _shared, _stumps

__all__ = ["Stumps", "fit", "margin", "predict", "quantiles"]

_CRITERIA = ("error", "gini")


class Stumps(NamedTuple):
    """The stumps of T rounds.

    `feature (T,)` and `threshold (T,)` are j and θ. `votes (T, 2, C)` is the contribution of a
    round to the margin of every class, for samples below θ and for samples at or above θ.
    `alpha (T,)` is the weight α of a round, `error (T,)` its weighted error e. Boosting ends when
    no stump is better than chance, or when a stump makes no error. Later rounds have feature −1,
    θ = ∞, α = 0, e = 1.
    """

    feature: Int[Array, "t"]
    threshold: Float[Array, "t"]
    votes: Float[Array, "t 2 c"]
    alpha: Float[Array, "t"]
    error: Float[Array, "t"]


def fit(
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_rounds: int = 50,
    num_classes: int = 2,
    thresholds: ArrayLike | None = None,
    criterion: str = "error",
    learning_rate: Scalar = 1.0,
    features: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Stumps:
    """Fit AdaBoost with decision stumps.

    **Arguments**

    - `x`: `(n, d)`.
    - `y`: `(n,)`, integer codes 0 … C−1; may be traced.
    - `num_rounds`: static, T.
    - `num_classes`: static, C ≥ 2.
    - `thresholds`: candidates for θ. `None`: the midpoints of neighbouring values of each feature.
      A number: one threshold for all features. `(m,)`: the same m thresholds for all features.
      `(d, m)`: m thresholds for each feature, for example from `quantiles`.
    - `criterion`: static; the criterion for the best stump. "error": the smallest error among all
      stumps whose two sides predict different classes (for two classes, both signs of f_j ≥ θ).
      "gini": the smallest Gini impurity of the two sides. Each side predicts the class with the
      largest weight, as in scikit-learn.
    - `learning_rate`: η, positive.
    - `features`: `(d,)`, true or 1 for the features that stumps may use; all by default. To try
      many sets of features, `vmap` over this argument.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored. To try many
      subsets of the samples, `vmap` over this argument; the samples are then sorted only once.

    **Returns** `Stumps`, for `predict` and `margin`.

    **Numerics** ties go to the lowest feature, then to its first threshold. A stump may put all
    samples on one side. A stump that makes no error has α = 1 and is the last stump. Every
    weight is at least eps times the sum of the weights. If a feature in the set has NaN in a sample
    with positive weight, or a traced number is out of range, then thresholds, votes, α and errors
    are NaN and features −1. Under `jit`, samples with labels out of range are ignored.

    With `criterion="gini"` and `thresholds=None`, the predictions equal the predictions of
    scikit-learn's `AdaBoostClassifier` (SAMME, trees of depth 1), with three exceptions.
    scikit-learn breaks ties between features at random. It rounds x to float32 and does not
    separate values closer than 1e-7. It raises an error if the first stump is no better than
    chance; here the model then has no rounds and predicts class 0.

    **Derivatives** none: they are zero almost everywhere.

    **Cost** with `thresholds=None`, one sort of x, and in each round a pass over x of O(C n d).
    With m given thresholds, a matrix product of O(C n d m) in each round, and memory for d m n
    numbers.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[0.0, 5.0], [1.0, 3.0], [2.0, 4.0], [3.0, 9.0]])
    >>> model = fit(x, jnp.array([0, 0, 1, 1]), num_rounds=1)
    >>> model.feature.tolist(), round(float(model.threshold[0]), 3)
    ([0], 1.5)
    """
    x = _checks.samples(x)
    num_rounds = _checks.integer(num_rounds, "num_rounds", low=1)
    num_classes = _checks.integer(num_classes, "num_classes", low=2)
    y = _checks.labels(y, "y", x.shape[0], num_classes)
    _checks.option(criterion, "criterion", _CRITERIA)
    _checks.number(learning_rate, "learning_rate", low=0, open_low=True, scalar=True)
    if thresholds is not None:
        thresholds = _thresholds(thresholds, x)
    chosen = _checks.weights(features, "features", x.shape[1], x.dtype, what="feature") > 0
    w = _checks.sample_weights(weights, x)
    _checks.has_every_class(y, w, "y", num_classes)
    rate = jnp.asarray(learning_rate, x.dtype)
    return _fit(x, y, thresholds, chosen, rate, w, num_rounds, num_classes, criterion)


def margin(model: Stumps, x: ArrayLike) -> Float[Array, "n *c"]:
    """Return the margin of every sample, Σ_t α_t v_t(x) / Σ_t α_t.

    The margin measures how clear the vote is. The vote v_t of a round is 1 for the class that it
    predicts, and −1/(C − 1) for each other class.

    **Arguments**

    - `model`: from `fit`.
    - `x`: `(n, d)`, with the features of the fit.

    **Returns** `(n,)` in [−1, 1] for two classes, positive for class 1; `(n, C)` in
    [−1/(C − 1), 1] for more. A sample with NaN in a feature of the model gives NaN.
    """
    _checks.record(model, "model", Stumps, "`fit`")
    x = _checks.samples(x)
    feature = model.feature
    if not _checks.is_traced(feature) and x.shape[1] <= (last := int(np.max(np.asarray(feature)))):
        expected = f"(n, d) with the features of the fit, d > {last}"
        raise _checks.fail("x", expected, f"{x.shape}")
    votes = _margins(model, x.astype(model.votes.dtype))
    return votes[:, 1] if votes.shape[1] == 2 else votes


def predict(model: Stumps, x: ArrayLike) -> Int[Array, "n"]:
    """Return the class with the largest margin; ties go to the lowest class, a NaN margin gives −1.

    **Arguments** the same as for `margin`.

    **Returns** `(n,)`, integer codes.

    >>> import jax.numpy as jnp
    >>> x, y = jnp.arange(6.0)[:, None], jnp.array([0, 0, 1, 1, 0, 0])
    >>> predict(fit(x, y, num_rounds=3), x).tolist()
    [0, 0, 1, 1, 0, 0]
    """
    votes = margin(model, x)
    if votes.ndim == 1:
        return jnp.where(jnp.isnan(votes), -1, (votes > 0).astype(jnp.int32))
    best = jnp.argmax(votes, axis=1).astype(jnp.int32)
    return jnp.where(jnp.any(jnp.isnan(votes), axis=1), -1, best)


def quantiles(
    x: ArrayLike, num_thresholds: int, *, weights: ArrayLike | None = None
) -> Float[Array, "d m"]:
    """Return thresholds at the quantiles 1/(m+1) … m/(m+1) of every feature.

    The q-quantile is the smallest value v of the feature such that the samples with f_j ≤ v have at
    least a share q of the total weight.

    **Arguments**

    - `x`: `(n, d)`.
    - `num_thresholds`: static, m.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** `(d, m)`, ascending; NaN for a feature with NaN in a sample of positive weight.

    >>> import jax.numpy as jnp
    >>> quantiles(jnp.arange(8.0)[:, None], 3).tolist()
    [[1.0, 3.0, 5.0]]
    """
    x = _checks.samples(x)
    num_thresholds = _checks.integer(num_thresholds, "num_thresholds", low=1)
    return _quantiles(x, _checks.sample_weights(weights, x), num_thresholds)


# ---- Rounds -------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("num_rounds", "num_classes", "criterion"))
def _fit(x, y, thresholds, chosen, rate, w, num_rounds: int, num_classes: int, criterion: str):
    columns = jnp.matrix_transpose(x)
    member = y[None] == jnp.arange(num_classes, dtype=y.dtype)[:, None]
    present = (w > 0) & jnp.any(member, axis=0)
    data = _stumps.StumpData(columns, member, present, chosen, criterion)
    given = thresholds is not None
    search = _stumps.given(data, thresholds) if given else _stumps.halfway(data)
    chance = 1 - 1 / num_classes

    def boost(state, _):
        w, going = state
        whole = jnp.round(w / eps(w.dtype))
        feature, threshold = search(whole)
        above = columns[feature] >= threshold
        held = jnp.where(member, whole[None], 0)
        sides = [jnp.sum(jnp.where(side[None], held, 0), axis=1) for side in (~above, above)]
        classes = _stumps.classes(sides[0], sides[1], criterion)
        wrong = present & ~jnp.where(above, member[classes[1]], member[classes[0]])
        error = jnp.sum(jnp.where(wrong, w, 0)) / jnp.sum(w)
        going = going & (error < chance)
        odds = (1 - error) / jnp.where(error > 0, error, 1)
        alpha = jnp.where(error > 0, rate * jnp.log(odds * (num_classes - 1)), 1)
        alpha = jnp.where(going, alpha, 0)
        w = _normalised(jnp.where(wrong, w * jnp.exp(alpha), w), present)
        made = (
            jnp.where(going, feature, -1),
            jnp.where(going, threshold, jnp.inf),
            classes,
            alpha,
            jnp.where(going, error, 1),
        )
        return (w, going & (error > 0)), made

    start = _normalised(jnp.where(present, w, 0), present), jnp.asarray(True)
    _, (feature, threshold, classes, alpha, error) = lax.scan(boost, start, length=num_rounds)
    known = ~jnp.any(jnp.isnan(columns) & chosen[:, None] & present[None])
    known = known & (rate > 0) & jnp.any(chosen) & jnp.any(present)
    alpha, error, threshold = (jnp.where(known, a, jnp.nan) for a in (alpha, error, threshold))
    predicted = jax.nn.one_hot(classes, num_classes, dtype=bool)
    share = _shared.shares(alpha, axis=0)
    votes = share[:, None, None] * jnp.where(predicted, 1, -1 / (num_classes - 1)).astype(
        alpha.dtype
    )
    return Stumps(jnp.where(known, feature, -1), threshold, votes, alpha, error)


def _normalised(w: Float[Array, "n"], present: Bool[Array, "n"]) -> Float[Array, "n"]:
    """Return weights with sum 1, at least eps, so that no sample disappears from the sums."""
    return jnp.where(present, jnp.maximum(_shared.shares(w, axis=0), eps(w.dtype)), 0)


@jax.jit
def _margins(model: Stumps, x: Float[Array, "n d"]) -> Float[Array, "n c"]:
    values = x[:, jnp.maximum(model.feature, 0)]
    above = values >= model.threshold[None]
    said = jnp.where(above[:, :, None], model.votes[None, :, 1], model.votes[None, :, 0])
    unknown = jnp.any(jnp.isnan(values) & (model.alpha != 0)[None], axis=1)
    return jnp.where(unknown[:, None], jnp.nan, jnp.sum(said, axis=1))


# ---- Thresholds ----------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="num")
def _quantiles(x: Float[Array, "n d"], w: Float[Array, "n"], num: int) -> Float[Array, "d m"]:
    present = w > 0
    known = ~jnp.any(jnp.isnan(x) & present[:, None], axis=0)
    columns = jnp.matrix_transpose(jnp.where(present[:, None], x, jnp.inf))
    spread = jnp.broadcast_to(w[None], columns.shape)
    values, sorted_w = lax.sort((columns, spread), dimension=1, num_keys=1)
    mass = jnp.cumsum(sorted_w, axis=1)
    # The level k/(m+1) is lowered by the rounding error of the sums.
    level = jnp.arange(1, num + 1, dtype=x.dtype) / (num + 1) * (1 - x.shape[0] * eps(x.dtype))
    reached = mass[:, None, :] >= level[None, :, None] * mass[:, None, -1:]
    found = jnp.take_along_axis(values, jnp.argmax(reached, axis=2), axis=1)
    return jnp.where(known[:, None], found, jnp.nan)


def _thresholds(thresholds, x) -> Float[Array, "d m"]:
    out = _checks.array(thresholds, "thresholds", x.dtype)
    d = x.shape[1]
    if out.ndim > 2 or out.size == 0 or (out.ndim == 2 and out.shape[0] != d):
        expected = f"a number, or of shape (m,) or ({d}, m)"
        raise _checks.fail("thresholds", expected, f"shape {out.shape}")
    if out.ndim < 2:
        out = jnp.broadcast_to(out.reshape(1, -1), (d, out.size))
    return out
