"""Base classes of the estimators: they read data, choose the number of features and set results.

An estimator is a dataclass of its parameters. Its attribute `_function` is a function of the core.
The parameters that the class adds to `Selector` are passed to this function as options. A class
overrides `_options` if an option depends on the data, and `_score` or `_select` if one call of the
function is not enough.
"""

import contextlib
import copy
import dataclasses
import numbers
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

import jax
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from jaxfs import _checks
from jaxfs._checks import listed, variant
from jaxfs._types import Selection
from jaxfs.estimators import _arrays, _significance, _validation
from jaxfs.estimators._arrays import PaddedData
from jaxfs.estimators._progress import say
from jaxfs.estimators._significance import FDR, CoreScore, Significance
from jaxfs.estimators._validation import CrossValidation
from jaxfs.streaming import _memory

_T = TypeVar("_T")
#: Rules for the number of features. "gap" and "fdr" need a score of every feature.
RULES = ("auto", "gap", "fdr", "one_se")
#: Maximum number of features that a greedy method selects for "auto".
_MOST = 50
#: Share of the free memory that a fit may take; the rest is left to other programs.
_SHARE = 0.85
#: Environment variable with the address of the documentation, for links in notebooks.
_DOCS = "JAXFS_DOCS_URL"


class FitMemory(NamedTuple):
    """Estimated memory of a fit, in bytes."""

    bytes: float

    def __str__(self) -> str:
        return f"about {_memory.readable(self.bytes)}"


@dataclass_transform(kw_only_default=True)
def estimator(cls: type[_T]) -> type[_T]:
    """Make a dataclass with keyword-only parameters; keep scikit-learn's `repr` and `==`."""
    return dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)


