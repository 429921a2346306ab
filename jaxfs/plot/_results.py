"""Plots of the results of a selection: graphs of samples, accuracy curves, heat maps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxfs import _checks
from jaxfs._types import ArrayLike
from jaxfs.methods.dirichlet import DirichletResult, KNNGraph
from jaxfs.plot import _figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Number of lines above which vector formats store the lines as pixels.
_MANY = 5000


def knn_graph(
    graph: KNNGraph | DirichletResult,
    x: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    names: Sequence[Any] | None = None,
    ax: "Axes | Figure | None" = None,
) -> "Axes":
    """Plot samples in the plane with a line to each neighbour; darker lines have larger weights.

    **Arguments**

    - `graph`: a `KNNGraph` of n samples, or the result of `jaxfs.fit_dirichlet_selector`.
    - `x`: `(n, m)`, coordinates of the samples. One column is drawn on a line. Two columns are
      drawn unchanged. More columns are replaced by their first two principal components. For a
      `DirichletResult`, pass all d features; the function uses the chosen features.
    - `labels`: `(n,)`, classes of any type. Each class has its own colour and marker.
    - `names`: names of the columns of `x`.
    - `ax`: where to draw; by default a new figure, 4 inches wide.

    **Returns** the Axes.

    >>> import jax
    >>> from jaxfs import KNNGraphLearner, plot
    >>> x = jax.random.normal(jax.random.key(0), (10, 2))
    >>> ax = plot.knn_graph(KNNGraphLearner(num_neighbors=3, gamma=0.0)(x), x)
    >>> ax.get_xlabel()
    'feature 0'
    """
    x = _figures.numbers(x, "x", ndim=2)
    columns = np.arange(x.shape[1])
    if isinstance(graph, DirichletResult):
        if x.shape[1] != graph.energies.shape[0]:
            expected = f"(n, {graph.energies.shape[0]}), the features the graph was learnt from"
            raise _checks.fail("x", expected, f"shape {x.shape}")
        columns = _figures.features(graph.indices, "graph.indices", columns.size)
        graph = graph.graph
    if not isinstance(graph, KNNGraph):
        raise _checks.fail("graph", "a KNNGraph or DirichletResult", type(graph).__name__)
    neighbours, weights = np.asarray(graph.indices), np.asarray(graph.weights, np.float64)
    if len(neighbours) != len(x):
        raise _checks.fail("x", f"of {len(neighbours)} samples, as the graph", f"shape {x.shape}")
    if not columns.size:
        raise _checks.fail("graph", "of at least one chosen feature", "none")
    titles = _figures.names(names, columns, x.shape[1], limit=24, what="feature")
    points, titles = _plane(x[:, columns], titles)

    ax = _figures.axes(ax, 3.4)
    start, place = np.nonzero((neighbours >= 0) & (weights > 0))
    segments = np.stack([points[start], points[neighbours[start, place]]], axis=1)
    strength = weights[start, place] / weights.max(initial=1e-300)
    lines = _figures.matplotlib("collections").LineCollection(
        list(segments), colors="black", linewidths=0.6, alpha=0.6 * strength,
        rasterized=len(segments) > _MANY, zorder=1,
    )  # fmt: skip
    ax.add_collection(lines)
    _scatter(ax, points, labels)
    for axis, title in zip((ax.xaxis, ax.yaxis), titles, strict=True):
        axis.set_label_text(title, **_figures.LITERAL)
    ax.locator_params(nbins=5)
    return ax


def _plane(x: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return two coordinates of every sample, and the names of the coordinates."""
    if x.shape[1] == 1:
        return np.hstack([x, np.zeros_like(x)]), [*names, ""]
    if x.shape[1] == 2:
        return x, names
    left, scale, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    if scale.size < 2:
        raise _checks.fail("x", "of at least two samples", f"shape {x.shape}")
    return left[:, :2] * scale[:2], ["first principal component", "second component"]


def _scatter(ax: "Axes", points: np.ndarray, labels: ArrayLike | None) -> None:
    style: dict[str, Any] = {"s": 24, "edgecolors": "white", "linewidths": 0.4, "zorder": 2}
    if labels is None:
        ax.scatter(*points.T, color=_figures.COLOURS[0], **style)
        return
    classes, codes = _figures.labelled(labels, len(points))
    handles = []
    for c in range(classes.size):
        colour, marker = (kinds[c % len(kinds)] for kinds in (_figures.COLOURS, _figures.MARKERS))
        handles.append(ax.scatter(*points[codes == c].T, color=colour, marker=marker, **style))
    if classes.size <= 10:
        _legend(ax, handles, classes.tolist())


