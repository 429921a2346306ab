"""The picture and the page of a selection."""

from pathlib import Path
from typing import Any

import numpy as np

from jaxfs.cli._answer import Choice, labels
from jaxfs.cli._request import Plan
from jaxfs.cli.report import _page
from jaxfs.cli.tables._columns import Refusal, printable
from jaxfs.cli.tables._table import Table
from jaxfs.plot import _figures
from jaxfs.resample import Stability

#: At most so many features are drawn.
_SHOWN = 30
_ENDINGS = (".png", ".svg", ".pdf", ".jpg")


def pyplot() -> Any:
    """Matplotlib without a screen."""
    try:
        import matplotlib
    except ImportError as error:
        raise Refusal("pictures need Matplotlib: pip install 'jaxfs[plot]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def check(plot: Path | None, report: Path | None, option: str = "--plot") -> None:
    """Refuse before the work what could not be drawn after it."""
    if plot is not None and plot.suffix.lower() not in _ENDINGS:
        raise Refusal(f"{option} must end in {', '.join(_ENDINGS)}, got '{printable(plot.name)}'")
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise Refusal(f"--report must end in .html, got '{printable(report.name)}'")
    if plot is not None or report is not None:
        pyplot()


def finite(scores: np.ndarray) -> np.ndarray:
    """Scores that can be drawn: infinite ones as long as the longest finite one."""
    known = scores[np.isfinite(scores)]
    if not known.size:
        return np.ones_like(scores)
    low, high = np.clip([known.min(), known.max()], -_figures.LARGEST, _figures.LARGEST)
    return np.clip(scores, low, high)


def draw_scores(table: Table, choice: Choice) -> Any:
    from jaxfs import plot

    return plot.score_bars(
        finite(choice.scores),
        [printable(name) for name in table.names],
        num_shown=min(_SHOWN, len(choice.order)),
        order=choice.order[:_SHOWN],
        label=f"score by {choice.method.name}",
    )


def write_plot(path: Path, table: Table, choice: Choice) -> None:
    module = pyplot()
    axes = draw_scores(table, choice)
    axes.figure.savefig(path, dpi=150)
    module.close(axes.figure)


def write_page(
    path: Path,
    source: Path,
    table: Table,
    choice: Choice,
    plan: Plan,
    stability: Stability | None,
    command: str,
) -> None:
    """The report of a selection."""
    n, d = table.values.shape
    _, classes = labels(table, choice.method)
    features = _page.top_features(
        choice.scores, table.names, len(choice.order), order=choice.order, stability=stability
    )
    report = _page.Report(
        source=str(source),
        num_samples=n,
        num_features=d,
        dtype=plan.dtype if plan.dtype != "auto" else "float64",
        target=table.target_name,
        classes=classes,
        imputed=table.imputed,
        method=choice.method.name,
        description=choice.method.summary,
        parameters=dict(choice.parameters),
        features=features,
        stability=None if stability is None else _interval(stability),
        num_resamples=None if stability is None else len(stability.indices),
        pictures=_drawings(table, choice, stability),
        warnings=[*table.notes, *choice.notes],
        command=command,
        seed=plan.seed,
        versions=_page.versions(),
    )
    _page.write_report(path, report)


def _interval(stability: Stability) -> tuple[float, float, float]:
    low, high = map(float, stability.interval)
    return float(stability.stability), low, high


def _drawings(table: Table, choice: Choice, stability: Stability | None) -> list[_page.Picture]:
    from jaxfs import plot

    names = [printable(name) for name in table.names]
    shown = min(_SHOWN, len(choice.order))
    found = [
        _page.picture(
            plot.score_bars,
            finite(choice.scores),
            names,
            num_shown=shown,
            order=choice.order[:shown],
            title="Scores",
            alt=f"Bars of the scores of the first {shown} features",
        )
    ]
    if stability is not None:
        found.append(
            _page.picture(
                plot.rank_intervals,
                stability,
                names,
                num_shown=shown,
                title="Ranks in resamples",
                alt="Mean ranks of the features in the resamples, with their deviations",
            )
        )
    return found
