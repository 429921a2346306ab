"""The picture and the HTML report of a selection.

The report is one file that needs no network and runs no script. The template `report.html.jinja`
defines the content of the page and escapes it. The same run gives the same bytes.
"""

import base64
import contextlib
import functools
import importlib.metadata
import io
import math
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxfs import plot
from jaxfs.cli._answer import Answer
from jaxfs.cli._request import Request
from jaxfs.cli.tables._columns import printable
from jaxfs.cli.tables._table import Table
from jaxfs.plot import _figures

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

#: Maximum number of features drawn.
_SHOWN = 30
#: Size in bytes above which a drawing is stored as PNG: browsers draw 10 000 lines slowly.
LARGEST_SVG = 400_000

#: Control characters except tab and newline, and surrogates, which no encoding can represent.
_UNSAFE = {*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)}
_REPLACED = dict.fromkeys(_UNSAFE, "�")


def require_packages(*, page: bool) -> None:
    """Raise `ModuleNotFoundError` early if a package for pictures is missing."""
    _figures.matplotlib("figure")
    if page:
        template()


def write_plot(path: Path, table: Table, answer: Answer) -> None:
    """Draw the scores of the selected features."""
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    _draw_scores(table, answer, figure)
    figure.savefig(path, dpi=150)


def _draw_scores(table: Table, answer: Answer, ax: Any) -> None:
    names, label = list(map(printable, table.names)), f"score by {answer.method.name}"
    order = answer.order[:_SHOWN]
    plot.score_bars(finite(answer.scores), names, num_shown=_SHOWN, order=order, label=label, ax=ax)


def finite(scores: np.ndarray) -> np.ndarray:
    """Return finite scores: infinite scores become the largest or smallest finite score."""
    known = scores[np.isfinite(scores)]
    if not known.size:
        return np.ones_like(scores)
    low, high = np.clip([known.min(), known.max()], -_figures.LARGEST, _figures.LARGEST)
    return np.clip(scores, low, high)


def write_report(
    path: Path, table: Table, answer: Answer, request: Request, source: str, command: str
) -> None:
    """Write the HTML report of a selection.

    `source`: the file of the table. `command`: the command that repeats the run.
    """
    shown, names = min(_SHOWN, len(answer.order)), list(map(printable, table.names))
    alt = f"Bar chart of the scores of the first {shown} features"
    pictures = [picture(functools.partial(_draw_scores, table, answer), "Scores", alt)]
    if (stability := answer.stability) is not None:
        alt = "Mean ranks of the features in the resamples, with their standard deviations"
        draw = functools.partial(plot.rank_intervals, stability, names, num_shown=shown)
        pictures.append(picture(draw, "Ranks in resamples", alt))
    content = {"source": source, "command": command, "table": table, "answer": answer}
    content |= {"request": request, "pictures": pictures, "versions": versions()}
    path.write_text(template().render(content), encoding="utf-8", newline="\n")


def template() -> "Template":
    """Return the template of the page. Its first comment lists the variables.

    The template escapes markup and replaces control characters.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxfs.cli", ""), autoescape=True, finalize=_visible,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["number"] = _number
    return environment.get_template("report.html.jinja")


def _visible(value: object) -> str:
    # `translate` keeps the type of its string, so that escaped markup stays marked as escaped.
    return (value if isinstance(value, str) else str(value)).translate(_REPLACED)


def _number(value: float | None, form: str) -> str:
    """Return a formatted number, or a dash if it is unknown."""
    return "–" if value is None or math.isnan(value) else format(value, form)


class Picture(NamedTuple):
    """An image, its heading, and the alternative text for those who cannot see it.

    `url`: the image as a `data:` URL, which needs no network.
    """

    title: str
    alt: str
    url: str


def picture(draw: Callable[..., Any], title: str, alt: str) -> Picture:
    """Return the image that `draw(ax=figure)` draws, as SVG or, if that is large, as PNG.

    The figure belongs to no window and is not registered with pyplot, so it need not be closed.
    """
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    draw(ax=figure)
    content, kind = _image(figure, "svg"), "svg+xml"
    if len(content) > LARGEST_SVG:
        content, kind = _image(figure, "png"), "png"
    encoded = base64.b64encode(content).decode("ascii")
    return Picture(title, alt, f"data:image/{kind};base64,{encoded}")


def _image(figure: "Figure", form: str) -> bytes:
    # Without a date, and with a fixed salt for identifiers, equal pictures have equal bytes.
    stored, metadata = io.BytesIO(), {"Date": None} if form == "svg" else {}
    with _figures.matplotlib().rc_context({"svg.hashsalt": "jaxfs"}):
        figure.savefig(stored, format=form, dpi=200, metadata=metadata)
    return stored.getvalue()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a result."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for package in ("jaxfs", "jax", "jaxlib", "numpy", "scikit-learn", "matplotlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
