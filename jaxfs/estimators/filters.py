"""Filters that look at one feature at a time, as estimators."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import ClassifierTags

from jaxfs import _checks
from jaxfs.estimators import _arrays, _cost
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.estimators._problem import Problem
from jaxfs.methods import classical
from jaxfs.methods.classical import mutual_information_regression_score, mutual_information_score
from jaxfs.methods.classical._information import ESTIMATORS

_CLASSES = {
    "anova": classical.anova_score,
    "fisher": classical.fisher_score,
    "t": classical.t_score,
    "chi2": classical.chi2_score,
    "gini": classical.gini_score,
}
_NUMBERS = {"pearson": classical.pearson_score, "f_regression": classical.f_regression_score}
#: The scores of `FilterSelector`, and what each needs.
SCORES = (*_CLASSES, *_NUMBERS, "variance")


@estimator
class FilterSelector(ScoringSelector):
    """Features by a score of each alone: fast, for any number, and blind to interactions.

    **Parameters** beside those of `Selector`:

    - `criterion`: for classes `"anova"`, `"fisher"`, `"t"` (two classes), `"chi2"` (counts),
      `"gini"`; for a target that is a number `"pearson"`, `"f_regression"`; without a target
      `"variance"`.
      They are the functions `jaxfs.anova_score` and so on.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> FilterSelector(criterion="anova", n_features_to_select=2).fit(X, y).support_.tolist()
    [False, False, True, True]
    """

    criterion: str = "anova"

    _no_score: ClassVar[str] = "there are too few samples, or their numbers are too large"

    def _target_kind(self) -> str:
        if self.criterion in _NUMBERS:
            return "numbers"
        return "none" if self.criterion == "variance" else "classes"

    def _score(self, problem: Problem) -> Any:
        _checks.option(self.criterion, "criterion", SCORES)
        if self.criterion == "variance":
            return classical.variance_score(problem.x, weights=problem.weights)
        if self.criterion in _NUMBERS:
            return _NUMBERS[self.criterion](problem.x, problem.y, weights=problem.weights)
        if self.criterion == "t" and problem.num_classes > 2:
            raise ValueError(
                f'criterion="t" is for two classes, got {problem.num_classes}; "anova" takes more'
            )
        if self.criterion == "chi2":
            self._check_counts(problem.values)
        return _CLASSES[self.criterion](
            problem.x, problem.y, num_classes=problem.num_classes, weights=problem.weights
        )

    def _check_counts(self, values: np.ndarray) -> None:
        negative = np.flatnonzero((values < 0).any(axis=0)).tolist()
        if negative:
            names = getattr(self, "feature_names_in_", None)
            which = [f"column {j}" if names is None else repr(names[j]) for j in negative]
            raise ValueError(
                f'Negative values in data: {_arrays.listed(which)}; criterion="chi2" is for counts'
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.criterion == "chi2"
        if self.criterion == "t":
            tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


@estimator
class MutualInformation(ScoringSelector):
    """Features by how much each alone tells about the class, in nats; any relation counts.

    **Parameters** beside those of `Selector`:

    - `kind`: `"knn"`, by neighbours, or `"binned"`, by tables of counts.
    - `n_neighbors`: for "knn" only; by default 3, or one less than the smallest class has samples,
      if that is fewer.
    - `n_bins`, `binning`: for "binned" only; by default 10 bins of equal `"frequency"`.

    **Reference** `jaxfs.mutual_information_score`.
    """

    kind: str = "knn"
    n_neighbors: int | None = None
    n_bins: int | None = None
    binning: str | None = None

    def _score(self, problem: Problem) -> Any:
        _checks.option(self.kind, "kind", ESTIMATORS)
        _checks.only_if(self.kind == "knn", self.n_neighbors, "n_neighbors", 'kind="knn"')
        for value, name in ((self.n_bins, "n_bins"), (self.binning, "binning")):
            _checks.only_if(self.kind == "binned", value, name, 'kind="binned"')
        k = None
        if self.kind == "knn":
            k = 3 if self.n_neighbors is None else self.n_neighbors
            k = _checks.integer(k, "n_neighbors", low=1)
            k = problem.neighbors(k, "MutualInformation")
        return mutual_information_score(
            problem.x,
            problem.y,
            num_classes=problem.num_classes,
            estimator=self.kind,
            num_neighbors=k,
            num_bins=self.n_bins,
            binning=self.binning,
            weights=problem.weights,
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        return _cost.Work(numbers=8 * n * d, passes=400 * n * d)


@estimator
class MutualInformationRegression(ScoringSelector):
    """Features by how much each alone tells about a target that is a number, in nats.

    **Parameters** beside those of `Selector`: `n_neighbors`, less than there are samples.

    **Reference** `jaxfs.mutual_information_regression_score`.
    """

    n_neighbors: int = 3

    _targets: ClassVar[str] = "numbers"

    def _score(self, problem: Problem) -> Any:
        k = _checks.integer(self.n_neighbors, "n_neighbors", low=1)
        k = min(k, problem.num_samples - 1)
        return mutual_information_regression_score(
            problem.x, problem.y, num_neighbors=k, weights=problem.weights
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        return _cost.Work(numbers=8 * n * d, passes=(400 + n / 2) * n * d)
