"""The HTML report of a selection: one file that needs no network and runs no script.

`Report` holds plain values; `write_report` turns them into a page. Whatever came from a user
(names, parameters, the command line) is escaped in one place, `_html.text`.
"""

import base64
import contextlib
import importlib.metadata
import io
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxfs._types import ArrayLike
from jaxfs.cli.report import _html
from jaxfs.plot import _figures
from jaxfs.resample import Stability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A drawing of more bytes than this is stored as pixels: a browser is slow on 10 000 lines.
LARGEST_SVG = 400_000


class Picture(NamedTuple):
    """An image with its heading and the words that stand for it: `content` is SVG or PNG."""

    title: str
    alt: str
    media_type: str
    content: bytes


class RankedFeature(NamedTuple):
    """A line of the table; what is not known is `None`.

    `frequency`: in what share of the resamples it was chosen. `mean_rank`, `rank_deviation`: of its
    ranks in them.
    """

    rank: int
    name: str
    score: float | None = None
    frequency: float | None = None
    mean_rank: float | None = None
    rank_deviation: float | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a report tells, as plain values; empty parts are left out of the page.

    **Data**: `source` (a file name), `num_samples`, `num_features`, `dtype` of the computation,
    `target` (a column), `classes` (name to number of samples), `imputed` (column to number of
    values filled in), `more` (further lines).

    **Method**: `method`, `description` (a sentence or two), `parameters` (name to value).

    **Result**: `features`, the best first; `stability` with the ends of its interval, over
    `num_resamples`; `pictures`; `warnings`.

    **To repeat it**: `command` (exactly as typed), `seed`, `versions` (package to version),
    `created` (a date, if the page shall have one: without, equal runs write equal bytes).
    """

    source: str
    num_samples: int
    num_features: int
    dtype: str
    method: str
    features: Sequence[RankedFeature]
    command: str
    title: str = "Feature selection report"
    target: str | None = None
    classes: Mapping[str, int] = field(default_factory=dict)
    imputed: Mapping[str, int] = field(default_factory=dict)
    more: Mapping[str, object] = field(default_factory=dict)
    description: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    stability: tuple[float, float, float] | None = None
    num_resamples: int | None = None
    pictures: Sequence[Picture] = ()
    warnings: Sequence[str] = ()
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    created: str = ""


def write_report(path: str | os.PathLike[str], report: Report) -> None:
    """Write the page to `path`, in place of what is there: whoever calls asks first.

    The file appears whole or not at all.
    """
    target = Path(path)
    part = target.with_name(f".jaxfs-{os.getpid()}.part")
    try:
        part.write_text(_page(report), encoding="utf-8", newline="\n")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def picture(
    draw: Callable[..., Any], *arguments: Any, title: str, alt: str, **options: Any
) -> Picture:
    """What a function of `jaxfs.plot` draws with these arguments, as an image for the report.

    The figure is no window's and is not registered with pyplot: nothing is left to close.
    """
    figure = _figures.matplotlib("figure").Figure(layout="constrained")
    draw(*arguments, ax=figure, **options)
    content, media_type = _render(figure, "svg"), "image/svg+xml"
    if len(content) > LARGEST_SVG:
        content, media_type = _render(figure, "png"), "image/png"
    return Picture(title, alt, media_type, content)


def _render(figure: "Figure", form: str) -> bytes:
    # Equal pictures shall be equal bytes: no date, and no random names inside.
    stored, metadata = io.BytesIO(), {"Date": None} if form == "svg" else {}
    with _figures.matplotlib().rc_context({"svg.hashsalt": "jaxfs"}):
        figure.savefig(stored, format=form, dpi=200, metadata=metadata)
    return stored.getvalue()


def top_features(
    scores: ArrayLike,
    names: Sequence[Any],
    num_features: int,
    *,
    order: ArrayLike | None = None,
    stability: Stability | None = None,
) -> list[RankedFeature]:
    """The first lines of the table: by falling score, or in the `order` a selector chose."""
    values = np.asarray(scores, np.float64)
    place = _figures.by_falling(values)
    if order is not None:
        place = _figures.features(order, "order", values.size)
    lines = []
    for rank, i in enumerate(place[:num_features].tolist(), start=1):
        columns: tuple[float, ...] = ()
        if stability is not None:
            known = stability.frequencies, stability.mean_ranks, stability.rank_deviations
            columns = tuple(float(column[i]) for column in known)
        lines.append(RankedFeature(rank, str(names[i]), float(values[i]), *columns))
    return lines


def versions() -> dict[str, str]:
    """Python, and the packages whose version can change an answer."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for package in ("jaxfs", "jax", "jaxlib", "numpy", "scikit-learn", "matplotlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


