"""Recursive elimination of the least important features, around any model or score."""

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from jaxfs import _checks
from jaxfs.estimators._arrays import PaddedData
from jaxfs.estimators._base import Selector, estimator
from jaxfs.estimators._number import default_number
from jaxfs.estimators._wrapped import importances, seeded, target_kind

__all__ = ["RecursiveSelector"]


@estimator
class RecursiveSelector(Selector):
    """Features that remain when the least important ones are removed again and again.

    Each round fits a model or a score to the remaining features and removes those with the least
    importance. A feature whose importance was hidden by others can thus move up when they leave.

    **Parameters** in addition to those of `Selector`:

    - `estimator`: an estimator of this package (its `scores_` are the importances), or a model of
      scikit-learn with `feature_importances_` or `coef_` (the mean of |coef| over classes).
    - `step`: share of the remaining features that a round removes, at least one feature.
    - `random_state`: seed of the estimator if its `random_state` is `None`.

    With `n_features_to_select="one_se"`, cross-validation chooses the number, as
    `sklearn.feature_selection.RFECV` does, but takes the smallest number within one standard error
    of the best.

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import RidgeClassifier
    >>> wine = load_wine()
    >>> X = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    >>> selector = RecursiveSelector(RidgeClassifier(), n_features_to_select=3).fit(X, wine.target)
    >>> selector.get_feature_names_out(wine.feature_names).tolist()
    ['flavanoids', 'color_intensity', 'proline']
    """

    estimator: Any = dataclasses.field(kw_only=False)
    step: float = 0.5
    random_state: Any = None

    def _target_kind(self) -> str:
        return target_kind(self.estimator)

    def _prepare(self, data: PaddedData) -> None:
        _checks.number(self.step, "step", low=0, high=1, open_low=True, scalar=True)

    def _answer(self, data: PaddedData) -> dict[str, Any]:
        d, y = data.num_features, self._caller_labels(data)
        draw = check_random_state(self.random_state)
        remaining, removed = np.arange(d), []
        while remaining.size > 1:
            model = seeded(clone(self.estimator), draw).fit(data.values[:, remaining], y)
            order = np.argsort(-importances(model), stable=True)
            keep = int(np.clip(np.ceil((1 - self.step) * remaining.size), 1, remaining.size - 1))
            removed.append(remaining[order[keep:]])
            remaining = remaining[order[:keep]]
        order = np.concatenate([remaining, *removed[::-1]])
        scores = np.empty(d, data.values.dtype)
        scores[order] = np.arange(d, 0, -1) / d
        return {"scores_": scores, "order": order, "number": self._wanted(d) or default_number(d)}
