"""Samples in blocks of rows: from memory-mapped files, Parquet, or a function that makes them."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxfs import _checks

#: Bytes of a block, about: enough to keep a device busy, little beside what is computed from it.
_BYTES = 2**26


class Block(NamedTuple):
    """Rows of a table, filled up to a fixed number with rows of no weight."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray


class Source:
    """Samples that are read a block at a time, as often as needed; made by the functions below.

    - `num_features`, `dtype`: of the samples; `rows`: of a block.
    - `num_samples`: known after the first pass; a later pass with other numbers of samples raises.
    """

    def __init__(self, read: Callable[[], Iterable[Any]], rows: int | None = None) -> None:
        self._read = read
        first = next(iter(self._checked()), None)
        if first is None:
            raise _checks.fail("the source", "of at least one sample", "none")
        x = first[0]
        self.num_features, self.dtype = x.shape[1], x.dtype
        self.rows = len(x) if rows is None else rows
        self.num_samples: int | None = None

    def __iter__(self) -> Iterator[Block]:
        seen = 0
        for x, y, weights in self._checked():
            if x.shape[1] != self.num_features or x.dtype != self.dtype:
                expected = f"of {self.num_features} features of dtype {self.dtype}"
                raise _checks.fail("a block", expected, f"{x.shape[1]} of {x.dtype}")
            seen += len(x)
            for start in range(0, len(x), self.rows):
                part = slice(start, start + self.rows)
                yield self._filled(x[part], y[part], None if weights is None else weights[part])
        if self.num_samples not in (None, seen):
            raise _checks.fail(
                "the source", f"the {self.num_samples} samples of the pass before", seen
            )
        self.num_samples = seen

    def _checked(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
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
                yield x, y, weights[0] if weights else None

    def _filled(self, x, y, weights) -> Block:
        weights = np.ones(len(x)) if weights is None else weights
        weights = weights.astype(self.dtype)
        if len(x) == self.rows:
            return Block(np.ascontiguousarray(x), y, weights)
        more = self.rows - len(x)
        x = np.concatenate([x, np.zeros((more, x.shape[1]), x.dtype)])
        return Block(x, np.pad(y, (0, more)), np.pad(weights, (0, more)))


def from_blocks(read: Callable[[], Iterable[Any]], *, rows: int | None = None) -> Source:
    """Samples that a function makes or fetches.

    - `read`: called for every pass; gives blocks `(x, y)` or `(x, y, weights)`, always the same.
    - `rows`: of the blocks that are computed with; by default as many as the first has.

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
    """A matrix `(n, d)` in a `.npy` file, mapped into memory and read in blocks of rows.

    - `y`: `(n,)`, labels or targets, or the path of a `.npy` file of them; `weights` likewise.
    - `rows`: of a block; by default some 64 MiB.
    """
    x = _mapped(path)
    if x.ndim != 2:
        raise _checks.fail(os.fspath(path), "a matrix (n, d)", f"shape {x.shape}")
    n, d = x.shape
    columns = []
    for name, what, column in (("y", "label", y), ("weights", "weight", weights)):
        if name == "weights" and column is None:
            continue
        column = np.asarray(_mapped(column) if isinstance(column, (str, os.PathLike)) else column)
        if column.shape != (n,):
            raise _checks.fail(name, f"of shape ({n},), one {what} a sample", f"{column.shape}")
        columns.append(column)
    size = _block_rows(d, max(4, x.dtype.itemsize)) if rows is None else rows
    size = min(_checks.integer(size, "rows", low=1), max(1, n))
    del x

    def read() -> Iterator[tuple[np.ndarray, ...]]:
        for start in range(0, n, size):
            part = slice(start, start + size)
            # Mapped anew and copied: the pages of one mapping would stay in memory.
            yield (np.array(_mapped(path)[part]), *(column[part] for column in columns))

    return Source(read, size)


def from_parquet(
    path: str | os.PathLike[str],
    target: str,
    *,
    columns: Sequence[str] | None = None,
    rows: int | None = None,
) -> Source:
    """The columns of a Parquet file, read in blocks of rows; needs polars.

    - `target`: the column of labels or targets. Text is coded by its sorted values, 0, 1, ….
    - `columns`: the features, in this order; by default all other columns.
    - `rows`: of a block; by default some 64 MiB.
    """
    import polars as pl

    name = os.fspath(path)
    try:
        table = pl.scan_parquet(name)
        schema = table.collect_schema()
        (number,) = table.select(pl.len()).collect().row(0)
        # A type that cannot be a name may not be hashable either.
        if type(target) is not str or target not in schema:
            raise _checks.fail("target", f"a column of {name}", repr(target))
        features = [c for c in schema if c != target] if columns is None else list(columns)
        for column in features:
            if column not in schema or not schema[column].is_numeric():
                got = f"{schema[column]}" if column in schema else "no such column"
                raise _checks.fail(f"column {column!r} of {name}", "numbers", got)
        codes = None
        if not schema[target].is_numeric() and schema[target] != pl.Boolean:
            values = table.select(pl.col(target).unique().sort()).collect()[target]
            codes = {value: code for code, value in enumerate(values) if value is not None}
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{name} cannot be read as Parquet: {error}") from error
    size = _block_rows(len(features), 8) if rows is None else rows
    size = min(_checks.integer(size, "rows", low=1), max(1, number))

    def read() -> Iterator[tuple[np.ndarray, ...]]:
        for start in range(0, number, size):
            block = table.select([*features, target]).slice(start, size).collect()
            empty = [c for c in block.columns if block[c].null_count()]
            if empty:
                raise _checks.fail(
                    f"column {empty[0]!r} of {name}", "without missing values", "some"
                )
            y = block[target].to_numpy()
            if codes is not None:
                y = np.array([codes[value] for value in block[target]], np.int64)
            x = block.select(features).to_numpy()
            yield x, y

    return Source(read, size)


def _mapped(path: str | os.PathLike[str]) -> np.ndarray:
    """A `.npy` file that is not read until it is looked at."""
    name = os.fspath(path)
    try:
        return np.lib.format.open_memmap(name, mode="r")
    except (ValueError, EOFError) as error:
        with Path(name).open("rb") as file:
            promised = _promised_bytes(file)
        have = Path(name).stat().st_size
        if promised is not None and have < promised:
            expected = f"of {promised} bytes by its header"
            raise _checks.fail(name, expected, f"{have}: it ends early") from error
        raise ValueError(f"{name} cannot be read as .npy: {error}") from error


def _promised_bytes(file) -> int | None:
    """How long a `.npy` file says it is; None if it does not say."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
        read = read or np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except ValueError:
        return None
    return file.tell() + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _block_rows(num_features: int, itemsize: int) -> int:
    return max(1, _BYTES // max(1, num_features * itemsize))
