"""Entropic transport of the points of a line onto a few levels: Newton's method and the derivative.

The points s_i, one unit of mass each, go onto the levels j = 0, 1, …, with masses c_j, by the plan
p_ji = softmax_j((j − b) s_i − h_j), for any reference level b. The potentials h, one a level, solve
Σ_i p_ji = c_j. The matrix of that system is the Laplacian of a graph of the levels with weights
w_jl = Σ_i p_ji p_li, and it is eliminated without a subtraction. It also gives the derivative.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

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


class Transported(NamedTuple):
    """What of each point goes to the levels below k and to level k; the potentials."""

    below: Float[Array, "rows m"]
    at: Float[Array, "rows m"]
    h: Float[Array, "rows levels"]


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def transported(
    problems: Problem, starts: Float[Array, "rows levels"], k: int, block_size: int
) -> Transported:
    """The solution of problems with a leading axis of rows, `block_size` of them at a time.

    The rule of the derivative stands outside the loop over blocks: a second derivative through
    `lax.map` forgets rules inside.
    """

    def solve(problem, start):
        h = _potentials(problem, start)
        p = plan(problem, h)
        return Transported(jnp.sum(p[:k], axis=0), p[k], h)

    return _in_blocks(jax.vmap(solve), block_size, problems, starts)


@transported.defjvp
def _transported_jvp(k: int, block_size: int, primals, tangents):
    problems, _ = primals
    answer = transported(*primals, k, block_size)
    # Keep no block's plan for the backward pass.
    derivative = jax.checkpoint(jax.vmap(functools.partial(_derivative, k=k)))
    return answer, _in_blocks(derivative, block_size, problems, answer.h, tangents[0].s)


def _derivative(problem: Problem, h, ds: Float[Array, "m"], *, k: int) -> Transported:
    """ṗ_ji = p_ji (y_ji − Σ_l p_li y_li), y_ji = (j − b) ṡ_i − ḣ_j, with ḣ such that Σ_i ṗ_ji = 0.

    Summed over the levels below k, at k and above. The largest of the three changes by what the
    others lose: the formula itself would leave eps · y there, which holds a factor 2/γ and can
    outweigh the derivative.
    """
    p, j = plan(problem, h), problem.levels
    flow = (j[:, None] - j[None, :]) * _couplings(p, p * ds[None, :])
    dh = _laplacian_solve(_couplings(p, p), flow)

    def parts(weight):
        """Σ_j p_ji weight_j over each part."""
        return [
            jnp.sum(p[part] * weight[part, None], axis=0)
            for part in (slice(None, k), slice(k, k + 1), slice(k + 1, None))
        ]

    mass, level, price = parts(jnp.ones_like(j)), parts(j), parts(dh)
    below, at, above = (
        ds * (a - m * sum(level)) - (c - m * sum(price))
        for m, a, c in zip(mass, level, price, strict=True)
    )
    largest = jnp.argmax(jnp.stack(mass), axis=0)
    return Transported(
        jnp.where(largest == 0, -(at + above), below),
        jnp.where(largest == 1, -(below + above), at),
        dh,
    )


def _in_blocks(f: Callable[..., Any], size: int, *arguments: Any) -> Any:
    """`f` of a few rows at a time: blocks of one shape, filled up with rows that are dropped."""
    rows = jax.tree.leaves(arguments)[0].shape[0]
    blocks = -(-rows // size)
    if blocks <= 1:
        return f(*arguments)

    def cut(v):
        v = jnp.pad(v, [(0, -rows % blocks)] + [(0, 0)] * (v.ndim - 1))
        return v.reshape(blocks, -1, *v.shape[1:])

    answer = lax.map(lambda block: f(*block), jax.tree.map(cut, arguments))
    return jax.tree.map(lambda v: v.reshape(-1, *v.shape[2:])[:rows], answer)


def plan(problem: Problem, h: Float[Array, "levels"]) -> Float[Array, "levels m"]:
    """The plan of given potentials. A level without mass is closed; what is not present is 0."""
    j = problem.levels
    first = jnp.arange(j.size, dtype=jnp.int32) == 0  # some level must stay open
    h = jnp.where((problem.masses > 0) | first, h, jnp.inf)
    logits = j[:, None] * problem.s[None, :] - h[:, None]
    p = jnp.exp(logits - lax.stop_gradient(jnp.max(logits, axis=0))[None, :])
    return p * (problem.present.astype(p.dtype) / jnp.sum(p, axis=0))[None, :]


def _couplings(p: Float[Array, "levels m"], q: Float[Array, "levels m"]) -> Array:
    """Σ_i p_ji q_li; with q = p, the weights of the graph of levels."""
    return matmul(p, q.T)


def _laplacian_solve(w: Float[Array, "q q"], flow: Float[Array, "q q"]) -> Float[Array, "q"]:
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
    x = _laplacian_solve(rest, flow[:last, :last] + spread - spread.T)
    return jnp.append(x, jnp.sum(share * x) + safe_divide(jnp.sum(out), degree))


def _without_last(w: Float[Array, "q q"]) -> tuple[Array, Array, Array]:
    """The graph without its last node; the shares of the node's links, and their sum."""
    links = w[-1, :-1]
    degree = jnp.sum(links)
    share = safe_divide(links, jnp.broadcast_to(degree, links.shape))
    return w[:-1, :-1] + links[:, None] * share[None, :], share, degree


def _fast_solve(w: Float[Array, "q q"], b: Float[Array, "q"]) -> Float[Array, "q"]:
    """`_laplacian_solve` of the flow out of every node; weak links lose digits to strong ones."""
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


def _potentials(problem: Problem, start: Float[Array, "levels"]) -> Float[Array, "levels"]:
    """The minimum of Σ_i log Σ_j exp((j − b) s_i − h_j) + Σ_j c_j h_j, which is convex.

    One step of Sinkhorn brings every level to the right order of magnitude, Newton's steps do the
    rest. A step is halved until the slope along it has fallen: signs of slopes are known where the
    differences of the objective are lost in rounding.
    """
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
    w = _couplings(p, p)
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
