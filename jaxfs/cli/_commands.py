"""The commands: their options and their help. The work is done in the files above."""

import dataclasses
import importlib.metadata
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from jaxfs.cli import _files
from jaxfs.cli import _options as A
from jaxfs.cli._options import EPILOG, guarded, use_cache
from jaxfs.cli.tables._allowance import GIGABYTES
from jaxfs.cli.tables._columns import Refusal, printable
from jaxfs.cli.tables._table import Table, read_table

#: So many features `compare` lets each method choose.
_K = "10"

# What needs scikit-learn is imported in the commands: `jaxfs --help` need not wait for it.

app = typer.Typer(
    help="Feature selection from a table: scores and selectors in JAX.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _read(
    path: Path,
    target: str | None,
    drop: list[str] | None,
    impute: str | None,
    header: str,
    delimiter: str,
    decimal: str,
    max_gb: float,
    quiet: bool,
) -> Table:
    table = read_table(
        path,
        target=target,
        drop=drop or (),
        impute=impute,
        header=header,
        delimiter=delimiter,
        decimal=decimal,
        max_gb=max_gb,
    )
    _tell(table.notes, quiet)
    return table


def _tell(notes: tuple[str, ...], quiet: bool) -> None:
    if not quiet:
        for text in notes:
            print(f"note: {printable(text, 500)}", file=sys.stderr)


@app.command(epilog=EPILOG)
@guarded
def select(
    table: A.TablePath,
    target: A.Target = None,
    method: A.Method = "manifest",
    k: A.Number = "auto",
    out: A.Out = None,
    raw: A.Raw = False,
    plot: A.Plot = None,
    report: A.ReportPath = None,
    json: A.Json = False,
    drop: A.Drop = None,
    impute: A.Impute = None,
    header: A.Header = "auto",
    delimiter: A.Delimiter = "auto",
    decimal: A.Decimal = "auto",
    max_gb: A.MaxGB = GIGABYTES,
    standardize: A.Standardize = False,
    seed: A.Seed = 0,
    resamples: A.Resamples = None,
    dtype: A.Dtype = "auto",
    solver: A.Solver = None,
    option: A.Options = None,
    force: A.Force = False,
    quiet: A.Quiet = False,
) -> None:
    """Choose features of a table, and print them with their scores, the best first.

    jaxfs select cells.csv --target type --method manifest -k 20 --plot scores.png
    """
    from jaxfs.cli import _answer, _output, _pictures
    from jaxfs.cli._request import Plan, find_method, make_estimator

    verbose = not quiet and sys.stderr.isatty()
    plan = Plan(method, k, seed, dtype, solver, tuple(option or ()), standardize, verbose)
    make_estimator(plan)
    _answer.check_target(find_method(method), target)
    if raw and out is None:
        raise Refusal("--raw is for --out, which is not given")
    if resamples == 1:
        raise Refusal("--resamples must be 0, or at least 2")
    _output.check_format(out)
    _pictures.check(plot, report)
    _files.check_outputs((out, plot, report), force=force, source=table)
    data = _read(table, target, drop, impute, header, delimiter, decimal, max_gb, quiet)
    use_cache()
    choice = _answer.choose(data, plan)
    _tell(choice.notes, quiet)
    number = resamples if resamples is not None else 10 if report is not None else 0
    stability = _answer.resampled(data, plan, choice, number) if number else None
    if stability is not None:
        more = tuple(_answer.never_again(data, choice, stability))
        _tell(more, quiet)
        choice = dataclasses.replace(choice, notes=choice.notes + more)
    with _files.Staged(force=force) as staged:
        if out is not None:
            _output.write_selected(staged.path(out), data, choice.order, raw=raw)
        if plot is not None:
            _pictures.write_plot(staged.path(plot), data, choice)
        if report is not None:
            words = {"--target": target, "--method": method, "-k": k, "--impute": impute}
            words |= {"--seed": str(seed), "--dtype": dtype, "--solver": solver}
            words |= {"--resamples": str(number), "--report": str(report)}
            words |= {"--header": header, "--delimiter": delimiter, "--decimal": decimal}
            words |= {"--max-gb": None if max_gb == GIGABYTES else str(max_gb)}
            flags = ["--standardize"] if standardize else []
            repeated = [("--drop", name) for name in drop or ()]
            repeated += [("--option", text) for text in option or ()]
            command = _command_line("select", table, words, flags, repeated)
            _pictures.write_page(staged.path(report), table, data, choice, plan, stability, command)
    if json:
        _output.print_json(
            _output.selection_json(data, choice, stability) | {"table": str(table), "seed": seed}
        )
    else:
        _output.print_selection(data, choice, stability)
    if not quiet:
        for path in (out, plot, report):
            if path is not None:
                print(f"written: {printable(path, 500)}", file=sys.stderr)


