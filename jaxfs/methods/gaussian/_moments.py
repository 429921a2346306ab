"""Means, variances and covariances of the classes: what `_gaussian.py` makes Gaussians from."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from jaxfs._numerics import matmul, safe_divide

#: Rows of a block at most.
LARGEST_BLOCK = 128


def num_sums(blocks: float, rows: int) -> float:
    """How many roundings a sum over samples has, about: over blocks, and of a block."""
    return blocks**0.5 + rows**0.5


class Rows(NamedTuple):
    """Samples about the means of their classes, which give covariances by products.

    They are sorted by class into blocks of b rows that belong to one class each, the last of a
    class filled with zeros: products block by block run at the speed of memory, where a product
    masked by class would repeat the work for every class.
    """

    blocks: Float[Array, "m b d"]
    shares: Float[Array, "m b"]  # each sample's weight in its class; 0 where there is none
    label: Int[Array, "m"]  # each block's class
    num_classes: int
    axis: str | None = None  # of a mesh, over whose devices the samples are spread

    @property
    def num_sums(self) -> float:
        return num_sums(*self.blocks.shape[:2])

    def covariances_with(self, i: Int[Array, ""]) -> Float[Array, "c d"]:
        """Of feature i with every feature, in every class: one pass over the data."""
        return self.by_class(products(self.shares * column(self.blocks, i), self.blocks))

    def covariances_among(self, indices: Int[Array, "k"]) -> Float[Array, "c k k"]:
        x = jnp.take(self.blocks, indices, axis=-1)
        per_block = jax.vmap(lambda share, x: matmul(x.T * share[None], x))(self.shares, x)
        own = self.by_class(per_block.reshape(per_block.shape[0], -1))
        return own.reshape(-1, *per_block.shape[1:])

    def covariances(self) -> Float[Array, "c d d"]:
        """All of them, in one pass."""

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

    def by_class(self, a: Float[Array, "m d"]) -> Float[Array, "c d"]:
        """The sums over the blocks of each class: a product, or for many classes a scatter."""
        if self.num_classes > 32:
            out = jax.ops.segment_sum(a, self.label, self.num_classes, indices_are_sorted=True)
        else:
            classes = jnp.arange(self.num_classes, dtype=self.label.dtype)
            out = matmul((self.label[None] == classes[:, None]).astype(a.dtype), a)
        return out if self.axis is None else lax.psum(out, self.axis)


class Covariances(NamedTuple):
    """The classes' covariances themselves, where they fit: the samples are needed no more."""

    matrices: Float[Array, "c d d"]
    num_sums: float

    def covariances_with(self, i: Int[Array, ""]) -> Float[Array, "c d"]:
        return lax.dynamic_index_in_dim(self.matrices, i, axis=1, keepdims=False)

    def covariances_among(self, indices: Int[Array, "k"]) -> Float[Array, "c k k"]:
        return self.matrices[:, indices[:, None], indices[None, :]]


class Elsewhere(NamedTuple):
    """In place of data that are brought from outside, a feature at a time."""

    num_sums: float


class Moments(NamedTuple):
    """The classes' priors, means and variances, and the data that give their covariances."""

    data: Any  # Rows, Covariances or Elsewhere
    priors: Float[Array, "c"]
    deviations: Float[Array, "c d"]  # class means less the overall mean
    variances: Float[Array, "c d"]
    varies: Bool[Array, "d"]
    finite: Bool[Array, ""]


def moments(
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    weights: Float[Array, "n"] | None,
    num_classes: int,
    axis: str | None = None,
) -> Moments:
    """1/N moments of the classes; a sample of weight zero, or of no class, is as if absent.

    With an `axis` of a mesh, `x`, `y` and `weights` are the samples of one of its devices, and the
    moments those of all.
    """
    weights = jnp.ones(x.shape[0], x.dtype) if weights is None else weights
    rows = arranged(x, y, weights, num_classes, axis=axis)
    sizes, means = sizes_and_means(rows)
    centred = about(rows, sizes, means)
    variances = centred.variances()
    return summary(centred, sizes, means, variances, reach(rows))


def arranged(
    x: Float[Array, "n d"],
    y: Int[Array, "n"],
    weights: Float[Array, "n"],
    num_classes: int,
    *,
    origin: Float[Array, "d"] | None = None,
    axis: str | None = None,
) -> Rows:
    """The samples less an origin, with their weights for shares.

    The origin is a value that the feature takes, so that large means do not cost digits, and
    constants are exactly 0: the median of three samples, which is no outlier.
    """
    source, label, middle = _sorted_blocks(y, weights > 0, num_classes)
    there = source >= 0
    if origin is None:
        a, b, c = x[middle]
        median = jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))
        origin = _of_one(median, jnp.any(there), axis)
    blocks = jnp.where(there[..., None], x[source] - origin[None, None], 0)
    return Rows(blocks, jnp.where(there, weights[source], 0), label, num_classes, axis)


