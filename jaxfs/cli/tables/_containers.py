"""Tables in binary files: Parquet, `.npz`, `.mat` and `.h5ad`; no JAX.

The libraries that read them are imported when they are needed. Files are data: none may run code
(pickled objects are refused).
"""

import contextlib
import importlib
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jaxfs.cli.tables import _matlab
from jaxfs.cli.tables._allowance import COPIES, Allowance
from jaxfs.cli.tables._columns import EXACT, Columns, TableError, listed, numbered, quote

#: What pandas calls an index without a name in Parquet.
_INDEX = re.compile(r"__index_level_\d+__")
#: Arrays so called hold the names of the measurements.
_NAMES = frozenset({"names", "feature_names", "columns", "var_names", "features"})
#: Of several matrices, one so called holds the measurements.
_DATA = frozenset({"x", "data"})


def _need(module: str, package: str, kind: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TableError(f"reading {kind} needs {package}: pip install '{package}'") from error


@contextlib.contextmanager
def _sound(kind: str) -> Iterator[None]:
    """A refusal of whatever the bytes make a library raise; its warnings are for programmers."""
    with warnings.catch_warnings(action="ignore"):
        try:
            yield
        except (TableError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of polars is no `Exception`
            raise TableError(f"the file is no sound {kind} ({_first_line(error)})") from error


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
    """Polars prints the trace of a panic there, from any thread."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def parquet(path: Path, allowed: Allowance) -> Columns:
    """A Parquet file, by polars."""
    polars = _need("polars", "polars", "Parquet")
    with _sound("Parquet file"), _without_stderr():
        lazy = polars.scan_parquet(path, glob=False)
        cells = lazy.select(polars.len()).collect().item() * len(lazy.collect_schema())
        allowed.check(8 * cells, COPIES)
        frame = lazy.collect()
    index = [name for name in frame.columns if _INDEX.fullmatch(name)]
    found = _from_arrays(_polars_columns(frame.drop(index), polars), frame.height, allowed)
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


def npz(path: Path, allowed: Allowance) -> Columns:
    """The one matrix of an `.npz`, or that called `X` or `data`, and vectors of as many entries."""
    # NumPy leaves the file open if it is no archive: it is closed here.
    with (
        _sound(".npz of plain arrays"),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        allowed.check(sum(member.file_size for member in file.zip.infolist()))
        arrays = {name: file[name] for name in file.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise TypeError(f"{quote(name)} is no array")
    return _from_named(arrays, allowed)


def mat(path: Path, allowed: Allowance) -> Columns:
    """A MATLAB file up to version 7.2, under the rules for `.npz`."""
    with _sound("MATLAB file"):
        try:
            if _matlab.is_level_5(path):
                arrays = _matlab.read(path, allowed)
            else:
                content = _need("scipy.io", "scipy", ".mat of version 4").loadmat(path)
                arrays = {k: _dense(a, allowed) for k, a in content.items() if k[:2] != "__"}
        except NotImplementedError as error:
            raise TableError("the file is MATLAB 7.3: save it again with '-v7'") from error
    return _from_named(arrays, allowed)


def _dense(array: Any, allowed: Allowance) -> Any:
    """A sparse matrix with its zeros, if there is room for them; anything else as it is."""
    if not hasattr(array, "toarray"):
        return array
    allowed.check_sparse(*array.shape)
    return array.toarray()


def h5ad(path: Path, allowed: Allowance) -> Columns:
    """An annotated matrix: `X` with the names of its variables; columns of `obs` may be targets."""
    anndata = _need("anndata", "anndata", ".h5ad")
    h5py = _need("h5py", "anndata", ".h5ad")  # which anndata reads with
    with _sound(".h5ad"):
        with h5py.File(path) as file:
            sizes: list[int] = []
            file.visititems(lambda _, item: sizes.append(getattr(item, "nbytes", 0)))
        allowed.check(sum(sizes))
        data = anndata.read_h5ad(path)
    if data.X is None:
        raise TableError("the file holds no matrix X")
    x = np.asarray(_dense(data.X, allowed))
    columns = [(str(name), x[:, j]) for j, name in enumerate(data.var_names)]
    extra = [(str(name), _annotation(data.obs[name])) for name in data.obs.columns]
    found = _from_arrays([*columns, *extra], x.shape[0], allowed, extra=len(columns))
    found.rows = [str(name) for name in data.obs_names]
    return found


def _annotation(series: Any) -> np.ndarray:
    array = np.asarray(series)
    if array.dtype.kind in "fiub":
        return array
    missing = np.asarray(series.isna())
    return np.array([None if m else str(v) for v, m in zip(array, missing, strict=True)], object)


def _from_named(arrays: dict[str, np.ndarray], allowed: Allowance) -> Columns:
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
    return _from_arrays([*columns, *extra], n, allowed, named=names is not None, extra=d)


def _from_arrays(
    columns: Iterable[tuple[str, np.ndarray]],
    n: int,
    allowed: Allowance,
    *,
    named: bool = True,
    extra: int | None = None,
) -> Columns:
    """Columns of arrays: numbers as float64, words as text, anything else refused by name."""
    columns = list(columns)
    names = [name for name, _ in columns]
    if not columns or n == 0:
        raise TableError("the table is empty")
    d = len(columns)
    allowed.check_memory(8 * n * d, COPIES, f"a table of {n} rows and {d} columns")
    values = np.full((n, d), np.nan, order="F")
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
