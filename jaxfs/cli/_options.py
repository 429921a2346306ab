"""The options of the commands, their exit codes and error messages, and the compilation cache."""

import functools
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
from jaxfs.cli.tables._columns import Refusal, printable

EPILOG = (
    "Exit codes: 0 success; 1 a bug in jaxfs; 2 invalid input or usage, or not enough memory or "
    "disk space; 130 interrupted. Results go to stdout, notes and progress to stderr. Compiled "
    "programs are cached in the user's cache folder (~/.cache/jaxfs, ~/Library/Caches/jaxfs or "
    "%LOCALAPPDATA%/jaxfs), which may be deleted at any time. JAXFS_CACHE_DIR sets another folder, "
    "and JAXFS_CACHE_DIR=off disables the cache."
)

TablePath = Annotated[
    Path, Argument(metavar="TABLE", help="CSV, TSV, XLSX, Parquet, Feather, NPZ, MAT, H5AD.")
]
Target = Annotated[
    str | None, Option("--target", "-t", help="Target column: a name or a position (-1: last).")
]
Drop = Annotated[list[str] | None, Option("--drop", "-d", help="Column to leave out; repeatable.")]
Transpose = Annotated[
    bool, Option("--transpose", help="The rows of the file are features, its columns samples.")
]
Categorical = Annotated[
    list[str] | None,
    Option("--categorical", help="Column whose values become columns of 0 and 1; repeatable."),
]
_NUMBER = "Number of features: 20, a fraction such as 0.1, or a rule: auto, gap, fdr or one_se."
Number = Annotated[str, Option("-k", "--number", help=_NUMBER)]
NumberOrTen = Annotated[str | None, Option("-k", "--number", help=_NUMBER, show_default="10")]
Fdr = Annotated[
    float | None, Option(help="Select features with q-values up to this false discovery rate.")
]
_PERMUTATIONS = "Give p-values by a test with this many permutations of the target."
Permutations = Annotated[int | None, Option(min=1, help=_PERMUTATIONS)]
Groups = Annotated[
    str | None, Option(help="Column of groups of rows that belong together, such as patients.")
]
Strata = Annotated[
    str | None, Option(help="Column of strata within which the target is permuted, such as sites.")
]
Impute = Annotated[
    str | None, Option(help="Missing values: median (of the column) or drop (omit the row).")
]
Header = Annotated[str, Option(help="Whether the first row holds names: auto, yes or no.")]
Delimiter = Annotated[str, Option(help="auto, comma, semicolon, tab, pipe, space or a character.")]
Decimal = Annotated[str, Option(help="Decimal mark: auto, point or comma.")]
MaxGB = Annotated[float, Option("--max-gb", min=0, help="Size limit after decompression, in GB.")]
Standardize = Annotated[
    bool,
    Option(
        "--standardize", "--standardise", help="Scale features to mean 0, standard deviation 1."
    ),
]
Seed = Annotated[int, Option(min=0, max=2**32 - 1, help="Equal seeds give equal results.")]
Dtype = Annotated[str, Option(help="Precision: auto (float64), float64 or float32.")]
Json = Annotated[bool, Option("--json", help="Print JSON, and nothing else, to stdout.")]
Force = Annotated[bool, Option("--force", help="Overwrite existing files.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print no notes and no progress.")]
Method = Annotated[str, Option("--method", "-m", help="Method; `jaxfs methods` lists them.")]
Options = Annotated[
    list[str] | None,
    Option("--option", "-o", metavar="NAME=VALUE", help="Option of the method; repeatable."),
]
Solver = Annotated[str | None, Option(help="Solver of manifest: auto, exact or lowrank.")]
Out = Annotated[
    Path | None, Option(help="Write the selected columns and the target: .csv, .tsv, .parquet.")
]
Raw = Annotated[
    bool, Option("--raw", help="Do not escape text in --out that looks like a formula.")
]
Plot = Annotated[Path | None, Option(help="Draw the scores: .png, .svg, .pdf or .jpg.")]
ReportPath = Annotated[Path | None, Option("--report", help="Write an .html report.")]
_RESAMPLES = (
    "Measure the stability of the selection: repeat it on this many resamples of 80% of the rows. "
    "Default: 10 with --report, else 0; the method auto uses its folds."
)
Resamples = Annotated[int | None, Option(min=0, max=10_000, help=_RESAMPLES)]


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its exit codes; a user error prints one line instead of a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
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

    return run


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
