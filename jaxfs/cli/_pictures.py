"""The pictures of the report. All of them show features of its table, or the methods of `auto`."""

import base64
import functools
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxfs import evaluate, plot
from jaxfs.cli._answer import Answer, selection_masks, standardize_columns
from jaxfs.cli._effects import labels
from jaxfs.cli.tables._columns import printable
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import AutoSelector
from jaxfs.plot import _figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Maximum number of features in the heat map, and of features with a picture of their own.
_HEAT, _PANELS = 30, 12
#: Number of standard deviations at which the colours of the heat map end.
_CLIP = 3.0
#: Maximum number of classes for which features are drawn by class.
_CLASSES = 12
#: Size in bytes above which a drawing is stored as PNG: browsers draw 10 000 lines slowly.
LARGEST_SVG = 400_000


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


def pictures(table: Table, answer: Answer, auto: AutoSelector | None) -> dict[str, list[Picture]]:
    """Return the pictures of each section of the report."""
    y, classes = labels(table, answer)
    shown = answer.order[:_HEAT]
    alt = f"Heat map of the first {len(shown)} features in all samples"
    heat = picture(functools.partial(_draw_heat, table, shown, y, classes), "Heat map", alt)
    panels = []
    if y is not None and len(classes) <= _CLASSES:
        for j in answer.order[:_PANELS].tolist():
            name = printable(table.names[j], 30)
            words = [*map(printable, classes)]
            draw = functools.partial(_draw_feature, table, j, y, words)
            what = "by class" if classes else f"against {table.target_name}"
            panels.append(picture(draw, "", f"Values of {name} {what}"))
    return {"heat": [heat], "panels": panels, "curves": [] if auto is None else _curves(auto)}


def _draw_heat(
    table: Table, shown: np.ndarray, y: np.ndarray | None, classes: list[str], ax: "Figure"
) -> None:
    order = np.arange(len(table.values)) if y is None else np.argsort(y, stable=True)
    values = standardize_columns(table.values[:, shown])[order].T
    names = [printable(table.names[j]) for j in shown]
    label = "standard deviations"
    clipped = np.clip(values, -_CLIP, _CLIP)
    axes = plot.heat_map(clipped, names, None, signed=True, label=label, ax=ax)
    ax.set_size_inches(_figures.WIDTH * 1.25, 1.2 + 0.2 * max(len(shown), 9))
    axes.set_yticks(range(len(names)), [_figures.shorten(name, 16) for name in names])
    for text in axes.get_yticklabels():
        text.set(**_figures.LITERAL)
    if not classes or y is None:
        by = "" if y is None else f", by ascending {printable(table.target_name, 30)}"
        axes.set_xlabel(f"samples{by}", **_figures.LITERAL)
        return
    sizes = np.bincount(y)
    ends = np.cumsum(sizes)
    for end in ends[:-1]:
        axes.axvline(end - 0.5, color="black", linewidth=1)
    few = len(classes) <= _CLASSES
    texts = [_figures.shorten(printable(name), 12) if few else "" for name in classes]
    axes.set_xticks(ends - sizes / 2 - 0.5, texts, rotation=30, ha="right", **_figures.LITERAL)
    axes.set_xlabel("samples, by class")


def _draw_feature(table: Table, j: int, y: np.ndarray, classes: list[str], ax: "Figure") -> None:
    values, name = np.clip(table.values[:, j], -_figures.LARGEST, _figures.LARGEST), table.names[j]
    if classes:
        axes = plot.by_class(values, np.array(classes, object)[y], label=name, ax=ax)
    else:
        axes = _figures.axes(ax, 1)
        axes.scatter(y, values, s=9, color=_figures.COLOURS[0], alpha=0.6, linewidths=0)
        axes.set_xlabel(printable(table.target_name, 30), **_figures.LITERAL)
        _figures.tidy(axes, title=name)
    ax.set_size_inches(2.4, 2.1)


def _curves(auto: AutoSelector) -> list[Picture]:
    """Return accuracy and stability by the number of features; empty if one number was tried."""
    counts = auto.cv_results_[auto.best_]["n_features"]
    if len(counts) < 2:
        return []
    folds = len(auto.rankings_[auto.best_])
    accuracies = {}
    for name, results in auto.cv_results_.items():  # bands overlap: only the winner has one
        by_fold = np.array([results[f"split{i}_test_score"] for i in range(folds)])
        accuracies[name] = by_fold if name == auto.best_ else by_fold.mean(axis=0)
    d = len(auto.scores_)
    smaller = counts[counts < d]  # the selection of all features is always the same
    stabilities = {}
    for name, ranked in auto.rankings_.items():
        masks = (selection_masks(ranked[:, :count], d) for count in smaller)
        stabilities[name] = [float(evaluate.selection_stability(mask).stability) for mask in masks]
    everything = next(row.accuracy for row in auto.comparison_ if row.name == "all features")

    def draw(numbers, curves, label, baseline, ax):
        axes = plot.accuracy_curve(numbers, curves, baseline=baseline, label=label, ax=ax)
        axes.axvline(auto.n_features_, color="black", linewidth=1, linestyle="--")
        axes.set_title(f"chosen: {auto.best_}, {auto.n_features_}", fontsize="medium")

    first = functools.partial(draw, counts, accuracies, auto.measure_, everything)
    second = functools.partial(draw, smaller, stabilities, "stability", None)
    what = "of each method by the number of features; a line marks the chosen number"
    return [
        picture(first, auto.measure_.capitalize(), f"{auto.measure_.capitalize()} {what}"),
        picture(second, "Stability", f"Stability {what}"),
    ]
