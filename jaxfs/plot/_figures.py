"""Shared parts of the plots: loading Matplotlib, Axes, colours, and shortened names.

These functions do not change any setting of Matplotlib and do not show figures.
"""

import bisect
import collections
import functools
import importlib
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxfs import _checks
from jaxfs._types import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

#: Width of a new figure in inches. At a width of 300 pixels, 10-point letters are 10 pixels high.
WIDTH = 4.0

#: Palette of Okabe and Ito, distinct for colour-blind readers, most visible on white first.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"
)  # fmt: skip
GREY = "#999999"
#: Markers and line styles that distinguish classes and curves without colour.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
#: Colour maps for values from low to high, and for values on both sides of zero.
SEQUENTIAL, DIVERGING = "cividis", "RdBu_r"

#: Largest magnitude that Matplotlib draws without overflow.
LARGEST = 1e300

#: Options for text from users: do not interpret dollar signs or TeX.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}

#: Replacement for characters that the font does not have.
_MISSING = "□"


def matplotlib(module: str = "") -> Any:
    """Return Matplotlib or one of its modules; the error names the command that installs it."""
    try:
        return importlib.import_module(f"matplotlib.{module}" if module else "matplotlib")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        message = "pictures need Matplotlib: pip install 'jaxfs[plot]'"
        raise ModuleNotFoundError(message, name="matplotlib") from error


def axes(ax: Any, height: float) -> "Axes":
    """Return the caller's Axes, or new Axes in the caller's empty figure or in a new figure."""
    if ax is None or isinstance(ax, matplotlib("figure").Figure):
        return panels(ax, 1, 1, height)[0, 0]
    if not isinstance(ax, matplotlib("axes").Axes):
        raise _checks.fail("ax", "Matplotlib Axes or a Figure", type(ax).__name__)
    return ax


def tidy(ax: "Axes", axis: Any = "both", title: object = None) -> None:
    """Remove the upper and right lines, limit the ticks of `axis`, and write a literal title."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.locator_params(axis=axis, nbins=5)
    if title is not None:
        ax.set_title(label(title, 30), fontsize="medium", **LITERAL)


def labelled(labels: ArrayLike, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of n samples, and the code of each sample."""
    found = np.asarray(labels)
    if found.shape != (n,):
        raise _checks.fail("labels", f"of shape ({n},), one per sample", f"shape {found.shape}")
    return np.unique(found, return_inverse=True)


def panels(ax: Any, rows: int, columns: int, height: float) -> np.ndarray:
    """Return an array `(rows, columns)` of Axes: the caller's, or new Axes as in `axes`."""
    if ax is None:
        ax = matplotlib("pyplot").figure(layout="constrained")
    if isinstance(ax, matplotlib("figure").Figure):
        if ax.axes:
            raise _checks.fail("ax", "Axes, or a Figure without any", f"a Figure of {len(ax.axes)}")
        ax.set_size_inches(WIDTH, height)
        return ax.subplots(rows, columns, squeeze=False)
    found = np.asarray(ax, dtype=object)
    if found.shape != (rows, columns):
        raise _checks.fail("ax", f"an array of Axes, ({rows}, {columns})", f"shape {found.shape}")
    for panel in found.flat:
        axes(panel, height)
    return found


