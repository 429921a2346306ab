"""Bin codes of features, tables of counts, and entropies computed from these tables.

A table of counts is a product of one-hot matrices, which runs at the speed of matrix products on
every device. Chunks of features bound the memory. Codes are `(d, n)`, features first, so that the
codes of one feature are contiguous. An absent sample has the code −1.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs._numerics import map_chunks, matmul, safe_divide
from jaxfs.kernels._order import first_places, sort_last

BINNINGS = ("frequency", "width")
#: Maximum number of entries of one-hot matrices in memory.
_MEMORY = 2**22
#: Maximum number of entries in the rows that are sorted at the same time, on a CPU and on other
#: devices. On a CPU the rows should fit into the cache of a core: six rows of 2600 doubles took 1.6
#: times as long as four rows. Other devices need larger batches.
_CACHE, _DEVICE = 2**13, 2**20


def map_sorting(f: Callable[[Any], Any], rows: Any, size: int) -> Any:
    """Apply a function that sorts `size` entries to every row, in chunks that suit the platform."""
    return lax.platform_dependent(
        rows,
        cpu=lambda rows: map_chunks(f, rows, _CACHE // size),
        default=lambda rows: map_chunks(f, rows, _DEVICE // size),
    )


def bin_codes(
    x: Float[Array, "n d"], w: Float[Array, "n"], num_bins: int, binning: str = "frequency"
) -> Int[Array, "d n"]:
    """Bin codes of each feature: 0 … num_bins − 1, and −1 where the weight is 0.

    "frequency": the code is ⌊num_bins · q⌋, where q is the share of the weight below the value plus
    half of the share at the value. Bins have equal weight if there are no ties. Equal values always
    share a bin. "width": the bins are intervals of equal length between the smallest and the
    largest value. Each interval is closed on the left; the last interval is also closed on the
    right. All samples of a constant feature have the same code. The codes of a feature are
    meaningless if some of its values are not `squarable`.
    """
    present = w > 0

    def by_frequency(row):
        place = first_places(sort_last(row), row)
        at = jnp.zeros_like(w).at[place].add(w)  # weight of equal values, at their first place
        up_to = jnp.cumsum(at)
        return num_bins * (up_to - 0.5 * at)[place] / up_to[-1]

    if binning == "width":
        low = jnp.min(jnp.where(present[:, None], x, jnp.inf), axis=0)
        high = jnp.max(jnp.where(present[:, None], x, -jnp.inf), axis=0)
        away = jnp.where(present[:, None], x - low[None], 0)
        codes = num_bins * safe_divide(away, jnp.broadcast_to((high - low)[None], x.shape)).T
    else:
        codes = map_sorting(by_frequency, jnp.where(present[None], x.T, jnp.inf), x.shape[0])
    codes = jnp.clip(jnp.floor(codes).astype(jnp.int32), 0, num_bins - 1)
    return jnp.where(present[None], codes, -1)


def pair_codes(a: Int[Array, "*s"], b: Int[Array, "*s"], num_b: int) -> Int[Array, "*s"]:
    """Codes of pairs: a · num_b + b, and −1 where a or b is −1."""
    return jnp.where((a < 0) | (b < 0), -1, a * num_b + b)


def joint_counts(
    codes: Int[Array, "d n"], other: Int[Array, "n"], w: Float[Array, "n"], num_codes, num_other
) -> Float[Array, "d a m"]:
    """For each feature, weighted counts of every pair of its codes and codes of another variable.

    **Cost** O(d n a m) time; memory for a chunk of one-hot matrices.
    """
    right = _weights_by_code(other, num_other, w)

    def count(row):
        return matmul(jax.nn.one_hot(row, num_codes, dtype=w.dtype, axis=-2), right)

    return map_chunks(count, codes, _MEMORY // (codes.shape[1] * num_codes))


def _weights_by_code(codes: Int[Array, "n"], number: int, w: Float[Array, "n"]) -> Array:
    """Matrix `(n, number)`: the weight of each sample in the column of its code, 0 elsewhere."""
    # Select instead of multiplying: an infinite weight times 0 is NaN.
    member = jax.nn.one_hot(codes, number, dtype=bool, axis=-2)
    return jnp.where(member, w[None], jnp.zeros_like(w[None])).T


@functools.partial(jax.jit, static_argnums=3)
def gini_decrease(
    x: Float[Array, "n d"], y: Int[Array, "n"], w: Float[Array, "n"], num_classes: int
) -> Float[Array, "d"]:
    """Largest decrease of the Gini impurity by a threshold on each feature.

    It is 0 if no threshold splits the samples. Let L_c, R_c and T_c be the weights of class c up to
    the threshold, above the threshold and in total. The decrease is
    [Σ_c L_c² / L + Σ_c R_c² / R − Σ_c T_c² / T] / T. Values that are not finite give NaN.
    """
    x, w = lax.stop_gradient((x, w))
    member = _weights_by_code(y, num_classes, w)
    present = jnp.any(member > 0, axis=1)
    total = jnp.sum(member, axis=0)
    mass = jnp.sum(total)

    def purity(counts):
        size = jnp.sum(counts, axis=-1, keepdims=True)
        return jnp.sum(counts * safe_divide(counts, jnp.broadcast_to(size, counts.shape)), axis=-1)

    def best(row):
        place = first_places(sort_last(row), row)
        # Equal values are counted at their first place; later places repeat the same threshold.
        left = jnp.cumsum(jnp.zeros_like(member).at[place].add(member), axis=0)
        right = jnp.maximum(total[None] - left, 0)
        return jnp.max((purity(left) + purity(right) - purity(total)) / mass)

    rows = jnp.where(present[None], x.T, jnp.inf)
    known = jnp.all(jnp.isfinite(x) | ~present[:, None], axis=0)
    return jnp.where(known, jnp.maximum(map_sorting(best, rows, member.size), 0), jnp.nan)


def entropy(counts: Float[Array, "*b a"]) -> Float[Array, "*b"]:
    """H(A) = −Σ p log p over the last axis, in nats; 0 for a table of zeros."""
    return jnp.sum(jax.scipy.special.entr(_shares(counts, 1)), axis=-1)


def mutual_information(counts: Float[Array, "*b a m"]) -> Float[Array, "*b"]:
    """I(A; M) = Σ p_am log(p_am / p_a p_m) of a table of counts; never negative."""
    p = _shares(counts, 2)
    a, m = (jnp.sum(p, axis=axis, keepdims=True) for axis in (-1, -2))
    # A difference of entropies would lose digits by cancellation.
    return _mean_log_ratio(p, p, a * m, 2)


def conditional_mutual_information(counts: Float[Array, "*b a c m"]) -> Float[Array, "*b"]:
    """I(A; C | M) = Σ p_acm log(p_acm p_m / p_am p_cm) of a table of counts; never negative."""
    p = _shares(counts, 3)
    am, cm = (jnp.sum(p, axis=axis, keepdims=True) for axis in (-2, -3))
    return _mean_log_ratio(p, p * jnp.sum(am, axis=-3, keepdims=True), am * cm, 3)


def _shares(counts: Float[Array, "*b"], num_axes: int) -> Float[Array, "*b"]:
    """Counts divided by their sum over the last axes; 0 where the sum is 0."""
    total = jnp.sum(counts, axis=tuple(range(-num_axes, 0)), keepdims=True)
    return counts / jnp.where(total == 0, 1, total)


def _mean_log_ratio(p: Array, a: Array, b: Array, num_axes: int) -> Array:
    """Σ p log(a / b) over the last axes, at least 0, without NaN in the derivative at p = 0."""
    a, b = (jnp.where(p == 0, 1, term) for term in (a, b))
    return jnp.maximum(jnp.sum(p * jnp.log(a / b), axis=tuple(range(-num_axes, 0))), 0)
