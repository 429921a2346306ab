"""The HTML report of a selection: one file that needs no network and runs no script.

`Report` holds plain values; `write_report` turns them into a page. Whatever came from a user
(names, parameters, the command line) is escaped in one place, `_text`, and a content security
policy in the page forbids it to load or run anything.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxfs._types import ArrayLike
from jaxfs.resample import Stability

if TYPE_CHECKING:
    pass

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
    raise NotImplementedError


def picture(
    draw: Callable[..., Any], *arguments: Any, title: str, alt: str, **options: Any
) -> Picture:
    """What a function of `jaxfs.plot` draws, as an image for the report."""
    raise NotImplementedError


def top_features(
    scores: ArrayLike,
    names: Sequence[str],
    num_features: int,
    *,
    order: ArrayLike | None = None,
    stability: Stability | None = None,
) -> list[RankedFeature]:
    """The first lines of the table: by falling score, or in the `order (≥ num_features,)` given."""
    raise NotImplementedError


def versions() -> dict[str, str]:
    """Python, and the packages whose version can change an answer."""
    raise NotImplementedError
