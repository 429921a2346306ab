"""Unsupervised scores by the graph of the samples, as estimators."""

from typing import Any, ClassVar

from jaxfs import _checks
from jaxfs.estimators import _cost
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.estimators._problem import Problem
from jaxfs.methods.classical import laplacian_score, mcfs_score, spec_score

#: Neighbours by default, and how many more samples each graph needs.
_DEFAULT = {"heat": (2, 1), "adaptive": (5, 2)}


@estimator
class _OnGraph(ScoringSelector):
    graph: str = "heat"
    n_neighbors: int | None = None

    _targets: ClassVar[str] = "none"
    _least_samples: ClassVar[int] = 3

    def _graph(self, problem: Problem) -> dict[str, Any]:
        number, more = _DEFAULT[_checks.option(self.graph, "graph", tuple(_DEFAULT))]
        most = problem.num_samples - more
        if self.n_neighbors is None:
            number = min(number, most)
        else:
            number = _checks.integer(self.n_neighbors, "n_neighbors", low=1, high=most)
        return {"graph": self.graph, "num_neighbors": number, "mask": problem.weights}

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        return _cost.Work(numbers=3 * n * d + 6 * n**2, products=4 * n**2 * d, passes=10 * n**2)


@estimator
class LaplacianScore(_OnGraph):
    """Features that are smooth on a graph of the samples; needs no labels.

    The graph is of the data as they are: standardise features of different units.

    **Parameters** beside those of `Selector`: `graph` (`"heat"` or `"adaptive"`) and `n_neighbors`
    (by default 2 or 5, fewer where there are fewer samples), as in `jaxfs.laplacian_score`.
    """

    def _score(self, problem: Problem) -> Any:
        return laplacian_score(problem.x, **self._graph(problem))


@estimator
class SPEC(_OnGraph):
    """Features that lie in the smooth eigenvectors of a graph of the samples; needs no labels.

    **Parameters** beside those of `Selector` and `LaplacianScore`: `ranking` (`"phi1"`, `"phi2"` or
    `"phi3"`), `power` and, for `"phi3"`, `n_eigenvectors`, as in `jaxfs.spec_score`.
    """

    ranking: str = "phi2"
    power: int = 1
    n_eigenvectors: int | None = None

    def _score(self, problem: Problem) -> Any:
        return spec_score(
            problem.x,
            ranking=self.ranking,
            power=self.power,
            num_eigenvectors=self.n_eigenvectors,
            **self._graph(problem),
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        work = super()._work(n, d, c)
        cubes = n**3 if self.ranking == "phi3" else 0
        return work._replace(products=work.products * self.power, cubes=cubes)


@estimator
class MCFS(_OnGraph):
    """Features that tell clusters apart, by sparse regression of a graph's eigenvectors; no labels.

    **Parameters** beside those of `Selector` and `LaplacianScore`:

    - `n_clusters`: how many clusters are expected; fewer where there are fewer samples.
    - `n_nonzero`: how many features each regression may use, as in `jaxfs.mcfs_score`; the others
      score 0.
    """

    n_clusters: int = 5
    n_nonzero: int | None = None

    _least_samples: ClassVar[int] = 4

    def _score(self, problem: Problem) -> Any:
        clusters = _checks.integer(self.n_clusters, "n_clusters", low=1)
        return mcfs_score(
            problem.x,
            num_clusters=min(clusters, problem.num_samples - 1),
            num_nonzero=self.n_nonzero,
            **self._graph(problem),
        )

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        work = super()._work(n, d, c)
        steps = self.n_clusters * (self.n_nonzero or 50)
        return work._replace(cubes=n**3, passes=work.passes + 2 * steps * n * d)
