"""Order statistics without a sort: exact, of static shape, differentiable, under jit and vmap.

XLA sorts slowly on CPU (two dozen times NumPy's time, and float64 `top_k` is a sort). The two
questions asked here need none: which value has a given rank, and which are the k smallest of a row.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps

# ---- The value of a given rank ------------------------------------------------------------------


def order_statistics(
    values: Float[Array, "h d"], present: Bool[Array, "h d"], rank: Int[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The values of rank `rank` (from 0) and `rank + 1` among those present.

    Nonnegative floats are ordered as the integers that share their bits, so a search among the
    integers, each step a counting pass, ends at the exact value.

    **Arguments**

    - `values`: `(h, d)`, nonnegative where present.
    - `present`: `(h, d)`; what is absent has no rank.
    - `rank`: traced or not, in [0, number present).

    **Returns** two scalars, as constants to differentiation. The second is the first where `rank`
    is the last. 0 where nothing is present, NaN where something present is not finite.

    **Cost** some 15 passes over continuous data, fewer with ties; at most 48 (float32) or 96.
    """
    dtype = values.dtype
    bits = jnp.where(present, _bits(lax.stop_gradient(values)), -1)  # the absent sort below all
    bits = jnp.pad(bits, ((0, -bits.shape[0] % _ROWS), (0, 0)), constant_values=-1)
    bits = bits.reshape(-1, _ROWS, bits.shape[1])
    absent, highest = jnp.sum(bits < 0, dtype=jnp.int32), jnp.max(bits)
    rank = rank + absent
    start = _Bracket(-jnp.ones_like(highest), highest, absent, jnp.int32(bits.size))
    bracket = lax.while_loop(
        lambda s: s.low < s.high - 1,
        lambda s: _tighten(bits, _narrow(bits, rank, dtype, _narrow(bits, rank, dtype, s))),
        _tighten(bits, start),
    )
    first = bracket.high
    second = jnp.where(bracket.up_to > rank + 1, first, _next(bits, first))
    finite = highest < _bits(jnp.asarray(jnp.inf, dtype))

    def value(b):
        b = jnp.clip(b, 0, jnp.maximum(highest, 0))  # above the last, the last; 0 for no value
        return jnp.where(finite, lax.bitcast_convert_type(b, dtype), jnp.nan)

    return value(first), value(second)


def _bits(values: Float[Array, "*s"]) -> Int[Array, "*s"]:
    """Nonnegative floats as integers in the same order; infinity and NaN are the largest."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    return lax.bitcast_convert_type(jnp.abs(values), integer)  # abs: −0 is 0


class _Bracket(NamedTuple):
    """#{bits ≤ low} = below ≤ rank < up_to = #{bits ≤ high}: the answer lies in (low, high]."""

    low: Int[Array, ""]
    high: Int[Array, ""]
    below: Int[Array, ""]
    up_to: Int[Array, ""]


def _tighten(bits: Int[Array, "blocks rows d"], s: _Bracket) -> _Bracket:
    """Bring the low end up to just below a value."""
    return s._replace(low=jnp.maximum(s.low, jnp.minimum(_next(bits, s.low), s.high) - 1))


def _narrow(bits: Int[Array, "blocks rows d"], rank: Array, dtype, s: _Bracket) -> _Bracket:
    """Count at the guesses, each of which is a better low or a better high end."""
    guesses = _guesses(s, rank, dtype)
    counts = _counts(bits, guesses)
    under = counts <= rank
    return _Bracket(
        low=jnp.max(guesses, where=under, initial=s.low),
        high=jnp.min(guesses, where=~under, initial=s.high),
        below=jnp.max(counts, where=under, initial=s.below),
        up_to=jnp.min(counts, where=~under, initial=s.up_to),
    )


def _guesses(s: _Bracket, rank: Array, dtype) -> Int[Array, "4"]:
    """Where to count: both sides of the line through the bracket, half the bits, the low end.

    Were the m values in the bracket uniform, the rank would lie within a standard deviation, some
    ½√m ranks, of where the line puts it: counts on both sides leave about √m of m. Half the bits
    bounds the number of steps whatever the values. The low end, once tightened to a value, ends
    the search among ties.
    """
    m = (s.up_to - s.below).astype(dtype)
    position = (rank - s.below).astype(dtype) + 0.5
    deviation = jnp.sqrt(position * (m - position) / m)
    start = lax.bitcast_convert_type(jnp.maximum(s.low, 0), dtype)
    length = lax.bitcast_convert_type(s.high, dtype) - start
    left, right = (start + length * ((position + d) / m) for d in (-deviation, deviation))
    middle = s.low + (s.high - s.low) // 2
    guesses = jnp.stack([_bits(left), _bits(right), middle, s.low + 1])
    return jnp.clip(guesses, s.low + 1, s.high - 1)


# So many rows are reduced at a time: their counts fit into eight bits, and XLA reduces up to 32
# terms in the loop that compares them; more it would first write to memory.
_ROWS = 16


def _counts(bits: Int[Array, "blocks rows d"], guesses: Int[Array, "4"]) -> Int[Array, "4"]:
    """#{bits ≤ guess} for four guesses at the price of one: counts of a block share an integer."""
    packed = sum(jnp.where(bits <= guesses[i], jnp.uint32(256**i), jnp.uint32(0)) for i in range(4))
    packed = jnp.sum(packed, axis=1, dtype=jnp.uint32)
    return jnp.stack([jnp.sum((packed >> 8 * i) & 255, dtype=jnp.int32) for i in range(4)])


