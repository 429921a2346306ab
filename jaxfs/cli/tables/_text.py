"""Reader of delimited text files: chooses the options of the polars parser and the column types.

Polars reads every cell as a string, and its behaviour on malformed text is undefined. The reader
therefore first converts the text to the form of RFC 4180, or raises `TableError`.
"""

import gzip
import re
import zlib
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jaxfs.cli.tables import _columns
from jaxfs.cli.tables._allowance import PART, Allowance
from jaxfs.cli.tables._columns import MISSING_CELLS, Columns, TableError, is_number, plural, quote

if TYPE_CHECKING:
    import polars as pl

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
#: Byte order marks by encoding. The mark of UTF-32 begins with the mark of UTF-16.
_BYTE_ORDER_MARKS: dict[str, tuple[bytes, ...]] = {
    "utf-8-sig": (b"\xef\xbb\xbf",),
    "utf-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"),
    "utf-16": (b"\xff\xfe", b"\xfe\xff"),
}
#: Forms of cells, as case-insensitive regular expressions.
_FORMS = {
    "missing": "|".join(map(re.escape, sorted(MISSING_CELLS))),
    "none": "none",
    "point": r"[+-]?[0-9]*\.[0-9]*(?:e[+-]?[0-9]+)?",
    "comma": r"[+-]?[0-9]+,[0-9]+(?:e[+-]?[0-9]+)?",
    "1,234": r"[+-]?[1-9][0-9]{0,2},[0-9]{3}",
    "1.234": r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}",
    "234": r"[+-]?[0-9]{1,3}",
}
#: Peak memory in bytes, for each byte of the text and for each cell.
_COPIES, _CELL = 6, 48
#: Number of lines from which the delimiter is detected.
_SAMPLE_LINES = 20


def read_text(
    path: Path,
    allowed: Allowance,
    wanted: Collection[str],
    header: str,
    delimiter: str,
    decimal: str,
) -> Columns:
    """Return the columns of a delimited text file, gzipped if its name ends in `.gz`.

    **Arguments**

    - `wanted`: names that the caller will ask for.
    - `header`: `"yes"`, `"no"` or `"auto"`. With `"auto"`, the first row is a row of names if it
      contains one of `wanted`, or words and no number. It is a row of values, and a note says so,
      if it contains no word. A first row with both words and numbers raises `TableError`.
    - `delimiter`: `"auto"`, an ASCII character, or `comma`, `semicolon`, `tab`, `pipe`, `space`.
    - `decimal`: `"point"`, `"comma"` or `"auto"`. With `"auto"`, commas are decimal if at least one
      comma cannot separate thousands and no number of the table has a point. Other commas in
      numbers raise `TableError`. With semicolons as delimiters, so do points that may separate
      thousands.
    """
    text, notes = _decode(path, allowed)
    mark = _DELIMITERS.get(delimiter, delimiter)
    if mark == "auto":
        mark = "\t" if ".tsv" in path.suffixes else _detect(text)
    if len(mark) != 1 or not mark.isascii() or mark in '"\r\n':
        known = ", ".join(_DELIMITERS)
        raise TableError(f"delimiter must be one ASCII character or {known}, got {mark!r}")
    cells, n, ragged = _parse(text, mark, allowed)
    first = cells.gather_every(n).to_list()
    ends_empty = ragged and not any(cells.tail(n - 1))
    if ends_empty:
        cells, first = cells.head(len(cells) - n), first[1:]
        notes.append("every record but the first ends in a delimiter; this adds no column")
    named = _has_header(first, header, wanted)
    if ragged and not named:
        raise TableError(ragged)
    if named and n == 1:
        raise TableError("the table holds names but no row of values")
    if not named and header == "auto":
        notes.append("no row of names was found: the first row is read as values")
    names = first if named else _columns.default_names(len(first))
    columns = Columns(names, [], len(names), named, notes=notes)
    _set_arrays(cells, columns, mark, decimal)
    if ragged and not ends_empty:  # row names written by R are words or row numbers
        start = columns.arrays[0].tolist()
        if start != list(range(1, n)) and not all(map(_columns.is_word, map(str, start))):
            raise TableError(ragged)
    return columns


