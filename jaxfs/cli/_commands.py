"""The commands `jaxfs select`, `compare`, `methods` and `demo`."""

import dataclasses
import importlib.metadata
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from jaxfs.cli import _options
from jaxfs.cli._options import EPILOG, command_line, reports_errors, use_cache
from jaxfs.cli.tables._allowance import GIGABYTES
from jaxfs.cli.tables._columns import Refusal, printable
from jaxfs.cli.tables._table import Table, read_table

#: Number of features that each method of `compare` selects by default.
_COMPARED = 10

# Commands import the modules that need scikit-learn when they run, to keep `jaxfs --help` fast.

app = typer.Typer(
    epilog=EPILOG, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _print_notes(notes: Iterable[str], quiet: bool, kind: str = "note") -> None:
    if not quiet:
        for text in notes:
            print(f"{kind}: {printable(text, 500)}", file=sys.stderr)


def _read(context: typer.Context) -> Table:
    """Read the table of a command with the reading options that the user gave."""
    from jaxfs.cli import _notes

    given, names = context.params, ("target", "impute", "header", "delimiter", "decimal", "max_gb")
    options = {name: given[name] for name in (*names, "transpose")}
    labels = (given.get("groups"), given.get("strata"))
    several = {name: given[name] or () for name in ("drop", "categorical")}
    several["labels"] = list(dict.fromkeys(name for name in labels if name is not None))
    return _notes.look(read_table(given["table"], **(options | several)))


@app.command(epilog=EPILOG)
@reports_errors
def select(
    context: typer.Context,
    table: _options.TablePath,
    target: _options.Target = None,
    method: _options.Method = "auto",
    k: _options.Number = "auto",
    fdr: _options.Fdr = None,
    permutations: _options.Permutations = None,
    groups: _options.Groups = None,
    strata: _options.Strata = None,
    out: _options.Out = None,
    raw: _options.Raw = False,
    plot: _options.Plot = None,
    report: _options.ReportPath = None,
    json: _options.Json = False,
    drop: _options.Drop = None,
    categorical: _options.Categorical = None,
    transpose: _options.Transpose = False,
    impute: _options.Impute = None,
    header: _options.Header = "auto",
    delimiter: _options.Delimiter = "auto",
    decimal: _options.Decimal = "auto",
    max_gb: _options.MaxGB = GIGABYTES,
    standardize: _options.Standardize = False,
    seed: _options.Seed = 0,
    resamples: _options.Resamples = None,
    dtype: _options.Dtype = "auto",
    solver: _options.Solver = None,
    option: _options.Options = None,
    force: _options.Force = False,
    quiet: _options.Quiet = False,
) -> None:
    """Select features of a table, and print them with their scores, best first.

    Without --method, several methods are compared by cross-validation, and the best one is used.

    jaxfs select cells.csv --target type --report report.html
    """
    from jaxfs.cli import _answer, _output, _report
    from jaxfs.cli._request import Request, check_request, parse_rule

    verbose = not quiet and sys.stderr.isatty()
    options = tuple(option or ())
    number = parse_rule(k, fdr, permutations, seed)
    request = Request(method, number, seed, dtype, solver, options, standardize, verbose)
    request = request._replace(permutations=permutations, groups=groups, strata=strata)
    check_request(request, target)
    if raw and out is None:
        raise Refusal("--raw needs --out")
    if resamples == 1:
        raise Refusal("--resamples must be 0 or at least 2, got 1")
    _output.check_outputs(
        ("--out", out, _output.TABLES),
        ("--plot", plot, _output.PICTURES),
        ("--report", report, _output.PAGES),
        force=force,
        source=table,
    )
    if plot is not None or report is not None:
        _report.require_packages(page=report is not None)
    data = _read(context)
    _print_notes(data.notes, quiet)
    use_cache()
    measured = report is not None and request.method != "auto"  # auto uses its folds
    number = resamples if resamples is not None else 10 if measured else 0
    answer = _answer.choose(data, request, number)
    _print_notes(answer.notes, quiet)
    with _output.write_atomically(force=force) as temporary:
        if out is not None:
            _output.write_selected(temporary(out), data, answer.order, raw=raw)
        if plot is not None:
            _report.write_plot(temporary(plot), data, answer)
        if report is not None:
            command = command_line(context)
            _report.write_report(temporary(report), data, answer, request, str(table), command)
    if json:
        found = _output.selection_json(data, answer)
        _output.print_json(found | {"table": str(table), "seed": seed})
    else:
        _output.print_selection(data, answer)
        _output.print_verdict(data, answer)
    _print_notes([str(path) for path in (out, plot, report) if path], quiet, "written")


@app.command(epilog=EPILOG)
@reports_errors
def compare(
    context: typer.Context,
    table: _options.TablePath,
    target: _options.Target = None,
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Names of methods, separated by commas.")
    ] = "manifest,relieff,gc",
    k: _options.NumberOrTen = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 5,
    groups: _options.Groups = None,
    json: _options.Json = False,
    drop: _options.Drop = None,
    categorical: _options.Categorical = None,
    transpose: _options.Transpose = False,
    impute: _options.Impute = None,
    header: _options.Header = "auto",
    delimiter: _options.Delimiter = "auto",
    decimal: _options.Decimal = "auto",
    max_gb: _options.MaxGB = GIGABYTES,
    standardize: _options.Standardize = False,
    seed: _options.Seed = 0,
    dtype: _options.Dtype = "auto",
    quiet: _options.Quiet = False,
) -> None:
    """Compare methods on one table by cross-validated accuracy, stability and overlap.

    Each fold selects features from its training rows only, and measures the accuracy, balanced
    accuracy and AUC of logistic regression (for a numeric target, R² of ridge regression) on its
    test rows. The folds are stratified by class. With --groups, the rows of a group, such as a
    patient, stay in one fold.

    jaxfs compare cells.csv --target type --methods manifest,relieff,gc -k 20
    """
    from jaxfs.cli import _compare, _output
    from jaxfs.cli._request import Request, check_request, parse_number

    number = _COMPARED if k is None else parse_number(k)
    names = [name for name in methods.split(",") if name]
    requests = [Request(name, number, seed, dtype, standardize=standardize) for name in names]
    if not requests:
        raise Refusal("--methods must name at least one method")
    for request in requests:
        check_request(request, target)
    data = _read(context)
    notes, available = [*data.notes], len(data.names)
    if k is None and available < _COMPARED:
        number, requests = available, [request._replace(k=available) for request in requests]
        notes.append(f"-k is {available}: the table has no more features")
    _print_notes(notes, quiet)
    use_cache()
    verbose = not quiet and sys.stderr.isatty()
    together = None if groups is None else data.labels[groups]
    result = _compare.compare(data, requests, together, folds=folds, seed=seed, verbose=verbose)
    _print_notes(result.notes, quiet)
    if json:
        content = {"table": str(table), "k": str(number), "seed": seed}
        content |= dataclasses.asdict(result) | {"notes": [*notes, *result.notes]}
        _output.print_json(content)
    else:
        _output.print_comparison(result)


