"""The soft choice of the k nearest, and graph weights from it."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import eps, safe_divide
from jaxfs._types import ArrayLike, Scalar
from jaxfs.kernels._order import attained, smallest
from jaxfs.transport._newton import Problem, transported


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

    - `distances`: `(rows, candidates)`; squared distances, or any costs to be smallest in. Infinite
      ones are left out.
    - `k`: static; at least 1, less than the number of candidates.
    - `gamma`: γ > 0, how soft the choice is, on distances divided by `scale`; may be traced. A
      concrete 0 is the exact choice: indicators of a sort, ties by rising index, constants to
      differentiation; it has no `scale` and no `num_candidates`.
    - `scale`: positive, a number or `(rows,)`. By default the row's distance of rank k + 1.
    - `mask`: `(rows, candidates)`, false or 0 for those left out, such as the row's own sample.
    - `num_candidates`: static; only that many nearest of each row take part, the others are taken
      to have weight 0. At small γ they do. All by default.
    - `block_size`: static; rows solved at a time. Changes speed and memory, not the answer.

    **Returns** `SoftKNN`. A row with N ≤ k candidates has all of them nearest and none next.

    **Numerics** finite, with finite derivatives, from γ = 10 to 1e-4 in float32 and float64, ties
    and duplicates included: tied candidates share alike. float32 was within 60 eps of float64, and
    within 700 where many distances tie at rank k + 1 (`benchmarks/precision/soft_knn.py`). What is
    left is rounding of the logits, of the size of 1/γ, which another step would not remove. Where
    the default scale is not positive the row's smallest positive distance
    stands in for it. NaN makes its row NaN.

    **Derivatives** in the distances (through the default scale too), `scale` and `gamma`, by the
    implicit function theorem; of any order. Of distances that tie at rank k + 1, the default scale
    takes the mean derivative.

    **Cost** 2 to 6 steps of O(rows · m · k²), m the candidates that take part, and one more for the
    derivative; memory O(block_size · m · k) beside the answer.

    **Reference** Dirichlet energy and k-NN by optimal transport, eqs. 7–14. Its iteration S21 has
    not converged after 200 steps where γ ≤ 0.01, and overflows from γ = 1e-3 on.

    >>> import jax.numpy as jnp
    >>> near = soft_knn(jnp.array([[3.0, 1.0, 2.0, 9.0]]), 2, gamma=0.1)
    >>> near.nearest.round(2).tolist(), near.next.round(2).tolist()
    ([[0.03, 1.0, 0.97, 0.0]], [[0.97, 0.0, 0.03, 0.0]])
    """
    e = _checks.real(distances, "distances", ndim=2)
    rows, width = e.shape
    k = _checks.integer(k, "k", low=1, high=width - 1)
    _checks.number(gamma, "gamma", low=0, scalar=True)
    exact = not _checks.is_traced(gamma) and gamma == 0
    for value, name in ((scale, "scale"), (num_candidates, "num_candidates")):
        _checks.only_if(not exact, value, name, "gamma is positive")
    if num_candidates is not None:
        width = min(_checks.integer(num_candidates, "num_candidates", low=k + 1), width)
    if scale is not None:
        _checks.number(scale, "scale", low=0, open_low=True)
        scale = _checks.array(scale, "scale", e.dtype)
        if scale.shape not in ((), (rows,)):
            raise _checks.fail("scale", f"a number or of shape ({rows},)", f"shape {scale.shape}")
        scale = jnp.broadcast_to(scale, (rows,))
    present = jnp.ones(e.shape, bool) if mask is None else _checks.array(mask, "mask", bool)
    if present.shape != e.shape:
        raise _checks.fail("mask", f"of shape {e.shape}, as distances", f"shape {present.shape}")
    if block_size is None:
        block_size = max(1, _PLANS // ((k + 2) * width))
    block_size = _checks.integer(block_size, "block_size", low=1)
    softness = None if exact else jnp.asarray(gamma, e.dtype)
    return _soft_knn(e, present, softness, scale, k, width, block_size)


#: Numbers in the plans of a block, by default: they stay in the cache of a core.
_PLANS = 2**18


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _soft_knn(e, present, gamma, scale, k: int, width: int, block_size: int) -> SoftKNN:
    """The exact choice, the soft one of all candidates, or that of the `width` nearest."""
    rows, n = e.shape
    unknown = jnp.any(jnp.isnan(e) & present, axis=1, keepdims=True)
    if gamma is None:
        _, near = jax.vmap(functools.partial(_nearest, m=k + 1))(e, present)
        hot = jax.nn.one_hot(near, n, dtype=e.dtype)  # all 0 where there is none
        soft = SoftKNN(jnp.sum(hot[:, :k], axis=1), hot[:, k])
    elif width == n:
        ranked, _ = jax.vmap(functools.partial(_nearest, m=min(k + 2, n)))(e, present)
        soft = _soft_rows(e, present, ranked, gamma, scale, k, block_size)
    else:
        ranked, near = jax.vmap(functools.partial(_nearest, m=width))(e, present)
        few = jnp.take_along_axis(e, near, axis=1)
        soft = _soft_rows(few, near >= 0, ranked[:, : k + 2], gamma, scale, k, block_size)
        back = jnp.where(near < 0, n, near)  # beyond the row, where it is dropped
        row = jnp.arange(rows)[:, None]
        soft = SoftKNN(*(jnp.zeros_like(e).at[row, back].add(v, mode="drop") for v in soft))
    return jax.tree.map(lambda v: jnp.where(unknown, jnp.nan, v), soft)


def _nearest(e: Float[Array, "n"], present: Bool[Array, "n"], m: int) -> tuple[Array, Array]:
    """`smallest` of the finite candidates that are present."""
    return smallest(jnp.where(present & jnp.isfinite(e), lax.stop_gradient(e), jnp.inf), m)


def _soft_rows(e, present, ranked, gamma, scale, k: int, block_size: int) -> SoftKNN:
    """The soft choice, given the k + 2 smallest distances of every row, or all."""
    problems, starts = jax.vmap(functools.partial(_problem, gamma=gamma, k=k))(
        e, present & jnp.isfinite(e), ranked, scale
    )
    soft = transported(problems, starts, k, block_size)
    return SoftKNN(soft.below, soft.at)


def _problem(e, present, ranked, scale, *, gamma, k: int) -> tuple[Problem, Array]:
    """One row as points and masses, and where to start."""
    e = jnp.where(present, e, jnp.zeros_like(e))
    number = jnp.sum(present, dtype=jnp.int32)
    # Of rank k + 1, or the last there is. A shift of all distances changes nothing; this one keeps
    # the digits of those about which the choice is in doubt.
    last = jnp.clip(number - 1, 0, k)
    centre = jnp.where(number > 0, ranked[last], jnp.zeros_like(ranked[last]))
    if scale is None:
        own = attained(e, present, centre)
        least = jnp.min(jnp.where(present & (e > 0), lax.stop_gradient(e), jnp.inf))
        tiny = float(jnp.finfo(e.dtype).tiny)
        scale = jnp.where(own > tiny, own, jnp.where(jnp.isfinite(least), least, 1.0))
    limit = float(jnp.finfo(e.dtype).max) ** 0.5  # beyond it nothing is in doubt
    # Divided in two steps: the derivative of a quotient squares its divisor, which may be tiny.
    unit = lax.stop_gradient(scale)

    def in_doubt(a, softness):
        return jnp.clip(softness * jnp.clip((a - centre) / unit, -limit, limit), -limit, limit)

    s = in_doubt(e, 2 / (gamma * (scale / unit)))
    start = _start(in_doubt(ranked, 2 / lax.stop_gradient(gamma)), last, k)
    return Problem(s, present, _masses(number, k, e.dtype), last), start


def _masses(number: Int[Array, ""], k: int, dtype) -> Float[Array, "k+2"]:
    """c (eq. 11): one for each of k + 1 levels, the rest for the last; 0 where candidates lack."""
    j = jnp.arange(k + 1, dtype=jnp.int32)
    first = (j < number).astype(dtype)
    return jnp.append(first, jnp.maximum(number - k - 1, 0).astype(dtype))


def _start(ranked: Float[Array, "r"], last: Int[Array, ""], k: int) -> Float[Array, "k+2"]:
    """Potentials at γ → 0: levels change midway between consecutive points; 0 at level `last`."""
    between = 0.5 * (ranked[1:] + ranked[:-1])
    between = jnp.pad(between, (0, k + 1 - between.size))
    j, t = jnp.arange(k + 2, dtype=jnp.int32)[:, None], jnp.arange(k + 1, dtype=jnp.int32)[None, :]
    after = (t < j).astype(jnp.int32) - (t < last).astype(jnp.int32)
    return jnp.sum(after.astype(ranked.dtype) * between[None, :], axis=1)


# ---- Weights of the graph -----------------------------------------------------------------------


def soft_weights(distances: ArrayLike, soft: SoftKNN) -> Float[Array, "*b candidates"]:
    """The weights of an adaptive k-NN graph on soft indicators: s_ij ∝ (ξ_i·e_i − e_ij)₊.

    **Arguments**

    - `distances`: e `(..., candidates)`, those that `soft` was computed from.
    - `soft`: `soft_knn(e, k, …)`. Candidates with `nearest` 0 have weight 0.

    **Returns** `(..., candidates)`, nonnegative; every row sums to 1. Rows without candidates are
    0. At γ → 0 the weights are those of `graphs.adaptive_weights`.

    **Numerics** where the mass of `next` lies to within eps on the smallest distance itself, that
    is where k + 1 or more tie and no others matter, and where there is no next, the weights are
    `nearest` divided by its sum: tied candidates weigh alike, 1/k each if the choice was exact. NaN
    makes its row NaN.

    **Derivatives** in the distances and `soft`, given that every `next` sums to 1. At the kinks
    e_ij = ξ_i·e_i that of the side of 0. Where the nearest tie the weights jump; the derivative
    taken is that of `nearest` divided by its sum.

    **Reference** Dirichlet energy and k-NN by optimal transport, eqs. 9 and S16. The rows of S16
    sum to 1 on exact indicators only, and to 1.01 or more on soft ones.

    >>> import jax.numpy as jnp
    >>> e = jnp.array([[4.0, 1.0, 3.0, 9.0]])
    >>> soft_weights(e, soft_knn(e, 2, gamma=0)).tolist()
    [[0.0, 0.75, 0.25, 0.0]]
    """
    e = _checks.real(distances, "distances")
    _checks.record(soft, "soft", SoftKNN, "`soft_knn`")
    nearest, following = (_checks.real(v, "soft") for v in soft)
    if not e.shape == nearest.shape == following.shape or e.ndim == 0:
        shapes = f"{e.shape}, {nearest.shape} and {following.shape}"
        raise _checks.fail("distances and soft", "of one shape (..., candidates)", shapes)
    return _soft_weights(e, nearest, following)


@jax.jit
def _soft_weights(e, nearest, following) -> Float[Array, "*b m"]:
    share = safe_divide(nearest, _total(nearest) * jnp.ones_like(nearest))
    # Neither the smallest distance nor a unit changes the weights: they only keep digits.
    involved = (nearest > 0) | (following > 0)
    smallest_of_row = jnp.min(
        jnp.where(involved, lax.stop_gradient(e), jnp.inf), axis=-1, keepdims=True
    )
    above = jnp.where(involved, e - smallest_of_row, jnp.zeros_like(e))
    reach = _total(following * above)  # ξ·e − min e
    elsewhere = _total(jnp.where(above > 0, following, jnp.zeros_like(following)))
    tied = (elsewhere <= eps(e.dtype)) | (reach <= jnp.finfo(e.dtype).tiny)
    unit = jnp.where(tied, jnp.ones_like(reach), lax.stop_gradient(reach))
    closer = (nearest > 0) & (above < reach)
    close = jnp.where(closer, (reach - above) / unit, jnp.zeros_like(e))
    weights = jnp.where(tied, share, close / jnp.where(tied, 1, _total(close)))
    return jnp.where(jnp.isnan(nearest), jnp.nan, weights)


def _total(v: Float[Array, "*b m"]) -> Float[Array, "*b 1"]:
    return jnp.sum(v, axis=-1, keepdims=True)
