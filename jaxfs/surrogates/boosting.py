"""Gradient-boosted trees with XGBoost's rules, for many label vectors of one data set.

A tree is grown from gradients g_i and curvatures h_i of the loss at the current margin. A node
whose samples have the sums G = Σ g_i and H = Σ h_i has the quality G² / (H + λ). Among all features
and thresholds, the split with the largest gain

    G_L² / (H_L + λ) + G_R² / (H_R + λ) − G² / (H + λ)

is made, if H ≥ `min_child_weight` on both sides. Leaves add −η G / (H + λ) to the margin. The
search is exact: samples are sorted once by every feature, and one pass over the sorted samples
gives all sums of a node.

Gradients and curvatures are rounded to whole multiples of a power of two, so that their sums are
the same in any order. With many more features than samples, many features split a node in the same
way. Their gains must then be equal, without rounding errors, so that the lowest feature wins.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, nan_unless, safe_divide
from jaxfs._types import ArrayLike, Scalar
from jaxfs.surrogates import _shared
from jaxfs.surrogates._trees import Rules, grow, sort_samples

__all__ = ["BoostingFit", "fit", "predict"]

_LOSSES = ("logistic", "squared")
#: Smallest curvature of the logistic loss, as in XGBoost.
_LEAST_CURVATURE = 1e-16


class BoostingFit(NamedTuple):
    """Trees for l labels, and the importances of the features.

    The importance of a feature is the mean gain of its splits, divided by the sum over features.
    Trees are heaps: node m has the children 2m and 2m + 1, and the root is 1. `feature` is −1 at
    nodes that do not split. A sample goes left if its feature is below the threshold. A leaf adds
    `value` to the margin. `base` is the margin before the first tree.
    """

    importances: Float[Array, "l p"]
    base: Float[Array, "l"]
    feature: Int[Array, "l t m"]
    threshold: Float[Array, "l t m"]
    value: Float[Array, "l t m"]


def fit(
    x: ArrayLike,
    y: ArrayLike,
    *,
    loss: str = "logistic",
    num_trees: int = 100,
    max_depth: int = 6,
    learning_rate: Scalar = 0.3,
    l2: Scalar = 1.0,
    min_child_weight: Scalar = 1.0,
    weights: ArrayLike | None = None,
) -> BoostingFit:
    """Fit boosted trees to one or several labels; the defaults are XGBoost's.

    **Arguments**

    - `x`: `(n, p)`.
    - `y`: `(n,)` or `(n, l)`: 0 or 1 (or booleans) for the logistic loss, real numbers for the
      squared loss.
    - `loss`: "logistic" or "squared"; static.
    - `num_trees`, `max_depth`: static.
    - `learning_rate`: η, positive.
    - `l2`: λ, nonnegative.
    - `min_child_weight`: the smallest H allowed on each side of a split, positive.
    - `weights`: `(n,)`, nonnegative sample weights; a sample of weight 0 is ignored.

    **Returns** `BoostingFit`; for `y (n,)` without the axis l. Importances are 0 if no node splits.

    **Numerics** the margin starts from the mean label (logistic loss: from its logit). Gradients
    are rounded to 2⁻²⁸ of the sum of their absolute values. Ties in the gain go to the lowest
    feature, and to its highest threshold. Gains below 1e-6 do not count, so targets should not be
    tiny numbers. With the logistic loss and a label with only one value, the margin stays at the
    logit of eps or 1 − eps. If x or y has NaN in a sample of positive weight, or a traced setting
    is out of range, importances and values are NaN.

    **Derivatives** none: they are zero almost everywhere.

    **Cost** one sort of x, then a pass over x for every node that may split. Once the labels are
    learned, H is too small for any node to split, and further trees cost nothing.

    **Reference** Chen and Guestrin, *XGBoost*, 2016, algorithm 1; SSFS, section 5.1.

    >>> import jax.numpy as jnp
    >>> x = jnp.stack([jnp.arange(20.0) % 3, jnp.arange(20.0)], axis=1)
    >>> fit(x, jnp.arange(20) >= 8).importances.tolist()
    [0.0, 1.0]
    """
    _checks.option(loss, "loss", _LOSSES)
    x, y, w, one = _shared.check_samples(x, y, weights, binary=loss == "logistic")
    check_settings(num_trees, max_depth, learning_rate, l2, min_child_weight)
    rules = Rules(*(jnp.asarray(a, x.dtype) for a in (learning_rate, l2, min_child_weight)))
    out = _fit(x, jnp.matrix_transpose(y), w, rules, loss, num_trees, max_depth)
    return _shared.without_label_axis(out, one)


def check_settings(num_trees, max_depth, learning_rate, l2, min_child_weight) -> None:
    """Check the settings of `fit`."""
    _checks.integer(num_trees, "num_trees", low=1)
    _checks.integer(max_depth, "max_depth", low=1, high=12)
    _checks.number(learning_rate, "learning_rate", low=0, open_low=True, scalar=True)
    _checks.number(l2, "l2", low=0, scalar=True)
    _checks.number(min_child_weight, "min_child_weight", low=0, open_low=True, scalar=True)


def predict(model: BoostingFit, x: ArrayLike, *, loss: str = "logistic") -> Float[Array, "n *l"]:
    """Predict new samples: the probability of label 1, or for the squared loss the number.

    **Arguments**

    - `model`: from `fit`, for one label or several.
    - `x`: `(n, p)`.
    - `loss`: the loss of the fit; static.

    **Returns** `(n,)`, or `(n, l)` for several labels. A sample with NaN gives NaN.
    """
    _checks.record(model, "model", BoostingFit, "`fit`")
    x = _checks.real(x, "x", ndim=2)
    _checks.option(loss, "loss", _LOSSES)
    if model.importances.shape[-1] != x.shape[1]:
        expected = f"(n, {model.importances.shape[-1]}), the features of the fit"
        raise _checks.fail("x", expected, f"{x.shape}")
    return _predict(model, x.astype(model.value.dtype), loss)


# ---- Rounds -------------------------------------------------------------------------------------


def _gradients(margin, y, w, loss: str) -> Float[Array, "2 n"]:
    if loss == "squared":
        return jnp.stack([w * (margin - y), w])
    p = jax.nn.sigmoid(margin)
    return jnp.stack([w * (p - y), w * jnp.maximum(p * (1 - p), _LEAST_CURVATURE)])


@functools.partial(jax.jit, static_argnames=("loss", "num_trees", "depth"))
def _fit(x, y, w, rules: Rules, loss: str, num_trees: int, depth: int) -> BoostingFit:
    present = w > 0
    known = ~jnp.any(jnp.isnan(x) & present[:, None])
    known = known & (rules.learning_rate > 0) & (rules.l2 >= 0) & (rules.min_child_weight > 0)
    s = sort_samples(x, present)

    def one(y):
        y = jnp.where(present, y, 0)
        mean = jnp.sum(w * y) / jnp.sum(w)
        base = mean if loss == "squared" else _logit(mean)

        def add(state, _):
            margin, gains, counts = state
            tree, value = grow(s, present, _gradients(margin, y, w, loss), rules, depth)
            used = jnp.where(tree.feature < 0, x.shape[1], tree.feature)
            gains = gains.at[used].add(tree.gain, mode="drop")
            counts = counts.at[used].add(1, mode="drop")
            return (margin + value[tree.node], gains, counts), (tree.feature, tree.threshold, value)

        zero = jnp.zeros(x.shape[1], x.dtype)
        start = (jnp.broadcast_to(base, y.shape), zero, zero)
        (_, gains, counts), trees = lax.scan(add, start, length=num_trees)
        importances = _shared.shares(safe_divide(gains, counts), axis=0)
        feature, threshold, value = trees
        certain = known & ~jnp.isnan(base)
        importances, value = nan_unless(certain, (importances, value))
        return BoostingFit(importances, base, feature, threshold, value)

    return lax.map(one, y)


def _logit(p: Float[Array, ""]) -> Float[Array, ""]:
    """Return the logit of p, clipped so that it is finite at 0 and 1."""
    p = jnp.clip(p, eps(p.dtype), 1 - eps(p.dtype))
    return jnp.log(p) - jnp.log1p(-p)


@functools.partial(jax.jit, static_argnames="loss")
def _predict(model: BoostingFit, x: Float[Array, "n p"], loss: str) -> Float[Array, "n *l"]:
    if model.base.ndim:
        return lax.map(lambda label: _predict(label, x, loss), model).T
    depth = model.feature.shape[-1].bit_length() - 2
    rows = jnp.arange(x.shape[0])

    def add(margin, tree):
        feature, threshold, value = tree

        def descend(_, node):
            f = feature[node]
            right = x[rows, jnp.maximum(f, 0)] >= threshold[node]
            return jnp.where(f < 0, node, 2 * node + right.astype(node.dtype))

        node = lax.fori_loop(0, depth, descend, jnp.ones(x.shape[0], jnp.int32))
        return margin + value[node], None

    trees = model.feature, model.threshold, model.value
    margin, _ = lax.scan(add, jnp.broadcast_to(model.base, x.shape[:1]), trees)
    margin = jnp.where(jnp.any(jnp.isnan(x), axis=1), jnp.nan, margin)
    return margin if loss == "squared" else jax.nn.sigmoid(margin)
