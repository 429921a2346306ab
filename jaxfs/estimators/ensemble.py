"""Estimators made of estimators: scores combined, and features that stay chosen."""

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import _BaseComposition

from jaxfs import _checks
from jaxfs.estimators import _cost, _progress
from jaxfs.estimators._base import ScoringSelector, Selector, estimator
from jaxfs.estimators._problem import Problem, random_key
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.relief import ReliefF
from jaxfs.evaluate import selection_stability
from jaxfs.methods.classical import combine_scores
from jaxfs.resample import subsample_masks


def _labels(outer: Selector, problem: Problem) -> Any:
    """The target as it came, for the estimators inside."""
    return outer.classes_[problem.target] if problem.num_classes else problem.target


def _checked(inside: Any, name: str) -> Selector:
    if not isinstance(inside, Selector):
        raise _checks.fail(name, "an estimator of jaxfs.estimators", repr(inside))
    return inside


def _seeded(inside: Selector, draw: np.random.RandomState) -> Selector:
    """With seeds for whatever draws at random in it and has none."""
    unset = [
        name
        for name, value in sorted(inside.get_params().items())
        if name.rpartition("__")[2] == "random_state" and value is None
    ]
    return inside.set_params(**{name: int(draw.randint(2**31 - 1)) for name in unset})


@estimator
class CombinedSelector(_BaseComposition, ScoringSelector):
    """Several scores made one: what one method overlooks another may find.

    **Parameters** beside those of `Selector`:

    - `estimators`: a list of `(name, estimator)`, all for classes, all for numbers, or
      unsupervised; by default ManiFeSt and ReliefF, which the ManiFeSt paper combines.
    - `method`, `offset`: as in `jaxfs.combine_scores`: `"sum"`, `"mean_rank"` or
      `"reciprocal_rank"`.

    **Attributes** beside those of `Selector`: `estimators_`, those fitted.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> both = [("relieff", ReliefF()), ("manifest", ManiFeSt())]
    >>> CombinedSelector(estimators=both, n_features_to_select=2).fit(X, y).n_features_
    2
    """

    estimators: list[tuple[str, Any]] | None = None
    method: str = "sum"
    offset: float | None = None

    def _members(self) -> list[tuple[str, Selector]]:
        if self.estimators is None:
            return [("manifest", ManiFeSt()), ("relieff", ReliefF())]
        if not self.estimators:
            raise _checks.fail("estimators", "at least one (name, estimator)", self.estimators)
        return [(name, _checked(inside, "estimators")) for name, inside in self.estimators]

    def _target_kind(self) -> str:
        kinds = {inside._target_kind() for _, inside in self._members()} - {"none"}
        if len(kinds) > 1:
            expected = "all for classes or all for numbers"
            raise _checks.fail("estimators", expected, [name for name, _ in self._members()])
        return kinds.pop() if kinds else "none"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params: Any) -> "CombinedSelector":
        self._set_params("estimators", **params)
        return self

    def _score(self, problem: Problem) -> Any:
        y = _labels(self, problem)
        self.estimators_ = []
        members = self._members()
        with _progress.bar("methods", len(members), show=self.verbose) as done:
            for name, inside in members:
                self.estimators_.append((name, clone(inside).fit(problem.values, y)))
                done(1)
        dtype = problem.values.dtype
        scores = [np.asarray(inside.scores_, dtype) for _, inside in self.estimators_]
        return combine_scores(*scores, method=self.method, offset=self.offset)

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        each = [inside._work(n, d, c) for _, inside in self._members()]
        numbers, *operations = zip(*each, strict=True)
        return _cost.Work(max(numbers), *map(sum, operations))


@estimator
class StabilitySelector(Selector):
    """Features that a method keeps choosing when it sees parts of the samples only.

    The method is fitted on B parts, drawn without replacement, of each class the same share.
    A feature's score is the share of parts in which it was chosen; features of one score are ranked
    by their mean rank.

    **Parameters** beside those of `Selector`:

    - `estimator`: any estimator of this package; its own `n_features_to_select` says how many
      features it chooses in each part.
    - `n_resamples`: B; `fraction`: the share of the samples in each.
    - `threshold`: for `n_features_to_select="auto"` only: those features are selected that were
      chosen in more than this share of the parts, by default a half, or the best one if there is
      none.
    - `random_state`: of the draws, and of the estimator where it has none of its own.

    **Attributes** beside those of `Selector`:

    - `mean_ranks_ (d,)`, `rank_deviations_ (d,)`: mean and standard deviation of the rank.
    - `stability_`, `stability_interval_ (2,)`: Nogueira's measure of all B selections (1: always
      the same features; about 0: as if at random) and its 95% confidence interval; NaN where every
      selection has all features.

    **Reference** Meinshausen and Bühlmann, *Stability selection*, 2010; `jaxfs.stability`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> inside = ReliefF(n_features_to_select=2)
    >>> selector = StabilitySelector(inside, n_resamples=10, random_state=0).fit(X, y)
    >>> selector.scores_.tolist()
    [0.0, 0.0, 1.0, 1.0]
    """

    estimator: Any = dataclasses.field(kw_only=False)
    n_resamples: int = 50
    fraction: float = 0.5
    threshold: float | None = None
    random_state: Any = None

    def _target_kind(self) -> str:
        return _checked(self.estimator, "estimator")._target_kind()

    def _answer(self, problem: Problem) -> dict[str, Any]:
        wanted = self._wanted(problem.num_features)
        setting = 'n_features_to_select="auto"'
        _checks.only_if(wanted is None, self.threshold, "threshold", setting)
        number = _checks.integer(self.n_resamples, "n_resamples", low=2)
        _checks.number(self._threshold(), "threshold", low=0, high=1, scalar=True)
        chosen, ranks = self._resample(problem, number)
        frequencies = chosen.mean(axis=0)
        mean_ranks = ranks.mean(axis=0)
        varied = 0 < chosen.sum() < chosen.size
        found = selection_stability(chosen) if varied else None
        return {
            "scores_": frequencies.astype(problem.values.dtype),
            "order": np.lexsort((mean_ranks, -frequencies)),
            "mean_ranks_": mean_ranks,
            "rank_deviations_": ranks.std(axis=0, ddof=1),
            "stability_": float(found.stability) if found else float("nan"),
            "stability_interval_": np.asarray(found.interval) if found else np.full(2, np.nan),
        }

    def _resample(self, problem: Problem, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Which features were chosen in every part, and their ranks."""
        groups = problem.target if problem.num_classes else None
        draw = check_random_state(self.random_state)
        masks = np.asarray(
            subsample_masks(
                random_key(draw),
                number,
                problem.num_samples,
                fraction=self.fraction,
                groups=groups,
            )
        )
        y = _labels(self, problem)
        chosen, ranks = [], []
        with _progress.bar("resamples", number, show=self.verbose) as done:
            for rows in masks:
                part = None if y is None else y[rows]
                inside = _seeded(clone(self.estimator), draw).fit(problem.values[rows], part)
                chosen.append(inside.get_support())
                ranks.append(inside.ranking_)
                done(1)
        return np.array(chosen), np.array(ranks, np.float64)

    def _threshold(self) -> float:
        return 0.5 if self.threshold is None else self.threshold

    def _number(self, scores: np.ndarray, order: np.ndarray) -> int:
        if self._wanted(scores.size) is None:
            return max(1, int((scores > self._threshold()).sum()))
        return super()._number(scores, order)

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        size = max(1, int(self.fraction * n))
        numbers, *operations = self.estimator._work(size, d, c)
        return _cost.Work(numbers, *(self.n_resamples * each for each in operations))
