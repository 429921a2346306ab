"""The options of the commands, and the frame that every command runs in."""

import functools
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from jaxfs.cli import _files
from jaxfs.cli.tables._columns import Refusal, printable

EPILOG = (
    "Exit codes: 0 fine; 2 bad input or usage, told in one line; 130 interrupted; 1 a mistake in "
    "jaxfs. Answers go to stdout, notes and progress to stderr. Compiled programs are kept in the "
    "user's cache folder (~/.cache/jaxfs, ~/Library/Caches/jaxfs or %LOCALAPPDATA%/jaxfs), where "
    "they may be deleted; JAXFS_CACHE_DIR names another folder, and JAXFS_CACHE_DIR=off keeps none."
)

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
Several = Annotated[
    str | None,
    typer.Option("-k", "--number", help="How many: 20, a fraction or auto.", show_default="10"),
]
Impute = Annotated[
    str | None, typer.Option(help="Missing values: median (of the column) or drop (the row).")
]
Header = Annotated[str, typer.Option(help="Whether the first row holds names: auto, yes or no.")]
Delimiter = Annotated[
    str, typer.Option(help="auto, comma, semicolon, tab, pipe, space or a character.")
]
Decimal = Annotated[str, typer.Option(help="Decimal mark: auto, point or comma.")]
MaxGB = Annotated[
    float,
    typer.Option("--max-gb", min=0, help="Most gigabytes that a file may become, decompressed."),
]
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
Solver = Annotated[
    str | None,
    typer.Option(help="auto, exact or lowrank, if the method has it (manifest)."),
]
Out = Annotated[
    Path | None, typer.Option(help="Write the chosen columns and the target as .csv or .tsv.")
]
Raw = Annotated[
    bool, typer.Option("--raw", help="In --out leave words as they are that spreadsheets may run.")
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


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Exit codes, and one line instead of a traceback for what the user can mend."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except (Refusal, MemoryError) as error:
            raise _refused(error) from None
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # `jaxfs … | head`: whoever read has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):
            raise
        except OSError as error:  # a full disk, a folder that may not be read
            where = error.filename or "standard output"  # whose errors have no name
            raise _refused(f"{where}: {error.strerror or error}") from None
        except Exception as error:
            if str(error).startswith("RESOURCE_EXHAUSTED"):  # as XLA says that memory is out
                raise _refused(error) from None
            traceback.print_exc()
            print("error: this is a mistake in jaxfs, please report it", file=sys.stderr)
            raise typer.Exit(1) from None

    return run


def _refused(reason: object) -> typer.Exit:
    text = " ".join(str(reason).split()) or "there is not enough memory"
    print(f"error: {printable(text, 1000)}", file=sys.stderr)
    return typer.Exit(2)


def use_cache() -> None:
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
