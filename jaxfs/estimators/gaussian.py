"""Estimators for the Gaussian compromise, the Gaussian KL bound and canonical correlation."""

from typing import Any, ClassVar

from jaxfs._types import Selection
from jaxfs.estimators._arrays import PaddedData, random_key
from jaxfs.estimators._base import GreedySelector, estimator
from jaxfs.estimators._number import default_number
from jaxfs.methods.gaussian import cca_select, gc_select, gkl_select
from jaxfs.methods.gaussian._moments import num_places

__all__ = ["CanonicalCorrelation", "GaussianCompromise", "GaussianKL"]


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