@estimator
class Selector(SelectorMixin, BaseEstimator):
    """Base class of all estimators of `jaxfs.estimators`.

    **Parameters**

    - `n_features_to_select`: number of features to select. It is an integer, a fraction in (0, 1]
      of the features (rounded, at least one feature), or a rule.
      `"gap"`, for methods that score every feature, splits the scores into two groups and selects
      the upper group. The split has the least variance within the groups (exact 2-means in one
      dimension).
      `"fdr"`, for methods that score every feature by its relation to a target, selects the
      features with a q-value of at most 0.1; `jaxfs.estimators.FDR` sets another level. If there
      are none, `fit` raises `ValueError` with the smallest q-value.
      `"one_se"` takes the smallest number of features (at most 128) whose accuracy in a linear
      model, by 5-fold cross-validation with selection inside the folds, is within one standard
      error of the best. A class with fewer than five samples, or fewer than five groups, reduces
      the number of folds.
      `"auto"` is `"gap"` for methods that score every feature. For greedy methods, which choose
      features sequentially, it is ⌈√d⌉, at most 50. `CFS` and `FCBF` decide when to stop, and may
      select fewer features than this number.
    - `dtype`: `None` computes float32 data in float32 and all other data in float64, with or
      without JAX's x64 mode. `"float32"` (faster, half the memory) or `"float64"` sets the dtype.
    - `verbose`: whether to print the memory that the fit needs, and to show a progress bar if the
      fit has several steps.

    **Attributes**

    - `scores_ (d,)`: larger is better. For greedy methods, the feature chosen first has score 1,
      the scores decrease evenly to 1/k for the last of k, and features not chosen have score 0.
    - `ranking_ (d,)`: 1 for the best feature; ties go to the lower index. If all scores are equal,
      a `UserWarning` says so. For greedy methods, all features not chosen have rank k + 1.
    - `support_ (d,)`: true for the selected features.
    - `n_features_`: number of selected features. `n_features_reason_`: a sentence that says how
      this number came about.
    - `n_features_in_`, `feature_names_in_`: number and names of the features of `X`.
    - `classes_`: the class labels.
    - `pvalues_ (d,)`, `qvalues_ (d,)`: for `"fdr"`; significant features have the first ranks.
    - `cv_results_`: for `"one_se"`, the numbers of features that were tried, and their accuracies.

    Attributes that are arrays (except `classes_`), and the result of `transform`, are arrays of the
    same library and on the same device as `X` (PyTorch, CuPy, JAX, or any library of the array-API
    standard). For pandas and polars frames they are NumPy arrays; after `set_output`, `transform`
    returns frames.

    The `fit` of methods whose scores take weights is `fit(X, y, sample_weight=None, …)`. Weights
    count samples: a sample of weight 2 is the same as two equal samples, and a sample of weight 0
    is left out. Ask for weights in a pipeline with `set_fit_request(sample_weight=True)`.
    """

    n_features_to_select: int | float | str | FDR = "auto"
    dtype: str | None = None
    verbose: bool = False

    _targets: ClassVar[str] = "classes"
    _least_samples: ClassVar[int] = 2
    _least_features: ClassVar[int] = 1
    #: Whether constant features can be added without changing the results of the other features.
    _pad_features: ClassVar[bool] = True
    #: For each parameter that selects a variant: the names of the variants and their records.
    _variants: ClassVar[Mapping[str, Mapping[str, type]]] = {}
    #: Memory of a fit as a multiple of the memory of the data, unless `_entries` is overridden.
    _copies: ClassVar[int] = 4
    #: Function of the core, as a static method.
    _function: ClassVar[Any]
    #: Page of the documentation on the method.
    _guide: ClassVar[str] = "estimators"

    def fit(self, X: Any, y: Any = None, groups: Any = None, strata: Any = None) -> Self:
        """Score or select the features of `X (n, d)`, with the target `y (n,)` if there is one.

        Labels may be strings. An interrupted or failed fit does not change the estimator.

        `groups (n,)` and `strata (n,)` are for `n_features_to_select="fdr"`: labels are exchanged
        between whole groups, such as patients with several samples, and within strata, such as
        sites. With `"one_se"`, the samples of a group stay in one fold.
        """
        return self._fit_copy(X, y, groups=groups, strata=strata)

    def _fit_copy(self, X: Any, y: Any, sample_weight: Any = None, **blocks: Any) -> Self:
        """Fit a copy, and take its attributes if the fit succeeds."""
        _checks.refuse_forked()
        fitted = copy.copy(self)
        fitted._fit(X, y, sample_weight, blocks)
        self.__dict__.update(vars(fitted))
        return self

    def transform(self, X: Any) -> Any:
        """Return the selected columns of `X`, in the order of `X`.

        With scikit-learn's `array_api_dispatch`, `X` must be of the library and on the device of
        the data of `fit`, as for the estimators of scikit-learn. Otherwise it may be any array.
        """
        check_is_fitted(self)
        _checks.unmasked(X, "X")
        _arrays.check_same_namespace(X, self, attribute="scores_", method="transform")
        caller = _arrays.namespace(X)
        if caller is not None and X.ndim == 2:
            validate_data(self, X, reset=False, skip_check_array=True)
            if not caller.xp.all(caller.xp.isfinite(X)):
                _arrays.check_finite(_arrays.to_numpy(X), self)
            return caller.columns(X, self.get_support(indices=True))
        values = _arrays.to_numpy(X)
        _arrays.check_columns(values)
        values = validate_data(self, values, dtype=None, ensure_all_finite=False, reset=False)
        if values.dtype == object:
            values = values.astype(np.float64)
        _arrays.check_finite(values, self)
        return super().transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Return `X` with columns of zeros in place of the features that were not selected."""
        caller = _arrays.namespace(X)
        if caller is None:
            return super().inverse_transform(X)
        support = self.get_support()
        if X.ndim != 2 or X.shape[1] != support.sum():
            raise ValueError("X has a different shape than during fitting.")
        # Every feature that was not selected takes the column of zeros at the end.
        source = np.where(support, np.cumsum(support) - 1, support.sum())
        with_zeros = caller.xp.concat([X, caller.xp.zeros_like(X[:, :1])], axis=1)
        return caller.columns(with_zeros, source)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` also options of variants (`objective__gamma`)."""
        found = super().get_params(deep=deep)
        for name in self._variants if deep else ():
            found |= {f"{name}__{option}": v for option, v in self._options_of(name).items()}
        return found

    def set_params(self, **params: Any) -> "Selector":
        """Set parameters; `objective__gamma=0.1` sets an option of the chosen variant."""
        inside = [n for n in params if "__" in n and n.partition("__")[0] in self._variants]
        super().set_params(**{name: v for name, v in params.items() if name not in inside})
        for name in inside:
            outer, _, option = name.partition("__")
            chosen, known = getattr(self, outer), self._options_of(outer)
            if option not in known:
                has = listed(sorted(known)) or "none"
                raise ValueError(f"{outer}={chosen!r} has no option {option!r}; it has {has}")
            record = variant(chosen, outer, self._variants[outer])
            setattr(self, outer, dataclasses.replace(record, **{option: params[name]}))
        return self

    def _options_of(self, name: str) -> dict[str, Any]:
        """Return the options of the variant that a parameter selects; empty if it is invalid."""
        try:
            return dict(vars(variant(getattr(self, name), name, self._variants[name])))
        except ValueError:  # scikit-learn stores parameters unchecked; `fit` raises this error
            return {}

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return _arrays.to_numpy(self.support_)

    def _get_doc_link(self) -> str:
        """Return the address of the guide for the HTML representation; "" if it is unknown."""
        site = os.environ.get(_DOCS, "").rstrip("/")
        return f"{site}/{self._guide}.html" if site else ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.target_tags.required = self._target_kind() not in ("none", "any")
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def cost(self, n_samples: int, n_features: int, n_classes: int = 2) -> FitMemory:
        """Return the estimated memory of a fit of this size, in bytes.

        With `dtype=None`, the estimate is for float64. The attribute `bytes` of the result is a
        number. `str` of the result is "about 2.3 MB".
        """
        entries = self._entries(n_samples, n_features, n_classes)
        return FitMemory(entries * np.dtype(self.dtype or "float64").itemsize)

    def significance(
        self, X: Any, y: Any, rule: FDR | None = None, *, groups: Any = None, strata: Any = None
    ) -> Significance:
        """Return `p_values (d,)` and `q_values (d,)` of the scores of all features.

        The estimator need not be fitted, and is not changed. `rule` gives the number of
        permutations; `groups` and `strata` are as in `fit`.
        """
        rule = rule or FDR()
        other = clone(self).set_params(n_features_to_select=rule)
        with other._reading(X, y, groups=groups, strata=strata) as data:
            return other._significance(data, rule)

    # ---- Defined by each method ----

    def _target_kind(self) -> str:
        """Return the content of `y`: "classes", "numbers" or, for unsupervised methods, "none".

        A method that accepts all of these has "any" until it is fitted.
        """
        return self._targets

    def _options(self, data: PaddedData) -> dict[str, Any]:
        """Return options for `_function`: parameters of the class, with `n_` renamed `num_`."""
        shared = {field.name for field in dataclasses.fields(Selector)} | {"random_state"}
        names = [f.name for f in dataclasses.fields(self) if f.name not in shared]
        return {re.sub("^n_", "num_", name): getattr(self, name) for name in names}

    def _prepare(self, data: PaddedData) -> None:
        """Check options against the data. `fit` calls it before it checks the memory."""

    def _significance(self, data: PaddedData, rule: FDR) -> Significance:
        """Return p-values and q-values of the features, for methods that score every feature."""
        raise NotImplementedError

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
        """Return `scores_`, `order` (best feature first), `number` to select, other attributes.

        `wanted` is the number of features asked for, or `None` for a rule.
        """
        raise NotImplementedError

    def _entries(self, n: int, d: int, c: int) -> float:
        """Return the number of array entries in a fit of n samples, d features and c classes."""
        return self._copies * n * d

    def _fit(self, X: Any, y: Any, sample_weight: Any, blocks: dict[str, Any]) -> None:
        caller = _arrays.namespace(X)
        with self._reading(X, y, sample_weight, **blocks) as data:
            wanted = self._wanted(data.num_features)
            validated: dict[str, Any] = {}
            if self.n_features_to_select == "one_se":
                wanted, validated = self._validated(data)
            found = self._answer(data, wanted) | validated
        scores, order = np.asarray(found.pop("scores_")), np.asarray(found.pop("order"))
        support = np.zeros(scores.shape, bool)
        support[order[: found.pop("number")]] = True
        self.n_features_ = int(support.sum())
        self.n_features_reason_ = found.pop("reason", None) or self._reason(data.num_features)
        ranking = np.full(scores.shape, order.size + 1, np.int64)
        ranking[order] = np.arange(1, order.size + 1)
        keep = caller.asarray if caller is not None else np.asarray
        found |= {"scores_": scores, "ranking_": ranking, "support_": support}
        for name, value in found.items():
            setattr(self, name, keep(value) if isinstance(value, np.ndarray) else value)

    @contextlib.contextmanager
    def _reading(
        self, X: Any, y: Any, sample_weight: Any = None, **blocks: Any
    ) -> Iterator[PaddedData]:
        """Read and check everything before the work, and set the precision of JAX for it."""
        data, kept = _arrays.read(self, X, y, sample_weight)
        wide = data.values.dtype == np.float64
        with jax.enable_x64(True) if wide else contextlib.nullcontext():
            self._prepare(data)
            self._check_memory(data)
            self._wanted(data.num_features)
            self._blocks = self._check_blocks(blocks, kept)
            yield data

    def _check_memory(self, data: PaddedData) -> None:
        """Raise `MemoryError` before the fit starts if it needs more than the free memory."""
        n, d = data.values.shape
        entries = self._entries(n, d, max(1, data.num_classes))
        needed = FitMemory(entries * data.values.dtype.itemsize)
        name, free = type(self).__name__, free_memory()
        if needed.bytes > free:
            raise MemoryError(
                f"{name} of {n} samples and {d} features needs {needed},"
                f" and {_memory.readable(free)} are free. {self._advice(data)}"
            )
        if self.verbose:
            say(f"{name}: {n} samples, {d} features: {needed}")

    def _advice(self, data: PaddedData) -> str:
        if data.values.dtype == np.float64:
            return 'dtype="float32" needs half of it'
        return "Select features by a cheaper method first"

    def _check_blocks(self, blocks: dict[str, Any], kept: np.ndarray) -> dict[str, np.ndarray]:
        """Return the groups and strata given as codes; raise `ValueError` if they have no use."""
        given = {name: value for name, value in blocks.items() if value is not None}
        setting = 'None unless n_features_to_select is "fdr"'
        if self._fdr() is None and "strata" in given:
            raise _checks.fail("strata", setting, "labels")
        if self._fdr() is None and self.n_features_to_select != "one_se" and "groups" in given:
            raise _checks.fail("groups", f'{setting} or "one_se"', "labels")
        codes = _significance.block_codes
        return {name: codes(value, name, kept) for name, value in given.items()}

    def _validated(self, data: PaddedData) -> tuple[int, dict[str, Any]]:
        """Return the number of features that cross-validation chooses, its reason and results."""
        if data.target is None:
            name = type(self).__name__
            raise ValueError(f'n_features_to_select="one_se" needs a target, and {name} uses none')
        if data.sample_weight is not None:
            raise ValueError('n_features_to_select="one_se" does not use sample_weight')
        classes, counts = data.num_classes > 0, _validation.feature_counts(data.num_features)
        y = self._caller_labels(data)
        inner = clone(self).set_params(n_features_to_select=int(counts[-1]), verbose=False)
        folds = _validation.split(y, classes=classes, groups=self._blocks.get("groups"))
        model, rank = _validation.default_model(classes), _validation.ranked_by(inner)
        curve = CrossValidation(data.values, y, folds, model).curve(rank, counts)
        reason = curve.reason("accuracy" if classes else "R²")
        number = int(counts[curve.smallest_as_good()])
        return number, {"reason": reason, "cv_results_": curve.results()}

    def _caller_labels(self, data: PaddedData) -> Any:
        """Return the target with the caller's labels instead of codes, for other estimators."""
        return self.classes_[data.target] if data.num_classes else data.target

    def _wanted(self, d: int) -> int | None:
        """Return the requested number of features; `None` for a rule that needs the scores."""
        wanted = self.n_features_to_select
        if (asked := asked_number(wanted, d)) is not None:
            return asked[0]
        if wanted not in ("auto", "one_se"):
            self._check_scored()
        return None

    def _fdr(self) -> FDR | None:
        """Return the rule if `n_features_to_select` is a false discovery rate."""
        wanted = FDR() if self.n_features_to_select == "fdr" else self.n_features_to_select
        return wanted if isinstance(wanted, FDR) else None

    def _check_scored(self) -> None:
        """Raise `ValueError` if the rules "gap" and "fdr" have no scores to work with."""
        rule, name = self._fdr(), type(self).__name__
        wanted = "gap" if rule is None else "fdr"
        raise ValueError(
            f'n_features_to_select="{wanted}" needs a score of every feature alone, and {name}'
            ' selects features together; use a number, "auto" or, with a target, "one_se"'
        )

    def _reason(self, d: int) -> str:
        """Say how the number of features came about, if no rule chose it."""
        default = default_number(d), f"⌈√{d}⌉, at most {_MOST}, is the default"
        asked, words = asked_number(self.n_features_to_select, d) or default
        found = self.n_features_
        return f"{words}." if found == asked else f"{words}; the method stopped at {found}."


