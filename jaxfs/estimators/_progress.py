"""Progress bars and messages on stderr, printed with the package rich."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


def _console() -> Any:
    try:
        from rich.console import Console
    except ImportError as error:
        message = 'verbose=True needs the package rich: pip install "jaxfs[cli]"'
        raise ImportError(message) from error
    return Console(stderr=True)


def say(message: str) -> None:
    """Print a message on stderr."""
    _console().print(message, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def bar(
    description: str, total: int, *, show: bool, transient: bool = False
) -> Iterator[Callable[..., None]]:
    """Show a progress bar of `total` steps on stderr if `show` is true.

    The context manager yields a function `done(steps, description=None)`. Call it each time that
    more steps are finished. A description replaces the previous one. A `transient` bar disappears
    at the end.
    """
    if not show:
        yield lambda steps, description=None: None
        return
    console = _console()
    from rich.progress import Progress

    with Progress(console=console, transient=transient) as progress:
        task = progress.add_task(description, total=total)
        yield lambda steps, description=None: progress.update(
            task, advance=steps, description=description
        )