def _decode(path: Path, allowed: Allowance) -> tuple[str, list[str]]:
    """Return the text of a file, and a note if its encoding had to be guessed."""
    if path.suffix.lower() == ".gz":
        try:
            with gzip.open(path) as stream:
                data = allowed.gather(iter(lambda: stream.read(PART), b""), _COPIES)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"the file is not a valid gzip file ({error})") from error
    else:
        allowed.check(allowed.stored, _COPIES)
        data = path.read_bytes()
    encoding = next(
        (name for name, bom in _BYTE_ORDER_MARKS.items() if data.startswith(bom)), "utf-8"
    )
    notes = []
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise TableError(f"the file begins as {encoding} text, but is not valid") from error
        text = data.decode("latin-1")
        notes.append("the file is not UTF-8; it was read as Latin-1")
    if "\0" in text:
        raise TableError("the file is not text: it holds zero bytes")
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _detect(text: str) -> str:
    """Return the delimiter with equal counts in all lines, or the most frequent in the first."""
    sample = "\n".join(text.lstrip("\n ").split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES])
    lines = re.sub(r'"[^"]*"', "", sample).split("\n")
    for mark in "\t;|,":  # the comma is last, because commas may be decimal
        counts = {line.count(mark) for line in lines if line.strip(f" {mark}")}
        if len(counts) == 1 and counts != {0}:
            return mark
    return max(",;\t|", key=lines[0].count)


def _parse(text: str, mark: str, allowed: Allowance) -> tuple["pl.Series", int, str]:
    """Return the cells of a text, column by column, the number of records, and a message.

    If the first record has one cell less than all others, it gets an empty first cell. The message
    describes this, and is empty otherwise. Other records of unequal length raise `TableError`.
    Empty records are skipped.
    """
    import polars as pl

    lines = text.split("\n")
    if mark == " ":
        lines = [re.sub(" +", " ", line.strip(" ")) for line in lines]
    bare = text = "\n".join(line for line in lines if line.strip(f" {mark}"))
    if not text:
        raise TableError("the file is empty")
    if '"' in text:
        m = re.escape(mark)
        quoted = re.compile(rf'(?<![^{m}\n]) *("[^"]*(?:""[^"]*)*") *(?![^{m}\n])')
        text = quoted.sub(r"\1", text)
        bare = quoted.sub("", text)
        if '"' in bare:
            record = bare[: bare.index('"')].count("\n") + 1
            raise TableError(f"record {record}: malformed quoting")
    counts = [line.count(mark) + 1 for line in bare.split("\n")]
    width, ragged = counts[0], ""
    if wrong := [i for i, count in enumerate(counts) if count != width]:
        name = next((name for name, sign in _DELIMITERS.items() if sign == mark), mark)
        ragged = (
            f"record {wrong[0] + 1} has {plural(counts[wrong[0]], 'cell')} where the first has "
            f"{width} (delimiter {name}; {plural(len(wrong), 'such record')})"
        )
        if set(counts[1:]) != {width + 1}:
            raise TableError(ragged)
        text, width = mark + text, width + 1
    allowed.check_memory(_COPIES * len(text) + _CELL * sum(counts), "the table")
    with _columns.refuse_damaged("text table"):
        frame = pl.read_csv(text.encode(), separator=mark, has_header=False, infer_schema=False)
        if frame.shape != (len(counts), width):
            raise ValueError(f"{len(counts)} records expected, {frame.height} found")
    # Join all columns into one, because polars is slow on many short columns.
    del text, bare, lines
    cells = pl.concat(frame.get_columns(), rechunk=True).fill_null("")
    return cells.str.strip_chars(), len(counts), ragged


def _has_header(first: list[str], header: str, wanted: Collection[str]) -> bool:
    """Return whether the first row contains names; raise `TableError` if this is ambiguous."""
    if header not in ("auto", "yes", "no"):
        raise TableError(f"header must be auto, yes or no, got {header!r}")
    if header != "auto" or not set(first).isdisjoint(wanted):
        return header != "no"
    words = first[0] == "" or any(map(_columns.is_word, first))  # index columns have no name
    numbers = any(is_number(cell.replace(",", ".", 1)) for cell in first)
    if words and numbers:
        raise TableError(
            "the first row holds words and numbers: use --header yes for names, no for values"
        )
    return words


