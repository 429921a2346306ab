"""The entry of the `jaxfs` command, outside the package, which takes seconds to import.

Ctrl-C ends the command at once, whatever it is doing: while JAX is imported or a callback of C code
runs, a `KeyboardInterrupt` would be printed, or swallowed.
"""

import contextlib
import os
import signal
import sys


def _interrupted(*_: object) -> None:
    """Remove what is half written, and leave."""
    files = sys.modules.get("jaxfs.cli._files")
    for path in list(getattr(files, "pending", ())):
        with contextlib.suppress(OSError):
            os.unlink(path)
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> None:
    """Run the command line; exits with 0, 1, 2 or 130."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not told to ignore it
        signal.signal(signal.SIGINT, _interrupted)
    from jaxfs.cli import main

    main()


if __name__ == "__main__":
    main()
