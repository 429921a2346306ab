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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._checks import Membership
from jaxfs._numerics import at, computed_if, safe_divide, smallest
from jaxfs.kernels._order import count_leading, first_places, sort_last
from jaxfs.methods.classical._bins import map_sorting
from jaxfs.methods.classical._class_moments import class_moments, in_units


def _digamma_table(n: int, dtype) -> np.ndarray:
    """Table of ψ(0), …, ψ(n). The entry for ψ(0) is 0 and is never used."""
    psi = np.append(0, np.cumsum(1 / np.arange(1, n))) - np.euler_gamma
    return np.append(0, psi)[: n + 1].astype(dtype)


def _count_within(
    rising: Float[Array, "m"],
    value: Float[Array, "n"],
    radius: Float[Array, "n"],
    *,
    start: Int[Array, "n"] | int = 0,
    size: Int[Array, "n"] | int | None = None,
    ratio: Float[Array, ""] | float = 1.0,
    closed: bool = False,
) -> Int[Array, "n"]:
    """For each value, the number of sorted values within a radius; equal values always count.

    The values searched are `rising[start : start + size]`, at most n of them. Distances are `ratio`
    times the differences. `closed` also counts values at the radius.
    """
    n, last = value.shape[0], rising.shape[0] - 1
    away = operator.gt if closed else operator.ge

    def count(below):
        """The number of values too far below; or, if not `below`, of values not too far above."""

        def holds(i):
            other = at(rising, jnp.minimum(start + i, last))
            gap = jnp.where(below, value - other, other - value)
            far = (gap > 0) & away(ratio * gap, radius)
            return (i < (n if size is None else size)) & (far == below)

        return count_leading(holds, n, value.shape)

    too_low, up_to = jax.vmap(count)(np.array([True, False]))
    return up_to - too_low


# ---- A feature and classes ----------------------------------------------------------------------


class _Sorted(NamedTuple):
    """Samples sorted by class. Samples that are absent or alone in their class come last."""

    order: Int[Array, "n"]
    group: Int[Array, "n"]
    present: Bool[Array, "n"]
    neighbors: Int[Array, "n"]  # k_c for each sample
    same: Bool[Array, "w n"]  # whether each of the places −k … k around a sample is in its class
    # For each sample, two ranges of places in the result of `_ordered`: the values of its class,
    # and the other values to search.
    starts: Int[Array, "2 n"]
    sizes: Int[Array, "2 n"]
    number: Int[Array, ""]
    constant: Float[Array, ""]  # Σ_i ψ(k_c) − ψ(N_c) + ψ(N)


def _sorted_by_class(y, present, num_classes: int, k: int, dtype) -> _Sorted:
    xp, y, present = _checks.with_module(y, present)
    n, classes = y.shape[0], xp.arange(num_classes, dtype=y.dtype)
    sizes = xp.sum((y[None] == classes[:, None]) & present[None], axis=1, dtype=np.int32)
    label = xp.clip(y, 0, num_classes - 1)
    present = present & (y == label) & (sizes > 1)[label]
    sizes = xp.where(sizes > 1, sizes, 0)
    label = xp.where(present, label, num_classes).astype(np.int32)
    order = xp.argsort(label, stable=True)
    group, psi = label[order], xp.asarray(_digamma_table(n, dtype))
    number, neighbors = xp.sum(sizes), xp.minimum(k, sizes - 1)
    of_class = psi[neighbors] - psi[sizes] + psi[number]
    constant = xp.sum(sizes.astype(dtype) * xp.where(sizes > 0, of_class, 0))

    own, whole = xp.minimum(group, num_classes - 1), xp.full(n, n, np.int32)
    starts, sizes = (
        xp.stack([a[own], a[1 - own] if num_classes == 2 else whole])
        for a in (xp.cumsum(sizes, dtype=np.int32) - sizes, sizes)
    )
    places = np.arange(n, dtype=np.int32)[None] + np.arange(-k, k + 1, dtype=np.int32)[:, None]
    here = present[order]
    same = (places >= starts[:1]) & (places < starts[:1] + sizes[:1]) & here[None]
    return _Sorted(order, group, here, neighbors[own], same, starts, sizes, number, constant)


