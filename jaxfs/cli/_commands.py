"""The commands `jaxfs select`, `compare`, `methods` and `demo`."""

import dataclasses
import importlib.metadata
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from jaxfs.cli import _options
from jaxfs.cli._options import Outputs, Request, Settings, Source, command
from jaxfs.cli.tables._columns import Refusal, printable
from jaxfs.cli.tables._table import Table, read_table

app = _options.app
#: Number of features that each method of `compare` selects by default.
_COMPARED = 10

# Commands import the modules that need scikit-learn when they run, to keep `jaxfs --help` fast.


def _print_notes(notes: Iterable[str], quiet: bool, kind: str = "note") -> None:
    if not quiet:
        for text in notes:
            print(f"{kind}: {printable(text, 500)}", file=sys.stderr)


def _read(source: Source, *labels: str | None) -> Table:
    """Read the table of a command, and note what is unusual in it."""
    from jaxfs.cli import _notes

    given = {name: value for name, value in vars(source).items() if value is not None}
    columns = dict.fromkeys(name for name in labels if name is not None)
    return _notes.look(read_table(**given, labels=tuple(columns)))


@command
def select(context: typer.Context, source: Source, request: Request, outputs: Outputs) -> None:
    """Select features of a table, and print them with their scores, best first.

    Without --method, several methods are compared by cross-validation, and the best one is used.

    jaxfs select cells.csv --target type --report report.html
    """
    from jaxfs.cli import _answer, _output, _report
    from jaxfs.cli._request import check_blocks, check_request

    check_request(request, source.target)
    check_blocks(request)
    out, plot, report = outputs.out, outputs.plot, outputs.report
    if outputs.raw and out is None:
        raise Refusal("--raw needs --out")
    if outputs.resamples == 1:
        raise Refusal("--resamples must be 0 or at least 2, got 1")
    _output.check_outputs(
        ("--out", out, _output.TABLES),
        ("--plot", plot, _output.PICTURES),
        ("--report", report, _output.PAGES),
        force=outputs.force,
        source=source.path,
    )
    if plot is not None or report is not None:
        _report.require_packages(page=report is not None)
    data = _read(source, request.groups, request.strata)
    _print_notes(data.notes, request.quiet)
    _options.use_cache()
    measured = report is not None and request.method != "auto"  # auto uses its folds
    number = outputs.resamples if outputs.resamples is not None else 10 if measured else 0
    answer = _answer.choose(data, request, number)
    _print_notes(answer.notes, request.quiet)
    with _output.write_atomically(force=outputs.force) as temporary:
        if out is not None:
            _output.write_selected(temporary(out), data, answer.order, raw=outputs.raw)
        if plot is not None:
            _report.write_plot(temporary(plot), answer)
        if report is not None:
            repeat = _options.command_line(context)
            _report.write_report(temporary(report), answer, str(source.path), repeat)
    if request.json:
        found = _output.selection_json(answer)
        _output.print_json(found | {"table": str(source.path), "seed": request.seed})
    else:
        _output.print_selection(answer)
        _output.print_verdict(answer)
    _print_notes([str(path) for path in (out, plot, report) if path], request.quiet, "written")


@command
def compare(
    source: Source,
    settings: Settings,
    methods: Annotated[
        str, Option("--methods", "-m", help="Names of methods, separated by commas.")
    ] = "manifest,relieff,gc",
    k: Annotated[
        str | None, Option("-k", "--number", help=_options.NUMBER, show_default=str(_COMPARED))
    ] = None,
    folds: Annotated[int, Option(min=2, help="Number of cross-validation folds.")] = 5,
) -> None:
    """Compare methods on one table by cross-validated accuracy, stability and overlap.

    Each fold selects features from its training rows only, and measures the accuracy, balanced
    accuracy and AUC of logistic regression (for a numeric target, R² of ridge regression) on its
    test rows. The folds are stratified by class. With --groups, the rows of a group, such as a
    patient, stay in one fold.

    jaxfs compare cells.csv --target type --methods manifest,relieff,gc -k 20
    """
    from jaxfs.cli import _compare, _output
    from jaxfs.cli._request import check_request

    number = str(_COMPARED) if k is None else k
    requests = [Request(name, number, **vars(settings)) for name in methods.split(",") if name]
    if not requests:
        raise Refusal("--methods must name at least one method")
    for request in requests:
        check_request(request, source.target)
    data = _read(source, settings.groups)
    notes, available = [*data.notes], len(data.names)
    if k is None and available < _COMPARED:
        number = str(available)
        requests = [dataclasses.replace(request, k=number) for request in requests]
        notes.append(f"-k is {number}: the table has no more features")
    _print_notes(notes, settings.quiet)
    _options.use_cache()
    result = _compare.compare(data, requests, folds=folds)
    _print_notes(result.notes, settings.quiet)
    if settings.json:
        content = {"table": str(source.path), "k": number, "seed": settings.seed}
        content |= dataclasses.asdict(result) | {"notes": [*notes, *result.notes]}
        _output.print_json(content)
    else:
        _output.print_comparison(result)


@command
def methods(
    name: Annotated[str | None, Argument(help="Show the details of one method.")] = None,
    json: Annotated[bool, Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """List the methods with their purposes and targets; NAME shows the options of one method."""
    from jaxfs.cli import _output
    from jaxfs.cli._request import find_method
    from jaxfs.estimators import METHODS

    method = None if name is None else find_method(name)
    if json:
        every = {name: _output.method_json(each) for name, each in METHODS.items()}
        _output.print_json(every if method is None else every[method.name])
    elif method is None:
        _output.print_methods()
    else:
        _output.print_method(method)


@command
def demo(
    out: Annotated[Path, Option(help="Path of the picture.")] = Path("jaxfs-demo.png"),
    data: Annotated[
        Path | None,
        Option(help="Also write the data as .csv, .tsv or .parquet, for other commands."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite existing files.")] = False,
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Equal seeds give equal results.")] = 0,
) -> None:
    """Rank and draw the pixels that distinguish a handwritten 4 from a 9."""
    from jaxfs.cli import _answer, _demo, _output, _report

    pictures, tables = _output.PICTURES, _output.TABLES
    _output.check_outputs(("--out", out, pictures), ("--data", data, tables), force=force)
    _report.require_packages(page=False)
    _options.use_cache()
    digits = _demo.digits()
    answer = _answer.choose(digits, Request("manifest", str(_demo.NUMBER), seed=seed, quiet=True))
    with _output.write_atomically(force=force) as temporary:
        _demo.draw_digits(temporary(out), answer)
        if data is not None:
            _output.write_selected(temporary(data), digits, range(len(digits.names)))
    _output.print_selection(answer)
    print(_demo.EXPLANATION)
    print(f"The picture was written to {printable(out, 500)}.")
    path, column = ("TABLE.csv", "COLUMN") if data is None else (shlex.quote(str(data)), "digit")
    print(f"Try it: jaxfs select {path} --target {column} -k 10 --plot scores.png")


def _version(show: bool) -> None:
    if show:
        print(f"jaxfs {importlib.metadata.version('jaxfs')}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Feature selection from a table: scores and selectors in JAX."""
