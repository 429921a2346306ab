"""Greedy forward selection (Table 2) by GC and GKL; `_select.py` states the criteria.

An incremental Cholesky factor per group gives the conditional variances σ²_{j|S} of section 3.4.1
in O(|S|) per candidate. The paper updates inverses instead (eqs. 13 to 16).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps
from jaxfs._types import Selection
from jaxfs.methods.gaussian import _criteria, _groups
from jaxfs.methods.gaussian._moments import (
    GaussianMoments,
    class_places,
    column,
    gaussian_moments,
    products,
    put,
)

# ---- The greedy search --------------------------------------------------------------------------


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


#: Priorities of features. Only candidates, and copies if there are no other candidates, are chosen;
#: constant features may be given as initial features.
CHOSEN, CONSTANT, COPY, CANDIDATE, INVALID = range(5)


class State(NamedTuple):
    """The state of the greedy loop."""

    indices: Int[Array, "k"]  # the features to begin with until they are chosen, −1 elsewhere
    objective: Float[Array, "k"]
    saturated_at: Int[Array, ""]
    priority: Float[Array, "d"]  # CHOSEN, CONSTANT, COPY (affine, of a chosen feature) or CANDIDATE
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

    `choose(step, state)` returns the chosen feature and a pending state. `absorb(pending, own)`
    returns the next state. `own` `(c, d)` holds the covariances of the chosen feature with every
    feature in each class; the caller may have to read these from a file.

    A criterion is a sum of terms over the chosen features. A subclass defines `initial_terms` and
    `terms`. It overrides `rank` and `update` if the defaults do not fit the criterion.
    """

    def __init__(self, m: GaussianMoments, groups: _groups.Groups, ridge, initial) -> None:
        self.m, self.groups, self.initial = m, groups, initial
        self.ridge = _criteria.ridge_of_each(m, ridge)
        self.variances = _groups.group_variances(m, groups, self.ridge)

    def initial_terms(self) -> tuple[Any, Any]:
        """Return `totals` and `extra` of the state for the empty set of features."""
        raise NotImplementedError

    def terms(self, factor: Factor, extra: Any) -> Any:
        """Return the term of every candidate, shaped as `totals` with a last axis of features."""
        raise NotImplementedError

    def rank(self, step, state: State, terms: Any) -> Ranking:
        """Return the ranking of the candidates by their terms."""
        priority = self.priorities(state, terms)
        top, _, largest = _tops(priority, priority, terms)
        best = (priority == top) & _as_large(terms, largest)
        return Ranking(state.totals + terms, best, top, state.saturated_at)

    def priorities(self, state: State, value: Float[Array, "d"]) -> Float[Array, "d"]:
        """Return the priority of each feature in this step, and INVALID for values like NaN.

        A candidate must not be, to rounding, a combination of chosen features in any group.
        """
        least = 64 * eps(value.dtype)
        # The condition holds for NaN, so that a feature with NaN is found to be invalid.
        new = jnp.all(~(state.factor.residual / self.variances <= least), axis=0)
        invalid = new & (state.priority >= COPY) & ~jnp.isfinite(value)
        return jnp.where(invalid, INVALID, jnp.where(new, state.priority, CHOSEN))

    def update(self, extra: Any, factor: Factor, after: Factor, step, i, cov) -> Any:
        """Return `extra` after feature i is added; `factor` is from before, `after` from after."""
        return extra

    def start(self) -> State:
        k, dtype = self.initial.shape[0], self.variances.dtype
        objective = jnp.zeros(k, dtype)
        priority = jnp.where(self.m.total != 0, CANDIDATE, CONSTANT).astype(dtype)
        factor = Factor(self.empty_rows(), jnp.zeros_like(self.variances), self.variances)
        picks = self.initial, objective, jnp.int32(k), priority, jnp.asarray(True)
        return State(*picks, factor, *self.initial_terms())

    def empty_rows(self) -> Float[Array, "g k d"]:
        g, d = self.variances.shape
        return jnp.zeros((g, self.initial.shape[0], d), self.variances.dtype)

    def choose(self, step, state: State) -> tuple[Int[Array, ""], Any]:
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
        return i, (step, i, state)

    def absorb(self, pending: Any, own: Float[Array, "c d"]) -> State:
        step, i, state = pending
        copy = self._is_copy(_groups.total_row(self.m, i, own), i)
        priority = jnp.where(copy, jnp.minimum(state.priority, COPY), state.priority)
        priority = jnp.where(jnp.arange(priority.shape[0], dtype=i.dtype) == i, CHOSEN, priority)
        cov = _groups.group_rows(self.groups, i, own)
        factor = state.factor
        factor = factor._replace(rows=written(factor.rows, factor.newest, step))
        after = factor.extended(i, cov, self.ridge)
        extra = self.update(state.extra, factor, after, step, i, cov)
        return state._replace(priority=priority, factor=after, extra=extra)

    def run(self) -> Selection:
        """Run all steps in one loop, and return the selection."""

        def body(step, state):
            i, pending = self.choose(step.astype(jnp.int32), state)
            return self.absorb(pending, self.m.data.covariances_with(i))

        return selection(lax.fori_loop(0, self.initial.shape[0], body, self.start()))

    def _is_copy(self, row: Float[Array, "d"], i) -> Bool[Array, "d"]:
        """A mask of the features that are, to rounding, an affine function of feature i.

        Such a copy has |correlation| 1. `row` is the covariance of feature i with every feature
        over all samples. With a ridge a copy acts as a second noisy measurement. The term of a copy
        can therefore be large although the copy adds no information.
        """
        # Divide before multiplying, because the squares of covariances could overflow.
        squared = (row / self.m.total) * (row / column(self.m.total, i))
        return squared >= 1 - (8 + self.m.rounding) * eps(row.dtype)