def _legend(ax: "Axes", handles: list[Any], texts: Sequence[Any]) -> None:
    """Add a legend of literal names; Matplotlib by default omits names that begin with `_`."""
    labels = [_figures.label(text, 20) for text in texts]
    legend = ax.legend(handles, labels, fontsize="small")
    for text in legend.get_texts():
        text.set(**_figures.LITERAL)


def by_class(
    values: ArrayLike,
    labels: ArrayLike,
    *,
    label: str | None = None,
    ax: "Axes | Figure | None" = None,
) -> "Axes":
    """Plot the values of one feature in each class: every sample as a point, and a box.

    The box goes from the first to the third quartile, with a line at the median.

    **Arguments**

    - `values`: `(n,)`, one feature.
    - `labels`: `(n,)`, classes of any type, at most 20.
    - `label`: name of the feature, written literally.
    - `ax`: where to draw; by default a new figure, 4 inches wide.

    **Returns** the Axes.

    >>> from jaxfs import plot
    >>> ax = plot.by_class([1.0, 2.0, 5.0, 6.0], ["a", "a", "b", "b"], label="gene")
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['a', 'b']
    """
    numbers = _figures.numbers(values, "values", ndim=1)
    classes, codes = _figures.labelled(labels, numbers.size)
    if classes.size > 20:
        raise _checks.fail("labels", "of at most 20 classes", classes.size)
    ax = _figures.axes(ax, 2.6)
    parts = [numbers[codes == c] for c in range(classes.size)]
    # Points of equal height must not hide each other: spread them evenly over a part of the width.
    for c, own in enumerate(parts):
        shift = 0.6 * ((np.arange(own.size) * 0.618034) % 1 - 0.5)  # the golden ratio spreads well
        colour = _figures.COLOURS[c % len(_figures.COLOURS)]
        ax.scatter(c + shift, own, s=9, color=colour, alpha=0.6, linewidths=0)
    line = {"color": "black", "linewidth": 1.2}
    ax.boxplot(
        parts, positions=range(classes.size), widths=0.7, showfliers=False, showcaps=False,
        boxprops=line, medianprops=line, whiskerprops={"linewidth": 0},
    )  # fmt: skip
    texts = _figures.names(
        classes.tolist(), range(classes.size), classes.size, limit=12, what="class"
    )
    crowded = sum(map(len, texts)) > 16
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(classes.size), texts, **_figures.LITERAL, **(turned if crowded else {}))
    _figures.tidy(ax, "y", label)
    return ax


def accuracy_curve(
    counts: ArrayLike,
    accuracies: ArrayLike | Mapping[Any, ArrayLike],
    *,
    baseline: float | None = None,
    label: str = "accuracy",
    ax: "Axes | Figure | None" = None,
) -> "Axes":
    """Plot accuracy against the number of features, as mean ± standard deviation of several runs.

    **Arguments**

    - `counts`: `(m,)`, numbers of features, ascending.
    - `accuracies`: `(m,)`, or `(runs, m)`, for example one run per fold. Several runs are drawn as
      a curve with a band. A mapping from methods to such arrays draws one curve per method.
    - `baseline`: accuracy with all features, drawn as a horizontal line.
    - `label`: name of the measure, written at the vertical axis.
    - `ax`: where to draw; by default a new figure, 4 inches wide.

    **Returns** the Axes.

    **Numerics** the standard deviation has runs − 1 in its denominator. The horizontal axis is
    logarithmic if the last of `counts` is more than 20 times the first.

    >>> from jaxfs import plot
    >>> ax = plot.accuracy_curve([1, 2, 5], {"ManiFeSt": [[0.7, 0.8, 0.9], [0.6, 0.8, 0.8]]})
    >>> ax.lines[0].get_ydata().round(2).tolist()
    [0.65, 0.8, 0.85]
    """
    number = _figures.numbers(counts, "counts", ndim=1)
    if np.any(np.diff(number) <= 0) or number[0] <= 0:
        raise _checks.fail("counts", "positive and ascending", number)
    curves = accuracies if isinstance(accuracies, Mapping) else {None: accuracies}
    if not curves:
        raise _checks.fail("accuracies", "of at least one method", curves)
    ax = _figures.axes(ax, 3.0)
    handles = []
    for place, (name, runs) in enumerate(curves.items()):
        what = "accuracies" if name is None else f"accuracies of {name}"
        values = _figures.numbers(runs, what, ndim=max(np.ndim(runs), 1))
        values = np.atleast_2d(values)
        if values.ndim != 2 or values.shape[1] != number.size:
            expected = f"({number.size},) or (runs, {number.size})"
            raise _checks.fail(what, expected, f"shape {np.shape(runs)}")
        handles += _curve(ax, number, values, place)
    if baseline is not None:
        level = _checks.number(baseline, "baseline", scalar=True)
        handles.append(ax.axhline(level, color="black", linewidth=1, linestyle=(0, (1, 2))))
    if number[-1] > 20 * number[0]:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    else:
        ax.xaxis.set_major_locator(_figures.matplotlib("ticker").MaxNLocator(5, integer=True))
    ax.set(xlabel="number of features", ylabel=label)
    ax.spines[["top", "right"]].set_visible(False)
    texts = [name for name in curves if name is not None]
    if texts or baseline is not None:
        first = handles if texts else handles[-1:]
        _legend(ax, first, [*texts, *["all features"] * (baseline is not None)])
    return ax


