"""The options of the commands as records, and the exit codes and error messages of commands."""

import dataclasses
import functools
import inspect
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from jaxfs.cache import enable_compilation_cache
from jaxfs.cli.tables._columns import GIGABYTES, Refusal, printable

_EPILOG = (
    "Exit codes: 0 success; 1 a bug in jaxfs; 2 invalid input or usage, or not enough memory or "
    "disk space; 130 interrupted. Results go to stdout, notes and progress to stderr. Compiled "
    "programs are cached in the user's cache folder (~/.cache/jaxfs, ~/Library/Caches/jaxfs or "
    "%LOCALAPPDATA%/jaxfs), which may be deleted at any time. JAXFS_CACHE_DIR sets another folder, "
    "and JAXFS_CACHE_DIR=off disables the cache."
)

app = typer.Typer(
    epilog=_EPILOG, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

NUMBER = "Number of features: 20, a fraction such as 0.1, or a rule: auto, gap, fdr or one_se."


def option(default: Any, text: str, flags: str = "", **settings: Any) -> Any:
    """Return a field of a record that is an option of a command, by default of the same name."""
    return dataclasses.field(default=default, metadata={"help": text, "flags": flags} | settings)


@dataclasses.dataclass(frozen=True)
class Source:
    """The table of a command, and how to read it: arguments of `read_table`."""

    path: Annotated[
        Path, Argument(metavar="TABLE", help="CSV, TSV, XLSX, Parquet, Feather, NPZ, MAT, H5AD.")
    ]
    target: str | None = option(None, "Target column: name or position (-1: last).", "--target -t")
    drop: list[str] | None = option(None, "Column to leave out; repeatable.", "--drop -d")
    categorical: list[str] | None = option(None, "Column to encode as 0 and 1; repeatable.")
    transpose: bool = option(False, "The rows of the file are features, its columns samples.")
    impute: str | None = option(None, "Missing values: median (of the column) or drop (the row).")
    header: str = option("auto", "Whether the first row holds names: auto, yes or no.")
    delimiter: str = option("auto", "auto, comma, semicolon, tab, pipe, space or a character.")
    decimal: str = option("auto", "Decimal mark: auto, point or comma.")
    max_gb: float = option(GIGABYTES, "Size limit after decompression, in GB.", min=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that `select` and `compare` share, besides those of the table."""

    groups: str | None = option(None, "Column of groups of rows, such as patients.")
    standardize: bool = option(
        False, "Scale features to mean 0, standard deviation 1.", "--standardize --standardise"
    )
    seed: int = option(0, "Equal seeds give equal results.", min=0, max=2**32 - 1)
    dtype: str = option("auto", "Precision: auto (float64), float64 or float32.")
    json: bool = option(False, "Print JSON, and nothing else, to stdout.")
    quiet: bool = option(False, "Print no notes and no progress.", "--quiet -q")

    @property
    def verbose(self) -> bool:
        """Whether to show the progress."""
        return not self.quiet and sys.stderr.isatty()


@dataclasses.dataclass(frozen=True)
class Request(Settings):
    """A method with its options, and the number of features to select."""

    method: str = option("auto", "Method; `jaxfs methods` lists them.", "--method -m")
    k: str = option("auto", NUMBER, "-k --number")
    fdr: float | None = option(None, "Select features up to this false discovery rate.")
    permutations: int | None = option(None, "Number of permutations, for p-values.", min=1)
    strata: str | None = option(None, "Column of strata for permutations, such as sites.")
    solver: str | None = option(None, "Solver of manifest: auto, exact or lowrank.")
    options: list[str] | None = option(
        None, "Option of the method; repeatable.", "--option -o", metavar="NAME=VALUE"
    )


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The files that `select` writes, and the resamples for its report."""

    out: Path | None = option(None, "Write selected columns and target: .csv, .tsv, .parquet.")
    raw: bool = option(False, "Do not escape text in --out that looks like a formula.")
    plot: Path | None = option(None, "Draw the scores: .png, .svg, .pdf or .jpg.")
    report: Path | None = option(None, "Write an .html report.")
    resamples: int | None = option(
        None,
        "Measure the stability of the selection: repeat it on this many resamples of 80% of the "
        "rows. Default: 10 with --report, else 0; the method auto uses its folds.",
        min=0,
        max=10_000,
    )
    force: bool = option(False, "Overwrite existing files.")


def _parameters(record: Any) -> list[inspect.Parameter]:
    """Return the fields of a record as parameters of a command."""
    found = []
    fields = {field.name: dict(field.metadata) for field in dataclasses.fields(record)}
    for name, parameter in inspect.signature(record).parameters.items():
        if settings := fields[name]:
            flags = settings.pop("flags").split() or [f"--{name.replace('_', '-')}"]
            kind: Any = parameter.annotation
            parameter = parameter.replace(annotation=Annotated[kind, Option(*flags, **settings)])
        found.append(parameter)
    return found


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add a command to the app. The fields of its records, such as `Source`, become options.

    A user error prints one line instead of a traceback.
    """
    records: dict[str, tuple[Any, list[inspect.Parameter]]] = {}
    flat = []
    for name, parameter in inspect.signature(function).parameters.items():
        if dataclasses.is_dataclass(parameter.annotation):
            records[name] = parameter.annotation, _parameters(parameter.annotation)
            flat += records[name][1]
        else:
            flat.append(parameter)

    @functools.wraps(function)
    def run(**given: Any) -> None:
        for name, (record, fields) in records.items():
            given[name] = record(**{field.name: given.pop(field.name) for field in fields})
        try:
            function(**given)
            sys.stdout.flush()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # `jaxfs … | head`: the reader closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            message = _user_error(error)
            if message is None:
                traceback.print_exc()
                print("error: this is a bug in jaxfs, please report it", file=sys.stderr)
                raise typer.Exit(1) from None
            print(f"error: {printable(' '.join(message.split()), 1000)}", file=sys.stderr)
            raise typer.Exit(2) from None

    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in flat]
    vars(run)["__signature__"] = inspect.Signature(options)
    return app.command(epilog=_EPILOG)(run)


def _user_error(error: Exception) -> str | None:
    """Return the message for an error that the user can fix, and `None` for a bug in jaxfs."""
    if isinstance(error, MemoryError):
        return str(error) or "there is not enough memory"
    if isinstance(error, OSError):
        where = error.filename or "standard output"  # its errors have no file name
        return f"{where}: {error.strerror or error}"
    out_of_memory = str(error).startswith("RESOURCE_EXHAUSTED")  # an error of XLA
    known = isinstance(error, (Refusal, ModuleNotFoundError)) or out_of_memory
    return str(error) if known else None


def command_line(context: typer.Context) -> str:
    """Return the command that repeats a run.

    It has the method, `-k`, the seed and the options that the user gave, but no output options
    except `--report`.
    """
    parts = ["jaxfs", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        value, source = context.params[name], str(context.get_parameter_source(name))
        given = name in ("method", "k", "seed") or "DEFAULT" not in source
        if not given or name in ("out", "raw", "plot", "json", "force", "quiet"):
            continue
        flag = [parameter.opts[0]] if parameter.param_type_name == "option" else []
        for item in value if isinstance(value, (list, tuple)) else [value]:
            parts += flag if item is True else [*flag, str(item)]
    return shlex.join(parts)


def use_cache() -> None:
    """Keep compiled programs between runs, or print a note if their folder cannot be written."""
    try:
        enable_compilation_cache()
    except OSError as error:
        reason = printable(f"{error.filename}: {error.strerror}", 500)
        print(f"note: compiled programs are not cached: {reason}", file=sys.stderr)