def _of_one(a: Array, has: Bool[Array, ""], axis: str | None) -> Array:
    """`a` of the first device that has any."""
    if axis is None:
        return a
    me, size = lax.axis_index(axis), lax.axis_size(axis)
    first = lax.pmin(jnp.where(has, me, size - 1), axis)
    return lax.psum(jnp.where(me == first, a, 0), axis)


def sizes_and_means(rows: Rows) -> tuple[Float[Array, "c"], Float[Array, "c d"]]:
    """The weight of each class, and its mean less the origin; 0 for one without samples."""
    sizes = rows.by_class(jnp.sum(rows.shares, axis=1, keepdims=True))[:, 0]
    return sizes, rows.by_class(products(_shares(rows, sizes), rows.blocks))


def _shares(rows: Rows, sizes: Float[Array, "c"]) -> Float[Array, "m b"]:
    return safe_divide(rows.shares, jnp.broadcast_to(sizes[rows.label][:, None], rows.shares.shape))


def about(rows: Rows, sizes: Float[Array, "c"], means: Float[Array, "c d"]) -> Rows:
    """The samples less the means of their classes, with their shares of the classes' weights."""
    there = (rows.shares > 0)[..., None]
    blocks = jnp.where(there, rows.blocks - means[rows.label][:, None], 0)
    return rows._replace(blocks=blocks, shares=_shares(rows, sizes))


def reach(rows: Rows) -> Float[Array, "d"]:
    """How far each feature gets from the origin; 0 for a constant."""
    away = jnp.max(jnp.abs(rows.blocks), axis=(0, 1))
    return away if rows.axis is None else lax.pmax(away, rows.axis)


def summary(data: Any, sizes, means, variances, reach) -> Moments:
    priors = sizes / jnp.sum(sizes)
    return Moments(
        data=data,
        priors=priors,
        deviations=means - matmul(priors[None], means),
        variances=variances,
        varies=reach > 0,
        finite=jnp.all(jnp.isfinite(priors)) & jnp.all(jnp.isfinite(means + variances)),
    )


@jax.jit
def count_varying(x: Float[Array, "n d"], present: Bool[Array, "n"]) -> Int[Array, ""]:
    """How many features take more than one value (NaN is one) in the samples present."""
    there = present[:, None]
    low = jnp.min(jnp.where(there, x, jnp.inf), axis=0)
    high = jnp.max(jnp.where(there, x, -jnp.inf), axis=0)
    return jnp.sum((high != low) | ~jnp.isfinite(high))


def _sorted_blocks(y, present, num_classes: int):
    """For every place in the blocks its sample, −1 for none; every block's class; three samples."""
    n, rows = y.shape[0], _block_rows(y.shape[0], num_classes)
    size = n // rows + num_classes
    y = jnp.where(present & (y >= 0) & (y < num_classes), y, num_classes).astype(jnp.int32)
    order = jnp.argsort(y, stable=True).astype(jnp.int32)  # those of no class come last
    classes = jnp.arange(num_classes, dtype=jnp.int32)
    counts = jnp.sum(y[None] == classes[:, None], axis=1, dtype=jnp.int32)
    blocks = -(-counts // rows)
    ends = jnp.cumsum(blocks)
    # From a sample's rank in the order to its place.
    shift = jnp.append(rows * (ends - blocks) - (jnp.cumsum(counts) - counts), rows * size)
    place = jnp.arange(n, dtype=jnp.int32) + shift[y[order]]
    source = jnp.full(size * rows, -1, jnp.int32).at[place].set(order, mode="drop")
    label = jnp.sum(
        jnp.arange(size, dtype=jnp.int32)[:, None] >= ends[None], axis=1, dtype=jnp.int32
    )
    label = jnp.minimum(label, num_classes - 1)
    last = jnp.maximum(jnp.sum(counts) - 1, 0)
    return (
        source.reshape(size, rows),
        label,
        order[jnp.stack([jnp.zeros_like(last), last // 2, last])],
    )


def _block_rows(n: int, num_classes: int) -> int:
    """A power of two, with few places left empty: less than a block a class."""
    wanted = n // (8 * num_classes)
    return min(2 ** max(wanted.bit_length() - 1, 0), LARGEST_BLOCK)


def num_places(n: int, num_classes: int) -> int:
    """Rows of all blocks, those left empty included."""
    rows = _block_rows(n, num_classes)
    return rows * (n // rows + num_classes)


def products(u: Float[Array, "g k"], rows: Float[Array, "g k d"]) -> Float[Array, "g d"]:
    """u_g @ rows_g."""
    return jnp.einsum("gk,gkd->gd", u, rows, precision=lax.Precision.HIGHEST)


def column(a: Float[Array, "*b d"], i: Int[Array, ""]) -> Float[Array, "*b"]:
    """Entry i of the last axis."""
    return lax.dynamic_index_in_dim(a, i, axis=-1, keepdims=False, allow_negative_indices=False)


def put(a: Float[Array, "*s"], new: Float[Array, "*t"], i: Int[Array, ""], *, axis: int) -> Array:
    """`a` with its entry i of an axis replaced."""
    return lax.dynamic_update_index_in_dim(a, new, i, axis, allow_negative_indices=False)
