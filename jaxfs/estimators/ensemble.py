"""Estimators made of other estimators: combined scores, and stability selection."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import _BaseComposition

from jaxfs import _checks
from jaxfs._checks import listed
from jaxfs.estimators import _progress
from jaxfs.estimators._arrays import PaddedData, random_key
from jaxfs.estimators._base import ScoringSelector, Selector, WeightedFit, estimator
from jaxfs.estimators._validation import fit_key
from jaxfs.estimators.filters import ReliefF
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.wrappers import seeded
from jaxfs.evaluate import selection_stability
from jaxfs.methods.classical import combine_scores
from jaxfs.resample import subsample_masks

__all__ = ["CombinedSelector", "StabilitySelector"]


def _checked(inner: Any, name: str) -> Selector:
    if not isinstance(inner, Selector):
        raise _checks.fail(name, "an estimator of jaxfs.estimators", repr(inner))
    return inner


@estimator
class CombinedSelector(_BaseComposition, WeightedFit, ScoringSelector):
    """Combined scores of several methods, by default ManiFeSt and ReliefF.

    A method may find features that another method misses. By default the scores of ManiFeSt
    and ReliefF are added. ReliefF counts twice, because the default score of ManiFeSt contains it.

    **Parameters** in addition to those of `Selector`:

    - `estimators`: a list of pairs `(name, estimator)`. The list may contain estimators for classes
      or estimators for numbers, but not both, and unsupervised estimators. Sample weights need
      estimators that take them.
    - `method`, `offset`: as in `jaxfs.combine_scores`; `method` is `"robust"` (by default),
      `"sum"`, `"mean_rank"` or `"reciprocal_rank"`.

    **Attributes** in addition to those of `Selector`: `estimators_`, the fitted estimators.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> both = [("relieff", ReliefF()), ("manifest", ManiFeSt())]
    >>> CombinedSelector(estimators=both, n_features_to_select=2).fit(X, y).n_features_
    2
    """

    estimators: list[tuple[str, Any]] | None = None
    method: str = "robust"
    offset: float | None = None

    _guide: ClassVar[str] = "methods/stability"

    def _members(self) -> list[tuple[str, Selector]]:
        if self.estimators is None:
            return [("manifest", ManiFeSt()), ("relieff", ReliefF())]
        if not self.estimators:
            raise _checks.fail("estimators", "at least one (name, estimator)", self.estimators)
        return [(name, _checked(inner, "estimators")) for name, inner in self.estimators]

    def _target_kind(self) -> str:
        kinds = {inner._target_kind() for _, inner in self._members()} - {"none"}
        if len(kinds) > 1:
            expected = "all for classes or all for numbers"
            raise _checks.fail("estimators", expected, [name for name, _ in self._members()])
        return kinds.pop() if kinds else "none"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params: Any) -> "CombinedSelector":
        self._set_params("estimators", **params)
        return self

    def _score(self, data: PaddedData) -> Any:
        y, weights = self._caller_labels(data), data.sample_weight
        self.estimators_ = []
        members = self._members()
        without = [name for name, inner in members if not isinstance(inner, WeightedFit)]
        if weights is not None and without:
            raise ValueError(f"sample_weight: {listed(without)} of estimators do not take weights")
        options = {} if weights is None else {"sample_weight": weights}
        with _progress.bar("methods", len(members), show=self.verbose) as done:
            for name, inner in members:
                known = vars(self).get("_known", {}).get(fit_key(inner))
                self.estimators_.append(
                    (name, known or clone(inner).fit(data.values, y, **options))
                )
                done(1)
        scores = [np.asarray(inner.scores_, data.values.dtype) for _, inner in self.estimators_]
        return combine_scores(*scores, method=self.method, offset=self.offset)

    def _check_scored(self) -> None:
        if self._fdr() is not None:
            raise ValueError(
                'n_features_to_select="fdr" needs scores with a scale of their own. The scores of'
                " CombinedSelector are relative to the best feature, also if no feature is"
                ' relevant; use "fdr" with one of its methods, or "one_se"'
            )

    def _entries(self, n: int, d: int, c: int) -> float:
        return max(inner._entries(n, d, c) for _, inner in self._members())


@estimator
class StabilitySelector(Selector):
    """Features that a method selects again and again from random parts of the samples.

    The method is fitted on B random parts of the samples. Each part is drawn without replacement
    and has the same share of each class. The score of a feature is the share of the parts in which
    the method selects it. Features with equal scores are ranked by their mean rank.

    **Parameters** in addition to those of `Selector`:

    - `estimator`: any estimator of this package. Its parameter `n_features_to_select` is the number
      of features selected in each part.
    - `n_resamples`: number of parts, B. `fraction`: share of the samples in each part.
    - `threshold`: for `n_features_to_select="auto"` only. The features selected in more than this
      share of the parts, by default a half, are selected. If there are none, the best feature is.
    - `random_state`: seed of the draws, and of the estimator if its `random_state` is `None`.

    **Attributes** in addition to those of `Selector`:

    - `mean_ranks_ (d,)`, `rank_deviations_ (d,)`: mean and standard deviation of the rank of each
      feature.
    - `stability_`, `stability_interval_ (2,)`: Nogueira's stability of the B selections and its 95%
      confidence interval. The stability is 1 if the same features are always selected, and about 0
      for random selections. It is NaN if every selection contains all features.

    **Reference** Meinshausen and Bühlmann, *Stability selection*, 2010; `jaxfs.stability`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> inner = ReliefF(n_features_to_select=2)
    >>> selector = StabilitySelector(inner, n_resamples=10, random_state=0).fit(X, y)
    >>> selector.scores_.tolist()
    [0.0, 0.0, 1.0, 1.0]
    """

    estimator: Any = dataclasses.field(kw_only=False)
    n_resamples: int = 50
    fraction: float = 0.5
    threshold: float | None = None
    random_state: Any = None

    _guide: ClassVar[str] = "methods/stability"

    def _target_kind(self) -> str:
        return _checked(self.estimator, "estimator")._target_kind()

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
        setting = 'n_features_to_select="auto"'
        _checks.only_if(wanted is None, self.threshold, "threshold", setting)
        threshold = 0.5 if self.threshold is None else self.threshold
        _checks.number(threshold, "threshold", low=0, high=1, scalar=True)
        chosen, ranks = self._resample(data)
        frequencies, mean_ranks = chosen.mean(axis=0), ranks.mean(axis=0)
        scores = frequencies.astype(data.values.dtype)
        stability = selection_stability(chosen)
        passed = int((scores > threshold).sum())
        often = f"{passed} of {scores.size} features are selected in more than {threshold:g} of the"
        often += " resamples." if passed else " resamples, so the best feature is."
        return {
            "scores_": scores,
            "order": np.lexsort((mean_ranks, -frequencies)),
            "number": wanted or max(1, passed),
            "reason": None if wanted else often,
            "mean_ranks_": mean_ranks,
            "rank_deviations_": ranks.std(axis=0, ddof=1),
            "stability_": float(stability.stability),
            "stability_interval_": np.asarray(stability.interval),
        }

    def _resample(self, data: PaddedData) -> tuple[np.ndarray, np.ndarray]:
        """Return the features selected in each part, as masks `(B, d)`, and all ranks `(B, d)`."""
        number = _checks.integer(self.n_resamples, "n_resamples", low=2)
        draw = check_random_state(self.random_state)
        # On padded samples, so that few programs are compiled. Padding does not change the draws.
        w, groups = data.weights, data.y if data.num_classes else None
        key, fraction = random_key(draw), self.fraction
        masks = subsample_masks(key, number, w.size, fraction=fraction, groups=groups, mask=w)
        y = self._caller_labels(data)
        chosen, ranks = [], []
        with _progress.bar("resamples", number, show=self.verbose) as done:
            for rows in np.asarray(masks)[:, : data.num_samples]:
                part = None if y is None else y[rows]
                inner = seeded(clone(self.estimator), draw).fit(data.values[rows], part)
                chosen.append(inner.get_support())
                ranks.append(inner.ranking_)
                done(1)
        return np.array(chosen), np.array(ranks, np.float64)

    def _entries(self, n: int, d: int, c: int) -> float:
        return self.estimator._entries(max(1, int(self.fraction * n)), d, c)