@app.command()
@reports_errors
def methods(
    name: Annotated[str | None, typer.Argument(help="Show the details of one method.")] = None,
    json: _options.Json = False,
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


@app.command()
@reports_errors
def demo(
    out: Annotated[Path, typer.Option(help="Path of the picture.")] = Path("jaxfs-demo.png"),
    data: Annotated[
        Path | None,
        typer.Option(help="Also write the data as .csv, .tsv or .parquet, for other commands."),
    ] = None,
    force: _options.Force = False,
    seed: _options.Seed = 0,
) -> None:
    """Rank and draw the pixels that distinguish a handwritten 4 from a 9."""
    from jaxfs.cli import _answer, _demo, _output, _report
    from jaxfs.cli._request import Request

    pictures, tables = _output.PICTURES, _output.TABLES
    _output.check_outputs(("--out", out, pictures), ("--data", data, tables), force=force)
    _report.require_packages(page=False)
    use_cache()
    digits = _demo.digits()
    answer = _answer.choose(digits, Request("manifest", _demo.NUMBER, seed))
    with _output.write_atomically(force=force) as temporary:
        _demo.draw_digits(temporary(out), digits, answer)
        if data is not None:
            _output.write_selected(temporary(data), digits, range(len(digits.names)))
    _output.print_selection(digits, answer)
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
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Feature selection from a table: scores and selectors in JAX."""
