"""The HTML report of a selection: one file that needs no network and runs no script.

`Report` holds plain values; `render` fills them into the template `report.html.jinja`, which
escapes all text. Equal reports render to equal bytes.
"""

import base64
import contextlib
import importlib.metadata
import io
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxfs.plot import _figures
from jaxfs.resample import Stability

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

#: Size in bytes above which a drawing is stored as pixels: browsers are slow on 10 000 lines.
LARGEST_SVG = 400_000

#: Control characters except tab and newline, and surrogates, which no encoding can represent.
_UNSAFE = {*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)}
_REPLACED = dict.fromkeys(_UNSAFE, "�")


class Picture(NamedTuple):
    """An SVG or PNG image, its heading, and the alternative text for those who cannot see it."""

    title: str
    alt: str
    media_type: str
    content: bytes

    @property
    def url(self) -> str:
        """The image as a `data:` URL, which needs no network."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode('ascii')}"


class RankedFeature(NamedTuple):
    """A row of the table of features.

    `frequency`: fraction of the resamples that select the feature. `mean_rank`, `rank_deviation`:
    mean and standard deviation of its rank in the resamples.
    """

    rank: int
    name: str
    score: float | None = None
    frequency: float | None = None
    mean_rank: float | None = None
    rank_deviation: float | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of a report, as plain values; empty parts are left out of the page.

    **Data**: `source` (a file name), `num_samples`, `num_features`, `dtype` of the computation,
    `target` (a column), `classes` (name to number of samples), `imputed` (column to number of
    imputed values).

    **Method**: `method`, `description` (a sentence or two), `parameters` (name to value).

    **Result**: `features`, the best first; their `stability`; `pictures`; `warnings`.

    **How to reproduce**: `command`, `seed`, `versions` (package to version).
    """

    source: str
    num_samples: int
    num_features: int
    dtype: str
    method: str
    features: Sequence[RankedFeature]
    target: str | None = None
    classes: Mapping[str, int] = field(default_factory=dict)
    imputed: Mapping[str, int] = field(default_factory=dict)
    description: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    stability: Stability | None = None
    pictures: Sequence[Picture] = ()
    warnings: Sequence[str] = ()
    command: str = ""
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def template() -> "Template":
    """Return the template of the page; it escapes markup and replaces control characters."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxfs.cli.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = _number
    return environment.get_template("report.html.jinja")


def render(report: Report) -> str:
    """Return the page of a report."""
    return template().render(report=report)


def _visible(value: object) -> str:
    # `translate` of escaped markup gives escaped markup again.
    return (value if isinstance(value, str) else str(value)).translate(_REPLACED)


def _number(value: float | None, form: str) -> str:
    """Return a formatted number, or a dash if it is unknown."""
    return "–" if value is None or math.isnan(value) else format(value, form)


def picture(
    draw: Callable[..., Any], *arguments: Any, title: str, alt: str, **options: Any
) -> Picture:
    """Return the image that `draw(*arguments, ax=figure, **options)` draws.

    The figure belongs to no window and is not registered with pyplot, so it need not be closed.
    """
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    draw(*arguments, ax=figure, **options)
    content, media_type = _image(figure, "svg"), "image/svg+xml"
    if len(content) > LARGEST_SVG:
        content, media_type = _image(figure, "png"), "image/png"
    return Picture(title, alt, media_type, content)


def _image(figure: "Figure", form: str) -> bytes:
    # Without a date and with a fixed salt for its identifiers, equal pictures are equal bytes.
    stored, metadata = io.BytesIO(), {"Date": None} if form == "svg" else {}
    with _figures.matplotlib().rc_context({"svg.hashsalt": "jaxfs"}):
        figure.savefig(stored, format=form, dpi=200, metadata=metadata)
    return stored.getvalue()


def ranked_features(
    scores: np.ndarray,
    names: Sequence[str],
    order: Iterable[int],
    stability: Stability | None = None,
) -> list[RankedFeature]:
    """Return the rows of the features in `order`, the best first."""
    rows = []
    for rank, j in enumerate(order, start=1):
        columns: tuple[float, ...] = ()
        if stability is not None:
            known = stability.frequencies, stability.mean_ranks, stability.rank_deviations
            columns = tuple(float(column[j]) for column in known)
        rows.append(RankedFeature(rank, names[j], float(scores[j]), *columns))
    return rows


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a result."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for package in ("jaxfs", "jax", "jaxlib", "numpy", "scikit-learn", "matplotlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
