"""The criteria GC and GKL and their greedy loops; `gaussian.py` is their face and states them."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul
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


def _compromise(logdet: Float[Array, "g d"], p: Float[Array, "c"], size, objective: str):
    """Eq. 10 from log|Σ| of the classes, f* and the pooled one; and whether all are clipped."""
    own, whole = logdet[:-2], logdet[-2]
    bound = _surprise(p)[:, None]
    gap = 0.5 * (whole[None] - own)
    value = matmul(p[None], jnp.minimum(gap, bound))[0]
    if objective == "entropy":
        value = value + 0.5 * matmul(p[None], own)[0] + _entropy_constant(size, own.dtype)
    clipped = jnp.all((gap >= bound) | (p == 0)[:, None], axis=0)
    return value, clipped


def _divergence(logdet, trace, distance, p: Float[Array, "g"], size, objective: str):
    """The bound of section 3.2.2, from arrays `(2 pairs, d)`: the classes, then their rests.

    `trace` is tr(Σ_b⁻¹ Σ_a) and `distance` δᵀ Σ_b⁻¹ δ, b the group and a its partner.
    """
    pairs = p.shape[0] // 2
    partner = jnp.roll(p, pairs)
    other = jnp.roll(logdet, pairs, axis=0)
    divergence = 0.5 * (trace + distance - other + logdet - jnp.asarray(size, logdet.dtype))
    value = matmul(partner[None], divergence)[0] + jnp.vdot(p, _surprise(partner))
    if objective == "entropy":
        value = value + 0.5 * matmul(p[None], logdet)[0]
        value = value + jnp.sum(p) * _entropy_constant(size, logdet.dtype)
    return value / pairs


# ---- Selection ----------------------------------------------------------------------------------


class _Search(NamedTuple):
    """What the greedy loop carries, whatever the criterion."""

    indices: Int[Array, "k"]
    objective: Float[Array, "k"]
    chosen: Bool[Array, "d"]
    copies: Bool[Array, "d"]


def _start(m: Moments, num_features: int) -> _Search:
    d = m.varies.shape[0]
    none = jnp.zeros(d, bool)
    indices = jnp.full(num_features, -1, jnp.int32)
    return _Search(indices, jnp.full(num_features, jnp.nan, m.priors.dtype), none, none)


def _choose(m: Moments, s: _Search, step, initial, allowed, rank, value, tie=None):
    """The step's feature, −1 if there is none; and the search with it noted.

    `rank` orders the candidates, `tie` those that it does not tell apart, `value` is noted.
    """
    allowed = allowed & m.varies & ~s.chosen
    fresh = allowed & ~s.copies
    pool = jnp.where(jnp.any(fresh), fresh, allowed)
    best = _first_best(pool, rank, tie)
    given = initial[step]
    i = jnp.where(given >= 0, given, best)
    found = ((given >= 0) | jnp.any(pool)) & m.finite
    noted = jnp.where(found, column(value, i), jnp.nan)
    s = s._replace(
        indices=s.indices.at[step].set(jnp.where(found, i, -1)),
        objective=s.objective.at[step].set(noted),
        chosen=s.chosen.at[i].set(True),
    )
    return i, s


def _first_best(pool, rank, tie):
    rank = jnp.where(pool, rank, -jnp.inf)
    if tie is not None:
        rank = jnp.where(pool & (rank == jnp.max(rank)), tie, -jnp.inf)
    return jnp.argmax(rank).astype(jnp.int32)


def _independent(f: Factor, variances, priors, ridge) -> Bool[Array, "d"]:
    """Candidates that no group sees as a combination of those chosen; with a ridge, all."""
    left = f.residual > 64 * eps(variances.dtype) * variances
    return jnp.all(left | (priors == 0)[:, None], axis=0) | (ridge > 0)


@functools.partial(
    jax.jit, static_argnames=("num_features", "num_classes", "objective", "fallback")
)
def gc_select(
    x, y, ridge, shrinkage, initial, weights, key, *, num_features, num_classes, objective, fallback
):
    m = _gaussian.moments(x, y, weights, num_classes)
    ridge = _ridge(m, ridge)
    g = _gaussian.compromise_groups(m, shrinkage)
    variances = _gaussian.group_variances(m, g) + ridge
    total = _gaussian.total_variances(m)

    def body(step, carry):
        search, factor, saturated_at = carry
        logdet = factor.logdet[:, None] + jnp.log(factor.residual)
        value, clipped = _compromise(logdet, m.priors, step + 1, objective)
        wilks = logdet[-2] - logdet[-1]
        allowed = _independent(factor, variances, g.priors, ridge)
        left = allowed & m.varies & ~search.chosen
        saturated = (saturated_at < step) | jnp.all(clipped | ~left)
        saturated_at = jnp.where(saturated, jnp.minimum(saturated_at, step), saturated_at)
        if fallback == "stop":
            allowed = allowed & ~saturated
        instead = (
            jax.random.uniform(jax.random.fold_in(key, step), wilks.shape, wilks.dtype)
            if (fallback == "random")
            else wilks
        )
        rank = jnp.where(saturated, instead, value)
        i, search = _choose(m, search, step, initial, allowed, rank, value, wilks)
        own = _gaussian.class_rows(m, i)
        search = search._replace(copies=search.copies | _gaussian.is_copy(m, total, i, own))
        factor, _ = _gaussian.extend(factor, step, i, _gaussian.group_rows(m, g, i, own), ridge)
        return search, factor, saturated_at

    never = jnp.int32(num_features)
    start = (_start(m, num_features), _gaussian.empty_factor(variances, num_features), never)
    search, _, saturated_at = lax.fori_loop(jnp.int32(0), never, body, start)
    return Selection(search.indices, search.objective, saturated_at)


class _Cross(NamedTuple):
    """Per group b, its partner a's covariance seen through b's factor (sections 3.5.2 to 3.5.4).

    With β_j the coefficients of feature j on those chosen, under b, and E_j = X_j − β_jᵀ X_S:
    """

    rows: Float[Array, "g k d"]  # L_b⁻¹ Σ_a[S, j]
    core: Float[Array, "g k k"]  # L_b⁻¹ Σ_a[S, S] L_b⁻ᵀ
    spread: Float[Array, "g d"]  # the variance of E_j under a
    shift: Float[Array, "g d"]  # the difference of the means of E_j under a and b
    trace: Float[Array, "g"]  # tr Σ_b⁻¹ Σ_a over S
    distance: Float[Array, "g"]  # δᵀ Σ_b⁻¹ δ over S


@functools.partial(jax.jit, static_argnames=("num_features", "num_classes", "objective"))
def gkl_select(x, y, ridge, shrinkage, initial, weights, *, num_features, num_classes, objective):
    m = _gaussian.moments(x, y, weights, num_classes)
    ridge = _ridge(m, ridge)
    g = _gaussian.one_against_all_groups(m, shrinkage)
    variances = _gaussian.group_variances(m, g) + ridge
    total = _gaussian.total_variances(m)

    def body(step, carry):
        search, factor, cross = carry
        r = factor.residual
        logdet = factor.logdet[:, None] + jnp.log(r)
        trace = cross.trace[:, None] + cross.spread / r
        distance = cross.distance[:, None] + cross.shift**2 / r
        value = _divergence(logdet, trace, distance, g.priors, step + 1, objective)
        allowed = _independent(factor, variances, g.priors, ridge)
        i, search = _choose(m, search, step, initial, allowed, value, value)
        own = _gaussian.class_rows(m, i)
        search = search._replace(copies=search.copies | _gaussian.is_copy(m, total, i, own))
        cov = _gaussian.group_rows(m, g, i, own)
        after, row = _gaussian.extend(factor, step, i, cov, ridge)
        cross = _extend_cross(cross, factor, row, step, i, _swap(cov), ridge)
        return search, after, cross

    means = _gaussian.group_means(m, g)
    k, zero = num_features, jnp.zeros(variances.shape[0], variances.dtype)
    factor = _gaussian.empty_factor(variances, k)
    cross = _Cross(
        rows=jnp.zeros_like(factor.rows),
        core=jnp.zeros((variances.shape[0], k, k), variances.dtype),
        spread=_swap(variances),
        shift=means - _swap(means),
        trace=zero,
        distance=zero,
    )
    search, _, _ = lax.fori_loop(jnp.int32(0), jnp.int32(k), body, (_start(m, k), factor, cross))
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
        rows=_gaussian.set_row(c.rows, step, through / root),
        core=core.at[:, step, step].set(spread / r),
        spread=jnp.maximum(c.spread - 2 * gamma * joint + gamma**2 * spread[:, None], floor),
        shift=c.shift - gamma * shift[:, None],
        trace=c.trace + spread / r,
        distance=c.distance + shift**2 / r,
    )


# ---- The criterion of a given set ---------------------------------------------------------------


def _ridged(m: Moments, g: Groups, indices, ridge):
    cov = _gaussian.group_covariances(m, g, indices)
    return cov + ridge * jnp.eye(indices.shape[0], dtype=cov.dtype)[None]


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def gc_objective(x, y, indices, ridge, shrinkage, weights, *, num_classes, objective):
    m = _gaussian.moments(x, y, weights, num_classes)
    g = _gaussian.compromise_groups(m, shrinkage)
    logdet = jnp.linalg.slogdet(_ridged(m, g, indices, _ridge(m, ridge)))[1]
    return _compromise(logdet[:, None], m.priors, indices.shape[0], objective)[0][0]


@functools.partial(jax.jit, static_argnames=("num_classes", "objective"))
def gkl_objective(x, y, indices, ridge, shrinkage, weights, *, num_classes, objective):
    m = _gaussian.moments(x, y, weights, num_classes)
    g = _gaussian.one_against_all_groups(m, shrinkage)
    cov = _ridged(m, g, indices, _ridge(m, ridge))
    means = jnp.take(_gaussian.group_means(m, g), indices, axis=1)
    delta = (means - _swap(means))[:, :, None]
    solved = jnp.linalg.solve(cov, jnp.concat([_swap(cov), delta], axis=2))
    trace = jnp.trace(solved[:, :, :-1], axis1=1, axis2=2)
    distance = jnp.sum(solved[:, :, -1] * delta[:, :, 0], axis=1)
    logdet, trace, distance = (a[:, None] for a in (jnp.linalg.slogdet(cov)[1], trace, distance))
    return _divergence(logdet, trace, distance, g.priors, indices.shape[0], objective)[0]


def _ridge(m: Moments, ridge):
    """The number given (NaN for a negative one that could not be refused), or the default rule."""
    if ridge is not None:
        return jnp.where(ridge >= 0, ridge, jnp.nan)
    varying = jnp.maximum(jnp.sum(m.varies), 1).astype(m.variances.dtype)
    return RIDGE * jnp.sum(_gaussian.total_variances(m)) / varying