def _set_arrays(cells: "pl.Series", columns: Columns, mark: str, decimal: str) -> None:
    """Set the arrays: numbers if every cell of a column is a number or missing, otherwise strings.

    In a column of strings, `none` is a value, such as a treatment. In a column of numbers, it is a
    missing value.
    """
    import polars as pl

    n = len(cells) // len(columns.names)

    def grid(series: "pl.Series") -> np.ndarray:
        return series.to_numpy().reshape(-1, n)[:, int(columns.named) :]

    values = grid(cells.cast(pl.Float64, strict=False))
    # If the cells have no comma, only columns with cells that are not plain numbers are checked.
    odd = np.isnan(values).any(axis=1)
    part = cells.filter(pl.Series(np.repeat(odd, n)))
    if mark == ";" or decimal == "comma" or part.str.contains(",", literal=True).any():
        odd, part = np.ones_like(odd), cells
    forms = {"number": ~np.isnan(values)}
    for form, regex in _FORMS.items():
        forms[form] = np.zeros(values.shape, bool)
        forms[form][odd] = grid(part.str.contains(f"(?i)^(?:{regex})$"))
    missing, numeric = forms["missing"], forms["number"]
    if _has_decimal_commas(columns, cells, forms, mark, decimal):
        numeric = numeric | forms["comma"]
        values = grid(cells.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False))
    words = ~(numeric | missing).all(axis=1)
    missing = missing & ~(forms["none"] & words[:, None])
    large = (np.abs(values) >= _columns.EXACT) & np.isfinite(values)
    columns.arrays = list(values)
    for j in np.flatnonzero(words | (missing | large).any(axis=1)).tolist():
        column = _column(cells, columns, j)
        columns.marks[j] = set(column[missing[j]])
        if words[j]:
            column[missing[j]] = None
            columns.arrays[j] = column
        elif any(c.lstrip("+-").isdecimal() and Decimal(c) != float(c) for c in column[large[j]]):
            columns.inexact.append(j)


def _column(cells: "pl.Series", columns: Columns, j: int) -> np.ndarray:
    n = len(cells) // len(columns.names)
    return np.array(cells[j * n + columns.named : (j + 1) * n].to_list(), dtype=object)


def _has_decimal_commas(
    columns: Columns, cells: "pl.Series", forms: dict[str, np.ndarray], mark: str, decimal: str
) -> bool:
    """Return whether commas in numbers are decimal.

    Commas or points that may also separate thousands raise `TableError`.
    """
    if decimal not in ("auto", "point", "comma"):
        raise TableError(f"decimal must be auto, point or comma, got {decimal!r}")
    if decimal == "point":
        return False
    numeric = (forms["number"] | forms["comma"] | forms["missing"]).all(axis=1)
    commas, points = (forms[form].any(axis=1) & numeric for form in ("comma", "point"))
    if decimal == "comma":
        if points.any():
            raise TableError("with --decimal comma no number may have a point, but some have one")
        return True
    if not points.any() and (forms["comma"] & ~forms["1,234"])[commas].any():
        number = plural(int(commas.sum()), "column")
        columns.notes.append(f"decimal commas in {number} were read as points")
        return True
    name, sign, doubtful = "comma", ",", commas
    if not commas.any() and mark == ";":
        mixed = [forms[form].any(axis=1) for form in ("1.234", "234")]
        whole = (forms["1.234"] | forms["234"] | forms["missing"]).all(axis=1)
        name, sign, doubtful = "point", ".", mixed[0] & mixed[1] & whole
    for j in np.flatnonzero(doubtful).tolist():
        example = next(cell for cell in _column(cells, columns, j) if sign in cell)
        raise TableError(
            f"the {name} of {quote(example)} in column {quote(columns.names[j])} may be decimal or "
            f"separate thousands: use --decimal {name}, or remove the {name}s"
        )
    return False
