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
from sklearn import metrics

from jaxfs import evaluate
from jaxfs._checks import listed
from jaxfs.cli import _answer
from jaxfs.cli._options import Request
from jaxfs.cli._request import find_method, make_estimator
from jaxfs.cli.tables._columns import Refusal, plural, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators import Method, _progress, _validation
from jaxfs.estimators._validation import Fold

#: Number of random baselines per fold.
_DRAWS = 5


@dataclasses.dataclass(frozen=True)
class ComparisonRow:
    """The results of one method or baseline.

    `features`: mean number of selected features. `mean`, `by_fold`: accuracy or R². For classes,
    `balanced_accuracy` is the mean of the accuracies of the classes, and `auc` the area under the
    ROC curve (for several classes, the mean of each class against the rest); both are means over
    the folds. `stability`: Nogueira's measure of the selections, 1 if all folds agree, about 0 for
    random selections, NaN if all features are selected. `seconds`: total duration of the fits,
    including compilation.
    """

    name: str
    features: float
    mean: float | None
    by_fold: list[float] | None
    balanced_accuracy: float | None = None
    auc: float | None = None
    stability: float | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The results of several methods; --json prints these fields.

    `measure`: "accuracy"; "R²" if the target is a number; `None` without a target. `methods`: the
    methods, followed by the baselines of all features and of random features. `overlap`: for each
    pair of methods, the mean over the folds of 2·|A ∩ B| / (|A| + |B|). `verdict`: the result in
    words; `None` without a target.
    """

    measure: str | None
    folds: int
    methods: list[ComparisonRow]
    overlap: dict[str, dict[str, float]]
    notes: list[str]
    verdict: str | None = None


def compare(table: Table, requests: Sequence[Request], *, folds: int) -> Comparison:
    """Return the comparison of several requests on one table, by cross-validation.

    The requests share their groups, whose rows stay in one fold, and their seed.
    """
    methods, first = [find_method(request.method) for request in requests], requests[0]
    if len(set(methods)) < len(methods):
        raise Refusal("methods must differ from each other")
    if {"classes", "numbers"} <= {method.targets for method in methods}:
        raise Refusal("methods for classes cannot be compared with methods for numeric targets")
    y, classes, notes = _target(table, methods)
    groups = None if first.groups is None else table.labels[first.groups]
    parts = _folds(len(table.values), y, classes, groups, folds, first.seed)
    measure = functools.partial(_measure, _validation.default_model(bool(classes)), y, classes)
    if table.gaps is not None:
        notes.append("each fold replaces missing values by the medians of its training rows")
    rows, chosen = [], {}
    with _progress.bar("folds", len(requests) * folds, show=first.verbose) as done:
        for method, request in zip(methods, requests, strict=True):
            supports, measured, seconds = [], [], 0.0
            for train, test in parts:
                values, estimator = _fill(table, train), make_estimator(request)
                known = y[train] if method.targets != "none" and y is not None else None
                blocks = _answer.labels_of_fit(table, request, train)
                start = time.perf_counter()
                found = _answer.fit_estimator(
                    estimator, request, values[train], known, table.names, **blocks
                )
                seconds += time.perf_counter() - start
                notes += [f"{method.name}: {note}" for note in found]
                supports.append(support := np.asarray(estimator.support_))
                if y is not None:
                    measured.append(measure(values[:, support], train, test))
                done(1)
            chosen[method.name] = selected = np.array(supports)
            stability = float(evaluate.selection_stability(selected).stability)
            number = float(selected.sum() / folds)
            rows.append(_row(method.name, number, measured, stability, seconds))
    verdict, name = None, None if y is None else "accuracy" if classes else "R²"
    if name is not None:
        rows += _baselines(measure, table, parts, rows, first.seed)
        common = max(classes.values(), default=0) / len(table.values)
        verdict = _verdict(rows, name, common if classes else None)
    overlap = {m: {n: _dice(a, b) for n, b in chosen.items()} for m, a in chosen.items()}
    return Comparison(name, folds, rows, overlap, list(dict.fromkeys(notes)), verdict)


def _target(table: Table, methods: Sequence[Method]) -> _answer.Labels:
    """Return the labels for the methods or, if all are unsupervised, for the accuracy alone."""
    for method in methods:
        if method.supervised or (method.targets == "any" and table.target is not None):
            return _answer.target_values(table, method.targets, method.name)
    target = table.target
    numeric = target is not None and target.dtype.kind == "f" and _answer.is_continuous(target)
    return _answer.target_values(table, "numbers" if numeric else "classes", "accuracy")


def _folds(
    n: int,
    y: np.ndarray | None,
    classes: Mapping[str, int],
    groups: np.ndarray | None,
    folds: int,
    seed: int,
) -> list[Fold]:
    if not 2 <= folds <= n // 2:
        raise Refusal(f"--folds must be from 2 to half of the {n} rows, got {folds}")
    rare = min(classes, key=lambda name: classes[name], default=None)
    if rare is not None and classes[rare] < folds:
        size = f"the size of class {quote(rare)} ({plural(classes[rare], 'row')})"
        raise Refusal(f"--folds must be at most {size}, got {folds}")
    if groups is not None and len(np.unique(groups)) < folds:
        number = plural(len(np.unique(groups)), "group")
        raise Refusal(f"--folds must be at most the number of groups ({number}), got {folds}")
    target = np.zeros(n) if y is None else y
    parts = _validation.split(target, folds, classes=bool(classes), groups=groups, seed=seed)
    if classes and any(len(np.unique(target[train])) < len(classes) for train, _ in parts):
        raise Refusal("the training rows of a fold have no row of some class: use fewer --folds")
    return parts


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


def _measure(
    model: Any, y: Any, classes: Any, values: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[float, ...]:
    """Return accuracy, balanced accuracy and AUC, or R² for a number, on the test rows of a fold.

    The AUC is NaN if a class has no test row.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that does not converge affects all methods alike
        model.fit(values[train], y[train])
        first = float(model.score(values[test], y[test]))
        if not classes:
            return (first,)
        balanced = metrics.balanced_accuracy_score(y[test], model.predict(values[test]))
        if len(np.unique(y[test])) < len(classes):
            return first, float(balanced), float("nan")
        shares = model.predict_proba(values[test])
        shares = shares[:, 1] if len(classes) == 2 else shares
        return first, float(balanced), metrics.roc_auc_score(y[test], shares, multi_class="ovr")


