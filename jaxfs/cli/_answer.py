"""From a table to chosen features: the target, the fit, its answer as plain values."""

import dataclasses
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxfs import evaluate
from jaxfs.cli._request import Plan, find_method, make_estimator, parameters, parse_number
from jaxfs.cli.tables._columns import Refusal, listed, plural, printable, quote
from jaxfs.cli.tables._table import Table
from jaxfs.estimators._catalogue import METHODS, Method
from jaxfs.resample import Stability

#: Methods that compare features, or samples, in the units of the data; the others are free of them
#: or standardise by themselves.
_IN_UNITS = frozenset({"manifest", "combined", "gkl", "laplacian", "mcfs", "spec", "variance"})
#: Ranges further apart than this are not in common units.
_UNITS = 100.0
#: More classes than this that are numbers may be meant as numbers.
_CLASSES = 20
#: Each resample is this share of every class.
FRACTION = 0.8


@dataclasses.dataclass(frozen=True)
class Choice:
    """The answer: `order`, the features chosen, the best first; `scores (d,)`; `support (d,)`."""

    method: Method
    parameters: Mapping[str, Any]
    order: np.ndarray
    scores: np.ndarray
    ranking: np.ndarray
    support: np.ndarray
    seconds: float
    notes: tuple[str, ...]


def check_target(method: Method, target: str | None) -> None:
    if method.supervised and target is None:
        raise Refusal(f"{method.name} is supervised: name the column of the target with --target")


def labels(table: Table, method: Method) -> tuple[np.ndarray | None, dict[str, int]]:
    """The target as the method takes it, and the classes with their numbers of rows."""
    if method.targets == "none":
        return None, {}
    check_target(method, table.target_name)
    assert table.target is not None
    if method.targets == "numbers":
        if table.target.dtype.kind != "f":
            raise Refusal(
                f"{method.name} needs a target that is a number; {quote(table.target_name)} holds "
                f"{quote(table.target[0])}"
            )
        return table.target, {}
    return encode(table, method.name)


def encode(table: Table, who: str) -> tuple[np.ndarray, dict[str, int]]:
    """Classes as codes 0, 1, …, and how many rows each has."""
    assert table.target is not None
    classes, codes, counts = np.unique(table.target, return_inverse=True, return_counts=True)
    many = 2 * len(classes) > len(codes)
    if many or has_fractions(table.target):
        numeric = sorted(name for name, method in METHODS.items() if method.targets == "numbers")
        has = f"{len(classes)} values in {plural(len(codes), 'row')}" if many else "fractions"
        raise Refusal(
            f"{who} needs classes; {quote(table.target_name)} has {has} (for numbers: "
            f"{listed(numeric, 9) or 'no method'})"
        )
    return codes.astype(np.int64), {
        class_name(value): int(count) for value, count in zip(classes, counts, strict=True)
    }


def has_fractions(target: np.ndarray) -> bool:
    """Whether a target holds numbers that are not whole: then it is measured, not counted off."""
    return target.dtype.kind == "f" and bool((target != np.round(target)).any())


def many_classes(table: Table, classes: Mapping[str, int]) -> list[str]:
    """A note where numbers are taken for a great many classes."""
    if table.target is None or table.target.dtype.kind != "f" or len(classes) <= _CLASSES:
        return []
    name = quote(table.target_name)
    return [f"each of the {len(classes)} values of {name} is taken for a class, not for a number"]


def class_name(value: Any) -> str:
    """`1` for 1.0; words as they are."""
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def standardized(values: np.ndarray) -> np.ndarray:
    """Each feature less its mean, over its standard deviation; constant ones are 0."""
    # Squares of 1e300 overflow: powers of two are taken out first, exactly.
    scaled = np.ldexp(values, -np.frexp(np.abs(values).max(axis=0))[1])
    constant = (values == values[0]).all(axis=0)
    deviation = np.where(constant, 1.0, scaled.std(axis=0))
    return np.where(constant, 0.0, (scaled - scaled.mean(axis=0)) / deviation)