def numbers(values: ArrayLike, name: str, *, ndim: int, nan: bool = False) -> np.ndarray:
    """Return real numbers in float64; values that cannot be drawn raise `ValueError`."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _checks.fail(name, "an array of real numbers", type(values).__name__) from error
    if found.ndim != ndim or not found.size:
        expected = f"a nonempty array of {ndim} dimension{'s' * (ndim > 1)}"
        raise _checks.fail(name, expected, f"shape {found.shape}")
    drawn = (np.abs(found) <= LARGEST) | (np.isnan(found) & nan)
    if not np.all(drawn):
        expected = f"finite{' or NaN' * nan}, at most {LARGEST:g} in magnitude"
        bad = np.count_nonzero(~drawn)
        raise _checks.fail(name, expected, f"{bad} of {found.size} that are not")
    return found


def by_falling(values: np.ndarray) -> np.ndarray:
    """Return indices from the largest value to the smallest; ties go to the lowest index."""
    return np.argsort(-values, stable=True)


def features(order: ArrayLike, name: str, num_features: int) -> np.ndarray:
    """Return the distinct feature indices of a selection, without the placeholder −1."""
    found = np.asarray(order)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise _checks.fail(name, "integers (k,)", f"shape {found.shape}, dtype {found.dtype}")
    found = found[found != -1]
    if found.size and (found.min() < 0 or found.max() >= num_features):
        raise _checks.fail(name, f"in 0 … {num_features - 1}, or −1 for none", found)
    if len(set(found.tolist())) < found.size:
        raise _checks.fail(name, "distinct", found)
    return found


def image(ax: "Axes", grid: np.ndarray, *, signed: bool, low: float = 0.0) -> "AxesImage":
    """Draw an image of numbers, with colours from `low` or symmetric about zero; NaN is white."""
    colours, high = SEQUENTIAL, float(np.nanmax(grid))
    if signed:
        colours, high = DIVERGING, float(np.nanmax(np.abs(grid))) or 1.0
        low = -high
    # Large matrices are downsampled before they are coloured.
    style: dict[str, Any] = {"interpolation": "nearest", "interpolation_stage": "data"}
    return ax.imshow(np.ma.masked_invalid(grid), cmap=colours, vmin=low, vmax=high, **style)


def label(text: object, limit: int) -> str:
    """Return a printable text of at most `limit` columns."""
    return shorten(printable(str(text)), limit)


def names(
    given: Sequence[Any] | None, shown: Iterable[int], total: int, *, limit: int, what: str
) -> list[str]:
    """Return printable, short and distinct labels for the `shown` indices of `total` names.

    A label ends with the index of its name if two names would have the same label, or if the font
    does not have some character of the name.
    """
    if given is None:
        return [f"{what} {i}" for i in shown]
    if isinstance(given, str) or len(given) != total:
        got = repr(given) if isinstance(given, str) else f"{len(given)}"
        raise _checks.fail("names", f"{total}, one per {what}", got)
    full = {int(i): printable(str(given[i])) or f"{what} {i}" for i in shown}
    short = {i: shorten(name, limit) for i, name in full.items()}
    often = collections.Counter(short.values())
    for i, text in short.items():
        if often[text] > 1 or _MISSING in text:
            short[i] = shorten(full[i], limit - len(f" #{i}")) + f" #{i}"
    return list(short.values())


def shorten(text: str, limit: int) -> str:
    """Shorten a text to `limit` columns; omit its middle, because both ends distinguish names.

    >>> shorten("worst fractal dimension of all", 16)
    'worst fr… of all'
    """
    # Ideographs are two columns wide, combining accents have no width.
    wide = [unicodedata.east_asian_width(c) in "WF" for c in text]
    widths = [0 if unicodedata.combining(c) else 1 + w for c, w in zip(text, wide, strict=True)]
    if sum(widths) <= limit:
        return text
    half, more = divmod(max(limit, 3) - 1, 2)
    start = bisect.bisect(list(itertools.accumulate(widths)), half + more)
    end = bisect.bisect(list(itertools.accumulate(widths[::-1])), half)
    return text[:start] + "…" + text[len(text) - end :]


def printable(text: str) -> str:
    """Return one line without control characters; □ replaces characters missing in the font.

    One □ replaces a run of missing characters. For missing characters, Matplotlib itself would draw
    boxes and warn on every draw. To show such names, set `rcParams["font.family"]` to a list of
    fonts that have the characters.
    """
    text = " ".join(unicodedata.normalize("NFC", text).split())
    kept = [c for c in text if unicodedata.category(c)[0] != "C"]
    # The files of the fonts that Matplotlib currently uses, in order.
    manager = matplotlib("font_manager")
    families = [manager.FontProperties(family=[f]) for f in manager.FontProperties().get_family()]
    files = tuple(str(manager.findfont(family)) for family in families)
    drawn = "".join(c if c.isascii() or _drawable(c, files) else _MISSING for c in kept)
    return re.sub(f"{_MISSING}+", _MISSING, drawn)


@functools.lru_cache(maxsize=4096)
def _drawable(character: str, files: tuple[str, ...]) -> bool:
    get_font = matplotlib("font_manager").get_font
    return any(get_font(file).get_char_index(ord(character)) for file in files)
