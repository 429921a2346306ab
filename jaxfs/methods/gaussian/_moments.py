"""Means, variances and covariances of the classes, from which the Gaussian models are built."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_divide

#: Maximum number of rows of a block.
LARGEST_BLOCK = 128


class ClassBlocks(NamedTuple):
    """Samples sorted by class into blocks of b rows, which give covariances by products.

    Each block belongs to one class, and the last block of a class is filled with zeros. Products
    block by block run at memory bandwidth, while a product masked by class would repeat the work
    for every class.
    """

    blocks: Float[Array, "m b d"]
    shares: Float[Array, "m b"]  # the weight of each sample; 0 for filling
    label: Int[Array, "m"]  # the class of each block
    num_classes: int
    axis: str | None = None  # the mesh axis over which the samples are sharded

    def covariances_with(self, i: Int[Array, ""]) -> Float[Array, "c d"]:
        """The covariances of feature i with every feature in every class, in one pass."""
        return self.by_class(products(self.shares * column(self.blocks, i), self.blocks))

    def covariances_among(self, indices: Int[Array, "k"]) -> Float[Array, "c k k"]:
        x = jnp.take(self.blocks, indices, axis=-1)
        per_block = jax.vmap(lambda share, x: matmul(x.T * share[None], x))(self.shares, x)
        own = self.by_class(per_block.reshape(per_block.shape[0], -1))
        return own.reshape(-1, *per_block.shape[1:])

    def covariances(self) -> Float[Array, "c d d"]:
        """The covariances of all pairs of features, in one pass."""

        def add(total, block):
            x, share, label = block
            return total.at[label].add(matmul(x.T * share[None], x)), None

        d = self.blocks.shape[-1]
        none = jnp.zeros((self.num_classes, d, d), self.blocks.dtype)
        return lax.scan(add, none, (self.blocks, self.shares, self.label))[0]

    def variances(self) -> Float[Array, "c d"]:
        squares = self.shares[..., None] * self.blocks * self.blocks
        return self.by_class(jnp.sum(squares, axis=1))

    def fourth_powers(
        self, deviations: Float[Array, "c d"], scale: Float[Array, "d"]
    ) -> Float[Array, "c d"]:
        """The means of ((x − overall mean) / scale)⁴ in the classes, without a copy of the data."""

        def of_block(block):
            x, share, label = block
            z = (x + deviations[label][None]) / scale[None]
            return matmul(share[None], jnp.square(jnp.square(z)))[0]

        return self.by_class(lax.map(of_block, (self.blocks, self.shares, self.label)))

    def sizes(self) -> Float[Array, "c"]:
        """The sum of the shares of each class."""
        return self.by_class(jnp.sum(self.shares, axis=1, keepdims=True))[:, 0]

    def sums(self) -> Float[Array, "c d"]:
        """The sums of the samples of each class, weighted by their shares."""
        return self.by_class(products(self.shares, self.blocks))

    def largest(self) -> Float[Array, "d"]:
        """The largest absolute value of each feature."""
        out = jnp.max(jnp.abs(self.blocks), axis=(0, 1))
        return out if self.axis is None else lax.pmax(out, self.axis)

    def centred(self, means: Float[Array, "c d"]) -> "ClassBlocks":
        """The samples less the means of their classes."""
        there = (self.shares > 0)[..., None]
        return self._replace(blocks=jnp.where(there, self.blocks - means[self.label][:, None], 0))

    def by_class(self, a: Float[Array, "m d"]) -> Float[Array, "c d"]:
        """The sums over the blocks of each class: a product, or for many classes a scatter."""
        if self.num_classes > 32:
            out = jax.ops.segment_sum(a, self.label, self.num_classes, indices_are_sorted=True)
        else:
            classes = jnp.arange(self.num_classes, dtype=self.label.dtype)
            out = matmul((self.label[None] == classes[:, None]).astype(a.dtype), a)
        return out if self.axis is None else lax.psum(out, self.axis)


class ClassCovariances(NamedTuple):
    """The covariance matrices of the classes, if they fit into memory."""

    matrices: Float[Array, "c d d"]

    def covariances_with(self, i: Int[Array, ""]) -> Float[Array, "c d"]:
        return lax.dynamic_index_in_dim(self.matrices, i, axis=1, keepdims=False)


class GaussianMoments(NamedTuple):
    """The priors, means and variances of the classes, and the data that give covariances."""

    data: Any  # ClassBlocks, ClassCovariances, or None if the covariances come from outside
    num_sums: float  # the approximate number of roundings of a sum over samples
    priors: Float[Array, "c"]
    deviations: Float[Array, "c d"]  # class means less the overall mean
    variances: Float[Array, "c d"]
    varies: Bool[Array, "d"]
    finite: Bool[Array, ""]


def gaussian_moments(
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    weights: Float[Array, "n"] | None,
    num_classes: int,
    axis: str | None = None,
) -> GaussianMoments:
    """1/N moments of the classes; samples of weight zero, or of no class, have no effect.

    With a mesh `axis`, `x`, `y` and `weights` are the samples of one device, and the moments are
    those of the samples of all devices.
    """
    weights = jnp.ones(x.shape[0], x.dtype) if weights is None else weights
    blocks = class_blocks(x, y, weights, num_classes, axis=axis)
    sizes, largest = blocks.sizes(), blocks.largest()
    own = jnp.broadcast_to(sizes[blocks.label][:, None], blocks.shares.shape)
    blocks = blocks._replace(shares=safe_divide(blocks.shares, own))
    means = blocks.sums()
    data, terms = blocks.centred(means), num_sums(*blocks.shares.shape)
    return moments_of(data, terms, sizes, means, data.variances(), largest)


def moments_of(data: Any, num_sums: float, sizes, means, variances, largest) -> GaussianMoments:
    """`means` and `largest`, the largest absolute values, are relative to a common origin."""
    priors = sizes / jnp.sum(sizes)
    return GaussianMoments(
        data=data,
        num_sums=num_sums,
        priors=priors,
        deviations=means - matmul(priors[None], means),
        variances=variances,
        varies=largest > 0,
        finite=jnp.all(jnp.isfinite(priors)) & jnp.all(jnp.isfinite(means + variances)),
    )


def num_sums(blocks: float, rows: int) -> float:
    """The approximate number of roundings of a sum over blocks of rows."""
    return blocks**0.5 + rows**0.5


def class_blocks(
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    weights: Float[Array, "n"],
    num_classes: int,
    *,
    origin: Float[Array, "d"] | None = None,
    axis: str | None = None,
) -> ClassBlocks:
    """The samples less an origin, in blocks, with their weights as shares.

    The default origin is the median of three samples: large means then cost no digits, constant
    features are exactly 0, and the origin is no outlier.
    """
    source, label, middle = _sorted_blocks(y, weights > 0, num_classes)
    there = source >= 0
    if origin is None:
        a, b, c = x[middle]
        origin = jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))
        if axis is not None:  # that of the first device with samples
            me, size = lax.axis_index(axis), lax.axis_size(axis)
            first = lax.pmin(jnp.where(jnp.any(there), me, size - 1), axis)
            origin = lax.psum(jnp.where(me == first, origin, 0), axis)
    blocks = jnp.where(there[..., None], x[source] - origin[None, None], 0)
    return ClassBlocks(blocks, jnp.where(there, weights[source], 0), label, num_classes, axis)


@jax.jit
def count_varying(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> Int[Array, ""]:
    """The number of features with more than one value (NaN is one) in the samples present."""
    there = present[:, None]
    low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
    high = jnp.max(jnp.where(there, x, -jnp.inf), axis=0)
    return jnp.sum((high != low) | ~jnp.isfinite(high))


def _sorted_blocks(y, present, num_classes: int):
    """The sample at each place of the blocks (−1 for none), their classes, and three samples."""
    n, rows = y.shape[0], _rows_per_block(y.shape[0], num_classes)
    size = n // rows + num_classes
    y = jnp.where(present & (y >= 0) & (y < num_classes), y, num_classes).astype(jnp.int32)
    order = jnp.argsort(y, stable=True).astype(jnp.int32)  # samples of no class come last
    classes = jnp.arange(num_classes, dtype=jnp.int32)
    counts = jnp.sum(y[None] == classes[:, None], axis=1, dtype=jnp.int32)
    blocks = -(-counts // rows)
    ends = jnp.cumsum(blocks)
    # The place of a sample less its rank in the order.
    shift = jnp.append(rows * (ends - blocks) - (jnp.cumsum(counts) - counts), rows * size)
    place = jnp.arange(n, dtype=jnp.int32) + shift[y[order]]
    source = jnp.full(size * rows, -1, jnp.int32).at[place].set(order, mode="drop")
    numbers = jnp.arange(size, dtype=jnp.int32)
    label = jnp.sum(numbers[:, None] >= ends[None], axis=1, dtype=jnp.int32)
    last = jnp.maximum(jnp.sum(counts) - 1, 0)
    middle = order[jnp.stack([jnp.zeros_like(last), last // 2, last])]
    return source.reshape(size, rows), jnp.minimum(label, num_classes - 1), middle


def _rows_per_block(n: int, num_classes: int) -> int:
    """The rows of a block: a power of two such that few places stay empty."""
    wanted = n // (8 * num_classes)
    return min(2 ** max(wanted.bit_length() - 1, 0), LARGEST_BLOCK)


def num_places(n: int, num_classes: int) -> int:
    """The number of rows of all blocks, including empty ones."""
    rows = _rows_per_block(n, num_classes)
    return rows * (n // rows + num_classes)


def products(u: Float[Array, "g k"], rows: Float[Array, "g k d"]) -> Float[Array, "g d"]:
    """u_g @ rows_g."""
    return jnp.einsum("gk,gkd->gd", u, rows, precision=lax.Precision.HIGHEST)


def column(a: Float[Array, "*b d"], i: Int[Array, ""]) -> Float[Array, "*b"]:
    """Entry i of the last axis."""
    return lax.dynamic_index_in_dim(a, i, axis=-1, keepdims=False, allow_negative_indices=False)


def put(a: Float[Array, "*s"], new: Float[Array, "*t"], i: Int[Array, ""], *, axis: int) -> Array:
    """`a` with entry i of an axis replaced."""
    return lax.dynamic_update_index_in_dim(a, new, i, axis, allow_negative_indices=False)
