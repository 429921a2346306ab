"""Loops of `_relieff.py`, which visit every sample and its nearest neighbours in blocks of rows.

The distances of a block are discarded once its neighbours are known. The differences are discarded
once they are summed. Neither an n × n nor an n × k × d array is formed.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_divide, smallest
from jaxfs.methods.classical._class_moments import Membership, known_membership

#: Number of coordinates added in one loop of `manhattan`. With 8 coordinates the sums are written
#: to memory too often; with 32 the loop runs out of registers. Both were slower on CPU. A reduction
#: over the axis of coordinates, instead of the explicit sum, took a hundred times as long.
_TOGETHER = 16

# ---- The scores ---------------------------------------------------------------------------------


def relieff(x, y, w, *, num_classes: int, k: int, block: int) -> Float[Array, "d"]:
    return _relieff(x, known_membership(y, w, num_classes), k, block)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _relieff(x, members: Membership, k: int, block: int) -> Float[Array, "d"]:
    shares, label, prior = members.shares, members.label, members.priors
    w, classes = jnp.sum(shares, axis=0), jnp.arange(prior.shape[0], dtype=label.dtype)
    influence = _influence(None, k, x.dtype)

    def visit(i, row):
        def among(c):
            own = label[i] == c
            near, share = _nearest(i, row, shares[c] > 0, own, w, influence, k)
            rest = 1 - prior[label[i]]
            return near, jnp.where(own, -1, safe_divide(prior[c], rest)) * share

        near, coefficients = lax.map(among, classes)
        return near.reshape(-1), coefficients.reshape(1, -1)

    data = _scaled_data(x, w)
    return _per_span(data, _sum_of_visits(data, visit, block)[0])[0]


@functools.partial(jax.jit, static_argnames=("k", "block"))
def rrelieff(x, y, w, sigma, *, k: int, block: int) -> Float[Array, "d"]:
    present, influence = w > 0, _influence(sigma, k, x.dtype)
    _, tau_span, tau_known = _ranges(y[:, None], present)
    tau = jnp.where(present & tau_known, y, 0)

    def visit(i, row):
        near, share = _nearest(i, row, present, jnp.asarray(True), w, influence, k)
        change = safe_divide(jnp.abs(tau[i] - tau[near]), jnp.broadcast_to(tau_span, near.shape))
        return near, jnp.stack([share, share * change])

    data = _scaled_data(x, w)
    sums, totals = _sum_of_visits(data, visit, block)
    per_feature = _per_span(data, sums)
    n_da, n_dcda, n_dc = per_feature[0], per_feature[1], totals[1]  # each sum divided by m
    different, alike = (jnp.broadcast_to(a, n_da.shape) for a in (n_dc, 1 - n_dc))
    score = safe_divide(n_dcda, different) - safe_divide(n_da - n_dcda, alike)
    score = jnp.where(n_dc == 0, jnp.zeros_like(score), score)
    return jnp.where(data.known & tau_known, score, jnp.nan)


# ---- Visits -------------------------------------------------------------------------------------


class _ScaledData(NamedTuple):
    """Samples, the span of each feature, and features scaled to [0, 1] for the distances."""

    x: Float[Array, "n d"]
    w: Float[Array, "n"]
    span: Float[Array, "d"]
    known: Bool[Array, ""]
    chunks: Float[Array, "c u n"]


def _ranges(
    x: Float[Array, "n d"], present: Bool[Array, "n"]
) -> tuple[Float[Array, "d"], Float[Array, "d"], Bool[Array, ""]]:
    """Smallest value and span of every feature, and whether all values used are finite."""
    there = present[:, None]
    low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
    span = jnp.max(jnp.where(there, x, -jnp.inf), axis=0) - low
    return low, span, jnp.isfinite(span[jnp.argmax(span)])  # `argmax` prefers NaN


def _scaled_data(x: Float[Array, "n d"], w: Float[Array, "n"]) -> _ScaledData:
    low, span, known = _ranges(x, w > 0)
    usable = (w > 0)[:, None] & known
    x = jnp.where(usable, x, 0)
    away = jnp.where(usable, x - low[None], 0)
    z = lax.stop_gradient(safe_divide(away, jnp.broadcast_to(span[None], x.shape)))
    return _ScaledData(x, w, span, known, coordinate_chunks(z))


def _per_span(data: _ScaledData, sums: Float[Array, "r d"]) -> Float[Array, "r d"]:
    """Sums of differences divided by the span of each feature; NaN if a span is not finite."""
    sums = jnp.where(data.known, sums, jnp.nan)
    return safe_divide(sums, jnp.broadcast_to(data.span[None], sums.shape))


def _sum_of_visits(
    data: _ScaledData, visit: Callable[[Array, Array], tuple[Array, Array]], block: int
) -> tuple[Float[Array, "r d"], Float[Array, "r"]]:
    """Return Σ_i w_i/m Σ_j c_rj |x_i − x_j| and Σ_i w_i/m Σ_j c_rj, with j over q samples near i.

    `visit(i, row)` takes the index of a sample and its distances to all samples. It returns the
    indices `(q,)` of the near samples and their coefficients `(r, q)`.
    """
    n = data.w.shape[0]
    mass = data.w / jnp.sum(data.w)

    @jax.checkpoint  # do not keep the differences of every block for the backward pass
    def sums(places):
        # The last block is padded with samples visited before, which get mass 0.
        i = places % n
        near, c = jax.vmap(visit)(i, manhattan(data.chunks[:, :, i], data.chunks))
        c = jnp.where(places < n, mass[i], 0)[:, None, None] * c
        c = jnp.permute_dims(c, (1, 0, 2)).reshape(c.shape[1], -1)
        gaps = jnp.abs(data.x[i][:, None] - data.x[near])
        return matmul(c, gaps.reshape(-1, gaps.shape[-1])), jnp.sum(c, axis=1)

    parts = lax.map(sums, jnp.arange(n + -n % block).reshape(-1, block))
    return jax.tree.map(lambda a: jnp.sum(a, axis=0), parts)


def _nearest(
    i: Int[Array, ""], row: Float[Array, "n"], members: Bool[Array, "n"], own, w, influence, k: int
) -> tuple[Int[Array, "k"], Float[Array, "k"]]:
    """The k members nearest to sample i, and the share of each in their total influence.

    If there are fewer than k members, the result is padded with i, with share 0. A weight of i
    above 1 stands for copies of i. If i is a member (`own`), the copies come first: they take a
    share of the influence, and their differences are 0.
    """
    others = members & (jnp.arange(members.shape[0]) != i)
    near = smallest(jnp.where(others, row, jnp.inf), k)[1]
    number = jnp.where(near >= 0, w[near], 0)
    copies = jnp.where(own, jnp.maximum(w[i] - 1, 0), 0)
    up_to = copies + jnp.cumsum(number)
    share = influence(up_to) - influence(up_to - number)
    whole = jnp.broadcast_to(influence(up_to[-1]), share.shape)
    return jnp.where(near < 0, i, near), safe_divide(share, whole)


def _influence(sigma: Float[Array, ""] | None, k: int, dtype) -> Callable[[Array], Array]:
    """Function of r: total influence of the first r neighbours, Σ_{t ≤ r} exp(−(t/σ)²).

    The influence is divided by the influence of the first neighbour. The function is linear between
    integers r and constant beyond k. Without σ, every neighbour has the influence 1.
    """
    if sigma is None:
        return lambda r: jnp.clip(r, 0, k)
    rank = jnp.arange(1, k + 1, dtype=dtype)
    each = jnp.exp((1 - rank**2) / jnp.where(sigma > 0, sigma, jnp.nan) ** 2)
    sums = jnp.pad(jnp.cumsum(each), (1, 0))

    def total(r: Float[Array, "*s"]) -> Float[Array, "*s"]:
        r = jnp.clip(r, 0, k)
        whole = jnp.minimum(r.astype(jnp.int32), k - 1)
        first = sums[whole]
        return first + (r - whole.astype(r.dtype)) * (sums[whole + 1] - first)

    return total


# ---- Manhattan distances ------------------------------------------------------------------------


def coordinate_chunks(x: Float[Array, "n p"]) -> Float[Array, "c u n"]:
    """Points as columns, with their coordinates in chunks; the last chunk is padded with zeros.

    XLA's fused loops run over the points, so the values of each coordinate must be contiguous.
    """
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % _TOGETHER)))
    return x.T.reshape(-1, _TOGETHER, x.shape[0])


def manhattan(a: Float[Array, "c u b"], z: Float[Array, "c u n"]) -> Float[Array, "b n"]:
    """Manhattan distances Σ_p |a_ip − z_jp| between points in the form of `coordinate_chunks`.

    Unlike Euclidean distances, Manhattan distances cannot be computed by a matrix product.

    **Numerics** distances are symmetric to the last bit, 0 between equal points, and do not depend
    on the block.

    **Cost** O(b n p) time; memory O(b n).
    """

    def add(total, chunk):
        ours, theirs = chunk
        gaps = [jnp.abs(ours[u][:, None] - theirs[u][None, :]) for u in range(_TOGETHER)]
        return total + functools.reduce(jnp.add, gaps), None

    return lax.scan(add, jnp.zeros((a.shape[-1], z.shape[-1]), z.dtype), (a, z))[0]
