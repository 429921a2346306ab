"""Greedy search and selection criteria for the selectors in `_redundancy.py`.

A criterion compares a candidate k with each feature j chosen so far. The criterion needs only a sum
or a minimum over j. Each step therefore needs one pass over the data, which compares the feature
chosen last with all candidates. No matrix of all pairs of features is formed.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import at, eps, matmul, safe_divide, safe_sqrt
from jaxfs._types import Selection
from jaxfs.kernels._distances import squarable
from jaxfs.kernels._order import first_best
from jaxfs.methods.classical import _bins, _class_moments

#: Smallest redundancy in a quotient, as in the `mrmr-selection` package.
FLOOR = 1e-3


class Criterion(NamedTuple):
    """Criterion of a greedy search.

    `free` marks the candidates, and `value(state, number)` returns their values after `number`
    features were chosen. A value of −∞ or NaN excludes a candidate from one step. `add(state, i)`
    returns the state after feature i is chosen.
    """

    free: Bool[Array, "d"]
    state: Any
    value: Callable[[Any, Float[Array, ""]], Float[Array, "d"]]
    add: Callable[[Any, Int[Array, ""]], Any]


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def select(criterion, num_features: int, options, sizes, x, y, members, *traced) -> Selection:
    """Choose the feature of largest value at each step, until no candidate is left.

    `criterion(tables, *options, *traced)` returns a `Criterion`. `sizes` holds the number of
    classes, the number of bins and the binning rule.
    """
    x, members = lax.stop_gradient((x, members))
    free, state, value, add = criterion(_Tables(x, y, members, *sizes), *options, *traced)
    wrong = jnp.where(squarable(x) | ~members.present[:, None], 0.0, 1.0).astype(x.dtype)

    def step(carry, number):
        free, state, i, alive = carry
        state = lax.cond(number == 0, lambda state: state, lambda state: add(state, i), state)
        values = value(state, number)
        pool = free & (values > -jnp.inf)
        i = first_best(pool, values)
        alive = alive & pool[i]
        chosen = jnp.where(alive, i, -1), jnp.where(alive, values[i], jnp.nan)
        return (free.at[i].set(False), state, i, alive), chosen

    start = free, state, jnp.int32(0), jnp.sum(wrong) == 0
    _, (indices, objective) = lax.scan(step, start, np.arange(num_features, dtype=x.dtype))
    return Selection(indices, objective, jnp.int32(num_features))


class _Tables:
    """Samples, and tables of counts of each binned feature with the class or another feature."""

    def __init__(self, x, y, members, num_classes: int, num_bins: int, binning: str):
        self.x, self.y, self.members, self.w = x, y, members, members.weights
        self.num_classes, self.num_bins, self.binning = num_classes, num_bins, binning

    @functools.cached_property
    def codes(self) -> Int[Array, "d n"]:
        return _bins.bin_codes(self.x, self.w, self.num_bins, self.binning)

    def with_class(self) -> Float[Array, "d b c"]:
        return _bins.joint_counts(self.codes, self.y, self.w, self.num_bins, self.num_classes)

    def with_feature(self, i: Int[Array, ""]) -> Float[Array, "d b b"]:
        return _bins.joint_counts(self.codes, self.codes[i], self.w, self.num_bins, self.num_bins)

    def with_both(self, i: Int[Array, ""]) -> Float[Array, "d b b c"]:
        """Counts for each candidate by its bin, the bin of feature i, and the class."""
        both = _bins.pair_codes(self.codes[i], self.y.astype(jnp.int32), self.num_classes)
        size = self.num_bins * self.num_classes
        counts = _bins.joint_counts(self.codes, both, self.w, self.num_bins, size)
        return counts.reshape(-1, self.num_bins, self.num_bins, self.num_classes)


def _symmetrical_uncertainty(counts: Float[Array, "d a m"]) -> Float[Array, "d"]:
    """2 I(A; M) / (H(A) + H(M)), in [0, 1]; 0 if A and M are both constant."""
    entropies = _bins.entropy(jnp.sum(counts, axis=-1)) + _bins.entropy(jnp.sum(counts, axis=-2))
    return jnp.minimum(safe_divide(2 * _bins.mutual_information(counts), entropies), 1)


def mrmr(tables: _Tables, scheme: str, relevance: str, redundancy: str) -> Criterion:
    x = tables.x
    m = _class_moments.class_moments(x, tables.members)
    information = _bins.mutual_information
    if relevance == "mi":
        relevant = information(tables.with_class())
    elif relevance == "f":
        relevant = _class_moments.f_statistic(m)
    else:  # the target is a number
        relevant = _class_moments.regression_f(x, lax.stop_gradient(tables.y), tables.members)
    if redundancy == "pearson":
        # Features centred and scaled to length 1; their products are correlations. Constants are 0.
        columns = m.residuals + at(m.means, tables.members.label)
        length = safe_sqrt(m.between + m.within)[None]
        columns = safe_divide(columns, jnp.broadcast_to(length, columns.shape))
        columns = safe_sqrt(tables.w)[:, None] * columns

        def shared(i):
            return jnp.abs(matmul(columns[:, i][None], columns)[0])
    else:
        _ = tables.codes  # computed and cached outside the loop, so that no tracer leaves the loop

        def shared(i):
            return information(tables.with_feature(i))

    def value(total, number):
        mean = total / jnp.maximum(number, 1)
        if scheme == "difference":
            return relevant - mean
        if redundancy == "pearson":  # a mean of 1 means: a copy of all chosen features
            copy = mean >= 1 - (8 + x.shape[0] ** 0.5) * eps(x.dtype)
            mean = jnp.where(copy, jnp.inf, mean)
        return relevant / jnp.where(number == 0, 1, mean)

    def add(total, i):
        return total + (jnp.maximum(shared(i), FLOOR) if scheme == "quotient" else shared(i))

    return Criterion(relevant > 0, jnp.zeros_like(relevant), value, add)


def cfs(tables: _Tables) -> Criterion:
    to_class = _symmetrical_uncertainty(tables.with_class())

    # The state holds Σ_S r_ff for every candidate. For the set S it holds Σ_S r_cf and
    # Σ_{i < j ∈ S} r_ff.
    def value(state, number):
        to_chosen, relevant, redundant = state
        merit = (relevant + to_class) / jnp.sqrt(number + 1 + 2 * (redundant + to_chosen))
        so_far = relevant / jnp.sqrt(jnp.maximum(number, 1) + 2 * redundant)
        return jnp.where(merit > so_far + 4 * eps(merit.dtype), merit, -jnp.inf)

    def add(state, i):
        to_chosen, relevant, redundant = state
        more = to_chosen + _symmetrical_uncertainty(tables.with_feature(i))
        return more, relevant + to_class[i], redundant + to_chosen[i]

    zero = jnp.zeros((), to_class.dtype)
    return Criterion(to_class > 0, (jnp.zeros_like(to_class), zero, zero), value, add)


def fcbf(tables: _Tables, threshold: Float[Array, ""]) -> Criterion:
    to_class = _symmetrical_uncertainty(tables.with_class())

    def value(predominant, number):
        return jnp.where(predominant, to_class, -jnp.inf)

    def add(predominant, i):
        return predominant & (_symmetrical_uncertainty(tables.with_feature(i)) < to_class)

    start = (to_class >= threshold) & (to_class > 0)
    return Criterion(start, start, value, add)


def jmi(tables: _Tables) -> Criterion:
    relevant = _bins.mutual_information(tables.with_class())

    def value(total, number):
        return jnp.where(number == 0, relevant, total)

    def add(total, i):
        joint = tables.with_both(i).reshape(relevant.shape[0], -1, tables.num_classes)
        return total + _bins.mutual_information(joint)

    return Criterion(relevant > 0, jnp.zeros_like(relevant), value, add)


def cmim(tables: _Tables) -> Criterion:
    relevant = _bins.mutual_information(tables.with_class())

    def add(least, i):
        given = jnp.permute_dims(tables.with_both(i), (0, 1, 3, 2))
        return jnp.minimum(least, _bins.conditional_mutual_information(given))

    return Criterion(relevant > 0, relevant, lambda least, number: least, add)
