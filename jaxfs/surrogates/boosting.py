"""Gradient-boosted trees with XGBoost's rules, for many label vectors of one data set.

A tree is grown from gradients g_i and curvatures h_i of the loss at the current margin. A node with
sums G, H is worth G² / (H + λ); of all features and thresholds the split that gains most,

    G_L² / (H_L + λ) + G_R² / (H_R + λ) − G² / (H + λ),

is made if both sides keep H ≥ `min_child_weight`. Leaves add −η G / (H + λ) to the margin. The
search is exact: samples are sorted once by every feature, and a node reads all its sums from one
pass over the sorted samples.

Sums are of whole numbers, g and h in units of a power of two. They are then the same in any order:
with many more features than samples many features split a node alike, and that must be a tie, which
the lowest feature wins, and not a matter of rounding.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import safe_divide
from jaxfs._types import ArrayLike, Scalar
from jaxfs.surrogates import _common

_LOSSES = ("logistic", "squared")
_LEAST_GAIN = 1e-6  # XGBoost's: a split that gains less is rounding
_LEAST_CURVATURE = 1e-16


class BoostingFit(NamedTuple):
    """Trees of l labels, and the mean gain of each feature's splits, divided by the sum.

    Trees are heaps: node m has the children 2m and 2m + 1, the root is 1. `feature` is −1 at nodes
    that do not split. A sample goes left where its feature is below the threshold; `value` is what
    a leaf adds to the margin. `base` is the margin before the first tree.
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
    """Boosted trees for one or several labels; the defaults are XGBoost's.

    **Arguments**

    - `x`: `(n, p)`.
    - `y`: `(n,)` or `(n, l)`: 0 or 1 (or booleans) for the logistic loss, numbers for the squared.
    - `loss`: "logistic" or "squared"; static.
    - `num_trees`, `max_depth`: static.
    - `learning_rate`: η, positive.
    - `l2`: λ, nonnegative.
    - `min_child_weight`: the least H of a side of a split, positive.
    - `weights`: `(n,)`, nonnegative sample weights; zero is as if absent.

    **Returns** `BoostingFit`; for `y (n,)` without the axis l. Importances are 0 if nothing splits.

    **Numerics** the margin starts from the mean label. Gradients are rounded to 2⁻³⁰ of the sum of
    their absolute values. Of equal gains the lowest feature counts, and its highest threshold;
    gains below 1e-6 do not count, so targets should not be tiny numbers. A label with samples on
    one side only starts, and stays, at the last finite logit. If x or y hold NaN where a sample has
    weight, importances and values are NaN.

    **Derivatives** none: zero almost everywhere.

    **Cost** a sort of x; then for every node that may split a pass over x. Once the labels are
    learnt, no node can keep H on both sides, and trees cost nothing.

    **Reference** Chen and Guestrin, *XGBoost*, 2016, algorithm 1; SSFS, section 5.1.

    >>> import jax.numpy as jnp
    >>> x = jnp.stack([jnp.arange(20.0) % 3, jnp.arange(20.0)], axis=1)
    >>> fit(x, jnp.arange(20) >= 8).importances.tolist()
    [0.0, 1.0]
    """
    x, y, one = _common.check_samples(x, y)
    _checks.option(loss, "loss", _LOSSES)
    if loss == "logistic":
        _common.check_binary(y)
    num_trees = _checks.integer(num_trees, "num_trees", low=1)
    max_depth = _checks.integer(max_depth, "max_depth", low=1, high=12)
    _checks.number(learning_rate, "learning_rate", low=0, open_low=True, scalar=True)
    _checks.number(l2, "l2", low=0, scalar=True)
    _checks.number(min_child_weight, "min_child_weight", low=0, open_low=True, scalar=True)
    w = _common.check_weights(weights, x)
    numbers = (jnp.asarray(a, x.dtype) for a in (learning_rate, l2, min_child_weight))
    rules = _Rules(*numbers)
    y = jnp.matrix_transpose(y).astype(x.dtype)
    out = _fit(x, y, w, rules, loss, num_trees, max_depth)
    return jax.tree.map(lambda a: a[0], out) if one else out


def predict(model: BoostingFit, x: ArrayLike, *, loss: str = "logistic") -> Float[Array, "n *l"]:
    """What the trees say of new samples: the probability of label 1, or for "squared" the number.

    **Arguments**

    - `model`: from `fit`, of one label or several.
    - `x`: `(n, p)`.
    - `loss`: that of the fit; static.

    **Returns** `(n,)`, or `(n, l)` for several labels. A sample with NaN gives NaN.
    """
    x = _checks.real(x, "x", ndim=2)
    _checks.option(loss, "loss", _LOSSES)
    if model.importances.shape[-1] != x.shape[1]:
        expected = f"(n, {model.importances.shape[-1]}), the features of the fit"
        raise _checks.fail("x", expected, f"{x.shape}")
    return _predict(model, x.astype(model.value.dtype), loss)


