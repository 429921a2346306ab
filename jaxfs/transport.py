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
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._order import attained, smallest
from jaxfs._transport import Problem, plan, potentials
from jaxfs._types import ArrayLike, Scalar


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
    softness = None if exact else jnp.asarray(gamma, e.dtype)
    return _soft_knn(e, present, softness, scale, k, width, min(block, rows))


def _rows_at_once(k: int, width: int) -> int:
    """As many rows as keep a few plans `(k + 2, width)` of each near 2²² numbers."""
    return max(1, 2**20 // ((k + 2) * width))


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _soft_knn(e, present, gamma, scale, k: int, width: int, block_size: int) -> SoftKNN:
    n = e.shape[1]

    # Keep no block's plan for the backward pass, but do not solve for it again.
    saved = jax.checkpoint_policies.save_only_these_names("potentials", "near")

    @functools.partial(jax.checkpoint, policy=saved)
    def row(inputs):
        e, present, scale = inputs
        if gamma is None or width < n:
            near = smallest(jnp.where(present, lax.stop_gradient(e), jnp.inf), width)[1]
            near = checkpoint_name(near, "near")
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
    present = present & jnp.isfinite(e)
    e = jnp.where(present, e, jnp.zeros_like(e))
    ranked, _ = smallest(jnp.where(present, lax.stop_gradient(e), jnp.inf), min(k + 2, e.size))
    return _soft_row(e, present, ranked, gamma, k, scale)


def _soft_row(e, present, ranked, gamma, k: int, scale) -> SoftKNN:
    """`soft_row`, given the smallest distances (k + 2, if there are)."""
    number = jnp.sum(present, dtype=jnp.int32)
    # Of rank k + 1, or the last there is. A shift of all distances changes nothing; this one keeps
    # the digits of those about which the choice is in doubt.
    last = jnp.clip(number - 1, 0, k)
    centre = jnp.where(number > 0, ranked[last], jnp.zeros_like(ranked[last]))
    if scale is None:
        own = attained(e, present, centre)
        least = jnp.min(jnp.where(present & (e > 0), lax.stop_gradient(e), jnp.inf))
        scale = jnp.where(own > 0, own, jnp.where(jnp.isfinite(least), least, 1.0))
    factor = 2 / (gamma * scale)
    limit = jnp.finfo(e.dtype).max ** 0.5  # in no doubt, whatever the rank
    known = jnp.isfinite(ranked)
    ranked = jnp.where(known, lax.stop_gradient(factor) * (ranked - centre), 0.0)
    ranked = jnp.clip(ranked, -limit, limit)
    between = 0.5 * (ranked[1:] + ranked[:-1]) * known[1:].astype(e.dtype)
    start = jnp.zeros(k + 2, e.dtype).at[1 : between.size + 1].set(jnp.cumsum(between))
    s = jnp.clip(factor * (e - centre), -limit, limit)
    problem = Problem(s, present, _masses(number, k, e.dtype), last)
    h = checkpoint_name(potentials(problem, lax.stop_gradient(start - start[last])), "potentials")
    p = plan(problem, h)
    return SoftKNN(jnp.sum(p[:k], axis=0), p[k])


def _masses(number: Int[Array, ""], k: int, dtype) -> Float[Array, "k+2"]:
    """c (eq. 11): one for each of k + 1 levels, the rest for the last; 0 where candidates lack."""
    j = jnp.arange(k + 1, dtype=jnp.int32)
    first = (j < number).astype(dtype)
    return jnp.append(first, jnp.maximum(number - k - 1, 0).astype(dtype))
