"""Means, variances and covariances of the classes, from which the Gaussian models are built."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from jaxfs import _checks
from jaxfs._numerics import matmul

#: Maximum number of rows of a block.
LARGEST_BLOCK = 128

#: Maximum number of classes for which sums over classes are products with a dense matrix.
FEW_CLASSES = 32


class ClassPlaces(NamedTuple):
    """The assignment of samples to the rows of `ClassBlocks`, made before the data are read.

    A place is one row of one block.
    """

    source: Int[Array, "m b"]  # the index of the sample; arbitrary for padding
    shares: Float[Array, "m b"]  # the weight divided by the size of the class; 0 for padding
    label: Int[Array, "m"]  # the class of each block
    members: Float[Array, "c m"] | None  # 1 for the blocks of a class; None for many classes
    middle: Int[Array, "3"]  # the first, middle and last sample in the order of classes
    sizes: Float[Array, "c"]  # the sum of the weights of each class
    priors: Float[Array, "c"]


class ClassBlocks(NamedTuple):
    """Samples sorted by class into blocks of b rows. Matrix products of blocks give covariances.

    Each block belongs to one class, and the last block of a class is padded with zeros. Products of
    blocks run at memory bandwidth, while a product masked by class would repeat the work for every
    class.
    """

    blocks: Float[Array, "m b d"]
    places: ClassPlaces
    axis: str | None = None  # the mesh axis over which the samples are sharded

    def covariances_with(self, i: Int[Array, ""]) -> Float[Array, "c d"]:
        """The covariances of feature i with every feature in every class, in one pass."""
        return self._by_class(products(self.places.shares * column(self.blocks, i), self.blocks))

    def covariances(self) -> Float[Array, "c d d"]:
        """The covariances of all pairs of features, in one pass."""

        def add(total, block):
            x, share, label = block
            return total.at[label].add(matmul(x.T * share[None], x)), None

        d, p = self.blocks.shape[-1], self.places
        none = jnp.zeros((p.sizes.shape[0], d, d), self.blocks.dtype)
        return lax.scan(add, none, (self.blocks, p.shares, p.label))[0]

    def variances(self) -> Float[Array, "c d"]:
        return self.means(jnp.square(self.blocks))

    def fourth_powers(
        self, deviations: Float[Array, "c d"], total: Float[Array, "d"]
    ) -> Float[Array, "c d"]:
        """The mean of (x − overall mean)⁴ / total² in each class; 0 for constant features."""
        away = self.blocks + self._rows(deviations)
        squares = away * (away / jnp.where(total != 0, total, 1)[None, None])  # never overflows
        return self.means(jnp.square(squares))

    def centred(self, means: Float[Array, "c d"]) -> "ClassBlocks":
        """Return the blocks with the class means subtracted from the samples."""
        there = (self.places.shares > 0)[..., None]
        return self._replace(blocks=jnp.where(there, self.blocks - self._rows(means), 0))

    def means(self, a: Float[Array, "m b d"]) -> Float[Array, "c d"]:
        """Return the mean of `a` over the samples of each class."""
        return self._by_class(products(self.places.shares, a))

    def _by_class(self, a: Float[Array, "m *s"]) -> Float[Array, "c *s"]:
        """Return the sum of `a` over the blocks of each class."""
        p = self.places
        if p.members is None:
            out = jax.ops.segment_sum(a, p.label, p.sizes.shape[0], indices_are_sorted=True)
        else:
            out = jnp.tensordot(p.members, a, 1, precision=lax.Precision.HIGHEST)
        return out if self.axis is None else lax.psum(out, self.axis)

    def _rows(self, a: Float[Array, "c d"]) -> Float[Array, "m 1 d"]:
        """Return for each block the row of `a` that belongs to its class."""
        p = self.places
        return (a[p.label] if p.members is None else matmul(p.members.T, a))[:, None]


class ClassCovariances(NamedTuple):
    """The full covariance matrices of the classes, for data where these fit into memory."""

    matrices: Float[Array, "c d d"]

    def covariances_with(self, i: Int[Array, ""]) -> Float[Array, "c d"]:
        return lax.dynamic_index_in_dim(self.matrices, i, axis=1, keepdims=False)


class GaussianMoments(NamedTuple):
    """The priors, means and variances of the classes, and the source of their covariances."""

    data: Any  # ClassBlocks, ClassCovariances, or None if the caller supplies covariances
    rounding: float  # the approximate relative rounding error of a sum over samples, in eps
    priors: Float[Array, "c"]
    deviations: Float[Array, "c d"]  # class means minus the overall mean
    variances: Float[Array, "c d"]
    total: Float[Array, "d"]  # the variances over all samples; exactly 0 for constant features


def class_places(
    y, weights, num_classes: int, dtype, axis: str | None = None, sizes=None
) -> ClassPlaces:
    """Return the places of the samples in blocks sorted by class.

    Samples of weight zero, and samples with a label out of range, get no place. `sizes` `(c,)`
    overrides the sums of the weights. NumPy sorts concrete labels and weights, so that no program
    has to be compiled.
    """
    xp, y, weights = _checks.with_module(y, weights)
    n, rows = y.shape[0], _rows_per_block(y.shape[0], num_classes)
    y = xp.where((weights > 0) & (y >= 0) & (y < num_classes), y, num_classes).astype(np.int32)
    order = xp.argsort(y, stable=True).astype(np.int32)  # samples of no class come last
    classes = np.arange(num_classes, dtype=np.int32)
    counts = xp.sum(y[None] == classes[:, None], axis=1, dtype=np.int32)
    blocks = -(-counts // rows)
    ends = xp.cumsum(blocks, dtype=np.int32)
    number = np.arange(n // rows + num_classes, dtype=np.int32)
    label = xp.sum(number[:, None] >= ends[None], axis=1, dtype=np.int32)
    label = xp.minimum(label, num_classes - 1)
    # `rank` is the position of a place in its class; `first` is the start of the class in `order`.
    rank = np.arange(rows, dtype=np.int32)[None]
    rank = rows * (number - (ends - blocks)[label])[:, None] + rank
    first = (xp.cumsum(counts, dtype=np.int32) - counts)[label][:, None]
    source = order[xp.minimum(first + rank, n - 1)]
    held = xp.where(rank < counts[label][:, None], xp.asarray(weights, dtype)[source], 0)
    own = label[None] == classes[:, None]
    if sizes is None:
        sizes = xp.sum(xp.where(own, xp.sum(held, axis=1)[None], 0), axis=1)
        sizes = sizes if axis is None else lax.psum(sizes, axis)
    last = xp.maximum(xp.sum(counts, dtype=np.int32) - 1, 0)
    middle = order[xp.stack([xp.zeros_like(last), last // 2, last])]
    shares = held / xp.where(sizes > 0, sizes, 1)[label][:, None]
    members = own.astype(dtype) if num_classes <= FEW_CLASSES else None
    return ClassPlaces(source, shares, label, members, middle, sizes, sizes / xp.sum(sizes))


def gaussian_moments(x: Float[Array, "n d"], places: ClassPlaces, axis: str | None = None):
    """Return the `GaussianMoments` of the classes, with covariances normalised by 1/N.

    With a mesh `axis`, `x` and `places` describe the samples of one device, and the moments
    describe the samples of all devices.
    """
    data = class_blocks(x, places, axis=axis)
    means = data.means(data.blocks)
    data = data.centred(means)
    rounding = rounding_error(*places.shares.shape)
    return moments_of(data, rounding, places.priors, means, data.variances())


def moments_of(data: Any, rounding: float, priors, means, variances) -> GaussianMoments:
    """Return the `GaussianMoments` from class means, relative to any origin, and variances."""
    deviations = means - class_sum(priors, means)[None]
    total = class_sum(priors, variances + jnp.square(deviations))
    return GaussianMoments(data, rounding, priors, deviations, variances, total)


def rounding_error(blocks: float, rows: int) -> float:
    """The approximate size of rounding errors in a sum over blocks of rows, in units of eps."""
    return blocks**0.5 + rows**0.5


def class_blocks(
    x: Float[Array, "n d"],
    places: ClassPlaces,
    *,
    origin: Float[Array, "d"] | None = None,
    axis: str | None = None,
) -> ClassBlocks:
    """Return the samples in blocks, with an origin subtracted.

    The default origin is the median of three samples. Large means then cause no loss of digits,
    constant features are exactly 0, and the origin is not an outlier.
    """
    there = places.shares > 0
    if origin is None:
        a, b, c = x[places.middle]
        origin = jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))
        if axis is not None:  # use the origin of the first device with samples
            me, size = lax.axis_index(axis), lax.axis_size(axis)
            first = lax.pmin(jnp.where(jnp.any(there), me, size - 1), axis)
            origin = lax.psum(jnp.where(me == first, origin, 0), axis)
    blocks = jnp.where(there[..., None], x[places.source] - origin[None, None], 0)
    return ClassBlocks(blocks, places, axis)


def count_varying(x: Float[Array, "n d"], present: np.ndarray, enough: int) -> int:
    """Count the features with more than one value in the samples `present`; NaN counts as varying.

    The count stops once it has reached `enough`.
    """
    table, count = np.asarray(x), 0
    for start in range(0, table.shape[1], 2 * enough):
        part = table[present, start : start + 2 * enough]
        with np.errstate(all="ignore"):
            count += int(np.count_nonzero(np.any(part - part[:1] != 0, axis=0)))
        if count >= enough:
            break
    return count


def _rows_per_block(n: int, num_classes: int) -> int:
    """The number of rows of a block: a power of two, chosen so that few places stay empty."""
    wanted = n // (8 * num_classes)
    return min(2 ** max(wanted.bit_length() - 1, 0), LARGEST_BLOCK)


def num_places(n: int, num_classes: int) -> int:
    """The number of rows of all blocks, including empty rows."""
    rows = _rows_per_block(n, num_classes)
    return rows * (n // rows + num_classes)


def products(u: Float[Array, "g k"], rows: Float[Array, "g k d"]) -> Float[Array, "g d"]:
    """Return u_g @ rows_g for every g."""
    return jnp.einsum("gk,gkd->gd", u, rows, precision=lax.Precision.HIGHEST)


def class_sum(weights: Float[Array, "c"], a: Float[Array, "c *s"]) -> Float[Array, "*s"]:
    """Return Σ_c weights_c a_c, as a sum instead of a matrix product, because XLA fuses sums."""
    return jnp.sum(weights.reshape(-1, *[1] * (a.ndim - 1)) * a, axis=0)


def column(a: Float[Array, "*b d"], i: Int[Array, ""]) -> Float[Array, "*b"]:
    """Return entry i of the last axis."""
    return lax.dynamic_index_in_dim(a, i, axis=-1, keepdims=False, allow_negative_indices=False)


def put(a: Float[Array, "*s"], new: Float[Array, "*t"], i: Int[Array, ""], *, axis: int) -> Array:
    """Return `a` with entry i of an axis replaced by `new`."""
    return lax.dynamic_update_index_in_dim(a, new, i, axis, allow_negative_indices=False)
