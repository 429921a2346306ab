"""Nearest-neighbour estimates of the mutual information, used by `_information.py`.

The samples are sorted by one feature. The k nearest neighbours of a sample are then at most k
places away, and the samples within a radius form an interval, which bisection finds. Each feature
costs two sorts (of integers, which XLA sorts fast) and several bisections.

Repeated values make distances tie. The estimate is then replaced by its mean over arbitrarily
small noise that breaks the ties; scikit-learn adds such noise once, at random. If the k-th
neighbour is at distance 0, this mean is known exactly: k and m_i become the numbers of equal
samples, including the sample itself. This is the rule of Gao et al. (2017).
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import computed_if, safe_divide, smallest
from jaxfs.kernels._order import at, count_leading, first_places, sort_last
from jaxfs.methods.classical._bins import map_sorting
from jaxfs.methods.classical._class_moments import in_units, overall_moments

# ---- A feature and classes ----------------------------------------------------------------------


class _Near(NamedTuple):
    """Samples sorted by class and then by value, with numbers of near samples.

    `radius` is r_i. `own` and `all` are the numbers of samples nearer than r_i in the class of
    sample i and in all classes, including sample i; `own` is valid only if r_i is not 0.
    `up_to(radius)` returns both numbers for another radius, including samples at the radius.
    """

    value: Float[Array, "n"]
    radius: Float[Array, "n"]
    own: Int[Array, "n"]
    all: Int[Array, "n"]
    up_to: Callable[[Float[Array, "n"]], tuple[Int[Array, "n"], Int[Array, "n"]]]


class _Sorted(NamedTuple):
    """Samples sorted by class. Samples that are absent or alone in their class come last."""

    order: Int[Array, "n"]
    group: Int[Array, "n"]
    present: Bool[Array, "n"]
    neighbors: Int[Array, "n"]  # k_c for each sample
    number: Int[Array, ""]
    constant: Float[Array, ""]  # Σ_i ψ(k_c) − ψ(N_c) + ψ(N)


def _sorted_by_class(y, present, num_classes: int, k: int, dtype, xp: Any = jnp) -> _Sorted:
    """Compute `_Sorted` with the array module `xp`: `jax.numpy` or `numpy`."""
    classes = xp.arange(num_classes, dtype=y.dtype)
    sizes = xp.sum((y[None] == classes[:, None]) & present[None], axis=1, dtype=np.int32)
    label = xp.clip(y, 0, num_classes - 1)
    present = present & (y == label) & (sizes > 1)[label]
    sizes = xp.where(sizes > 1, sizes, 0)
    label = xp.where(present, label, num_classes).astype(np.int32)
    order = xp.argsort(label, stable=True)
    group, psi = label[order], xp.asarray(_digamma_table(y.shape[0], dtype))
    number, neighbors = xp.sum(sizes), xp.minimum(k, sizes - 1)
    of_class = psi[neighbors] - psi[sizes] + psi[number]
    constant = xp.sum(sizes.astype(dtype) * xp.where(sizes > 0, of_class, 0))
    neighbors = neighbors[xp.minimum(group, num_classes - 1)]
    return _Sorted(order, group, present[order], neighbors, number, constant)


_traced_by_class = jax.jit(_sorted_by_class, static_argnums=(2, 3, 4))


def with_classes(x: Float[Array, "n d"], y, present, num_classes: int, k: int) -> Float[Array, "d"]:
    """Ross's estimate of the mutual information: ψ(N) + ⟨ψ(k_c) − ψ(N_c) − ψ(m_i)⟩.

    r_i is the distance from sample i to its k_c-th neighbour in its class, with
    k_c = min(k, N_c − 1). m_i is the number of samples nearer than r_i. `_tied` handles tied
    distances. Classes of one sample are left out.
    """
    if _checks.is_traced(y) or _checks.is_traced(present):
        samples = _traced_by_class(y, present, num_classes, k, x.dtype)
    else:
        arrays = np.asarray(y), np.asarray(present)
        samples = _sorted_by_class(*arrays, num_classes, k, x.dtype, np)
    return _with_classes(x, samples, num_classes, k)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _with_classes(x, samples: _Sorted, num_classes: int, k: int) -> Float[Array, "d"]:
    n = x.shape[0]
    by_class, group, present, neighbors, total, constant = samples
    psi = jnp.asarray(_digamma_table(n, x.dtype))
    within = _within_two_classes if num_classes == 2 else _within_classes

    def one(row):
        near = within(row, group, k)
        plain = at(psi, near.all)
        again = (near.value[1:] == near.value[:-1]) & (group[1:] == group[:-1]) & present[1:]

        def tied(radius):
            return _tied(near._replace(radius=radius), group, neighbors, psi, plain)

        psi_m = computed_if(jnp.any(again), tied, near.radius, plain)
        return constant - jnp.sum(jnp.where(present, psi_m, 0))

    rows = jnp.where(present[None], lax.stop_gradient(x)[by_class].T, jnp.inf)
    sums = map_sorting(one, rows, n)
    span = jnp.max(jnp.where(present[None], rows, -jnp.inf), axis=1) - jnp.min(rows, axis=1)
    score = jnp.where(span > 0, jnp.maximum(sums / total.astype(x.dtype), 0), 0)
    return jnp.where(jnp.isfinite(span) & (total > 0), score, jnp.nan)


def _digamma_table(n: int, dtype) -> np.ndarray:
    """Table of ψ(0), …, ψ(n). The entry for ψ(0) is 0 and is never used."""
    harmonic = np.cumsum(1 / np.arange(1, n)) if n > 1 else np.zeros(0)
    return np.concatenate([[0, -np.euler_gamma][: n + 1], harmonic - np.euler_gamma]).astype(dtype)


def _within_classes(row: Float[Array, "n"], group: Int[Array, "n"], k: int) -> _Near:
    n = row.shape[0]
    rising = sort_last(row)
    # One integer holds a class and a place, so that one sort orders by both.
    order = lax.sort(group * n + first_places(rising, row), is_stable=False)
    value = at(rising, order - n * group)
    radius, own = _kth_distance(value, group, k)

    def count(radius, closed: bool = False):
        return _count_within(lambda i: at(rising, i), n, value, radius, closed=closed)

    def count_own(holds):
        def in_order(i):
            there = at(group, i)
            return (there < group) | ((there == group) & holds(at(value, i)))

        return count_leading(in_order, n, value.shape)

    def up_to(radius):
        end = count_own(lambda other: (other <= value) | (other - value <= radius))
        start = count_own(lambda other: (other < value) & (value - other > radius))
        return end - start, count(radius, closed=True)

    return _Near(value, radius, own, count(radius), up_to)


def _within_two_classes(row: Float[Array, "n"], group: Int[Array, "n"], k: int) -> _Near:
    """Same result as `_within_classes` for two classes, in three quarters of the time.

    Each class is sorted separately in an array of all n samples, in which the samples of the other
    class are replaced by −∞ or +∞. Sorting many equal numbers is cheap, so both sorts cost little
    more than one sort of all samples. A bisection is then needed only in the other class, because
    the neighbours in the own class are known.
    """
    n, infinity = row.shape[0], jnp.full_like(row, jnp.inf)
    zero = sort_last(jnp.where(group == 0, row, infinity))
    one = sort_last(jnp.where(group == 1, row, jnp.where(group < 1, -infinity, infinity)))
    value = jnp.where(group == 0, zero, jnp.where(group == 1, one, infinity))
    radius, own = _kth_distance(value, group, k)
    both = jnp.concat([zero, one])

    is_one = (group == 1).astype(jnp.int32)

    def count_in(c, radius, closed: bool = False):
        return _count_within(lambda i: at(both, n * c + i), n, value, radius, closed=closed)

    def up_to(radius):
        own = count_in(is_one, radius, True)
        return own, own + count_in(1 - is_one, radius, True)

    return _Near(value, radius, own, own + count_in(1 - is_one, radius), up_to)


def _tied(near: _Near, group, neighbors, psi, psi_m) -> Float[Array, "n"]:
    """Mean of ψ(m_i) over noise that breaks the ties.

    Let s other samples of the class, and S other samples of all classes, be nearer than r_i. Let b
    samples of the class, and B of all classes, be at the distance r_i. Noise puts these B samples
    in random order. Among them, the k_c-th neighbour is the (k_c − s)-th sample of the class. Let
    M be its place; then m_i = S + M. The mean of ψ(M) is ψ(k_c − s) + ψ(B + 1) − ψ(b + 1). If
    r_i = 0, then s = S = 0, and the result is exact. Otherwise log(S + exp(mean of ψ(M))) is used,
    because ψ is nearly a logarithm.
    """
    _, radius, own, nearer, _ = near
    n = radius.shape[0]
    own_up_to, up_to = near.up_to(radius)
    s, all_s = (jnp.where(radius == 0, 0, count - 1) for count in (own, nearer))
    counts = (neighbors - s, up_to - all_s, own_up_to - s)
    wanted, at_radius, own_at_radius = (at(psi, jnp.clip(count, 0, n)) for count in counts)
    mean = jnp.log(all_s.astype(psi.dtype) + jnp.exp(wanted + at_radius - own_at_radius))
    return jnp.where(up_to - all_s > 2, mean, psi_m)


def _kth_distance(
    value: Float[Array, "n"], own: Int[Array, "n"], k: int
) -> tuple[Float[Array, "n"], Int[Array, "n"]]:
    """Distance to the k-th neighbour in a group of sorted values, and number of nearer values.

    If a group has fewer than k other values, the distance to the farthest value is returned. A
    value and its k nearest neighbours are consecutive, so the narrowest of k + 1 windows of
    consecutive values gives the distance. The number of nearer values in the group includes the
    value itself; it is valid only if the distance is not 0.
    """
    n = value.shape[0]
    padded = jnp.pad(value, k, constant_values=jnp.nan)
    group = jnp.pad(own, k, constant_values=-1)

    def away(shift):
        same = group[k + shift : n + k + shift] == own
        return jnp.where(same, jnp.abs(padded[k + shift : n + k + shift] - value), jnp.inf)

    distance = {shift: away(shift) for shift in range(-k, k + 1)}
    windows = [jnp.maximum(distance[-j], distance[k - j]) for j in range(k + 1)]
    near = functools.reduce(jnp.minimum, windows)
    # All values of a group with fewer than k other values are at most k places away.
    finite = [jnp.where(jnp.isinf(d), 0, d) for d in distance.values()]
    radius = jnp.where(jnp.isinf(near), functools.reduce(jnp.maximum, finite), near)
    return radius, sum((d < radius).astype(jnp.int32) for d in distance.values())


def _count_within(
    pick: Callable[[Int[Array, "m"]], Float[Array, "m"]],
    n: int,
    value: Float[Array, "m"],
    radius: Float[Array, "m"],
    ratio=1.0,
    closed: bool = False,
) -> Int[Array, "m"]:
    """For each value, how many of n sorted values are within a radius; equal values always count.

    `pick(i)` returns, for each value, the i-th number of the sorted row to search. Distances are
    `ratio` times the differences. `closed` also counts values at the radius.
    """
    away = operator.gt if closed else operator.ge

    def before(i):
        other = pick(i)
        return (other < value) & away(ratio * (value - other), radius)

    def up_to(i):
        other = pick(i)
        return (other <= value) | ~away(ratio * (other - value), radius)

    return count_leading(up_to, n, value.shape) - count_leading(before, n, value.shape)


# ---- A feature and a real target ----------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=3)
def with_target(
    x: Float[Array, "n d"], y: Float[Array, "n"], present: Bool[Array, "n"], k: int
) -> Float[Array, "d"]:
    """Kraskov's first estimate of the mutual information: ψ(N) + ψ(k) − ⟨ψ(m_i) + ψ(m'_i)⟩.

    The feature and the target are scaled to unit variance. The distance between two samples is the
    larger of their differences in the feature and in the target. r_i is the distance from sample i
    to its k-th neighbour. m_i and m'_i are the numbers of samples nearer than r_i along the feature
    and along the target, including sample i. If r_i is 0, m_i and m'_i are the numbers of equal
    values, and k is the number of samples with the same feature and the same target.
    """
    n = x.shape[0]
    x, y = lax.stop_gradient((x, y))
    order = jnp.argsort(jnp.where(present, y, jnp.inf))  # absent samples last
    x, y, present = x[order], y[order], present[order]
    x, scale = _with_scales(x, present)
    y, y_scale = (a[..., 0] for a in _with_scales(y[:, None], present))
    ratio = safe_divide(scale, jnp.broadcast_to(y_scale, scale.shape))
    psi, number = jnp.asarray(_digamma_table(n, x.dtype)), jnp.sum(present)
    y_rising = jnp.where(present, y, jnp.inf)

    def one(column):
        row, ratio = column
        # Scale the differences, not the values: rounding of scaled values would break ties.
        radius = _kth_distance_in_plane(row, y, ratio, present, k)
        x_rising = sort_last(jnp.where(present, row, jnp.inf))
        along = _count_within(lambda i: at(x_rising, i), n, row, radius, ratio)
        across = _count_within(lambda i: at(y_rising, i), n, y, radius)
        coincide = present & (radius == 0)
        equals = computed_if(
            jnp.any(coincide), lambda row: _count_equals(row, y, present), row, along
        )
        more = jnp.where(coincide, at(psi, equals) - psi[min(k, n)], 0)
        return jnp.sum(jnp.where(present, at(psi, along) + at(psi, across) - more, 0))

    sums = map_sorting(one, (x.T, ratio), n)
    score = psi[number] + psi[min(k, n)] - sums / number.astype(x.dtype)
    known = jnp.isfinite(scale) & jnp.isfinite(y_scale) & (number > k)
    varies = (scale > 0) & (y_scale > 0)
    return jnp.where(known, jnp.where(varies, jnp.maximum(score, 0), 0), jnp.nan)


def _count_equals(
    x: Float[Array, "n"], y: Float[Array, "n"], present: Bool[Array, "n"]
) -> Int[Array, "n"]:
    """For each sample, number of samples present with the same x and y, including itself."""
    n = x.shape[0]
    places = jnp.arange(n, dtype=jnp.int32)
    x, y = jnp.where(present, x, jnp.inf), jnp.where(present, y, jnp.inf)
    x, y, order = lax.sort((x, y, places), num_keys=2, is_stable=False)
    new = jnp.append(True, (x[1:] != x[:-1]) | (y[1:] != y[:-1]))
    first = lax.cummax(jnp.where(new, places, 0))
    end = lax.cummin(jnp.append(jnp.where(new, places, n)[1:], n), reverse=True)
    return jnp.zeros(n, jnp.int32).at[order].set(end - first)


def _with_scales(
    x: Float[Array, "n d"], present: Bool[Array, "n"]
) -> tuple[Float[Array, "n d"], Float[Array, "d"]]:
    """Values (0 if absent) and reciprocal standard deviations (0 for a constant feature)."""
    m = overall_moments(x, present.astype(x.dtype))
    scale = safe_divide(jnp.ones_like(m.within), jnp.sqrt(m.within / jnp.sum(m.mass)))
    return in_units(x, present, jnp.argmax(present))[0], scale


#: Number of samples compared with all others at a time.
_ROWS = 32


def _kth_distance_in_plane(
    x: Float[Array, "n"], y: Float[Array, "n"], ratio, present: Bool[Array, "n"], k: int
) -> Float[Array, "n"]:
    """Distance to the k-th neighbour by max(ratio |x_i − x_j|, |y_i − y_j|); infinite if none.

    The samples present come first, sorted by ascending `y`. Each sample is first compared with the
    samples next to it in this order, where most samples have their neighbours. If a sample farther
    away in the order could still be nearer, the sample is compared with all samples.
    """
    n = x.shape[0]
    reach = min(n - 1, round(2 * (k * n) ** 0.5))
    far = jnp.full(reach + 1, jnp.inf, x.dtype)
    x_wide = jnp.pad(x, reach + 1)
    y_wide = jnp.concat([-far, jnp.where(present, y, jnp.inf), far])

    def shifted(a, shift):
        return lax.dynamic_slice(a, (reach + 1 + shift,), (n,))

    def compare(shift, nearest):
        for to in (shift, -shift):
            gap = jnp.abs(shifted(y_wide, to) - y)
            nearest = _insert(nearest, jnp.maximum(ratio * jnp.abs(shifted(x_wide, to) - x), gap))
        return nearest

    nearest = lax.fori_loop(1, reach + 1, compare, (jnp.full(n, jnp.inf, x.dtype),) * k)
    next_gap = jnp.minimum(shifted(y_wide, reach + 1) - y, y - shifted(y_wide, -reach - 1))
    places = jnp.arange(n)

    def compare_with_all(state):
        radius, open_ = state
        rows = jnp.nonzero(open_, size=_ROWS, fill_value=n)[0]
        distance = jnp.maximum(
            ratio * jnp.abs(x[None] - x[rows][:, None]), jnp.abs(y[None] - y[rows][:, None])
        )
        others = present[None] & (places[None] != rows[:, None])
        kth = jax.vmap(lambda row: smallest(row, k)[0][-1])(jnp.where(others, distance, jnp.inf))
        return radius.at[rows].set(kth, mode="drop"), open_.at[rows].set(False, mode="drop")

    start = nearest[-1], present & (next_gap < nearest[-1])
    return lax.while_loop(lambda state: jnp.any(state[1]), compare_with_all, start)[0]


def _insert(rising: tuple[Array, ...], new: Array) -> tuple[Array, ...]:
    """Insert a new value into the k smallest values, in ascending order; drop the largest value."""
    below = (new, *(jnp.maximum(new, r) for r in rising[:-1]))
    return tuple(map(jnp.minimum, rising, below))
