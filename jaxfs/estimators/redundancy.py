"""Estimators that weigh the relevance of features against their redundancy."""

from typing import Any, ClassVar

from jaxfs import _checks
from jaxfs.estimators._arrays import PaddedData
from jaxfs.estimators._base import GreedySelector, estimator
from jaxfs.methods import classical
from jaxfs.methods.classical._redundancy import NUM_BINS

__all__ = ["CFS", "CMIM", "FCBF", "JMI", "MRMR", "MRMRRegression"]


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
