"""Checks of a table before it is used. Each finding is a note that says what to do.

A note does not change the result. Each rule names the chance of a false alarm, or the harm that it
is meant to prevent.
"""

import dataclasses
import hashlib
import math
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from scipy.stats import rankdata

from jaxfs._checks import listed
from jaxfs.cli.tables._columns import plural, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators._arrays import kind_of_target

#: Words in the names of columns that describe a sample instead of measuring it.
_METADATA = frozenset({
    "batch", "site", "plate", "well", "lane", "run", "center", "centre", "cohort", "hospital",
    "scanner", "operator", "replicate", "age", "sex", "gender", "time", "date", "day", "month",
    "year", "visit", "event", "status", "survival", "censored", "death", "followup", "fold",
    "split", "cluster", "label", "target", "class", "outcome", "diagnosis", "group", "arm",
    "treatment", "dose", "subject", "patient", "donor",
})  # fmt: skip
#: Words that name samples: columns called sample1, sample2, … are rows of a transposed table.
_SAMPLES = frozenset({
    "sample", "s", "patient", "p", "subject", "cell", "gsm", "srr", "tcga", "donor", "mouse",
    "case", "control",
})  # fmt: skip
#: Words in the names of row identifiers, whose values are distinct whole numbers.
_IDENTIFIERS = frozenset({"id", "index", "idx", "key", "nr", "no"})
#: Number of rows from which increasing whole numbers are unlikely to be a measurement.
_RISING = 8
#: A name split into words: `batchId`, `site_2` and `Age (years)`.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Maximum number of distinct values of a column that may be a code, such as a batch.
_FEW = 10
#: Share of the largest possible variance of ranks between classes from which a column is noted.
_DETERMINED = 0.95
#: Largest expected number of features that separate the classes by chance.
_CHANCE = 0.01
#: Maximum number of features in a note on metadata; if more match, they are measurements.
_MOST = 10
#: Number of cells in a block.
_BLOCK = 2**22
#: Ratio of the largest to the median positive value of a column, in skewed data. It is below 10 for
#: normal and uniform data, and 20 or more for most columns of counts of genes or words.
_SKEWED = 20.0


def look(table: Table) -> Table:
    """Return the table with notes on what is unusual in it."""
    classes, distinct = _classes(table), _distinct(table.values)
    found = [
        *_transposed(table),
        *_metadata(table, classes, distinct),
        *_lonely_classes(table, classes),
        *_repeated_rows(table, distinct),
        *_skewed(table.values),
    ]
    return dataclasses.replace(table, notes=(*table.notes, *found))


def _classes(table: Table) -> np.ndarray | None:
    """Return the class codes `(n,)`, or `None` if the target does not hold classes."""
    if table.target is None or kind_of_target(table.target) != "classes":
        return None
    return np.unique(table.target, return_inverse=True)[1]


