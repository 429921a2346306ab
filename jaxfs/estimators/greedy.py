"""Estimators that choose features sequentially: Gaussian models, and relevance with redundancy."""

from typing import Any, ClassVar

from jaxfs import _checks
from jaxfs._types import Selection
from jaxfs.estimators._arrays import PaddedData, random_key
from jaxfs.estimators._base import GreedySelector, default_number, estimator
from jaxfs.methods import classical
from jaxfs.methods.classical._redundancy import NUM_BINS
from jaxfs.methods.gaussian import cca_select, gc_select, gkl_select
from jaxfs.methods.gaussian._moments import num_places

__all__ = [
    "CFS",
    "CMIM",
    "CanonicalCorrelation",
    "FCBF",
    "GaussianCompromise",
    "GaussianKL",
    "JMI",
    "MRMR",
    "MRMRRegression",
]


class _GaussianSelector(GreedySelector):
    _guide: ClassVar[str] = "methods/gaussian"
    #: Function of the number of classes: the number of arrays `(k, d)` that the search holds.
    _factors: ClassVar[Any]

    def _entries(self, n: int, d: int, c: int) -> float:
        k = self._wanted(d) or default_number(d)
        # Three copies of the samples: as given, sorted by class, and centred. Each array (k, d)
        # comes with about fifteen vectors (d,).
        return (n + 2 * num_places(n, c) + self._factors(c) * (k + 15)) * d


@estimator
class GaussianCompromise(_GaussianSelector):
    """Features that jointly have most information about the class; fast, avoids redundancy.

    The method models each class by a Gaussian. By default the result does not depend on the units
    of the features. With `objective="entropy"`, or if you set `ridge`, it does.

    **Parameters** in addition to those of `Selector`, all as in `jaxfs.gc_select`: `objective`
    (`"mi"` or `"entropy"`), `ridge`, `shrinkage`, `fallback` (`"wilks"`, `"random"` or `"stop"`);
    `random_state`, for `"random"`.

    **Attributes** in addition to those of `Selector`: `objective_ (k,)`, the criterion of the
    features chosen so far; `saturated_at_`, the number of features chosen before the criterion
    could no longer distinguish candidates.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> GaussianCompromise(n_features_to_select=3).fit(X, y).n_features_
    3
    """

    objective: str = "mi"
    ridge: float | None = None
    shrinkage: float | None = None
    fallback: str = "wilks"
    random_state: Any = None

    _function = staticmethod(gc_select)
    _factors = staticmethod(lambda c: c + 2)

    def _select(self, data: PaddedData, number: int) -> Selection:
        key = random_key(self.random_state) if self.fallback == "random" else None
        found = data.call(gc_select, number, key=key, **self._options(data))
        self.saturated_at_ = int(found.saturated_at)
        return found


@estimator
class GaussianKL(_GaussianSelector):
    """Features that jointly set each class apart from the rest, by a Kullback–Leibler bound; fast.

    The default objective, an entropy, depends on the units of the features: standardise features
    whose units have no meaning, or use `objective="mi"`.

    **Parameters** in addition to those of `Selector`, all as in `jaxfs.gkl_select`: `objective`
    (`"entropy"` or `"mi"`), `ridge`, `shrinkage`.

    **Attributes** in addition to those of `Selector`: `objective_ (k,)`, the criterion of the
    features chosen so far.
    """

    objective: str = "entropy"
    ridge: float | None = None
    shrinkage: float | None = None

    _function = staticmethod(gkl_select)
    _factors = staticmethod(lambda c: 4 * c if c > 2 else 4)


@estimator
class CanonicalCorrelation(_GaussianSelector):
    """Features that jointly correlate most with the classes, linearly; fast for many features.

    Linear discriminant analysis uses the same criterion.

    **Parameters** in addition to those of `Selector`: `ridge`, as in `jaxfs.cca_select`.

    **Attributes** in addition to those of `Selector`: `objective_ (k,)`, the sum of squared
    canonical correlations of the features chosen so far.
    """

    ridge: float | None = None

    _function = staticmethod(cca_select)
    _factors = staticmethod(lambda c: 1)


class _RedundancySelector(GreedySelector):
    _guide: ClassVar[str] = "methods/redundancy"


@estimator
class MRMR(_RedundancySelector):
    """Relevant features with the least redundancy between them (mRMR); a fast standard choice.

    **Parameters** in addition to those of `Selector`, all as in `jaxfs.mrmr_select`: `scheme`
    (`"quotient"` or `"difference"`), `relevance` (`"f"` or `"mi"`), `redundancy` (`"pearson"` or
    `"mi"`); for `"mi"` only, `n_bins` (5 by default) and `binning` (`"frequency"` by default).

    **Attributes** in addition to those of `Selector`: `objective_ (k,)`, the value of the criterion
    for each feature when the feature was chosen.

    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine()
    >>> selector = MRMR(n_features_to_select=2).fit(wine.data, wine.target)
    >>> selector.get_feature_names_out(wine.feature_names).tolist()
    ['flavanoids', 'color_intensity']
    """

    n_bins: int | None = None
    binning: str | None = None
    scheme: str = "quotient"
    relevance: str = "f"
    redundancy: str = "pearson"

    _function = staticmethod(classical.mrmr_select)

    def _options(self, data: PaddedData) -> dict[str, Any]:
        binned = "mi" in (self.relevance, self.redundancy)
        _checks.only_if(binned, self.n_bins, "n_bins", 'relevance="mi" or redundancy="mi"')
        return super()._options(data)


@estimator
class MRMRRegression(_RedundancySelector):
    """Features relevant to a number, with the least redundancy between them (mRMR); fast.

    **Attributes** in addition to those of `Selector`: `objective_ (k,)`, the value of the criterion
    for each feature when the feature was chosen.

    >>> from sklearn.datasets import load_diabetes
    >>> data = load_diabetes()
    >>> selector = MRMRRegression(n_features_to_select=3).fit(data.data, data.target)
    >>> selector.get_feature_names_out(data.feature_names).tolist()
    ['bmi', 'bp', 's5']
    """

    _targets = "numbers"
    _function = staticmethod(classical.mrmr_regression_select)


@estimator
class _BinnedSelector(_RedundancySelector):
    n_bins: int = NUM_BINS
    binning: str = "frequency"


@estimator
class JMI(_BinnedSelector):
    """Features that, paired with each feature chosen before, have most information about the class.

    **Parameters** in addition to those of `Selector`: `n_bins`, `binning`, as in
    `jaxfs.jmi_select`.
    """

    _function = staticmethod(classical.jmi_select)


@estimator
class CMIM(_BinnedSelector):
    """Features that remain informative about the class when any one chosen feature is known.

    **Parameters** in addition to those of `Selector`: `n_bins`, `binning`, as in
    `jaxfs.cmim_select`.
    """

    _function = staticmethod(classical.cmim_select)


@estimator
class CFS(_BinnedSelector):
    """A small set of features, relevant to the class and not redundant; CFS decides how many.

    It selects at most the number of features asked for.

    **Parameters** in addition to those of `Selector`: `n_bins`, `binning`, as in
    `jaxfs.cfs_select`.
    """

    _function = staticmethod(classical.cfs_select)


@estimator
class FCBF(_BinnedSelector):
    """Features that no better one makes redundant; FCBF decides how many; fast for many features.

    It selects at most the number of features asked for.

    **Parameters** in addition to those of `Selector`: `threshold`, the smallest symmetrical
    uncertainty with the class; `n_bins`, `binning`, as in `jaxfs.fcbf_select`.
    """

    threshold: float = 0.0

    _function = staticmethod(classical.fcbf_select)
