"""Shared parts of the plots: loading Matplotlib, Axes, colours, and shortened names.

These functions do not change any setting of Matplotlib and do not show figures.
"""

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
    Axes = matplotlib("axes").Axes
    if isinstance(ax, Axes):
        return ax
    if ax is None or _is_figure(ax):
        return panels(ax, 1, 1, height)[0, 0]
    raise _checks.fail("ax", "Matplotlib Axes or a Figure", type(ax).__name__)


def panels(ax: Any, rows: int, columns: int, height: float) -> np.ndarray:
    """Return an array `(rows, columns)` of Axes: the caller's, or new Axes as in `axes`."""
    if ax is None:
        ax = matplotlib("pyplot").figure(layout="constrained")
    if _is_figure(ax):
        ax.set_size_inches(WIDTH, height)
        return ax.subplots(rows, columns, squeeze=False)
    found = np.asarray(ax, dtype=object)
    if found.shape != (rows, columns):
        raise _checks.fail("ax", f"an array of Axes, ({rows}, {columns})", f"shape {found.shape}")
    for panel in found.flat:
        axes(panel, height)
    return found


def _is_figure(ax: Any) -> bool:
    """Return whether `ax` is an empty figure; a figure with Axes raises `ValueError`."""
    if not isinstance(ax, matplotlib("figure").Figure):
        return False
    if ax.axes:
        raise _checks.fail("ax", "Axes, or a Figure without any", f"a Figure of {len(ax.axes)}")
    return True


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
    high = float(np.nanmax(grid))
    if signed:
        high = float(np.nanmax(np.abs(grid))) or 1.0
        low = -high
    colours = DIVERGING if signed else SEQUENTIAL
    return ax.imshow(
        np.ma.masked_invalid(grid),
        cmap=colours,
        vmin=low,
        vmax=high,
        interpolation="nearest",
        interpolation_stage="data",  # downsample large matrices before colouring them
    )


# ---- Names --------------------------------------------------------------------------------------


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
    full = {int(i): _printable(str(given[i])) or f"{what} {i}" for i in shown}
    short = {i: shorten(name, limit) for i, name in full.items()}
    often = collections.Counter(short.values())
    for i, text in short.items():
        if often[text] > 1 or _MISSING in text:
            short[i] = shorten(full[i], limit - len(f" #{i}")) + f" #{i}"
    return list(short.values())


def label(text: object, limit: int) -> str:
    """Return a printable, short label for one name."""
    return shorten(_printable(str(text)), limit)


def shorten(text: str, limit: int) -> str:
    """Shorten a text to `limit` columns; omit its middle, because both ends distinguish names.

    >>> shorten("worst fractal dimension of all", 16)
    'worst fr… of all'
    """
    if sum(map(_columns, text)) <= limit:
        return text
    half = (max(limit, 3) - 1) // 2
    start, end = _fitting(text, max(limit, 3) - 1 - half), _fitting(text[::-1], half)
    return start + "…" + end[::-1]


def _columns(character: str) -> int:
    """Return the width in columns: 2 for ideographs, 0 for combining accents, otherwise 1."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitting(text: str, limit: int) -> str:
    """Return the longest prefix of at most `limit` columns."""
    reached = itertools.accumulate(map(_columns, text))
    return text[: sum(1 for total in reached if total <= limit)]


def _printable(text: str) -> str:
    """Return one line without control characters; □ replaces characters missing in the font.

    One □ replaces a run of missing characters. For missing characters, Matplotlib itself would draw
    boxes and warn on every draw. To show such names, set `rcParams["font.family"]` to a list of
    fonts that have the characters.
    """
    text = " ".join(unicodedata.normalize("NFC", text).split())
    kept = [c for c in text if unicodedata.category(c)[0] != "C"]
    files = _font_files()
    drawn = "".join(c if c.isascii() or _drawable(c, files) else _MISSING for c in kept)
    return re.sub(f"{_MISSING}+", _MISSING, drawn)


def _font_files() -> tuple[str, ...]:
    """Return the files of the fonts that Matplotlib currently uses, in order."""
    manager = matplotlib("font_manager")
    families = manager.FontProperties().get_family()
    return tuple(str(manager.findfont(manager.FontProperties(family=[f]))) for f in families)


@functools.lru_cache(maxsize=4096)
def _drawable(character: str, files: tuple[str, ...]) -> bool:
    get_font = matplotlib("font_manager").get_font
    return any(get_font(file).get_char_index(ord(character)) for file in files)