def _blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield some columns at a time as the rows of a matrix, to limit the memory of the notes."""
    width = max(1, _BLOCK // len(values))
    for start in range(0, values.shape[1], width):
        yield np.ascontiguousarray(values[:, start : start + width].T)


def _distinct(values: np.ndarray) -> np.ndarray:
    """Return the number of distinct values in each column."""
    parts = [np.count_nonzero(np.diff(np.sort(part)), axis=1) for part in _blocks(values)]
    return 1 + np.concatenate(parts)


def _transposed(table: Table) -> list[str]:
    """A table of genes × samples has named rows, many more rows than columns, and sample names."""
    n, d = table.values.shape
    stems = Counter("".join(_WORD.findall(name)).lower() for name in table.names)
    stem, often = stems.most_common(1)[0]
    if table.rows is None or n < 4 * d or stem not in _SAMPLES or often < 0.9 * d:
        return []
    examples = f"the columns are called {listed(map(quote, table.names), 2)}"
    what = f"the rows may be features and the columns samples ({examples})"
    return [f"{what}: if so, use --transpose"]


def _metadata(table: Table, classes: np.ndarray | None, distinct: np.ndarray) -> list[str]:
    values, n = table.values, len(table.values)
    words = [{word.lower() for word in _WORD.findall(name)} for name in table.names]
    whole = (values == np.round(values)).all(axis=0)
    keys = np.flatnonzero(whole & (distinct == max(n, 3))).tolist()
    # Columns of few whole numbers are codes if most columns have many distinct values.
    various = n >= 2 * _FEW and np.median(distinct) > n / 2
    codes = np.flatnonzero(whole & (distinct <= _FEW) & (distinct > 1) & various).tolist()
    named = [
        j for j, own in enumerate(words) if _METADATA & own or (_IDENTIFIERS & own and j in keys)
    ]
    reasons = {
        "its name": named,
        "increasing whole numbers": [
            j for j in keys if n >= _RISING and (np.diff(values[:, j]) > 0).all()
        ],
        "few distinct values": codes,
        f"it nearly determines {quote(table.target_name)}": _telling(values, classes),
    }
    found: dict[int, list[str]] = defaultdict(list)
    for why, columns in reasons.items():
        if len(columns) <= min(_MOST, max(1, len(words) / 4)):
            for j in columns:
                found[j].append(why)
    if not found:
        return []
    shown = listed(f"{quote(table.names[j])} ({', '.join(found[j])})" for j in sorted(found))
    return [f"possible metadata among the features: {shown}: --drop what is not a measurement"]


def _telling(values: np.ndarray, classes: np.ndarray | None) -> list[int]:
    """Return columns whose order nearly determines the class, if that is no coincidence.

    The measure is the share of the variance of the ranks between the classes. Its largest value is
    1 − Σ p³ for class shares p, or more with ties.
    """
    if classes is None:
        return []
    n, d = values.shape
    sizes = np.bincount(classes)
    # Chance that random order keeps every class together: C! n₁! … n_C! / n!.
    by_chance = sum(map(math.lgamma, sizes + 1.0)) + math.lgamma(sizes.size + 1)
    if math.log(d) + by_chance - math.lgamma(n + 1.0) > math.log(_CHANCE):
        return []
    members = (classes[:, None] == np.arange(sizes.size)).astype(float)
    possible = 1 - ((sizes / n) ** 3).sum()
    found = []
    for part in _blocks(values):
        ranks = rankdata(part, axis=1) - (n + 1) / 2  # equal values share their mean rank
        between = ((ranks @ members) ** 2 / sizes).sum(axis=1)
        total = (ranks**2).sum(axis=1)
        found.append((total > 0) & (between >= _DETERMINED * possible * total))
    return np.flatnonzero(np.concatenate(found)).tolist()


def _lonely_classes(table: Table, classes: np.ndarray | None) -> list[str]:
    if classes is None or table.target is None:
        return []
    values, sizes = np.unique(table.target, return_counts=True)
    lonely = [quote(value) for value in values[sizes == 1]]
    if not lonely:
        return []
    which = f"classes of one row in {quote(table.target_name)}: {listed(lonely)}"
    return [f"{which}; no accuracy can be measured for them: leave them out or merge classes"]


def _repeated_rows(table: Table, distinct: np.ndarray) -> list[str]:
    """Equal rows in training and test parts make accuracies too high.

    Rows with few columns of few values repeat by chance: among n rows of independent columns with m
    possible combinations, repeats are likely if n² ≥ m (the birthday problem).
    """
    n = len(table.values)
    if np.log(distinct).sum() < 2 * math.log(n):
        return []
    groups: dict[bytes, list[int]] = defaultdict(list)
    for i, row in enumerate(table.values):
        groups[hashlib.sha256((row + 0.0).tobytes()).digest()].append(i)  # −0 becomes 0
    copies = [rows for rows in groups.values() if len(rows) > 1]
    if not copies:
        return []
    count = sum(len(rows) - 1 for rows in copies)
    target = table.target
    differ = target is not None and any(len(set(target[rows].tolist())) > 1 for rows in copies)
    also = ", some with another target" if differ else ""
    names = table.rows or [str(i + 1) for i in range(n)]
    pair = " and ".join(quote(names[i]) for i in copies[0][:2])
    what = f"{plural(count, 'row')} {'repeats' if count == 1 else 'repeat'} another row{also}"
    harm = "copies in training and test rows make accuracies too high"
    return [f"{what} (rows {pair}): {harm}: remove them"]


def _skewed(values: np.ndarray) -> list[str]:
    """Sums and distances of counts and other skewed data depend on few large values."""
    if values.min() < 0 or not (values > 0).any():
        return []
    ratios = []
    with warnings.catch_warnings(action="ignore"):  # a column may have no positive value
        for part in _blocks(values):
            typical = np.nanmedian(np.where(part > 0, part, np.nan), axis=1)
            ratios.append(part.max(axis=1) / typical)
        ratio = np.nanmedian(np.concatenate(ratios))
    if not ratio >= _SKEWED:
        return []
    whole = bool((values == np.round(values)).all())
    what = "the values look like counts" if whole else "the values are positive and very skewed"
    also = ", or --method chi2, which is made for counts" if whole else ""
    return [f"{what} (up to {values.max():.4g}): consider log(1 + x) of them{also}"]
