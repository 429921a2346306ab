"""ReliefF and RReliefF as estimators."""

from typing import Any, ClassVar

from jaxfs import _checks
from jaxfs.estimators import _cost
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.estimators._problem import Problem
from jaxfs.methods.classical import relieff_score, rrelieff_score


@estimator
class ReliefF(ScoringSelector):
    """Features that differ between near samples of different classes: interactions count.

    **Parameters** beside those of `Selector`: `n_neighbors`, how many near samples of each class
    are looked at; one less than the smallest class has samples, if that is fewer. A class of one
    sample has none, and is refused.

    **Reference** `jaxfs.relieff_score`.

    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> selector = ReliefF(n_features_to_select=2).fit(iris.data, iris.target)
    >>> selector.get_feature_names_out(iris.feature_names).tolist()
    ['petal length (cm)', 'petal width (cm)']
    """

    n_neighbors: int = 10

    def _score(self, problem: Problem) -> Any:
        k = _checks.integer(self.n_neighbors, "n_neighbors", low=1)
        return relieff_score(
            problem.x,
            problem.y,
            num_classes=problem.num_classes,
            num_neighbors=problem.neighbors(k, "ReliefF"),
            weights=problem.weights,
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        return relief_work(n, d, c * self.n_neighbors)


@estimator
class RReliefF(ScoringSelector):
    """ReliefF for a target that is a number.

    **Parameters** beside those of `Selector`: `n_neighbors`, as many near samples are looked at, at
    most all others; `sigma`: how fast their influence falls with their rank, or `None`.

    **Reference** `jaxfs.rrelieff_score`.
    """

    n_neighbors: int = 10
    sigma: float | None = 20.0

    _targets: ClassVar[str] = "numbers"

    def _score(self, problem: Problem) -> Any:
        k = _checks.integer(self.n_neighbors, "n_neighbors", low=1)
        return rrelieff_score(
            problem.x,
            problem.y,
            num_neighbors=min(k, problem.num_samples - 1),
            sigma=self.sigma,
            weights=problem.weights,
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        return relief_work(n, d, self.n_neighbors)


def relief_work(n: int, d: int, near: int) -> _cost.Work:
    block = min(128, n, max(1, 2**23 // (4 * n + 2 * near * d)))
    return _cost.Work(numbers=2 * n * d + block * (4 * n + 2 * near * d), passes=n * d * (n + near))
