"""The Dirichlet graph selector as an estimator."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import numpy as np

from jaxfs.estimators import _cost, _progress
from jaxfs.estimators._base import Selector, default_number, estimator
from jaxfs.estimators._problem import Problem, random_key
from jaxfs.methods.dirichlet import Coverage, Energy, Network
from jaxfs.methods.dirichlet._fit import OBJECTIVES, fit_in_steps, training_plan
from jaxfs.methods.dirichlet._training import Steps

#: So many steps of training lie between two looks at the keyboard.
_CHUNK = 25


@estimator
class DirichletGraphSelector(Selector):
    """Features that cover those smooth on a k-NN graph learnt together with them; needs no labels.

    **Parameters** in addition to those of `Selector`, as in `jaxfs.fit_dirichlet_selector`:

    - `objective`: `"coverage"`, `"energy"` or `"network"`, or `jaxfs.Coverage(…)`,
      `jaxfs.Energy(…)` or `jaxfs.Network(…)` with options. `set_params(objective__gamma=0.1)`
      sets one of them.
    - `n_neighbors`: fewer where there are fewer samples.
    - `n_steps`, `learning_rate`, `n_restarts`.
    - `random_state`: an integer seed.

    At most as many features are selected as vary.

    **Attributes** beside those of `Selector`: `scores_` of the features chosen, in their order,
    fall from 2 to above 1; the others have their relevance, in [0, 1], or where it is 0 a number
    below 0.001 by their energy. `relevance_ (d,)`, `energies_ (d,)`: as in
    `jaxfs.DirichletResult`. `graph_`: the k-NN graph of the samples, `indices (n, k)` and
    `weights (n, k)`.

    >>> X = np.random.default_rng(0).normal(size=(60, 6))
    >>> X[:, 4] = np.sin(2 * X[:, 1]) + 0.1 * X[:, 4]
    >>> selector = DirichletGraphSelector(n_features_to_select=2, n_steps=60, random_state=0)
    >>> selector.fit(X).get_support(indices=True).tolist()
    [1, 4]
    """

    objective: str | Coverage | Energy | Network = "coverage"
    n_neighbors: int = 5
    n_steps: int = 400
    learning_rate: float | None = None
    n_restarts: int = 4
    random_state: Any = None

    _targets: ClassVar[str] = "none"
    _least_samples: ClassVar[int] = 3
    _variants: ClassVar[Mapping[str, Mapping[str, type]]] = {"objective": OBJECTIVES}

    def _answer(self, problem: Problem) -> dict[str, Any]:
        d = problem.num_features
        varied = np.ptp(problem.values, axis=0) > 0
        if not varied.any():
            raise ValueError("DirichletGraphSelector needs features that vary, got constants only")
        wanted = self._wanted(d)
        wanted = min(default_number(d) if wanted is None else wanted, int(varied.sum()))
        checked = training_plan(
            problem.x,
            wanted,
            problem.weights,
            objective=self.objective,
            num_neighbors=min(self.n_neighbors, problem.num_samples - 2),
            num_steps=self.n_steps,
            learning_rate=self.learning_rate,
            num_restarts=self.n_restarts,
        )
        key = random_key(self.random_state)
        with _progress.bar("steps", self.n_steps, show=self.verbose) as done:
            found = fit_in_steps(key, *checked, _in_chunks(done))
        return self._described(jax.tree.map(np.asarray, found), problem)

    def _described(self, found, problem: Problem) -> dict[str, Any]:
        order = found.indices
        if np.any(order < 0):
            raise ValueError("DirichletGraphSelector has no answer: the numbers are too large")
        n, d = problem.values.shape
        relevance, energies = found.relevance[:d], found.energies[:d]
        scores = np.maximum(relevance, 1e-3 * np.exp(-energies))
        scores[order] = 2 - np.arange(order.size) / order.size
        ranked = np.argsort(-scores, stable=True)
        others = ranked[~np.isin(ranked, order)]
        return {
            "scores_": scores,
            "order": np.concatenate([order, others]),
            "relevance_": relevance,
            "energies_": energies,
            "graph_": jax.tree.map(lambda a: a[:n], found.graph),
        }

    def _number(self, scores: np.ndarray, order: np.ndarray) -> int:
        return int((scores > 1).sum())

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        batch = min(n, 256, max(32, 2**22 // (d * (self.n_neighbors + 1))))
        step = 2 * batch * min(n, 1024) * d
        covers = self.objective == "coverage" or isinstance(self.objective, Coverage)
        cover = 20 * min(n, 1024) * d**2 if covers else 0
        return _cost.Work(
            numbers=8 * n * d + 6 * self.n_restarts * batch * (self.n_neighbors + 1) * d,
            products=3 * self.n_restarts * self.n_steps * step + 2 * n**2 * d + cover,
            passes=50 * self.n_restarts * self.n_steps * batch * (self.n_neighbors + 1) * d,
        )


def _in_chunks(done: Callable[[int], None]) -> Steps:
    """Training in chunks, each finished before the next: between them an interrupt is heard."""

    def steps(run, training):
        total = training.history.shape[-1]
        for first in range(0, total, _CHUNK):
            last = min(first + _CHUNK, total)
            training = jax.block_until_ready(run(training, np.int32(first), np.int32(last)))
            done(last - first)
        return training

    return steps
