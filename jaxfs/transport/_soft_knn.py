"""Soft (differentiable) k nearest neighbours, and the graph weights computed from them."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs import _checks
from jaxfs._numerics import attained, eps, safe_divide, smallest
from jaxfs._types import ArrayLike, Scalar
from jaxfs.transport._newton import LevelTransport, transported


class SoftKNN(NamedTuple):
    """Soft indicators of the nearest candidates of every row, each `(rows, candidates)`.

    `nearest` is δ^(k): its entries are in [0, 1], sum to k, and are near 1 for the k nearest
    candidates. `next` is ξ^(k+1): its entries are in [0, 1], sum to 1, and are near 1 for the
    candidate of rank k + 1.
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
    """Soft indicators of the k nearest candidates of each row, smooth in the distances.

    **Arguments**

    - `distances`: `(rows, candidates)`; squared distances, or any other costs. Candidates at an
      infinite distance are left out.
    - `k`: static; at least 1, less than the number of candidates.
    - `gamma`: γ > 0, the softness of the choice, for distances divided by `scale`; may be traced. A
      concrete 0 gives the exact choice, without derivative: indicators 0 and 1, and ties by
      ascending index. `scale` and `num_candidates` must then be omitted.
    - `scale`: positive, a number or `(rows,)`. The default is the distance of rank k + 1 in each
      row.
    - `mask`: `(rows, candidates)`, false or 0 for candidates to leave out, such as the sample of
      the row itself.
    - `num_candidates`: static; number of nearest candidates that take part in each row. The other
      candidates get weight 0, which is accurate at small γ. All take part by default.
    - `block_size`: static; number of rows solved at a time. It changes speed and memory, not the
      result.

    **Returns** `SoftKNN`. In a row with N ≤ k candidates, all have `nearest` 1 and `next` 0.

    **Numerics** finite, with finite derivatives, from γ = 10 to 1e-4 in float32 and float64, ties
    and duplicates included: tied candidates have equal shares. float32 was within 60 eps of
    float64, and within 700 where many distances tie at rank k + 1
    (`benchmarks/precision/soft_knn.py`). The remaining error is rounding of the logits, of the
    size of 1/γ; a further Newton step would not remove it. If the distance of rank k + 1 is not
    positive, the default scale is the smallest positive distance of the row. A NaN makes its row
    NaN.

    **Derivatives** in the distances (also through the default scale), `scale` and `gamma`, by the
    implicit function theorem; of any order. If distances tie at rank k + 1, the default scale has
    their mean derivative.

    **Cost** 2 to 6 steps of O(rows · m · k²), with m candidates that take part per row, and one
    more step for the derivative; memory O(block_size · m · k) in addition to the result.

    **Reference** Dirichlet energy and k-NN by optimal transport, eqs. 7–14. The iteration S21
    of the paper does not converge in 200 steps for γ ≤ 0.01, and overflows for γ ≤ 1e-3.

    >>> import jax.numpy as jnp
    >>> near = soft_knn(jnp.array([[3.0, 1.0, 2.0, 9.0]]), 2, gamma=0.1)
    >>> near.nearest.round(2).tolist(), near.next.round(2).tolist()
    ([[0.03, 1.0, 0.97, 0.0]], [[0.97, 0.0, 0.03, 0.0]])
    """
    e = _checks.real(distances, "distances", ndim=2)
    rows, width = e.shape
    k = _checks.integer(k, "k", low=1, high=width - 1)
    _checks.number(gamma, "gamma", low=0, scalar=True)
    exact = not _checks.is_traced(gamma) and float(gamma) == 0
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
    present = np.ones(e.shape, bool) if mask is None else _checks.array(mask, "mask", bool)
    if present.shape != e.shape:
        raise _checks.fail("mask", f"of shape {e.shape}, as distances", f"shape {present.shape}")
    if block_size is None:
        block_size = max(1, _PLANS // ((k + 2) * width))
    block_size = _checks.integer(block_size, "block_size", low=1)
    number = jnp.asarray if _checks.is_traced(gamma) else np.asarray
    softness = None if exact else number(gamma, e.dtype)
    return _soft_knn(e, present, softness, scale, k, width, block_size)


#: Default number of plan entries per block; they fit into the cache of a core.
_PLANS = 2**18


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _soft_knn(e, present, gamma, scale, k: int, width: int, block_size: int) -> SoftKNN:
    """The exact choice, or the soft choice among all or among the `width` nearest candidates."""
    rows, n = e.shape
    unknown = jnp.any(jnp.isnan(e) & present, axis=1, keepdims=True)
    if gamma is None:
        _, near = jax.vmap(functools.partial(_nearest, m=k + 1))(e, present)
        hot = jax.nn.one_hot(near, n, dtype=e.dtype)  # all 0 for a missing candidate (−1)
        soft = SoftKNN(jnp.sum(hot[:, :k], axis=1), hot[:, k])
    elif width == n:
        ranked, _ = jax.vmap(functools.partial(_nearest, m=min(k + 2, n)))(e, present)
        soft = _soft_rows(e, present, ranked, gamma, scale, k, block_size)
    else:
        ranked, near = jax.vmap(functools.partial(_nearest, m=width))(e, present)
        few = jnp.take_along_axis(e, near, axis=1)
        soft = _soft_rows(few, near >= 0, ranked[:, : k + 2], gamma, scale, k, block_size)
        back = jnp.where(near < 0, n, near)  # index n is outside the row and is dropped
        row = jnp.arange(rows)[:, None]
        soft = SoftKNN(*(jnp.zeros_like(e).at[row, back].add(v, mode="drop") for v in soft))
    return jax.tree.map(lambda v: jnp.where(unknown, jnp.nan, v), soft)


def _nearest(e: Float[Array, "n"], present: Bool[Array, "n"], m: int) -> tuple[Array, Array]:
    """The m smallest finite distances of the candidates present, and their indices."""
    return smallest(jnp.where(present & jnp.isfinite(e), lax.stop_gradient(e), jnp.inf), m)


def _soft_rows(e, present, ranked, gamma, scale, k: int, block_size: int) -> SoftKNN:
    """The soft choice, given the k + 2 smallest distances of each row (or all, if fewer)."""
    problems, starts = jax.vmap(functools.partial(_problem, gamma=gamma, k=k))(
        e, present & jnp.isfinite(e), ranked, scale
    )
    soft = transported(problems, starts, k, block_size)
    return SoftKNN(soft.below, soft.at)


def _problem(e, present, ranked, scale, *, gamma, k: int) -> tuple[LevelTransport, Array]:
    """The transport problem of one row, and its initial potentials."""
    e = jnp.where(present, e, jnp.zeros_like(e))
    number = jnp.sum(present, dtype=jnp.int32)
    # The centre is the distance of rank k + 1, or the last distance. Subtracting it does not change
    # the plan, and keeps the digits of the distances that decide the choice.
    last = jnp.clip(number - 1, 0, k)
    centre = jnp.where(number > 0, ranked[last], jnp.zeros_like(ranked[last]))
    if scale is None:
        own = attained(e, present, centre)
        least = jnp.min(jnp.where(present & (e > 0), lax.stop_gradient(e), jnp.inf))
        tiny = float(jnp.finfo(e.dtype).tiny)
        scale = jnp.where(own > tiny, own, jnp.where(jnp.isfinite(least), least, 1.0))
    limit = float(jnp.finfo(e.dtype).max) ** 0.5  # beyond this limit the choice is exact
    # Division in two steps: the derivative of a quotient squares its divisor, which may be tiny.
    unit = lax.stop_gradient(scale)

    def shifted(a, softness):
        return jnp.clip(softness * jnp.clip((a - centre) / unit, -limit, limit), -limit, limit)

    s = shifted(e, 2 / (gamma * (scale / unit)))
    start = _start(shifted(ranked, 2 / lax.stop_gradient(gamma)), last, k)
    return LevelTransport(s, present, _masses(number, k, e.dtype), last), start


def _masses(number: Int[Array, ""], k: int, dtype) -> Float[Array, "k+2"]:
    """The masses c (eq. 11): 1 for each of the first k + 1 levels, the remainder for the last.

    With fewer candidates than levels, the surplus levels have mass 0.
    """
    j = jnp.arange(k + 1, dtype=jnp.int32)
    first = (j < number).astype(dtype)
    return jnp.append(first, jnp.maximum(number - k - 1, 0).astype(dtype))


def _start(ranked: Float[Array, "r"], last: Int[Array, ""], k: int) -> Float[Array, "k+2"]:
    """The potentials in the limit γ → 0, shifted to 0 at level `last`.

    In this limit, the level of a point changes midway between neighbouring sorted points.
    """
    between = 0.5 * (ranked[1:] + ranked[:-1])
    between = jnp.pad(between, (0, k + 1 - between.size))
    j, t = jnp.arange(k + 2, dtype=jnp.int32)[:, None], jnp.arange(k + 1, dtype=jnp.int32)[None, :]
    after = (t < j).astype(jnp.int32) - (t < last).astype(jnp.int32)
    return jnp.sum(after.astype(ranked.dtype) * between[None, :], axis=1)


def soft_weights(distances: ArrayLike, soft: SoftKNN) -> Float[Array, "*b candidates"]:
    """The weights of an adaptive k-NN graph from soft indicators: s_ij ∝ (ξ_i·e_i − e_ij)₊.

    **Arguments**

    - `distances`: e `(..., candidates)`, the distances from which `soft` was computed.
    - `soft`: `soft_knn(e, k, …)`. Candidates with `nearest` 0 have weight 0.

    **Returns** `(..., candidates)`, nonnegative; every row sums to 1. Rows without candidates are
    0. As γ → 0 the weights converge to `graphs.adaptive_weights`.

    **Numerics** the weights are `nearest` divided by its sum in two cases. In the first case, all
    mass of `next` up to eps is on candidates at the smallest distance: k + 1 or more candidates tie
    and no others matter. In the second case, `next` is 0. Tied candidates then have equal weights,
    1/k each if the choice was exact. A NaN makes its row NaN.

    **Derivatives** in the distances and `soft`, provided that every `next` sums to 1. At the kinks
    e_ij = ξ_i·e_i, the function uses the derivative of the side on which the weight is 0. In the
    first case above the weights are discontinuous, and the function uses the derivative of
    `nearest` divided by its sum.

    **Reference** Dirichlet energy and k-NN by optimal transport, eqs. 9 and S16. The rows of S16
    sum to 1 only for exact indicators; for soft indicators they sum to 1.01 or more.

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
    total = functools.partial(jnp.sum, axis=-1, keepdims=True)
    share = safe_divide(nearest, total(nearest) * jnp.ones_like(nearest))
    # The shift by the smallest distance and the unit do not change the weights; they keep digits.
    involved = (nearest > 0) | (following > 0)
    least = jnp.where(involved, lax.stop_gradient(e), jnp.inf)
    above = jnp.where(involved, e - jnp.min(least, axis=-1, keepdims=True), jnp.zeros_like(e))
    reach = total(following * above)  # ξ·e − min e
    elsewhere = total(jnp.where(above > 0, following, jnp.zeros_like(following)))
    tied = (elsewhere <= eps(e.dtype)) | (reach <= jnp.finfo(e.dtype).tiny)
    unit = jnp.where(tied, jnp.ones_like(reach), lax.stop_gradient(reach))
    closer = (nearest > 0) & (above < reach)
    close = jnp.where(closer, (reach - above) / unit, jnp.zeros_like(e))
    weights = jnp.where(tied, share, close / jnp.where(tied, 1, total(close)))
    return jnp.where(jnp.isnan(nearest), jnp.nan, weights)