class WeightedFit(Selector):
    """Base class of methods whose scores take sample weights."""

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        strata: Any = None,
    ) -> Self:
        """Score or select the features of `X (n, d)`, as `Selector.fit`.

        `sample_weight (n,)` is nonnegative and counts samples: a sample of weight 2 is the same as
        two equal samples, and a sample of weight 0 is left out.
        """
        return self._fit_copy(X, y, sample_weight, groups=groups, strata=strata)


class ScoringSelector(Selector):
    """Base class of methods that score every feature."""

    #: Part of an error message: the cause of NaN scores, and the remedy.
    _no_score: ClassVar[str] = "their numbers are too large or too small; rescale them"

    def _score(self, data: PaddedData) -> Any:
        return data.call(self._function, **self._options(data))

    def _label_score(self, data: PaddedData) -> Callable[[Any, Any, Any], Any]:
        """Return the score as a pure function of samples, labels and weights, for other labels."""
        options = self._options(data)
        if data.num_classes:
            options["num_classes"] = data.num_classes
        return CoreScore(self._function, tuple(sorted(options.items())))

    def _significance(self, data: PaddedData, rule: FDR) -> Significance:
        """Return p-values and q-values of the features."""
        return _significance.by_permutation(data, self._label_score(data), rule, self._blocks)

    def _check_scored(self) -> None:
        rule, name = self._fdr(), type(self).__name__
        if rule is not None and self._target_kind() == "none":
            raise ValueError(
                f'n_features_to_select="fdr" needs a target, and {name} uses none. Permuted columns'
                " tell whether there is any structure, but not how many of the selected features"
                " are false; jaxfs.structure_test gives their p-values"
            )

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
        d, name = data.num_features, type(self).__name__
        scores = np.asarray(self._score(data))[:d]
        unknown = int(np.isnan(scores).sum())
        if unknown:
            raise ValueError(f"{name} has no score for {unknown} of {d} features: {self._no_score}")
        if d > 1 and (scores == scores[0]).all():
            message = f"{name} gives all {d} features the same score"
            warnings.warn(f"{message}: their ranks are the order of the columns", stacklevel=4)
        order = np.argsort(-scores, stable=True)
        found: dict[str, Any] = {"scores_": scores, "order": order}
        if wanted is not None:
            return found | {"number": wanted}
        rule = self._fdr()
        if rule is None:
            number = upper_group(scores[order])
            reason = f"All {d} features have the same score."
            if number < d:
                reason = (
                    f"The scores of {d} features form two groups; {number} are in the upper group."
                )
            return found | {"number": number, "reason": reason}
        tested = self._significance(data, rule)
        chosen = tested.selected(rule.level, name)
        return found | {
            "order": order[np.argsort(~chosen[order], stable=True)],
            "number": int(chosen.sum()),
            "reason": tested.reason(rule.level),
            "pvalues_": tested.p_values,
            "qvalues_": tested.q_values,
        }


