"""Entropic transport of points on a line onto a few levels: Newton's method and the derivative.

Each point s_i has mass 1, and level j = 0, 1, … has mass c_j. The transport plan is
p_ji = softmax_j((j − b) s_i − h_j), for any reference level b. The potentials h, one per level,
solve the equations Σ_i p_ji = c_j. The Jacobian of these equations is, up to sign, the Laplacian of
a graph on the levels with weights w_jl = Σ_i p_ji p_li. A linear system with this Laplacian gives
the Newton step, and another one the derivative. Both are solved by elimination without
subtractions.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import eps, map_chunks, matmul, safe_divide

#: Maximum number of iterations, smallest fraction of a step, and largest change of a potential.
_ITERATIONS = 60
_SHORTEST_LENGTH = 2.0**-8
_LONGEST_STEP = 16.0


class LevelTransport(NamedTuple):
    """The transport problem of one row: points, masses of the levels, and the reference level b.

    `present` is false for points that are padding. Potentials of levels near b are small numbers,
    so that points near 0 keep their digits.
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
    """The mass that each point sends to levels below k and to level k, and the potentials."""

    below: Float[Array, "rows m"]
    at: Float[Array, "rows m"]
    h: Float[Array, "rows levels"]


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def transported(
    problems: LevelTransport, starts: Float[Array, "rows levels"], k: int, block_size: int
) -> Transported:
    """The solutions of transport problems, one per row, computed `block_size` rows at a time.

    The derivative rule is outside the loop over blocks, because a second derivative through
    `lax.map` ignores rules inside the loop.
    """

    def solve(problem, start):
        h = _potentials(problem, start)
        p = plan(problem, h)
        return Transported(jnp.sum(p[:k], axis=0), p[k], h)

    return map_chunks(lambda row: solve(*row), (problems, starts), block_size)


@transported.defjvp
def _transported_jvp(k: int, block_size: int, primals, tangents):
    problems, _ = primals
    answer = transported(*primals, k, block_size)
    # With `checkpoint`, the backward pass does not store the plans of all blocks.
    derivative = jax.checkpoint(lambda row: _derivative(*row, k=k))
    return answer, map_chunks(derivative, (problems, answer.h, tangents[0].s), block_size)


def _derivative(problem: LevelTransport, h, ds: Float[Array, "m"], *, k: int) -> Transported:
    """The derivative of the plan and of the potentials of one row.

    ṗ_ji = p_ji (y_ji − Σ_l p_li y_li), y_ji = (j − b) ṡ_i − ḣ_j, with ḣ such that Σ_i ṗ_ji = 0.

    ṗ is summed over the levels below k, at k and above k. The part with the largest mass is
    computed as the negative sum of the other two parts. The formula would leave an error eps · y in
    it, which has a factor 2/γ and can exceed the derivative.
    """
    p, j = plan(problem, h), problem.levels
    flow = (j[:, None] - j[None, :]) * matmul(p, (p * ds[None, :]).T)
    dh = _laplacian_solve(matmul(p, p.T), flow)

    def parts(weight):
        """Σ_j p_ji weight_j over the levels below k, at k and above k."""
        split = (slice(None, k), slice(k, k + 1), slice(k + 1, None))
        return [jnp.sum(p[part] * weight[part, None], axis=0) for part in split]

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


def plan(problem: LevelTransport, h: Float[Array, "levels"]) -> Float[Array, "levels m"]:
    """The plan p for given potentials; 0 for levels without mass and for points not present."""
    j = problem.levels
    first = jnp.arange(j.size, dtype=jnp.int32) == 0  # at least one level must be finite
    h = jnp.where((problem.masses > 0) | first, h, jnp.inf)
    logits = j[:, None] * problem.s[None, :] - h[:, None]
    p = jnp.exp(logits - lax.stop_gradient(jnp.max(logits, axis=0))[None, :])
    return p * (problem.present.astype(p.dtype) / jnp.sum(p, axis=0))[None, :]


