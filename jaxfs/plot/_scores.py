"""Plots of features: scores, ranks, positions in an image, eigenvectors."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxfs import _checks, linalg
from jaxfs._types import ArrayLike
from jaxfs.methods.manifest import ManifestOperators
from jaxfs.plot import _figures
from jaxfs.resample import Stability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Maximum width of a name in columns, and height of a line in inches.
_NAME, _LINE = 22, 0.22


def score_bars(
    scores: ArrayLike,
    names: Sequence[Any] | None = None,
    *,
    num_shown: int = 20,
    selected: ArrayLike | None = None,
    order: ArrayLike | None = None,
    label: str = "score",
    ax: "Axes | Figure | None" = None,
) -> "Axes":
    """Plot a bar for each of the best features, the best at the top.

    **Arguments**

    - `scores`: `(d,)`, finite; larger is better.
    - `names`: d names of any type that has a `str`. Long names are shortened in the middle.
    - `num_shown`: maximum number of bars.
    - `selected`: indices of chosen features. Their bars are blue; all other bars are grey.
    - `order`: indices of the features to show, the first at the top, such as `indices` of a
      `Selection`. By default, all features are shown in descending order of score, and ties go to
      the lowest index.
    - `label`: meaning of the lengths of the bars. Like all labels, it may contain Matplotlib's
      mathematical notation.
    - `ax`: where to draw; by default a new figure, 4 inches wide.

    **Returns** the Axes.

    >>> from jaxfs import plot
    >>> ax = plot.score_bars([0.1, 0.7, 0.4], ["age", "height", "weight"], num_shown=2)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['height', 'weight']
    """
    values = _figures.numbers(scores, "scores", ndim=1)
    d = values.size
    num_shown = _checks.integer(num_shown, "num_shown", low=1)
    place = _figures.by_falling(values) if order is None else _figures.features(order, "order", d)
    shown = place[:num_shown]
    labels = _figures.names(names, shown, d, limit=_NAME, what="feature")
    chosen = np.full(d, selected is None)
    if selected is not None:
        chosen[_figures.features(selected, "selected", d)] = True
    colours = [_figures.COLOURS[0] if chosen[i] else _figures.GREY for i in shown]
    ax = _bars(labels, values[shown], colours, ax)
    ax.set_xlabel(_counted(label, shown.size, d))
    return ax


def rank_intervals(
    stability: Stability,
    names: Sequence[Any] | None = None,
    *,
    num_shown: int = 20,
    ax: "Axes | Figure | None" = None,
) -> "Axes":
    """Plot the mean rank of each feature over resamples ± one standard deviation, the best on top.

    The number at the right is the share of the resamples in which the feature is among the first k.
    A dashed line separates ranks up to k from larger ranks.

    **Arguments**

    - `stability`: the result of `jaxfs.stability`.
    - `names`: names of all d features.
    - `num_shown`: maximum number of features. The features with the smallest mean rank are shown.
    - `ax`: where to draw; by default a new figure, 4 inches wide.

    **Returns** the Axes.

    **Numerics** intervals are clipped at ranks 1 and d. A `Stability` of NaN raises `ValueError`.

    >>> import jax, jax.numpy as jnp
    >>> from jaxfs import plot, stability
    >>> x = jax.random.normal(jax.random.key(0), (40, 4)) * 3.0 ** jnp.arange(4.0)[None]
    >>> variance = lambda x, y, w: jnp.average(x**2, axis=0, weights=w)
    >>> options = {"num_resamples": 20, "fraction": 0.5, "num_features": 2}
    >>> ax = plot.rank_intervals(stability(jax.random.key(1), variance, x, **options))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['feature 3', 'feature 2', 'feature 1', 'feature 0']
    """
    if not isinstance(stability, Stability):
        raise _checks.fail("stability", "a jaxfs.Stability", type(stability).__name__)
    means = _figures.numbers(stability.mean_ranks, "stability.mean_ranks", ndim=1)
    spread = np.asarray(stability.rank_deviations, np.float64)
    often = np.asarray(stability.frequencies, np.float64)
    num_shown = _checks.integer(num_shown, "num_shown", low=1)
    d, k = means.size, stability.indices.shape[1]
    shown = _figures.by_falling(-means)[:num_shown]
    ax = _listing(_figures.names(names, shown, d, limit=_NAME, what="feature"), ax)
    low, high = (np.clip(means + sign * spread, 1, d)[shown] for sign in (-1, 1))
    y, centre = np.arange(shown.size), means[shown]
    ax.errorbar(
        centre, y, xerr=(centre - low, high - centre), fmt="o", color=_figures.COLOURS[0],
        markersize=4, capsize=2,
    )  # fmt: skip
    ax.axvline(k + 0.5, color=_figures.COLOURS[1], linewidth=1, linestyle="--")
    for line, feature in enumerate(shown):
        ax.text(
            1.02, line, f"{often[feature]:.0%}", transform=ax.get_yaxis_transform(),
            va="center", fontsize="small",
        )  # fmt: skip
    ax.set_title(f"in first {k}", fontsize="small", loc="right")
    ax.set_xlabel(_counted("rank, mean ± deviation", shown.size, d))
    return ax


def pixel_map(
    values: ArrayLike,
    shape: tuple[int, int],
    *,
    num_marked: int = 0,
    signed: bool = False,
    label: str | None = "score",
    ax: "Axes | Figure | None" = None,
) -> "Axes":
    """Plot features that are the pixels of an image, coloured by their values.

    **Arguments**

    - `values`: `(d,)`, finite, row by row.
    - `shape`: numbers of rows and columns of the image. Their product is d.
    - `num_marked`: number of pixels to mark, from the largest value. If the image has at most 16
      rows and columns, the mark is the rank of the pixel, 1 for the largest value.
    - `signed`: whether the colours are symmetric about zero. Otherwise the colours begin at the
      smaller of zero and the smallest value.
    - `label`: meaning of the colours; `None` omits the colour bar.
    - `ax`: where to draw; by default a new figure, 4 inches wide.

    **Returns** the Axes.

    >>> from jaxfs import plot
    >>> ax = plot.pixel_map([0.0, 0.2, 0.9, 0.1, 0.0, 0.3], (2, 3), num_marked=1)
    >>> [(text.get_text(), text.get_position()) for text in ax.texts]
    [('1', (2, 0))]
    """
    flat = _figures.numbers(values, "values", ndim=1)
    grid = flat.reshape(_image_shape(shape, flat.size))
    num_marked = _checks.integer(num_marked, "num_marked", low=0, high=flat.size)
    ax = _figures.axes(ax, 0.5 + _image_height(grid.shape, 0.75 * _figures.WIDTH))
    signed, low = _checks.flag(signed, "signed"), min(0.0, flat.min())
    image = _figures.image(ax, grid, signed=signed, low=low)
    if label is not None:
        ax.figure.colorbar(image, ax=ax, label=label, shrink=0.85)
    _mark(ax, grid, num_marked)
    return ax


def eigenvectors(
    operators: ManifestOperators,
    *,
    num_vectors: int = 2,
    shape: tuple[int, int] | None = None,
    names: Sequence[Any] | None = None,
    num_shown: int | None = None,
    ax: Any = None,
) -> np.ndarray:
    """Plot the leading eigenvectors of ManiFeSt's operators: common and different structure.

    The upper row shows eigenvectors of the mean M of two classes. The lower row shows eigenvectors
    of their difference D. Each row is in descending order of the magnitude of the eigenvalue λ. A
    positive λ(D) belongs to an association that is stronger in the first class.

    **Arguments**

    - `operators`: the result of `jaxfs.manifest_operators`.
    - `num_vectors`: number of eigenvectors of each operator.
    - `shape`: numbers of rows and columns if the features are pixels. Otherwise each panel shows
      bars for the `num_shown` features of largest magnitude, 8 by default, with their `names`.
    - `ax`: an array of Axes, `(2, num_vectors)`; by default a new figure, 4 inches wide.

    **Returns** the Axes, `(2, num_vectors)`.

    **Numerics** the sign of a vector has no meaning; its entry of largest magnitude is positive.

    **Cost** two calls of `eigh` with matrices of size d.

    **Reference** Cohen, Shnitzer, Kluger and Talmon, *Few-sample feature selection via feature
    manifold learning*, ICML 2023, figure 2.

    >>> import jax
    >>> from jaxfs import manifest_operators, plot
    >>> x1, x2 = jax.random.normal(jax.random.key(0), (2, 20, 6))
    >>> plot.eigenvectors(manifest_operators(x1, x2), shape=(2, 3)).shape
    (2, 2)
    """
    if not isinstance(operators, ManifestOperators):
        expected = "the result of jaxfs.manifest_operators"
        raise _checks.fail("operators", expected, type(operators).__name__)
    d = operators.mean.shape[-1]
    num_vectors = _checks.integer(num_vectors, "num_vectors", low=1, high=d)
    for value, name in ((names, "names"), (num_shown, "num_shown")):
        _checks.only_if(shape is None, value, name, "shape is None")
    num_shown = _checks.integer(8 if num_shown is None else num_shown, "num_shown", low=1)
    if shape is not None:
        shape = _image_shape(shape, d)
        height = 0.7 + 2 * _image_height(shape, _figures.WIDTH / num_vectors)
    else:
        height = 1 + 2 * (0.3 + _LINE * min(num_shown, d))
    axes = _figures.panels(ax, 2, num_vectors, height)
    rows = (("M", operators.mean), ("D", operators.difference))
    for row, (letter, operator) in zip(axes, rows, strict=True):
        _figures.numbers(operator, f"operators of {letter}", ndim=2)
        w, v = map(np.asarray, linalg.dominant_eigenpairs(operator, num_vectors))
        for panel, value, vector in zip(row, w, v.T, strict=True):
            if shape is not None:
                _figures.image(panel, vector.reshape(shape), signed=True)
                panel.set(xticks=[], yticks=[])
            else:
                _entries(panel, vector, names, num_shown, limit=24 // num_vectors)
            # Bars are narrow, so their title may extend to the left over the names.
            loc = "center" if shape is not None else "right"
            panel.set_title(f"λ({letter}) = {value:.3g}", fontsize="medium", loc=loc)
    return axes


def _listing(labels: list[str], ax: "Axes | Figure | None") -> "Axes":
    """Return Axes with one line per name, from top to bottom."""
    ax = _figures.axes(ax, 0.8 + _LINE * max(len(labels), 3))
    ax.set_yticks(np.arange(len(labels)), labels, **_figures.LITERAL)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    _figures.tidy(ax, "x")
    return ax


def _bars(labels: list[str], lengths: np.ndarray, colours: list[str], ax: Any) -> "Axes":
    """Draw one bar per name, from top to bottom."""
    ax = _listing(labels, ax)
    ax.barh(np.arange(len(labels)), lengths, height=0.75, color=colours)
    ax.axvline(0, color="black", linewidth=0.8)
    return ax


def _counted(label: str, shown: int, total: int) -> str:
    return label if shown == total else f"{label} ({shown} of {total})"


def _entries(ax, vector: np.ndarray, names, num_shown: int, *, limit: int) -> None:
    """Draw bars for the entries of a vector that are largest in magnitude."""
    largest = _figures.by_falling(np.abs(vector))[:num_shown]
    labels = _figures.names(names, largest, vector.size, limit=max(limit, 5), what="feature")
    _bars(labels, vector[largest], [_figures.COLOURS[int(vector[i] < 0)] for i in largest], ax)
    ax.tick_params(labelsize="small")
    ax.set_xticks([0])


def _image_shape(shape: Any, size: int) -> tuple[int, int]:
    if not isinstance(shape, tuple) or len(shape) != 2 or math.prod(shape) != size:
        raise _checks.fail("shape", f"(rows, columns) of product {size}", shape)
    return shape


def _image_height(shape: tuple[int, ...], width: float) -> float:
    """Return the height in inches of an image of this width; tall images are made narrower."""
    return min(width * shape[0] / shape[1], 2 * width)


def _mark(ax: "Axes", grid: np.ndarray, number: int) -> None:
    """Write ranks on the largest pixels, or draw frames if there is no room for a number."""
    effects, patches = _figures.matplotlib("patheffects"), _figures.matplotlib("patches")
    outline = [effects.withStroke(linewidth=2.5, foreground="black")]
    for place, pixel in enumerate(_figures.by_falling(grid.ravel())[:number], start=1):
        row, column = divmod(int(pixel), grid.shape[1])
        if max(grid.shape) <= 16:
            ax.text(
                column, row, str(place), ha="center", va="center", color="white",
                weight="bold", path_effects=outline,
            )  # fmt: skip
        else:
            corner = (column - 0.5, row - 0.5)
            ax.add_patch(patches.Rectangle(corner, 1, 1, fill=False, edgecolor=_figures.COLOURS[1]))
