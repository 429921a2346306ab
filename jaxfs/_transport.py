"""Entropic transport of the points of a line onto a few levels: Newton's method and the derivative.

The points s_i, one unit of mass each, go onto the levels j = 0, 1, …, with masses c_j, by the plan
p_ji = softmax_j((j − b) s_i − h_j), for any reference level b. The potentials h, one a level, solve
Σ_i p_ji = c_j. The matrix of that system is the Laplacian of a graph of the levels with weights
w_jl = Σ_i p_ji p_li, and it is eliminated without a subtraction. It also gives the derivative.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, matmul, safe_divide

_ITERATIONS = 60
_SHORTEST_LENGTH = 2.0**-8
_LONGEST_STEP = 16.0


class Problem(NamedTuple):
    """One row: points (padding is not `present`), masses of the levels, and the level b.

    Potentials near level b are small numbers, so that points near 0 keep their digits.
    """

    s: Float[Array, "m"]
    present: Bool[Array, "m"]
    masses: Float[Array, "levels"]
    reference: Int[Array, ""]

    @property
    def levels(self) -> Float[Array, "levels"]:
        j = jnp.arange(self.masses.size, dtype=jnp.int32)
        return (j - self.reference).astype(self.s.dtype)


@jax.custom_jvp
def plan(problem: Problem, h: Float[Array, "levels"]) -> Float[Array, "levels m"]:
    """The plan of the potentials h of `potentials`, which are implied and have no derivative.

    A level without mass is closed. Where nothing is present all is 0.
    """
    j = problem.levels
    first = jnp.arange(j.size, dtype=jnp.int32) == 0  # some level must stay open
    h = jnp.where((problem.masses > 0) | first, h, jnp.inf)
    logits = j[:, None] * problem.s[None, :] - h[:, None]
    p = jnp.exp(logits - jnp.max(logits, axis=0)[None, :])
    return p * (problem.present.astype(p.dtype) / jnp.sum(p, axis=0))[None, :]


@plan.defjvp
def _plan_jvp(primals, tangents):
    """ṗ_ji = p_ji (y_ji − Σ_l p_li y_li), y_ji = (j − b) ṡ_i − ḣ_j, with ḣ such that Σ_i ṗ_ji = 0.

    At the likeliest level of a point, ṗ is what the other levels lose: the formula itself would
    leave eps · y there, which holds a factor 2/γ and can outweigh the derivative.
    """
    problem, _ = primals
    ds = tangents[0].s
    p, j = plan(*primals), problem.levels
    flow = (j[:, None] - j[None, :]) * couplings(p, p * ds[None, :])
    y = j[:, None] * ds[None, :] - laplacian_solve(couplings(p, p), flow)[:, None]
    dp = p * (y - jnp.sum(p * y, axis=0)[None, :])
    likeliest = jnp.argmax(p, axis=0)[None, :] == jnp.arange(j.size)[:, None]
    dp = jnp.where(likeliest, jnp.zeros_like(dp), dp)
    return p, jnp.where(likeliest, -jnp.sum(dp, axis=0)[None, :], dp)


def couplings(p: Float[Array, "levels m"], q: Float[Array, "levels m"]) -> Array:
    """Σ_i p_ji q_li; with q = p, the weights of the graph of levels."""
    return matmul(p, q.T)


def laplacian_solve(w: Float[Array, "q q"], flow: Float[Array, "q q"]) -> Float[Array, "q"]:
    """x with x_0 = 0 and Σ_l w_jl (x_j − x_l) = Σ_l f_jl, w symmetric and f antisymmetric.

    The last node is eliminated and its links are spread among the others: weights are never
    subtracted (Grassmann, Taksar and Heyman), and what flows along a link stays with the link. So a
    link keeps its digits beside others hundreds of powers of ten stronger. Nodes without a link
    stay at 0.
    """
    last = w.shape[0] - 1
    if last == 0:
        return jnp.zeros_like(w[0])
    rest, share, degree = _without_last(w)
    out = flow[last, :last]
    spread = share[:, None] * out[None, :]
    x = laplacian_solve(rest, flow[:last, :last] + spread - spread.T)
    return jnp.append(x, jnp.sum(share * x) + safe_divide(jnp.sum(out), degree))


def _without_last(w: Float[Array, "q q"]) -> tuple[Array, Array, Array]:
    """The graph without its last node; the shares of the node's links, and their sum."""
    links = w[-1, :-1]
    degree = jnp.sum(links)
    share = safe_divide(links, jnp.broadcast_to(degree, links.shape))
    return w[:-1, :-1] + links[:, None] * share[None, :], share, degree


