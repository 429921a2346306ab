"""The `jaxfs` command: reads a table, selects features, prints and draws them.

`jaxfs --help` lists the commands; `pip install 'jaxfs[cli,plot]'` installs the packages it needs.
"""

import io
import sys

#: Packages without which no command can start.
_NEEDED = {"typer", "rich", "click"}


def main() -> None:
    """Run the command line; exits with 0, 1, 2 or 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without the characters of a name shows their code points instead.
            stream.reconfigure(errors="backslashreplace")
    try:
        from jaxfs.cli._commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _NEEDED:
            raise
        print(f"error: {error}: pip install 'jaxfs[cli]'", file=sys.stderr)
        sys.exit(2)
    try:
        app(prog_name="jaxfs")
    except KeyboardInterrupt:  # before or after the command itself, which handles its own
        sys.exit(130)