def selection(state: State) -> Selection:
    return Selection(*state[:3])


def greedy_selection(x, y, weights, *arguments, search, num_classes, **options) -> Selection:
    """Return the selection by `search`, a subclass of `Search`.

    The constructor of `search` receives the `arguments` and `options`.
    """
    places = class_places(y, weights, num_classes, x.dtype)
    return _selection_of(x, places, arguments, search, tuple(options.items()))


@functools.partial(jax.jit, static_argnums=(3, 4))
def _selection_of(x, places, arguments, search, options) -> Selection:
    return search(gaussian_moments(x, places), *arguments, **dict(options)).run()


def _tops(priority: Float[Array, "d"], other: Float[Array, "d"], *keys: Float[Array, "d"]):
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


def _as_large(key: Float[Array, "d"], largest: Float[Array, ""]) -> Bool[Array, "d"]:
    """Whether a key equals the largest key up to rounding; true for all keys if that is −∞."""
    return key >= largest - 4 * eps(key.dtype) * (1 + jnp.abs(largest))


# ---- The Gaussian compromise (sections 3.2.1 and 3.4) -------------------------------------------


class CompromiseSearch(Search):
    """Search by GC: the terms are log σ²_{j|S} − log σ²_{j|y,S} (eq. 12) and the class entropy."""

    def __init__(self, m, ridge, shrinkage, initial, key, *, objective, fallback) -> None:
        groups = _groups.CompromiseGroups(m.priors, m.deviations, shrinkage)
        super().__init__(m, groups, ridge, initial)
        self.key, self.objective, self.fallback = key, objective, fallback

    def initial_terms(self):
        p = self.m.priors
        return (jnp.zeros(p.shape[0] + 1, p.dtype), jnp.zeros((), p.dtype)), ()

    def terms(self, factor, extra):
        """Return log ratios of variances, and the terms of Σ_y p_y H(f_y), which only GC.E needs.

        The rows of the log ratios are the classes, then the pooled Gaussian.
        """
        r = factor.residual
        if self.objective == "mi":
            ratio = jnp.log(r[-1:] / r[:-1])  # units cancel in the quotient without rounding errors
            return ratio, jnp.zeros_like(ratio[0])
        logs = jnp.log(r)
        return logs[-1:] - logs[:-1], _criteria.class_entropy(logs[:-2], self.m.priors, 1)

    def rank(self, step, state, terms):
        """Rank the candidates by eq. 10, or by the fallback after saturation.

        The criterion is saturated once every candidate puts every class at its bound.
        """
        ratio = state.totals[0][:, None] + terms[0]  # log|Σ*| − log|Σ|
        value, clipped = _criteria.compromise(ratio[:-1], self.m.priors)
        value, wilks = value + terms[1], ratio[-1]
        priority = self.priorities(state, value + wilks)
        fallback, tied = self._fallback_key(step, wilks), jnp.where(clipped, wilks, -jnp.inf)
        unclipped = jnp.where(clipped, CHOSEN, priority)
        top, any_unclipped, *largest = _tops(priority, unclipped, value, fallback, tied)
        saturated = (any_unclipped < COPY) & (top >= COPY) | (state.saturated_at < step)
        best = _as_large(value, largest[0])
        if self.objective == "mi":  # clipped candidates tie
            best = best & _as_large(tied, largest[2])
        best = jnp.where(saturated, _as_large(fallback, largest[1]), best) & (priority == top)
        at = jnp.where(saturated, jnp.minimum(state.saturated_at, step), state.saturated_at)
        top = jnp.where(saturated, CHOSEN, top) if self.fallback == "stop" else top
        return Ranking(value + state.totals[1], best, top, at)

    def _fallback_key(self, step, wilks):
        if self.fallback != "random":
            return wilks
        return jax.random.uniform(jax.random.fold_in(self.key, step), wilks.shape, wilks.dtype)


