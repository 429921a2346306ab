"""Manhattan distances of a block of points to all others, at the speed of additions.

Unlike Euclidean ones they are no matrix product. XLA's fused loops run over the points, whose
coordinates must then be contiguous: points come as columns, a few coordinates at a time.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

#: So many coordinates are added in one loop: with 8 the sums travel to memory and back too often,
#: with 32 the loop runs out of registers, and both were slower on CPU. A reduction over the axis of
#: coordinates, instead of the sum spelt out, took a hundred times as long.
_TOGETHER = 16


def coordinate_chunks(x: Float[Array, "n p"]) -> Float[Array, "c u n"]:
    """Points as columns, their coordinates in chunks; zeros fill the last."""
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % _TOGETHER)))
    return x.T.reshape(-1, _TOGETHER, x.shape[0])


def manhattan(a: Float[Array, "c u b"], z: Float[Array, "c u n"]) -> Float[Array, "b n"]:
    """Σ_p |a_ip − z_jp| between points that `coordinate_chunks` has turned.

    **Numerics** symmetric to the last bit, 0 between equal points, whatever the block.

    **Cost** O(b n p) time; memory O(b n).
    """

    def add(total, chunk):
        ours, theirs = chunk
        gaps = [jnp.abs(ours[u][:, None] - theirs[u][None, :]) for u in range(_TOGETHER)]
        return total + functools.reduce(jnp.add, gaps), None

    return lax.scan(add, jnp.zeros((a.shape[-1], z.shape[-1]), z.dtype), (a, z))[0]