def _laplacian_solve(w: Float[Array, "q q"], flow: Float[Array, "q q"]) -> Float[Array, "q"]:
    """Solve Σ_l w_jl (x_j − x_l) = Σ_l f_jl with x_0 = 0, for symmetric w and antisymmetric f.

    Each step eliminates the last node and distributes its links among the other nodes. Weights are
    never subtracted (Grassmann, Taksar and Heyman), and the flow is stored per link. A weak link
    then keeps its digits next to links that are hundreds of powers of ten stronger. Nodes without a
    link have x = 0.
    """

    def eliminate(state, last):
        w, flow = state
        links, share, degree = _links(w, last)
        out = jnp.where(jnp.arange(w.shape[0]) < last, flow[last], 0)
        spread = share[:, None] * out[None, :]
        w = w + links[:, None] * share[None, :]
        return (w, flow + spread - spread.T), (share, safe_divide(jnp.sum(out), degree))

    return _eliminated(eliminate, (w, flow), w.shape[0])


def _fast_solve(w: Float[Array, "q q"], b: Float[Array, "q"]) -> Float[Array, "q"]:
    """`_laplacian_solve` from the total flow b out of each node; faster, less accurate.

    Weak links lose digits.
    """

    def eliminate(a, last):  # the last column is b
        _, share, degree = _links(a[:, :-1], last)
        return a + share[:, None] * a[last][None, :], (share, safe_divide(a[last, -1], degree))

    return _eliminated(eliminate, jnp.concat([w, b[:, None]], axis=1), b.size)


def _links(w: Float[Array, "q q"], last: Int[Array, ""]) -> tuple[Array, Array, Array]:
    """The weights of the links from node `last` to earlier nodes, their shares and their sum."""
    links = jnp.where(jnp.arange(w.shape[0]) < last, w[last], 0)
    degree = jnp.sum(links)
    return links, safe_divide(links, jnp.broadcast_to(degree, links.shape)), degree


def _eliminated(eliminate: Callable[..., Any], start: Any, size: int) -> Float[Array, "q"]:
    """Solve x_0 = 0, x_j = share_j · x + rest_j, where `eliminate` returns (share_j, rest_j)."""
    nodes = jnp.arange(size)
    _, rows = lax.scan(eliminate, start, nodes[1:], reverse=True)

    def place(x, row):
        node, share, rest = row
        return jnp.where(nodes == node, jnp.sum(share * x) + rest, x), None

    return lax.scan(place, jnp.zeros_like(rows[0][0]), (nodes[1:], *rows))[0]


class _State(NamedTuple):
    """The last accepted potentials, the trial step, and the slope that the step must reduce."""

    h: Float[Array, "levels"]
    step: Float[Array, "levels"]
    length: Float[Array, ""]
    slope: Float[Array, ""]
    done: Bool[Array, ""]
    iteration: Int[Array, ""]


def _potentials(problem: LevelTransport, start: Float[Array, "levels"]) -> Float[Array, "levels"]:
    """The potentials that minimise Σ_i log Σ_j exp((j − b) s_i − h_j) + Σ_j c_j h_j.

    The objective is convex. One Sinkhorn step brings the mass of every level to the right order of
    magnitude; Newton steps follow. A Newton step is halved until the slope of the objective along
    the step has decreased. The test uses slopes, because rounding can hide differences of the
    objective.
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


def _iterate(problem: LevelTransport, state: _State) -> _State:
    """Try the step. If it is accepted, compute the next step; otherwise halve the step.

    A step δ moves masses w·δ with an error of about w·δ². The iteration ends when this error, or
    the surplus of mass, is at the level of rounding.
    """
    trial = state.h + state.length * state.step
    p = plan(problem, trial)
    w = matmul(p, p.T)
    surplus = (jnp.sum(w, axis=1) - problem.masses)[:-1]  # Σ_l p_li = 1
    surplus = jnp.append(surplus, -jnp.sum(surplus))  # surpluses sum to 0; the last mass is large
    j = jnp.arange(surplus.size)
    size = jnp.abs(trial)
    noise = 4 * eps(w.dtype) * (1 + jnp.maximum(size[:, None], size[None, :]))
    # Add a minimum weight to links between neighbouring levels: smaller flows are noise.
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