# ---- The Kullback–Leibler bound (sections 3.2.2 and 3.5) ----------------------------------------


class Cross(NamedTuple):
    """For each group b, the covariance of its partner a, transformed by the Cholesky factor of b.

    See sections 3.5.2 to 3.5.4. β_j are the regression coefficients of feature j on the chosen
    features S under b, and E_j = X_j − β_jᵀ X_S is the residual.
    """

    rows: Float[Array, "g k d"]  # L_b⁻¹ Σ_a[S, j]
    newest: Float[Array, "g d"]  # the row of the last step, as in `Factor`
    core: Float[Array, "g k k"]  # L_b⁻¹ Σ_a[S, S] L_b⁻ᵀ
    spread: Float[Array, "g d"]  # the variance of E_j under a
    shift: Float[Array, "g d"]  # the difference of the means of E_j under a and b


class DivergenceSearch(Search):
    """Search by GKL: the term of a feature is the increase of the bound of section 3.2.2."""

    def __init__(self, m, ridge, shrinkage, initial, *, objective) -> None:
        super().__init__(m, _groups.one_against_rest(m, shrinkage), ridge, initial)
        self.objective = objective

    def initial_terms(self):
        rows, means = self.empty_rows(), self.groups.means
        g, k, _ = rows.shape
        cross = Cross(
            rows=rows,
            newest=jnp.zeros_like(self.variances),
            core=jnp.zeros((g, k, k), rows.dtype),
            spread=_criteria.swap(self.variances),
            shift=means - _criteria.swap(means),
        )
        return _criteria.prior_constant(self.groups.priors), cross

    def terms(self, factor, extra):
        r, p = factor.residual, self.groups.priors
        moments = extra.spread / r, extra.shift**2 / r, p, 1
        if self.objective == "mi":  # a quotient, as in GC
            return _criteria.divergence(jnp.log(r / _criteria.swap(r)), *moments)
        logs = jnp.log(r)
        divergence = _criteria.divergence(logs - _criteria.swap(logs), *moments)
        return divergence + _criteria.pair_entropy(logs, p, 1)

    def update(self, extra, factor, after, step, i, cov):
        """Return the `Cross` after feature i is added.

        E_j becomes E_j − γ_j E_i with γ = row/√r_i, where `row` is the new row of the factor. With
        u = l_b(i), Cov_a(E_i, E_j) = Σ_a[i, j] − u·cross_j − (cross_i − core u)·l_b(j). This
        formula needs earlier rows only.
        """
        c = extra._replace(rows=written(extra.rows, extra.newest, step))
        r = column(factor.residual, i)
        root = jnp.sqrt(r)[:, None]
        u = column(factor.rows, i)
        core_u = jnp.einsum("gkm,gm->gk", c.core, u, precision=lax.Precision.HIGHEST)
        bend = column(c.rows, i) - core_u
        through = _criteria.swap(cov) - products(u, c.rows)
        joint = through - products(bend, factor.rows)
        spread, shift = column(c.spread, i), column(c.shift, i)
        gamma, edge = after.newest / root, bend / root
        core = put(c.core, edge, step, axis=1)
        core = put(core, put(edge, spread / r, step, axis=1), step, axis=2)
        squares = c.spread - 2 * gamma * joint + gamma**2 * spread[:, None]
        return Cross(
            rows=c.rows,
            newest=through / root,
            core=core,
            spread=jnp.maximum(squares, self.ridge[None]),
            shift=c.shift - gamma * shift[:, None],
        )
