"""Bars for fits that go in steps."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


def _rich() -> Any:
    try:
        import rich.console
        import rich.progress
    except ImportError as error:
        message = 'verbose=True needs the package rich: pip install "jaxfs[cli]"'
        raise ImportError(message) from error
    return rich


def say(message: str) -> None:
    _rich().console.Console(stderr=True).print(message, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def bar(description: str, total: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many steps more are done."""
    if not show:
        yield lambda steps: None
        return
    rich = _rich()
    console = rich.console.Console(stderr=True)
    with rich.progress.Progress(console=console) as progress:
        task = progress.add_task(description, total=total)
        yield lambda steps: progress.advance(task, steps)
