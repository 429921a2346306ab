"""Order statistics, the best candidate and sorted rows; exact, and of static shape.

XLA sorts slowly on CPU, in two dozen times the time of NumPy. A value of given rank needs no sort,
and integers are sorted faster than floats.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps


def order_statistics(
    values: Float[Array, "h d"], present: Bool[Array, "h d"], rank: Int[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The values of rank `rank` (from 0) and `rank + 1` among those present.

    Nonnegative floats have the order of the integers with the same bits. A search among these
    integers, each step of which counts in one pass, ends at the exact value.

    **Arguments**

    - `values`: `(h, d)`, nonnegative where present.
    - `present`: `(h, d)`; absent values have no rank.
    - `rank`: traced or not, in [0, number present).

    **Returns** two scalars without derivative. If `rank` is the last, both are equal. They are 0 if
    no value is present, and NaN if a value that is present is not finite.

    **Cost** some 15 passes over continuous data, fewer with ties; at most 48 (float32) or 96.
    """
    dtype = values.dtype
    bits = jnp.where(present, _bits(lax.stop_gradient(values)), -1)  # absent values sort first
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
        b = jnp.clip(b, 0, jnp.maximum(highest, 0))  # the last beyond the last; 0 for no value
        return jnp.where(finite, lax.bitcast_convert_type(b, dtype), jnp.nan)

    return value(first), value(second)


def _bits(values: Float[Array, "*s"]) -> Int[Array, "*s"]:
    """Nonnegative floats as integers in the same order; infinity and NaN are the largest."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    return lax.bitcast_convert_type(jnp.abs(values), integer)  # abs: −0 is 0


class _Bracket(NamedTuple):
    """The answer lies in (low, high]: #{bits ≤ low} = below ≤ rank < up_to = #{bits ≤ high}."""

    low: Int[Array, ""]
    high: Int[Array, ""]
    below: Int[Array, ""]
    up_to: Int[Array, ""]


def _tighten(bits: Int[Array, "blocks rows d"], s: _Bracket) -> _Bracket:
    """The bracket with its low end raised to just below a value."""
    return s._replace(low=jnp.maximum(s.low, jnp.minimum(_next(bits, s.low), s.high) - 1))


def _narrow(bits: Int[Array, "blocks rows d"], rank: Array, dtype, s: _Bracket) -> _Bracket:
    """The bracket after counting at four guesses, each a better low or a better high end."""
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
    """Values to count at: two around the linear interpolation, the middle bits, the low end.

    For m uniform values in the bracket, the rank lies within a standard deviation, some ½√m ranks,
    of its linear interpolation. Counts on both sides then leave about √m of m values. The middle
    bits bound the number of steps for any values. The low end, once tightened to a value, ends the
    search among ties.
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


#: Rows reduced at a time. Their counts fit into eight bits, and XLA fuses a reduction of up to 32
#: terms with the comparison; beyond that it first writes the comparisons to memory.
_ROWS = 16


def _counts(bits: Int[Array, "blocks rows d"], guesses: Int[Array, "4"]) -> Int[Array, "4"]:
    """#{bits ≤ guess} for four guesses in one pass: the counts of a block share an integer."""
    packed = sum(jnp.where(bits <= guesses[i], jnp.uint32(256**i), jnp.uint32(0)) for i in range(4))
    packed = jnp.sum(packed, axis=1, dtype=jnp.uint32)
    return jnp.stack([jnp.sum((packed >> 8 * i) & 255, dtype=jnp.int32) for i in range(4)])


def _next(bits: Int[Array, "blocks rows d"], b: Int[Array, ""]) -> Int[Array, ""]:
    """The smallest of `bits` above b; the largest integer if there is none."""
    return jnp.min(jnp.min(jnp.where(bits > b, bits, jnp.iinfo(bits.dtype).max), axis=1))


def first_best(pool: Bool[Array, "d"], *ranks: Float[Array, "d"]) -> Int[Array, ""]:
    """The lowest index among the best candidates of the pool, to rounding; 0 if it is empty.

    The first of `ranks` decides; the next ones decide between candidates that tie.
    """
    for rank in ranks:
        rank = jnp.where(pool, rank, -jnp.inf)
        top = rank[jnp.argmax(rank)]  # one loop, where XLA makes two of a maximum
        rounding = jnp.where(jnp.isinf(top), 0, 4 * eps(rank.dtype) * (1 + jnp.abs(top)))
        pool = pool & (rank >= top - rounding)
    return jnp.argmax(pool).astype(jnp.int32)


def any_of_each(*masks: Bool[Array, "d"]) -> list[Bool[Array, ""]]:
    """`any` of each mask, in one loop."""

    def either(a, b):
        return tuple(map(jnp.logical_or, a, b))

    return lax.reduce(masks, (np.False_,) * len(masks), either, (0,))


def sort_last(values: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """Values in rising order along the last axis, NaN last; without derivative.

    It sorts the bits of the floats: on CPU, XLA sorts integers several times faster than floats.
    """
    key = lax.sort(_key(lax.stop_gradient(values)), is_stable=False)
    bits = jnp.where(key < 0, key ^ jnp.iinfo(key.dtype).max, key)
    return lax.bitcast_convert_type(bits, values.dtype)


def _key(values: Float[Array, "*s"]) -> Int[Array, "*s"]:
    """Floats as integers in the same order; −0 equals 0, and NaN is the largest."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    values = jnp.where(values == 0, jnp.zeros_like(values), values)
    bits = lax.bitcast_convert_type(values, integer)
    largest = jnp.iinfo(integer).max
    return jnp.where(jnp.isnan(values), largest, jnp.where(bits < 0, bits ^ largest, bits))


def count_leading(
    holds: Callable[[Int[Array, "*s"]], Bool[Array, "*s"]], n: int, shape: tuple[int, ...]
) -> Int[Array, "*s"]:
    """The number of indices 0 … n − 1 before the first for which a condition fails.

    A binary search for every entry of an array of `shape`. `holds` takes one index per entry; it
    must be true up to some index and false from there on.
    """

    def step(i, found):
        ahead = found + lax.shift_right_logical(jnp.int32(1 << n.bit_length() - 1), jnp.int32(i))
        return jnp.where((ahead <= n) & holds(jnp.minimum(ahead, n) - 1), ahead, found)

    return lax.fori_loop(0, n.bit_length(), step, jnp.zeros(shape, jnp.int32))


def at(row: Array, places: Int[Array, "*s"]) -> Array:
    """`row[places]` for valid indices, without a bounds check in the innermost loop."""
    return row.at[places].get(mode="promise_in_bounds")


def first_places(rising: Float[Array, "n"], values: Float[Array, "m"]) -> Int[Array, "m"]:
    """The number of entries of a sorted row below each value; NaN counts as the largest value."""
    key, rising_key = _key(values), _key(rising)
    return count_leading(lambda i: at(rising_key, i) < key, rising.shape[0], values.shape)
