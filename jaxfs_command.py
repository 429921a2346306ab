"""The entry point of the `jaxfs` command, outside the package, whose import takes seconds.

Ctrl-C must end the command at once, at any moment. While JAX is imported, or while C code runs a
callback, a `KeyboardInterrupt` would print a traceback or be ignored.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys


def _interrupted(*_: object) -> None:
    """Remove temporary files and exit."""
    output = sys.modules.get("jaxfs.cli._output")
    for path in list(getattr(output, "pending", ())):
        with contextlib.suppress(OSError):
            os.unlink(path)
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> None:
    """Run the command line; exits with 0, 1, 2 or 130."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # the caller may ignore it
        signal.signal(signal.SIGINT, _interrupted)
    # Most objects are made by imports and live until the end. The garbage collector would search
    # them many times, also at exit, which takes a third of the processor time of a short run.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    from jaxfs.cli import main

    main()


if __name__ == "__main__":
    main()
