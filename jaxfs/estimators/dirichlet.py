"""Estimator for the Dirichlet graph selector."""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np

from jaxfs.estimators import _progress
from jaxfs.estimators._arrays import PaddedData, random_key
from jaxfs.estimators._base import Selector, default_number, estimator
from jaxfs.methods.dirichlet import Coverage, Energy, Network, fit_dirichlet_selector
from jaxfs.methods.dirichlet._fit import OBJECTIVES
from jaxfs.methods.dirichlet._training import reporting

__all__ = ["DirichletGraphSelector"]


@estimator
class DirichletGraphSelector(Selector):
    """Features that represent all features with structure, by a learnt graph; slow.

    The method learns a k-NN graph of the samples together with the selection. The selected features
    represent all features that are smooth on this graph; the relations between features may be
    linear or nonlinear. No labels are needed.

    **Parameters** in addition to those of `Selector`, as in `jaxfs.fit_dirichlet_selector`:

    - `objective`: `"coverage"`, `"energy"` or `"network"`, or `jaxfs.Coverage(…)`,
      `jaxfs.Energy(…)` or `jaxfs.Network(…)` with options. `set_params(objective__gamma=0.1)`
      sets one option.
    - `n_neighbors`: number of neighbours, reduced if there are fewer samples.
    - `n_steps`, `learning_rate`, `n_restarts`.
    - `random_state`: an integer seed.

    Constant features are never selected.

    **Attributes** in addition to those of `Selector`:

    - `scores_ (d,)`: the scores of the chosen features decrease from 2 to a number above 1, in the
      order of choice. The score of any other feature is its relevance, in [0, 1], or
      0.001 · exp(−energy) if this is larger.
    - `relevance_ (d,)`, `energies_ (d,)`: as in `jaxfs.DirichletResult`.
    - `graph_`: the k-NN graph of the samples, with `indices (n, k)` and `weights (n, k)`.

    >>> X = np.random.default_rng(0).normal(size=(60, 6))
    >>> X[:, 4] = np.sin(2 * X[:, 1]) + 0.1 * X[:, 4]
    >>> selector = DirichletGraphSelector(n_features_to_select=2, n_steps=60, random_state=0)
    >>> selector.fit(X).get_support(indices=True).tolist()
    [1, 4]
    """

    objective: str | Coverage | Energy | Network = "coverage"
    n_neighbors: int = 5
    n_steps: int = 200
    learning_rate: float | None = None
    n_restarts: int = 4
    random_state: Any = None

    _guide: ClassVar[str] = "methods/dirichlet"
    _targets: ClassVar[str] = "none"
    _least_samples: ClassVar[int] = 3
    _variants: ClassVar[Mapping[str, Mapping[str, type]]] = {"objective": OBJECTIVES}

    def _options(self, data: PaddedData) -> dict[str, Any]:
        number = min(self.n_neighbors, data.num_samples - 2)
        return super()._options(data) | {"num_neighbors": number}

    def _answer(self, data: PaddedData, wanted: int | None) -> dict[str, Any]:
        n, d = data.values.shape
        varied = int(np.count_nonzero(np.ptp(data.values, axis=0) > 0))
        if not varied:
            raise ValueError("DirichletGraphSelector needs features that vary, got constants only")
        stages = 2 if self.objective == "energy" or isinstance(self.objective, Energy) else 1
        steps = stages * self.n_steps
        with _progress.bar("steps", steps, show=self.verbose) as done, reporting(done):
            found = fit_dirichlet_selector(
                random_key(self.random_state),
                data.x,
                min(wanted or default_number(d), varied),
                mask=data.weights,
                **self._options(data),
            )
        found = jax.tree.map(np.asarray, found)
        order = found.indices
        if np.any(order < 0):
            raise ValueError("DirichletGraphSelector has no result: the numbers are too large")
        relevance, energies = found.relevance[:d], found.energies[:d]
        scores = np.maximum(relevance, 1e-3 * np.exp(-energies))
        scores[order] = 2 - np.arange(order.size) / order.size
        return {
            "scores_": scores,
            "order": np.argsort(-scores, stable=True),
            "number": order.size,
            "relevance_": relevance,
            "energies_": energies,
            "graph_": jax.tree.map(lambda a: a[:n], found.graph),
        }

    def _entries(self, n: int, d: int, c: int) -> float:
        near = self.n_neighbors + 1
        batch = min(n, 256, max(32, 2**22 // (d * near)))
        return 8 * n * d + 6 * self.n_restarts * batch * near * d
