"""The answer to a request: read the target of the table, fit the method, and select features."""

import dataclasses
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from sklearn.base import clone

from jaxfs import evaluate
from jaxfs._checks import listed
from jaxfs.cli._options import Request
from jaxfs.cli._request import find_method, find_rule, make_estimator, parameters, used_blocks
from jaxfs.cli.tables._columns import Refusal, as_text, plural, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import FDR, METHODS, AutoSelector, Method
from jaxfs.estimators._arrays import kind_of_target
from jaxfs.estimators._significance import Significance
from jaxfs.resample import Stability, subsample_masks

#: Methods whose result depends on the units of the features. The other methods are independent of
#: the units, or standardise the features themselves.
_IN_UNITS = frozenset(
    {"auto", "manifest", "combined", "gkl", "laplacian", "mcfs", "spec", "variance"}
)
#: Ratio of the largest to the smallest range of a feature above which a note mentions the units.
_RANGES = 100.0
#: Number of numeric classes above which a note mentions the classes.
_CLASSES = 20
#: Fraction of every class in a resample.
_FRACTION = 0.8

#: A feature in an error of an estimator, which receives no names here.
_COLUMN = re.compile(r"\bcolumn (\d+)\b")

#: The target, the number of rows of each class, and notes.
Labels = tuple[np.ndarray | None, dict[str, int], list[str]]


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """The selected features of a table, and information about the fit.

    `table`, `request`: what was asked. `method`: the method of the request. `parameters`:
    parameters of the estimator. `order`: columns of the selected features in the table, best first.
    `scores (d,)`: scores of all features. `seconds`: duration of the fit. `notes`: warnings for the
    user. `classes`: number of rows of each class. `stability`: stability of the selection over
    resamples or, for the method auto, over the folds (`in_folds`), or `None`. `fitted`: the fitted
    estimator. `tested`: p-values and q-values, or `None`. `reason`: how the number of features was
    chosen.
    """

    table: Table
    request: Request
    method: Method
    parameters: Mapping[str, Any]
    order: np.ndarray
    scores: np.ndarray
    seconds: float
    notes: tuple[str, ...]
    classes: Mapping[str, int]
    stability: Stability | None = None
    fitted: Any = None
    in_folds: bool = False
    tested: Significance | None = None
    reason: str = ""


def choose(table: Table, request: Request, num_resamples: int = 0) -> Answer:
    """Return the features of a table that a request selects; raises `Refusal` for user errors."""
    method, estimator = find_method(request.method), make_estimator(request)
    targets = getattr(estimator, "target", "any") if method.targets == "any" else method.targets
    y, classes, notes = target_values(table, targets, method.name)
    if isinstance(estimator, AutoSelector):
        notes += _check_auto(classes, table.target is None)
    notes += [] if request.standardize else _note_units(table.values, method)
    start = time.perf_counter()
    blocks = labels_of_fit(table, request)
    notes += fit_estimator(estimator, request, table.values, y, table.names, **blocks)
    tested = _tested(estimator, request, table, y)
    seconds = time.perf_counter() - start
    notes += getattr(estimator, "notes_", [])
    ranking, chosen = np.asarray(estimator.ranking_), np.flatnonzero(estimator.support_)
    order = chosen[np.argsort(ranking[chosen], stable=True)]
    if isinstance(asked := find_rule(request), int) and len(order) < asked:
        notes.append(f"{method.name} selected {len(order)} features; -k asked for {asked}")
    constant = (table.values[:, chosen] == table.values[0, chosen]).all(axis=0)
    if constant.any():
        names = listed(quote(table.names[j]) for j in chosen[constant])
        notes.append(f"constant features were selected: {names}; --drop them")
    stability, parts = None, "no fold"
    in_folds = isinstance(estimator, AutoSelector) and not num_resamples
    if num_resamples:
        inner = getattr(estimator, "estimator_", estimator)  # for the method auto, the winner
        again = clone(inner).set_params(n_features_to_select=len(order), verbose=False)
        stability = _stability(again, table, request, y, num_resamples)
        parts = f"none of {num_resamples} resamples"
    elif in_folds:
        stability = _stability_of_folds(estimator.rankings_[estimator.best_], order, ranking.size)
    if stability is not None:
        never = [quote(table.names[j]) for j in order if stability.frequencies[j] == 0]
        lost = f"selected from all rows, but in {parts}"
        notes += [f"{lost}: {listed(never)}"] if never else []
    return Answer(
        table,
        request,
        method,
        parameters(estimator),
        order,
        np.asarray(estimator.scores_, np.float64),
        seconds,
        tuple(notes),
        classes,
        stability,
        estimator,
        in_folds,
        tested,
        estimator.n_features_reason_,
    )