class GreedySelector(WeightedFit):
    """Base class of methods that choose features sequentially."""

    def _select(self, data: PaddedData, number: int) -> Selection:
        return data.call(self._function, number, **self._options(data))

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
        d = data.num_features
        found = self._select(data, wanted or default_number(d))
        indices = np.asarray(found.indices)
        chosen = indices >= 0
        order = indices[chosen]
        if order.size == 0:
            raise ValueError(f"{type(self).__name__} found no feature that is informative about y")
        scores = np.zeros(d, data.values.dtype)
        scores[order] = np.arange(order.size, 0, -1) / order.size
        objective = np.asarray(found.objective)[chosen]
        return {"scores_": scores, "order": order, "number": order.size, "objective_": objective}


def free_memory() -> float:
    """Return the bytes that a fit may use on the device of JAX; infinity if this is unknown."""
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "bytes_limit" in stats:
        return _SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return _SHARE * _memory.free()


# ---- Numbers of features ------------------------------------------------------------------------


def asked_number(wanted: Any, d: int) -> tuple[int, str] | None:
    """Return `n_features_to_select` as a number with a phrase about it; `None` for a rule."""
    if isinstance(wanted, FDR) or (isinstance(wanted, str) and wanted in RULES):
        return None
    if isinstance(wanted, numbers.Real) and not isinstance(wanted, bool):
        if isinstance(wanted, numbers.Integral):
            number = _checks.integer(wanted, "n_features_to_select", low=1, high=d)
            return number, f"{number} of {d} features were asked for"
        if 0 < float(wanted) <= 1:
            share = f"A share of {wanted:g} of {d} features was asked for"
            return max(1, round(float(wanted) * d)), share
    expected = 'an integer, a fraction in (0, 1], "auto", "gap", "fdr" or "one_se"'
    raise _checks.fail("n_features_to_select", expected, repr(wanted))


def default_number(d: int) -> int:
    """Return ⌈√d⌉, at most 50."""
    return min(_MOST, int(np.ceil(np.sqrt(d))))


def upper_group(falling: np.ndarray) -> int:
    """Return the size of the upper group when numbers in descending order are split into two.

    The split has the least variance within the groups. Infinite numbers are replaced by the largest
    or smallest finite number. If all numbers are equal, they form one group.

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
    above = np.cumsum(s)[:-1]  # the mean is 0, so the sums of the lower groups are −`above`
    count = np.arange(1, s.size)
    return int(np.argmax(above**2 * (1 / count + 1 / (s.size - count)))) + 1
