"""Visits to every sample and its neighbours, a block of rows at a time, for `relief.py`.

The distances of a block are forgotten once its neighbours are known, and their differences once
they are summed: neither an n × n nor an n × k × d array is formed.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_divide, smallest
from jaxfs.methods.classical._manhattan import coordinate_chunks, manhattan

# ---- The scores ---------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("num_classes", "k", "block"))
def relieff(x, y, w, *, num_classes: int, k: int, block: int) -> Float[Array, "d"]:
    classes = jnp.arange(num_classes, dtype=y.dtype)
    w = jnp.where((y >= 0) & (y < num_classes), w, 0)
    members = (y[None] == classes[:, None]) & (w > 0)[None]
    masses = jnp.sum(jnp.where(members, w[None], 0), axis=1)
    prior, influence = masses / jnp.sum(masses), _influence(None, k, x.dtype)

    def visit(i, row):
        own = classes == y[i]
        rest = 1 - jnp.sum(prior, where=own)
        sign = jnp.where(own, -1, safe_divide(prior, jnp.broadcast_to(rest, prior.shape)))

        def among(c):
            near, share = _nearest(i, row, members[c], own[c], w, influence)
            return near, sign[c] * share

        near, coefficients = lax.map(among, jnp.arange(num_classes))
        return near.reshape(-1), coefficients.reshape(1, -1)

    data = _data(x, w)
    return _per_range(data, _sum_of_visits(data, visit, block)[0])[0]


@functools.partial(jax.jit, static_argnames=("k", "block"))
def rrelieff(x, y, w, sigma, *, k: int, block: int) -> Float[Array, "d"]:
    present, influence = w > 0, _influence(sigma, k, x.dtype)
    target = _unit_range(y[:, None], present)
    tau = jnp.where(present & target.known, y, 0)

    def visit(i, row):
        near, share = _nearest(i, row, present, jnp.asarray(True), w, influence)
        change = safe_divide(jnp.abs(tau[i] - tau[near]), jnp.broadcast_to(target.span, near.shape))
        return near, jnp.stack([share, share * change])

    data = _data(x, w)
    sums, totals = _sum_of_visits(data, visit, block)
    per_feature = _per_range(data, sums)
    n_da, n_dcda, n_dc = per_feature[0], per_feature[1], totals[1]  # all of them over m
    different, alike = (jnp.broadcast_to(a, n_da.shape) for a in (n_dc, 1 - n_dc))
    score = safe_divide(n_dcda, different) - safe_divide(n_da - n_dcda, alike)
    score = jnp.where(n_dc == 0, jnp.zeros_like(score), score)
    return jnp.where(data.scale.known & target.known, score, jnp.nan)


# ---- Visits -------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    """The range of every feature over the samples present, and whether all of it is finite."""

    low: Float[Array, "d"]
    span: Float[Array, "d"]
    known: Bool[Array, ""]


class _Data(NamedTuple):
    """Samples as they came, their ranges, and their features in [0, 1] to take distances of."""

    x: Float[Array, "n d"]
    w: Float[Array, "n"]
    scale: _Scale
    chunks: Float[Array, "c u n"]


def _unit_range(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> _Scale:
    there = present[:, None]
    low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
    span = jnp.max(jnp.where(there, x, -jnp.inf), axis=0) - low
    known = jnp.all(jnp.isfinite(span)) & jnp.all(jnp.isfinite(x) | ~there)
    return _Scale(low, span, known)


def _data(x: Float[Array, "n d"], w: Float[Array, "n"]) -> _Data:
    scale = _unit_range(x, w > 0)
    usable = (w > 0)[:, None] & scale.known
    x = jnp.where(usable, x, 0)
    away = jnp.where(usable, x - scale.low[None], 0)
    z = lax.stop_gradient(safe_divide(away, jnp.broadcast_to(scale.span[None], x.shape)))
    return _Data(x, w, scale, coordinate_chunks(z))


def _per_range(data: _Data, sums: Float[Array, "r d"]) -> Float[Array, "r d"]:
    """Sums of differences in units of the ranges; NaN where these are not known."""
    known = jnp.where(data.scale.known, sums, jnp.nan)
    return safe_divide(known, jnp.broadcast_to(data.scale.span[None], sums.shape))


def _sum_of_visits(
    data: _Data, visit: Callable[[Array, Array], tuple[Array, Array]], block: int
) -> tuple[Float[Array, "r d"], Float[Array, "r"]]:
    """Σ_i w_i/m Σ_j c_rj |x_i − x_j|, j over q samples near i; and the same without differences.

    `visit(i, row)` takes a sample and its distances to all, and gives indices `(q,)` and their
    coefficients `(r, q)`.
    """
    n = data.w.shape[0]
    mass = data.w / jnp.sum(data.w)

    @jax.checkpoint  # keep no block's differences for the backward pass
    def sums(places):
        # The last block is filled up with samples that were visited already, without mass.
        i = places % n
        near, c = jax.vmap(visit)(i, manhattan(data.chunks[:, :, i], data.chunks))
        c = jnp.where(places < n, mass[i], 0)[:, None, None] * c
        c = jnp.permute_dims(c, (1, 0, 2)).reshape(c.shape[1], -1)
        gaps = jnp.abs(data.x[i][:, None] - data.x[near])
        return matmul(c, gaps.reshape(-1, gaps.shape[-1])), jnp.sum(c, axis=1)

    parts = lax.map(sums, jnp.arange(n + -n % block).reshape(-1, block))
    return jax.tree.map(lambda a: jnp.sum(a, axis=0), parts)


def _nearest(
    i: Int[Array, ""],
    row: Float[Array, "n"],
    members: Bool[Array, "n"],
    own: Bool[Array, ""],
    w: Float[Array, "n"],
    influence: "_Influence",
) -> tuple[Int[Array, "k"], Float[Array, "k"]]:
    """The k nearest of some samples to sample i, and the share of each in their influence.

    Those that are missing are i itself, without a share. Copies of i, where it is one of the
    samples, come before all others: they have a share, of which no difference is left.
    """
    others = members & (jnp.arange(members.shape[0]) != i)
    near = smallest(jnp.where(others, row, jnp.inf), influence.k)[1]
    number = jnp.where(near >= 0, w[near], 0)
    copies = jnp.where(own, jnp.maximum(w[i] - 1, 0), 0)
    up_to = copies + jnp.cumsum(number)
    share = influence(up_to) - influence(up_to - number)
    whole = jnp.broadcast_to(influence(up_to[-1]), share.shape)
    return jnp.where(near < 0, i, near), safe_divide(share, whole)


class _Influence(NamedTuple):
    """What the first r neighbours weigh together: Σ_{t ≤ r} exp(−(t/σ)²), in units of the first.

    Between whole r it is linear, and beyond k constant.
    """

    sums: Float[Array, "k1"]

    @property
    def k(self) -> int:
        return self.sums.shape[0] - 1

    def __call__(self, r: Float[Array, "*s"]) -> Float[Array, "*s"]:
        r = jnp.clip(r, 0, self.k)
        whole = jnp.minimum(r.astype(jnp.int32), self.k - 1)
        first = self.sums[whole]
        return first + (r - whole.astype(r.dtype)) * (self.sums[whole + 1] - first)


def _influence(sigma: Float[Array, ""] | None, k: int, dtype) -> _Influence:
    rank = jnp.arange(1, k + 1, dtype=dtype)
    if sigma is None:
        each = jnp.ones_like(rank)
    else:
        each = jnp.exp((1 - rank**2) / jnp.where(sigma > 0, sigma, jnp.nan) ** 2)
    return _Influence(jnp.pad(jnp.cumsum(each), (1, 0)))