def labels_of_fit(
    table: Table, request: Request, rows: Any = slice(None), used: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Return groups and strata of some rows: those `used`, by default by the fit of a request."""
    columns = {"groups": request.groups, "strata": request.strata}
    found = {what: columns[what] for what in used or used_blocks(request)}
    return {what: table.labels[name][rows] for what, name in found.items() if name is not None}


def _tested(estimator: Any, request: Request, table: Table, y: Any) -> Significance | None:
    """Return the p-values of the fit, or those of the permutation test that a request asks for."""
    if hasattr(estimator, "qvalues_"):
        return Significance(estimator.pvalues_, estimator.qvalues_)
    if request.permutations is None:
        return None
    values = standardize_columns(table.values) if request.standardize else table.values
    rule = FDR(n_permutations=request.permutations, random_state=request.seed)
    blocks = labels_of_fit(table, request, used=("groups", "strata"))
    try:
        return estimator.significance(values, y, rule, **blocks)
    except ValueError as error:
        message = str(error).replace('n_features_to_select="fdr"', "--permutations")
        raise Refusal(message) from error


def target_values(table: Table, targets: str, name: str) -> Labels:
    """Return the target for the method `name`, the number of rows of each class, and notes.

    `targets` is "classes", "numbers" or "none"; "any" or "auto" decide by the target. Classes
    become codes 0, 1, ….
    """
    targets = kind_of_target(table.target) if targets in ("any", "auto") else targets
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
    named = dict(zip(map(as_text, classes), counts.tolist(), strict=True))
    return codes.astype(np.int64), named, notes


def _check_auto(classes: Mapping[str, int], unsupervised: bool) -> list[str]:
    """Raise `Refusal` for classes that cross-validation cannot split; return notes."""
    for name, count in classes.items():
        if count < 2:
            needs = f"auto needs at least two rows of every class, and {quote(name)} has one"
            raise Refusal(f"{needs}: leave it out, merge classes, or choose a --method")
    what = "without --target, the selected features represent the other features, not a target"
    return [what] if unsupervised else []


def is_continuous(target: np.ndarray) -> bool:
    """Return whether a target cannot be class labels: it has fractions or mostly unique values."""
    fractions = target.dtype.kind == "f" and bool((target != np.round(target)).any())
    return fractions or 2 * len(np.unique(target)) > len(target)


def _note_units(values: np.ndarray, method: Method) -> list[str]:
    """Return a note if the method depends on units and the ranges of the features differ a lot."""
    ranges = values.max(axis=0) / 2 - values.min(axis=0) / 2  # without / 2 this could overflow
    ranges = ranges[ranges > 0]
    if method.name not in _IN_UNITS or not ranges.size or ranges.max() / _RANGES < ranges.min():
        return []
    text = f"the ranges of the features differ by a factor of more than {_RANGES:.0f}, and"
    return [f"{text} {method.name} depends on the units of the features: consider --standardize"]


def fit_estimator(
    estimator: Any,
    request: Request,
    values: np.ndarray,
    y: np.ndarray | None,
    names: Sequence[str] = (),
    **blocks: np.ndarray,
) -> list[str]:
    """Fit an estimator, and return its warnings; its errors become a `Refusal`.

    `y` is float64 for a numeric target, and integer codes for classes. `names` of the features, if
    given, replace their numbers in errors.
    """
    if y is not None and getattr(estimator, "target", None) == "auto":
        estimator.set_params(target="numbers" if y.dtype.kind == "f" else "classes")
    if request.standardize:
        values = standardize_columns(values)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator.fit(values, y, **blocks)
        except (ValueError, MemoryError, ImportError) as error:
            message = str(error).replace("FDR(n_permutations=…)", "--permutations")
            message = message.replace("n_features_to_select", "-k")
            if names:
                message = _COLUMN.sub(lambda found: quote(names[int(found[1])]), message)
            raise Refusal(message) from error
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return list(dict.fromkeys(messages))


def standardize_columns(values: np.ndarray) -> np.ndarray:
    """Return features with mean 0 and standard deviation 1; constant features become 0."""
    # First scale by powers of two, which is exact. Squares of large values would overflow.
    scaled = np.ldexp(values, -np.frexp(np.abs(values).max(axis=0))[1])
    constant = (values == values[0]).all(axis=0)
    deviation = np.where(constant, 1.0, scaled.std(axis=0))
    return np.where(constant, 0.0, (scaled - scaled.mean(axis=0)) / deviation)


def _stability(
    estimator: Any, table: Table, request: Request, y: np.ndarray | None, number: int
) -> Stability:
    """Return the stability of a selection over random subsets of the rows, stratified by class."""
    groups = None if y is None or y.dtype.kind == "f" else y
    key, n = jax.random.key(request.seed), len(table.values)
    ranks, chosen = [], []
    # Some methods need two rows of every class.
    for rows in np.asarray(
        subsample_masks(key, number, n, fraction=_FRACTION, groups=groups, least=2)
    ):
        part = clone(estimator)
        fit_estimator(part, request, table.values[rows], None if y is None else y[rows])
        ranks.append(part.ranking_)
        chosen.append(part.support_)
    return _summary(np.array(ranks, np.float64), np.array(chosen), estimator.n_features_to_select)


def _stability_of_folds(first: np.ndarray, order: np.ndarray, d: int) -> Stability:
    """Return the stability of the selection from the features `(folds, m)` that each fold ranks.

    All other features have rank m + 1, as in the estimators of greedy methods.
    """
    k, m = len(order), first.shape[1]
    ranks = np.full((len(first), d), m + 1.0)
    np.put_along_axis(ranks, first[:, ::-1], np.arange(m, 0.0, -1)[None], axis=1)
    return _summary(ranks, selection_masks(first[:, :k], d), k)


def selection_masks(chosen: np.ndarray, d: int) -> np.ndarray:
    """Return masks `(folds, d)` of the features `chosen (folds, k)`."""
    masks = np.zeros((len(chosen), d), bool)
    np.put_along_axis(masks, chosen, True, axis=1)
    return masks


def _summary(ranks: np.ndarray, chosen: np.ndarray, k: int) -> Stability:
    found = evaluate.selection_stability(chosen)
    first: Any = np.argsort(ranks, axis=1, stable=True)[:, :k]
    spread: Any = ranks.std(axis=0, ddof=1)
    return Stability(chosen.mean(axis=0), ranks.mean(axis=0), spread, *found, first)
