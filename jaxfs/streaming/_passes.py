"""Moments of the classes, computed in passes over blocks of rows.

The sums over one block are computed on the device, relative to an origin, the median of three
samples. The sums over all blocks are computed on the host in float64. Large offsets and many rows
therefore do not reduce the accuracy. All classes share one origin. For this reason, a feature that
is constant in a class has a variance of the size of rounding errors here, while the functions on
the whole table give exactly 0.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfs import _checks
from jaxfs.methods.gaussian._moments import class_blocks, class_places
from jaxfs.streaming._blocks import Block, Source


class FirstPass(NamedTuple):
    """Statistics gathered in the first pass."""

    origin: np.ndarray  # (d,)
    sizes: np.ndarray  # (c,), the weight of each class
    counts: np.ndarray  # (c,), the number of samples of positive weight
    means: np.ndarray  # (c, d), relative to the origin
    largest: np.ndarray  # (d,), the largest absolute value, relative to the origin
    low: np.ndarray  # (d,), the smallest values
    by_class: bool  # false if all samples are one class

    @property
    def unit(self) -> np.ndarray:
        """Return a power of two near the largest value of each feature.

        Squares of features that are divided by their units do not overflow.
        """
        limits = np.finfo(jax.dtypes.canonicalize_dtype(self.origin.dtype))
        known = np.isfinite(self.largest) & (self.largest > 0)
        size = np.where(known, self.largest, 1.0)
        size = np.clip(size, 16 * float(limits.tiny), float(limits.max) / 16)
        return np.exp2(np.floor(np.log2(size)))


def first_pass(source: Source, num_classes: int | None) -> FirstPass:
    """Compute sizes, means and ranges; `num_classes=None` treats all samples as one class."""
    _checks.record(source, "source", Source, "`from_blocks`")
    c = num_classes or 1
    _checks.table_size(c, source.num_features, "num_classes")
    origin: np.ndarray | None = None
    d = source.num_features
    counts, sizes, sums = np.zeros(c, int), np.zeros(c), np.zeros((c, d))
    largest, low = np.zeros(d), np.full(d, np.inf)
    for block in _coded(source, num_classes):
        here = np.flatnonzero(block.weights > 0)
        if not len(here):
            continue
        if origin is None:  # a median, because a single sample could be an outlier
            three = block.x[here[[0, len(here) // 2, -1]]]
            origin = np.median(three, axis=0).astype(source.dtype)
        counts += np.bincount(block.y[here], minlength=c)
        size, total, away, least = (np.asarray(a, float) for a in _block_sums(block, origin, c))
        sizes, sums = sizes + size, sums + total
        largest, low = np.maximum(largest, away), np.minimum(low, least)
    if origin is None:
        raise _checks.fail("the source", "of samples with positive weight", "none")
    if np.any(sizes == 0):
        expected = f"such that each of {c} classes has samples"
        raise _checks.fail("y", expected, f"none of {int(np.argmin(sizes))}")
    means, by_class = sums / sizes[:, None], num_classes is not None
    return FirstPass(origin, sizes, counts, means, largest, low, by_class)


def class_average(
    source: Source, first: FirstPass, function: Callable[..., jax.Array], *more, unit: Any = 1.0
) -> np.ndarray:
    """Return the average over each class of a statistic, a method of `ClassBlocks`.

    The method `function` is called on samples minus their class mean, with the arguments `more`.
    Features are divided by `unit`.
    """
    scale, sizes = (np.asarray(a, source.dtype) for a in (unit, first.sizes))
    about = [(a / scale).astype(source.dtype) for a in (first.origin, first.means)]
    out: Any = None
    for block in _coded(source, len(sizes) if first.by_class else None):
        new = np.asarray(_block_average(block, scale, *about, sizes, function, *more))
        out = new.astype(np.float64) if out is None else np.add(out, new, out=out)
    return out


class WithTarget(Source):
    """The samples of another source, with their targets as the last feature."""

    def __init__(self, source: Source) -> None:
        _checks.record(source, "source", Source, "`from_blocks`")
        self.source, self.dtype, self.num_features = source, source.dtype, source.num_features + 1

    def __iter__(self) -> Iterator[Block]:
        for block in self.source:
            if block.y.dtype.kind not in "fiub":
                raise _checks.fail("y", "numbers", f"dtype {block.y.dtype}")
            target = block.y.astype(self.dtype)[:, None]
            yield block._replace(x=np.concatenate([block.x, target], axis=1))


def _coded(source: Source, num_classes: int | None) -> Iterator[Block]:
    """Yield blocks with checked weights, and with labels in int32."""
    for block in source:
        w = block.weights
        if np.any(w < 0) or not np.all(np.isfinite(w)):
            raise _checks.fail("weights", "finite and at least 0", w)
        y = np.zeros(len(w), np.int32)
        if num_classes is not None:
            y[w > 0] = _checks.labels(block.y[w > 0], "y", int(np.sum(w > 0)), num_classes)
        yield block._replace(y=y)


@functools.partial(jax.jit, static_argnums=2)
def _block_sums(block: Any, origin, num_classes: int):
    """Sizes and sums of the classes, largest absolute values, smallest values."""
    places = class_places(block.y, block.weights, num_classes, block.x.dtype)
    rows = class_blocks(block.x, places, origin=origin)
    sums = places.sizes[:, None] * rows.means(rows.blocks)
    low = jnp.min(jnp.where((block.weights > 0)[:, None], block.x, jnp.inf), axis=0)
    return places.sizes, sums, jnp.max(jnp.abs(rows.blocks), axis=(0, 1)), low


@functools.partial(jax.jit, static_argnums=5)
def _block_average(block: Any, scale, origin, means, sizes, function, *more):
    """The part of a block in the averages over classes of the given sizes."""
    places = class_places(block.y, block.weights, len(sizes), block.x.dtype, sizes=sizes)
    rows = class_blocks(block.x / jnp.atleast_2d(scale), places, origin=origin)
    return function(rows.centred(means), *more)
