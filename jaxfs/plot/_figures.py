"""What all pictures share: Matplotlib on demand, colours, and names that fit and stay literal.

No setting of Matplotlib is changed, and no figure shown: the caller has the Axes.
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

#: Inches. Letters of 10 points are still 10 pixels high where a picture is 300 pixels wide.
WIDTH = 4.0

#: Okabe and Ito's colours, which the colour-blind tell apart; those that show on white come first.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"
)  # fmt: skip
GREY = "#999999"
#: Classes and curves differ in form too, for who sees no colours at all.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
#: Of values from low to high, and of values on both sides of zero.
SEQUENTIAL, DIVERGING = "cividis", "RdBu_r"

#: Beyond this, Matplotlib's own arithmetic overflows.
LARGEST = 1e300

#: For text that came from a user: neither mathematics between dollar signs nor TeX.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}

_MISSING = "□"


def matplotlib(module: str = "") -> Any:
    """Matplotlib or one of its modules, or what to install."""
    try:
        return importlib.import_module(f"matplotlib.{module}" if module else "matplotlib")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        message = "pictures need Matplotlib: pip install 'jaxfs[plot]'"
        raise ModuleNotFoundError(message, name="matplotlib") from error


def axes(ax: Any, height: float) -> "Axes":
    """The caller's Axes, or those of a figure that is filled."""
    Axes = matplotlib("axes").Axes
    if isinstance(ax, Axes):
        return ax
    if ax is None or _is_figure(ax):
        return panels(ax, 1, 1, height)[0, 0]
    raise _checks.fail("ax", "Matplotlib Axes or a Figure", type(ax).__name__)


def panels(ax: Any, rows: int, columns: int, height: float) -> np.ndarray:
    """The caller's array of Axes, `(rows, columns)`, or those of a figure that is filled."""
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
    """An empty one: a figure with Axes is the caller's, who says which of them."""
    if not isinstance(ax, matplotlib("figure").Figure):
        return False
    if ax.axes:
        raise _checks.fail("ax", "Axes, or a Figure without any", f"a Figure of {len(ax.axes)}")
    return True


def numbers(values: ArrayLike, name: str, *, ndim: int, nan: bool = False) -> np.ndarray:
    """Real numbers to draw, in float64; those that cannot be drawn are refused, not left out."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _checks.fail(name, "an array of real numbers", type(values).__name__) from error
    if found.ndim != ndim or not found.size:
        expected = f"a filled array of {ndim} dimension{'s' * (ndim > 1)}"
        raise _checks.fail(name, expected, f"shape {found.shape}")
    drawn = (np.abs(found) <= LARGEST) | (np.isnan(found) & nan)
    if not np.all(drawn):
        expected = f"finite{' or NaN' * nan}, at most {LARGEST:g} in magnitude"
        bad = np.count_nonzero(~drawn)
        raise _checks.fail(name, expected, f"{bad} of {found.size} that are not")
    return found


def by_falling(values: np.ndarray) -> np.ndarray:
    """Indices from the largest value to the smallest, ties to the lowest."""
    return np.argsort(-values, stable=True)


def features(order: ArrayLike, name: str, num_features: int) -> np.ndarray:
    """Distinct feature numbers, as a selector gives them: −1, for none, is left out."""
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
    """Numbers as colours, from `low` or symmetric about zero; NaN is left white."""
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
        interpolation_stage="data",  # a matrix of millions is thinned before it is coloured
    )


# ---- Names --------------------------------------------------------------------------------------


def names(
    given: Sequence[Any] | None, shown: Iterable[int], total: int, *, limit: int, what: str
) -> list[str]:
    """Labels of the `shown` of `total` names: printable, short, and no two alike.

    A name that others look like once shortened, or that the font cannot draw, ends in its number.
    """
    if given is None:
        return [f"{what} {i}" for i in shown]
    if isinstance(given, str) or len(given) != total:
        got = repr(given) if isinstance(given, str) else f"{len(given)}"
        raise _checks.fail("names", f"{total}, one a {what}", got)
    pairs = [(int(i), _printable(str(given[i])) or f"{what} {i}") for i in shown]
    short = [shorten(name, limit) for _, name in pairs]
    often = collections.Counter(short)
    return [
        text if often[text] == 1 and _MISSING not in text else _numbered(name, i, limit)
        for (i, name), text in zip(pairs, short, strict=True)
    ]


def _numbered(name: str, number: int, limit: int) -> str:
    end = f" #{number}"
    return shorten(name, limit - len(end)) + end


def label(text: object, limit: int) -> str:
    """One name alone."""
    return shorten(_printable(str(text)), limit)


def shorten(text: str, limit: int) -> str:
    """Text of at most `limit` columns, the middle left out: both ends tell names apart.

    >>> shorten("worst fractal dimension of all", 16)
    'worst fr… of all'
    """
    if sum(map(_columns, text)) <= limit:
        return text
    half = (max(limit, 3) - 1) // 2
    start, end = _fitting(text, max(limit, 3) - 1 - half), _fitting(text[::-1], half)
    return start + "…" + end[::-1]


def _columns(character: str) -> int:
    """Ideographs are twice as wide as letters, accents have no width of their own."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitting(text: str, limit: int) -> str:
    """The longest beginning of at most `limit` columns."""
    reached = itertools.accumulate(map(_columns, text))
    return text[: sum(1 for total in reached if total <= limit)]


def _printable(text: str) -> str:
    """One line, without control characters; one □ for all in a row that the font cannot draw.

    Matplotlib would warn each time the picture is drawn, and draw boxes itself. Whoever has such
    names sets `rcParams["font.family"]` to a list of fonts that has them.
    """
    text = " ".join(unicodedata.normalize("NFC", text).split())
    kept = [c for c in text if unicodedata.category(c)[0] != "C"]
    files = _font_files()
    drawn = "".join(c if c.isascii() or _drawable(c, files) else _MISSING for c in kept)
    return re.sub(f"{_MISSING}+", _MISSING, drawn)


def _font_files() -> tuple[str, ...]:
    """Of the fonts that Matplotlib tries in turn, by the settings of now."""
    manager = matplotlib("font_manager")
    families = manager.FontProperties().get_family()
    return tuple(str(manager.findfont(manager.FontProperties(family=[f]))) for f in families)


@functools.lru_cache(maxsize=4096)
def _drawable(character: str, files: tuple[str, ...]) -> bool:
    get_font = matplotlib("font_manager").get_font
    return any(get_font(file).get_char_index(ord(character)) for file in files)
