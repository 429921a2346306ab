"""The output of the command: tables for people, JSON for programs, files written atomically."""

import contextlib
import csv
import inspect
import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxfs.cli._answer import Answer
from jaxfs.cli._effects import effects, significance
from jaxfs.cli._options import Request
from jaxfs.cli._request import make_estimator, parameters
from jaxfs.cli.tables._columns import Refusal, as_text, printable, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import METHODS, AutoSelector, Method

if TYPE_CHECKING:
    from jaxfs.cli._compare import Comparison

#: Accepted file name endings of tables, pictures and reports.
TABLES, PICTURES = (".csv", ".tsv", ".parquet"), (".png", ".svg", ".pdf", ".jpg")
PAGES = (".html", ".htm")
#: First characters of a spreadsheet formula, in half-width and full-width form.
_FORMULA = tuple("=+-@＝＋－＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
#: Maximum number of features printed.
_SHOWN = 50

#: Temporary files that are being written, and their final paths. An interrupt removes them.
pending: dict[Path, Path] = {}


def print_grid(
    title: str, headings: list[str], rows: list[list[str]], left: list[str], caption: str = ""
) -> None:
    """Print a table to stdout; the columns named in `left` are text, the others numbers."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(title=title, caption=caption or None)
    for heading in headings:
        grid.add_column(heading, justify="left" if heading in left else "right", overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    # A pipe has no width. A width of 200 keeps every row on one line.
    Console(width=None if sys.stdout.isatty() else 200).print(grid)


def number(value: float | None, form: str = ".4g", unknown: str = "—") -> str:
    """Return a formatted number, a dash if it is unknown, or nothing if there is none."""
    return "" if value is None else unknown if np.isnan(value) else format(value, form)


def print_selection(answer: Answer) -> None:
    """Print the selected features and their scores, best first, and how many there are and why."""
    parts = "folds" if answer.in_folds else "resamples"
    forms = {"rank": "d", "score": ".4g", "p": ".4g", "q": ".4g", "frequency": ".0%"}
    headings = {"name": "feature", "frequency": f"selected in {parts}"}
    features = _selected(answer)
    known = features[0] if features else ("rank", "name", "score")
    keys = [key for key in known if key != "column"]
    rows = [
        [number(item[key], forms[key]) if key in forms else printable(item[key]) for key in keys]
        for item in features[:_SHOWN]
    ]
    (n, d), k = answer.table.values.shape, len(features)
    by = answer.method.name
    by += f": {answer.fitted.best_}" if isinstance(answer.fitted, AutoSelector) else ""
    caption = f"and {k - _SHOWN} more: --out or --json gives all" if k > _SHOWN else ""
    title = f"{k} of {d} features of {n} rows by {by}"
    print_grid(title, [headings.get(key, key) for key in keys], rows, ["feature"], caption)
    print(answer.reason)


def print_verdict(answer: Answer) -> None:
    """Print the comparison of the method auto, its verdict, and the significant features."""
    if not isinstance(answer.fitted, AutoSelector):
        return
    rows = []
    for row in answer.fitted.comparison_:
        accuracy = f"{row.accuracy:.3f} ± {row.standard_error:.3f}"
        rest = number(row.stability, ".2f"), number(row.seconds, ".1f")
        rows.append([row.name, str(row.n_features), accuracy, *rest])
    headings = ["method", "features", answer.fitted.measure_, "stability", "seconds"]
    print_grid("Cross-validation; selection inside the folds", headings, rows, left=["method"])
    print(answer.fitted.verdict_)
    if (found := effects(answer)) is not None:
        print(significance(found, len(answer.table.names)))


def print_comparison(result: "Comparison") -> None:
    """Print the methods and baselines of a comparison."""
    measure = [] if result.measure is None else [result.measure]
    by_class = result.measure == "accuracy"
    measure += ["balanced accuracy", "AUC"] if by_class else []
    others = list(result.overlap) if len(result.overlap) > 1 else []
    rows = []
    for row in result.methods:
        shares = result.overlap.get(row.name, {})
        cells = [row.name, number(row.features)]
        if row.by_fold is not None:
            cells.append(f"{row.mean:.3f} ± {np.std(row.by_fold, ddof=1):.3f}")
        if by_class:
            cells += [number(row.balanced_accuracy, ".3f"), number(row.auc, ".3f")]
        cells.append(number(row.stability, ".2f"))
        cells += [number(shares.get(name), ".2f") for name in others]
        rows.append([*cells, number(row.seconds, ".1f")])
    headings = ["method", "features", *measure, "stability"]
    headings += [*(f"overlap\n{name}" for name in others), "seconds"]
    title = f"{result.folds} folds; features selected from the training rows of each"
    print_grid(title, headings, rows, left=["method"])
    if result.verdict is not None:
        print(result.verdict)


def print_methods() -> None:
    """Print all methods with their targets and summaries."""
    headings = ["method", "target", "what it finds"]
    rows = [[method.name, method.targets, method.summary] for method in METHODS.values()]
    print_grid("Methods; `jaxfs methods NAME` shows details", headings, rows, left=headings)


def print_method(method: Method) -> None:
    """Print the details of one method: its target, its options and its documentation."""
    target = {"classes": "a column of classes", "numbers": "a column of numbers", "none": "none"}
    target["any"] = "a column of classes or numbers, or none"
    print(f"{method.name}: {method.summary}")
    print(f"Target: {target[method.targets]}.")
    print("Options (--option name=value) and their defaults:")
    for name, value in method_json(method)["options"].items():
        print(f"  {name} = {value}")
    text = inspect.getdoc(type(method.estimator())) or ""
    print("\n" + text.split(">>>")[0].strip())


def print_json(content: Mapping[str, Any]) -> None:
    """Print JSON to stdout."""
    # JSON is written in ASCII, because `backslashreplace` would escape other characters again.
    print(json.dumps(_plain(content), ensure_ascii=True, allow_nan=False, indent=2))


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold; infinities, NaN and other objects become strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    known = value is None or isinstance(value, (bool, int, float, str))
    return value if known else printable(value, 200)


def _selected(answer: Answer) -> list[dict[str, Any]]:
    """Return a record of each selected feature, best first.

    `column` is the position of a feature in the file, from 1, as in --target and --drop.
    """
    table = answer.table
    columns = table.positions or range(1, len(table.names) + 1)
    stability, tested = answer.stability, answer.tested
    return [
        {"rank": place, "name": table.names[j], "column": columns[j], "score": answer.scores[j]}
        | ({} if tested is None else {"p": tested.p_values[j], "q": tested.q_values[j]})
        | ({} if stability is None else {"frequency": float(stability.frequencies[j])})
        for place, j in enumerate(answer.order, start=1)
    ]


def selection_json(answer: Answer) -> dict[str, Any]:
    """Return the content of the JSON output. Infinite scores are the strings `inf` and `-inf`."""
    table, stability, fitted = answer.table, answer.stability, answer.fitted
    n, d = table.values.shape
    found = {
        "method": answer.method.name,
        "parameters": answer.parameters,
        "rows": n,
        "features": d,
        "target": table.target_name,
        "selected": _selected(answer),
        "reason": answer.reason,
        "stability": None if stability is None else float(stability.stability),
        "seconds": round(answer.seconds, 3),
        "notes": [*table.notes, *answer.notes],
    }
    if isinstance(fitted, AutoSelector):
        found |= {"best": fitted.best_, "measure": fitted.measure_, "verdict": fitted.verdict_}
        found["comparison"] = [row._asdict() for row in fitted.comparison_]
    return found


def method_json(method: Method) -> dict[str, Any]:
    """Return a method for the JSON output: its target, summary, options and their defaults."""
    hidden = {"n_features_to_select", "verbose", *getattr(method.estimator, "keywords", {})}
    found = parameters(make_estimator(Request(method.name)))
    options = {n: _plain(v) for n, v in found.items() if n.rpartition("__")[2] not in hidden}
    described = {"targets": method.targets, "supervised": method.supervised}
    return described | {"summary": method.summary, "options": options}


def check_outputs(
    *outputs: tuple[str, Path | None, tuple[str, ...]], force: bool, source: Path | None = None
) -> None:
    """Raise `Refusal` for outputs that cannot be written, before the computation starts.

    Each output is an option, its path and its accepted endings. `source` is the input file.
    """
    taken = [] if source is None else [source.resolve()]
    for option, path, endings in outputs:
        if path is None:
            continue
        real = path.resolve()
        if path.suffix.lower() not in endings:
            raise Refusal(f"{option} must end in {', '.join(endings)}, got {quote(path.name)}")
        # One file may have several paths, through links or names of different case.
        existing = [other for other in taken if real.exists() and other.exists()]
        if real in taken or any(map(real.samefile, existing)):
            raise Refusal(f"{option} must not be the table or another output, got {quote(path)}")
        if path.is_dir():
            raise Refusal(f"{option} must be a file, got the folder {quote(path)}")
        if not real.parent.is_dir():
            raise Refusal(f"there is no folder {quote(real.parent)} for {option} {quote(path)}")
        _check_absent(path, force)
        taken.append(real)


def _check_absent(path: Path, force: bool) -> None:
    if not force and os.path.lexists(path):
        raise Refusal(f"{quote(path)} exists; --force overwrites it")


@contextlib.contextmanager
def write_atomically(*, force: bool) -> Iterator[Callable[[Path], Path]]:
    """Write several files atomically: either all files or none.

        with write_atomically(force=False) as temporary:
            temporary(path).write_text(…)

    The context manager yields a function that returns a temporary path in the same folder for a
    final path. At the end all files get their final names. After an exception, including Ctrl-C, no
    temporary file is left and existing files are unchanged.
    """

    def temporary(path: Path) -> Path:
        part = path.with_name(f".{path.stem[:40]}-{secrets.token_hex(4)}{path.suffix}")
        pending[part] = path
        part.touch(exist_ok=False)
        return part

    try:
        yield temporary
        for path in pending.values():
            _check_absent(path, force)
        for part, path in pending.items():
            if not force:
                with contextlib.suppress(OSError):  # some file systems have no links
                    os.link(part, path)  # fails if the file exists now; a rename would replace it
                    continue
                _check_absent(path, force)
            part.replace(path)
    except OSError as error:
        # An error of writing has no file name. It concerns the file that was begun last.
        path = error.filename2 or [*pending.values()][-1]
        reason = f"cannot be written: {error.strerror or error}"
        raise Refusal(f"'{printable(path, 500)}' {reason}") from error
    finally:
        for part in pending:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        pending.clear()


def write_selected(path: Path, table: Table, order: Iterable[int], *, raw: bool = False) -> None:
    """Write the row names, the selected features (best first) and the target to a table.

    The suffix of the path gives the format. In text files, numbers are written without rounding.
    Text that a spreadsheet would run as a formula gets an apostrophe in front, unless `raw` is
    true.
    """
    is_text = path.suffix.lower() != ".parquet"
    columns: dict[str, list[Any]] = {}
    if table.rows is not None:  # pandas and jaxfs read this name in Parquet as an unnamed index
        columns[table.rows_name or ("" if is_text else "__index_level_0__")] = table.rows
    columns |= {table.names[j]: table.values[:, j].tolist() for j in order}
    if table.target is not None:
        target = table.target.tolist()
        columns[str(table.target_name)] = [*map(as_text, target)] if is_text else target
    if not is_text:
        import polars as pl

        pl.DataFrame(columns).write_parquet(path)
        return
    text = str if raw else _inert
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(map(text, columns))
        for row in zip(*columns.values(), strict=True):
            writer.writerow([text(cell) if isinstance(cell, str) else repr(cell) for cell in row])


def _inert(cell: str) -> str:
    """Return text that a spreadsheet does not run as a formula; numbers are unchanged."""
    runs = cell.startswith(_FORMULA) or (cell[:1] < " " and cell != "")
    return f"'{cell}" if runs and not _NUMBER.fullmatch(cell) else cell
