"""The picture and the report of a selection."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from jaxfs import plot
from jaxfs.cli._answer import Answer
from jaxfs.cli._request import Request
from jaxfs.cli.report import _page
from jaxfs.cli.tables._columns import printable
from jaxfs.cli.tables._table import Table
from jaxfs.plot import _figures

#: Maximum number of features drawn.
_SHOWN = 30


def require_packages(*, page: bool) -> None:
    """Raise `ModuleNotFoundError` early if a package for pictures is missing."""
    _figures.matplotlib("figure")
    if page:
        _page.template()


def finite(scores: np.ndarray) -> np.ndarray:
    """Return finite scores: infinite scores become the largest or smallest finite score."""
    known = scores[np.isfinite(scores)]
    if not known.size:
        return np.ones_like(scores)
    low, high = np.clip([known.min(), known.max()], -_figures.LARGEST, _figures.LARGEST)
    return np.clip(scores, low, high)


def _draw_scores(table: Table, answer: Answer, ax: Any) -> None:
    plot.score_bars(
        finite(answer.scores),
        [printable(name) for name in table.names],
        num_shown=min(_SHOWN, len(answer.order)),
        order=answer.order[:_SHOWN],
        label=f"score by {answer.method.name}",
        ax=ax,
    )


def write_plot(path: Path, table: Table, answer: Answer) -> None:
    """Draw the scores of the selected features."""
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    _draw_scores(table, answer, figure)
    figure.savefig(path, dpi=150)


def report(table: Table, answer: Answer, request: Request, source: str, command: str) -> str:
    """Return the HTML report of a selection.

    `source`: the file of the table. `command`: the command that repeats the run.
    """
    shown = min(_SHOWN, len(answer.order))
    alt = f"Bar chart of the scores of the first {shown} features"
    pictures = [_page.picture(_draw_scores, table, answer, title="Scores", alt=alt)]
    if answer.stability is not None:
        names = [printable(name) for name in table.names]
        title = "Ranks in resamples"
        alt = "Mean ranks of the features in the resamples, with their standard deviations"
        draw = functools.partial(plot.rank_intervals, num_shown=shown)
        pictures.append(_page.picture(draw, answer.stability, names, title=title, alt=alt))
    return _page.template().render(
        source=source,
        table=table,
        answer=answer,
        request=request,
        pictures=pictures,
        command=command,
        versions=_page.versions(),
    )
