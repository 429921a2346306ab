"""Search for the best decision stump under given weights, for `adaboost.py`.

A cut of a feature divides the samples into two sides: below a threshold θ, and at or above it.
Weights are whole numbers, so that all sums are exact. Two cuts that divide the samples in the same
way are then equally good, and the lowest feature wins, then its first threshold.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_divide


class StumpData(NamedTuple):
    """Features `columns (d, n)`, classes `member (C, n)`, and masks of samples and features."""

    columns: Float[Array, "d n"]
    member: Bool[Array, "c n"]
    present: Bool[Array, "n"]
    chosen: Bool[Array, "d"]
    criterion: str


#: Function from whole weights `(n,)` to the feature and the threshold of the best cut.
StumpSearch = Callable[[Float[Array, "n"]], tuple[Int[Array, ""], Float[Array, ""]]]


def given(p: StumpData, thresholds: Float[Array, "d m"]) -> StumpSearch:
    """Search among given thresholds; one matrix product gives all sums of weights below them."""
    d, m = thresholds.shape
    below = ~(p.columns[:, None, :] >= thresholds[:, :, None])
    below = jnp.matrix_transpose(below.reshape(d * m, -1).astype(p.columns.dtype))
    allowed = (p.chosen[:, None] & ~jnp.isnan(thresholds)).reshape(d * m)

    def search(whole):
        classes = jnp.where(p.member, whole[None], 0)
        quality = _quality(matmul(classes, below), jnp.sum(classes, axis=1), p.criterion)
        best = jnp.argmax(jnp.where(allowed, quality, -jnp.inf)).astype(jnp.int32)
        return best // m, thresholds.reshape(d * m)[best]

    return search


def halfway(p: StumpData) -> StumpSearch:
    """Search among the midpoints of neighbouring values, by sums over samples sorted once.

    Absent samples are sorted too, so that `vmap` over weights shares the order. They add only cuts
    that divide the present samples in the same way as another cut.
    """
    values, order = _sort(jnp.where(jnp.isnan(p.columns), 0, p.columns))
    codes = jnp.argmax(p.member, axis=0).astype(jnp.int32)[order]
    c, d = p.member.shape[0], p.columns.shape[0]
    class_codes = jnp.arange(c, dtype=jnp.int32)[:, None]
    last = jnp.ones((1, d), bool)  # no sample above: the stump predicts one class
    between = jnp.concat([values[1:] > values[:-1], last])

    def search(whole):
        total = jnp.sum(jnp.where(p.member, whole[None], 0), axis=1)

        def add(state, row):
            below, best, place = state
            here, samples, code, cut = row
            weight = whole.at[samples].get(mode="promise_in_bounds")
            below = below + jnp.where(code[None] == class_codes, weight[None], 0)
            quality = _quality(below, total, p.criterion)
            # If only absent samples were below a cut, it would depend on their values.
            better = cut & jnp.any(below > 0, axis=0) & (quality > best)
            return (below, jnp.where(better, quality, best), jnp.where(better, here, place)), None

        nothing = jnp.full(d, -jnp.inf, values.dtype)
        start = jnp.zeros((c, d), values.dtype), nothing, nothing
        (_, best, place), _ = lax.scan(add, start, (values, order, codes, between))
        feature = jnp.argmax(jnp.where(p.chosen, best, -jnp.inf)).astype(jnp.int32)
        return feature, _middle(p.columns[feature], place[feature], p.present)

    return search


def _sort(columns: Float[Array, "d n"]) -> tuple[Float[Array, "n d"], Int[Array, "n d"]]:
    """Return the sorted values of every feature and their samples, one row for each rank."""
    index = lax.broadcasted_iota(jnp.int32, columns.shape, 1)
    values, order = lax.sort((columns, index), dimension=1, num_keys=1, is_stable=True)
    return jnp.matrix_transpose(values), jnp.matrix_transpose(order)


def _middle(column: Float[Array, "n"], value: Float[Array, ""], present: Bool[Array, "n"]):
    """Return θ for a cut above `value`: halfway to the next value of a present sample, or ∞."""
    under = column <= value
    low = jnp.max(jnp.where(present & under, column, -jnp.inf))
    high = jnp.min(jnp.where(present & ~under, column, jnp.inf))
    # θ is just above the middle: a value at the middle is below θ, and a value at `high` is not.
    return jnp.fmin(jnp.nextafter(0.5 * low + 0.5 * high, jnp.inf), high)


def _quality(below: Float[Array, "c *m"], total: Float[Array, "c"], criterion: str):
    """Return the weight that a cut classifies correctly, or the purity of its sides, `(*m)`."""
    above = total[:, None] - below
    if criterion == "error":
        return jnp.max(below + _best_other(above), axis=0)
    first, second = (
        safe_divide(jnp.sum(a * a, axis=0), jnp.sum(a, axis=0)) for a in (below, above)
    )
    return first + second


def classes(below: Float[Array, "c"], above: Float[Array, "c"], criterion: str) -> Int[Array, "2"]:
    """Return the class that each side predicts; for "gini", an empty side uses all samples."""
    if criterion == "error":
        first = jnp.argmax(below + _best_other(above))
        second = jnp.argmax(jnp.where(jnp.arange(above.shape[0]) == first, -jnp.inf, above))
    else:
        first, second = (
            jnp.argmax(jnp.where(jnp.any(a > 0), a, below + above)) for a in (below, above)
        )
    return jnp.stack([first, second]).astype(jnp.int32)


def _best_other(a: Float[Array, "c *m"]) -> Float[Array, "c *m"]:
    """Return, for every class, the largest entry of the other classes."""
    if a.shape[0] == 2:
        return a[::-1]
    codes = lax.broadcasted_iota(jnp.int32, a.shape, 0)
    own = codes == jnp.argmax(a, axis=0, keepdims=True).astype(jnp.int32)
    second = jnp.max(jnp.where(own, -jnp.inf, a), axis=0, keepdims=True)
    return jnp.where(own, second, jnp.max(a, axis=0, keepdims=True))
