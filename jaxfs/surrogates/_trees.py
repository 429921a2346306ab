"""Exact greedy growth of one boosted tree, for `boosting.py`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import safe_divide

#: Smallest gain of a split, as in XGBoost; smaller gains are rounding errors.
_LEAST_GAIN = 1e-6


class Rules(NamedTuple):
    """The settings of a tree that may be traced."""

    learning_rate: Float[Array, ""]
    l2: Float[Array, ""]
    min_child_weight: Float[Array, ""]


class Sorted(NamedTuple):
    """The samples sorted by every feature, in ascending order.

    `order (n, p)` holds the samples. `cut (n, p)` is true if a split can lie after this row.
    `columns (p, n)` is x transposed, so that a feature is contiguous in memory.
    """

    order: Int[Array, "n p"]
    cut: Bool[Array, "n p"]
    columns: Float[Array, "p n"]


def sort_samples(x: Float[Array, "n p"], present: Bool[Array, "n"]) -> Sorted:
    """Sort the samples by every feature; absent samples come last and do not count."""
    x = jnp.where(present[:, None], x, jnp.inf)
    index = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    values, order = lax.sort((x, index), dimension=0, num_keys=1, is_stable=True)
    following = jnp.concat([values[1:], values[-1:]])
    return Sorted(order, values != following, jnp.matrix_transpose(x))


class _Split(NamedTuple):
    gain: Float[Array, ""]
    feature: Int[Array, ""]
    threshold: Float[Array, ""]
    right: Bool[Array, "n"]


def _best_split(
    s: Sorted,
    inside: Bool[Array, "n"],
    sums: Int[Array, "2 n"],
    unit: Float[Array, "2"],
    rules: Rules,
) -> _Split:
    """Return the best split of the node with the samples `inside`; gain −∞ if none is allowed."""
    sums = jnp.where(inside[None], sums, 0)
    total = jnp.sum(sums, axis=1, dtype=jnp.int32)

    def quality(g, h):
        return g * g / (h + rules.l2)

    def both_sides(below: Int[Array, "2 *p"], cut: Bool[Array, "*p"]) -> Float[Array, "*p"]:
        """Return the sum of the qualities of both sides of a cut, or −∞ if it is not allowed."""
        g, h = (below[i].astype(unit.dtype) * unit[i] for i in (0, 1))
        rest_g, rest_h = ((total[i] - below[i]).astype(unit.dtype) * unit[i] for i in (0, 1))
        allowed = cut & (h >= rules.min_child_weight) & (rest_h >= rules.min_child_weight)
        return jnp.where(allowed, quality(g, h) + quality(rest_g, rest_h), -jnp.inf)

    def add(state, row):
        below, best = state
        samples, cut = row
        below = below + sums.at[:, samples].get(mode="promise_in_bounds")
        return (below, jnp.maximum(best, both_sides(below, cut))), None

    p = s.order.shape[1]
    start = jnp.zeros((2, p), jnp.int32), jnp.full(p, -jnp.inf, unit.dtype)
    (_, best), _ = lax.scan(add, start, (s.order, s.cut))
    feature = jnp.argmax(best).astype(jnp.int32)

    # Search for the best cut again in its column: keeping all cuts would cost a third more.
    order = s.order[:, feature]
    column = both_sides(jnp.cumsum(sums[:, order], axis=1, dtype=jnp.int32), s.cut[:, feature])
    last = column.shape[0] - 1 - jnp.argmax(column[::-1])
    values = s.columns[feature]
    right = values > values[order[last]]
    low = jnp.max(jnp.where(inside & ~right, values, -jnp.inf))
    high = jnp.min(jnp.where(inside & right, values, jnp.inf))
    middle = 0.5 * (low + high)  # may round to `low` or `high`, or overflow
    g, h = total.astype(unit.dtype) * unit
    gain = column[last] - quality(g, h)
    threshold = jnp.where((middle > low) & (middle <= high), middle, high)
    return _Split(gain, feature, threshold, right)


# ---- Trees --------------------------------------------------------------------------------------


class Tree(NamedTuple):
    """A tree whose fields are heaps of `2^(depth + 1)` nodes; `node (n,)` is each sample's node."""

    node: Int[Array, "n"]
    pending: Bool[Array, "m"]
    feature: Int[Array, "m"]
    threshold: Float[Array, "m"]
    gain: Float[Array, "m"]


def _whole(a: Float[Array, "2 n"]) -> tuple[Int[Array, "2 n"], Float[Array, "2"]]:
    """Return rows as whole multiples of a power of two, and these powers; no sum overflows."""
    exponent = jnp.frexp(jnp.sum(jnp.abs(a), axis=1))[1].astype(jnp.int32)
    # Rounding adds at most ½ for each sample, so that sums stay below 2²⁹ + ½ n.
    unit = jnp.ldexp(jnp.ones(2, a.dtype), jnp.maximum(exponent - 29, -100))
    return jnp.round(a / unit[:, None]).astype(jnp.int32), unit


def grow(
    s: Sorted, present: Bool[Array, "n"], gh: Float[Array, "2 n"], rules: Rules, depth: int
) -> tuple[Tree, Float[Array, "m"]]:
    """Grow a tree for gradients and curvatures `gh`; return the tree and the values of its leaves.

    Nodes are searched sequentially until no node can be split.
    """
    size = 2 ** (depth + 1)
    sums, unit = _whole(gh)
    dtype = gh.dtype

    def splittable(inside):
        h = jnp.sum(jnp.where(inside, sums[1], 0), dtype=jnp.int32).astype(dtype) * unit[1]
        return h >= 2 * rules.min_child_weight

    def step(tree: Tree):
        m = jnp.argmax(tree.pending).astype(jnp.int32)
        inside = present & (tree.node == m)
        split = _best_split(s, inside, sums, unit, rules)
        made = split.gain > _LEAST_GAIN
        node = jnp.where(inside & made, 2 * m + split.right.astype(jnp.int32), tree.node)
        deeper = made & (2 * m < size // 2)
        more = jnp.stack([splittable(present & (node == c)) for c in (2 * m, 2 * m + 1)])
        pending = tree.pending.at[m].set(False)
        pending = pending.at[jnp.stack([2 * m, 2 * m + 1])].max(more & deeper, mode="drop")
        feature = tree.feature.at[m].set(jnp.where(made, split.feature, -1))
        threshold = tree.threshold.at[m].set(jnp.where(made, split.threshold, 0))
        gain = tree.gain.at[m].set(jnp.where(made, split.gain, 0))
        return Tree(node, pending, feature, threshold, gain)

    root, zero = jnp.ones(present.shape, jnp.int32), jnp.zeros(size, dtype)
    pending = jnp.zeros(size, bool).at[1].set(splittable(present))
    tree = Tree(root, pending, jnp.full(size, -1, jnp.int32), zero, zero)
    tree = lax.while_loop(lambda tree: jnp.any(tree.pending), step, tree)
    held = jax.ops.segment_sum(jnp.where(present[None], sums, 0).T, tree.node, size)
    g, h = (held.astype(dtype) * unit[None]).T
    leaf = tree.feature < 0
    value = jnp.where(leaf, safe_divide(-rules.learning_rate * g, h + rules.l2), 0)
    return tree, value
