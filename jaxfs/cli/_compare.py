"""Compares methods on one table: accuracy by cross-validation, stability and overlap.

Every fold selects features from its training rows only.
"""

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxfs import evaluate
from jaxfs.cli import _answer
from jaxfs.cli._request import Request, find_method, make_estimator
from jaxfs.cli.tables._columns import Refusal, plural, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import Method, _progress

#: Number of random selections per fold, the baseline.
_DRAWS = 5

#: The training rows and the test rows of a fold.
_Fold = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class ComparisonRow:
    """Results of one method or baseline; `accuracies (folds,)` are R² if the target is a number.

    `number`: mean number of features. `stability`: Nogueira's measure of the selections, 1 if all
    folds agree, about 0 for random selections, NaN if all features are selected. `seconds`: total
    duration of the fits, including compilation.
    """

    name: str
    number: float
    accuracies: np.ndarray | None
    stability: float | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The rows of the methods, followed by the baselines: all features, and random features.

    `overlap`: for each pair of methods the mean over the folds of 2·|A ∩ B| / (|A| + |B|).
    `measure`: "accuracy", "R²", or empty without a target.
    """

    rows: list[ComparisonRow]
    overlap: Mapping[str, Mapping[str, float]]
    measure: str
    folds: int
    notes: tuple[str, ...]


def compare(
    table: Table, requests: Sequence[Request], *, folds: int, seed: int, verbose: bool = False
) -> Comparison:
    """Return the comparison of several requests on one table, by cross-validation."""
    methods = [find_method(request.method) for request in requests]
    if len({method.name for method in methods}) < len(methods):
        raise Refusal("methods must differ from each other")
    targets = {method.targets for method in methods} - {"none"}
    if len(targets) > 1:
        raise Refusal("methods for classes and methods for numbers cannot be compared")
    for request in requests:
        _answer.check_number(request, table)
    y, classes = _target(table, methods)
    parts = _folds(len(table.values), y, classes, folds, seed)
    model = _model(bool(classes))
    notes = _answer.note_classes(table, classes)
    if table.gaps is not None:
        notes.append("each fold replaces missing values by the medians of its training rows")
    rows, chosen = [], {}
    with _progress.bar("folds", len(requests) * folds, show=verbose) as done:
        for method, request in zip(methods, requests, strict=True):
            supports, accuracies, seconds = [], [], 0.0
            for train, test in parts:
                values, estimator = _fill(table, train), make_estimator(request)
                known = y[train] if method.supervised and y is not None else None
                start = time.perf_counter()
                found = _answer.fit(estimator, request, values[train], known)
                seconds += time.perf_counter() - start
                notes += [f"{method.name}: {note}" for note in found]
                supports.append(support := np.asarray(estimator.support_))
                if y is not None:
                    accuracies.append(_accuracy(model, values[:, support], y, train, test))
                done(1)
            chosen[method.name] = selected = np.array(supports)
            stability = float(evaluate.selection_stability(selected).stability)
            number = float(selected.sum() / folds)
            scores = np.array(accuracies) if accuracies else None
            rows.append(ComparisonRow(method.name, number, scores, stability, seconds))
    if y is not None:
        rows += _baselines(table, model, y, parts, rows, seed)
    measure = "" if y is None else "accuracy" if classes else "R²"
    return Comparison(rows, _overlap(chosen), measure, folds, tuple(dict.fromkeys(notes)))


def _target(table: Table, methods: Sequence[Method]) -> tuple[np.ndarray | None, dict[str, int]]:
    """Return the target that the methods need or, if all are unsupervised, the classifier."""
    for method in methods:
        if method.supervised:
            return _answer.labels(table, method.targets, method.name)
    target = table.target
    numeric = target is not None and target.dtype.kind == "f" and _answer.is_continuous(target)
    return _answer.labels(table, "numbers" if numeric else "classes", "accuracy")


def _folds(
    n: int, y: np.ndarray | None, classes: Mapping[str, int], folds: int, seed: int
) -> list[_Fold]:
    from sklearn.model_selection import KFold, StratifiedKFold

    if not 2 <= folds <= n // 2:
        raise Refusal(f"--folds must be from 2 to half of the {n} rows, got {folds}")
    rare = min(classes, key=lambda name: classes[name], default=None)
    if rare is not None and classes[rare] < folds:
        rows = plural(classes[rare], "row")
        raise Refusal(f"--folds must be at most the {rows} of class {quote(rare)}, got {folds}")
    split = (StratifiedKFold if classes else KFold)(folds, shuffle=True, random_state=seed)
    return list(split.split(np.empty((n, 1)), y))


def _fill(table: Table, train: np.ndarray) -> np.ndarray:
    """Return the values; missing ones are the medians of the training rows."""
    if table.gaps is None:
        return table.values
    values = table.values.copy()
    for j in np.flatnonzero(table.gaps.any(axis=0)).tolist():
        known = values[train, j][~table.gaps[train, j]]
        if not known.size:
            name = quote(table.names[j])
            raise Refusal(f"{name} has no value in the training rows of a fold: --drop it")
        values[table.gaps[:, j], j] = np.median(known)
    return values


def _model(classification: bool) -> Any:
    """Return logistic or ridge regression on standardised features."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000) if classification else Ridge()
    )


def _accuracy(
    model: Any, values: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray
) -> float:
    """Return the accuracy, or R² of a number, on the test rows of a fold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence concerns all methods alike
        return float(model.fit(values[train], y[train]).score(values[test], y[test]))


def _baselines(
    table: Table,
    model: Any,
    y: np.ndarray,
    folds: Sequence[_Fold],
    rows: Sequence[ComparisonRow],
    seed: int,
) -> list[ComparisonRow]:
    """Return the rows of all features, and of random features of the methods' mean number."""
    d = table.values.shape[1]
    k = min(d, max(1, round(sum(row.number for row in rows) / len(rows))))
    rng = np.random.default_rng(seed)
    everything, random = [], []
    for train, test in folds:
        values = _fill(table, train)
        everything.append(_accuracy(model, values, y, train, test))
        draws = [values[:, rng.permutation(d)[:k]] for _ in range(_DRAWS)]
        random.append(np.mean([_accuracy(model, drawn, y, train, test) for drawn in draws]))
    return [
        ComparisonRow("all features", float(d), np.array(everything)),
        ComparisonRow("at random", float(k), np.array(random)),
    ]


def _overlap(chosen: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    def dice(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.mean(2 * (a & b).sum(axis=1) / (a.sum(axis=1) + b.sum(axis=1))))

    return {m: {n: dice(a, b) for n, b in chosen.items()} for m, a in chosen.items()}
