"""Several methods on one table: accuracy by cross-validation, stability, overlap.

Features are chosen anew in each fold from its training rows alone; the test rows take no part.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxfs import evaluate
from jaxfs.cli import _answer
from jaxfs.cli._request import Plan, find_method, make_estimator
from jaxfs.cli.tables._columns import Refusal, plural, quote
from jaxfs.cli.tables._table import Table

#: So many draws of k features at random say what a choice is worth.
_DRAWS = 5


@dataclasses.dataclass(frozen=True)
class Row:
    """One method over the folds: `accuracies (folds,)`, or R² of a number, or `None`.

    `stability`: Nogueira's of the choices, 1 for the same in every fold and 0 for chance; NaN if
    all features are chosen. `chosen (folds, d)`. `seconds` in all, compilation included.
    """

    name: str
    accuracies: np.ndarray | None
    number: float
    stability: float | None = None
    chosen: np.ndarray | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`rows` of the methods, then of all features and of features at random.

    `overlap (m, m)`: mean over the folds of 2·|A ∩ B| / (|A| + |B|). `measure`: what `accuracies`
    are.
    """

    rows: list[Row]
    overlap: np.ndarray
    measure: str
    folds: int
    notes: tuple[str, ...]


def compare(
    table: Table,
    plans: Sequence[Plan],
    *,
    folds: int,
    seed: int,
    step: Callable[[str], None] = lambda name: None,
) -> Comparison:
    """Compare the plans on one table; `step` is told the name of each method as it goes on."""
    methods = [find_method(plan.method) for plan in plans]
    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        raise Refusal("methods must differ from each other")
    targets = {m.targets for m in methods} - {"none"}
    if len(targets) > 1:
        raise Refusal("methods for classes and methods for numbers cannot be compared")
    for plan in plans:
        _answer.check_number(plan.k, table)
    kind = targets.pop() if targets else None
    y, classes = _target(table, kind, methods)
    parts = _folds(len(table.values), y, classes, folds, seed)
    notes = _answer.many_classes(table, classes)
    if table.gaps is not None:
        notes.append("in each fold, missing values are replaced by medians of its training rows")
    rows = [_row(table, plan, y, parts, bool(classes), notes, step) for plan in plans]
    if y is not None:
        rows += _baselines(table, y, parts, bool(classes), rows, seed)
    measure = "" if y is None else "accuracy" if classes else "R²"
    return Comparison(rows, _overlap(rows, len(plans)), measure, folds, tuple(dict.fromkeys(notes)))


def _target(
    table: Table, kind: str | None, methods: Sequence[Any]
) -> tuple[np.ndarray | None, dict[str, int]]:
    """The target for the methods, or, if none of them takes one, for the classifier alone."""
    if kind is not None:
        return _answer.labels(table, next(m for m in methods if m.targets == kind))
    if table.target is None:
        return None, {}
    numeric = table.target.dtype.kind == "f"
    many = 2 * len(np.unique(table.target)) > len(table.target)
    if numeric and (many or _answer.has_fractions(table.target)):
        return table.target, {}
    return _answer.encode(table, "accuracy")


def _folds(
    n: int, y: np.ndarray | None, classes: dict[str, int], folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import KFold, StratifiedKFold

    if not 2 <= folds <= n // 2:
        raise Refusal(f"--folds must be from 2 to half of the {n} rows, got {folds}")
    if not classes:
        return list(KFold(folds, shuffle=True, random_state=seed).split(np.empty((n, 1))))
    rare = min(classes, key=lambda name: classes[name])
    if classes[rare] < folds:
        rows = plural(classes[rare], "row")
        raise Refusal(
            f"class {quote(rare)} has {rows}, fewer than the {folds} folds: lower --folds"
        )
    cut = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return list(cut.split(np.empty((n, 1)), y))


def _filled(table: Table, train: np.ndarray) -> np.ndarray:
    """The values; where some were missing, with medians of the training rows instead."""
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


def _row(
    table: Table,
    plan: Plan,
    y: np.ndarray | None,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    classification: bool,
    notes: list[str],
    step: Callable[[str], None],
) -> Row:
    method = find_method(plan.method)
    chosen, accuracies = [], []
    seconds = 0.0
    for train, test in parts:
        estimator = make_estimator(plan)
        filled = _filled(table, train)
        values = filled[train]
        values = _answer.standardized(values) if plan.standardize else values
        start = time.perf_counter()
        told = _answer.fit(
            estimator, values, y[train] if method.supervised and y is not None else None
        )
        seconds += time.perf_counter() - start
        notes += [f"{method.name}: {note}" for note in told]
        support = np.asarray(estimator.support_)
        chosen.append(support)
        if y is not None:
            accuracies.append(_accuracy(filled[:, support], y, train, test, classification))
        step(method.name)
    index = float(evaluate.selection_stability(np.array(chosen)).stability)
    return Row(
        name=method.name,
        accuracies=np.array(accuracies) if accuracies else None,
        number=float(np.sum(chosen) / len(chosen)),
        stability=index,
        chosen=np.array(chosen),
        seconds=seconds,
    )


def _accuracy(
    values: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, classification: bool
) -> float:
    """Of logistic regression, or R² of ridge regression, on standardised features."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = LogisticRegression(max_iter=1000) if classification else Ridge()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: the same for all that are compared
        fitted = make_pipeline(StandardScaler(), model).fit(values[train], y[train])
    return float(fitted.score(values[test], y[test]))


def _baselines(
    table: Table,
    y: np.ndarray,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    classification: bool,
    rows: Sequence[Row],
    seed: int,
) -> list[Row]:
    """All features, and as many at random as the methods chose on average."""
    d = table.values.shape[1]
    k = min(d, max(1, round(sum(row.number for row in rows) / len(rows))))
    rng = np.random.default_rng(seed)
    everything, random = [], []
    for part in parts:
        values = _filled(table, part[0])
        everything.append(_accuracy(values, y, *part, classification))
        draws = [values[:, rng.permutation(d)[:k]] for _ in range(_DRAWS)]
        random.append(np.mean([_accuracy(drawn, y, *part, classification) for drawn in draws]))
    return [
        Row("all features", np.array(everything), float(d)),
        Row("at random", np.array(random), float(k)),
    ]


def _overlap(rows: Sequence[Row], number: int) -> np.ndarray:
    out = np.eye(number)
    for i in range(number):
        for j in range(number):
            a, b = rows[i].chosen, rows[j].chosen
            assert a is not None
            assert b is not None
            common, total = (a & b).sum(axis=1), a.sum(axis=1) + b.sum(axis=1)
            out[i, j] = np.mean(2 * common / total)
    return out
