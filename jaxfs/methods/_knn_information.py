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
from jaxfs._order import at, count_leading, first_places, smallest, sort_last
from jaxfs.methods._bins import map_features
from jaxfs.methods._moments import in_units, moments

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
        near = _samples_within(row, label, k)
        there = jnp.arange(n) < total  # in the order of the classes
        return constant - jnp.sum(jnp.where(there, at(psi, near), 0))

    rows = jnp.where(present[None], lax.stop_gradient(x.T), jnp.inf)
    sums = map_features(one, rows, n)
    known = jnp.all(jnp.isfinite(rows) | ~present[None], axis=1) & (total > 0)
    return jnp.where(known, jnp.maximum(sums / total.astype(x.dtype), 0), jnp.nan)


def _digamma_table(n: int, dtype) -> Float[Array, "n1"]:
    """ψ(0 … n), where ψ(0), which nothing asks for, is 0."""
    return digamma(jnp.arange(n + 1, dtype=dtype).at[0].set(1)).at[0].set(0)


def _samples_within(row: Float[Array, "n"], label: Int[Array, "n"], k: int) -> Int[Array, "n"]:
    """m_i, itself included, for the samples in the order of class and then value."""
    n = row.shape[0]
    rising = sort_last(row)
    # A class and a place in one integer: sorted, the values of each class in rising order.
    order = lax.sort(label * n + first_places(rising, row), is_stable=False)
    own = order // n
    value = at(rising, order - n * own)
    return _count_within(rising, value, _kth_distance(value, own, k))


def _kth_distance(value: Float[Array, "n"], own: Int[Array, "n"], k: int) -> Float[Array, "n"]:
    """To the k-th neighbour in a group of sorted values, or to the farthest of fewer.

    The nearest k and the value itself stand in a row: the narrowest of k + 1 such windows.
    """
    n = value.shape[0]
    padded = jnp.pad(value, k, constant_values=jnp.nan)
    group = jnp.pad(own, k, constant_values=-1)

    def away(shift, otherwise):
        same = group[k + shift : n + k + shift] == own
        return jnp.where(same, jnp.abs(padded[k + shift : n + k + shift] - value), otherwise)

    distance = {shift: away(shift, jnp.inf) for shift in range(-k, k + 1)}
    windows = [jnp.maximum(distance[-j], distance[k - j]) for j in range(k + 1)]
    near = functools.reduce(jnp.minimum, windows)
    # A group without k others stands within k places as a whole.
    farthest = functools.reduce(jnp.maximum, (away(shift, 0.0) for shift in range(-k, k + 1)))
    return jnp.where(jnp.isinf(near), farthest, near)


def _count_within(
    rising: Float[Array, "n"], value: Float[Array, "m"], radius: Float[Array, "m"], ratio=1.0
) -> Int[Array, "m"]:
    """How many of a sorted row are nearer than a radius to a value; its equals always are.

    Distances are `ratio` times the differences.
    """
    n = rising.shape[0]

    def before(i):
        other = at(rising, i)
        return (other < value) & (ratio * (value - other) >= radius)

    def up_to(i):
        other = at(rising, i)
        return (other <= value) | (ratio * (other - value) < radius)

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
    n = x.shape[0]
    x, y = lax.stop_gradient((x, y))
    order = jnp.argsort(jnp.where(present, y, jnp.inf))  # the absent last
    x, y, present = x[order], y[order], present[order]
    x, scale = _with_scales(x, present)
    y, y_scale = (a[..., 0] for a in _with_scales(y[:, None], present))
    ratio = safe_divide(scale, jnp.broadcast_to(y_scale, scale.shape))
    psi, number = _digamma_table(n, x.dtype), jnp.sum(present)
    y_rising = jnp.where(present, y, jnp.inf)

    def one(column):
        row, ratio = column
        # Differences are multiplied and not the values, which would part distances that tie.
        radius = _kth_distance_in_plane(row, y, ratio, present, k)
        x_rising = sort_last(jnp.where(present, row, jnp.inf))
        along = _count_within(x_rising, row, radius, ratio)
        across = _count_within(y_rising, y, radius, jnp.ones_like(ratio))
        return jnp.sum(jnp.where(present, at(psi, along) + at(psi, across), 0))

    sums = map_features(one, (x.T, ratio), n)
    score = psi[number] + psi[min(k, n)] - sums / number.astype(x.dtype)
    known = jnp.isfinite(scale) & jnp.isfinite(y_scale) & (number > k)
    varies = (scale > 0) & (y_scale > 0)
    return jnp.where(known, jnp.where(varies, jnp.maximum(score, 0), 0), jnp.nan)


def _with_scales(
    x: Float[Array, "n d"], present: Bool[Array, "n"]
) -> tuple[Float[Array, "n d"], Float[Array, "d"]]:
    """Values, 0 where absent, and the reciprocals of their standard deviations; 0 of a constant."""
    m = moments(x, present.astype(x.dtype))
    scale = safe_divide(jnp.ones_like(m.within), jnp.sqrt(m.within / jnp.sum(m.mass)))
    return in_units(x, present)[0], scale


#: Samples that are compared with all others at a time.
_ROWS = 32


def _kth_distance_in_plane(
    x: Float[Array, "n"], y: Float[Array, "n"], ratio, present: Bool[Array, "n"], k: int
) -> Float[Array, "n"]:
    """To the k-th neighbour by max(ratio |x_i − x_j|, |y_i − y_j|); infinite where there is none.

    `y` rises on the samples present, which come first. Each is compared with those that stand next
    to it in this order, where most have their neighbours; the few for which somebody farther along
    y could still be nearer are then compared with all.
    """
    n = x.shape[0]
    reach = min(n - 1, round(2 * (k * n) ** 0.5))
    far = jnp.full(reach + 1, jnp.inf, x.dtype)
    x_wide = jnp.pad(x, reach + 1)
    y_wide = jnp.concat([-far, jnp.where(present, y, jnp.inf), far])

    def beside(a, shift):
        return lax.dynamic_slice(a, (reach + 1 + shift,), (n,))

    def compare(shift, nearest):
        for to in (shift, -shift):
            gap = jnp.abs(beside(y_wide, to) - y)
            nearest = _insert(nearest, jnp.maximum(ratio * jnp.abs(beside(x_wide, to) - x), gap))
        return nearest

    nearest = lax.fori_loop(1, reach + 1, compare, (jnp.full(n, jnp.inf, x.dtype),) * k)
    next_gap = jnp.minimum(beside(y_wide, reach + 1) - y, y - beside(y_wide, -reach - 1))
    everybody = jnp.arange(n)

    def compare_with_all(state):
        radius, open_ = state
        rows = jnp.nonzero(open_, size=_ROWS, fill_value=n)[0]
        distance = jnp.maximum(
            ratio * jnp.abs(x[None] - x[rows][:, None]), jnp.abs(y[None] - y[rows][:, None])
        )
        others = present[None] & (everybody[None] != rows[:, None])
        kth = jax.vmap(lambda row: smallest(row, k)[0][-1])(jnp.where(others, distance, jnp.inf))
        return radius.at[rows].set(kth, mode="drop"), open_.at[rows].set(False, mode="drop")

    start = nearest[-1], present & (next_gap < nearest[-1])
    return lax.while_loop(lambda state: jnp.any(state[1]), compare_with_all, start)[0]


def _insert(rising: tuple[Array, ...], new: Array) -> tuple[Array, ...]:
    """A new one among the k smallest in rising order: it pushes up those that are larger."""
    below = (new, *(jnp.maximum(new, r) for r in rising[:-1]))
    return tuple(map(jnp.minimum, rising, below))