def with_classes(x: Float[Array, "n d"], y, present, num_classes: int, k: int) -> Float[Array, "d"]:
    """Ross's estimate of the mutual information: ψ(N) + ⟨ψ(k_c) − ψ(N_c) − ψ(m_i)⟩.

    r_i is the distance from sample i to its k_c-th neighbour in its class, with
    k_c = min(k, N_c − 1). m_i is the number of samples nearer than r_i. Classes of one sample are
    left out.
    """
    samples = _sorted_by_class(y, present, num_classes, k, x.dtype)
    return _with_classes(x, samples, num_classes, k)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _with_classes(x, samples: _Sorted, num_classes: int, k: int) -> Float[Array, "d"]:
    n, present, psi = x.shape[0], samples.present, jnp.asarray(_digamma_table(x.shape[0], x.dtype))
    starts, sizes = samples.starts, samples.sizes

    def one(row):
        value, rising = _ordered(row, samples.group, num_classes)
        radius, own, tie = _kth_distance(value, samples.same)
        nearer = _count_within(rising, value, radius, start=starts[1], size=sizes[1])
        nearer = nearer + own if num_classes == 2 else nearer
        plain = at(psi, nearer)

        def tied(radius):
            """Mean of ψ(m_i) over noise that breaks the ties.

            Let s other samples of the class, and S other samples of all classes, be nearer than
            r_i. Let b samples of the class, and B of all classes, be at the distance r_i. Noise
            puts these B samples in random order. Among them, the k_c-th neighbour is the
            (k_c − s)-th sample of the class. Let M be its place; then m_i = S + M. The mean of ψ(M)
            is ψ(k_c − s) + ψ(B + 1) − ψ(b + 1). If r_i = 0, then s = S = 0, and the result is
            exact. Otherwise log(S + exp(mean of ψ(M))) is used, because ψ is nearly a logarithm.
            """
            own_up_to, up_to = jax.vmap(
                lambda start, size: _count_within(
                    rising, value, radius, start=start, size=size, closed=True
                )
            )(starts, sizes)
            up_to = up_to + own_up_to if num_classes == 2 else up_to
            s, all_s = (jnp.where(radius == 0, 0, count - 1) for count in (own, nearer))
            counts = (samples.neighbors - s, up_to - all_s, own_up_to - s)
            wanted, at_radius, own_at_radius = (at(psi, jnp.clip(c, 0, n)) for c in counts)
            mean = jnp.log(all_s.astype(psi.dtype) + jnp.exp(wanted + at_radius - own_at_radius))
            return jnp.where(up_to - all_s > 2, mean, plain)

        return jnp.sum(jnp.where(present, computed_if(tie, tied, radius, plain), 0))

    rows = jnp.where(present[None], at(lax.stop_gradient(x), samples.order).T, jnp.inf)
    sums, total = map_sorting(one, rows, n), samples.number.astype(x.dtype)
    span = jnp.max(jnp.where(present[None], rows, -jnp.inf), axis=1) - jnp.min(rows, axis=1)
    score = jnp.where(span > 0, jnp.maximum((samples.constant - sums) / total, 0), 0)
    return jnp.where(jnp.isfinite(span) & (total > 0), score, jnp.nan)


def _ordered(row: Float[Array, "n"], group: Int[Array, "n"], num_classes: int):
    """Values sorted by class and then by value, and the sorted values to search for neighbours.

    For two classes, both results are the same, because each class is searched separately: the
    numbers of near samples in the own class are already known, and only the other class needs a
    bisection. This takes three quarters of the time. Each class is sorted in an array of all n
    samples, in which the samples of the other class are replaced by −∞ or +∞. Sorting many equal
    numbers is cheap, so both sorts cost little more than one sort of all samples. For more classes,
    the second result also has the values of all classes, sorted together.
    """
    n = row.shape[0]
    if num_classes == 2:
        own, classes = group[None], np.array([[0], [1]], np.int32)
        aside = jnp.where(own < classes, -jnp.inf, jnp.inf).astype(row.dtype)
        each = sort_last(jnp.where(own == classes, row[None], aside))
        value = jnp.where(group == 0, each[0], each[1])
        return value, value
    rising = sort_last(row)
    # One integer holds a class and a place, so that one sort orders by both.
    order = lax.sort(group * n + first_places(rising, row), is_stable=False)
    value = at(rising, order - n * group)
    return value, jnp.concat([value, rising])