def fit(estimator: Any, values: np.ndarray, y: np.ndarray | None) -> tuple[str, ...]:
    """Fit, and return what the estimator warned of. What it refuses is a `Refusal`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator.fit(values, y)
        except (ValueError, MemoryError, ImportError) as error:
            raise Refusal(" ".join(str(error).split())) from error
    told = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return tuple(dict.fromkeys(told))


def choose(table: Table, plan: Plan) -> Choice:
    """Select features of a table.

    **Returns** a `Choice`; raises `Refusal` for what the user can mend.
    """
    method, estimator = find_method(plan.method), make_estimator(plan)
    y, classes = labels(table, method)
    wanted = check_number(plan.k, table)
    values = standardized(table.values) if plan.standardize else table.values
    notes = many_classes(table, classes)
    notes += [] if plan.standardize else _units(values, method)
    start = time.perf_counter()
    notes += fit(estimator, values, y)
    seconds = time.perf_counter() - start
    ranking, support = np.asarray(estimator.ranking_), np.asarray(estimator.support_)
    if isinstance(wanted, int) and support.sum() < wanted:
        notes.append(f"{method.name} chose {support.sum()} of the {wanted} features asked for")
    chosen = np.flatnonzero(support)
    same = (table.values[:, chosen] == table.values[0, chosen]).all(axis=0)
    constant = [quote(table.names[j]) for j in chosen[same]]
    if constant:
        notes.append(f"constant, though chosen: {listed(constant)}; --drop them")
    return Choice(
        method=method,
        parameters=parameters(estimator),
        order=chosen[np.argsort(ranking[chosen], stable=True)],
        scores=np.asarray(estimator.scores_, np.float64),
        ranking=ranking,
        support=support,
        seconds=seconds,
        notes=tuple(notes),
    )


def check_number(k: str, table: Table) -> int | float | str:
    """How many features are asked for, which a table must have."""
    wanted, d = parse_number(k), table.values.shape[1]
    if isinstance(wanted, int) and wanted > d:
        raise Refusal(f"-k must be at most the number of features, {d}; got {wanted}")
    return wanted


def _units(values: np.ndarray, method: Method) -> list[str]:
    """A warning where features of different units are compared."""
    ranges = values.max(axis=0) / 2 - values.min(axis=0) / 2  # halves do not overflow
    ranges = ranges[ranges > 0]
    if method.name not in _IN_UNITS or not ranges.size or ranges.max() / _UNITS < ranges.min():
        return []
    text = f"the ranges of the features differ by a factor of more than {_UNITS:.0f}, and"
    return [f"{text} {method.name} compares features in their units: consider --standardize"]


def resamples(
    n: int, y: np.ndarray | None, number: int, seed: int, fraction: float = FRACTION
) -> Iterator[np.ndarray]:
    """Rows of each resample: of every class the same share, so that all have one shape."""
    rng = np.random.default_rng(seed)
    groups = np.zeros(n, int) if y is None else y
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    for _ in range(number):
        parts = [
            rng.permutation(m)[: max(min(2, len(m)), round(fraction * len(m)))] for m in members
        ]
        yield np.sort(np.concatenate(parts))


def resampled(table: Table, plan: Plan, choice: Choice, number: int) -> Stability:
    """What the method chooses in `number` resamples of the rows, as many features each time."""
    y, classes = labels(table, choice.method)
    quiet = plan._replace(verbose=False, k=str(max(1, len(choice.order))))
    ranks, chosen = [], []
    for rows in resamples(len(table.values), y if classes else None, number, plan.seed):
        values = table.values[rows]
        estimator = make_estimator(quiet)
        fit(
            estimator,
            standardized(values) if plan.standardize else values,
            None if y is None else y[rows],
        )
        ranks.append(np.asarray(estimator.ranking_))
        chosen.append(np.asarray(estimator.support_))
    index = evaluate.selection_stability(np.array(chosen))
    rank: Any = np.array(ranks, np.float64)
    order: Any = np.argsort(rank, axis=1, stable=True)
    return Stability(
        frequencies=np.mean(chosen, axis=0),
        mean_ranks=rank.mean(axis=0),
        rank_deviations=rank.std(axis=0, ddof=1),
        stability=index.stability,
        variance=index.variance,
        interval=index.interval,
        indices=order[:, : len(choice.order)],
    )


def never_again(table: Table, choice: Choice, stability: Stability) -> list[str]:
    """A note on features that were chosen from all rows and from no resample."""
    frequencies = np.asarray(stability.frequencies)
    lost = [quote(table.names[j]) for j in choice.order if frequencies[j] == 0]
    if not lost:
        return []
    number = len(stability.indices)
    return [f"chosen from all rows, but in none of {number} resamples: {listed(lost)}"]


def plain(value: Any) -> Any:
    """A value that JSON can hold: numbers as they are, infinities and other things as words."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return printable(value, 200)
