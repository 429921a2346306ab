"""Order statistics, the best candidate and sorted rows, all exact and with static shapes.

On CPU, XLA takes about 24 times as long as NumPy to sort. A value of a given rank can be found
without a sort, and XLA sorts integers faster than floats.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import at, eps


def order_statistics(
    values: Float[Array, "h d"], present: Bool[Array, "h d"], rank: Int[Array, ""] | int
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """The values of rank `rank` (from 0) and `rank + 1`, and the next larger distinct value.

    Nonnegative floats have the same order as the integers with the same bits. The function finds
    the bits of the result one at a time. Each bit takes one pass that counts the smaller values.

    **Arguments**

    - `values`: `(h, d)`, nonnegative where present.
    - `present`: `(h, d)`; absent values have no rank.
    - `rank`: traced or not, in [0, number present).

    **Returns** three scalars without derivative. The third is the smallest value larger than the
    first; it differs from the second at ties. If no value is larger, the third equals the first. If
    `rank` is the last rank, the second equals the first. All three are 0 if no value is present,
    and NaN if a present value is not finite. A denormal second or third value may be returned as 0.

    **Cost** 32 passes in float32, 64 in float64.
    """
    bits = _bits(lax.stop_gradient(values))
    infinity = _bits(jnp.asarray(jnp.inf, values.dtype))  # marks absent values
    bits = jnp.where(present, jnp.where(bits < infinity, bits, infinity + 1), infinity)

    def count(b):
        # XLA has a ready-made routine for sums of floats, and would have to generate code for sums
        # of integers. A sum of fewer than 2²⁴ ones is exact in float32.
        rows = jnp.sum((bits < b).astype(values.dtype), axis=1)
        return jnp.sum(rows if bits.size < 2**24 else rows.astype(jnp.int32)).astype(jnp.int32)

    def set_bit(i, b):
        higher = b + jnp.left_shift(jnp.ones_like(b), last - i)
        return jnp.where(count(higher) <= rank, higher, b)

    last = 8 * values.dtype.itemsize - 2  # bit 31 or 63 is the sign
    first_bits = lax.fori_loop(0, last + 1, set_bit, jnp.zeros((), bits.dtype))
    first = lax.bitcast_convert_type(first_bits, values.dtype)
    known = lax.bitcast_convert_type(bits, values.dtype)
    larger = jnp.min(jnp.where(bits > first_bits, known, jnp.inf))
    larger = jnp.where(jnp.isinf(larger), first, larger)
    second = jnp.where(count(first_bits + 1) > rank + 1, first, larger)
    # Test by a count, because a minimum may ignore NaN on CPU.
    finite = count(infinity + 1) == bits.size

    def value(v):
        return jnp.where(finite, jnp.where(jnp.isinf(first), 0, v), jnp.nan)

    return value(first), value(second), value(larger)


def _bits(values: Float[Array, "*s"]) -> Int[Array, "*s"]:
    """Map nonnegative floats to integers in the same order; infinity and NaN are the largest."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    return lax.bitcast_convert_type(jnp.abs(values), integer)  # abs: −0 is 0


def first_best(pool: Bool[Array, "d"], rank: Float[Array, "d"]) -> Int[Array, ""]:
    """The index of the candidate in the pool with the largest rank; 0 if the pool is empty.

    Ranks that are equal up to rounding are ties, and the lowest index among them is returned.
    """
    rank = jnp.where(pool, rank, -jnp.inf)
    top = rank[jnp.argmax(rank)]  # one loop; XLA compiles a maximum to two
    rounding = jnp.where(jnp.isinf(top), 0, 4 * eps(rank.dtype) * (1 + jnp.abs(top)))
    return jnp.argmax(pool & (rank >= top - rounding)).astype(jnp.int32)


def sort_last(values: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """Values sorted in ascending order along the last axis, NaN last; without derivative.

    The function sorts the bits of the floats, because on CPU, XLA sorts integers several times
    faster than floats.
    """
    key = lax.sort(_key(lax.stop_gradient(values)), is_stable=False)
    bits = jnp.where(key < 0, key ^ jnp.iinfo(key.dtype).max, key)
    return lax.bitcast_convert_type(bits, values.dtype)


def _key(values: Float[Array, "*s"]) -> Int[Array, "*s"]:
    """Map floats to integers in the same order; −0 equals 0, and NaN is the largest."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    values = jnp.where(values == 0, jnp.zeros_like(values), values)
    bits = lax.bitcast_convert_type(values, integer)
    largest = jnp.iinfo(integer).max
    return jnp.where(jnp.isnan(values), largest, jnp.where(bits < 0, bits ^ largest, bits))


def count_leading(
    holds: Callable[[Int[Array, "*s"]], Bool[Array, "*s"]], n: int, shape: tuple[int, ...]
) -> Int[Array, "*s"]:
    """The number of indices 0 … n − 1 before the first index for which a condition fails.

    The function runs a binary search for every entry of an array of `shape`. `holds` takes one
    index per entry. It must be true for all indices below some bound and false from there on.
    """

    def step(i, found):
        ahead = found + lax.shift_right_logical(jnp.int32(1 << n.bit_length() - 1), jnp.int32(i))
        return jnp.where((ahead <= n) & holds(jnp.minimum(ahead, n) - 1), ahead, found)

    return lax.fori_loop(0, n.bit_length(), step, jnp.zeros(shape, jnp.int32))


def first_places(rising: Float[Array, "n"], values: Float[Array, "m"]) -> Int[Array, "m"]:
    """For each value, the number of smaller entries in a sorted row; NaN is the largest value."""
    key, rising_key = _key(values), _key(rising)
    return count_leading(lambda i: at(rising_key, i) < key, rising.shape[0], values.shape)
