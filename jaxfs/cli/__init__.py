"""The `jaxfs` command: read a table, choose features, print and draw them.

`jaxfs --help` lists the commands; `pip install 'jaxfs[cli,plot]'` installs what it needs.
"""

import io
import sys

MISSING = "error: the jaxfs command needs typer and rich: pip install 'jaxfs[cli]'"


def main() -> None:
    """Run the command line; exits with 0, 1, 2 or 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name in a script that the terminal cannot show is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        from jaxfs.cli._commands import app
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in {"typer", "rich", "click"}:
            print(MISSING, file=sys.stderr)
            sys.exit(2)
        raise
    try:
        app(prog_name="jaxfs")
    except KeyboardInterrupt:  # between the commands' own guards
        sys.exit(130)
