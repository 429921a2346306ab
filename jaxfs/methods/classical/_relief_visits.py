"""Loops of `_relieff.py`, which visit every sample and its nearest neighbours in blocks of rows.

The distances of a block are discarded once its neighbours are known. The differences are discarded
once they are summed. Neither an n × n nor an n × k × d array is formed.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import at, matmul, safe_divide, smallest
from jaxfs.methods.classical._class_moments import Membership

#: Number of coordinates added in one loop of `manhattan`. With 8 coordinates the sums are written
#: to memory too often; with 32 the loop runs out of registers. Both were slower on CPU. A reduction
#: over the axis of coordinates, instead of the explicit sum, took a hundred times as long.
_TOGETHER = 16


@functools.partial(jax.jit, static_argnums=(2, 3))
def relieff(x, members: Membership, k: int, block: int) -> Float[Array, "d"]:
    shares, prior = members.shares, members.priors
    influence = _influence(None, k, x.dtype)
    others = safe_divide(*jnp.broadcast_arrays(prior[:, None], 1 - at(prior, members.label)[None]))
    factors = jnp.where(shares > 0, -1, others)

    def visit(i, row):
        def among(of_class):
            w, factor = of_class
            near, share = _nearest(i, row, w, influence, k)
            return near, at(factor, i) * share

        near, coefficients = lax.map(among, (shares, factors))
        return near.reshape(-1), coefficients.reshape(1, -1)

    return _sum_of_visits(x, members.weights, visit, block)[0][0]


@functools.partial(jax.jit, static_argnames=("k", "block"))
def rrelieff(x, y, w, sigma, *, k: int, block: int) -> Float[Array, "d"]:
    influence = _influence(sigma, k, x.dtype)
    _, tau_span, tau_known = _ranges(y[:, None], w > 0)
    tau = jnp.where((w > 0) & tau_known, y, 0)

    def visit(i, row):
        near, share = _nearest(i, row, w, influence, k)
        change = safe_divide(jnp.abs(tau[i] - tau[near]), jnp.broadcast_to(tau_span, near.shape))
        return near, jnp.stack([share, share * change])

    # The sums N of the paper, each divided by m.
    (n_da, n_dcda), (_, n_dc), known = _sum_of_visits(x, w, visit, block)
    different, alike = (jnp.broadcast_to(a, n_da.shape) for a in (n_dc, 1 - n_dc))
    score = safe_divide(n_dcda, different) - safe_divide(n_da - n_dcda, alike)
    score = jnp.where(n_dc == 0, jnp.zeros_like(score), score)
    return jnp.where(known & tau_known, score, jnp.nan)


def _ranges(
    x: Float[Array, "n d"], present: Bool[Array, "n"]
) -> tuple[Float[Array, "d"], Float[Array, "d"], Bool[Array, ""]]:
    """Smallest value and span of every feature, and whether all values used are finite."""
    there = present[:, None]
    low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
    span = jnp.max(jnp.where(there, x, -jnp.inf), axis=0) - low
    return low, span, jnp.sum(0 * span) == 0  # 0 · ∞ is NaN


def _sum_of_visits(
    x: Float[Array, "n d"],
    w: Float[Array, "n"],
    visit: Callable[[Array, Array], tuple[Array, Array]],
    block: int,
) -> tuple[Float[Array, "r d"], Float[Array, "r"], Bool[Array, ""]]:
    """Return Σ_i w_i/m Σ_j c_rj diff(i, j), Σ_i w_i/m Σ_j c_rj, and if all values are finite.

    The index j is over q samples near i. `visit(i, row)` takes the index of a sample and its
    distances to all samples. It returns the indices `(q,)` of the near samples and their
    coefficients `(r, q)`.
    """
    n, mass = x.shape[0], w / jnp.sum(w)
    low, span, known = _ranges(x, w > 0)
    usable = (w > 0)[:, None] & known
    x = jnp.where(usable, x, 0)
    away = jnp.where(usable, x - low[None], 0)
    z = lax.stop_gradient(safe_divide(away, jnp.broadcast_to(span[None], x.shape)))
    chunks = coordinate_chunks(z)

    @jax.checkpoint  # do not keep the differences of every block for the backward pass
    def sums(first):
        # The last block also has samples of the block before, which get mass 0.
        start = jnp.minimum(first, n - block)
        i = start + jnp.arange(block)
        row = manhattan(lax.dynamic_slice_in_dim(chunks, start, block, axis=2), chunks)
        near, c = jax.vmap(visit)(i, row)
        c = jnp.where(i < first, 0, at(mass, i))[:, None, None] * c
        c = jnp.permute_dims(c, (1, 0, 2)).reshape(c.shape[1], -1)
        gaps = jnp.abs(lax.dynamic_slice_in_dim(x, start, block)[:, None] - at(x, near))
        return matmul(c, gaps.reshape(-1, gaps.shape[-1])), jnp.sum(c, axis=1)

    parts = lax.map(sums, jnp.arange(0, n, block))
    total, coefficients = jax.tree.map(lambda a: jnp.sum(a, axis=0), parts)
    total = jnp.where(known, total, jnp.nan)
    return safe_divide(total, jnp.broadcast_to(span[None], total.shape)), coefficients, known


def _nearest(
    i: Int[Array, ""], row: Float[Array, "n"], w: Float[Array, "n"], influence, k: int
) -> tuple[Int[Array, "k"], Float[Array, "k"]]:
    """The k samples of positive weight nearest to sample i, and their shares in the influence.

    If there are fewer than k such samples, the result is padded with i, with share 0. A weight of i
    above 1 stands for copies of i. The copies come first: they take a share of the influence, and
    their differences are 0.
    """
    others = (w > 0) & (jnp.arange(w.shape[0]) != i)
    near = smallest(jnp.where(others, row, jnp.inf), k)[1]
    missing, near = near < 0, jnp.where(near < 0, i, near)
    number = jnp.where(missing, 0, at(w, near))
    up_to = jnp.maximum(at(w, i) - 1, 0) + jnp.cumsum(number)
    share = influence(up_to) - influence(up_to - number)
    return near, safe_divide(share, jnp.broadcast_to(influence(up_to[-1]), share.shape))


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
