"""A differentiable choice of the k nearest: entropic optimal transport onto k + 2 levels.

The distances of a row are sent onto the levels 0, 1, …, k + 1, one distance to each of the first
k + 1 levels and all others to the last, at the cost (a_i − j)² with entropy γ (eqs. 11 and 14). The
a_i² cancel from n·Γ_ij = softmax_j(j s_i − h_j), s = 2a/γ, so that k + 2 potentials h are all that
is unknown. They solve Σ_i n·Γ_ij = c_j, c the masses of the levels, by Newton's method; the matrix
of that system is the Laplacian of a graph of k + 2 nodes with weights Σ_i p_ij p_il, p = n·Γ, and
it is eliminated without a subtraction. The same system gives the derivative.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, safe_divide
from jaxfs._order import smallest
from jaxfs._types import ArrayLike, Scalar

_ITERATIONS = 60
_SMALLEST_STEP = 2.0**-8
_LONGEST_STEP = 16.0


class SoftKNN(NamedTuple):
    """Soft indicators of the nearest candidates of every row, each `(rows, candidates)`.

    `nearest` is δ^(k): in [0, 1], with sum k, near 1 for the k nearest. `next` is ξ^(k+1): in
    [0, 1], with sum 1, near 1 for the one after them.
    """

    nearest: Float[Array, "rows candidates"]
    next: Float[Array, "rows candidates"]


def soft_knn(
    distances: ArrayLike,
    k: int,
    *,
    gamma: Scalar,
    scale: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    num_candidates: int | None = None,
    block_size: int | None = None,
) -> SoftKNN:
    """Which candidates are the k nearest of each row, as a smooth function of the distances.

    **Arguments**

    - `distances`: `(rows, candidates)`; squared distances, or any costs to be smallest in.
    - `k`: static; at least 1, less than the number of candidates.
    - `gamma`: γ > 0, how soft the choice is, on distances divided by `scale`; may be traced. A
      Python 0 is the exact choice: indicators of a sort, ties by rising index, constants to
      differentiation.
    - `scale`: positive, a number or `(rows,)`. By default the row's distance of rank k + 1.
    - `mask`: `(rows, candidates)`, false or 0 for those left out, such as the row's own sample.
    - `num_candidates`: static; only that many nearest of each row take part, the others are taken
      to have weight 0. At small γ they do. All by default.
    - `block_size`: static; rows solved at a time. Changes memory, not the answer.

    **Returns** `SoftKNN`. A row with N ≤ k candidates has all of them nearest and none next.

    **Numerics** finite, with finite derivatives, from γ = 10 to 1e-4 in float32 and float64, ties
    and duplicates included: tied candidates share alike. Sums over a row hold to rounding: a few
    eps, times 1/γ for small γ. Where the default scale is 0 the row's smallest positive distance
    stands in for it. NaN makes its row NaN.

    **Derivatives** in the distances (through the default scale too), `scale` and `gamma`, by the
    implicit function theorem; of any order.

    **Cost** some 6 steps of O(rows · m · k²), m the candidates that take part.

    **Reference** Dirichlet energy and k-NN by optimal transport, eqs. 7–14. Its iteration S21 has
    not converged after 200 steps where γ ≤ 0.01, and overflows from γ = 1e-3 on.

    >>> import jax.numpy as jnp
    >>> near = soft_knn(jnp.array([[3.0, 1.0, 2.0, 9.0]]), 2, gamma=0.1)
    >>> near.nearest.round(2).tolist(), near.next.round(2).tolist()
    ([[0.02, 1.0, 0.98, 0.0]], [[0.96, 0.0, 0.02, 0.02]])
    """
    e = _checks.real(distances, "distances", ndim=2)
    rows, width = e.shape
    k = _checks.integer(k, "k", low=1, high=width - 1)
    _checks.number(gamma, "gamma", low=0, scalar=True)
    if num_candidates is not None:
        _checks.integer(num_candidates, "num_candidates", low=k + 1)
    if scale is not None:
        _checks.number(scale, "scale", low=0, open_low=True)
        scale = jnp.broadcast_to(_checks.real(scale, "scale"), (rows,)).astype(e.dtype)
    present = jnp.ones(e.shape, bool) if mask is None else _checks.array(mask, "mask") != 0
    if present.shape != e.shape:
        raise _checks.fail("mask", f"of shape {e.shape}, as distances", f"shape {present.shape}")
    width = min(num_candidates or width, width)
    block = _checks.integer(block_size or _rows_at_once(k, width), "block_size", low=1)
    exact = not _checks.is_traced(gamma) and gamma == 0
    gamma = None if exact else jnp.asarray(gamma, e.dtype)
    return _soft_knn(e, present, gamma, scale, k, width, min(block, rows))


def _rows_at_once(k: int, width: int) -> int:
    """As many rows as keep a few plans `(k + 2, width)` of each near 2²² numbers."""
    return max(1, 2**20 // ((k + 2) * width))


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _soft_knn(e, present, gamma, scale, k: int, width: int, block_size: int) -> SoftKNN:
    n = e.shape[1]

    @jax.checkpoint  # keep no block's plan for the backward pass
    def row(inputs):
        e, present, scale = inputs
        if gamma is None or width < n:
            near = smallest(jnp.where(present, lax.stop_gradient(e), jnp.inf), width)[1]
        if gamma is None:
            hot = jax.nn.one_hot(near[: k + 1], n, dtype=e.dtype)  # all 0 where there is none
            return SoftKNN(jnp.sum(hot[:k], axis=0), hot[k])
        if width == n:
            return soft_row(e, present, gamma, k, scale)
        soft = soft_row(e[near], near >= 0, gamma, k, scale)
        back = jnp.where(near < 0, n, near)  # beyond the row, where it is dropped
        return SoftKNN(*(jnp.zeros_like(e).at[back].set(v, mode="drop") for v in soft))

    soft = lax.map(row, (e, present, scale), batch_size=block_size)
    unknown = jnp.any(jnp.isnan(e) & present, axis=1, keepdims=True)
    return jax.tree.map(lambda v: jnp.where(unknown, jnp.nan, v), soft)


def soft_row(e: Float[Array, "m"], present: Bool[Array, "m"], gamma, k: int, scale=None) -> SoftKNN:
    """`soft_knn` of one row, for use under `vmap`; finite throughout."""
    e = jnp.where(present & jnp.isfinite(e), e, jnp.zeros_like(e))
    number = jnp.sum(present, dtype=jnp.int32)
    ranked, _ = smallest(jnp.where(present, lax.stop_gradient(e), jnp.inf), min(k + 2, e.size))
    # Of rank k + 1, or the last there is. A shift of all distances changes nothing; this one keeps
    # the digits of those about which the choice is in doubt.
    last = jnp.clip(number - 1, 0, k)
    centre = jnp.where(number > 0, ranked[last], jnp.zeros_like(ranked[last]))
    if scale is None:
        tied = present & (e == centre)
        own = safe_divide(jnp.sum(e, where=tied), jnp.sum(tied, dtype=e.dtype))
        least = jnp.min(jnp.where(present & (e > 0), lax.stop_gradient(e), jnp.inf))
        scale = jnp.where(own > 0, own, jnp.where(jnp.isfinite(least), least, 1.0))
    factor = 2 / (gamma * scale)
    levels = _masses(number, k, e.dtype)
    known = jnp.isfinite(ranked)
    ranked = jnp.where(known, lax.stop_gradient(factor) * (ranked - centre), 0.0)
    between = 0.5 * (ranked[1:] + ranked[:-1]) * known[1:].astype(e.dtype)
    start = jnp.zeros(k + 2, e.dtype).at[1 : between.size + 1].set(jnp.cumsum(between))
    plan = _plan(factor * (e - centre), present, levels, start)
    return SoftKNN(jnp.sum(plan[:k], axis=0), plan[k])


def _masses(number: Int[Array, ""], k: int, dtype) -> Float[Array, "k+2"]:
    """c (eq. 11): one for each of k + 1 levels, the rest for the last; 0 where candidates lack."""
    j = jnp.arange(k + 1, dtype=jnp.int32)
    first = (j < number).astype(dtype)
    return jnp.append(first, jnp.maximum(number - k - 1, 0).astype(dtype))


# ---- The plan and its derivative ----------------------------------------------------------------


@jax.custom_jvp
def _plan(
    s: Float[Array, "m"],
    present: Bool[Array, "m"],
    masses: Float[Array, "levels"],
    start: Float[Array, "levels"],
) -> Float[Array, "levels m"]:
    """p_ji = softmax_j(j s_i − h_j), h such that Σ_i p_ji = c_j: Newton from `start`."""
    h = _potentials(s, present, masses, start)
    return _softmax(s, present, masses, h)


def _softmax(s, present, masses, h) -> Float[Array, "levels m"]:
    """The plan of given potentials; a level without mass is closed."""
    j = jnp.arange(h.size, dtype=s.dtype)
    logits = jnp.where((masses > 0)[:, None], j[:, None] * s[None, :] - h[:, None], -jnp.inf)
    logits = logits - jnp.maximum(jnp.max(logits, axis=0), jnp.finfo(s.dtype).min)[None, :]
    p = jnp.exp(logits)
    return jnp.where(present[None, :], safe_divide(p, jnp.sum(p, axis=0)[None, :] + 0 * p), 0.0)


@_plan.defjvp
def _plan_jvp(primals, tangents):
    """d log p_ji = Σ_{t<j} F_ti (ṡ_i − η̇_t) − Σ_{t≥j} G_ti (ṡ_i − η̇_t), η_t = h_{t+1} − h_t.

    F_ti = Σ_{l≤t} p_li and G_ti = Σ_{l>t} p_li. The usual ṡ_ji − Σ_l p_li ṡ_li is the same sum, but
    leaves eps · ṡ of rounding where p is 1: with 2/γ in ṡ, more than the derivative itself.
    """
    p = _plan(*primals)
    ds = tangents[0]
    below = jnp.cumsum(p[:-1], axis=0)
    above = jnp.cumsum(p[:0:-1], axis=0)[::-1]

    def d_log_p(gap):
        up, down = jnp.cumsum(below * gap, axis=0), jnp.cumsum((above * gap)[::-1], axis=0)[::-1]
        zero = jnp.zeros_like(gap[:1])
        return jnp.concatenate([zero, up]) - jnp.concatenate([down, zero])

    j = jnp.arange(p.shape[0], dtype=p.dtype)
    flow = (j[:, None] - j[None, :]) * _couplings(p, p * ds[None, :])
    dh = _solve(_couplings(p, p), flow)
    return p, p * d_log_p(ds[None, :] - jnp.diff(dh)[:, None])


def _couplings(p: Float[Array, "levels m"], q: Float[Array, "levels m"]) -> Array:
    """Σ_i p_ji q_li; with q = p, the weights of the graph of levels."""
    return jnp.matmul(p, q.T, precision=lax.Precision.HIGHEST)


def _solve(w: Float[Array, "q q"], flow: Float[Array, "q q"]) -> Float[Array, "q"]:
    """x with x_0 = 0 and Σ_l w_jl (x_j − x_l) = Σ_l f_jl, w symmetric and f antisymmetric.

    The last node is eliminated and its links are spread among the others: weights are never
    subtracted (Grassmann, Taksar and Heyman), and what flows along a link stays with the link. So a
    link keeps its digits beside others hundreds of powers of ten stronger. Nodes without a link
    stay at 0.
    """
    last = w.shape[0] - 1
    if last == 0:
        return jnp.zeros_like(w[0])
    links, out = w[last, :last], flow[last, :last]
    degree = jnp.sum(links)
    share = safe_divide(links, jnp.broadcast_to(degree, links.shape))
    spread = share[:, None] * out[None, :]
    x = _solve(
        w[:last, :last] + links[:, None] * share[None, :], flow[:last, :last] + spread - spread.T
    )
    return jnp.append(x, jnp.sum(share * x) + safe_divide(jnp.sum(out), degree))


# ---- Newton's method ----------------------------------------------------------------------------


class _State(NamedTuple):
    """The last point accepted, the step from it under trial, and the slope that it must lower."""

    h: Float[Array, "levels"]
    step: Float[Array, "levels"]
    length: Float[Array, ""]
    slope: Float[Array, ""]
    done: Bool[Array, ""]
    iteration: Int[Array, ""]


def _potentials(s, present, masses, start) -> Float[Array, "levels"]:
    """The minimum of Σ_i log Σ_j exp(j s_i − h_j) + Σ_j c_j h_j, which is convex.

    One step of Sinkhorn brings every level to the right order of magnitude, Newton's steps do the
    rest. A step is halved until the slope along it has fallen: signs of slopes are known where the
    differences of the objective are lost in rounding.
    """
    unit = eps(s.dtype)

    def surplus(h):
        p = _softmax(s, present, masses, h)
        r = (jnp.sum(p, axis=1) - masses)[:-1]
        return p, jnp.append(r, -jnp.sum(r))  # the rows of p sum to 1: the last is known exactly

    def iterate(state):
        trial = state.h + state.length * state.step
        p, r = surplus(trial)
        slope = jnp.abs(jnp.sum(r * state.step))
        better = slope <= 0.9 * state.slope
        # A floor under links of neighbouring levels: below it, r is rounding and not a surplus.
        above = jnp.eye(r.size, k=1, dtype=s.dtype)
        floor, flow = 1e3 * unit * above, jnp.cumsum(r)[:, None] * above
        step = _solve(_couplings(p, p) + floor + floor.T, flow - flow.T)
        step = step * jnp.minimum(1, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1))
        length = jnp.where(better, 1, 0.5 * state.length)
        small = jnp.max(jnp.abs(r)) <= 4 * unit * (1 + jnp.max(jnp.abs(trial)))
        return _State(
            h=jnp.where(better | small, trial, state.h),
            step=jnp.where(better, step, state.step),
            length=length,
            slope=jnp.where(better, jnp.abs(jnp.sum(r * step)), state.slope),
            done=small | (length < _SMALLEST_STEP),
            iteration=state.iteration + 1,
        )

    least = jnp.finfo(s.dtype).tiny
    filled = jnp.sum(_softmax(s, present, masses, start), axis=1)
    ratio = jnp.log(jnp.maximum(filled, least)) - jnp.log(jnp.maximum(masses, least))
    h = start + jnp.where(masses > 0, ratio, 0)
    zero, one = jnp.zeros_like(h[0]), jnp.ones_like(h[0])
    first = _State(h - h[0], jnp.zeros_like(h), one, zero + jnp.inf, zero > 0, jnp.int32(0))
    go = lambda state: ~state.done & (state.iteration < _ITERATIONS)  # noqa: E731
    return lax.while_loop(go, iterate, first).h
