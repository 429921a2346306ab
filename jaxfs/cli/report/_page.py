"""The HTML report of a selection: one file that needs no network and runs no script.

The template `report.html.jinja` decides what the page shows, and escapes it. Equal runs give equal
bytes.
"""

import base64
import contextlib
import importlib.metadata
import io
import math
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxfs.plot import _figures

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


def template() -> "Template":
    """Return the template of the page, which lists its variables.

    It escapes markup and replaces control characters.
    """
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


def _visible(value: object) -> str:
    # `translate` of escaped markup gives escaped markup again.
    return (value if isinstance(value, str) else str(value)).translate(_REPLACED)


def _number(value: float | None, form: str) -> str:
    """Return a formatted number, or a dash if it is unknown."""
    return "–" if value is None or math.isnan(value) else format(value, form)


def picture(draw: Callable[..., Any], *arguments: Any, title: str, alt: str) -> Picture:
    """Return the image that `draw(*arguments, ax=figure)` draws.

    The figure belongs to no window and is not registered with pyplot, so it need not be closed.
    """
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    draw(*arguments, ax=figure)
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


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a result."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for package in ("jaxfs", "jax", "jaxlib", "numpy", "scikit-learn", "matplotlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
