"""Moments of the classes from passes over blocks of rows.

Sums over a block are taken on the device about an origin among the samples, those over blocks on
the host in float64: neither large offsets nor many rows cost digits. All classes have one origin:
what is constant in a class has a spread of rounding, where the functions that see the whole table
have 0.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfs import _checks
from jaxfs.methods.gaussian import _moments as moments
from jaxfs.streaming._blocks import Block, Source


class Sums(NamedTuple):
    """Of a first pass."""

    origin: np.ndarray  # (d,)
    sizes: np.ndarray  # (c,), the weight of each class
    counts: np.ndarray  # (c,), its samples of positive weight
    means: np.ndarray  # (c, d), less the origin
    reach: np.ndarray  # (d,), the largest distance from it
    low: np.ndarray  # (d,), the smallest values
    unit: np.ndarray  # (d,), a power of two near the reach, so that squares do not overflow
    by_class: bool  # or all samples as one class, and the targets are numbers


def add_up(source: Source, num_classes: int | None) -> Sums:
    """The first pass; `num_classes=None` takes all samples for one class."""
    _checks.record(source, "source", Source, "`from_blocks`")
    c = num_classes or 1
    d = source.num_features
    _checks.table_size(c, d, "num_classes")
    origin: np.ndarray | None = None
    sizes, sums, reach, low = np.zeros(c), np.zeros((c, d)), np.zeros(d), np.full(d, np.inf)
    counts = np.zeros(c, int)
    for block in _coded(source, num_classes):
        if origin is None:
            if not np.any(block.weights > 0):
                continue
            here = np.flatnonzero(block.weights > 0)
            three = block.x[here[[0, len(here) // 2, -1]]]
            origin = np.median(three, axis=0).astype(source.dtype)  # lest it be an outlier
        counts += np.bincount(block.y[block.weights > 0], minlength=c)
        size, total, away, least = (np.asarray(a, np.float64) for a in _first(block, origin, c))
        sizes, sums = sizes + size, sums + total
        reach, low = np.maximum(reach, away), np.minimum(low, least)
    if origin is None:
        raise _checks.fail("the source", "of samples with positive weight", "none")
    if np.any(sizes == 0):
        expected = f"such that each of {c} classes has samples"
        raise _checks.fail("y", expected, f"none of {int(np.argmin(sizes))}")
    limits = np.finfo(jax.dtypes.canonicalize_dtype(source.dtype))
    known = np.isfinite(reach) & (reach > 0)
    size = np.clip(np.where(known, reach, 1.0), 16 * float(limits.tiny), float(limits.max) / 16)
    unit = np.exp2(np.floor(np.log2(size)))
    means = sums / sizes[:, None]
    return Sums(origin, sizes, counts, means, reach, low, unit, num_classes is not None)


def average(
    source: Source, sums: Sums, function: Callable[..., jax.Array], *more, unit=None
) -> np.ndarray:
    """Over each class, of what `function(rows, *more)` sums over its samples, less their mean.

    `function` is a method of `Rows`; features are taken in a `unit`, 1 by default.
    """
    c = len(sums.sizes)
    scale = np.asarray(1.0 if unit is None else unit, source.dtype)
    about = [(a / scale).astype(source.dtype) for a in (sums.origin, sums.means)]
    out: Any = None
    for block in _coded(source, c if sums.by_class else None):
        block = block if unit is None else block._replace(x=block.x / scale)
        new = np.asarray(_later(block, *about, function, *more))
        out = new.astype(np.float64) if out is None else np.add(out, new, out=out)
    out /= sums.sizes.reshape(-1, *[1] * (out.ndim - 1))
    return out


def targets_with(source: Source, sums: Sums) -> tuple[np.ndarray, float]:
    """Σ w (x − mean)(y − mean of y) for every feature, in its unit, and Σ w (y − mean)².

    Two more passes.
    """
    mass: Any = 0.0
    total: Any = 0.0
    for block in source:
        if block.y.dtype.kind not in "fiub":
            raise _checks.fail("y", "numbers", f"dtype {block.y.dtype}")
        w = block.weights.astype(np.float64)
        mass, total = mass + w.sum(), total + w @ np.where(w > 0, block.y, 0)
    centre = total / mass
    means = sums.means.astype(source.dtype)
    unit = sums.unit.astype(source.dtype)
    product, square = np.zeros(source.num_features), 0.0
    for block in source:
        there = block.weights > 0
        target = np.where(there, block.y - centre, 0).astype(source.dtype)
        x = np.where(there[:, None], block.x, sums.origin[None])
        w = target * block.weights
        product += np.asarray(_product(x, w, sums.origin, means, unit), np.float64)
        square += float(block.weights.astype(np.float64) @ np.square(target, dtype=np.float64))
    return product, square


def _coded(source: Source, num_classes: int | None) -> Iterator[Block]:
    """Blocks with checked weights, and labels in int32."""
    for block in source:
        w = block.weights
        if np.any(w < 0) or not np.all(np.isfinite(w)):
            raise _checks.fail("weights", "finite and at least 0", w)
        y = np.zeros(len(w), np.int32)
        if num_classes is not None:
            y[w > 0] = _checks.labels(block.y[w > 0], "y", int(np.sum(w > 0)), num_classes)
        yield block._replace(y=y)


def _arranged(block: Any, num_classes: int, origin) -> moments.Rows:
    return moments.arranged(block.x, block.y, block.weights, num_classes, origin=origin)


@functools.partial(jax.jit, static_argnums=2)
def _first(block: Block, origin, num_classes: int):
    rows = _arranged(block, num_classes, origin)
    sizes = rows.by_class(jnp.sum(rows.shares, axis=1, keepdims=True))[:, 0]
    sums = rows.by_class(moments.products(rows.shares, rows.blocks))
    low = jnp.min(jnp.where((block.weights > 0)[:, None], block.x, jnp.inf), axis=0)
    return sizes, sums, moments.reach(rows), low


@functools.partial(jax.jit, static_argnums=3)
def _later(block: Block, origin, means, function, *more):
    rows = _arranged(block, means.shape[0], origin)
    alone = jnp.ones(means.shape[0], means.dtype)
    return function(moments.about(rows, alone, means), *more)


@jax.jit
def _product(x, target, origin, means, unit):
    away = (x - (origin + means[0])[None]) / unit[None]
    return jnp.matmul(target[None], away, precision="highest")[0]