def _curve(ax: "Axes", number: np.ndarray, values: np.ndarray, place: int) -> list[Any]:
    colour = _figures.COLOURS[place % len(_figures.COLOURS)]
    mean = values.mean(axis=0)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        ax.fill_between(number, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
    line = _figures.LINES[place // len(_figures.COLOURS) % len(_figures.LINES)]
    marker = _figures.MARKERS[place % len(_figures.MARKERS)]
    return ax.plot(number, mean, color=colour, linestyle=line, marker=marker, markersize=4)


def heat_map(
    values: ArrayLike,
    rows: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    *,
    signed: bool = False,
    label: str | None = None,
    ax: "Axes | Figure | None" = None,
) -> "Axes":
    """Plot a matrix as colours, such as a kernel between features or the overlap of methods.

    **Arguments**

    - `values`: `(r, c)`. NaN cells are white; infinite values raise `ValueError`.
    - `rows`, `columns`: r and c names. If there are many names, only some are written.
    - `signed`: whether the colours are symmetric about zero.
    - `label`: meaning of the colours, next to a colour bar. Without a label, matrices of up to
      8 × 8 have their values written in the cells.
    - `ax`: where to draw; by default a new figure, 4 inches wide.

    **Returns** the Axes.

    >>> from jaxfs import plot
    >>> ax = plot.heat_map([[1.0, 0.25], [0.25, 1.0]], ["A", "B"], ["A", "B"])
    >>> [text.get_text() for text in ax.texts]
    ['1', '0.25', '0.25', '1']
    """
    grid = _figures.numbers(values, "values", ndim=2, nan=True)
    if np.all(np.isnan(grid)):
        raise _checks.fail("values", "not NaN throughout", f"shape {grid.shape}")
    r, c = grid.shape
    ax = _figures.axes(ax, 3.6)
    image = _figures.image(ax, grid, signed=_checks.flag(signed, "signed"), low=np.nanmin(grid))
    ax.set_aspect("auto")
    _ticks(ax.yaxis, rows, r, 20)
    _ticks(ax.xaxis, columns, c, 10, rotation=45, ha="right", rotation_mode="anchor")
    if label is not None:
        ax.figure.colorbar(image, ax=ax, label=label, shrink=0.85)
    elif max(r, c) <= 8:
        _write_cells(ax, image, grid)
    return ax


def _ticks(axis: Any, names: Sequence[Any] | None, total: int, most: int, **style: Any) -> None:
    """Label at most `most` lines with names, or a few lines with numbers if there are no names."""
    if names is None:
        axis.set_major_locator(_figures.matplotlib("ticker").MaxNLocator(5, integer=True))
        return
    shown = range(0, total, -(-total // most))
    texts = _figures.names(names, shown, total, limit=14, what=f"{axis.axis_name} line")
    axis.set_ticks(list(shown), texts, **_figures.LITERAL, **style)


def _write_cells(ax: "Axes", image: Any, grid: np.ndarray) -> None:
    """Write the values in the cells, in white on dark cells and in black on light cells."""
    # At a luminance of 0.179 (sRGB), black text and white text have equal contrast.
    red_green_blue = image.to_rgba(np.ma.masked_invalid(grid))[..., :3]
    light = red_green_blue**2.2 @ np.array([0.2126, 0.7152, 0.0722]) > 0.179
    for row, column in np.ndindex(grid.shape):
        if not np.isnan(grid[row, column]):
            colour = "black" if light[row, column] else "white"
            text = f"{grid[row, column]:.2g}"
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
