"""Scores of many data sets on the devices of a mesh, and padding of unequal data sets."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxfs import _checks
from jaxfs._numerics import map_chunks
from jaxfs.distributed._mesh import check_axes, placed, replicated

_Result = TypeVar("_Result")

#: Maximum number of sizes that the grouping considers as the end of a group of data sets.
_MOST_SIZES = 256

# ---- Many data sets over a mesh -----------------------------------------------------------------


def map_datasets(
    score: Callable[..., _Result],
    mesh: Mesh,
    *,
    axis: str | tuple[str, ...] | None = None,
    batch_size: int = 64,
    replicate: bool = False,
) -> Callable[..., _Result]:
    """Return a function that applies `score` to many data sets, on the devices of a mesh.

    **Arguments**

    - `score`: a pure function of the arrays of one data set. Its results have the same shape for
      every data set.
    - `mesh`: a mesh of devices. All devices get the same number of data sets.
    - `axis`: the mesh axis, or axes, over which the data sets are sharded; by default all.
    - `batch_size`: the maximum number of data sets that a device computes together (`vmap`). Larger
      batches need more memory, and are hardly faster on a CPU. On a CPU, use 1 if `score` is not
      from jaxfs and calls `jax.numpy.linalg`: with larger batches, several devices can wait for
      each other forever.
    - `replicate`: whether every device gets all results, so that `numpy.asarray` works on every
      host. Otherwise each result stays on its device, if the number of data sets is a multiple of
      the number of devices.

    **Returns** a function with the arguments of `score`. Each argument has an additional first axis
    over the data sets, or is a list of arrays of one shape. The results have the same first axis.
    Any number of data sets is possible: copies of the last data set fill up the batch. The function
    is compiled once for each shape.

    `bucket` prepares data sets of different sizes.

    >>> import jax, jaxfs
    >>> mesh = jax.make_mesh((1,), ("data",))
    >>> x1, x2 = jax.random.normal(jax.random.key(0), (2, 5, 30, 4))
    >>> map_datasets(jaxfs.manifest_score, mesh)(x1, x2).shape
    (5, 4)
    """
    _checks.function(score, "score", "a function of the arrays of a data set")
    axes = check_axes(mesh, axis)
    batch_size = _checks.integer(batch_size, "batch_size", low=1)
    replicate = _checks.flag(replicate, "replicate")
    devices = math.prod(mesh.shape[name] for name in axes)

    def on_device(*arrays):
        return map_chunks(lambda one: score(*one), arrays, batch_size)

    spec = P(axes)
    sharded = jax.shard_map(on_device, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)

    @functools.partial(jax.jit, static_argnums=0)
    def run(number, *arrays):
        out = sharded(*arrays)
        if replicate or number % devices:
            out = jax.tree.map(lambda a: replicated(a, mesh)[:number], out)
        return out

    def mapped(*datasets):
        arrays = [_batch(a, i) for i, a in enumerate(datasets)]
        numbers = {len(a) for a in arrays}
        if len(numbers) != 1:
            raise _checks.fail("arrays", "of the same number of data sets", sorted(numbers))
        number = numbers.pop()
        if number % devices:  # a sharded array cannot be filled up
            arrays = [placed(a, mesh) if isinstance(a, jax.Array) else a for a in arrays]
            rows = np.arange(math.ceil(number / devices) * devices)
            arrays = [a[np.minimum(rows, number - 1)] for a in arrays]
        return run(number, *(placed(a, mesh, axes) for a in arrays))

    return mapped


def _batch(a: Any, place: int) -> Any:
    """Return an array with the data sets on its first axis; a list of arrays is stacked."""
    name = f"argument {place}"
    if isinstance(a, (list, tuple)):
        shapes = {np.shape(one) for one in a}
        if len(shapes) > 1:
            expected = "data sets of one shape; `bucket` pads samples, and separates by features"
            raise _checks.fail(name, expected, " and ".join(map(str, sorted(shapes)[:3])))
        if any(isinstance(one, jax.Array) for one in a):
            a = jnp.stack(a)
        else:
            a = np.stack([_checks.numpy_or_jax(one, name) for one in a]) if a else np.zeros(0)
    if not isinstance(a, jax.Array):
        a = _checks.numpy_or_jax(a, name)
        _checks.fits(a, jax.dtypes.canonicalize_dtype(a.dtype), name)
    if a.ndim == 0 or a.shape[0] == 0:
        raise _checks.fail(name, "an array with data sets on its first axis", f"shape {a.shape}")
    return a


# ---- Data sets of unequal sizes -----------------------------------------------------------------


class Bucket(NamedTuple):
    """Data sets padded to one shape.

    - `arrays`: the arrays of the data sets, stacked along a new first axis; padded rows are zero.
    - `weights`: a tuple of one array `(data sets, rows)`, with 1 for samples and 0 for padding; for
      data sets `(x1, x2)`, a tuple of two arrays.
    - `places`: `(data sets,)`, the positions of the data sets in the collection.
    """

    arrays: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]
    places: np.ndarray


def bucket(datasets: Iterable[Any], *, num_shapes: int = 4) -> list[Bucket]:
    """Pad data sets with different numbers of samples into a few batches; padding has weight zero.

    **Arguments**

    - `datasets`: each is `(x1, x2)`, the samples of two classes; `(x, y)`, samples and labels or
      targets; or `x` alone. Matrices are `(n, d)`, with any n.
    - `num_shapes`: the maximum number of different shapes among data sets with the same number of
      features. The shapes are chosen for the least padding. Features are never padded.

    **Returns** buckets for `map_datasets`. The score receives the arrays and then the weights:
    `score(x1, x2, weights1, weights2)`, `score(x, y, weights)` or `score(x, weights)`. `unbucket`
    restores the order of the results.

    >>> import jax, jaxfs, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> datasets = [(rng.normal(size=(n, 4)), rng.normal(size=(9, 4))) for n in (8, 30, 9, 31)]
    >>> buckets = bucket(datasets, num_shapes=2)
    >>> [b.arrays[0].shape for b in buckets]
    [(2, 31, 4), (2, 9, 4)]
    >>> score = lambda a, b, v, w: jaxfs.manifest_score(a, b, weights1=v, weights2=w)
    >>> run = jaxfs.distributed.map_datasets(score, jax.make_mesh((1,), ("data",)))
    >>> answers = unbucket(buckets, [run(*b.arrays, *b.weights) for b in buckets])
    >>> len(answers), answers[0].shape
    (4, (4,))
    """
    num_shapes = _checks.integer(num_shapes, "num_shapes", low=1)
    if not isinstance(datasets, Iterable):
        raise _checks.fail("datasets", "an iterable of data sets", type(datasets).__name__)
    sets = [_dataset(one, i) for i, one in enumerate(datasets)]
    if not sets:
        raise _checks.fail("datasets", "at least one", "none")
    kinds = {", ".join(f"{a.ndim}-d {a.dtype}" for a in one) for one in sets}
    if len(kinds) > 1:
        seen = " and ".join(f"({kind})" for kind in sorted(kinds))
        raise _checks.fail("datasets", "of one kind and dtype", seen)
    # Labels have as many rows as their samples, so only matrices are counted.
    sizes = np.array([[len(a) for a in one if a.ndim == 2] for one in sets])
    features = np.array([one[0].shape[1] for one in sets])
    out = []
    for d in np.unique(features):
        of_width = np.flatnonzero(features == d)
        for group in _shape_groups(sizes[of_width], num_shapes):
            places = np.sort(of_width[group])
            out.append(_bucket_of([sets[i] for i in places], sizes[places], places))
    return out


def _bucket_of(sets: list[tuple[np.ndarray, ...]], sizes: np.ndarray, places: np.ndarray) -> Bucket:
    rows = sizes.max(axis=0)
    arrays = []
    for column, r in zip(zip(*sets, strict=True), itertools.cycle(rows), strict=False):
        out = np.zeros((len(sets), r, *column[0].shape[1:]), column[0].dtype)
        for place, a in zip(out, column, strict=True):
            place[: len(a)] = a
        arrays.append(out)
    there = [np.arange(r)[None] < s[:, None] for s, r in zip(sizes.T, rows, strict=True)]
    weights = tuple(a.astype(arrays[0].dtype) for a in there)
    return Bucket(tuple(arrays), weights, places)


def unbucket(buckets: Sequence[Bucket], answers: Sequence[Any]) -> list[Any]:
    """Return the result of each data set as NumPy arrays, in the order of the collection."""
    if len(buckets) != len(answers):
        raise _checks.fail("answers", f"one for each of {len(buckets)} buckets", len(answers))
    out: list[Any] = [None] * sum(len(b.places) for b in buckets)
    for b, answer in zip(buckets, answers, strict=True):
        answer = jax.tree.map(np.asarray, answer)
        for place, i in enumerate(b.places):
            out[i] = jax.tree.map(lambda a, place=place: a[place], answer)
    return out


def _dataset(one: Any, place: int) -> tuple[np.ndarray, ...]:
    name = f"data set {place}"
    parts = one if isinstance(one, (list, tuple)) else (one,)
    arrays = tuple(np.asarray(_checks.numpy_or_jax(a, name)) for a in parts)
    if not 1 <= len(arrays) <= 2 or arrays[0].ndim != 2 or arrays[-1].ndim not in (1, 2):
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise _checks.fail(name, "(x1, x2), (x, y) or x", f"shapes {shapes}")
    # Labels have as many rows as the samples; a second class has as many columns.
    axis = arrays[-1].ndim - 1
    if arrays[0].shape[axis] != arrays[-1].shape[axis]:
        expected = ("of as many labels as samples", "of as many features in both classes")[axis]
        raise _checks.fail(name, expected, f"{arrays[0].shape} and {arrays[1].shape}")
    return tuple(a if a.ndim == 1 or a.dtype.kind == "f" else a.astype(float) for a in arrays)


def _shape_groups(sizes: np.ndarray, number: int) -> Iterator[np.ndarray]:
    """Yield at most `number` groups of data sets to pad to one shape, with the least total padding.

    `sizes` `(data sets, arrays)` are numbers of rows. The arrays of a group are padded to the
    largest array. The data sets are sorted by their total number of rows, and each group is a run
    of neighbours in this order. Such groups are optimal for one array per data set, and nearly
    optimal for two. Dynamic programming finds the best ends of the runs.
    """
    order = np.lexsort((*sizes.T, sizes.sum(axis=1)))
    ordered = sizes[order]
    ends = np.flatnonzero(np.any(ordered[1:] != ordered[:-1], axis=1)) + 1
    if len(ends) > _MOST_SIZES:
        ends = ends[np.linspace(0, len(ends) - 1, _MOST_SIZES).astype(int)]
    ends = np.concatenate([[0], ends, [len(ordered)]])
    cost = _padded_rows(ordered, ends)  # cost[i, j]: one group from ends[i] to ends[j]
    last = len(ends) - 1
    best = np.full((number + 1, last + 1), np.inf)
    best[0, 0] = 0
    origin = np.zeros((number + 1, last + 1), int)
    for k in range(1, number + 1):
        through = best[k - 1][:, None] + cost
        origin[k], best[k] = through.argmin(axis=0), through.min(axis=0)
    k, j = int(best[:, last].argmin()), last
    while k:
        i = origin[k, j]
        yield order[ends[i] : ends[j]]
        k, j = k - 1, i


def _padded_rows(ordered: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the number of rows of each run of data sets after padding to the largest data set.

    Entry [i, j] belongs to the run from `ends[i]` to `ends[j]`.
    """
    runs = np.array([ordered[a:b].max(axis=0) for a, b in itertools.pairwise(ends)])
    out = np.full((len(ends), len(ends)), np.inf)
    for i in range(len(runs)):
        largest = np.maximum.accumulate(runs[i:], axis=0).sum(axis=1)
        out[i, i + 1 :] = largest * (ends[i + 1 :] - ends[i])
    return out
