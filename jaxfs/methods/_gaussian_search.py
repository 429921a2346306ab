"""The criteria GC and GKL and their greedy loops; `gaussian.py` is their face and states them."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul
from jaxfs._order import first_best
from jaxfs._types import Selection
from jaxfs.methods import _gaussian
from jaxfs.methods._gaussian import Factor, Groups, Moments, column

#: The default ridge, in units of the mean variance of the features that vary, and shrinkage.
RIDGE, SHRINKAGE = 0.3, 0.3

# ---- The criteria -------------------------------------------------------------------------------


def _entropy_constant(size, dtype):
    """k/2 log 2πe."""
    return jnp.asarray(size, dtype) * (0.5 * math.log(2 * math.pi * math.e))


def _surprise(p: Float[Array, "c"]) -> Float[Array, "c"]:
    """−log p, and 0 for a class that is not there."""
    return -jnp.log(jnp.where(p > 0, p, 1))


def _compromise(ratio: Float[Array, "c d"], p: Float[Array, "c"]):
    """Ĩ of eq. 10 from log|Σ*| − log|Σ_y|; and whether every class is at its bound."""
    bound = _surprise(p)[:, None]
    gap = 0.5 * ratio
    clipped = jnp.all((gap >= bound) | (p == 0)[:, None], axis=0)
    return matmul(p[None], jnp.minimum(gap, bound))[0], clipped


def _class_entropy(logdet: Float[Array, "c d"], p: Float[Array, "c"], size):
    """Σ_y p_y H(f_y): what H̃ has more than Ĩ."""
    return 0.5 * matmul(p[None], logdet)[0] + _entropy_constant(size, logdet.dtype)


def _divergence(logdet, trace, distance, p: Float[Array, "g"], size, objective: str):
    """The bound of section 3.2.2 less `_prior_constant`, from arrays `(2 pairs, d)`.

    First the classes, then their rests; `trace` is tr(Σ_b⁻¹ Σ_a) and `distance` δᵀ Σ_b⁻¹ δ, b the
    group and a its partner. The terms of one more feature give the increase of the bound.
    """
    there = (p > 0)[:, None]
    divergence = 0.5 * (trace + distance - _swap(logdet) + logdet - jnp.asarray(size, p.dtype))
    value = matmul(_swap(p)[None], jnp.where(there, divergence, 0))[0]
    if objective == "entropy":
        value = value + 0.5 * matmul(p[None], jnp.where(there, logdet, 0))[0]
        value = value + jnp.sum(p) * _entropy_constant(size, p.dtype)
    return value / _num_pairs(p)


def _prior_constant(p: Float[Array, "g"]) -> Float[Array, ""]:
    """−p₁ log p₂ − p₂ log p₁, in the mean over pairs."""
    return jnp.vdot(p, _surprise(_swap(p))) / _num_pairs(p)


def _num_pairs(p: Float[Array, "g"]) -> Float[Array, ""]:
    return jnp.maximum(jnp.sum(p > 0) // 2, 1).astype(p.dtype)


# ---- Selection ----------------------------------------------------------------------------------


class _Search(NamedTuple):
    """What the greedy loop carries, whatever the criterion."""

    indices: Int[Array, "k"]
    objective: Float[Array, "k"]
    chosen: Bool[Array, "d"]
    copies: Bool[Array, "d"]
    alive: Bool[Array, ""]  # false once nothing could be chosen


def _start(m: Moments, num_features: int) -> _Search:
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
    given = initial[step]
    i = jnp.where(given >= 0, jnp.clip(given, 0, d - 1), first_best(pool, *ranks))
    kept = (given >= 0) & (given < d) & ~column(s.chosen, i)
    found = jnp.where(given >= 0, kept, goes_on) & s.alive
    noted = jnp.where(found, column(value, i), jnp.nan)
    s = s._replace(
        indices=s.indices.at[step].set(jnp.where(found, i, -1)),
        objective=s.objective.at[step].set(noted),
        chosen=s.chosen.at[i].set(True),
        alive=found,
    )
    return i, s


def _independent(f: Factor, variances, priors) -> Bool[Array, "d"]:
    """Candidates that no group sees, to rounding, as a combination of those chosen."""
    left = f.residual > 64 * eps(variances.dtype) * variances
    return jnp.all(left | (priors == 0)[:, None], axis=0)


@functools.partial(
    jax.jit, static_argnames=("num_features", "num_classes", "objective", "fallback")
)
def gc_select(
    x, y, ridge, shrinkage, initial, weights, key, *, num_features, num_classes, objective, fallback
):
    m, ridge, shrinkage = _model(x, y, ridge, shrinkage, weights, num_classes)
    g = _gaussian.compromise_groups(m, shrinkage)
    variances = _gaussian.group_variances(m, g, ridge)
    total = _gaussian.total_variances(m)
    p = m.priors

    def instead(step, wilks):
        if fallback != "random":
            return wilks
        return jax.random.uniform(jax.random.fold_in(key, step), wilks.shape, wilks.dtype)

    def body(step, carry):
        step = step.astype(jnp.int32)
        search, factor, ratios, entropy, saturated_at = carry
        factor = factor._replace(rows=_gaussian.write(factor.rows, factor.newest, step))
        added = jnp.log(factor.residual)
        gain = added[-2][None] - jnp.concat([added[:-2], added[-1:]])
        ratio = ratios[:, None] + gain  # log|Σ*| − log|Σ|, of the classes and the pooled one
        value, clipped = _compromise(ratio[:-1], p)
        own = _class_entropy(added[:-2], p, 1)
        if objective == "entropy":
            value = value + own
        wilks = ratio[-1]
        left = _independent(factor, variances, g.priors) & m.varies & ~search.chosen
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
        cov = _gaussian.group_rows(m, g, i, _gaussian.class_rows(m, i))
        search = search._replace(copies=search.copies | _gaussian.is_copy(m, total, cov[-2], i))
        factor = _gaussian.extend(factor, i, cov, ridge)
        return search, factor, ratios + column(gain, i), entropy + column(own, i), saturated_at

    start = (
        _start(m, num_features),
        _gaussian.empty_factor(variances, num_features),
        jnp.zeros(num_classes + 1, p.dtype),
        jnp.zeros((), p.dtype),
        jnp.int32(num_features),
    )
    search, _, _, _, saturated_at = lax.fori_loop(0, num_features, body, start)
    return Selection(search.indices, search.objective, saturated_at)


class _Cross(NamedTuple):
    """Per group b, its partner a's covariance seen through b's factor (sections 3.5.2 to 3.5.4).

    With β_j the coefficients of feature j on those chosen, under b, and E_j = X_j − β_jᵀ X_S:
    """

    rows: Float[Array, "g k d"]  # L_b⁻¹ Σ_a[S, j]
    newest: Float[Array, "g d"]  # of these rows, as of the factor's
    core: Float[Array, "g k k"]  # L_b⁻¹ Σ_a[S, S] L_b⁻ᵀ
    spread: Float[Array, "g d"]  # the variance of E_j under a
    shift: Float[Array, "g d"]  # the difference of the means of E_j under a and b


@functools.partial(jax.jit, static_argnames=("num_features", "num_classes", "objective"))
def gkl_select(x, y, ridge, shrinkage, initial, weights, *, num_features, num_classes, objective):
    m, ridge, shrinkage = _model(x, y, ridge, shrinkage, weights, num_classes)
    g = _gaussian.one_against_all_groups(m, shrinkage)
    variances = _gaussian.group_variances(m, g, ridge)
    total = _gaussian.total_variances(m)

    def body(step, carry):
        step = step.astype(jnp.int32)
        search, factor, cross, so_far = carry
        factor = factor._replace(rows=_gaussian.write(factor.rows, factor.newest, step))
        cross = cross._replace(rows=_gaussian.write(cross.rows, cross.newest, step))
        r = factor.residual
        terms = jnp.log(r), cross.spread / r, cross.shift**2 / r
        gain = _divergence(*terms, g.priors, 1, objective)
        left = _independent(factor, variances, g.priors) & m.varies & ~search.chosen
        any_left, any_fresh, any_lost = _any(
            left, left & ~search.copies, left & ~jnp.isfinite(gain)
        )
        goes_on = any_left & ~any_lost
        i, search = _choose(search, step, initial, left, goes_on, any_fresh, so_far + gain, gain)
        rows = _gaussian.class_rows(m, i)
        whole = _gaussian.total_row(m, i, rows)
        search = search._replace(copies=search.copies | _gaussian.is_copy(m, total, whole, i))
        cov = _gaussian.group_rows(m, g, i, rows)
        after = _gaussian.extend(factor, i, cov, ridge)
        cross = _extend_cross(cross, factor, after.newest, step, i, _swap(cov), ridge)
        return search, after, cross, so_far + column(gain, i)

    k = num_features
    factor = _gaussian.empty_factor(variances, k)
    cross = _Cross(
        rows=jnp.zeros_like(factor.rows),
        newest=jnp.zeros_like(variances),
        core=jnp.zeros((variances.shape[0], k, k), variances.dtype),
        spread=_swap(variances),
        shift=g.means - _swap(g.means),
    )
    start = (_start(m, k), factor, cross, _prior_constant(g.priors))
    search = lax.fori_loop(0, k, body, start)[0]
    return Selection(search.indices, search.objective, jnp.int32(k))


def _swap(a: Float[Array, "g *d"]) -> Float[Array, "g *d"]:
    """Every group's entry for its partner's."""
    return jnp.roll(a, a.shape[0] // 2, axis=0)


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
    through = cov - _gaussian.products(u, c.rows)
    joint = through - _gaussian.products(bend, f.rows)
    spread, shift = column(c.spread, i), column(c.shift, i)
    gamma = row / root
    edge = bend / root
    core = lax.dynamic_update_index_in_dim(c.core, edge, step, axis=1)
    core = lax.dynamic_update_index_in_dim(core, edge, step, axis=2)
    return _Cross(
        rows=c.rows,
        newest=through / root,
        core=core.at[:, step, step].set(spread / r),
        spread=jnp.maximum(c.spread - 2 * gamma * joint + gamma**2 * spread[:, None], floor),
        shift=c.shift - gamma * shift[:, None],
    )


# ---- The criterion of a given set ---------------------------------------------------------------


def _subset(m: Moments, g: Groups, indices, ridge):
    """The groups' covariances with the ridge; NaN for an index that is none, as −1."""
    d = m.varies.shape[0]
    cov = _gaussian.group_covariances(m, g, jnp.clip(indices, 0, d - 1))
    eye = jnp.eye(indices.shape[0], dtype=cov.dtype)[None]
    cov = jnp.where((g.priors > 0)[:, None, None], cov + ridge * eye, eye)
    return jnp.where(jnp.all((indices >= 0) & (indices < d)) & m.finite, cov, jnp.nan)