# ---- The sorted samples -------------------------------------------------------------------------


class _Rules(NamedTuple):
    learning_rate: Float[Array, ""]
    l2: Float[Array, ""]
    min_child_weight: Float[Array, ""]


class _Sorted(NamedTuple):
    """Samples by rising value of every feature: `order (n, p)`, and after which rows one may cut.

    `columns (p, n)` is x transposed: a feature is read as a whole.
    """

    order: Int[Array, "n p"]
    cut: Bool[Array, "n p"]
    columns: Float[Array, "p n"]


def _sorted(x: Float[Array, "n p"], present: Bool[Array, "n"]) -> _Sorted:
    """Absent samples come last; none of their sums counts."""
    x = jnp.where(present[:, None], x, jnp.inf)
    index = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    values, order = lax.sort((x, index), dimension=0, num_keys=1, is_stable=True)
    following = jnp.concat([values[1:], values[-1:]])
    return _Sorted(order, values != following, jnp.matrix_transpose(x))


class _Split(NamedTuple):
    gain: Float[Array, ""]
    feature: Int[Array, ""]
    threshold: Float[Array, ""]
    right: Bool[Array, "n"]


def _worth(g, h, l2):
    return g * g / (h + l2)


def _best_split(
    s: _Sorted, inside: Bool[Array, "n"], sums: Int[Array, "2 n"], unit: Float[Array, "2"], rules
) -> _Split:
    """The split of one node, whose samples are `inside`; a gain of −∞ if none may be made."""
    sums = jnp.where(inside[None], sums, 0)
    total = jnp.sum(sums, axis=1, dtype=jnp.int32)

    def worth(below: Int[Array, "2 *p"], cut: Bool[Array, "*p"]) -> Float[Array, "*p"]:
        """Of both sides, where a cut is allowed."""
        g, h = (below[i].astype(unit.dtype) * unit[i] for i in (0, 1))
        rest_g, rest_h = ((total[i] - below[i]).astype(unit.dtype) * unit[i] for i in (0, 1))
        allowed = cut & (h >= rules.min_child_weight) & (rest_h >= rules.min_child_weight)
        value = _worth(g, h, rules.l2) + _worth(rest_g, rest_h, rules.l2)
        return jnp.where(allowed, value, -jnp.inf)

    def add(state, row):
        below, best = state
        samples, cut = row
        below = below + sums.at[:, samples].get(mode="promise_in_bounds")
        return (below, jnp.maximum(best, worth(below, cut))), None

    p = s.order.shape[1]
    start = jnp.zeros((2, p), jnp.int32), jnp.full(p, -jnp.inf, unit.dtype)
    (_, best), _ = lax.scan(add, start, (s.order, s.cut))
    feature = jnp.argmax(best).astype(jnp.int32)

    # Which cut it was is found again in its column: keeping it for all features costs a third more.
    order = s.order[:, feature]
    column = worth(jnp.cumsum(sums[:, order], axis=1, dtype=jnp.int32), s.cut[:, feature])
    last = column.shape[0] - 1 - jnp.argmax(column[::-1])
    values = s.columns[feature]
    right = values > values[order[last]]
    low = jnp.max(jnp.where(inside & ~right, values, -jnp.inf))
    high = jnp.min(jnp.where(inside & right, values, jnp.inf))
    middle = 0.5 * (low + high)
    g, h = total.astype(unit.dtype) * unit
    gain = column[last] - _worth(g, h, rules.l2)
    return _Split(gain, feature, jnp.where(middle > low, middle, high), right)


# ---- Trees --------------------------------------------------------------------------------------


class _Tree(NamedTuple):
    """One tree as heaps of `2^(depth + 1)` nodes; `node (n,)` is where each sample stands."""

    node: Int[Array, "n"]
    pending: Bool[Array, "m"]
    feature: Int[Array, "m"]
    threshold: Float[Array, "m"]
    gain: Float[Array, "m"]


def _whole(a: Float[Array, "2 n"]) -> tuple[Int[Array, "2 n"], Float[Array, "2"]]:
    """Rows as whole numbers in units of a power of two, such that no sum of them overflows."""
    exponent = jnp.frexp(jnp.sum(jnp.abs(a), axis=1))[1].astype(jnp.int32)
    # Rounding to whole numbers adds up to ½ a sample: stay two bits below 2³¹.
    unit = jnp.ldexp(jnp.ones(2, a.dtype), jnp.maximum(exponent - 29, -100))
    return jnp.round(a / unit[:, None]).astype(jnp.int32), unit


