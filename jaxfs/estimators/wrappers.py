"""Selection around any model or score: recursive elimination, and Boruta."""

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state

from jaxfs import _checks
from jaxfs.estimators import _progress
from jaxfs.estimators._arrays import PaddedData
from jaxfs.estimators._base import Selector, default_number, estimator

__all__ = ["BorutaSelector", "RecursiveSelector"]

#: Smallest number of permuted columns: the largest of fewer would be easy to exceed by chance.
_LEAST_SHADOWS = 5


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

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
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
        return {"scores_": scores, "order": order, "number": wanted or default_number(d)}


@estimator
class BorutaSelector(Selector):
    """All features that are relevant, also redundant ones, by comparison with permuted features.

    In each trial, a permuted copy of every feature, its shadow, is added to the data, and a model
    or score is fitted to both. A feature has a hit if it is more important than every shadow.
    Without relevance, a hit has at most probability ½. A binomial test over the trials confirms
    features with many hits and rejects features with few. Rejected features leave the data.

    **Parameters** in addition to those of `Selector`:

    - `estimator`: an estimator of this package (its `scores_` are the importances), or a model of
      scikit-learn with `feature_importances_` or `coef_` (the mean of |coef| over classes). The
      default is a random forest of 100 trees of depth 5 with balanced classes.
    - `n_trials`: largest number of trials.
    - `alpha`: level of the tests. Over the features, their false discovery rate is controlled
      (Benjamini–Hochberg), and over the trials, the level is divided by the number of trials.
    - `percentile`: importances are compared with this percentile of the shadows; 100 is their
      maximum. Lower values confirm more features.
    - `random_state`: seed of the permutations, and of the estimator if its seed is `None`.

    With `n_features_to_select="auto"`, the confirmed features are selected, and `fit` raises
    `ValueError` if there are none. A number selects confirmed features first, then the features
    with the largest `scores_`.

    **Attributes** in addition to those of `Selector`: `scores_`, the share of trials with a hit;
    `confirmed_ (d,)` and `tentative_ (d,)`, masks of the features that the tests confirmed and did
    not decide; `shadow_importances_ (trials,)`, the importance to exceed in each trial.

    The test is about the given samples: it does not control the error over repeated data. If no
    feature is relevant, the best feature exceeds the best shadow of most trials in up to half of
    all data sets, and is then confirmed. `jaxfs.inference` has tests with error control.

    **Reference** Kursa and Rudnicki, *Feature selection with the Boruta package*, 2010.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 12, n_informative=3, n_redundant=0, shuffle=False,
    ...                            class_sep=2, random_state=0)
    >>> BorutaSelector(n_trials=30, random_state=0).fit(X, y).get_support(indices=True).tolist()
    [0, 1, 2]
    """

    estimator: Any = dataclasses.field(default=None, kw_only=False)
    n_trials: int = 100
    alpha: float = 0.05
    percentile: float = 100.0
    random_state: Any = None

    def _model(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        return RandomForestClassifier(max_depth=5, class_weight="balanced")

    def _target_kind(self) -> str:
        return target_kind(self._model())

    def _prepare(self, data: PaddedData) -> None:
        _checks.integer(self.n_trials, "n_trials", low=1)
        _checks.number(self.alpha, "alpha", low=0, high=1, open_low=True, scalar=True)
        _checks.number(self.percentile, "percentile", low=0, high=100, scalar=True)

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
        d, draw = data.num_features, check_random_state(self.random_state)
        y = self._caller_labels(data)
        hits, confirmed, active = np.zeros(d, np.int64), np.zeros(d, bool), np.ones(d, bool)
        trials, limits = np.zeros(d, np.int64), []
        permute = np.random.default_rng(draw.randint(2**31 - 1)).permuted
        with _progress.bar("trials", self.n_trials, show=self.verbose) as done:
            for trial in range(1, self.n_trials + 1):
                real = data.values[:, active]
                copies = -(-_LEAST_SHADOWS // real.shape[1])
                shadows = permute(np.tile(real, copies), axis=0)
                model = seeded(clone(self._model()), draw).fit(np.hstack([real, shadows]), y)
                found = importances(model)
                limits.append(np.percentile(found[real.shape[1] :], self.percentile))
                hits[active] += found[: real.shape[1]] > limits[-1]
                trials[active] += 1
                accepted, rejected = _decided(hits[active], trial, self.alpha)
                confirmed[active] |= accepted
                active[active] = ~rejected | confirmed[active]
                done(1)
                if np.array_equal(confirmed, active):
                    break
        if wanted is None and not confirmed.any():
            raise ValueError(f"BorutaSelector confirmed none of {d} features in {trial} trials")
        scores = (hits / trials).astype(data.values.dtype)
        return {
            "scores_": scores,
            "order": np.lexsort((-scores, ~confirmed)),
            "number": wanted or int(confirmed.sum()),
            "reason": None if wanted else f"The tests confirmed {confirmed.sum()} of {d} features.",
            "confirmed_": confirmed,
            "tentative_": active & ~confirmed,
            "shadow_importances_": np.array(limits),
        }


def _decided(hits: np.ndarray, trial: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which features have significantly many and significantly few hits in `trial` trials.

    The p-value must pass two corrections: for the number of features, by the false discovery rate,
    and for the number of trials after which it is tested, by Bonferroni.
    """
    from scipy.stats import binom, false_discovery_control

    def significant(p: np.ndarray) -> np.ndarray:
        return (false_discovery_control(p) <= alpha) & (p <= alpha / trial)

    many, few = binom.sf(hits - 1, trial, 0.5), binom.cdf(hits, trial, 0.5)
    return significant(many), significant(few)


# ---- Models -------------------------------------------------------------------------------------


def target_kind(inner: Any) -> str:
    """Return "classes", "numbers" or "none" for a selector or a model of scikit-learn."""
    if isinstance(inner, Selector):
        return inner._target_kind()
    if not hasattr(inner, "fit") or not (is_classifier(inner) or is_regressor(inner)):
        raise _checks.fail("estimator", "a selector, classifier or regressor", repr(inner))
    return "classes" if is_classifier(inner) else "numbers"


def seeded(inner: Any, draw: np.random.RandomState) -> Any:
    """Set every `random_state` of an estimator that is `None` to a random seed, and return it."""
    unset = [
        name
        for name, value in sorted(inner.get_params().items())
        if name.rpartition("__")[2] == "random_state" and value is None
    ]
    return inner.set_params(**{name: int(draw.randint(2**31 - 1)) for name in unset})


def importances(model: Any) -> np.ndarray:
    """Return the importance of every feature of a fitted selector or scikit-learn model."""
    for name in ("scores_", "feature_importances_", "coef_"):
        found = getattr(model, name, None)
        if found is not None:
            found = np.asarray(found, np.float64)
            return np.abs(np.atleast_2d(found)).mean(axis=0) if name == "coef_" else found
    expected = "a selector of jaxfs, or a model with feature_importances_ or coef_"
    raise _checks.fail("estimator", expected, type(model).__name__)
