"""The picture and the HTML report of a selection.

The report is one file that needs no network. Its only script, `report.js`, sorts and filters the
table of features. The template `report.html.jinja` defines the content of the page and escapes it.
The same run gives the same bytes.
"""

import base64
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.resources
import io
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxfs import evaluate, plot
from jaxfs.cli._answer import Answer, selection_masks, standardize_columns
from jaxfs.cli._effects import effects, labels, significance
from jaxfs.cli._output import number
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import AutoSelector
from jaxfs.estimators._base import GreedySelector
from jaxfs.plot import _figures

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

#: q-value below which the summary gives no exact number: no test is that exact.
_TINY = 1e-10
#: Maximum number of features drawn.
_SHOWN = 30
#: Maximum number of features in the heat map, and of features with a picture of their own.
_HEAT, _PANELS = 30, 12
#: Number of standard deviations at which the colours of the heat map end.
_CLIP = 3.0
#: Maximum number of classes for which features are drawn by class.
_CLASSES = 12
#: Size in bytes above which a drawing is stored as PNG: browsers draw 10 000 lines slowly.
LARGEST_SVG = 400_000
#: Control characters except tab and newline, and surrogates, which no encoding can represent.
_UNSAFE = {*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)}
_REPLACED = dict.fromkeys(_UNSAFE, "�")


def require_packages(*, page: bool) -> None:
    """Raise `ModuleNotFoundError` early if a package for pictures or the page is missing."""
    _figures.matplotlib("figure")
    if page:
        template()


def write_plot(path: Path, answer: Answer) -> None:
    """Draw the scores of the selected features, or their effect sizes if scores only give ranks."""
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    _draw_scores(answer, figure)
    figure.savefig(path, dpi=150)


def scores_only_rank(answer: Answer) -> bool:
    """Return whether the scores only restate the ranks, as those of greedy methods do."""
    return isinstance(getattr(answer.fitted, "estimator_", answer.fitted), GreedySelector)


def _draw_scores(answer: Answer, ax: Any) -> None:
    found, label = effects(answer), f"score by {answer.method.name}"
    scores, names, order = finite(answer.scores), answer.table.names, answer.order[:_SHOWN]
    if scores_only_rank(answer) and found is not None:
        label, scores = f"effect size ({found.measure})", scores.copy()
        scores[answer.order] = finite(found.sizes)
    plot.score_bars(scores, names, num_shown=_SHOWN, order=order, label=label, ax=ax)


def finite(scores: np.ndarray) -> np.ndarray:
    """Return finite scores: infinite scores become the largest or smallest finite score."""
    known = scores[np.isfinite(scores)]
    if not known.size:
        return np.ones_like(scores)
    low, high = np.clip([known.min(), known.max()], -_figures.LARGEST, _figures.LARGEST)
    return np.clip(scores, low, high)


def write_report(path: Path, answer: Answer, source: str, command: str) -> None:
    """Write the HTML report of a selection.

    `source`: the file of the table. `command`: the command that repeats the run.
    """
    auto = answer.fitted if isinstance(answer.fitted, AutoSelector) else None
    content = {
        "source": source,
        "command": command,
        "answer": answer,
        "versions": versions(),
        "effects": effects(answer),
        "auto": auto,
        "summary": summary(answer),
        "overlap": auto and _overlap(auto),
        "show_scores": not scores_only_rank(answer),
        **pictures(answer),
    }
    path.write_text(template().render(content), encoding="utf-8", newline="\n")


def summary(answer: Answer) -> list[str]:
    """Return the result in a few sentences."""
    table, found = answer.table, effects(answer)
    (n, d), k, name = table.values.shape, len(answer.order), answer.method.name
    if isinstance(answer.fitted, AutoSelector):
        count = len(answer.fitted.cv_results_)
        sentences = [f"Best of {count} methods: {answer.fitted.verdict_}"]
    else:
        target = f" for the target {table.target_name}" if found else ""
        sentences = [f"{name} selected {k:,} of {d:,} features of {n:,} samples{target}."]
    first = f"The first feature is {table.names[answer.order[0]]}"
    if found is not None:
        size, q = float(found.sizes[0]), float(found.q_values[0])
        chance = f"q = {q:.2g}" if q >= _TINY else f"q < {_TINY:g}"
        first += f", {found.directions[0]} ({found.measure} {size:.2g}, {chance})"
    sentences.append(first + ".")
    if found is not None:
        sentences.append(significance(found, d))
    if answer.stability is not None and not isinstance(answer.fitted, AutoSelector):
        value = number(float(answer.stability.stability), ".2f")
        sentences.append(f"The stability of the selection over resamples is {value} of 1.")
    return sentences