def _next(bits: Int[Array, "blocks rows d"], b: Int[Array, ""]) -> Int[Array, ""]:
    """The smallest of `bits` above b; the largest integer if there is none."""
    return jnp.min(jnp.min(jnp.where(bits > b, bits, jnp.iinfo(bits.dtype).max), axis=1))


@jax.custom_jvp
def attained(
    values: Float[Array, "*s"], present: Bool[Array, "*s"], v: Float[Array, ""]
) -> Float[Array, ""]:
    """`v`, one of the `values` present, with the derivative of the entries that attain it.

    Where several do, their mean: a subgradient that does not depend on the order of the entries.
    """
    del values, present
    return v


@attained.defjvp
def _attained_jvp(primals, tangents):
    values, present, v = primals
    hit = present & (values == v)
    total = jnp.sum(tangents[0], where=hit)
    # `attained` once more and not `v`: the next derivative must see where it comes from.
    return attained(*primals), total / jnp.maximum(jnp.sum(hit, dtype=values.dtype), 1)


# ---- The k smallest of a row --------------------------------------------------------------------


def smallest(values: Float[Array, "n"], k: int) -> tuple[Float[Array, "k"], Int[Array, "k"]]:
    """The k smallest values in rising order and where they stand; ties by rising index.

    A tournament: groups of √n values keep their minimum, and only the winner's group plays again.

    **Arguments**

    - `values`: without NaN; infinite where there is nothing to find.
    - `k`: static, at most n.

    **Returns** values `(k,)` and indices `(k,)`, infinity and −1 where no finite value is left.

    **Cost** O(n + k√n).
    """
    n = values.shape[0]
    size = max(1, round(n**0.5))
    padded = jnp.pad(values, (0, -n % size), constant_values=jnp.inf)
    groups = padded.reshape(-1, size)

    def take(state, _):
        minima, value, index = state
        winner = jnp.argmin(minima)
        group, place = groups[winner], winner * size + jnp.arange(size)

        def later(value, index):
            """The group without what was taken: all up to (value, index), as pairs are ordered."""
            return jnp.where((group > value) | ((group == value) & (place > index)), group, jnp.inf)

        left = later(value, index)
        value, index = jnp.min(left), place[jnp.argmin(left)]
        minima = jnp.where(jnp.arange(minima.size) == winner, jnp.min(later(value, index)), minima)
        return (minima, value, index), (value, index)

    start = (jnp.min(groups, axis=1), jnp.asarray(-jnp.inf, values.dtype), jnp.asarray(-1))
    _, (found, indices) = lax.scan(take, start, length=k)
    return found, jnp.where(jnp.isinf(found), -1, indices)


# ---- The best -----------------------------------------------------------------------------------


def first_best(pool: Bool[Array, "d"], *ranks: Float[Array, "d"]) -> Int[Array, ""]:
    """The lowest index among the best of the pool, to rounding; 0 if the pool is empty.

    The first of `ranks` orders, the next those that it does not tell apart.
    """
    for rank in ranks:
        rank = jnp.where(pool, rank, -jnp.inf)
        top = jnp.max(rank)
        rounding = jnp.where(jnp.isinf(top), 0, 4 * eps(rank.dtype) * (1 + jnp.abs(top)))
        pool = pool & (rank >= top - rounding)
    return jnp.argmax(pool).astype(jnp.int32)


# ---- Sorted rows, and counting in them ----------------------------------------------------------


def sort_last(values: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """Values in rising order along the last axis, NaN last; constants to differentiation.

    XLA sorts integers several times faster than floats on CPU: their bits are sorted.
    """
    return _from_key(lax.sort(_key(lax.stop_gradient(values)), is_stable=False), values.dtype)


def _key(values: Float[Array, "*s"]) -> Int[Array, "*s"]:
    """Floats as integers in the same order; −0 is 0, and NaN the largest."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    values = jnp.where(values == 0, jnp.zeros_like(values), values)
    bits = lax.bitcast_convert_type(values, integer)
    largest = jnp.iinfo(integer).max
    return jnp.where(jnp.isnan(values), largest, jnp.where(bits < 0, bits ^ largest, bits))


def _from_key(key: Int[Array, "*s"], dtype) -> Float[Array, "*s"]:
    return lax.bitcast_convert_type(jnp.where(key < 0, key ^ jnp.iinfo(key.dtype).max, key), dtype)


def count_leading(
    holds: Callable[[Int[Array, "*s"]], Bool[Array, "*s"]], n: int, shape: tuple[int, ...]
) -> Int[Array, "*s"]:
    """How many of the places 0 … n − 1 come before the first where a condition fails.

    A binary search for every entry of an array of `shape`: `holds` tells, of one place an entry,
    whether the condition does, and must be true up to some place and false from there on.
    """

    def step(i, found):
        ahead = found + lax.shift_right_logical(jnp.int32(1 << n.bit_length() - 1), jnp.int32(i))
        return jnp.where((ahead <= n) & holds(jnp.minimum(ahead, n) - 1), ahead, found)

    return lax.fori_loop(0, n.bit_length(), step, jnp.zeros(shape, jnp.int32))


def at(row: Array, places: Int[Array, "*s"]) -> Array:
    """`row[places]` of places that are known to be there: no check in the innermost loop."""
    return row.at[places].get(mode="promise_in_bounds")


def first_places(rising: Float[Array, "n"], values: Float[Array, "m"]) -> Int[Array, "m"]:
    """How many of a sorted row are smaller than each value; for NaN, as many as are not."""
    key, rising_key = _key(values), _key(rising)
    return count_leading(lambda i: at(rising_key, i) < key, rising.shape[0], values.shape)
