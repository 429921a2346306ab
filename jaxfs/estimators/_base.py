"""What all estimators share: reading data, choosing how many features, answering in kind.

An estimator is a dataclass of its parameters with one method of its own: `_score`, which gives
every feature a number, or `_select`, which chooses features one after another.
"""

import contextlib
import dataclasses
import numbers
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from jaxfs import _checks
from jaxfs._checks import variant
from jaxfs._types import Selection
from jaxfs.estimators import _arrays, _cost
from jaxfs.estimators._arrays import listed
from jaxfs.estimators._problem import Problem
from jaxfs.streaming import _memory

_T = TypeVar("_T")
_DTYPES = (None, "float32", "float64")
#: So many features at most are chosen one after another where "auto" is asked.
_MOST = 50


@dataclass_transform(kw_only_default=True)
def estimator(cls: type[_T]) -> type[_T]:
    """A dataclass of parameters, each a keyword; representation and identity are scikit-learn's."""
    return dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)


@estimator
class Selector(SelectorMixin, BaseEstimator):
    """Selects features; every estimator of `jaxfs.estimators` is one.

    **Parameters**

    - `n_features_to_select`: how many. An integer; a fraction in (0, 1] of the features, rounded,
      at least one; or `"auto"`. For estimators that score, `"auto"` cuts the scores in the two
      groups that vary least within themselves (two means in one dimension, exactly) and keeps the
      upper one. Those that choose one after another take ⌈√d⌉, at most 50. Methods that end by
      themselves (`CFS`, `FCBF`) may choose fewer, whatever is asked.
    - `dtype`: `None`: float32 data are computed in float32, all others in float64, whether or not
      JAX is set to x64. `"float32"` (faster, half the memory) or `"float64"`: in that.
    - `verbose`: whether to print what the fit will cost, and a bar where it goes in steps.

    **Attributes**

    - `scores_ (d,)`: larger is better. Of methods that choose one after another: 1 for the first,
      falling evenly to 1/k for the last of k, and 0 for those not chosen.
    - `ranking_ (d,)`: 1 for the best; ties go to the lower index, and where all scores tie a
      `UserWarning` says so. Those not chosen by methods that
      choose one after another share the rank k + 1.
    - `support_ (d,)`: true for the features selected.
    - `n_features_`: how many they are.
    - `n_features_in_`, `feature_names_in_`: of the data. `classes_`: the labels of classes.

    `scores_`, `ranking_`, `support_` and what `transform` returns are arrays of the library and
    device of the `X` that they came from (PyTorch, CuPy, JAX, any of the array-API standard);
    frames of pandas or polars give NumPy arrays, or frames after `set_output`.
    """

    n_features_to_select: int | float | str = "auto"
    dtype: str | None = None
    verbose: bool = False

    _targets: ClassVar[str] = "classes"
    _least_samples: ClassVar[int] = 2
    _least_features: ClassVar[int] = 1
    #: Whether constant features, which then may be added, change nothing for the others.
    _pad_features: ClassVar[bool] = True
    #: Parameters that name a variant or are the record of its options, and the variants.
    _variants: ClassVar[Mapping[str, Mapping[str, type]]] = {}

    # ---- scikit-learn's face ----

    def fit(self, X: Any, y: Any = None) -> "Selector":
        """Score or choose the features of `X (n, d)`, for the target `y (n,)` if there is one.

        Labels may be strings. An interrupted or failed fit leaves the estimator as it was.
        """
        _checks.refuse_forked()
        before = dict(vars(self))
        try:
            self._fit(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def transform(self, X: Any) -> Any:
        """The selected columns of `X`, in their order in `X`."""
        check_is_fitted(self)
        _checks.unmasked(X, "X")
        caller = _arrays.namespace(X)
        if caller is None:
            _arrays.check_columns(X)
            self._check_finite(X, reset=False)
            return super().transform(X)
        self._check_finite(_arrays.to_numpy(X), reset=False)
        return caller.columns(X, self.get_support(indices=True))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also the options of variants, as `objective__gamma`."""
        found = super().get_params(deep=deep)
        for name in self._variants if deep else ():
            found |= {f"{name}__{option}": v for option, v in self._options_of(name).items()}
        return found

    def set_params(self, **params: Any) -> "Selector":
        """Set parameters; `objective__gamma=0.1` sets an option of the variant that is chosen."""
        inside = {name: name.partition("__") for name in params}
        inside = {
            name: part for name, part in inside.items() if part[0] in self._variants and part[1]
        }
        super().set_params(**{name: v for name, v in params.items() if name not in inside})
        for name, (outer, _, option) in inside.items():
            chosen, known = getattr(self, outer), self._options_of(outer)
            if option not in known:
                has = listed(sorted(known)) if known else "none"
                raise ValueError(f"{outer}={chosen!r} has no option {option!r}; it has {has}")
            record = variant(chosen, outer, self._variants[outer])
            setattr(self, outer, dataclasses.replace(record, **{option: params[name]}))
        return self

    def _options_of(self, name: str) -> dict[str, Any]:
        """The options of the variant that a parameter is or names; none of one that is unknown."""
        try:
            return dict(vars(variant(getattr(self, name), name, self._variants[name])))
        except ValueError:  # told when fitted: parameters are stored as they come
            return {}

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self._mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._target_kind() != "none"
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def cost(self, n_samples: int, n_features: int, n_classes: int = 2) -> _cost.Cost:
        """Memory and rough time of a fit of this size, in the dtype of the parameters.

        `str` of the answer is readable: "about 2.3 MB and less than a second".
        """
        dtype = np.dtype(self.dtype or "float64")
        return _cost.cost(self._work(n_samples, n_features, n_classes), dtype)

    # ---- What a method defines ----

    def _target_kind(self) -> str:
        """What `y` holds: "classes", "numbers" or, where it is not looked at, "none"."""
        return self._targets

    def _answer(self, problem: Problem) -> dict[str, Any]:
        """`scores_` and `order`, features from the best on; and what else the method found."""
        raise NotImplementedError

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        """What the exact computation takes."""
        return _cost.Work(numbers=4 * n * d, passes=8 * n * d)

    # ---- Fitting ----

    def _fit(self, X: Any, y: Any) -> None:
        caller = _arrays.namespace(X)
        problem = self._read(X, y)
        wide = problem.values.dtype == np.float64
        context = jax.enable_x64(True) if wide else contextlib.nullcontext()
        with context:
            self._check_cost(problem)
            found = self._answer(problem)
        scores, order = np.asarray(found.pop("scores_")), np.asarray(found.pop("order"))
        number = self._number(scores, order)
        self._mask = np.zeros(scores.shape, bool)
        self._mask[order[:number]] = True
        self.n_features_ = int(self._mask.sum())
        ranking = np.full(scores.shape, order.size + 1, np.int64)
        ranking[order] = np.arange(1, order.size + 1)
        keep = caller.asarray if caller is not None else np.asarray
        self.scores_, self.ranking_, self.support_ = map(keep, (scores, ranking, self._mask))
        for name, value in found.items():
            setattr(self, name, value)

    def _read(self, X: Any, y: Any) -> Problem:
        """The data, checked; names and number of the features are remembered."""
        _checks.option(self.dtype, "dtype", _DTYPES)  # type: ignore[arg-type]
        _checks.flag(self.verbose, "verbose")
        _checks.unmasked(X, "X")
        _checks.unmasked(y, "y")
        if _arrays.namespace(X) is not None:
            X = _arrays.to_numpy(X)
        if _arrays.namespace(y) is not None:
            y = _arrays.to_numpy(y)
        _arrays.check_columns(X)
        checks = {
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": False,
            "ensure_min_samples": self._least_samples,
            "ensure_min_features": self._least_features,
        }
        target, num_classes = None, 0
        kind = self._target_kind()
        if kind == "none":
            values = validate_data(self, X, **checks)
        else:
            values, target = validate_data(self, X, y, y_numeric=kind == "numbers", **checks)
        names = getattr(self, "feature_names_in_", None)
        _arrays.check_finite(values, names, type(self).__name__)
        if self.dtype is not None and values.dtype != self.dtype:
            with np.errstate(over="ignore"):
                cast = values.astype(self.dtype)
            _arrays.check_finite(cast, names, f"{type(self).__name__} in {self.dtype}")
            _checks.fits(values, cast.dtype, "X")
            values = cast
        if kind == "numbers":
            target = np.asarray(target)
            _checks.fits(target, values.dtype, "y")
            target = target.astype(values.dtype)
        elif kind == "classes":
            target, num_classes = self._encode(target)
        return Problem(values, target, num_classes, self._pad_features)

    def _encode(self, y: Any) -> tuple[np.ndarray, int]:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes in y, got one class:"
                f" {self.classes_.tolist()[0]!r}"
            )
        return codes.astype(np.int32), self.classes_.size

    def _check_finite(self, X: Any, *, reset: bool) -> None:
        values = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=reset)
        names = getattr(self, "feature_names_in_", None)
        if values.dtype == object:
            values = values.astype(np.float64)
        _arrays.check_finite(values, names, type(self).__name__)

    def _check_cost(self, problem: Problem) -> None:
        """Refuse what does not fit before it starts, and say what takes long."""
        n, d = problem.values.shape
        work = self._work(n, d, max(1, problem.num_classes))
        cost = _cost.cost(work, problem.values.dtype)
        name = type(self).__name__
        free = _cost.free_memory()
        if cost.bytes > free:
            raise MemoryError(
                f"{name} of {n} samples and {d} features needs about"
                f" {_memory.readable(cost.bytes)}, and {_memory.readable(free)} are free."
                f" {self._advice(problem)}"
            )
        if cost.seconds > _cost.LONG:
            message = f"{name} of {n} samples and {d} features will take {cost}"
            warnings.warn(message, UserWarning, stacklevel=5)
        if self.verbose:
            from jaxfs.estimators._progress import say

            say(f"{name}: {n} samples, {d} features: {cost}")

    def _advice(self, problem: Problem) -> str:
        if problem.values.dtype == np.float64:
            return 'dtype="float32" needs half of it'
        return "Select features by a cheaper method first"

    # ---- How many ----

    def _wanted(self, d: int) -> int | None:
        """How many features are asked for; `None` for "auto"."""
        wanted = self.n_features_to_select
        if isinstance(wanted, str) and wanted == "auto":
            return None
        if isinstance(wanted, numbers.Integral) and not isinstance(wanted, bool):
            return _checks.integer(wanted, "n_features_to_select", low=1, high=d)
        if isinstance(wanted, numbers.Real) and not isinstance(wanted, bool) and 0 < wanted <= 1:
            return max(1, round(float(wanted) * d))
        expected = 'an integer, a fraction in (0, 1] or "auto"'
        raise _checks.fail("n_features_to_select", expected, repr(wanted))

    def _number(self, scores: np.ndarray, order: np.ndarray) -> int:
        wanted = self._wanted(scores.size)
        if wanted is None:
            wanted = upper_group(scores[order])
        return min(wanted, order.size)


class ScoringSelector(Selector):
    """A method that gives every feature a number."""

    def _score(self, problem: Problem) -> Any:
        raise NotImplementedError

    def _answer(self, problem: Problem) -> dict[str, Any]:
        self._wanted(problem.num_features)  # a mistake is told before the work
        scores = np.asarray(self._score(problem))[: problem.num_features]
        return {"scores_": scores, "order": self._order(scores)}

    def _order(self, scores: np.ndarray) -> np.ndarray:
        unknown = int(np.isnan(scores).sum())
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no score for {unknown} of {scores.size} features:"
                f" {self._no_score}"
            )
        if scores.size > 1 and (scores == scores[0]).all():
            message = f"{type(self).__name__} gives all {scores.size} features the same score"
            warnings.warn(f"{message}: their ranks are the order of the columns", stacklevel=5)
        return np.argsort(-scores, stable=True)

    _no_score: ClassVar[str] = "their numbers are too large or too small; rescale them"


class GreedySelector(Selector):
    """A method that chooses features one after another."""

    def _select(self, problem: Problem, number: int) -> Selection:
        raise NotImplementedError

    def _answer(self, problem: Problem) -> dict[str, Any]:
        d = problem.num_features
        wanted = self._wanted(d)
        if wanted is None:
            wanted = default_number(d)
        found = self._select(problem, wanted)
        indices = np.asarray(found.indices)
        chosen = indices >= 0
        order = indices[chosen]
        if order.size == 0:
            raise ValueError(f"{type(self).__name__} found no feature that tells about y")
        scores = np.zeros(d, problem.values.dtype)
        scores[order] = np.arange(order.size, 0, -1) / order.size
        objective = np.asarray(found.objective)[chosen]
        return {"scores_": scores, "order": order, "objective_": objective}

    def _number(self, scores: np.ndarray, order: np.ndarray) -> int:
        return order.size


def default_number(d: int) -> int:
    """⌈√d⌉, at most 50."""
    return min(_MOST, int(np.ceil(np.sqrt(d))))


def upper_group(falling: np.ndarray) -> int:
    """How many of falling numbers are in the upper of two groups of least variance within.

    Infinite ones count as the largest finite number. All are one group if they are equal.

    >>> upper_group(np.array([9.0, 8.0, 8.5, 1.0, 0.5, 0.0]))
    3
    """
    finite = falling[np.isfinite(falling)]
    if finite.size == 0 or falling.size == 1:
        return falling.size
    s = np.clip(falling.astype(np.float64), finite.min(), finite.max())
    s = s - s.mean()
    if not np.any(s):
        return s.size
    s = s / np.abs(s).max()
    above = np.cumsum(s)[:-1]  # of numbers of mean 0: the lower group has the negative of it
    count = np.arange(1, s.size)
    return int(np.argmax(above**2 * (1 / count + 1 / (s.size - count)))) + 1