# ---- The page -----------------------------------------------------------------------------------


def _data(report: Report) -> str:
    facts = {
        "source": _html.name(report.source),
        "samples": f"{report.num_samples:,}",
        "features": f"{report.num_features:,}",
        "computed in": _html.text(report.dtype),
    }
    if report.target is not None:
        facts["target"] = _html.name(report.target)
    if report.classes:
        counts = (f"{_html.name(name)} ({count:,})" for name, count in report.classes.items())
        facts[f"classes ({len(report.classes)})"] = ", ".join(counts)
    facts["imputed values"] = f"{sum(report.imputed.values()):,}"
    facts |= {_html.text(key): _html.name(value) for key, value in report.more.items()}
    filled = ""
    if report.imputed:
        rows = [(_html.name(column), f"{count:,}") for column, count in report.imputed.items()]
        filled = _html.details(
            "Values that were missing and filled in",
            _html.table("by column", ("column", "values"), rows, "tn"),
        )
    return _html.section("Data", _html.facts(facts), filled)


def _method(report: Report) -> str:
    facts = {_html.text(k): f"<code>{_html.text(v)}</code>" for k, v in report.parameters.items()}
    words = f"<p>{_html.text(report.description)}</p>" if report.description else ""
    return _html.section(
        "Method", f"<p><strong>{_html.name(report.method)}</strong></p>", words, _html.facts(facts)
    )


def _features(report: Report) -> str:
    lines = report.features
    stable = any(line.frequency is not None for line in lines)
    heads, numeric = ["rank", "feature", "score"], "ntn"
    if stable:
        heads, numeric = [*heads, "chosen", "mean rank"], numeric + "nn"
    rows = []
    for line in lines:
        row = [str(line.rank), _html.name(line.name), _html.number(line.score, ".4g")]
        if stable:
            mean = _html.number(line.mean_rank, ".1f")
            row += [
                _html.number(line.frequency, ".0%"),
                f"{mean} ± {_html.number(line.rank_deviation, '.1f')}",
            ]
        rows.append(row)
    caption = f"{len(lines):,} of {report.num_features:,} features, the best first"
    if stable:
        caption += "; in what share of the resamples each was chosen, and its rank in them"
    words = ""
    if report.stability is not None:
        value, low, high = (_html.number(v, ".3f") for v in report.stability)
        over = f" over {report.num_resamples:,} resamples" if report.num_resamples else ""
        words = (
            f"<p>Stability of the choice{over}: <strong>{value}</strong> (interval {low} to "
            f"{high}); 1 if the features are always the same, 0 if they might be drawn by lot.</p>"
        )
    return _html.section("Features", words, _html.table(caption, heads, rows, numeric))


def _pictures(report: Report) -> str:
    shown = []
    for image in report.pictures:
        data = base64.b64encode(image.content).decode("ascii")
        source = f"data:{_html.text(image.media_type)};base64,{data}"
        shown.append(
            f"<figure>\n<figcaption>{_html.name(image.title)}</figcaption>\n"
            f'<img alt="{_html.text(image.alt)}" src="{source}">\n</figure>'
        )
    return _html.section(
        "Pictures", '<div class="pictures">\n' * bool(shown), *shown, "</div>" * bool(shown)
    )


def _reproduce(report: Report) -> str:
    facts = {} if report.seed is None else {"seed": str(report.seed)}
    facts |= {
        _html.text(package): _html.text(version) for package, version in report.versions.items()
    }
    command = f"<pre><code>{_html.name(report.command)}</code></pre>" if report.command else ""
    return _html.section("How to reproduce", command, _html.facts(facts))


def _page(report: Report) -> str:
    warned = "\n".join(f'<p class="warning">{_html.text(words)}</p>' for words in report.warnings)
    created = f"<p>{_html.text(report.created)}</p>" if report.created else ""
    summary = (
        f"<p>{_html.name(report.method)} on {_html.name(report.source)}: "
        f"{report.num_samples:,} samples, {report.num_features:,} features.</p>"
    )
    parts = (
        _html.section("Warnings", warned),
        _features(report),
        _pictures(report),
        _data(report),
        _method(report),
        _reproduce(report),
    )
    main = "\n".join(part for part in parts if part)
    return _html.document(report.title, f"{summary}\n{created}", main)
