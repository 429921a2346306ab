"""The picture and the HTML report of a selection.

The report is one file that needs no network. Its only script, `report.js`, sorts and filters the
table of features. The template `report.html.jinja` defines the content of the page and escapes it.
The same run gives the same bytes.
"""

import base64
import contextlib
import hashlib
import importlib.metadata
import importlib.resources
import math
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxfs import plot
from jaxfs.cli import _pictures
from jaxfs.cli._answer import Answer
from jaxfs.cli._effects import Effects, effects, significance
from jaxfs.cli._request import Request
from jaxfs.cli.tables._columns import printable
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import AutoSelector
from jaxfs.estimators._base import GreedySelector
from jaxfs.plot import _figures

if TYPE_CHECKING:
    from jinja2 import Template

#: q-value below which the summary gives no exact number: no test is that exact.
_TINY = 1e-10
#: Maximum number of features drawn.
_SHOWN = 30

#: Control characters except tab and newline, and surrogates, which no encoding can represent.
_UNSAFE = {*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)}
_REPLACED = dict.fromkeys(_UNSAFE, "�")


def require_packages(*, page: bool) -> None:
    """Raise `ModuleNotFoundError` early if a package for pictures or the page is missing."""
    _figures.matplotlib("figure")
    if page:
        template()


def write_plot(path: Path, table: Table, answer: Answer) -> None:
    """Draw the scores of the selected features, or their effect sizes if scores only give ranks."""
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    _draw_scores(table, answer, effects(table, answer), figure)
    figure.savefig(path, dpi=150)


def scores_only_rank(answer: Answer) -> bool:
    """Return whether the scores only restate the ranks, as those of greedy methods do."""
    return isinstance(getattr(answer.fitted, "estimator_", answer.fitted), GreedySelector)


def _draw_scores(table: Table, answer: Answer, found: Effects | None, ax: Any) -> None:
    names, label = list(map(printable, table.names)), f"score by {answer.method.name}"
    scores, order = finite(answer.scores), answer.order[:_SHOWN]
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


def write_report(
    path: Path, table: Table, answer: Answer, request: Request, source: str, command: str
) -> None:
    """Write the HTML report of a selection.

    `source`: the file of the table. `command`: the command that repeats the run.
    """
    found = effects(table, answer)
    auto = answer.fitted if isinstance(answer.fitted, AutoSelector) else None
    content = {"source": source, "command": command, "table": table, "answer": answer}
    content |= {"request": request, "versions": versions(), "effects": found, "auto": auto}
    content |= {"summary": summary(table, answer, found), "overlap": auto and _overlap(auto)}
    content |= {"show_scores": not scores_only_rank(answer)}
    content |= _pictures.pictures(table, answer, auto)
    path.write_text(template().render(content), encoding="utf-8", newline="\n")


def summary(table: Table, answer: Answer, found: Effects | None) -> list[str]:
    """Return the result in a few sentences."""
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
        value = _number(float(answer.stability.stability), ".2f")
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
    environment.filters["number"] = _number
    script = importlib.resources.files("jaxfs.cli").joinpath("report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # The page may run this script and no other one: its policy names the hash of the script.
    environment.globals |= {"script": Markup(script), "script_hash": digest}
    return environment.get_template("report.html.jinja")


def _visible(value: object) -> str:
    # `translate` keeps the type of its string, so that escaped markup stays marked as escaped.
    return (value if isinstance(value, str) else str(value)).translate(_REPLACED)


def _number(value: float | None, form: str, unknown: str = "–") -> str:
    """Return a formatted number, or a dash if it is unknown."""
    return unknown if value is None or math.isnan(value) else format(value, form)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a result."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for package in ("jaxfs", "jax", "jaxlib", "numpy", "scikit-learn", "matplotlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
