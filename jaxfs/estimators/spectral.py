"""Unsupervised estimators that score features on a graph of the samples."""

from typing import Any, ClassVar

from jaxfs import _checks
from jaxfs.estimators._arrays import PaddedData
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.methods import classical
from jaxfs.methods.classical._spectral import NEIGHBORS, min_samples

__all__ = ["LaplacianScore", "MCFS", "SPEC"]


@estimator
class _GraphSelector(ScoringSelector):
    graph: str = "heat"
    n_neighbors: int | None = None

    _guide: ClassVar[str] = "methods/spectral"
    _targets: ClassVar[str] = "none"
    _least_samples: ClassVar[int] = 3

    def _options(self, data: PaddedData) -> dict[str, Any]:
        _checks.option(self.graph, "graph", tuple(NEIGHBORS))
        most = data.num_samples - min_samples(self.graph, 0)
        number = min(NEIGHBORS[self.graph], most)
        if self.n_neighbors is not None:
            number = _checks.integer(self.n_neighbors, "n_neighbors", low=1, high=most)
        return super()._options(data) | {"num_neighbors": number}

    def _score(self, data: PaddedData) -> Any:
        return self._function(data.x, mask=data.weights, **self._options(data))

    def _entries(self, n: int, d: int, c: int) -> float:
        return 3 * n * d + 6 * n**2


@estimator
class LaplacianScore(_GraphSelector):
    """Features that are smooth on a graph of the samples; fast, for clusters, without labels.

    The graph is built from the unscaled data: standardise features that have different units.

    **Parameters** in addition to those of `Selector`: `graph` (`"heat"` or `"adaptive"`) and
    `n_neighbors` (by default 2 or 5, fewer if there are fewer samples), as in
    `jaxfs.laplacian_score`.
    """

    _function = staticmethod(classical.laplacian_score)


@estimator
class SPEC(_GraphSelector):
    """Features that align with the smooth eigenvectors of a sample graph; without labels.

    **Parameters** in addition to those of `Selector` and `LaplacianScore`: `ranking` (`"phi1"`,
    `"phi2"` or `"phi3"`), `power` and, for `"phi3"`, `n_eigenvectors`, as in `jaxfs.spec_score`.
    """

    ranking: str = "phi2"
    power: int = 1
    n_eigenvectors: int | None = None

    _function = staticmethod(classical.spec_score)


@estimator
class MCFS(_GraphSelector):
    """Few features that jointly separate clusters, by sparse regression; without labels.

    Each regression fits one eigenvector of a graph of the samples by a few features.

    **Parameters** in addition to those of `Selector` and `LaplacianScore`:

    - `n_clusters`: number of clusters that you expect, reduced if there are fewer samples.
    - `n_nonzero`: number of features that each regression may use, as in `jaxfs.mcfs_score`; the
      other features score 0.
    """

    n_clusters: int = 5
    n_nonzero: int | None = None

    _least_samples: ClassVar[int] = 4
    _function = staticmethod(classical.mcfs_score)

    def _options(self, data: PaddedData) -> dict[str, Any]:
        clusters = _checks.integer(self.n_clusters, "n_clusters", low=1)
        return super()._options(data) | {"num_clusters": min(clusters, data.num_samples - 1)}
