"""The greedy loop of the redundancy-aware selectors, and the criteria of `redundancy.py`.

A criterion looks at a candidate k and at each feature j chosen so far. What it needs of the pairs
is a sum or a minimum over j, so one pass over the data, of the feature chosen last with all others,
brings it up to date. No matrix between all features is formed.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul, safe_divide, safe_sqrt
from jaxfs._types import Selection
from jaxfs.kernels._distances import squarable
from jaxfs.kernels._order import first_best
from jaxfs.methods.classical import _bins, _class_moments

#: Redundancy is at least so much where it divides, as in the `mrmr-selection` package.
FLOOR = 1e-3


def _greedy(
    num_features: int,
    free: Bool[Array, "d"],
    state: Any,
    value: Callable[[Any], Float[Array, "d"]],
    add: Callable[[Any, Int[Array, ""]], Any],
) -> Selection:
    """The feature of largest `value(state)`, one after another; `state = add(state, chosen)`.

    `free` are the candidates; a value of −∞ or NaN excludes one for this step. Where none is left
    the search has ended.
    """

    def choose(step, indices, objective, free, state, alive):
        values = value(state)
        pool = free & (values > -jnp.inf)
        i = first_best(pool, values)
        alive = alive & pool[i]
        indices = indices.at[step].set(jnp.where(alive, i, -1))
        objective = objective.at[step].set(jnp.where(alive, values[i], jnp.nan))
        return indices, objective, free.at[i].set(False), state, alive

    def body(step, carry):
        indices, objective, free, state, alive = carry
        return choose(step, indices, objective, free, add(state, indices[step - 1]), alive)

    indices = jnp.full(num_features, -1, jnp.int32)
    objective = jnp.full(num_features, jnp.nan, value(state).dtype)
    first = choose(0, indices, objective, free, state, jnp.asarray(True))
    indices, objective, *_ = lax.fori_loop(1, num_features, body, first)
    return Selection(indices, objective, jnp.int32(num_features))


# ---- What the criteria measure ------------------------------------------------------------------


def _present(x, y, w, num_classes: int) -> tuple[Float[Array, "n"], Bool[Array, ""]]:
    """Weights, 0 for labels out of range; and whether no sample present holds NaN or infinity."""
    w = jnp.where((y >= 0) & (y < num_classes), w, 0)
    return w, jnp.all(squarable(x) | (w == 0)[:, None])


class _Binned:
    """Features in bins, their tables with the class and with one of themselves."""

    def __init__(self, x, y, w, num_classes: int, num_bins: int, binning: str):
        self.codes = _bins.bin_codes(x, w, num_bins, binning)
        self.y, self.w, self.num_classes, self.num_bins = y, w, num_classes, num_bins

    def with_class(self) -> Float[Array, "d b c"]:
        return _bins.joint_counts(self.codes, self.y, self.w, self.num_bins, self.num_classes)

    def with_feature(self, i: Int[Array, ""]) -> Float[Array, "d b b"]:
        return _bins.joint_counts(self.codes, self.codes[i], self.w, self.num_bins, self.num_bins)

    def with_both(self, i: Int[Array, ""]) -> Float[Array, "d b b c"]:
        """Candidate × feature i × class."""
        both = _bins.pair_codes(self.codes[i], self.y.astype(jnp.int32), self.num_classes)
        size = self.num_bins * self.num_classes
        counts = _bins.joint_counts(self.codes, both, self.w, self.num_bins, size)
        return counts.reshape(-1, self.num_bins, self.num_bins, self.num_classes)


def _symmetrical_uncertainty(counts: Float[Array, "d a m"]) -> Float[Array, "d"]:
    """2 I(A; M) / (H(A) + H(M)), in [0, 1]; 0 where neither varies."""
    entropies = _bins.entropy(jnp.sum(counts, axis=-1)) + _bins.entropy(jnp.sum(counts, axis=-2))
    return jnp.minimum(safe_divide(2 * _bins.mutual_information(counts), entropies), 1)


def _unit_columns(m: _class_moments.ClassMoments, y, w) -> Float[Array, "n d"]:
    """Features whose products are their correlations: about their means, of length 1, or 0."""
    away = m.residuals + m.means[jnp.clip(y, 0, m.mass.shape[0] - 1)]
    squares = m.between + m.within
    scale = safe_divide(jnp.ones_like(squares), safe_sqrt(squares))
    return safe_sqrt(w)[:, None] * away * scale[None]


# ---- The selectors ------------------------------------------------------------------------------

_BINNED = ("num_features", "num_classes", "num_bins", "binning")


@functools.partial(jax.jit, static_argnames=(*_BINNED, "scheme", "relevance", "redundancy"))
def mrmr(
    x, y, w, *, num_features, num_classes, num_bins, binning, scheme, relevance, redundancy
) -> Selection:
    x, w = lax.stop_gradient((x, w))
    w, known = _present(x, y, w, num_classes)
    if "mi" in (relevance, redundancy):
        binned = _Binned(x, y, w, num_classes, num_bins, binning)
    m = _class_moments.class_moments(x, y, w, num_classes)
    if relevance == "f":
        relevant = _class_moments.f_statistic(m)
    else:
        relevant = _bins.mutual_information(binned.with_class())
    if redundancy == "pearson":
        units = _unit_columns(m, y, w)

        def shared(i):
            return jnp.abs(matmul(units[:, i][None], units)[0])
    else:

        def shared(i):
            return _bins.mutual_information(binned.with_feature(i))

    def value(state):
        total, number = state
        mean = total / jnp.maximum(number, 1)
        if scheme == "difference":
            return relevant - mean
        if redundancy == "pearson":  # copies of all that was chosen
            copy = mean >= 1 - (8 + x.shape[0] ** 0.5) * eps(x.dtype)
            mean = jnp.where(copy, jnp.inf, mean)
        return relevant / jnp.where(number == 0, 1, mean)

    def add(state, i):
        total, number = state
        more = shared(i)
        if scheme == "quotient":
            more = jnp.maximum(more, FLOOR)
        return total + more, number + 1

    start = jnp.zeros_like(relevant), jnp.zeros((), x.dtype)
    return _greedy(num_features, known & (relevant > 0), start, value, add)


@functools.partial(jax.jit, static_argnames=_BINNED)
def cfs(x, y, w, *, num_features, num_classes, num_bins, binning) -> Selection:
    x, w = lax.stop_gradient((x, w))
    w, known = _present(x, y, w, num_classes)
    binned = _Binned(x, y, w, num_classes, num_bins, binning)
    to_class = _symmetrical_uncertainty(binned.with_class())

    # Of the set S: Σ_S r_cf, Σ_{i < j ∈ S} r_ff and its size; of every candidate: Σ_S r_ff.
    def value(state):
        to_chosen, relevant, redundant, number = state
        merit = (relevant + to_class) / jnp.sqrt(number + 1 + 2 * (redundant + to_chosen))
        so_far = relevant / jnp.sqrt(jnp.maximum(number, 1) + 2 * redundant)
        return jnp.where(merit > so_far + 4 * eps(x.dtype), merit, -jnp.inf)

    def add(state, i):
        to_chosen, relevant, redundant, number = state
        more = to_chosen + _symmetrical_uncertainty(binned.with_feature(i))
        return more, relevant + to_class[i], redundant + to_chosen[i], number + 1

    zero = jnp.zeros((), x.dtype)
    start = jnp.zeros_like(to_class), zero, zero, zero
    return _greedy(num_features, known & (to_class > 0), start, value, add)


@functools.partial(jax.jit, static_argnames=_BINNED)
def fcbf(x, y, w, threshold, *, num_features, num_classes, num_bins, binning) -> Selection:
    x, w = lax.stop_gradient((x, w))
    w, known = _present(x, y, w, num_classes)
    binned = _Binned(x, y, w, num_classes, num_bins, binning)
    to_class = _symmetrical_uncertainty(binned.with_class())

    def value(predominant):
        return jnp.where(predominant, to_class, -jnp.inf)

    def add(predominant, i):
        return predominant & (_symmetrical_uncertainty(binned.with_feature(i)) < to_class)

    start = (to_class >= threshold) & (to_class > 0)
    return _greedy(num_features, known & start, start, value, add)


@functools.partial(jax.jit, static_argnames=_BINNED)
def jmi(x, y, w, *, num_features, num_classes, num_bins, binning) -> Selection:
    x, w = lax.stop_gradient((x, w))
    w, known = _present(x, y, w, num_classes)
    binned = _Binned(x, y, w, num_classes, num_bins, binning)
    relevant = _bins.mutual_information(binned.with_class())

    def value(state):
        total, number = state
        return jnp.where(number == 0, relevant, total)

    def add(state, i):
        total, number = state
        joint = binned.with_both(i).reshape(relevant.shape[0], -1, num_classes)
        return total + _bins.mutual_information(joint), number + 1

    start = jnp.zeros_like(relevant), jnp.int32(0)
    return _greedy(num_features, known & (relevant > 0), start, value, add)


@functools.partial(jax.jit, static_argnames=_BINNED)
def cmim(x, y, w, *, num_features, num_classes, num_bins, binning) -> Selection:
    x, w = lax.stop_gradient((x, w))
    w, known = _present(x, y, w, num_classes)
    binned = _Binned(x, y, w, num_classes, num_bins, binning)
    relevant = _bins.mutual_information(binned.with_class())

    def add(least, i):
        given = jnp.permute_dims(binned.with_both(i), (0, 1, 3, 2))
        return jnp.minimum(least, _bins.conditional_mutual_information(given))

    return _greedy(num_features, known & (relevant > 0), relevant, lambda least: least, add)
