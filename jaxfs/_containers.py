"""Tables in binary files: Parquet, `.npz`, `.mat` and `.h5ad`; no JAX.

The libraries that read them are imported when they are needed. Files are data: none may run code
(pickled objects are refused).
"""

import importlib
import math
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from jaxfs import _memory
from jaxfs._columns import EXACT, Columns, TableError, listed, numbered, quote

#: What NumPy raises when an archive is none, or is damaged, or holds objects or one bare array.
_BROKEN = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    KeyError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
#: What pandas calls an index without a name in Parquet.
_INDEX = re.compile(r"__index_level_\d+__")
#: The matrix as it stands, as columns, and as what a method takes.
_COPIES = 3
#: Arrays so called hold the names of the measurements.
_NAMES = frozenset({"names", "feature_names", "columns", "var_names", "features"})
#: Of several matrices, one so called holds the measurements.
_DATA = frozenset({"x", "data"})


def _need(module: str, package: str, kind: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TableError(f"reading {kind} needs {package}: pip install '{package}'") from error


def parquet(path: Path) -> Columns:
    """A Parquet file, by polars."""
    polars = _need("polars", "polars", "Parquet")
    try:
        frame = polars.read_parquet(path)
    except (polars.exceptions.PolarsError, OSError) as error:
        raise TableError(f"the file is no sound Parquet file ({_first_line(error)})") from error
    index = [name for name in frame.columns if _INDEX.fullmatch(name)]
    found = _from_arrays(_polars_columns(frame.drop(index), polars), frame.height)
    if index:
        found.rows = ["/".join(map(str, row)) for row in frame.select(index).iter_rows()]
        found.notes.append("the index that pandas stored names the rows and is no feature")
    return found


def _polars_columns(frame: Any, polars: Any) -> Iterable[tuple[str, np.ndarray]]:
    for series in frame.get_columns():
        kind = series.dtype
        gaps = kind.is_integer() and series.null_count() > 0
        if kind == polars.Boolean or kind.is_decimal() or gaps:
            series = series.cast(polars.Float64)
        elif not kind.is_numeric():
            series = series.cast(polars.String, strict=False) if not kind.is_nested() else series
            yield series.name, np.array([_word(v) for v in series.to_list()], dtype=object)
            continue
        yield series.name, series.to_numpy()


def _word(value: Any) -> str | None:
    return None if value is None else str(value)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:120] or type(error).__name__


def npz(path: Path) -> Columns:
    """The one matrix of an `.npz`, or that called `X` or `data`, and vectors of as many entries."""
    try:
        # NumPy leaves the file open if it is no archive: it is closed here.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except _BROKEN as e:
        raise TableError(f"the file is no sound .npz of plain arrays ({_first_line(e)})") from e
    return _from_named(arrays)


def mat(path: Path) -> Columns:
    """A MATLAB file up to version 7.2, by SciPy, under the rules for `.npz`."""
    scipy_io = _need("scipy.io", "scipy", ".mat")
    try:
        content = scipy_io.loadmat(path, chars_as_strings=True)
    except NotImplementedError as error:
        raise TableError("the file is MATLAB 7.3: save it again with '-v7'") from error
    except Exception as error:  # the reader raises whatever the bytes make it stumble over
        raise TableError(f"the file is no sound MATLAB file ({_first_line(error)})") from error
    arrays = {name: _dense(value) for name, value in content.items() if name[:2] != "__"}
    return _from_named({name: _cells(value) for name, value in arrays.items()})


def _dense(array: Any) -> Any:
    """A sparse matrix with its zeros, if there is room for them; anything else as it is."""
    if not hasattr(array, "toarray"):
        return array
    need, free = 8 * _COPIES * math.prod(array.shape), _memory.free()
    if need > free:
        n, d = array.shape
        raise TableError(
            f"with its zeros the sparse matrix of {n} rows and {d} columns needs about "
            f"{_memory.readable(need)}, and {_memory.readable(free)} are free: keep fewer columns"
        )
    return array.toarray()


