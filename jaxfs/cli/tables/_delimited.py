"""CSV, TSV and their kin, read strictly: what could be meant two ways is refused; no JAX.

Cells are read as strings and converted here, so that no parser's guess (dates, separators, a first
row taken for names) stands between the file and the answer.
"""

import csv
import gzip
import io
import itertools
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from jaxfs.cli.tables import _columns, _decimals
from jaxfs.cli.tables._allowance import PART, Allowance
from jaxfs.cli.tables._columns import Columns, TableError, listed, numbered, plural

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
_WORDS = {mark: word for word, mark in DELIMITERS.items()}
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),  # before UTF-16, whose mark is the beginning of this one
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
#: Long numbers take nine times the bytes of their text until they are read, short ones up to 17.
_COPIES = 9
#: How many records are looked at to find the delimiter.
_SAMPLE = 20
#: So many numbers that only grow (wavelengths, times) or that all differ (numbered genes) may be
#: names.
_MANY = 8


def read(
    path: Path,
    allowed: Allowance,
    *,
    delimiter: str = "auto",
    header: str = "auto",
    decimal: str = "auto",
    wanted: Collection[str] = (),
) -> Columns:
    """The columns of a delimited text file, gzipped if its name ends in `.gz`.

    **Arguments**

    - `allowed`: how large the text may be.
    - `delimiter`: `"auto"`, a character, or `comma`, `semicolon`, `tab`, `pipe`, `space`.
    - `header`: `"yes"`, `"no"` or `"auto"`: the first row holds names if a name of `wanted` is in
      it, or if it holds no number, or if text in it stands above numbers. A first row of numbers
      that could as well be names is refused; where none is found, a note says so.
    - `decimal`: `"point"`, `"comma"` or `"auto"`: commas are decimal if at least one of them cannot
      set thousands apart and no number of the table has a point. Points that may set thousands
      apart are refused between semicolons, as German writes both.
    - `wanted`: names the caller will ask for.
    """
    text, notes = _decode(path, allowed)
    mark = DELIMITERS.get(delimiter, delimiter)
    if mark == "auto":
        mark = "\t" if ".tsv" in path.suffixes else _detect(text)
    if len(mark) != 1 or mark in '"\r\n':
        raise TableError(f"delimiter must be one character or {listed(DELIMITERS)}, got {mark!r}")
    rows = _records(text, mark)
    if not rows:
        raise TableError("the file is empty")
    while rows and len(rows) > 1 and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    _cut_the_last_delimiter(rows, notes)
    short = _row_names_without_a_name(rows)
    if short:
        rows[0] = ["", *rows[0]]
    _check_rectangle(rows, mark)
    named = short or _has_header(rows, header, wanted)
    names = [cell.strip() for cell in rows[0]] if named else numbered(len(rows[0]))
    body = rows[1:] if named else rows
    if not body:
        raise TableError("the table holds names but no row of values")
    if not named and header == "auto":
        notes.append("no row of names was found: the first row is read as values")
    columns = list(zip(*body, strict=True))
    if mark == ";" and decimal == "auto":
        _decimals.refuse_pointed_thousands(columns, names)
    columns = _decimals.settle(columns, names, decimal, notes)
    return _columns.from_strings(columns, names, named=named, notes=notes)


def _decode(path: Path, allowed: Allowance) -> tuple[str, list[str]]:
    """The text of a file, and a note if its encoding had to be guessed."""
    if path.suffix.lower() == ".gz":
        try:
            with gzip.open(path) as stream:
                data = allowed.gather(iter(lambda: stream.read(PART), b""), _COPIES)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"the file is no sound gzip file ({error})") from error
    else:
        allowed.check(allowed.stored, _COPIES)
        data = path.read_bytes()
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    notes = []
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise TableError(f"the file says that it is {encoding}, and is not") from error
        text = data.decode("latin-1")
        notes.append("the file is not UTF-8; it was read as Latin-1")
    if "\0" in text:
        raise TableError("the file is not text: it holds zero bytes")
    return text, notes


