"""Mutual information by nearest neighbours: the arithmetic of `information.py`.

Distances along one feature need no search in space: a sample's k nearest neighbours stand within k
places of it in sorted order, and the samples within a radius are an interval of that order, found
by bisection. So a feature costs two sorts (of integers, which XLA sorts fast) and two bisections.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import digamma
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import safe_divide
from jaxfs._order import at, count_leading, first_places, sort_last
from jaxfs.methods._bins import feature_chunk
from jaxfs.methods._moments import moments

# ---- A feature and classes ----------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=(3, 4))
def with_classes(
    x: Float[Array, "n d"], y: Int[Array, "n"], present: Bool[Array, "n"], num_classes: int, k: int
) -> Float[Array, "d"]:
    """Ross's estimate: ψ(N) + ⟨ψ(k_c) − ψ(N_c) − ψ(m_i)⟩, m_i the samples nearer than r_i.

    r_i is the distance to the neighbour of number k_c = min(k, N_c − 1) in the class of sample i;
    classes of one sample are left out.
    """
    n = x.shape[0]
    classes = jnp.arange(num_classes, dtype=y.dtype)
    sizes = jnp.sum((y[None] == classes[:, None]) & present[None], axis=1, dtype=jnp.int32)
    label = jnp.clip(y, 0, num_classes - 1)
    present = present & (y == label) & (sizes > 1)[label]
    sizes = jnp.where(sizes > 1, sizes, 0)
    label = jnp.where(present, label, num_classes).astype(jnp.int32)  # those of no class come last
    psi = _digamma_table(n, x.dtype)
    total = jnp.sum(sizes)
    of_class = psi[jnp.minimum(k, sizes - 1)] - psi[sizes] + psi[total]
    constant = jnp.sum(sizes.astype(x.dtype) * jnp.where(sizes > 0, of_class, 0))

    def one(row):
        near = _samples_within(row, label, sizes, k)
        there = jnp.arange(n) < total  # in the order of the classes
        return constant - jnp.sum(jnp.where(there, psi[near], 0))

    rows = jnp.where(present[None], lax.stop_gradient(x.T), jnp.inf)
    sums = lax.map(one, rows, batch_size=feature_chunk(n, x.shape[1]))
    known = jnp.all(jnp.isfinite(rows) | ~present[None], axis=1) & (total > 0)
    return jnp.where(known, jnp.maximum(sums / total.astype(x.dtype), 0), jnp.nan)


def _digamma_table(n: int, dtype) -> Float[Array, "n1"]:
    """ψ(0 … n), where ψ(0), which nothing asks for, is 0."""
    return digamma(jnp.arange(n + 1, dtype=dtype).at[0].set(1)).at[0].set(0)


def _samples_within(
    row: Float[Array, "n"], label: Int[Array, "n"], sizes: Int[Array, "c"], k: int
) -> Int[Array, "n"]:
    """m_i, itself included, for the samples in the order of class and then value."""
    n = row.shape[0]
    rising = sort_last(row)
    # A class and a place in one integer: sorted, the values of each class in rising order.
    order = lax.sort(label * n + first_places(rising, row), is_stable=False)
    own, place = order // n, order % n
    value = at(rising, place)
    first = jnp.cumsum(sizes) - sizes
    ends = jnp.append(first, n - 1), jnp.append(first + sizes - 1, n - 1)
    low, high = (value[end][own] for end in ends)
    near = _kth_distance(value, own, k)
    # Of a class without k others the whole, as far as its farthest.
    radius = jnp.where(jnp.isinf(near), jnp.maximum(value - low, high - value), near)
    return _count_within(rising, value, radius)


def _kth_distance(value: Float[Array, "n"], own: Int[Array, "n"], k: int) -> Float[Array, "n"]:
    """To the k-th neighbour in a group of sorted values; infinite where the group has none.

    The nearest k and the value itself stand in a row: the narrowest of k + 1 such windows.
    """
    n = value.shape[0]
    padded = jnp.pad(value, k, constant_values=jnp.nan)
    group = jnp.pad(own, k, constant_values=-1)

    def away(shift):
        same = group[k + shift : n + k + shift] == own
        return jnp.where(same, jnp.abs(padded[k + shift : n + k + shift] - value), jnp.inf)

    distance = {shift: away(shift) for shift in range(-k, k + 1)}
    windows = [jnp.maximum(distance[-j], distance[k - j]) for j in range(k + 1)]
    return functools.reduce(jnp.minimum, windows)


def _count_within(
    rising: Float[Array, "n"], value: Float[Array, "m"], radius: Float[Array, "m"]
) -> Int[Array, "m"]:
    """How many of a sorted row are nearer than a radius to a value; its equals always are."""
    n = rising.shape[0]

    def before(i):
        other = at(rising, i)
        return (other < value) & (value - other >= radius)

    def up_to(i):
        other = at(rising, i)
        return (other <= value) | (other - value < radius)

    return count_leading(up_to, n, value.shape) - count_leading(before, n, value.shape)


# ---- A feature and a real target ----------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=3)
def with_target(
    x: Float[Array, "n d"], y: Float[Array, "n"], present: Bool[Array, "n"], k: int
) -> Float[Array, "d"]:
    """Kraskov's first estimate: ψ(N) + ψ(k) − ⟨ψ(m_i) + ψ(m'_i)⟩, of variables of unit variance.

    r_i is the distance of sample i to its k-th neighbour by the larger of both differences; m_i and
    m'_i count the samples nearer than r_i along the feature and along the target, itself included.
    """
    n, d = x.shape
    order = jnp.argsort(jnp.where(present, y, jnp.inf))
    x, y, present = x[order], y[order], present[order]
    w = present.astype(x.dtype)
    x, y = _unit_variance(lax.stop_gradient(x), w), _unit_variance(y[:, None], w)[:, 0]
    psi, number = _digamma_table(n, x.dtype), jnp.sum(present)
    constant = psi[number] + psi[min(k, n)]
    rising = jnp.where(present, y, jnp.inf)

    def one(row):
        radius = _kth_distance_in_plane(row, y, present, k)
        # The absent are infinitely far from all; their own counts are left out below.
        along = _count_within(sort_last(jnp.where(present, row, jnp.inf)), row, radius)
        across = _count_within(rising, y, radius)
        return jnp.sum(jnp.where(present, psi[along] + psi[across], 0))

    sums = lax.map(one, x.T, batch_size=feature_chunk(n, d))
    score = jnp.maximum(constant - sums / number.astype(x.dtype), 0)
    varies = jnp.any(x != 0, axis=0) & jnp.any(y != 0)
    known = jnp.all(jnp.isfinite(x), axis=0) & jnp.all(jnp.isfinite(y)) & (number > k)
    return jnp.where(known, jnp.where(varies, score, 0), jnp.nan)


def _unit_variance(x: Float[Array, "n d"], w: Float[Array, "n"]) -> Float[Array, "n d"]:
    """About the mean; 0 for a constant and for samples that are absent."""
    m = moments(x, w)
    deviation = jnp.sqrt(m.within / jnp.sum(m.mass))
    return safe_divide(m.residuals, deviation[None])


#: So many neighbours in the order of the target are looked at between two questions whether any
#: could still be nearer.
_STEPS = 8


def _kth_distance_in_plane(
    x: Float[Array, "n"], y: Float[Array, "n"], present: Bool[Array, "n"], k: int
) -> Float[Array, "n"]:
    """To the k-th neighbour by max(|x_i − x_j|, |y_i − y_j|); infinite where there is none.

    `y` rises on the samples present, which come first. Each sample is compared with those ever
    farther from it in this order, until for all the next along y is farther than their k-th.
    """
    n = x.shape[0]
    empty = jnp.full(n, jnp.inf, x.dtype)
    x_beyond, y_beyond = jnp.concat([x, x]), jnp.concat([jnp.where(present, y, jnp.inf), empty])

    def ahead(a, shift):
        """Of 2n numbers the n from `shift` on."""
        return lax.dynamic_slice(a, (shift,), (n,))

    def insert(nearest, distance):
        """Into k rows in rising order: the new one pushes up those that are larger."""
        below = jnp.concat([jnp.full((1, n), -jnp.inf, x.dtype), nearest[:-1]])
        return jnp.minimum(nearest, jnp.maximum(below, distance[None]))

    def compare(shift, nearest):
        apart = jnp.maximum(jnp.abs(ahead(x_beyond, shift) - x), ahead(y_beyond, shift) - y)
        # And the same distances, seen from the other end.
        behind = ahead(jnp.concat([empty, apart]), n - shift)
        return insert(insert(nearest, apart), behind)

    def unfinished(state):
        shift, nearest = state
        gap, farthest = ahead(y_beyond, shift) - y, nearest[-1]
        other = ahead(jnp.concat([farthest, -empty]), shift)
        return (shift < n) & jnp.any(gap < jnp.maximum(farthest, other))

    def advance(state):
        shift, nearest = state
        last = jnp.minimum(shift + _STEPS, n)
        return last, lax.fori_loop(shift, last, compare, nearest)

    start = jnp.int32(1), jnp.full((k, n), jnp.inf, x.dtype)
    return lax.while_loop(unfinished, advance, start)[1][-1]
