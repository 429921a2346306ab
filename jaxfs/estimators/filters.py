"""Estimators that score features by their relation to the target: filters, information, ReliefF."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import ClassifierTags

from jaxfs import _checks, inference
from jaxfs.estimators import _arrays
from jaxfs.estimators._arrays import PaddedData
from jaxfs.estimators._base import ScoringSelector, WeightedFit, estimator
from jaxfs.estimators._number import FDR
from jaxfs.estimators._significance import Significance, by_law
from jaxfs.inference import AnovaScore, ReliefFScore
from jaxfs.methods import classical
from jaxfs.methods.classical._information import ESTIMATORS
from jaxfs.methods.classical._relieff import default_block

__all__ = [
    "FilterSelector",
    "MutualInformation",
    "MutualInformationRegression",
    "RReliefF",
    "ReliefF",
]

#: Criteria of `FilterSelector` by the kind of target; "anova" stands for `jaxfs.anova_score`.
CRITERIA = {
    "classes": ("anova", "fisher", "t", "chi2", "gini"),
    "numbers": ("pearson", "f_regression"),
    "none": ("variance",),
}
#: Tests of the criteria whose distribution is known if the target is independent of the features.
_LAWS: dict[str, Callable[..., Any]] = {
    "anova": inference.anova_test,
    "t": lambda x, y, *, num_classes, weights: inference.t_test(x, y, weights=weights),
    "chi2": inference.chi2_test,
    "pearson": inference.pearson_test,
    "f_regression": inference.f_regression_test,
}


@estimator
class FilterSelector(WeightedFit, ScoringSelector):
    """Features scored individually: fast for any number of features, but ignores interactions.

    **Parameters** in addition to those of `Selector`:

    - `criterion`: for classes `"anova"`, `"fisher"`, `"t"` (two classes), `"chi2"` (counts) or
      `"gini"`; for a numeric target `"pearson"` or `"f_regression"`; without a target
      `"variance"`. Each criterion is the function of this name, such as `jaxfs.anova_score`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> FilterSelector(criterion="anova", n_features_to_select=2).fit(X, y).support_.tolist()
    [False, False, True, True]
    """

    criterion: str = "anova"

    _guide: ClassVar[str] = "methods/filters"
    _no_score: ClassVar[str] = "there are too few samples, or their numbers are too large"

    def _target_kind(self) -> str:
        kinds = [kind for kind, names in CRITERIA.items() if self.criterion in names]
        return kinds[0] if kinds else "classes"

    def _score(self, data: PaddedData) -> Any:
        _checks.option(self.criterion, "criterion", sum(CRITERIA.values(), ()))
        if self.criterion == "t" and data.num_classes > 2:
            got = f'{data.num_classes}; "anova" takes more'
            raise ValueError(f'criterion="t" is for two classes, got {got}')
        if self.criterion == "chi2" and (data.values < 0).any():
            negative = np.flatnonzero((data.values < 0).any(axis=0)).tolist()
            which = _checks.listed(_arrays.column_name(self, j) for j in negative)
            raise ValueError(f'Negative values in data: {which}; criterion="chi2" is for counts')
        return data.call(self._function)

    @property
    def _function(self) -> Any:
        return getattr(classical, f"{self.criterion}_score")

    def _options(self, data: PaddedData) -> dict[str, Any]:
        return {}

    def _label_score(self, data: PaddedData) -> Any:
        if self.criterion == "anova":
            return AnovaScore(data.num_classes)
        return super()._label_score(data)

    def _significance(self, data: PaddedData, rule: FDR) -> Significance:
        known = self.criterion in _LAWS and rule.n_permutations is None
        if known and all(block is None for block in self._blocks):
            return by_law(data, _LAWS[self.criterion])
        return super()._significance(data, rule)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.criterion == "chi2"
        if self.criterion == "t":
            tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


@estimator
class MutualInformation(ScoringSelector):
    """Features that individually have most information about the class, by any relation.

    **Parameters** in addition to those of `Selector`:

    - `kind`: `"knn"` estimates the information from nearest neighbours, `"binned"` from tables of
      counts.
    - `n_neighbors`: for "knn" only; by default 3. It is reduced so that it is less than the size of
      the smallest class.
    - `n_bins`, `binning`: for "binned" only; by default 10 bins of equal `"frequency"`.

    Scores are in nats.

    **Reference** `jaxfs.mutual_information_score`.
    """

    kind: str = "knn"
    n_neighbors: int | None = None
    n_bins: int | None = None
    binning: str | None = None

    _guide: ClassVar[str] = "methods/filters"
    _copies: ClassVar[int] = 8
    _function = staticmethod(classical.mutual_information_score)

    def _options(self, data: PaddedData) -> dict[str, Any]:
        _checks.option(self.kind, "kind", ESTIMATORS)
        _checks.only_if(self.kind == "knn", self.n_neighbors, "n_neighbors", 'kind="knn"')
        for value, name in ((self.n_bins, "n_bins"), (self.binning, "binning")):
            _checks.only_if(self.kind == "binned", value, name, 'kind="binned"')
        options = super()._options(data)
        options["estimator"] = options.pop("kind")
        if self.kind == "knn":
            k = 3 if self.n_neighbors is None else self.n_neighbors
            options["num_neighbors"] = data.neighbors(k, type(self).__name__)
        return options


@estimator
class _NeighborSelector(ScoringSelector):
    n_neighbors: int

    def _options(self, data: PaddedData) -> dict[str, Any]:
        number = data.neighbors(self.n_neighbors, type(self).__name__)
        return super()._options(data) | {"num_neighbors": number}


@estimator
class MutualInformationRegression(_NeighborSelector):
    """Features that individually have most information about a number, by any relation.

    **Parameters** in addition to those of `Selector`: `n_neighbors`, reduced to the number of other
    samples if it is larger.

    Scores are in nats.

    **Reference** `jaxfs.mutual_information_regression_score`.
    """

    n_neighbors: int = 3

    _guide: ClassVar[str] = "methods/filters"
    _targets: ClassVar[str] = "numbers"
    _copies: ClassVar[int] = 8
    _function = staticmethod(classical.mutual_information_regression_score)


@estimator
class ReliefF(WeightedFit, _NeighborSelector):
    """Features that differ between near samples of different classes; finds interactions.

    **Parameters** in addition to those of `Selector`: `n_neighbors`, the number of nearest samples
    of each class that each sample is compared with. It is reduced so that it is less than the size
    of the smallest class. A class with only one sample raises `ValueError`.

    **Reference** `jaxfs.relieff_score`.

    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> selector = ReliefF(n_features_to_select=2).fit(iris.data, iris.target)
    >>> selector.get_feature_names_out(iris.feature_names).tolist()
    ['petal length (cm)', 'petal width (cm)']
    """

    n_neighbors: int = 10

    _guide: ClassVar[str] = "methods/relieff"
    _function = staticmethod(classical.relieff_score)

    def _label_score(self, data: PaddedData) -> Any:
        return ReliefFScore(data.num_classes, self._options(data)["num_neighbors"])

    def _entries(self, n: int, d: int, c: int) -> float:
        return _relief_entries(n, d, c * self.n_neighbors)


@estimator
class RReliefF(WeightedFit, _NeighborSelector):
    """Features that differ between near samples of different numeric targets: ReliefF for numbers.

    **Parameters** in addition to those of `Selector`: `n_neighbors`, the number of nearest samples
    that each sample is compared with, at most all others; `sigma`, the rank of the neighbour whose
    influence is 1/e, or `None` for equal influence of all neighbours.

    **Reference** `jaxfs.rrelieff_score`.
    """

    n_neighbors: int = 10
    sigma: float | None = 20.0

    _guide: ClassVar[str] = "methods/relieff"
    _targets: ClassVar[str] = "numbers"
    _function = staticmethod(classical.rrelieff_score)

    def _entries(self, n: int, d: int, c: int) -> float:
        return _relief_entries(n, d, self.n_neighbors)


def _relief_entries(n: int, d: int, near: int) -> float:
    return 2 * n * d + min(n, default_block(n, d, near)) * (4 * n + 2 * near * d)