def _records(text: str, mark: str, limit: int | None = None) -> list[list[str]]:
    """The records of a text; blank lines are none."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=mark, skipinitialspace=True, strict=True)
    rows = []
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                rows.append(row)
            if limit is not None and len(rows) == limit:
                break
    except csv.Error as error:
        reason = str(error).removesuffix(".")
        raise TableError(f"line {reader.line_num}: malformed quoting ({reason})") from error
    return rows


def _detect(text: str) -> str:
    """The delimiter under which most records are of one length and most cells are numbers."""
    best, chosen = (0.0, 0), ","
    malformed = None
    for mark in ",;\t|":
        if mark not in text:
            continue
        try:
            rows = _records(text, mark, _SAMPLE)
        except TableError as error:
            malformed = malformed or error
            continue
        if not rows:
            continue
        length, count = Counter(map(len, rows)).most_common(1)[0]
        if length < 2:
            continue
        cells = [cell for row in rows[1:] for cell in row]
        cells = cells[:: 1 + len(cells) // 1000]
        wordy = sum(map(_columns.is_text, cells)) / max(len(cells), 1)
        share = count / len(rows) + 1 - wordy
        if (share, length) > best:
            best, chosen = (share, length), mark
    if best == (0.0, 0) and malformed is not None:
        raise malformed
    return chosen


def _cut_the_last_delimiter(rows: list[list[str]], notes: list[str]) -> None:
    """Rows that end in a delimiter have an empty cell more than the names: it is no column."""
    body = rows[1:]
    longer = {len(row) for row in body} == {len(rows[0]) + 1}
    if longer and not any(row[-1].strip() for row in body):
        rows[1:] = [row[:-1] for row in body]
        notes.append("every row but the first ends in a delimiter: no column was made of it")


def _row_names_without_a_name(rows: list[list[str]]) -> bool:
    """R's `write.table`: one name fewer than columns, and a first column that names the rows.

    The first column must be all-distinct text, or count the rows; otherwise the table is ragged.
    """
    if len(rows) < 2 or {len(row) for row in rows[1:]} != {len(rows[0]) + 1}:
        return False
    first = [row[0].strip() for row in rows[1:]]
    counted = first == [str(i + 1) for i in range(len(first))]
    distinct = len(set(first)) == len(first) and all(map(_columns.is_text, first))
    return (counted or distinct) and all(map(_columns.is_text, rows[0]))


def _check_rectangle(rows: list[list[str]], mark: str) -> None:
    width = len(rows[0])
    wrong = [i for i, row in enumerate(rows) if len(row) != width]
    if wrong:
        raise TableError(
            f"record {wrong[0] + 1} has {plural(len(rows[wrong[0]]), 'cell')} where the first has "
            f"{width} (delimiter {_WORDS.get(mark, mark)}; {plural(len(wrong), 'such record')})"
        )


def _has_header(rows: list[list[str]], header: str, wanted: Collection[str]) -> bool:
    """Whether the first row holds names. Refused where it may or may not."""
    if header in ("yes", "no"):
        return header == "yes"
    if header != "auto":
        raise TableError(f"header must be auto, yes or no, got {header!r}")
    first, body = rows[0], rows[1:]
    if any(cell.strip() in wanted for cell in first):
        return True
    texts = [j for j, cell in enumerate(first) if _columns.is_text(cell)]
    above = any(_all_numbers([row[j] for row in body]) for j in texts)
    numbers = [cell for cell in first if _columns.is_number(cell) or _columns.is_comma_number(cell)]
    counting = _counts(numbers, body)
    doubtful = counting or _differ_as_names(first, body)
    gaps = any(map(_columns.is_missing, first[1:]))
    if texts and not numbers and (above or not gaps):
        return True
    if above and counting:
        return True
    recurs = any(row[j] == first[j] for j in texts for row in body)
    if above or (doubtful and not recurs) or (texts and not numbers and not recurs):
        what = "both names and numbers" if above else "what may be names or values"
        raise TableError(f"the first row holds {what}: say which with --header yes or --header no")
    return False


def _all_numbers(cells: Sequence[str]) -> bool:
    """Numbers, at least one, and nothing else but missing values."""
    return not any(map(_columns.is_text, cells)) and not all(map(_columns.is_missing, cells))


def _counts(numbers: list[str], body: list[list[str]]) -> bool:
    """Whether numbers look like names: 0, 1, 2, …, or many that grow as no other row's do."""
    values = [float(cell.replace(",", ".")) for cell in numbers]
    steps = {b - a for a, b in itertools.pairwise(values)}
    if len(values) >= 3 and steps == {1.0}:
        return True
    if len(values) < _MANY or not _monotone(values):
        return False
    second = [cell for cell in body[0] if _columns.is_number(cell)] if body else []
    return not _monotone([float(cell) for cell in second])


def _differ_as_names(first: list[str], body: list[list[str]]) -> bool:
    """Whole numbers, all different, above rows that hold fractions, or many numbers some equal."""
    at = [j for j, cell in enumerate(first) if _columns.is_number(cell)]
    if len(at) < 2 or not body or not _all_differ([first[j] for j in at]):
        return False
    for row in body:
        cells = [row[j] for j in at if _columns.is_number(row[j])]
        if _all_differ(cells) or (len(at) < _MANY and all(map(_columns.is_whole, cells))):
            return False
    return True


def _all_differ(cells: list[str]) -> bool:
    return len(set(cells)) == len(cells) and all(map(_columns.is_whole, cells))


def _monotone(values: list[float]) -> bool:
    pairs = list(itertools.pairwise(values))
    return len(pairs) > 1 and (all(a < b for a, b in pairs) or all(a > b for a, b in pairs))
