"""The greedy loops of GC and GKL; `gaussian.py` is their face and states the criteria."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps
from jaxfs._types import Selection
from jaxfs.kernels._order import first_best
from jaxfs.methods.gaussian import _groups
from jaxfs.methods.gaussian._criteria import (
    class_entropy,
    compromise,
    divergence,
    pair_entropy,
    prior_constant,
    regularisation,
    swap,
)
from jaxfs.methods.gaussian._groups import Factor
from jaxfs.methods.gaussian._moments import Moments, column, moments, products, put

# ---- Selection ----------------------------------------------------------------------------------


class _Search(NamedTuple):
    """What the greedy loop carries, whatever the criterion."""

    indices: Int[Array, "k"]
    objective: Float[Array, "k"]
    chosen: Bool[Array, "d"]
    copies: Bool[Array, "d"]
    alive: Bool[Array, ""]  # false once nothing could be chosen


def beginning(m: Moments, num_features: int) -> _Search:
    none = jnp.zeros(m.varies.shape[0], bool)
    indices = jnp.full(num_features, -1, jnp.int32)
    objective = jnp.full(num_features, jnp.nan, m.priors.dtype)
    return _Search(indices, objective, none, none, m.finite)


def _any(*masks: Bool[Array, "d"]) -> Bool[Array, "m"]:
    """`jnp.any` of several, in one reduction: a step has many small operations as it is."""
    return jnp.max(jnp.stack(masks).astype(jnp.float32), axis=1) > 0


def _choose(s: _Search, step, initial, left, goes_on, any_fresh, value, *ranks):
    """The step's feature, −1 if there is none; and the search with it noted.

    Of the candidates `left` those that are no copies are fresh. The first of `ranks` orders them,
    the next those that it does not tell apart; `value` is noted.
    """
    d = left.shape[0]
    pool = left & ~(s.copies & any_fresh)
    given = column(initial, step)
    i = jnp.where(given >= 0, jnp.clip(given, 0, d - 1), first_best(pool, *ranks))
    kept = (given >= 0) & (given < d) & ~column(s.chosen, i)
    found = jnp.where(given >= 0, kept, goes_on) & s.alive
    noted = jnp.where(found, column(value, i), jnp.nan)
    s = s._replace(
        indices=put(s.indices, jnp.where(found, i, -1), step, axis=0),
        objective=put(s.objective, noted, step, axis=0),
        chosen=put(s.chosen, jnp.asarray(True), i, axis=0),
        alive=found,
    )
    return i, s


def choose_best(m: Moments, s: _Search, step, initial, left, value, gain):
    """`_choose` for a criterion that ranks by itself, among those `left` that vary."""
    left = left & m.varies & ~s.chosen
    any_left, any_fresh, any_lost = _any(left, left & ~s.copies, left & ~jnp.isfinite(gain))
    return _choose(s, step, initial, left, any_left & ~any_lost, any_fresh, value, gain)


def independent(f: Factor, variances, priors) -> Bool[Array, "d"]:
    """Candidates that no group sees, to rounding, as a combination of those chosen."""
    left = f.residual > 64 * eps(variances.dtype) * variances
    return jnp.all(left | (priors == 0)[:, None], axis=0)


class Search(NamedTuple):
    """A greedy search in steps, between which the covariances of the chosen feature are needed.

    `choose(step, carry)` gives the feature and what `absorb(chosen, covariances)` turns, with the
    feature's covariances in the classes `(c, d)`, into the next carry; `finish(carry)` a Selection.
    """

    start: Any
    choose: Callable[[Int[Array, ""], Any], tuple[Int[Array, ""], Any]]
    absorb: Callable[[Any, Float[Array, "c d"]], Any]
    finish: Callable[[Any], Selection]


def run(search: Search, m: Moments, num_features: int) -> Selection:
    """All steps, in one loop."""

    def body(step, carry):
        i, chosen = search.choose(step.astype(jnp.int32), carry)
        return search.absorb(chosen, m.data.covariances_with(i))

    return search.finish(lax.fori_loop(0, num_features, body, search.start))


def gc_search(
    m: Moments, ridge, shrinkage, initial, key, *, num_features, objective, fallback
) -> Search:
    """`key` is for the fallback at random."""
    ridge, shrinkage = regularisation(m, ridge, shrinkage)
    g = _groups.compromise_groups(m, shrinkage)
    variances = _groups.group_variances(m, g, ridge)
    total = _groups.total_variances(m)
    p = m.priors

    def instead(step, wilks):
        if fallback != "random":
            return wilks
        return jax.random.uniform(jax.random.fold_in(key, step), wilks.shape, wilks.dtype)

    def choose(step, carry):
        search, factor, ratios, entropy, saturated_at = carry
        factor = factor._replace(rows=_groups.write(factor.rows, factor.newest, step))
        r = factor.residual
        if objective == "entropy":
            logs = jnp.log(r)
            gain = logs[-1:] - logs[:-1]
        else:
            gain = jnp.log(r[-1:] / r[:-1])  # of quotients: units cancel without rounding
        ratio = ratios[:, None] + gain  # log|Σ*| − log|Σ|, of the classes and the pooled one
        value, clipped = compromise(ratio[:-1], p)
        own = jnp.zeros_like(value)
        if objective == "entropy":
            own = class_entropy(logs[:-2], p, 1)
            value = value + own
        wilks = ratio[-1]
        left = independent(factor, variances, g.priors) & m.varies & ~search.chosen
        lost = ~jnp.isfinite(value + wilks)  # a number is missing: nothing is ranked beside it
        any_left, any_fresh, any_open, any_lost = _any(
            left, left & ~search.copies, left & ~clipped, left & lost
        )
        saturated = (saturated_at < step) | (any_left & ~any_open)
        saturated_at = jnp.where(saturated, jnp.minimum(saturated_at, step), saturated_at)
        goes_on = any_left & ~any_lost
        if fallback == "stop":
            goes_on = goes_on & ~saturated
        rank = jnp.where(saturated, instead(step, wilks), value)
        noted = value + entropy if objective == "entropy" else value
        tie = jnp.where(clipped, wilks, -jnp.inf)
        i, search = _choose(search, step, initial, left, goes_on, any_fresh, noted, rank, tie)
        return i, (
            i,
            search,
            factor,
            ratios + column(gain, i),
            entropy + column(own, i),
            saturated_at,
        )

    def absorb(chosen, own):
        i, search, factor, *sums = chosen
        cov = _groups.group_rows(g, i, own)
        search = search._replace(copies=search.copies | _groups.is_copy(m, total, cov[-1], i))
        return search, _groups.extend(factor, i, cov, ridge), *sums

    def finish(carry):
        search, _, _, _, saturated_at = carry
        return Selection(search.indices, search.objective, saturated_at)

    start = (
        beginning(m, num_features),
        _groups.empty_factor(variances, num_features),
        jnp.zeros(p.shape[0] + 1, p.dtype),
        jnp.zeros((), p.dtype),
        jnp.int32(num_features),
    )
    return Search(start, choose, absorb, finish)


@functools.partial(
    jax.jit, static_argnames=("num_features", "num_classes", "objective", "fallback")
)
def gc_select(x, y, ridge, shrinkage, initial, weights, key, *, num_classes, **options):
    m = moments(x, y, weights, num_classes)
    return run(gc_search(m, ridge, shrinkage, initial, key, **options), m, options["num_features"])


class _Cross(NamedTuple):
    """Per group b, its partner a's covariance seen through b's factor (sections 3.5.2 to 3.5.4).

    With β_j the coefficients of feature j on those chosen, under b, and E_j = X_j − β_jᵀ X_S:
    """

    rows: Float[Array, "g k d"]  # L_b⁻¹ Σ_a[S, j]
    newest: Float[Array, "g d"]  # of these rows, as of the factor's
    core: Float[Array, "g k k"]  # L_b⁻¹ Σ_a[S, S] L_b⁻ᵀ
    spread: Float[Array, "g d"]  # the variance of E_j under a
    shift: Float[Array, "g d"]  # the difference of the means of E_j under a and b


def gkl_search(m: Moments, ridge, shrinkage, initial, *, num_features, objective) -> Search:
    ridge, shrinkage = regularisation(m, ridge, shrinkage)
    g = _groups.one_against_all_groups(m, shrinkage)
    variances = _groups.group_variances(m, g, ridge)
    total = _groups.total_variances(m)

    def choose(step, carry):
        search, factor, cross, so_far = carry
        factor = factor._replace(rows=_groups.write(factor.rows, factor.newest, step))
        cross = cross._replace(rows=_groups.write(cross.rows, cross.newest, step))
        r = factor.residual
        terms = cross.spread / r, cross.shift**2 / r, g.priors, 1
        if objective == "entropy":
            logs = jnp.log(r)
            gain = divergence(logs - swap(logs), *terms) + pair_entropy(logs, g.priors, 1)
        else:
            gain = divergence(jnp.log(r / swap(r)), *terms)  # of quotients, as in GC
        left = independent(factor, variances, g.priors)
        i, search = choose_best(m, search, step, initial, left, so_far + gain, gain)
        return i, (step, i, search, factor, cross, so_far + column(gain, i))

    def absorb(chosen, own):
        step, i, search, factor, cross, so_far = chosen
        whole = _groups.total_row(m, i, own)
        search = search._replace(copies=search.copies | _groups.is_copy(m, total, whole, i))
        cov = _groups.group_rows(g, i, own)
        after = _groups.extend(factor, i, cov, ridge)
        cross = _extend_cross(cross, factor, after.newest, step, i, swap(cov), ridge)
        return search, after, cross, so_far

    def finish(carry):
        return Selection(carry[0].indices, carry[0].objective, jnp.int32(num_features))

    k = num_features
    factor = _groups.empty_factor(variances, k)
    cross = _Cross(
        rows=jnp.zeros_like(factor.rows),
        newest=jnp.zeros_like(variances),
        core=jnp.zeros((variances.shape[0], k, k), variances.dtype),
        spread=swap(variances),
        shift=g.means - swap(g.means),
    )
    return Search(
        (beginning(m, k), factor, cross, prior_constant(g.priors)), choose, absorb, finish
    )


@functools.partial(jax.jit, static_argnames=("num_features", "num_classes", "objective"))
def gkl_select(x, y, ridge, shrinkage, initial, weights, *, num_classes, **options):
    m = moments(x, y, weights, num_classes)
    return run(gkl_search(m, ridge, shrinkage, initial, **options), m, options["num_features"])


def _extend_cross(c: _Cross, f: Factor, row, step, i, cov, floor) -> _Cross:
    """`f` is b's factor before feature i, `row` its row after; `cov` are the rows of i under a.

    With u = l_b(i), E_j turns into E_j − γ_j E_i, γ = row/√r_i, and Cov_a(E_i, E_j) needs the old
    rows only: Σ_a[i, j] − u·cross_j − (cross_i − core u)·l_b(j).
    """
    r = column(f.residual, i)
    root = jnp.sqrt(r)[:, None]
    u = column(f.rows, i)
    seen = column(c.rows, i)
    bend = seen - jnp.einsum("gkm,gm->gk", c.core, u, precision=lax.Precision.HIGHEST)
    through = cov - products(u, c.rows)
    joint = through - products(bend, f.rows)
    spread, shift = column(c.spread, i), column(c.shift, i)
    gamma = row / root
    edge = bend / root
    core = put(c.core, edge, step, axis=1)
    core = put(core, put(edge, spread / r, step, axis=1), step, axis=2)
    return _Cross(
        rows=c.rows,
        newest=through / root,
        core=core,
        spread=jnp.maximum(c.spread - 2 * gamma * joint + gamma**2 * spread[:, None], floor[None]),
        shift=c.shift - gamma * shift[:, None],
    )
