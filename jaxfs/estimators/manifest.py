"""ManiFeSt as an estimator."""

import dataclasses
import warnings
from typing import Any, ClassVar

import jax
import numpy as np

from jaxfs import _checks
from jaxfs._types import Bandwidth, Percentile
from jaxfs.estimators import _cost
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.estimators._problem import Problem, random_key
from jaxfs.methods.manifest import AGGREGATES, manifest_multiclass_score, manifest_score
from jaxfs.methods.manifest_lowrank import manifest_cost, manifest_lowrank_score

SOLVERS = ("auto", "exact", "lowrank")
#: The mean of several kernels takes so many iterations, about.
_ITERATIONS = 20
#: With more features of two classes, or more work, `solver="auto"` is not exact.
_LARGEST = 2500
#: The bandwidth of the low-rank solver is taken from so many features.
_SAMPLE = 2048


@estimator
class ManiFeSt(ScoringSelector):
    """Features whose association with the other features differs most between the classes.

    For few samples of many features that matter *together*: a feature that tells nothing alone may
    come first. Features are compared with each other: give them common units, or standardise.

    **Parameters** beside those of `Selector`:

    - `percentile`, `factor`: the bandwidth of the kernels is `factor` times this percentile of the
      distances between features, in each class. A small percentile suits few relevant features
      among many.
    - `bandwidth`: or the bandwidth itself, for all classes.
    - `geometry`, `ridge`, `rank`, `t`: as in `jaxfs.manifest_score`; `t` is for two classes.
    - `aggregate`: of more than two classes, `"max"` or `"sum"` (`jaxfs.manifest_multiclass_score`).
    - `solver`: `"exact"` decomposes matrices of d × d. `"lowrank"` never forms them: for d of ten
      thousands, with `geometry="spd"` (`jaxfs.manifest_lowrank_score`); of more than two classes it
      compares each with all others instead of with their mean, which is another score. `"auto"`:
      exact up to the work of 2500 features of two classes (some 15 s of one core), beyond it low
      rank, with a warning that says so.
    - `lowrank_rank`: how many directions the low-rank solver keeps of each kernel.
    - `random_state`: of the low-rank solver, which draws at random.

    **Attributes** beside those of `Selector`: `solver_`, the one that was taken.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> selector = ManiFeSt(n_features_to_select=5).fit(X / X.std(axis=0), y)
    >>> selector.transform(X).shape
    (569, 5)
    """

    percentile: float = 50.0
    factor: float = 1.0
    bandwidth: float | None = None
    geometry: str = "spd"
    ridge: float = 1e-2
    rank: int | None = None
    t: float = 0.5
    aggregate: str = "max"
    solver: str = "auto"
    lowrank_rank: int = 200
    random_state: Any = None

    _least_features: ClassVar[int] = 2
    _pad_features: ClassVar[bool] = False
    _no_score: ClassVar[str] = "a kernel is not positive definite; raise the ridge"

    def _rule(self) -> Bandwidth:
        if self.bandwidth is not None:
            return self.bandwidth
        sample = _SAMPLE if self.solver_ == "lowrank" else None
        return Percentile(self.percentile, self.factor, sample)

    def _score(self, problem: Problem) -> Any:
        options: dict[str, Any] = {"bandwidth": self._rule(), "ridge": self.ridge}
        if self.solver_ == "lowrank":
            return self._lowrank_score(problem, options)
        options |= {"geometry": self.geometry, "rank": self.rank}
        if problem.num_classes == 2:
            (x1, w1), (x2, w2) = problem.of_class(0), problem.of_class(1)
            return manifest_score(x1, x2, t=self.t, weights1=w1, weights2=w2, **options)
        return manifest_multiclass_score(
            problem.x,
            problem.y,
            num_classes=problem.num_classes,
            aggregate=self.aggregate,
            weights=problem.weights,
            **options,
        )

    def _lowrank_score(self, problem: Problem, options: dict[str, Any]) -> Any:
        keys = jax.random.split(random_key(self.random_state), problem.num_classes)
        several = problem.num_classes > 2
        scores = []
        for code in range(problem.num_classes if several else 1):
            two = _against_rest(problem, code)
            (x1, w1), (x2, w2) = two.of_class(0), two.of_class(1)
            score = manifest_lowrank_score(
                keys[code],
                x1,
                x2,
                rank=min(self.lowrank_rank, problem.num_features),
                t=0.5 if several else self.t,
                weights1=w1,
                weights2=w2,
                **options,
            )
            scores.append(np.asarray(score))
        _checks.option(self.aggregate, "aggregate", AGGREGATES)
        return np.max(scores, axis=0) if self.aggregate == "max" else np.sum(scores, axis=0)

    def _check_cost(self, problem: Problem) -> None:
        n, d = problem.values.shape
        self.solver_ = self._taken(n, d, problem.num_classes)
        if self.solver_ == "lowrank" and self.solver == "auto":
            warnings.warn(
                f"ManiFeSt takes its low-rank solver: exactly, {d} features of"
                f" {problem.num_classes} classes are much work."
                ' solver="lowrank" does so silently, solver="exact" does not',
                UserWarning,
                stacklevel=4,
            )
        super()._check_cost(problem)

    def _taken(self, n: int, d: int, c: int) -> str:
        """The solver for data of this size.

        By the work alone: the answer must not depend on how busy a machine is, nor on how large.
        """
        _checks.option(self.solver, "solver", SOLVERS)
        possible = self.geometry == "spd"
        if self.solver == "lowrank" and not possible:
            raise _checks.fail("geometry", '"spd" for solver="lowrank"', repr(self.geometry))
        if self.solver != "auto" or not possible:
            return "exact" if self.solver == "auto" else self.solver
        few = _exact_work(n, d, c).cubes <= _exact_work(n, _LARGEST, 2).cubes
        return "exact" if few else "lowrank"

    def _advice(self, problem: Problem) -> str:
        if self.solver_ == "lowrank":
            return "Lower lowrank_rank"
        if self.geometry == "spd":
            return 'solver="lowrank" needs little'
        return super()._advice(problem)

    def _work(self, n: int, d: int, c: int) -> _cost.Work:
        if self._taken(n, d, c) == "exact":
            return _exact_work(n, d, c)
        each = manifest_cost(d, n, min(self.lowrank_rank, d), np.float64)
        return _cost.Work(
            numbers=each.memory_bytes / 8 + 2 * n * d + 3 * min(d, _SAMPLE) ** 2,
            products=each.flops * (1 if c == 2 else c),
        )


def _exact_work(n: int, d: int, c: int) -> _cost.Work:
    """Of matrices of d × d."""
    decompositions = 2 if c == 2 else c * (_ITERATIONS + 3)
    matrices = 8 if c == 2 else 6 * c
    return _cost.Work(
        numbers=matrices * d**2 + 2 * n * d,
        products=2 * n * d**2,
        cubes=2 * decompositions * d**3,  # and products of that size
        passes=40 * c * d**2,  # the percentile is found by counting
    )


def _against_rest(problem: Problem, code: int) -> Problem:
    """One class against all others; of two classes, against the other."""
    target = np.asarray(problem.target != code, np.int32)
    return dataclasses.replace(problem, target=target, num_classes=2)