def _kth_distance(
    value: Float[Array, "n"], same: Bool[Array, "w n"]
) -> tuple[Float[Array, "n"], Int[Array, "n"], Bool[Array, ""]]:
    """Distance to the k-th neighbour in a class, number of nearer values, whether values repeat.

    If a class has fewer than k other values, the distance to the farthest value is returned. A
    value and its k nearest neighbours are consecutive, so the narrowest of k + 1 windows of
    consecutive values gives the distance. The number of nearer values in the class includes the
    value itself; it is valid only if the distance is not 0.
    """
    n, k = value.shape[0], same.shape[0] // 2
    padded = jnp.pad(value, k)
    distance = [
        jnp.where(same[i], jnp.abs(padded[i : i + n] - value), jnp.inf) for i in range(2 * k + 1)
    ]
    near = functools.reduce(jnp.minimum, map(jnp.maximum, distance[: k + 1], distance[k:]))
    # All values of a class with fewer than k other values are at most k places away.
    finite = (jnp.where(jnp.isinf(d), 0, d) for d in distance)
    radius = jnp.where(jnp.isinf(near), functools.reduce(jnp.maximum, finite), near)
    nearer = functools.reduce(jnp.add, ((d < radius).astype(jnp.int32) for d in distance))
    return radius, nearer, jnp.min(distance[k + 1]) == 0


# ---- A feature and a real target ----------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=3)
def with_target(
    x: Float[Array, "n d"], y: Float[Array, "n"], members: Membership, k: int
) -> Float[Array, "d"]:
    """Kraskov's first estimate of the mutual information: ψ(N) + ψ(k) − ⟨ψ(m_i) + ψ(m'_i)⟩.

    The feature and the target are scaled to unit variance. The distance between two samples is the
    larger of their differences in the feature and in the target. r_i is the distance from sample i
    to its k-th neighbour. m_i and m'_i are the numbers of samples nearer than r_i along the feature
    and along the target, including sample i. If r_i is 0, m_i and m'_i are the numbers of equal
    values, and k is the number of samples with the same feature and the same target.
    """
    n, (x, y) = x.shape[0], lax.stop_gradient((x, y))
    order = jnp.argsort(jnp.where(members.present, y, jnp.inf))  # absent samples last
    present = members.present[order]

    def with_scale(x):
        """Values (0 if absent) and reciprocal standard deviations (0 for a constant feature)."""
        m = class_moments(x, members)
        scale = safe_divide(jnp.ones_like(m.within), jnp.sqrt(m.within / jnp.sum(m.mass)))
        return in_units(x, members.present, members.base)[0][order], scale

    x, scale = with_scale(x)
    y, y_scale = (a[..., 0] for a in with_scale(y[:, None]))
    ratio = safe_divide(scale, jnp.broadcast_to(y_scale, scale.shape))
    psi, number = jnp.asarray(_digamma_table(n, x.dtype)), jnp.sum(present)
    y_rising = jnp.where(present, y, jnp.inf)

    def one(column):
        row, ratio = column
        # Scale the differences, not the values: rounding of scaled values would break ties.
        radius = _kth_distance_in_plane(row, y, ratio, present, k)
        x_rising = sort_last(jnp.where(present, row, jnp.inf))
        along = _count_within(x_rising, row, radius, ratio=ratio)
        across = _count_within(y_rising, y, radius)
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
            new = jnp.maximum(ratio * jnp.abs(shifted(x_wide, to) - x), gap)
            # Insert the new distance into the k smallest, in ascending order; drop the largest.
            inserted = (new, *(jnp.maximum(new, old) for old in nearest[:-1]))
            nearest = tuple(map(jnp.minimum, nearest, inserted))
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