def _cells(array: Any) -> np.ndarray:
    """MATLAB's cell arrays of words as arrays of strings; anything else as it is."""
    array = np.asarray(array)
    if array.dtype == object:
        words = [np.asarray(cell).ravel() for cell in array.ravel()]
        if all(word.dtype.kind == "U" and word.size <= 1 for word in words):
            flat = ["".join(word.tolist()) for word in words]
            return np.array(flat, dtype=str).reshape(array.shape)
    return array


def h5ad(path: Path) -> Columns:
    """An annotated matrix: `X` with the names of its variables; columns of `obs` may be targets."""
    anndata = _need("anndata", "anndata", ".h5ad")
    try:
        data = anndata.read_h5ad(path)
    except Exception as error:  # HDF5 errors of many types
        raise TableError(f"the file is no sound .h5ad ({_first_line(error)})") from error
    if data.X is None:
        raise TableError("the file holds no matrix X")
    x = np.asarray(_dense(data.X))
    columns = [(str(name), x[:, j]) for j, name in enumerate(data.var_names)]
    extra = [(str(name), _annotation(data.obs[name])) for name in data.obs.columns]
    found = _from_arrays([*columns, *extra], x.shape[0], extra=len(columns))
    found.rows = [str(name) for name in data.obs_names]
    return found


def _annotation(series: Any) -> np.ndarray:
    array = np.asarray(series)
    if array.dtype.kind in "fiub":
        return array
    missing = np.asarray(series.isna())
    return np.array([None if m else str(v) for v, m in zip(array, missing, strict=True)], object)


def _from_named(arrays: dict[str, np.ndarray]) -> Columns:
    matrices = {
        name: a for name, a in arrays.items() if a.ndim == 2 and a.dtype.kind in "fiub" and a.size
    }
    wide = {name: a for name, a in matrices.items() if min(a.shape) > 1}
    several = wide or matrices
    chosen = {name: a for name, a in several.items() if name.lower() in _DATA}
    chosen = chosen if len(several) > 1 else several
    shapes = ", ".join(f"{quote(name)} {a.shape}" for name, a in list(arrays.items())[:6])
    if len(chosen) != 1:
        raise TableError(
            f"one matrix, or one called X, is needed; the file holds {shapes or 'none'}"
        )
    ((key, x),) = chosen.items()
    n, d = x.shape
    names = None
    extra = []
    for name, array in arrays.items():
        flat = array.ravel()
        if name == key or max(array.shape, default=0) != array.size:
            continue
        if name.lower() in _NAMES and flat.size == d and flat.dtype.kind == "U":
            names = [str(word).strip() for word in flat]
        elif flat.size == n and flat.dtype.kind in "fiubU":
            extra.append((name, flat))
    columns = [(label, x[:, j]) for j, label in enumerate(names or numbered(d))]
    return _from_arrays([*columns, *extra], n, named=names is not None, extra=d)


def _from_arrays(
    columns: Iterable[tuple[str, np.ndarray]],
    n: int,
    *,
    named: bool = True,
    extra: int | None = None,
) -> Columns:
    """Columns of arrays: numbers as float64, words as text, anything else refused by name."""
    columns = list(columns)
    names = [name for name, _ in columns]
    if not columns or n == 0:
        raise TableError("the table is empty")
    values = np.full((n, len(columns)), np.nan, order="F")
    texts: dict[int, list[str | None]] = {}
    inexact, odd = [], []
    for j, (name, array) in enumerate(columns):
        if array.dtype.kind in "fiub":
            values[:, j] = array
            if array.dtype.kind in "iu" and _is_inexact(array):
                inexact.append(j)
        elif array.dtype.kind in "OU":
            words = [_word(value) for value in array]
            if any(word is not None for word in words):
                texts[j] = words
        else:
            odd.append(name)
    if odd:
        raise TableError(f"{listed(map(quote, odd))}: neither real numbers nor words")
    return Columns(names, values, texts, named=named, extra=extra, inexact=inexact)


def _is_inexact(array: np.ndarray) -> bool:
    large = array[np.abs(array.astype(np.float64)) >= EXACT]
    return any(int(np.float64(value)) != int(value) for value in large)
