"""Reader of delimited text files: chooses the options of the polars parser and the column types.

Polars reads every cell as a string, and its behaviour on malformed text is undefined. The reader
therefore first converts the text to the form of RFC 4180, or raises `TableError`.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jaxfs.cli.tables import _columns
from jaxfs.cli.tables._columns import Allowance, Columns, TableError, is_number, plural, quote

if TYPE_CHECKING:
    import polars as pl

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
#: Byte order marks by encoding. The mark of UTF-32 begins with the mark of UTF-16.
_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
#: Forms of cells, as case-insensitive regular expressions.
_MISSING = "|".join(map(re.escape, sorted(_columns.MISSING_CELLS)))
_POINT = r"[+-]?[0-9]*\.[0-9]*(?:e[+-]?[0-9]+)?"
_COMMA = r"[+-]?[0-9]+,[0-9]+(?:e[+-]?[0-9]+)?"
_THOUSANDS = r"[+-]?[1-9][0-9]{{0,2}}{}[0-9]{{3}}"
_UP_TO_999 = r"[+-]?[0-9]{1,3}"
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
    if decimal not in ("auto", "point", "comma"):
        raise TableError(f"decimal must be auto, point or comma, got {decimal!r}")
    frame, ragged = _parse(text, mark, allowed)
    first = [(cell or "").strip() for cell in frame.row(0)]
    last = frame.to_series(-1).slice(1)
    ends_empty = ragged and not any((cell or "").strip() for cell in last)
    if ends_empty:
        frame, first = frame.drop(last.name), first[1:]
        notes.append("every record but the first ends in a delimiter; this adds no column")
    named = _has_header(first, header, wanted)
    if ragged and not named:
        raise TableError(ragged)
    if named and len(frame) == 1:
        raise TableError("the table holds names but no row of values")
    if not named and header == "auto":
        notes.append("no row of names was found: the first row is read as values")
    names = first if named else _columns.default_names(len(first))
    columns = Columns(names, [], len(names), named, notes=notes)
    _set_arrays(columns, frame.slice(1) if named else frame, mark, decimal)
    if ragged and not ends_empty:  # row names written by R are words or row numbers
        start = columns.arrays[0].tolist()
        counted = start == list(range(1, len(frame)))
        if not counted and not all(map(_columns.is_word, map(str, start))):
            raise TableError(ragged)
    return columns


def _decode(path: Path, allowed: Allowance) -> tuple[str, list[str]]:
    """Return the text of a file, and a note if its encoding had to be guessed."""
    if path.suffix.lower() == ".gz":
        try:
            with gzip.open(path) as stream:
                data = allowed.gather(iter(lambda: stream.read(_columns.PART), b""), _COPIES)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"the file is not a valid gzip file ({error})") from error
    else:
        allowed.check(allowed.stored, _COPIES)
        data = path.read_bytes()
    encodings = (name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark))
    encoding, notes = next(encodings, "utf-8"), []
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


def _parse(text: str, mark: str, allowed: Allowance) -> tuple["pl.DataFrame", str]:
    """Return the cells of a text as strings, and a message.

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
        text, bare = quoted.sub(r"\1", text), quoted.sub("", text)
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
    return frame, ragged


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


def _set_arrays(columns: Columns, frame: "pl.DataFrame", mark: str, decimal: str) -> None:
    """Set the arrays: numbers if every cell of a column is a number or missing, otherwise strings.

    In a column of strings, `none` is a value, such as a treatment. In a column of numbers, it is a
    missing value.
    """
    import polars as pl

    # Join all columns into one, because polars is slow on many short columns.
    cells = pl.concat(frame.get_columns(), rechunk=True).fill_null("").str.strip_chars()
    n = len(frame)

    def grid(series: "pl.Series") -> np.ndarray:
        return series.to_numpy().reshape(-1, n)

    values = grid(cells.cast(pl.Float64, strict=False))
    # Look only at columns with other cells than plain numbers, unless a comma may be decimal.
    plain = decimal == "point" or (
        decimal == "auto" and mark != ";" and not cells.str.contains(",", literal=True).any()
    )
    odd = np.isnan(values).any(axis=1) if plain else np.ones(len(values), bool)
    part = cells if odd.all() else cells.filter(pl.Series(np.repeat(odd, n)))

    def match(form: str) -> np.ndarray:
        found = np.zeros(values.shape, bool)
        found[odd] = grid(part.str.contains(f"(?i)^(?:{form})$"))
        return found

    missing, numeric = match(_MISSING), ~np.isnan(values)
    if not plain and _has_decimal_commas(columns, frame, match, missing, numeric, mark, decimal):
        numeric |= match(_COMMA)
        values = grid(cells.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False))
    words = ~(numeric | missing).all(axis=1)
    missing &= ~(match("none") & words[:, None])
    columns.arrays = list(values)
    for j in np.flatnonzero(words | missing.any(axis=1)).tolist():
        column = np.array(cells[j * n : (j + 1) * n].to_list(), dtype=object)
        columns.marks[j] = set(column[missing[j]])
        if words[j]:
            column[missing[j]] = None
            columns.arrays[j] = column


def _has_decimal_commas(
    columns: Columns,
    frame: "pl.DataFrame",
    match: Callable[[str], np.ndarray],
    missing: np.ndarray,
    numeric: np.ndarray,
    mark: str,
    decimal: str,
) -> bool:
    """Return whether commas in numbers are decimal.

    Commas or points that may also separate thousands raise `TableError`.
    """
    comma = match(_COMMA)
    numbers = (numeric | comma | missing).all(axis=1)
    commas, points = (found.any(axis=1) & numbers for found in (comma, match(_POINT)))
    if decimal == "comma":
        if points.any():
            raise TableError("with --decimal comma no number may have a point, but some have one")
        return True
    if not points.any() and (comma & ~match(_THOUSANDS.format(",")))[commas].any():
        number = plural(int(commas.sum()), "column")
        columns.notes.append(f"decimal commas in {number} were read as points")
        return True
    name, sign, doubtful = "comma", ",", commas
    if mark == ";" and not commas.any():
        grouped, short = match(_THOUSANDS.format(r"\.")), match(_UP_TO_999)
        whole = (grouped | short | missing).all(axis=1)
        name, sign, doubtful = "point", ".", grouped.any(axis=1) & short.any(axis=1) & whole
    for j in np.flatnonzero(doubtful).tolist():
        example = next(cell for cell in frame.to_series(j) if cell and sign in cell)
        raise TableError(
            f"the {name} of {quote(example.strip())} in column {quote(columns.names[j])} may be "
            f"decimal or separate thousands: use --decimal {name}, or remove the {name}s"
        )
    return False
