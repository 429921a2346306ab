"""Sources of samples in blocks of rows: memory-mapped files, Parquet, or a function."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxfs import _checks

#: Approximate size of a block in bytes. It gives a device enough work and needs little memory.
_BYTES = 2**26


class Block(NamedTuple):
    """Rows of a table, padded to a fixed number with rows of weight zero."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray


class Source:
    """Samples that are read one block at a time, as often as needed.

    Use `from_blocks`, `from_npy` or `from_parquet` to create a source.

    - `num_features`, `dtype`: number of features and dtype of the samples.
    - `rows`: number of rows in a block.
    - `num_samples`: number of samples, known after the first pass. A later pass with a different
      number raises `ValueError`.
    """

    def __init__(self, read: Callable[[], Iterable[Any]], rows: int | None = None) -> None:
        self._read = read
        first = next(iter(self._checked()), None)
        if first is None:
            raise _checks.fail("the source", "of at least one sample", "none")
        self.num_features, self.dtype = first.x.shape[1], first.x.dtype
        self.rows = len(first.x) if rows is None else rows
        self.num_samples: int | None = None

    def __iter__(self) -> Iterator[Block]:
        seen = 0
        for block in self._checked():
            x = block.x
            if x.shape[1] != self.num_features or x.dtype != self.dtype:
                expected = f"an array with {self.num_features} features of dtype {self.dtype}"
                raise _checks.fail("a block", expected, f"{x.shape[1]} features of {x.dtype}")
            seen += len(x)
            for start in range(0, len(x), self.rows):
                yield Block(*(_pad_rows(a[start : start + self.rows], self.rows) for a in block))
        if self.num_samples not in (None, seen):
            expected = f"the {self.num_samples} samples of the previous pass"
            raise _checks.fail("the source", expected, seen)
        self.num_samples = seen

    def _checked(self) -> Iterator[Block]:
        """Read the blocks, check them, and yield those that are not empty."""
        for block in self._read():
            for a in block:
                _checks.unmasked(a, "a block")
            x, y, *weights = (np.asarray(a) for a in block)
            if x.dtype.kind in "iub":
                x = x.astype(jax.dtypes.canonicalize_dtype(np.float64))
            if x.ndim != 2 or x.dtype not in (np.float32, np.float64) or x.shape[1] == 0:
                expected = "(x, y) or (x, y, weights), x (n, d) of float32 or float64"
                raise _checks.fail("a block", expected, f"x of shape {x.shape}, dtype {x.dtype}")
            for what, a in zip(("label", "weight"), (y, *weights), strict=False):
                if a.shape != (len(x),):
                    expected = f"one {what} for each of {len(x)} rows"
                    raise _checks.fail("a block", expected, f"shape {a.shape}")
            for name, a in zip(("x", "y", "weights"), (x, y, *weights), strict=False):
                _checks.fits(a, jax.dtypes.canonicalize_dtype(x.dtype), f"{name} of a block")
            if len(x):
                w = weights[0] if weights else np.ones(len(x))
                yield Block(x, y, w.astype(x.dtype))


def _pad_rows(a: np.ndarray, rows: int) -> np.ndarray:
    if len(a) == rows:
        return np.ascontiguousarray(a)
    return np.pad(a, [(0, rows - len(a))] + [(0, 0)] * (a.ndim - 1))


def from_blocks(read: Callable[[], Iterable[Any]], *, rows: int | None = None) -> Source:
    """Return a source of samples that a function computes or fetches.

    - `read`: a function that is called once per pass. It returns blocks `(x, y)` or
      `(x, y, weights)`, the same blocks in every call.
    - `rows`: number of rows in a block of the computation; by default as many as the first block
      has.

    >>> import numpy as np
    >>> source = from_blocks(lambda: ((np.ones((4, 3)), np.zeros(4, int)) for _ in range(5)))
    >>> source.num_features
    3
    """
    _checks.function(read, "read", "a function that gives blocks")
    return Source(read, None if rows is None else _checks.integer(rows, "rows", low=1))


