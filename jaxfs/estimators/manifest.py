"""ManiFeSt as an estimator."""

import dataclasses
import warnings
from typing import Any, ClassVar

import jax
import numpy as np

from jaxfs import _checks
from jaxfs.estimators import _cost
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.estimators._problem import Problem, random_key
from jaxfs.kernels._rbf import Bandwidth, Percentile
from jaxfs.methods.manifest import (
    manifest_cost,
    manifest_lowrank_score,
    manifest_multiclass_score,
    manifest_score,
)
from jaxfs.methods.manifest._score import AGGREGATES, GEOMETRIES, RIDGE

SOLVERS = ("auto", "exact", "lowrank")
#: The mean of several kernels takes so many iterations, about.
_ITERATIONS = 20
#: With more features of two classes, or more work, `solver="auto"` is not exact.
_LARGEST = 2500
#: Directions that the low-rank solver keeps of each kernel, by default.
_RANK = 200
#: The bandwidth of the low-rank solver is taken from so many features.
_SAMPLE = 2048


@estimator
class ManiFeSt(ScoringSelector):
    """Features whose association with the other features differs most between the classes.

    For few samples of many features that matter *together*: a feature that tells nothing alone may
    come first. Features are compared with each other: give them common units, or standardise.

    **Parameters** beside those of `Selector`:

    - `percentile`, `factor`: the bandwidth of the kernels is `factor` (by default 1) times this
      percentile (by default the 50th) of the distances between features, in each class. A small
      percentile suits few relevant features among many.
    - `bandwidth`: the bandwidth itself, for all classes, in place of `percentile` and `factor`.
      Distances between features grow with the number of samples: with classes of unequal sizes the
      kernels then differ by size alone.
    - `geometry`: `"spd"` or `"spsd"`, as in `jaxfs.manifest_score`. `ridge` (by default 0.01) is
      for `"spd"` only, `rank` for `"spsd"` only.
    - `t`: for two classes only, as in `jaxfs.manifest_score`; by default ½.
    - `aggregate`: for more than two classes only, `"max"` (by default) or `"sum"`, as in
      `jaxfs.manifest_multiclass_score`.
    - `solver`: `"exact"` decomposes matrices of d × d. `"lowrank"` never forms them: for d of ten
      thousands, with `geometry="spd"` (`jaxfs.manifest_lowrank_score`); of more than two classes it
      compares each with all others instead of with their mean, which is another score. `"auto"`:
      exact up to the work of 2500 features of two classes (some 15 s of one core), beyond it low
      rank, with a warning that says so.
    - `lowrank_rank`: how many directions the low-rank solver keeps of each kernel, by default 200;
      not for `solver="exact"`, nor for `geometry="spsd"`.
    - `random_state`: of the low-rank solver, which draws at random.

    An option that has no effect at the other settings is refused.

    **Attributes** beside those of `Selector`: `solver_`, the one that was taken.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> selector = ManiFeSt(n_features_to_select=5).fit(X / X.std(axis=0), y)
    >>> selector.transform(X).shape
    (569, 5)
    """

    percentile: float | None = None
    factor: float | None = None
    bandwidth: float | None = None
    geometry: str = "spd"
    ridge: float | None = None
    rank: int | None = None
    t: float | None = None
    aggregate: str | None = None
    solver: str = "auto"
    lowrank_rank: int | None = None
    random_state: Any = None

    _least_features: ClassVar[int] = 2
    _pad_features: ClassVar[bool] = False
    _no_score: ClassVar[str] = "a kernel is not positive definite; raise the ridge"

    def _rule(self) -> Bandwidth:
        if self.bandwidth is not None:
            return self.bandwidth
        sample = _SAMPLE if self.solver_ == "lowrank" else None
        percentile = 50.0 if self.percentile is None else self.percentile
        return Percentile(percentile, 1.0 if self.factor is None else self.factor, sample)

    def _check_options(self, num_classes: int) -> None:
        """Refuse options without effect, and those that are wrong whether or not they have one."""
        _checks.option(self.solver, "solver", SOLVERS)
        _checks.option(self.geometry, "geometry", GEOMETRIES)
        if self.aggregate is not None:
            _checks.option(self.aggregate, "aggregate", AGGREGATES)
        spd, low = self.geometry == "spd", 'geometry="spd" and solver is not "exact"'
        free = "bandwidth is None"
        _checks.only_if(self.bandwidth is None, self.percentile, "percentile", free)
        _checks.only_if(self.bandwidth is None, self.factor, "factor", free)
        _checks.only_if(spd, self.ridge, "ridge", 'geometry="spd"')
        _checks.only_if(not spd, self.rank, "rank", 'geometry="spsd"')
        _checks.only_if(spd and self.solver != "exact", self.lowrank_rank, "lowrank_rank", low)
        _checks.only_if(num_classes == 2, self.t, "t", "y has two classes")
        several = "y has more than two classes"
        _checks.only_if(num_classes > 2, self.aggregate, "aggregate", several)

    def _score(self, problem: Problem) -> Any:
        options: dict[str, Any] = {"bandwidth": self._rule()}
        if self.solver_ == "lowrank":
            return self._lowrank_score(problem, options)
        options |= {"geometry": self.geometry, "ridge": self.ridge, "rank": self.rank}
        if problem.num_classes == 2:
            (x1, w1), (x2, w2) = problem.of_class(0), problem.of_class(1)
            return manifest_score(x1, x2, t=self._point(), weights1=w1, weights2=w2, **options)
        return manifest_multiclass_score(
            problem.x,
            problem.y,
            num_classes=problem.num_classes,
            aggregate=self.aggregate or "max",
            weights=problem.weights,
            **options,
        )

    def _point(self) -> float:
        return 0.5 if self.t is None else self.t

    def _rank(self, d: int) -> int:
        """The rank of the low-rank solver."""
        return min(_RANK if self.lowrank_rank is None else self.lowrank_rank, d)

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
                rank=self._rank(problem.num_features),
                ridge=RIDGE if self.ridge is None else self.ridge,
                t=self._point(),
                weights1=w1,
                weights2=w2,
                **options,
            )
            scores.append(np.asarray(score))
        return np.sum(scores, axis=0) if self.aggregate == "sum" else np.max(scores, axis=0)

    def _check_cost(self, problem: Problem) -> None:
        n, d = problem.values.shape
        self._check_options(problem.num_classes)
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
        each = manifest_cost(d, n, self._rank(d), np.float64)
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
