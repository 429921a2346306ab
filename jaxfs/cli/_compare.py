"""The comparison of methods on one table by cross-validated accuracy, stability and overlap.

Every fold selects features from its training rows only.
"""

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jaxfs import evaluate
from jaxfs.cli import _answer
from jaxfs.cli._request import Request, find_method, make_estimator
from jaxfs.cli.tables._columns import Refusal, plural, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import Method, _progress

#: Number of random baselines per fold.
_DRAWS = 5
#: The training rows and the test rows of a fold.
_Fold = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class ComparisonRow:
    """The results of one method or baseline.

    `features`: mean number of selected features. `mean`, `by_fold`: accuracy or R². `stability`:
    Nogueira's measure of the selections, 1 if all folds agree, about 0 for random selections, NaN
    if all features are selected. `seconds`: total duration of the fits, including compilation.
    """

    name: str
    features: float
    mean: float | None
    by_fold: list[float] | None
    stability: float | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The results of several methods; --json prints these fields.

    `measure`: "accuracy"; "R²" if the target is a number; `None` without a target. `methods`: the
    methods, followed by the baselines of all features and of random features. `overlap`: for each
    pair of methods, the mean over the folds of 2·|A ∩ B| / (|A| + |B|).
    """

    measure: str | None
    folds: int
    methods: list[ComparisonRow]
    overlap: dict[str, dict[str, float]]
    notes: list[str]


def compare(
    table: Table, requests: Sequence[Request], *, folds: int, seed: int, verbose: bool = False
) -> Comparison:
    """Return the comparison of several requests on one table, by cross-validation."""
    methods = [find_method(request.method) for request in requests]
    if len(set(methods)) < len(methods):
        raise Refusal("methods must differ from each other")
    if {"classes", "numbers"} <= {method.targets for method in methods}:
        raise Refusal("methods for classes cannot be compared with methods for numeric targets")
    y, classes, notes = _target(table, methods)
    parts = _folds(len(table.values), y, classes, folds, seed)
    regression = LogisticRegression(max_iter=1000) if classes else Ridge()
    accuracy = functools.partial(_accuracy, make_pipeline(StandardScaler(), regression), y)
    if table.gaps is not None:
        notes.append("each fold replaces missing values by the medians of its training rows")
    rows, chosen = [], {}
    with _progress.bar("folds", len(requests) * folds, show=verbose) as done:
        for method, request in zip(methods, requests, strict=True):
            supports, accuracies, seconds = [], [], 0.0
            for train, test in parts:
                values, estimator = _fill(table, train), make_estimator(request)
                known = y[train] if method.targets != "none" and y is not None else None
                start = time.perf_counter()
                found = _answer.fit_estimator(estimator, request, values[train], known, table.names)
                seconds += time.perf_counter() - start
                notes += [f"{method.name}: {note}" for note in found]
                supports.append(support := np.asarray(estimator.support_))
                if y is not None:
                    accuracies.append(accuracy(values[:, support], train, test))
                done(1)
            chosen[method.name] = selected = np.array(supports)
            stability = float(evaluate.selection_stability(selected).stability)
            number = float(selected.sum() / folds)
            rows.append(_row(method.name, number, accuracies, stability, seconds))
    if y is not None:
        rows += _baselines(accuracy, table, parts, rows, seed)
    measure = None if y is None else "accuracy" if classes else "R²"
    overlap = {m: {n: _dice(a, b) for n, b in chosen.items()} for m, a in chosen.items()}
    return Comparison(measure, folds, rows, overlap, list(dict.fromkeys(notes)))


def _target(table: Table, methods: Sequence[Method]) -> _answer.Labels:
    """Return the labels for the methods or, if all are unsupervised, for the accuracy alone."""
    for method in methods:
        if method.supervised or (method.targets == "any" and table.target is not None):
            return _answer.target_values(table, method.targets, method.name)
    target = table.target
    numeric = target is not None and target.dtype.kind == "f" and _answer.is_continuous(target)
    return _answer.target_values(table, "numbers" if numeric else "classes", "accuracy")


def _folds(
    n: int, y: np.ndarray | None, classes: Mapping[str, int], folds: int, seed: int
) -> list[_Fold]:
    if not 2 <= folds <= n // 2:
        raise Refusal(f"--folds must be from 2 to half of the {n} rows, got {folds}")
    rare = min(classes, key=lambda name: classes[name], default=None)
    if rare is not None and classes[rare] < folds:
        rows = plural(classes[rare], "row")
        raise Refusal(
            f"--folds must be at most the size of class {quote(rare)} ({rows}), got {folds}"
        )
    split = (StratifiedKFold if classes else KFold)(folds, shuffle=True, random_state=seed)
    return list(split.split(np.empty((n, 1)), y))


def _fill(table: Table, train: np.ndarray) -> np.ndarray:
    """Return the values, with missing ones replaced by the medians of the training rows."""
    if table.gaps is None:
        return table.values
    values = table.values.copy()
    for j in np.flatnonzero(table.gaps.any(axis=0)).tolist():
        known = values[train, j][~table.gaps[train, j]]
        if not known.size:
            name = quote(table.names[j])
            raise Refusal(f"{name} has no value in the training rows of a fold: use --drop")
        values[table.gaps[:, j], j] = np.median(known)
    return values


def _accuracy(model: Any, y: Any, values: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Return the accuracy, or R² for a numeric target, on the test rows of a fold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models that do not converge affect all methods
        return float(model.fit(values[train], y[train]).score(values[test], y[test]))


def _baselines(
    accuracy: Callable[..., float], table: Table, folds: list[_Fold], rows: list[Any], seed: int
) -> list[ComparisonRow]:
    """Return the rows of two baselines: all features, and as many random ones as methods select."""
    d = table.values.shape[1]
    k = min(d, max(1, round(sum(row.features for row in rows) / len(rows))))
    rng = np.random.default_rng(seed)
    everything, random = [], []
    for train, test in folds:
        values = _fill(table, train)
        everything.append(accuracy(values, train, test))
        draws = [values[:, rng.permutation(d)[:k]] for _ in range(_DRAWS)]
        random.append(float(np.mean([accuracy(drawn, train, test) for drawn in draws])))
    return [_row("all features", float(d), everything), _row("at random", float(k), random)]


def _row(name: str, features: float, by_fold: list[float], *rest: float) -> ComparisonRow:
    mean = float(np.mean(by_fold)) if by_fold else None
    return ComparisonRow(name, features, mean, by_fold or None, *rest)


def _dice(a: np.ndarray, b: np.ndarray) -> float:
    """Return the mean overlap of two methods' selections `(folds, d)`."""
    return float(np.mean(2 * (a & b).sum(axis=1) / (a.sum(axis=1) + b.sum(axis=1))))