def _baselines(
    measure: Callable[..., Any], table: Table, folds: list[Fold], rows: list[Any], seed: int
) -> list[ComparisonRow]:
    """Return two baselines: all features, and as many random ones as methods select on average."""
    d = table.values.shape[1]
    k = min(d, max(1, round(sum(row.features for row in rows) / len(rows))))
    rng = np.random.default_rng(seed)
    everything, random = [], []
    for train, test in folds:
        values = _fill(table, train)
        everything.append(measure(values, train, test))
        draws = [values[:, rng.permutation(d)[:k]] for _ in range(_DRAWS)]
        random.append(np.mean([measure(drawn, train, test) for drawn in draws], axis=0))
    return [_row("all features", float(d), everything), _row("at random", float(k), random)]


def _row(
    name: str,
    features: float,
    measured: list[Any],
    stability: float | None = None,
    seconds: float | None = None,
) -> ComparisonRow:
    """Return a row from the measures of each fold, `(folds, 1)` or `(folds, 3)`."""
    found: dict[str, Any] = {"mean": None, "by_fold": None}
    if measured:
        first, *others = np.transpose(measured)
        found = {"mean": float(first.mean()), "by_fold": first.tolist()}
        if others:
            balanced, auc = others[0], others[1][~np.isnan(others[1])]
            found["balanced_accuracy"] = float(balanced.mean())
            found["auc"] = float(auc.mean()) if auc.size else float("nan")
    return ComparisonRow(name, features, stability=stability, seconds=seconds, **found)


def _verdict(rows: list[Any], measure: str, common: float | None) -> str:
    """Return the result of the comparison in words, from differences in the same folds.

    A difference of at most two standard errors over the folds counts as none. `common`: share of
    the largest class.
    """
    methods, everything, random = rows[:-2], rows[-2], rows[-1]
    best = max(methods, key=lambda row: row.mean)

    def ahead(row: Any) -> int:
        gaps = np.array(best.by_fold) - np.array(row.by_fold)
        error = gaps.std(ddof=1) / np.sqrt(gaps.size)
        return 0 if abs(gaps.mean()) <= 2 * error else int(np.sign(gaps.mean()))

    equal = [row.name for row in methods if row is not best and ahead(row) == 0]
    first = f"{best.name} has the largest {measure}, {best.mean:.3f}"
    if equal:
        first += f"; {listed(equal)} {'is' if len(equal) == 1 else 'are'} not clearly worse"
    against = {1: "better than", 0: "as good as", -1: "worse than"}[ahead(everything)]
    second = f"{best.features:g} features are {against} all {everything.features:g}"
    if common is not None and best.mean <= common:
        return f"{first}. Always predicting the largest class gives {common:.3f}: no method helps."
    if ahead(random) < 1:
        return f"{first}. {second}, but not clearly better than random features."
    return f"{first}. {second}, and better than random features."


def _dice(a: np.ndarray, b: np.ndarray) -> float:
    """Return the mean overlap of two methods' selections `(folds, d)`."""
    return float(np.mean(2 * (a & b).sum(axis=1) / (a.sum(axis=1) + b.sum(axis=1))))