def _command_line(
    name: str,
    table: Path,
    words: dict[str, str | None],
    flags: list[str],
    repeated: list[tuple[str, str]],
) -> str:
    """The command that repeats a run, with the seed spelt out and the defaults left out."""
    plain = {"--header": "auto", "--delimiter": "auto", "--decimal": "auto", "--dtype": "auto"}
    given = [(o, v) for o, v in words.items() if v is not None and plain.get(o) != v]
    parts = [part for pair in (*given, *repeated) for part in pair]
    return shlex.join(["jaxfs", name, str(table), *parts, *flags])


@app.command(epilog=EPILOG)
@guarded
def compare(
    table: A.TablePath,
    target: A.Target = None,
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Names with commas between them.")
    ] = "manifest,relieff,gc",
    k: A.Several = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the cross-validation.")] = 5,
    json: A.Json = False,
    drop: A.Drop = None,
    impute: A.Impute = None,
    header: A.Header = "auto",
    delimiter: A.Delimiter = "auto",
    decimal: A.Decimal = "auto",
    max_gb: A.MaxGB = GIGABYTES,
    standardize: A.Standardize = False,
    seed: A.Seed = 0,
    dtype: A.Dtype = "auto",
    quiet: A.Quiet = False,
) -> None:
    """Compare methods on one table: accuracy in cross-validation, stability, overlap.

    Features are chosen from the training rows of each fold alone; logistic regression (ridge
    regression, if the target is a number) is then tried on its test rows.

    jaxfs compare cells.csv --target type --methods manifest,relieff,gc -k 20
    """
    from jaxfs.cli import _answer, _output
    from jaxfs.cli._compare import compare as compare_methods
    from jaxfs.cli._request import Plan, find_method, make_estimator

    number = _K if k is None else k
    plans = [
        Plan(name, number, seed, dtype, None, (), standardize)
        for name in methods.split(",")
        if name
    ]
    if not plans:
        raise Refusal("--methods must name at least one method")
    for plan in plans:  # a mistake in the last one is told before the first starts
        make_estimator(plan)
        _answer.check_target(find_method(plan.method), target)
    data = _read(table, target, drop, impute, header, delimiter, decimal, max_gb, quiet)
    few, notes = len(data.names), data.notes
    if k is None and few < int(_K):
        number, plans = str(few), [plan._replace(k=str(few)) for plan in plans]
        notes += (f"-k is {few}: there are no more features",)
        _tell(notes[-1:], quiet)
    use_cache()
    with _output.progress(len(plans) * folds, quiet) as step:
        result = compare_methods(data, plans, folds=folds, seed=seed, step=step)
    _tell(result.notes, quiet)
    if json:
        content = {
            "table": str(table),
            "k": number,
            "seed": seed,
            **_output.comparison_json(result),
        }
        _output.print_json(content | {"notes": [*notes, *result.notes]})
    else:
        _output.print_comparison(result)


@app.command()
@guarded
def methods(
    name: Annotated[str | None, typer.Argument(help="Tell all of this one.")] = None,
    json: A.Json = False,
) -> None:
    """List the methods: what each is for, what target it needs, its options."""
    from jaxfs.cli import _output
    from jaxfs.cli._request import find_method

    chosen = None if name is None else find_method(name)
    if json:
        content = _output.methods_json()
        _output.print_json(content if chosen is None else content[chosen.name])
    elif chosen is None:
        _output.print_methods()
    else:
        _output.print_method(chosen)


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("jaxfs-demo.png"),
    data: Annotated[
        Path | None, typer.Option(help="Also write the data, as .csv or .tsv, to try commands on.")
    ] = None,
    force: A.Force = False,
    seed: A.Seed = 0,
) -> None:
    """Which pixels tell a 4 from a 9? Rank them, draw them, and say what is seen."""
    from jaxfs.cli import _demo, _output, _pictures

    _output.check_format(data, "--data")
    _pictures.check(out, None, "--out")
    _files.check_outputs((out, data), force=force)
    use_cache()
    table, choice = _demo.run(seed)
    with _files.Staged(force=force) as staged:
        _demo.draw(staged.path(out), table, choice)
        if data is not None:
            _output.write_selected(staged.path(data), table, range(len(table.names)))
    _output.print_selection(table, choice, None)
    print(_demo.EXPLANATION)
    print(f"The picture is {printable(out, 500)}.")
    name = "TABLE.csv" if data is None else shlex.quote(str(data))
    column = "COLUMN" if data is None else "digit"
    print(f"Now your own: jaxfs select {name} --target {column} -k 10 --plot scores.png")


def _version(show: bool) -> None:
    if show:
        print(f"jaxfs {importlib.metadata.version('jaxfs')}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Feature selection from a table: scores and selectors in JAX."""
