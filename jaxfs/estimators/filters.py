"""Estimators that score features: filters, information, ReliefF, and graphs of the samples."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import ClassifierTags

from jaxfs import _checks, inference
from jaxfs.estimators import _arrays
from jaxfs.estimators._arrays import PaddedData
from jaxfs.estimators._base import ScoringSelector, WeightedFit, estimator
from jaxfs.estimators._significance import FDR, Significance, tested
from jaxfs.inference import AnovaScore, ReliefFScore
from jaxfs.methods import classical
from jaxfs.methods.classical._information import ESTIMATORS
from jaxfs.methods.classical._relieff import default_block
from jaxfs.methods.classical._spectral import NEIGHBORS, min_samples

__all__ = [
    "FilterSelector",
    "LaplacianScore",
    "MCFS",
    "MutualInformation",
    "MutualInformationRegression",
    "RReliefF",
    "ReliefF",
    "SPEC",
]

#: Criteria of `FilterSelector` by the kind of target; "anova" stands for `jaxfs.anova_score`.
CRITERIA = {
    "classes": ("anova", "fisher", "t", "chi2", "gini"),
    "numbers": ("pearson", "f_regression"),
    "none": ("variance",),
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

    def _prepare(self, data: PaddedData) -> None:
        _checks.option(self.criterion, "criterion", sum(CRITERIA.values(), ()))
        if self.criterion == "t" and data.num_classes > 2:
            got = f'{data.num_classes}; "anova" takes more'
            raise ValueError(f'criterion="t" is for two classes, got {got}')
        if self.criterion == "chi2" and (data.values < 0).any():
            negative = np.flatnonzero((data.values < 0).any(axis=0)).tolist()
            which = _checks.listed(_arrays.column_name(self, j) for j in negative)
            raise ValueError(f'Negative values in data: {which}; criterion="chi2" is for counts')

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
        test = getattr(inference, f"{self.criterion}_test", None)  # if the distribution is known
        if test is None or rule.n_permutations is not None or self._blocks:
            return super()._significance(data, rule)
        return tested(data, data.call(test), "by the distribution of the score", 1)

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


# ---- Without labels -----------------------------------------------------------------------------


@estimator
class _GraphSelector(ScoringSelector):
    graph: str = "heat"
    n_neighbors: int | None = None

    _guide: ClassVar[str] = "methods/spectral"
    _targets: ClassVar[str] = "none"
    _least_samples: ClassVar[int] = 3

    def _options(self, data: PaddedData) -> dict[str, Any]:
        _checks.option(self.graph, "graph", tuple(NEIGHBORS))
        most = data.num_samples - min_samples(self.graph, 0)
        number = min(NEIGHBORS[self.graph], most)
        if self.n_neighbors is not None:
            number = _checks.integer(self.n_neighbors, "n_neighbors", low=1, high=most)
        return super()._options(data) | {"num_neighbors": number}

    def _score(self, data: PaddedData) -> Any:
        return self._function(data.x, mask=data.weights, **self._options(data))

    def _entries(self, n: int, d: int, c: int) -> float:
        return 3 * n * d + 6 * n**2


@estimator
class LaplacianScore(_GraphSelector):
    """Features that are smooth on a graph of the samples; fast, for clusters, without labels.

    The graph is built from the unscaled data: standardise features that have different units.

    **Parameters** in addition to those of `Selector`: `graph` (`"heat"` or `"adaptive"`) and
    `n_neighbors` (by default 2 or 5, fewer if there are fewer samples), as in
    `jaxfs.laplacian_score`.
    """

    _function = staticmethod(classical.laplacian_score)


@estimator
class SPEC(_GraphSelector):
    """Features that align with the smooth eigenvectors of a sample graph; without labels.

    **Parameters** in addition to those of `Selector` and `LaplacianScore`: `ranking` (`"phi1"`,
    `"phi2"` or `"phi3"`), `power` and, for `"phi3"`, `n_eigenvectors`, as in `jaxfs.spec_score`.
    """

    ranking: str = "phi2"
    power: int = 1
    n_eigenvectors: int | None = None

    _function = staticmethod(classical.spec_score)


@estimator
class MCFS(_GraphSelector):
    """Few features that jointly separate clusters, by sparse regression; without labels.

    Each regression fits one eigenvector of a graph of the samples by a few features.

    **Parameters** in addition to those of `Selector` and `LaplacianScore`:

    - `n_clusters`: number of clusters that you expect, reduced if there are fewer samples.
    - `n_nonzero`: number of features that each regression may use, as in `jaxfs.mcfs_score`; the
      other features score 0.
    """

    n_clusters: int = 5
    n_nonzero: int | None = None

    _least_samples: ClassVar[int] = 4
    _function = staticmethod(classical.mcfs_score)

    def _options(self, data: PaddedData) -> dict[str, Any]:
        clusters = _checks.integer(self.n_clusters, "n_clusters", low=1)
        return super()._options(data) | {"num_clusters": min(clusters, data.num_samples - 1)}