def _logdet(cov: Float[Array, "g k k"]) -> Float[Array, "g 1"]:
    sign, logdet = jnp.linalg.slogdet(cov)
    return jnp.where(sign > 0, logdet, jnp.nan)[:, None]


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def gc_objective(x, y, indices, ridge, shrinkage, weights, *, num_classes, objective):
    m, ridge, shrinkage = _model(x, y, ridge, shrinkage, weights, num_classes)
    g = _gaussian.compromise_groups(m, shrinkage)
    logdet = _logdet(_subset(m, g, indices, ridge))
    value, _ = _compromise(logdet[-2][None] - logdet[:-2], m.priors)
    if objective == "entropy":
        value = value + _class_entropy(logdet[:-2], m.priors, indices.shape[0])
    return value[0]


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def gkl_objective(x, y, indices, ridge, shrinkage, weights, *, num_classes, objective):
    m, ridge, shrinkage = _model(x, y, ridge, shrinkage, weights, num_classes)
    g = _gaussian.one_against_all_groups(m, shrinkage)
    cov = _subset(m, g, indices, ridge)
    means = jnp.take(g.means, jnp.clip(indices, 0, m.varies.shape[0] - 1), axis=1)
    delta = (means - _swap(means))[:, :, None]
    solved = jnp.linalg.solve(cov, jnp.concat([_swap(cov), delta], axis=2))
    trace = jnp.trace(solved[:, :, :-1], axis1=1, axis2=2)[:, None]
    distance = jnp.sum(solved[:, :, -1] * delta[:, :, 0], axis=1)[:, None]
    size = indices.shape[0]
    value = _divergence(_logdet(cov), trace, distance, g.priors, size, objective)
    return value[0] + _prior_constant(g.priors)


def _model(x, y, ridge, shrinkage, weights, num_classes: int):
    """The moments, the ridge (a number or the default rule) and the shrinkage.

    Traced values that are out of range could not be refused: they turn into NaN.
    """
    m = _gaussian.moments(x, y, weights, num_classes)
    if ridge is None:
        varying = jnp.maximum(jnp.sum(m.varies), 1).astype(m.variances.dtype)
        ridge = RIDGE * jnp.sum(_gaussian.total_variances(m)) / varying
    ridge = jnp.where(ridge >= 0, ridge, jnp.nan)
    shrinkage = jnp.where((shrinkage >= 0) & (shrinkage <= 1), shrinkage, jnp.nan)
    return m, ridge, shrinkage
