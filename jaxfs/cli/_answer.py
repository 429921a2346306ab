"""The answer to a request: read the target of the table, fit the method, and select features."""

import dataclasses
import time
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxfs import evaluate
from jaxfs._checks import listed
from jaxfs.cli._request import Request, find_method, make_estimator, parameters
from jaxfs.cli.tables._columns import Refusal, plural, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import METHODS, Method
from jaxfs.resample import Stability, subsample_masks

#: Methods whose result depends on the units of the features. The other methods are independent of
#: the units, or standardise the features themselves.
_IN_UNITS = frozenset({"manifest", "combined", "gkl", "laplacian", "mcfs", "spec", "variance"})
#: Ratio of the largest to the smallest range of a feature above which a note mentions the units.
_RANGES = 100.0
#: Number of numeric classes above which a note mentions the classes.
_CLASSES = 20
#: Fraction of every class in a resample.
_FRACTION = 0.8

#: The target, the number of rows of each class, and notes.
Labels = tuple[np.ndarray | None, dict[str, int], list[str]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """The selected features, and information about the fit.

    `order`: columns of the selected features in the table, best first. `scores (d,)`: scores of all
    features. `parameters`: parameters of the estimator. `seconds`: duration of the fit. `notes`:
    warnings for the user. `classes`: number of rows of each class. `stability`: stability of the
    selection over resamples, or `None`.
    """

    method: Method
    parameters: Mapping[str, Any]
    order: np.ndarray
    scores: np.ndarray
    seconds: float
    notes: tuple[str, ...]
    classes: Mapping[str, int]
    stability: Stability | None = None


def choose(table: Table, request: Request, num_resamples: int = 0) -> Answer:
    """Return the features of a table that a request selects; raises `Refusal` for user errors."""
    method, estimator = find_method(request.method), make_estimator(request)
    y, classes, notes = target_values(table, method.targets, method.name)
    notes += [] if request.standardize else _note_units(table.values, method)
    start = time.perf_counter()
    notes += fit_estimator(estimator, request, table.values, y)
    seconds = time.perf_counter() - start
    notes += getattr(estimator, "notes_", [])
    ranking, chosen = np.asarray(estimator.ranking_), np.flatnonzero(estimator.support_)
    order = chosen[np.argsort(ranking[chosen], stable=True)]
    if isinstance(request.k, int) and len(order) < request.k:
        notes.append(f"{method.name} selected {len(order)} features; -k asked for {request.k}")
    constant = (table.values[:, chosen] == table.values[0, chosen]).all(axis=0)
    if constant.any():
        names = listed(quote(table.names[j]) for j in chosen[constant])
        notes.append(f"constant features were selected: {names}; --drop them")
    stability = None
    if num_resamples:
        again = request._replace(verbose=False, k=len(order))
        stability = _stability(table, again, y, num_resamples)
        never = [quote(table.names[j]) for j in order if stability.frequencies[j] == 0]
        lost = f"selected from all rows, but in none of {num_resamples} resamples"
        notes += [f"{lost}: {listed(never)}"] if never else []
    scores = np.asarray(estimator.scores_, np.float64)
    found = parameters(estimator)
    return Answer(method, found, order, scores, seconds, tuple(notes), classes, stability)


def target_values(table: Table, targets: str, name: str) -> Labels:
    """Return the target for the method `name`, the number of rows of each class, and notes.

    `targets` is "classes", "numbers" or "none". Classes become codes 0, 1, ….
    """
    target, column = table.target, quote(table.target_name)
    if targets == "none" or target is None:
        return None, {}, []
    numeric = target.dtype.kind == "f"
    if targets == "numbers":
        if not numeric:
            raise Refusal(f"{name} needs a numeric target; {column} holds {quote(target[0])}")
        return target, {}, []
    classes, codes, counts = np.unique(target, return_inverse=True, return_counts=True)
    if is_continuous(target):
        many = 2 * len(classes) > len(target)
        has = f"{len(classes)} values in {plural(len(target), 'row')}" if many else "fractions"
        others = listed(sorted(n for n, m in METHODS.items() if m.targets == "numbers"), 9)
        raise Refusal(f"{name} needs classes; {column} has {has} (methods for numbers: {others})")
    note = f"each of the {len(classes)} values of {column} is treated as a class, not as a number"
    notes = [note] if numeric and len(classes) > _CLASSES else []
    named = dict(zip(map(class_name, classes), counts.tolist(), strict=True))
    return codes.astype(np.int64), named, notes


def is_continuous(target: np.ndarray) -> bool:
    """Return whether a target cannot be class labels: it has fractions or mostly unique values."""
    fractions = target.dtype.kind == "f" and bool((target != np.round(target)).any())
    return fractions or 2 * len(np.unique(target)) > len(target)


def class_name(value: Any) -> str:
    """Return the name of a class: `1` for 1.0, text unchanged."""
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _note_units(values: np.ndarray, method: Method) -> list[str]:
    """Return a note if the method depends on units and the ranges of the features differ a lot."""
    ranges = values.max(axis=0) / 2 - values.min(axis=0) / 2  # without / 2 this could overflow
    ranges = ranges[ranges > 0]
    if method.name not in _IN_UNITS or not ranges.size or ranges.max() / _RANGES < ranges.min():
        return []
    text = f"the ranges of the features differ by a factor of more than {_RANGES:.0f}, and"
    return [f"{text} {method.name} depends on the units of the features: consider --standardize"]


def fit_estimator(
    estimator: Any, request: Request, values: np.ndarray, y: np.ndarray | None
) -> list[str]:
    """Fit an estimator, and return its warnings; its errors become a `Refusal`."""
    if request.standardize:
        values = standardize_columns(values)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator.fit(values, y)
        except (ValueError, MemoryError, ImportError) as error:
            raise Refusal(str(error).replace("n_features_to_select", "-k")) from error
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return list(dict.fromkeys(messages))


def standardize_columns(values: np.ndarray) -> np.ndarray:
    """Return features with mean 0 and standard deviation 1; constant features become 0."""
    # First scale by powers of two, which is exact. Squares of large values would overflow.
    scaled = np.ldexp(values, -np.frexp(np.abs(values).max(axis=0))[1])
    constant = (values == values[0]).all(axis=0)
    deviation = np.where(constant, 1.0, scaled.std(axis=0))
    return np.where(constant, 0.0, (scaled - scaled.mean(axis=0)) / deviation)


def _stability(table: Table, request: Request, y: np.ndarray | None, number: int) -> Stability:
    """Return how stable a selection is over random parts of the rows, drawn from every class."""
    groups = None if y is None or y.dtype.kind == "f" else y
    key, n = jax.random.key(request.seed), len(table.values)
    masks = np.asarray(subsample_masks(key, number, n, fraction=_FRACTION, groups=groups))
    if groups is not None:  # some methods need two rows of every class
        masks = masks | (np.bincount(groups)[groups] <= 2)
    ranks, chosen = [], []
    for rows in masks:
        estimator = make_estimator(request)
        fit_estimator(estimator, request, table.values[rows], None if y is None else y[rows])
        ranks.append(np.asarray(estimator.ranking_, np.float64))
        chosen.append(np.asarray(estimator.support_))
    rank: Any = np.array(ranks)
    order: Any = np.argsort(rank, axis=1, stable=True)
    return Stability(
        np.mean(chosen, axis=0),
        rank.mean(axis=0),
        rank.std(axis=0, ddof=1),
        *evaluate.selection_stability(np.array(chosen)),
        order[:, : request.k],
    )
