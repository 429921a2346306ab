"""Relabelings: the ways in which labels can be exchanged if they do not depend on the data.

The units of exchange are samples, or whole groups of samples. Labels are exchanged between the
units of one stratum. A relabeling is an array of indices `(n,)`: sample i gets the label
`y[indices[i]]`.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int

from jaxfs import _checks
from jaxfs._numerics import flat_draw


class Blocks(NamedTuple):
    """Checked codes of the groups and strata, `(n,)` each or `None`, and the samples present."""

    groups: Int[Array, "n"] | None
    strata: Int[Array, "n"] | None
    present: Bool[Array, "n"] | None


# ---- Random relabelings -------------------------------------------------------------------------


def random_relabeling(blocks: Blocks, n: int) -> Callable[[Array], Int[Array, "n"]]:
    """Return a function of a key that draws one relabeling uniformly."""
    every = jnp.arange(n, dtype=jnp.int32)
    if all(block is None for block in blocks):
        return lambda key: _by_lot(key, n)
    present = jnp.ones(n, bool) if blocks.present is None else blocks.present
    unit = every if blocks.groups is None else _first_of_group(blocks.groups, present)
    stratum = jnp.zeros(n, jnp.int32) if blocks.strata is None else blocks.strata
    # Samples that are not units of exchange form a last stratum, whose draws are not used.
    last = jnp.iinfo(stratum.dtype).max
    stratum = jnp.where(present & (unit == every), stratum, last)
    slots = jnp.argsort(stratum, stable=True)

    def draw(key):
        lots = jax.random.bits(key, (n,), jnp.uint32)
        drawn = lax.sort((stratum, lots, every), num_keys=2)[2]
        source = every.at[slots].set(drawn)
        return jnp.where(present, source[unit], every)

    return draw


def _by_lot(key, n: int) -> Int[Array, "n"]:
    """Draw a permutation by sorting random numbers.

    Two or three sorts of numbers that carry the index in their last bits are faster on CPU than one
    sort of pairs. A sort with b random bits differs from a uniform permutation by at most
    δ = n² / 2^(b + 1), the probability of a tie. The bound for r such sorts, 2^(r − 1) δ^r, is no
    larger than that of one sort with 32 bits.
    """
    rounds = 2 if n <= 256 else 3 if n <= 512 else 0
    if not rounds:
        return jnp.argsort(jax.random.bits(key, (n,), jnp.uint32)).astype(jnp.int32)
    low = jnp.uint32((1 << (n - 1).bit_length()) - 1)
    lots = flat_draw(jax.random.bits, key, (rounds, n), jnp.uint32)
    packed = (lots & ~low) | jnp.arange(n, dtype=jnp.uint32)[None]
    orders = (jnp.sort(packed, axis=1) & low).astype(jnp.int32)
    return functools.reduce(lambda drawn, order: drawn[order], orders)


def _first_of_group(groups: Int[Array, "n"], present: Bool[Array, "n"]) -> Int[Array, "n"]:
    """Index of the first sample present in the group of each sample."""
    groups = jnp.where(present, groups, jnp.iinfo(groups.dtype).max)
    order = jnp.argsort(groups, stable=True).astype(jnp.int32)
    return order[jnp.searchsorted(groups[order], groups)]


# ---- All relabelings ----------------------------------------------------------------------------


def all_relabelings(y, blocks: Blocks, limit: int) -> Int[np.ndarray, "b n"] | None:
    """Return every distinct relabeling, the given labels first, or `None`.

    It is `None` if there are more than `limit`, or if labels, groups or strata are traced.
    Labels that differ within a group, and labels that cannot be exchanged, raise `ValueError`.
    """
    if any(_checks.is_traced(a) for a in (y, *blocks) if a is not None):
        return None
    y = np.asarray(y)
    n = y.shape[0]
    present = np.ones(n, bool) if blocks.present is None else np.asarray(blocks.present)
    codes = np.unique(y.reshape(n, -1), axis=0, return_inverse=True)[1].reshape(n)
    unit = np.arange(n)
    strata = np.zeros(n, int) if blocks.strata is None else np.asarray(blocks.strata)
    if blocks.groups is not None:
        groups = np.asarray(blocks.groups)
        _, first, group = np.unique(groups[present], return_index=True, return_inverse=True)
        unit[present] = np.flatnonzero(present)[first[group]]
        _constant_in_groups(codes, unit, groups, "y", "use strata=… if labels differ within groups")
        _constant_in_groups(strata, unit, groups, "strata", "a stratum consists of whole groups")
    units = np.flatnonzero(present & (unit == np.arange(n)))
    members = [units[strata[units] == s] for s in np.unique(strata[units])]
    number = math.prod(_count(codes[m]) for m in members)
    if number == 1:
        what = "samples" if blocks.groups is None else "groups"
        where = "" if blocks.strata is None else " of a stratum"
        raise _checks.fail("y", f"different between {what}{where}", "labels with one arrangement")
    if number > limit:
        return None
    return _table(codes, members, unit, number)


def _constant_in_groups(codes, unit, groups, name: str, hint: str) -> None:
    wrong = np.flatnonzero(codes != codes[unit])
    if wrong.size:
        got = f"different values in group {groups[wrong[0]]}; {hint}"
        raise _checks.fail(name, "constant within each group", got)


def _count(codes: np.ndarray) -> int:
    """Number of distinct arrangements: a multinomial coefficient."""
    counts = np.unique(codes, return_counts=True)[1].tolist()
    return math.prod(map(math.comb, itertools.accumulate(counts), counts))


def _table(codes, members, unit, number: int) -> Int[np.ndarray, "b n"]:
    table = np.tile(np.arange(codes.shape[0], dtype=np.int32), (number, 1))
    choices = itertools.product(*(_arrangements(codes[m]) for m in members))
    for row, choice in zip(table, choices, strict=True):
        for m, arranged in zip(members, choice, strict=True):
            holder = dict(zip(codes[m].tolist(), m.tolist(), strict=True))
            row[m] = [holder[code] for code in arranged]
    table = table[:, unit]
    same = np.all(codes[table] == codes, axis=1)
    return np.concatenate([table[same], table[~same]])


def _arrangements(codes: np.ndarray) -> Iterator[list[int]]:
    """Yield the distinct orders of `codes`, from ascending to descending."""
    a = sorted(codes.tolist())
    while True:
        yield list(a)
        rises = [i for i in range(len(a) - 1) if a[i] < a[i + 1]]
        if not rises:
            return
        i = rises[-1]
        j = max(j for j in range(i + 1, len(a)) if a[j] > a[i])
        a[i], a[j] = a[j], a[i]
        a[i + 1 :] = reversed(a[i + 1 :])
