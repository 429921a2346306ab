"""The `jaxfs` command. It reads a table, selects features, and prints and plots the result.

`jaxfs --help` lists the commands. `pip install 'jaxfs[cli,plot]'` installs the required packages.
"""

import io
import sys

#: Packages without which no command can start.
_NEEDED = {"typer", "rich", "click"}


def main() -> None:
    """Run the command line, and exit with status 0, 1, 2 or 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # If a terminal cannot show a character of a name, print its code point instead.
            stream.reconfigure(errors="backslashreplace")
    try:
        from jaxfs.cli._commands import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _NEEDED:
            raise
        print(f"error: {error}: pip install 'jaxfs[cli]'", file=sys.stderr)
        sys.exit(2)
    app(prog_name="jaxfs")
