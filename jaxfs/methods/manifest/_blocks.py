"""ManiFeSt scores from kernels that are exact within blocks of similar features.

At small bandwidths a kernel is not of low rank: every feature has a few near neighbours, and the
score depends on them. The features are divided into blocks of near neighbours. For each block, both
kernels are restricted to the span of

    [E_b  Q],

where E_b holds the coordinate vectors of the block's features and Q is an orthonormal basis of the
leading eigenvectors of both kernels. The kernels between the features of the block are then exact,
and the other features are represented by Q. The scores of the block are diag |D| of the two
restricted kernels.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs._numerics import eps, matmul, safe_divide, symmetrize
from jaxfs.geometry import spd
from jaxfs.kernels._distances import Points
from jaxfs.linalg import _frechet, eigh
from jaxfs.linalg._divided_differences import abs_diagonal
from jaxfs.methods.manifest._nystrom import LazyKernel, kernel_product, widest_dtype

#: Number of power iterations for the direction along which a block is divided.
TURNS = 10


def block_score(
    kernels: tuple[LazyKernel, LazyKernel],
    factors: tuple[Float[Array, "d k"], Float[Array, "d k"]],
    ridge: Float[Array, ""],
    t: Float[Array, ""],
    size: int,
) -> Float[Array, "d"]:
    """Return diag |D| of kernels that are exact within blocks of at most `size` features.

    Q and the blocks are constants of the derivative.
    """
    shard = kernels[0].shard
    basis = shard.qr(lax.stop_gradient(jnp.concat(factors, axis=1)))[0]
    basis = jnp.where(shard.present[:, None], basis, 0.0)
    ridge, t, *changed = _differentiable_once((ridge, t, *((k.points, k.sigma) for k in kernels)))
    lazy = [
        kernel._replace(points=place, sigma=sigma)
        for kernel, (place, sigma) in zip(kernels, changed, strict=True)
    ]
    products = [kernel_product(kernel, basis) for kernel in lazy]
    points = [kernel.points for kernel in lazy]
    # Any block may need features of any device.
    basis, *products, points = shard.whole((basis, *products, points))
    dtype = widest_dtype()
    wide = basis.astype(dtype)
    gram = matmul(wide.T, wide)
    cores = [symmetrize(matmul(wide.T, product.astype(dtype))) for product in products]
    # Directions of Q that lie nearly within a block would be rescaled by more than 1/√least. The
    # rounding errors of `products` would then exceed the ridge.
    largest = jnp.maximum(*[jnp.max(jnp.diagonal(core)) for core in cores])
    least = lax.stop_gradient(8 * eps(basis.dtype) * safe_divide(largest, ridge.astype(dtype)))

    @jax.checkpoint
    def score(members: Int[Array, "s"]) -> Float[Array, "s"]:
        present = members < shard.total
        at = jnp.minimum(members, shard.total - 1)
        rows = lambda a: jnp.where(present[:, None], a[at], 0.0).astype(dtype)  # noqa: E731
        q = rows(basis)
        values, vectors = eigh(symmetrize(gram - matmul(q.T, q)))  # of Q outside the block
        kept = values > jnp.maximum(least, eps(basis.dtype))
        scale = jnp.where(kept, lax.rsqrt(jnp.where(kept, values, 1.0)), 0.0)
        turn = vectors * scale[None, :]
        pair = []
        for kernel, place, product, core in zip(lazy, points, products, cores, strict=True):
            here = jax.tree.map(lambda a: a[at], place)
            both = present[:, None] & present[None, :]
            inside = jnp.where(both, kernel.entries(here, here), 0.0).astype(dtype)
            kq = rows(product)
            across = matmul(kq - matmul(inside, q), turn)
            mixed = matmul(q.T, kq)
            outside = core - mixed - mixed.T + matmul(q.T, matmul(inside, q))
            outside = matmul(turn.T, matmul(outside, turn))
            k = jnp.block([[inside, across], [across.T, outside]])
            pair.append(symmetrize(k) + ridge.astype(dtype) * jnp.eye(k.shape[0], dtype=dtype))
        difference = spd.difference(pair[0], pair[1], t.astype(dtype))
        return abs_diagonal(difference)[: members.size]

    weights = tuple(kernel.weights for kernel in lazy)
    sigmas = tuple(kernel.sigma for kernel in lazy)
    members = partition(points, weights, sigmas, shard.total, size)
    scores = shard.map(score, members)
    out, at = jnp.zeros((shard.total,), basis.dtype), jnp.ravel(members)
    return shard.local(out.at[at].set(jnp.ravel(scores).astype(out.dtype), mode="drop"))


@jax.custom_jvp
def _differentiable_once(tree: Any) -> Any:
    """Return `tree`, with an error at the second derivative in any of its arrays."""
    return tree


@_differentiable_once.defjvp
def _differentiable_once_jvp(primals, tangents):
    (tree,), (tangent,) = primals, tangents
    once = lambda a, da: da * _frechet.differentiable_once(jnp.ones_like(a), a)  # noqa: E731
    return tree, jax.tree.map(once, tree, tangent)


def partition(
    points: list[Points],
    weights: tuple[Float[Array, "n"], ...],
    sigmas: tuple[Float[Array, ""], ...],
    total: int,
    size: int,
) -> Int[Array, "b s"]:
    """Divide the features into blocks of neighbours, of at most `size` features each.

    All features are sorted along their principal direction and divided at a multiple of the
    length of a block. Then both parts are, and so on. Coordinates are in units of the bandwidth of
    their class. The last block is filled with the index `total`.
    """
    number = math.ceil(total / size)
    length = math.ceil(total / number)
    levels = math.ceil(math.log2(number))
    scaled = [
        (place.rest + place.level[:, None]) * jnp.sqrt(w)[None, :] / sigma
        for place, w, sigma in zip(points, weights, sigmas, strict=True)
    ]
    z = lax.stop_gradient(jnp.concat(scaled, axis=1)[:total]).astype(jnp.float32)
    index = jnp.arange(total, dtype=jnp.int32)

    def divide(part, parts):
        member = jax.nn.one_hot(part, 2**levels, axis=0, dtype=z.dtype)
        centre = matmul(member, z) / jnp.maximum(jnp.sum(member, axis=1), 1)[:, None]
        rest = z - centre[part]

        def turn(_, along):
            direction = matmul(member, along[:, None] * rest)
            norm = jnp.sqrt(jnp.sum(direction**2, axis=1, keepdims=True))
            return jnp.sum(rest * safe_divide(direction, norm)[part], axis=1)

        along = lax.fori_loop(0, TURNS, turn, jnp.sum(rest * rest, axis=1))
        order = lax.sort((part, along, index), num_keys=2)[2]
        # Part p of 2ˡ holds the blocks b with ⌊2ˡ b / number⌋ = p.
        return jnp.zeros_like(part).at[order].set(index // length * parts // number), order

    parts = jnp.asarray([2 ** (i + 1) for i in range(levels)], jnp.int32)
    orders = lax.scan(divide, jnp.zeros((total,), jnp.int32), parts)[1]
    order = orders[-1] if levels else index
    return jnp.pad(order, (0, number * length - total), constant_values=total).reshape(-1, length)
