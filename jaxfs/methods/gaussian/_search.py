"""Greedy forward selection (Table 2) by any criterion computed from sums over chosen features.

An incremental Cholesky factor per group gives the conditional variances σ²_{j|S} of section 3.4.1
in O(|S|) per candidate. The paper updates inverses instead (eqs. 13 to 16). A group is one or
several classes with one Gaussian model, and its covariance is a mixture of those of its classes
(eq. 9). One product with the data gives the covariances of a feature with all others in every
class, and no d×d matrix is formed.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps
from jaxfs._types import Record, Selection
from jaxfs.linalg._lapack import cholesky
from jaxfs.methods.gaussian._moments import (
    ClassPlaces,
    GaussianMoments,
    class_sum,
    column,
    gaussian_moments,
    products,
    put,
)

#: The default ridge, as a multiple of variance × kurtosis of a feature, and the default shrinkage.
RIDGE, SHRINKAGE = 0.1, 0.3

#: A function of the deviations of the class means from the overall mean. It returns their products
#: for each feature with itself, for each feature with one given feature, or for all pairs.
Outer = Callable[[Float[Array, "c d"]], Float[Array, "c *s"]]


class Options(Record):
    """The checked options of a search."""

    ridge: Any  # a number, or a number for each feature; `None` for the default
    shrinkage: Any
    initial: Any  # `(k,)`, the features to begin with; −1 marks a step without such a feature
    num_classes: int = eqx.field(static=True)
    objective: str = eqx.field(static=True)
    fallback: str = eqx.field(static=True, default="wilks")
    key: Any = None


class Factor(NamedTuple):
    """The Cholesky factor of the chosen features in each group, extended to all features.

    Row m of `rows` is the covariance of every feature with the m-th whitened chosen feature; later
    rows are zero. The row of the last step is stored in `newest`. The next step writes it into
    `rows` before it reads `rows`. If the row were written at once, XLA would copy the rows of GKL
    in every step, which takes 3.0 s instead of 0.8 s for 100 of 20 000 features.
    """

    rows: Float[Array, "g k d"]
    newest: Float[Array, "g d"]
    residual: Float[Array, "g d"]  # σ²_{j|S}

    def extended(self, i, cov: Float[Array, "g d"], ridge: Float[Array, "d"]) -> "Factor":
        """Return the factor with feature i added; `cov` is its covariance with every feature."""
        variance = column(self.residual, i)
        row = (cov - products(column(self.rows, i), self.rows)) / jnp.sqrt(variance)[:, None]
        return Factor(self.rows, row, jnp.maximum(self.residual - row * row, ridge[None]))


def written(rows: Float[Array, "g k d"], newest: Float[Array, "g d"], step) -> Array:
    """Return `rows` with the row of the previous step written; in step 0 this row is zero."""
    return put(rows, newest, jnp.maximum(step - 1, 0), axis=1)


#: Priorities of features. The search chooses a CANDIDATE, or a COPY if no CANDIDATE is left. It
#: accepts CONSTANT features only as initial features. It stops if any feature is INVALID.
CHOSEN, CONSTANT, COPY, CANDIDATE, INVALID = range(5)


class State(NamedTuple):
    """The state of the greedy loop."""

    indices: Int[Array, "k"]  # chosen so far; for later steps the initial feature or −1
    objective: Float[Array, "k"]
    saturated_at: Int[Array, ""]
    priority: Float[Array, "d"]  # CHOSEN, CONSTANT, COPY (of a chosen feature) or CANDIDATE
    alive: Bool[Array, ""]  # false after a step that found no feature
    factor: Factor
    totals: Any  # the terms of the criterion, summed over the chosen features
    extra: Any  # other arrays that the criterion needs


class Ranking(NamedTuple):
    """The order of the candidates in one step."""

    value: Float[Array, "d"]  # the criterion with each candidate added
    best: Bool[Array, "d"]  # the best candidates, equal up to rounding
    top: Float[Array, ""]  # the largest priority among the candidates
    saturated_at: Int[Array, ""]


class Search:
    """Greedy forward selection by one criterion; each step consists of two functions.

    `choose(step, state)` records the next feature i. `absorb(step, i, state, own)` updates the
    factors. `own` `(c, d)` holds the covariances of feature i with every feature in each class; the
    caller may have to read these from a file.

    A criterion is computed from terms, summed over the chosen features. A subclass defines
    `initial_terms` and `terms`. It overrides `covariances`, `rank` and `update` if the defaults do
    not fit the criterion. `value` computes the criterion of all features without a search.
    """

    def __init__(self, m: GaussianMoments, options: Options) -> None:
        self.m, self.options, ridge = m, options, options.ridge
        if ridge is None:
            ridge = default_ridge(m, m.data.fourth_powers(m.deviations, m.total))
        self.ridge = jnp.where(jnp.isfinite(m.total), ridge, jnp.nan)
        # A class without samples gets the pooled covariance, so that it has no effect.
        self.shrinkage = jnp.where(m.priors > 0, options.shrinkage, 1)
        self.variances = self.covariances(m.variances, jnp.square) + self.ridge[None]

    # ---- The groups of classes ----

    def covariances(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "g *s"]:
        """Return the covariances of the groups; by default there is one group, of all samples.

        `own` holds the covariances of the classes. `outer` gives the same products of features for
        the deviations of the class means.
        """
        return self.total(own, outer)[None]

    def total(self, own: Float[Array, "c *s"], outer: Outer) -> Float[Array, "*s"]:
        """Return the covariance over all samples."""
        return class_sum(self.m.priors, own + outer(self.m.deviations))

    def shrunk(self, own: Float[Array, "c *s"], pooled: Float[Array, "*s"]) -> Array:
        """Return the covariance of each class, shrunk towards the pooled covariance."""
        shrinkage = self.shrinkage.reshape(-1, *[1] * pooled.ndim)
        return own + shrinkage * (pooled[None] - own)

    def matrices(self) -> Float[Array, "g d d"]:
        """Return the covariance matrices of the groups, plus the ridge."""
        own = self.m.data.covariances()
        cov = self.covariances(own, lambda a: a[:, :, None] * a[:, None, :])
        return cov + jnp.diag(self.ridge)[None]

    # ---- The criterion ----

    def value(self) -> Float[Array, ""]:
        """Return the criterion of all features together."""
        raise NotImplementedError

    def initial_terms(self, factor: Factor) -> tuple[Any, Any]:
        """Return `totals` and `extra` of the state for the empty set of features."""
        raise NotImplementedError

    def terms(self, factor: Factor, extra: Any) -> Any:
        """Return the term of every candidate, shaped as `totals` with a last axis of features."""
        raise NotImplementedError

    def rank(self, step, state: State, terms: Any) -> Ranking:
        """Return the ranking of the candidates by their terms."""
        priority = self.priorities(state, terms)
        top, _, largest = tops(priority, priority, terms)
        best = (priority == top) & as_large(terms, largest)
        return Ranking(state.totals + terms, best, top, state.saturated_at)

    def priorities(self, state: State, value: Float[Array, "d"]) -> Float[Array, "d"]:
        """Return the priority of each feature in this step; INVALID if its value is not finite.

        A feature that is, in any group and up to rounding, a linear combination of chosen features
        cannot be chosen.
        """
        least = 64 * eps(value.dtype)
        # NaN counts as new, so that a feature with NaN becomes INVALID.
        new = jnp.all(~(state.factor.residual / self.variances <= least), axis=0)
        invalid = new & (state.priority >= COPY) & ~jnp.isfinite(value)
        return jnp.where(invalid, INVALID, jnp.where(new, state.priority, CHOSEN))

    def update(self, extra: Any, factor: Factor, after: Factor, step, i, cov) -> Any:
        """Return `extra` with feature i added, which turns `factor` into `after`."""
        return extra

    # ---- The loop ----

    def start(self) -> State:
        (k,), (g, d), dtype = self.options.initial.shape, self.variances.shape, self.variances.dtype
        priority = jnp.where(self.m.total != 0, CANDIDATE, CONSTANT).astype(dtype)
        rows, newest = jnp.zeros((g, k, d), dtype), jnp.zeros_like(self.variances)
        factor = Factor(rows, newest, self.variances)
        picks = jnp.asarray(self.options.initial), jnp.zeros(k, dtype), jnp.int32(k)
        return State(*picks, priority, jnp.asarray(True), factor, *self.initial_terms(factor))

    def choose(self, step, state: State) -> tuple[Int[Array, ""], State]:
        """Return the feature of one step, and the state with this feature recorded.

        The feature is the given initial feature, or the best candidate. Copies are candidates only
        if nothing else is left. If there is no candidate, the state records −1.
        """
        terms = self.terms(state.factor, state.extra)
        ranking = self.rank(step, state, terms)
        given, d = column(state.indices, step), state.priority.shape[0]
        best = jnp.argmax(ranking.best).astype(jnp.int32)
        i = jnp.where(given >= 0, jnp.clip(given, 0, d - 1), best)
        usable = (given < d) & (column(state.priority, i) > CHOSEN)
        found = jnp.where(given >= 0, usable, ranking.top >= COPY)
        found = found & (ranking.top < INVALID) & state.alive
        value = jnp.where(found, column(ranking.value, i), jnp.nan)
        state = state._replace(
            indices=put(state.indices, jnp.where(found, i, -1), step, axis=0),
            objective=put(state.objective, value, step, axis=0),
            saturated_at=ranking.saturated_at,
            alive=found,
            totals=jax.tree.map(lambda total, term: total + column(term, i), state.totals, terms),
        )
        return i, state

    def absorb(self, step, i, state: State, own: Float[Array, "c d"]) -> State:
        """Return the state with feature i added to the factors."""

        def with_feature(a):
            return column(a, i)[:, None] * a

        copy = self._is_copy(self.total(own, with_feature), i)
        priority = jnp.where(copy, jnp.minimum(state.priority, COPY), state.priority)
        priority = jnp.where(jnp.arange(priority.shape[0], dtype=i.dtype) == i, CHOSEN, priority)
        cov = self.covariances(own, with_feature)
        factor = state.factor
        factor = factor._replace(rows=written(factor.rows, factor.newest, step))
        after = factor.extended(i, cov, self.ridge)
        extra = self.update(state.extra, factor, after, step, i, cov)
        return state._replace(priority=priority, factor=after, extra=extra)

    def run(self) -> Selection:
        """Run all steps in one loop, and return the selection."""

        def body(step, state):
            step = step.astype(jnp.int32)
            i, state = self.choose(step, state)
            return self.absorb(step, i, state, self.m.data.covariances_with(i))

        state = lax.fori_loop(0, self.options.initial.shape[0], body, self.start())
        return Selection(*state[:3])

    def _is_copy(self, row: Float[Array, "d"], i) -> Bool[Array, "d"]:
        """A mask of the features that are, to rounding, an affine function of feature i.

        Such a copy has |correlation| 1. `row` is the covariance of feature i with every feature
        over all samples. With a ridge a copy acts as a second noisy measurement. The term of a copy
        can therefore be large although the copy adds no information.
        """
        # Divide before multiplying, because the squares of covariances could overflow.
        squared = (row / self.m.total) * (row / column(self.m.total, i))
        return squared >= 1 - (8 + self.m.rounding) * eps(row.dtype)


@functools.partial(jax.jit, static_argnums=0)
def greedy_selection(search: type[Search], x, places: ClassPlaces, options: Options) -> Selection:
    return search(gaussian_moments(x, places), options).run()


@functools.partial(jax.jit, static_argnums=0)
def objective_of(search: type[Search], x, places: ClassPlaces, indices, options: Options):
    """Return the criterion of the features `indices` together; NaN if one is out of range."""
    inside = (indices >= 0) & (indices < x.shape[1])
    x = jnp.take(x, indices, axis=1, mode="clip")
    value = search(gaussian_moments(x, places), options).value()
    return jnp.where(jnp.all(inside), value, jnp.nan)


# ---- Shared by the criteria ---------------------------------------------------------------------


def default_ridge(m: GaussianMoments, fourth: Float[Array, "c d"]) -> Float[Array, "d"]:
    """The default ridge of each feature.

    `fourth` holds the mean fourth power of each feature's deviations in each class, in units of its
    standard deviation. A feature that is nearly always constant has variance 0 in many classes, and
    therefore seems very informative under Gaussian models. Its kurtosis is large, and so is its
    ridge.
    """
    ridge = RIDGE * m.total * class_sum(m.priors, fourth)
    return jnp.where(m.total != 0, ridge, 1)  # 1 avoids a division by 0


def surprise(p: Float[Array, "c"]) -> Float[Array, "c"]:
    """Return −log p, or 0 for an empty class."""
    return jnp.log(1 / jnp.where(p > 0, p, 1))


def class_entropy(logdet: Float[Array, "c d"], p: Float[Array, "c"], size: int):
    """Return Σ_y p_y H(f_y), which is H̃ − Ĩ; `size` is the number of features."""
    constant = jnp.asarray(size, logdet.dtype) * (0.5 * math.log(2 * math.pi * math.e))
    return 0.5 * class_sum(p, logdet) + constant


def log_determinants(cov: Float[Array, "g k k"]) -> Float[Array, "g 1"]:
    diagonal = jnp.diagonal(cholesky(cov), axis1=1, axis2=2)
    return 2 * jnp.sum(jnp.log(diagonal), axis=1, keepdims=True)


def tops(priority: Float[Array, "d"], other: Float[Array, "d"], *keys: Float[Array, "d"]):
    """Return the largest priority, the largest `other`, and the largest keys of that priority.

    One loop computes all maxima, because every loop takes time to compile.
    """

    def larger(a, b):
        above, below = a[0] > b[0], a[0] < b[0]
        keys = (
            jnp.where(above, x, jnp.where(below, y, jnp.maximum(x, y)))
            for x, y in zip(a[2:], b[2:], strict=True)
        )
        return jnp.maximum(a[0], b[0]), jnp.maximum(a[1], b[1]), *keys

    operands = lax.stop_gradient((priority, other, *keys))
    none = np.asarray(-np.inf, priority.dtype)
    return lax.reduce(operands, (none,) * len(operands), larger, (0,))


def as_large(key: Float[Array, "d"], largest: Float[Array, ""]) -> Bool[Array, "d"]:
    """Whether a key equals the largest key up to rounding; true for all if `largest` is −∞."""
    return key >= largest - 4 * eps(key.dtype) * (1 + jnp.abs(largest))
