"""Data sets of many sizes padded to a few shapes."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxfs import _checks

#: Of more sizes than this, so many stand for all.
_MOST_SIZES = 256


class Bucket(NamedTuple):
    """Data sets padded to one shape.

    - `arrays`: of each data set's arrays one with an axis more in front; zeros fill up the rows.
    - `weights`: `(data sets, rows)`, 1 for samples and 0 for padding; of `(x1, x2)` two.
    - `places`: `(data sets,)`, where in the collection they are.
    """

    arrays: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]
    places: np.ndarray


def bucket(datasets: Iterable[Any], *, num_shapes: int = 4) -> list[Bucket]:
    """A ragged collection as a few batches, whose padding has no weight.

    **Arguments**

    - `datasets`: each one `(x1, x2)`, the samples of two classes; `(x, y)`, samples and labels or
      targets; or `x` alone. Matrices are `(n, d)`, with any n.
    - `num_shapes`: at most so many numbers of rows for each number of features (padding cannot
      stand for features), chosen for the least padding.

    **Returns** buckets for `map_datasets`. Its score is called with the arrays and then the
    weights: `score(x1, x2, weights1, weights2)`, `score(x, y, weights)` or `score(x, weights)`.
    `unbucket` puts the answers back in order.

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
    kinds = {tuple((a.ndim, a.dtype) for a in one) for one in sets}
    if len(kinds) > 1:
        seen = " and ".join(
            sorted("(" + ", ".join(f"{n}-d {t}" for n, t in k) + ")" for k in kinds)
        )
        raise _checks.fail("datasets", "of one kind and dtype", seen)
    sizes = np.array([_sizes(one) for one in sets])
    features = np.array([one[0].shape[1] for one in sets])
    out = []
    for d in np.unique(features):
        of_width = np.flatnonzero(features == d)
        for group in _groups(sizes[of_width], num_shapes):
            places = np.sort(of_width[group])
            rows = sizes[places].max(axis=0)
            columns = zip(*(sets[i] for i in places), strict=True)
            row_of = rows if len(rows) > 1 else np.repeat(rows, len(sets[0]))
            arrays = tuple(_stack(c, r) for c, r in zip(columns, row_of, strict=True))
            each = zip(sizes[places].T, rows, strict=True)
            dtype = sets[0][0].dtype
            weights = tuple(_weights(s, r, dtype) for s, r in each)
            out.append(Bucket(arrays, weights, places))
    return out


def unbucket(buckets: Sequence[Bucket], answers: Sequence[Any]) -> list[Any]:
    """The answers for each data set, in the order of the collection, as NumPy arrays."""
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
    floats = tuple(a if a.ndim == 1 or a.dtype.kind == "f" else a.astype(float) for a in arrays)
    if len(arrays) == 2:
        same = 0 if arrays[1].ndim == 1 else 1  # rows of labels, or features of both classes
        if arrays[0].shape[same] != arrays[1].shape[0 if arrays[1].ndim == 1 else 1]:
            what = ("as many labels as samples", "as many features in both classes")[same]
            raise _checks.fail(name, what, f"{arrays[0].shape} and {arrays[1].shape}")
    return floats


def _sizes(one: tuple[np.ndarray, ...]) -> list[int]:
    """The numbers of rows that are padded apart: labels go with their samples."""
    return [len(a) for a in one if a.ndim == 2]


# ---- Which share a shape ------------------------------------------------------------------------


def _groups(sizes: np.ndarray, number: int) -> Iterator[np.ndarray]:
    """Which data sets share a shape: at most `number` groups, with the least padding in all.

    `sizes` `(data sets, arrays)` are numbers of rows; a group is padded to the largest of each.
    Sorted by their sum, the groups are runs of neighbours: for one array that is optimal, for two
    it is nearly so. The best runs are found by dynamic programming over where they end.
    """
    order = np.lexsort((*sizes.T, sizes.sum(axis=1)))
    ends = _ends(sizes[order])
    cost = _costs(sizes[order], ends)  # cost[i, j]: of one group from ends[i] to ends[j]
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


def _ends(ordered: np.ndarray) -> np.ndarray:
    """Where a group may end: after data sets that differ from the next, or some of these places."""
    change = np.flatnonzero(np.any(ordered[1:] != ordered[:-1], axis=1)) + 1
    if len(change) > _MOST_SIZES:
        change = change[np.linspace(0, len(change) - 1, _MOST_SIZES).astype(int)]
    return np.concatenate([[0], change, [len(ordered)]])


def _costs(ordered: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The rows of each run of data sets when padded to its largest."""
    runs = [ordered[a:b].max(axis=0) for a, b in itertools.pairwise(ends)]
    out = np.full((len(ends), len(ends)), np.inf)
    for i in range(len(runs)):
        largest = np.maximum.accumulate(np.array(runs[i:]), axis=0).sum(axis=1)
        out[i, i + 1 :] = largest * (ends[i + 1 :] - ends[i])
    return out


def _stack(arrays: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """`(data sets, rows, …)`, filled up with zeros."""
    out = np.zeros((len(arrays), rows, *arrays[0].shape[1:]), arrays[0].dtype)
    for place, a in zip(out, arrays, strict=True):
        place[: len(a)] = a
    return out


def _weights(sizes: np.ndarray, rows: int, dtype) -> np.ndarray:
    """`(data sets, rows)`: 1 for samples, 0 for padding."""
    return (np.arange(rows)[None] < sizes[:, None]).astype(dtype)
