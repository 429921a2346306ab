"""What the command prints and writes: tables for people, JSON for programs, pictures, a page."""

import contextlib
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxfs.cli._answer import Choice, class_name, plain
from jaxfs.cli._compare import Comparison
from jaxfs.cli._request import Plan, make_estimator, parameters
from jaxfs.cli.tables._columns import Refusal, is_number, printable
from jaxfs.cli.tables._table import Table
from jaxfs.estimators._catalogue import METHODS, Method
from jaxfs.resample import Stability

#: Formats of `--out`, and what stands between their cells.
_MARKS = {".csv": ",", ".tsv": "\t"}
#: What formulas begin with, in letters of half and of full width.
_FORMULA = tuple("=+-@＝＋－＠")
#: At most so many features are printed and drawn.
_SHOWN = 50


def console(*, error: bool = False) -> Any:
    """A console that does not break lines where nobody looks."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else 200, highlight=False)


@contextlib.contextmanager
def progress(total: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, if someone looks; gives a function that is told of each step."""
    if quiet or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.progress import Progress

    with Progress(console=console(error=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)


def print_json(content: Mapping[str, Any]) -> None:
    # In ASCII, whatever the terminal takes: what it could not show would be escaped twice.
    print(json.dumps(plain(content), ensure_ascii=True, allow_nan=False, indent=2))


def _number(value: float) -> str:
    return "—" if np.isnan(value) else f"{value:.4g}"


def selection_json(table: Table, choice: Choice, stability: Stability | None) -> dict[str, Any]:
    """The answer for programs. Infinite scores are the words `inf` and `-inf`.

    `column` counts the columns of the file from 1, as --target and --drop do.
    """
    columns = table.positions or range(1, len(table.names) + 1)
    selected = [
        {"rank": place, "name": table.names[j], "column": columns[j], "score": choice.scores[j]}
        | ({} if stability is None else {"frequency": float(stability.frequencies[j])})
        for place, j in enumerate(choice.order, start=1)
    ]
    n, d = table.values.shape
    return {
        "method": choice.method.name,
        "parameters": choice.parameters,
        "rows": n,
        "features": d,
        "target": table.target_name,
        "selected": selected,
        "stability": None if stability is None else float(stability.stability),
        "seconds": round(choice.seconds, 3),
        "notes": [*table.notes, *choice.notes],
    }


def print_selection(table: Table, choice: Choice, stability: Stability | None) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    n, d = table.values.shape
    grid = Grid(title=f"{len(choice.order)} of {d} features of {n} rows by {choice.method.name}")
    grid.add_column("rank", justify="right")
    grid.add_column("feature", overflow="fold")
    grid.add_column("score", justify="right")
    if stability is not None:
        grid.add_column("chosen in resamples", justify="right")
    for place, j in enumerate(choice.order[:_SHOWN], start=1):
        cells: list[Any] = [str(place), Text(printable(table.names[j])), _number(choice.scores[j])]
        if stability is not None:
            cells.append(f"{float(stability.frequencies[j]):.0%}")
        grid.add_row(*cells)
    if len(choice.order) > _SHOWN:
        grid.caption = f"and {len(choice.order) - _SHOWN} more: --out or --json gives all"
    console().print(grid)


def comparison_json(result: Comparison) -> dict[str, Any]:
    names = [row.name for row in result.rows if row.chosen is not None]
    return {
        "measure": result.measure or None,
        "folds": result.folds,
        "methods": [
            {
                "name": row.name,
                "features": row.number,
                "mean": None if row.accuracies is None else float(row.accuracies.mean()),
                "by_fold": None if row.accuracies is None else row.accuracies.tolist(),
                "stability": row.stability,
                "seconds": row.seconds,
            }
            for row in result.rows
        ],
        "overlap": {
            a: dict(zip(names, result.overlap[i].tolist(), strict=True))
            for i, a in enumerate(names)
        },
        "notes": list(result.notes),
    }


def print_comparison(result: Comparison) -> None:
    from rich.table import Table as Grid

    grid = Grid(title=f"{result.folds} folds; features chosen from the training rows of each")
    names = [row.name for row in result.rows if row.chosen is not None]
    grid.add_column("method")
    for heading in ("features", *([result.measure] if result.measure else []), "stability"):
        grid.add_column(heading, justify="right")
    if len(names) > 1:
        for name in names:
            grid.add_column(f"overlap\n{name}", justify="right")
    grid.add_column("seconds", justify="right")
    for i, row in enumerate(result.rows):
        cells = [row.name, f"{row.number:.4g}"]
        if result.measure and row.accuracies is not None:
            spread = row.accuracies.std(ddof=1)
            cells.append(f"{row.accuracies.mean():.3f} ± {spread:.3f}")
        cells.append("" if row.stability is None else _number(row.stability))
        if len(names) > 1:
            shares = result.overlap[i] if i < len(names) else []
            cells += [f"{share:.2f}" for share in shares] or [""] * len(names)
        cells.append("" if row.seconds is None else f"{row.seconds:.1f}")
        grid.add_row(*cells)
    console().print(grid)


def methods_json() -> dict[str, Any]:
    return {
        name: {
            "targets": method.targets,
            "supervised": method.supervised,
            "summary": method.summary,
            "options": options(method),
        }
        for name, method in METHODS.items()
    }


def options(method: Method) -> dict[str, Any]:
    """The method's own options with their defaults."""
    hidden = {"n_features_to_select", "verbose", *getattr(method.estimator, "keywords", {})}
    estimator = make_estimator(Plan(method.name)).set_params(dtype=None)
    return {
        name: plain(value)
        for name, value in parameters(estimator).items()
        if name.rpartition("__")[2] not in hidden
    }


def print_methods() -> None:
    from rich.table import Table as Grid

    grid = Grid(title="Methods; `jaxfs methods NAME` tells more of one")
    for heading in ("method", "target", "what it finds"):
        grid.add_column(heading)
    for name, method in METHODS.items():
        grid.add_row(name, method.targets, method.summary)
    console().print(grid)


def print_method(method: Method) -> None:
    out = console()
    out.print(f"{method.name}: {method.summary}", markup=False)
    target = {"classes": "a column of classes", "numbers": "a column of numbers", "none": "none"}
    out.print(f"Target: {target[method.targets]}.", markup=False)
    out.print("Options (--option name=value) and their defaults:", markup=False)
    for name, value in options(method).items():
        out.print(f"  {name} = {value}", markup=False)
    text = method.estimator().__doc__ or ""
    out.print("\n" + text.split(">>>")[0].strip(), markup=False)


def check_format(path: Path | None, option: str = "--out") -> None:
    if path is not None and path.suffix.lower() not in _MARKS:
        raise Refusal(f"{option} must end in {' or '.join(_MARKS)}, got '{printable(path.name)}'")


def write_selected(path: Path, table: Table, order: Iterable[int], *, raw: bool = False) -> None:
    """Row names if any, the chosen features from the best on, the target; numbers exactly.

    Words that a spreadsheet would take for a formula get an apostrophe in front, unless `raw`.
    """
    order = list(order)
    head = [table.names[j] for j in order]
    columns: list[Sequence[Any]] = [list(map(repr, table.values[:, j].tolist())) for j in order]
    word = str if raw else _inert
    if table.rows is not None:
        head, columns = ["", *head], [list(map(word, table.rows)), *columns]
    if table.target is not None:
        head = [*head, str(table.target_name)]
        columns = [*columns, [word(class_name(value)) for value in table.target]]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=_MARKS[path.suffix.lower()], lineterminator="\n")
    writer.writerow(map(word, head))
    writer.writerows(zip(*columns, strict=True))
    path.write_text(text.getvalue(), encoding="utf-8", newline="")


def _inert(cell: str) -> str:
    """`cell` as a spreadsheet shows it and does not run it; numbers stay as they are."""
    runs = cell.startswith(_FORMULA) or (cell[:1] < " " and cell != "")
    return f"'{cell}" if runs and not is_number(cell) else cell