def _fast_solve(w: Float[Array, "q q"], b: Float[Array, "q"]) -> Float[Array, "q"]:
    """`laplacian_solve` of the flow out of every node; weak links lose digits to strong ones."""
    if b.size == 1:
        return jnp.zeros_like(b)
    rest, share, degree = _without_last(w)
    x = _fast_solve(rest, b[:-1] + share * b[-1])
    return jnp.append(x, jnp.sum(share * x) + safe_divide(b[-1], degree))


# ---- Newton's method ----------------------------------------------------------------------------


class _State(NamedTuple):
    """The last point accepted, the step from it under trial, and the slope that it must lower."""

    h: Float[Array, "levels"]
    step: Float[Array, "levels"]
    length: Float[Array, ""]
    slope: Float[Array, ""]
    done: Bool[Array, ""]
    iteration: Int[Array, ""]


def potentials(problem: Problem, start: Float[Array, "levels"]) -> Float[Array, "levels"]:
    """The minimum of Σ_i log Σ_j exp((j − b) s_i − h_j) + Σ_j c_j h_j, which is convex.

    One step of Sinkhorn brings every level to the right order of magnitude, Newton's steps do the
    rest. A step is halved until the slope along it has fallen: signs of slopes are known where the
    differences of the objective are lost in rounding.
    """
    problem = jax.tree.map(lax.stop_gradient, problem)
    masses, least = problem.masses, jnp.finfo(problem.s.dtype).tiny
    filled = jnp.sum(plan(problem, start), axis=1)
    ratio = jnp.log(jnp.maximum(filled, least)) - jnp.log(jnp.maximum(masses, least))
    h = start + jnp.where(masses > 0, ratio, jnp.zeros_like(ratio))
    zero, one = jnp.zeros_like(h[0]), jnp.ones_like(h[0])
    first = _State(h, jnp.zeros_like(h), one, zero + jnp.inf, zero > 0, jnp.int32(0))
    state = lax.while_loop(
        lambda state: ~state.done & (state.iteration < _ITERATIONS),
        lambda state: _iterate(problem, state),
        first,
    )
    return state.h


def _iterate(problem: Problem, state: _State) -> _State:
    """Try the step; then the next one from there, or half of it.

    A step moves masses w·δ with an error of about w·δ², which need not be looked at where it is
    rounding. Nor is there more to gain where the surplus is.
    """
    trial = state.h + state.length * state.step
    p = plan(problem, trial)
    w = couplings(p, p)
    surplus = (jnp.sum(w, axis=1) - problem.masses)[:-1]  # Σ_l p_li = 1
    surplus = jnp.append(surplus, -jnp.sum(surplus))  # of the large mass, what the others lack
    j = jnp.arange(surplus.size)
    size = jnp.abs(trial)
    noise = 4 * eps(w.dtype) * (1 + jnp.maximum(size[:, None], size[None, :]))
    # A floor under links of neighbouring levels: below it, what passes is noise.
    neighbours = jnp.abs(j[:, None] - j[None, :]) == 1
    step = _fast_solve(jnp.where(neighbours, w + 16 * noise, w), surplus)
    step = step - step[problem.reference]
    step = step * jnp.minimum(1, _LONGEST_STEP / jnp.maximum(jnp.max(jnp.abs(step)), 1))
    up_to = (j[:-1, None] >= j[None, :]).astype(w.dtype)
    error = jnp.abs(matmul(up_to, surplus)) * jnp.minimum(1, jnp.abs(jnp.diff(step)))
    better = jnp.abs(jnp.sum(surplus * state.step)) <= 0.9 * state.slope
    settled = better & jnp.all(error <= jnp.diagonal(noise, 1))
    length = jnp.where(better, 1, 0.5 * state.length)
    return _State(
        h=jnp.where(settled, trial + step, jnp.where(better, trial, state.h)),
        step=jnp.where(better, step, state.step),
        length=length,
        slope=jnp.where(better, jnp.abs(jnp.sum(surplus * step)), state.slope),
        done=settled | (length < _SHORTEST_LENGTH),
        iteration=state.iteration + 1,
    )