def _grow(s: _Sorted, present: Bool[Array, "n"], gh: Float[Array, "2 n"], rules, depth: int):
    """One tree: node after node, as long as one may have a split."""
    size = 2 ** (depth + 1)
    sums, unit = _whole(gh)
    dtype = gh.dtype

    def splittable(inside):
        h = jnp.sum(jnp.where(inside, sums[1], 0), dtype=jnp.int32).astype(dtype) * unit[1]
        return h >= 2 * rules.min_child_weight

    def step(tree: _Tree):
        m = jnp.argmax(tree.pending).astype(jnp.int32)
        inside = present & (tree.node == m)
        split = _best_split(s, inside, sums, unit, rules)
        made = split.gain > _LEAST_GAIN
        node = jnp.where(inside & made, 2 * m + split.right.astype(jnp.int32), tree.node)
        deeper = made & (2 * m < size // 2)
        more = jnp.stack([splittable(present & (node == c)) for c in (2 * m, 2 * m + 1)])
        pending = tree.pending.at[m].set(False)
        pending = pending.at[jnp.stack([2 * m, 2 * m + 1])].max(more & deeper, mode="drop")
        return _Tree(
            node,
            pending,
            tree.feature.at[m].set(jnp.where(made, split.feature, -1)),
            tree.threshold.at[m].set(jnp.where(made, split.threshold, 0)),
            tree.gain.at[m].set(jnp.where(made, split.gain, 0)),
        )

    zero = jnp.zeros(size, dtype)
    tree = _Tree(
        jnp.ones(present.shape, jnp.int32),
        jnp.zeros(size, bool).at[1].set(splittable(present)),
        jnp.full(size, -1, jnp.int32),
        zero,
        zero,
    )
    tree = lax.while_loop(lambda tree: jnp.any(tree.pending), step, tree)
    held = jax.ops.segment_sum(jnp.where(present[None], sums, 0).T, tree.node, size)
    g, h = (held.astype(dtype) * unit[None]).T
    leaf = tree.feature < 0
    value = jnp.where(leaf, safe_divide(-rules.learning_rate * g, h + rules.l2), 0)
    return tree, value


def _gradients(margin, y, w, loss: str) -> Float[Array, "2 n"]:
    if loss == "squared":
        return jnp.stack([w * (margin - y), w])
    p = jax.nn.sigmoid(margin)
    return jnp.stack([w * (p - y), w * jnp.maximum(p * (1 - p), _LEAST_CURVATURE)])


@functools.partial(jax.jit, static_argnames=("loss", "num_trees", "depth"))
def _fit(x, y, w, rules: _Rules, loss: str, num_trees: int, depth: int) -> BoostingFit:
    present = w > 0
    known = ~jnp.any(jnp.isnan(x) & present[:, None])
    s = _sorted(x, present)

    def one(y):
        y = jnp.where(present, y, 0)
        mean = jnp.sum(w * y) / jnp.sum(w)
        base = mean if loss == "squared" else _logit(mean)

        def add(state, _):
            margin, gains, counts = state
            tree, value = _grow(s, present, _gradients(margin, y, w, loss), rules, depth)
            used = jnp.where(tree.feature < 0, x.shape[1], tree.feature)
            gains = gains.at[used].add(tree.gain, mode="drop")
            counts = counts.at[used].add(1, mode="drop")
            return (margin + value[tree.node], gains, counts), (tree.feature, tree.threshold, value)

        zero = jnp.zeros(x.shape[1], x.dtype)
        start = (jnp.broadcast_to(base, y.shape), zero, zero)
        (_, gains, counts), trees = lax.scan(add, start, length=num_trees)
        mean_gain = safe_divide(gains, counts)
        sum_gain = jnp.broadcast_to(jnp.sum(mean_gain), mean_gain.shape)
        unknown = ~known | jnp.isnan(base)
        importances = jnp.where(unknown, jnp.nan, safe_divide(mean_gain, sum_gain))
        feature, threshold, value = trees
        value = jnp.where(unknown, jnp.nan, value)
        return BoostingFit(importances, base, feature, threshold, value)

    return lax.map(one, y)


def _logit(p: Float[Array, ""]) -> Float[Array, ""]:
    """The logit, finite at 0 and 1."""
    least = float(jnp.finfo(p.dtype).eps)
    p = jnp.clip(p, least, 1 - least)
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