def from_npy(
    path: str | os.PathLike[str],
    y: Any,
    *,
    weights: Any = None,
    rows: int | None = None,
) -> Source:
    """Return a source of the rows of a matrix `(n, d)` in a memory-mapped `.npy` file.

    - `y`: `(n,)`, labels or targets, or the path of a `.npy` file that contains them.
    - `weights`: `(n,)`, sample weights, or the path of a `.npy` file that contains them.
    - `rows`: number of rows in a block; by default a block has about 64 MiB.
    """
    x = _memory_map(path)
    if x.ndim != 2:
        raise _checks.fail(os.fspath(path), "a matrix (n, d)", f"shape {x.shape}")
    n = len(x)
    columns = []
    for name, what, column in (("y", "label", y), ("weights", "weight", weights)):
        if name == "weights" and column is None:
            continue
        if isinstance(column, (str, os.PathLike)):
            column = _memory_map(column)
        _checks.unmasked(column, name)
        columns.append(np.asarray(column))
        if columns[-1].shape != (n,):
            got = f"{columns[-1].shape}"
            raise _checks.fail(name, f"of shape ({n},), one {what} a sample", got)
    # Integers and booleans of fewer than 4 bytes become float32 or float64 in the computation.
    size = _block_length(rows, n, x.shape[1] * max(4, x.dtype.itemsize))
    del x  # close the map

    def read() -> Iterator[tuple[np.ndarray, ...]]:
        for start in range(0, n, size):
            part = slice(start, start + size)
            # Open a new map for each block and copy the rows. The pages of a single map would stay
            # in memory.
            yield (np.array(_memory_map(path)[part]), *(column[part] for column in columns))

    return Source(read, size)


def from_parquet(
    path: str | os.PathLike[str],
    target: str,
    *,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
) -> Source:
    """Return a source of the rows of a Parquet file; needs polars.

    - `target`: the column of labels or targets. Text values are sorted and encoded as 0, 1, ….
    - `columns`: the columns of the features, in this order; by default all columns but the target.
    - `rows`: number of rows in a block; by default a block has about 64 MiB.
    """
    import polars as pl

    name = os.fspath(path)
    try:
        table = pl.scan_parquet(name)
        schema = table.collect_schema()
        (number,) = table.select(pl.len()).collect().row(0)
        # A target of another type may not be hashable; `in` would then raise `TypeError`.
        if type(target) is not str or target not in schema:
            raise _checks.fail("target", f"a column of {name}", repr(target))
        features = [c for c in schema if c != target] if columns is None else list(columns)
        for column in features:
            if column not in schema or not schema[column].is_numeric():
                got = f"{schema[column]}" if column in schema else "no such column"
                raise _checks.fail(f"column {column!r} of {name}", "numeric", got)
        codes = None
        if not schema[target].is_numeric() and schema[target] != pl.Boolean:
            values = table.select(pl.col(target).unique().sort()).collect()[target].drop_nulls()
            codes = {value: code for code, value in enumerate(values)}
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{name} cannot be read as Parquet: {error}") from error
    size = _block_length(rows, number, 8 * len(features))

    def read() -> Iterator[tuple[np.ndarray, ...]]:
        for start in range(0, number, size):
            block = table.select([*features, target]).slice(start, size).collect()
            for c in block.columns:
                if block[c].null_count():
                    raise _checks.fail(f"column {c!r} of {name}", "without missing values", "null")
            y = block[target]
            if codes is not None:
                y = y.replace_strict(codes, return_dtype=pl.Int64)
            yield block.select(features).to_numpy(), y.to_numpy()

    return Source(read, size)


def _memory_map(path: str | os.PathLike[str]) -> np.ndarray:
    try:
        return np.lib.format.open_memmap(os.fspath(path), mode="r")
    except (ValueError, EOFError) as error:  # a damaged or truncated file
        raise ValueError(f"{os.fspath(path)} cannot be read as .npy: {error}") from error


def _block_length(rows: int | None, number: int, row_bytes: int) -> int:
    size = max(1, _BYTES // max(1, row_bytes)) if rows is None else rows
    return min(_checks.integer(size, "rows", low=1), max(1, number))
