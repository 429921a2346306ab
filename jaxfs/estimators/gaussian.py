"""The Gaussian compromise, the Gaussian KL bound and canonical correlation as estimators."""

from typing import Any

from jaxfs._types import Selection
from jaxfs.estimators import _cost
from jaxfs.estimators._base import GreedySelector, estimator
from jaxfs.estimators._problem import Problem, random_key
from jaxfs.methods.gaussian import cca_select, gc_select, gkl_select
from jaxfs.methods.gaussian._moments import num_places


class _Gaussian(GreedySelector):
    def _factors(self, c: int) -> int:
        """How many arrays (k, d) the search holds, and per feature chosen reads."""
        raise NotImplementedError

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        k = self._wanted(d) or min(50, d)
        blocks, factors = num_places(n, c), self._factors(c)
        # The samples, as they came, sorted and centred; some fifteen vectors of features a factor.
        numbers = (n + 2 * blocks + factors * (k + 15)) * d
        return _cost.Work(numbers=numbers, passes=k * d * (2 * n + 2 * factors * k))


def _common(estimator: Any, problem: Problem) -> dict[str, Any]:
    return {
        "num_classes": problem.num_classes,
        "objective": estimator.objective,
        "ridge": estimator.ridge,
        "shrinkage": estimator.shrinkage,
        "weights": problem.weights,
    }


@estimator
class GaussianCompromise(_Gaussian):
    """Features that *jointly* tell most about the class, under a Gaussian for each class.

    Fast for many features, and it avoids redundant ones. By default the units of the features do
    not matter; with `objective="entropy"` or a `ridge` of yours they do.

    **Parameters** beside those of `Selector`, all as in `jaxfs.gc_select`: `objective` (`"mi"` or
    `"entropy"`), `ridge`, `shrinkage`, `fallback` (`"wilks"`, `"random"` or `"stop"`);
    `random_state`, for `"random"`.

    **Attributes** beside those of `Selector`: `objective_ (k,)`, the criterion with the features
    chosen so far; `saturated_at_`, how many were chosen before it could no longer tell candidates
    apart.

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

    def _factors(self, c: int) -> int:
        return c + 2

    def _select(self, problem: Problem, number: int) -> Selection:
        key = random_key(self.random_state) if self.fallback == "random" else None
        found = gc_select(
            problem.x,
            problem.y,
            number,
            fallback=self.fallback,
            key=key,
            **_common(self, problem),
        )
        self.saturated_at_ = int(found.saturated_at)
        return found


@estimator
class GaussianKL(_Gaussian):
    """Features that jointly set each class apart from the rest, by a Kullback–Leibler bound.

    Its default objective, an entropy, depends on the units of the features: standardise those whose
    units mean nothing, or take `objective="mi"`.

    **Parameters** beside those of `Selector`, all as in `jaxfs.gkl_select`: `objective`
    (`"entropy"` or `"mi"`), `ridge`, `shrinkage`.

    **Attributes** beside those of `Selector`: `objective_ (k,)`.
    """

    objective: str = "entropy"
    ridge: float | None = None
    shrinkage: float | None = None

    def _factors(self, c: int) -> int:
        return 4 * c if c > 2 else 4

    def _select(self, problem: Problem, number: int) -> Selection:
        return gkl_select(problem.x, problem.y, number, **_common(self, problem))


@estimator
class CanonicalCorrelation(_Gaussian):
    """Features that jointly correlate most with the classes, as linear discriminants see them.

    **Parameters** in addition to those of `Selector`: `ridge`, as in `jaxfs.cca_select`.

    **Attributes** in addition to those of `Selector`: `objective_ (k,)`, the sum of squared
    canonical correlations of the features chosen so far.
    """

    ridge: float | None = None

    def _factors(self, c: int) -> int:
        return 1

    def _select(self, problem: Problem, number: int) -> Selection:
        options: dict[str, Any] = {"num_classes": problem.num_classes, "weights": problem.weights}
        return cca_select(problem.x, problem.y, number, ridge=self.ridge, **options)
