"""The commands: their options and their help. The work is done in the files above."""

import functools
import importlib.metadata
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxfs import _files
from jaxfs._columns import Refusal, printable
from jaxfs._tables import read_table

# What needs scikit-learn is imported in the commands: `jaxfs --help` need not wait for it.

EPILOG = (
    "Exit codes: 0 fine; 2 bad input or usage, told in one line; 130 interrupted; 1 a mistake in "
    "jaxfs. Answers go to stdout, notes and progress to stderr. Compiled programs are kept in the "
    "user's cache folder (~/.cache/jaxfs, ~/Library/Caches/jaxfs or %LOCALAPPDATA%/jaxfs), where "
    "they may be deleted; JAXFS_CACHE_DIR names another folder, and JAXFS_CACHE_DIR=off keeps none."
)

app = typer.Typer(
    help="Feature selection from a table: scores and selectors in JAX.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Exit codes, and one line instead of a traceback for what the user can mend."""

    @functools.wraps(command)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except Refusal as refusal:
            print(f"error: {printable(' '.join(str(refusal).split()), 1000)}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            print("interrupted; nothing was written", file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # `jaxfs … | head`: whoever read has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception:
            traceback.print_exc()
            print("error: this is a mistake in jaxfs, please report it", file=sys.stderr)
            raise typer.Exit(1) from None

    return guarded


def _use_cache() -> None:
    """Keep compiled programs between runs, unless JAX was already told where."""
    import jax

    folder = _files.cache_folder()
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = printable(f"{folder}: {error.strerror}", 500)
        print(f"note: compiled programs are not kept: {reason}", file=sys.stderr)
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


TablePath = Annotated[
    Path, typer.Argument(metavar="TABLE", help="CSV, TSV, Parquet, .npz, .mat or .h5ad.")
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", "-t", help="Column to explain: a name, or a position (1, or -1: last)."
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", "-d", help="Column to leave out; may be repeated.")
]
Number = Annotated[
    str, typer.Option("-k", "--number", help="How many: 20, a fraction such as 0.1, or auto.")
]
Impute = Annotated[
    str | None, typer.Option(help="Missing values: median (of the column) or drop (the row).")
]
Header = Annotated[str, typer.Option(help="Whether the first row holds names: auto, yes or no.")]
Delimiter = Annotated[
    str, typer.Option(help="auto, comma, semicolon, tab, pipe, space or a character.")
]
Decimal = Annotated[str, typer.Option(help="Decimal mark: auto, point or comma.")]
Standardize = Annotated[
    bool,
    typer.Option("--standardize", "--standardise", help="Give every feature mean 0, deviation 1."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Equal seeds give equal answers.")]
Dtype = Annotated[str, typer.Option(help="auto (as the data: float64), float64 or float32.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress.")]
Method = Annotated[str, typer.Option("--method", "-m", help="See `jaxfs methods`.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="NAME=VALUE", help="Of the method; may be repeated."),
]
Solver = Annotated[str | None, typer.Option(help="auto, exact or lowrank, if the method has it.")]
Out = Annotated[
    Path | None, typer.Option(help="Write the chosen columns and the target as .csv or .tsv.")
]
Plot = Annotated[Path | None, typer.Option(help="Draw the scores: .png, .svg, .pdf or .jpg.")]
ReportPath = Annotated[Path | None, typer.Option("--report", help="Write a page: .html.")]
Resamples = Annotated[
    int | None,
    typer.Option(
        min=0, max=10_000, help="Choose again in so many resamples of 80% of the rows, to see how "
        "stable the choice is. Default: 10 with --report, else 0.",
    ),
]  # fmt: skip


def _tell(notes: tuple[str, ...], quiet: bool) -> None:
    if not quiet:
        for text in notes:
            print(f"note: {printable(text, 500)}", file=sys.stderr)


@app.command(epilog=EPILOG)
@_guarded
def select(
    table: TablePath,
    target: Target = None,
    method: Method = "manifest",
    k: Number = "auto",
    out: Out = None,
    plot: Plot = None,
    report: ReportPath = None,
    json: Json = False,
    drop: Drop = None,
    impute: Impute = None,
    header: Header = "auto",
    delimiter: Delimiter = "auto",
    decimal: Decimal = "auto",
    standardize: Standardize = False,
    seed: Seed = 0,
    resamples: Resamples = None,
    dtype: Dtype = "auto",
    solver: Solver = None,
    option: Options = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Choose features of a table, and print them with their scores, the best first.

    jaxfs select cells.csv --target type --method manifest -k 20 --plot scores.png
    """
    from jaxfs import _choose, _pictures, _show
    from jaxfs._choose import Plan

    verbose = not quiet and sys.stderr.isatty()
    plan = Plan(method, k, seed, dtype, solver, tuple(option or ()), standardize, verbose)
    _choose.make_estimator(plan)
    _choose.check_target(_choose.find_method(method), target)
    if resamples == 1:
        raise Refusal("--resamples must be 0, or at least 2")
    _show.check_format(out)
    _pictures.check(plot, report)
    _files.check_outputs((out, plot, report), force=force, source=table)
    data = read_table(
        table,
        target=target,
        drop=drop or (),
        impute=impute,
        header=header,
        delimiter=delimiter,
        decimal=decimal,
    )
    _tell(data.notes, quiet)
    _use_cache()
    choice = _choose.choose(data, plan)
    _tell(choice.notes, quiet)
    number = resamples if resamples is not None else 10 if report is not None else 0
    stability = _choose.resampled(data, plan, choice, number) if number else None
    with _files.Staged(force=force) as staged:
        if out is not None:
            _show.write_selected(staged.path(out), data, choice.order)
        if plot is not None:
            _pictures.write_plot(staged.path(plot), data, choice)
        if report is not None:
            words = {"--target": target, "--method": method, "-k": k, "--impute": impute}
            words |= {"--seed": str(seed), "--dtype": dtype, "--solver": solver}
            words |= {"--header": header, "--delimiter": delimiter, "--decimal": decimal}
            flags = ["--standardize"] if standardize else []
            repeated = [("--drop", name) for name in drop or ()]
            repeated += [("--option", text) for text in option or ()]
            command = _command_line("select", table, words, flags, repeated)
            _pictures.write_page(staged.path(report), table, data, choice, plan, stability, command)
    if json:
        _show.print_json(
            _show.selection_json(data, choice, stability) | {"table": str(table), "seed": seed}
        )
    else:
        _show.print_selection(data, choice, stability)
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
@_guarded
def compare(
    table: TablePath,
    target: Target = None,
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Names with commas between them.")
    ] = "manifest,relieff,gc",
    k: Number = "10",
    folds: Annotated[int, typer.Option(min=2, help="Parts of the cross-validation.")] = 5,
    json: Json = False,
    drop: Drop = None,
    impute: Impute = None,
    header: Header = "auto",
    delimiter: Delimiter = "auto",
    decimal: Decimal = "auto",
    standardize: Standardize = False,
    seed: Seed = 0,
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> None:
    """Compare methods on one table: accuracy in cross-validation, stability, overlap.

    Features are chosen from the training rows of each fold alone; logistic regression (ridge
    regression, if the target is a number) is then tried on its test rows.

    jaxfs compare cells.csv --target type --methods manifest,relieff,gc -k 20
    """
    from jaxfs import _choose, _show
    from jaxfs._choose import Plan
    from jaxfs._compare import compare as compare_methods

    plans = [
        Plan(name, k, seed, dtype, None, (), standardize) for name in methods.split(",") if name
    ]
    if not plans:
        raise Refusal("--methods must name at least one method")
    for plan in plans:  # a mistake in the last one is told before the first starts
        _choose.make_estimator(plan)
        _choose.check_target(_choose.find_method(plan.method), target)
    data = read_table(
        table,
        target=target,
        drop=drop or (),
        impute=impute,
        header=header,
        delimiter=delimiter,
        decimal=decimal,
    )
    _tell(data.notes, quiet)
    _use_cache()
    with _show.progress(len(plans) * folds, quiet) as step:
        result = compare_methods(data, plans, folds=folds, seed=seed, step=step)
    _tell(result.notes, quiet)
    if json:
        content = {"table": str(table), "k": k, "seed": seed, **_show.comparison_json(result)}
        _show.print_json(content | {"notes": [*data.notes, *result.notes]})
    else:
        _show.print_comparison(result)


@app.command()
@_guarded
def methods(
    name: Annotated[str | None, typer.Argument(help="Tell all of this one.")] = None,
    json: Json = False,
) -> None:
    """List the methods: what each is for, what target it needs, its options."""
    from jaxfs import _choose, _show

    chosen = None if name is None else _choose.find_method(name)
    if json:
        content = _show.methods_json()
        _show.print_json(content if chosen is None else content[chosen.name])
    elif chosen is None:
        _show.print_methods()
    else:
        _show.print_method(chosen)


@app.command()
@_guarded
def demo(
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("jaxfs-demo.png"),
    data: Annotated[
        Path | None, typer.Option(help="Also write the data, as .csv or .tsv, to try commands on.")
    ] = None,
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Which pixels tell a 4 from a 9? Rank them, draw them, and say what is seen."""
    from jaxfs import _demo, _pictures, _show

    _show.check_format(data)
    _pictures.check(out, None)
    _files.check_outputs((out, data), force=force)
    _use_cache()
    table, choice = _demo.run(seed)
    with _files.Staged(force=force) as staged:
        _demo.draw(staged.path(out), table, choice)
        if data is not None:
            _show.write_selected(staged.path(data), table, range(len(table.names)))
    _show.print_selection(table, choice, None)
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