def _overlap(auto: AutoSelector) -> dict[str, dict[str, float]]:
    """Return the share of features that each pair of methods has in common, as a mean of folds."""
    first = {name: ranked[:, : auto.n_features_] for name, ranked in auto.rankings_.items()}

    def share(a: np.ndarray, b: np.ndarray) -> float:
        common = [len({*p} & {*q}) / len({*p}) for p, q in zip(a, b, strict=True)]
        return float(np.mean(common))

    return {m: {n: share(a, b) for n, b in first.items()} for m, a in first.items()}


def template() -> "Template":
    """Return the template of the page. Its first comment lists the variables.

    The template escapes markup and replaces control characters.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxfs.cli", ""), autoescape=True, finalize=_visible,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["number"] = number
    script = importlib.resources.files("jaxfs.cli").joinpath("report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # The page may run this script and no other one: its policy names the hash of the script.
    environment.globals |= {"script": Markup(script), "script_hash": digest}
    return environment.get_template("report.html.jinja")


def _visible(value: object) -> str:
    # `translate` keeps the type of its string, so that escaped markup stays marked as escaped.
    return (value if isinstance(value, str) else str(value)).translate(_REPLACED)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a result."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for package in ("jaxfs", "jax", "jaxlib", "numpy", "scikit-learn", "matplotlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


# ---- Pictures: features of the table, or the methods of `auto` ----


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


def pictures(answer: Answer) -> dict[str, list[Picture]]:
    """Return the pictures of each section of the report."""
    table, (y, classes), shown = answer.table, labels(answer), answer.order[:_HEAT]
    alt = f"Heat map of the first {len(shown)} features in all samples"
    heat = picture(functools.partial(_draw_heat, table, shown, y, classes), "Heat map", alt)
    panels = []
    if y is not None and len(classes) <= _CLASSES:
        for j in answer.order[:_PANELS].tolist():
            draw = functools.partial(_draw_feature, table, j, y, classes)
            what = "by class" if classes else f"against {table.target_name}"
            panels.append(picture(draw, "", f"Values of {table.names[j]} {what}"))
    curves = _curves(answer.fitted) if isinstance(answer.fitted, AutoSelector) else []
    return {"heat": [heat], "panels": panels, "curves": curves}


def _draw_heat(
    table: Table, shown: np.ndarray, y: np.ndarray | None, classes: list[str], ax: "Figure"
) -> None:
    order = np.arange(len(table.values)) if y is None else np.argsort(y, stable=True)
    values = standardize_columns(table.values[:, shown])[order].T
    clipped = np.clip(values, -_CLIP, _CLIP)
    axes = plot.heat_map(clipped, signed=True, label="standard deviations", ax=ax)
    ax.set_size_inches(_figures.WIDTH * 1.25, 1.2 + 0.2 * max(len(shown), 9))
    names = _figures.names(table.names, shown, len(table.names), limit=16, what="feature")
    axes.set_yticks(range(len(names)), names, **_figures.LITERAL)
    if not classes or y is None:
        by = "" if y is None else f", by ascending {_figures.label(table.target_name, 30)}"
        axes.set_xlabel(f"samples{by}", **_figures.LITERAL)
        return
    sizes = np.bincount(y)
    ends = np.cumsum(sizes)
    for end in ends[:-1]:
        axes.axvline(end - 0.5, color="black", linewidth=1)
    few = len(classes) <= _CLASSES
    texts = [_figures.label(name, 12) if few else "" for name in classes]
    axes.set_xticks(ends - sizes / 2 - 0.5, texts, rotation=30, ha="right", **_figures.LITERAL)
    axes.set_xlabel("samples, by class")


def _draw_feature(table: Table, j: int, y: np.ndarray, classes: list[str], ax: "Figure") -> None:
    values, name = np.clip(table.values[:, j], -_figures.LARGEST, _figures.LARGEST), table.names[j]
    if classes:
        axes = plot.by_class(values, np.array(classes, object)[y], label=name, ax=ax)
    else:
        axes = _figures.axes(ax, 1)
        axes.scatter(y, values, s=9, color=_figures.COLOURS[0], alpha=0.6, linewidths=0)
        axes.set_xlabel(_figures.label(table.target_name, 30), **_figures.LITERAL)
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
