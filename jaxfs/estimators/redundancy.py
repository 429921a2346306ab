"""Selectors that weigh relevance against redundancy, as estimators."""

from typing import Any, ClassVar

from jaxfs import _checks
from jaxfs._types import Selection
from jaxfs.estimators import _cost
from jaxfs.estimators._base import GreedySelector, estimator
from jaxfs.estimators._problem import Problem
from jaxfs.methods.classical import cfs_select, cmim_select, fcbf_select, jmi_select, mrmr_select
from jaxfs.methods.classical._redundancy import _NUM_BINS


@estimator
class _Redundancy(GreedySelector):
    n_bins: int | None = _NUM_BINS
    binning: str | None = "frequency"

    _function: ClassVar[Any]

    def _options(self) -> dict[str, Any]:
        return {}

    def _select(self, problem: Problem, number: int) -> Selection:
        return type(self)._function(
            problem.x,
            problem.y,
            number,
            num_classes=problem.num_classes,
            num_bins=self.n_bins,
            binning=self.binning,
            weights=problem.weights,
            **self._options(),
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        k = self._wanted(d) or min(50, d)
        return _cost.Work(numbers=4 * n * d, passes=k * n * d * (self.n_bins or _NUM_BINS) ** 2)


@estimator
class MRMR(_Redundancy):
    """Features of most relevance to the class and least redundancy with those chosen before.

    **Parameters** beside those of `Selector`, all as in `jaxfs.mrmr_select`: `scheme`
    (`"quotient"` or `"difference"`), `relevance` (`"f"` or `"mi"`), `redundancy` (`"pearson"` or
    `"mi"`); `n_bins` (5 by default) and `binning` (`"frequency"` by default), for `"mi"` only.

    **Attributes** beside those of `Selector`: `objective_ (k,)`, the criterion of each feature as
    it was chosen.

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

    _function = staticmethod(mrmr_select)

    def _is_binned(self) -> bool:
        return "mi" in (self.relevance, self.redundancy)

    def _options(self) -> dict[str, Any]:
        for value, name in ((self.n_bins, "n_bins"), (self.binning, "binning")):
            setting = 'relevance="mi" or redundancy="mi"'
            _checks.only_if(self._is_binned(), value, name, setting)
        return {
            "scheme": self.scheme,
            "relevance": self.relevance,
            "redundancy": self.redundancy,
        }

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        k = self._wanted(d) or min(50, d)
        cells = (self.n_bins or _NUM_BINS) ** 2 if self._is_binned() else 2
        return _cost.Work(numbers=4 * n * d, passes=k * n * d * cells)


@estimator
class JMI(_Redundancy):
    """Features that tell most about the class in pairs with those chosen before.

    **Parameters** beside those of `Selector`: `n_bins`, `binning`, as in `jaxfs.jmi_select`.
    """

    _function = staticmethod(jmi_select)


@estimator
class CMIM(_Redundancy):
    """Features that still tell about the class whichever feature chosen before is known.

    **Parameters** beside those of `Selector`: `n_bins`, `binning`, as in `jaxfs.cmim_select`.
    """

    _function = staticmethod(cmim_select)


@estimator
class CFS(_Redundancy):
    """Features that go with the class and not with each other; it decides how many, up to the
    number asked for.

    **Parameters** beside those of `Selector`: `n_bins`, `binning`, as in `jaxfs.cfs_select`.
    """

    _function = staticmethod(cfs_select)


@estimator
class FCBF(_Redundancy):
    """Features that no better one makes redundant; it decides how many, up to the number asked for.

    **Parameters** beside those of `Selector`: `threshold`, the least symmetrical uncertainty with
    the class; `n_bins`, `binning`, as in `jaxfs.fcbf_select`.
    """

    threshold: float = 0.0

    _function = staticmethod(fcbf_select)

    def _options(self) -> dict[str, Any]:
        return {"threshold": self.threshold}
