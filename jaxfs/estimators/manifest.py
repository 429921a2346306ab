"""Estimator for ManiFeSt."""

import warnings
from typing import Any, ClassVar

import jax
import numpy as np

from jaxfs import _checks
from jaxfs.estimators._arrays import PaddedData, random_key
from jaxfs.estimators._base import ScoringSelector, estimator
from jaxfs.kernels._rbf import Bandwidth, Percentile
from jaxfs.methods.manifest import (
    manifest_cost,
    manifest_lowrank_score,
    manifest_multiclass_score,
    manifest_score,
)
from jaxfs.methods.manifest._score import AGGREGATES, GEOMETRIES, RIDGE

__all__ = ["ManiFeSt"]

SOLVERS = ("auto", "exact", "lowrank")
#: Work of the exact mean of several classes, in decompositions for each class; measured.
_PER_CLASS = 8
#: Maximum number of features for which `solver="auto"` is exact with two classes. With ten classes
#: the maximum is 877 features: the 784 pixels of MNIST use the exact mean.
_LARGEST = 3000
#: Default number of directions of each kernel that the low-rank solver keeps.
_RANK = 200
#: Number of features in the sample from which the low-rank solver computes its bandwidth.
_SAMPLE = 2048


@estimator
class ManiFeSt(ScoringSelector):
    """Features whose relations to the other features differ between classes; for few samples.

    ManiFeSt finds features that are informative *together*: a feature that is uninformative alone
    may rank first. It compares features with each other, so use common units or standardise them.

    **Parameters** in addition to those of `Selector`:

    - `percentile`, `factor`: the bandwidth of the kernel of a class is `factor` (by default 1)
      times this percentile (by default the 50th) of the distances between features in the class. A
      small percentile is suitable if few of many features are relevant.
    - `bandwidth`: one bandwidth for all classes, instead of `percentile` and `factor`. Distances
      between features grow with the number of samples. With one bandwidth, the kernels of classes
      of unequal sizes therefore differ even if the classes are otherwise alike.
    - `geometry`: `"spd"` or `"spsd"`, as in `jaxfs.manifest_score`. `ridge` (by default 0.01) is
      for `"spd"` only, `rank` for `"spsd"` only.
    - `t`: for two classes only, as in `jaxfs.manifest_score`; by default ½.
    - `aggregate`: for more than two classes only, `"max"` (by default) or `"sum"`, as in
      `jaxfs.manifest_multiclass_score`.
    - `solver`: `"exact"` decomposes d × d matrices. `"lowrank"` never forms these matrices and is
      suitable for tens of thousands of features; it needs `geometry="spd"` (see
      `jaxfs.manifest_lowrank_score`). For more than two classes, `"lowrank"` compares each class
      with all other samples, and `"exact"` compares it with the mean of the classes: the scores
      differ. `"auto"` uses the exact solver up to the work of 3000 features of two classes, which
      is also the work of 1310 features of three classes, and of 877 features of ten. For more work
      it uses the low-rank solver and warns.
    - `lowrank_rank`: number of directions of each kernel that the low-rank solver keeps, by default
      200; not for `solver="exact"` or `geometry="spsd"`.
    - `random_state`: seed of the low-rank solver, which uses random numbers.

    An option that has no effect with the other settings raises `ValueError`.

    **Attributes** in addition to those of `Selector`: `solver_`, the solver that was used.

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

    def _prepare(self, data: PaddedData) -> None:
        d, c = data.num_features, data.num_classes
        _checks.option(self.geometry, "geometry", GEOMETRIES)
        if self.aggregate is not None:
            _checks.option(self.aggregate, "aggregate", AGGREGATES)
        spd, free = self.geometry == "spd", self.bandwidth is None
        low = 'geometry="spd" and solver is not "exact"'
        _checks.only_if(free, self.percentile, "percentile", "bandwidth is None")
        _checks.only_if(free, self.factor, "factor", "bandwidth is None")
        _checks.only_if(spd, self.ridge, "ridge", 'geometry="spd"')
        _checks.only_if(not spd, self.rank, "rank", 'geometry="spsd"')
        _checks.only_if(spd and self.solver != "exact", self.lowrank_rank, "lowrank_rank", low)
        _checks.only_if(c == 2, self.t, "t", "y has two classes")
        _checks.only_if(c > 2, self.aggregate, "aggregate", "y has more than two classes")
        self.solver_ = self._chosen_solver(d, c)
        if self.solver_ == "lowrank" and self.solver == "auto":
            warnings.warn(
                f"ManiFeSt uses its low-rank solver, because {d} features of {c} classes are much"
                ' work for the exact one. Pass solver="lowrank" to accept this without a warning,'
                ' or solver="exact" to avoid it',
                UserWarning,
                stacklevel=4,
            )

    def _chosen_solver(self, d: int, c: int) -> str:
        """Return the solver for data of this size.

        The choice depends only on the amount of work, so that the result is the same on every
        machine.
        """
        _checks.option(self.solver, "solver", SOLVERS)
        spd = self.geometry == "spd"
        if self.solver == "lowrank" and not spd:
            raise _checks.fail("geometry", '"spd" for solver="lowrank"', repr(self.geometry))
        if self.solver != "auto":
            return self.solver
        decompositions = 2 if c == 2 else c * _PER_CLASS
        large = decompositions * d**3 > 2 * _LARGEST**3
        return "lowrank" if spd and large else "exact"

    def _score(self, data: PaddedData) -> Any:
        low, several = self.solver_ == "lowrank", data.num_classes > 2
        bandwidth: Bandwidth | None = self.bandwidth
        if bandwidth is None:
            percentile = 50.0 if self.percentile is None else self.percentile
            factor = 1.0 if self.factor is None else self.factor
            bandwidth = Percentile(percentile, factor, _SAMPLE if low else None)
        options: dict[str, Any] = {"bandwidth": bandwidth}
        if not several:
            options["t"] = 0.5 if self.t is None else self.t
        if low:
            ridge = RIDGE if self.ridge is None else self.ridge
            rank = self._lowrank_rank(data.num_features)
            return self._lowrank_score(data, options | {"ridge": ridge, "rank": rank})
        options |= {"geometry": self.geometry, "ridge": self.ridge, "rank": self.rank}
        if several:
            aggregate = self.aggregate or "max"
            return data.call(manifest_multiclass_score, aggregate=aggregate, **options)
        return manifest_score(**data.against_rest(0), **options)

    def _lowrank_score(self, data: PaddedData, options: dict[str, Any]) -> np.ndarray:
        """Score two classes, or each of several classes against all other samples."""
        keys = jax.random.split(random_key(self.random_state), data.num_classes)
        scores = []
        for code, key in enumerate(keys if data.num_classes > 2 else keys[:1]):
            scores.append(manifest_lowrank_score(key, **data.against_rest(code), **options))
        return np.sum(scores, axis=0) if self.aggregate == "sum" else np.max(scores, axis=0)

    def _lowrank_rank(self, d: int) -> int:
        return min(_RANK if self.lowrank_rank is None else self.lowrank_rank, d)

    def _entries(self, n: int, d: int, c: int) -> float:
        if self._chosen_solver(d, c) == "exact":
            return (8 if c == 2 else 6 * c) * d**2 + 2 * n * d
        lowrank = manifest_cost(d, n, self._lowrank_rank(d), np.float64).memory_bytes / 8
        return lowrank + 2 * n * d + 3 * min(d, _SAMPLE) ** 2

    def _advice(self, data: PaddedData) -> str:
        if self.solver_ == "lowrank":
            return "Lower lowrank_rank"
        if self.geometry == "spd":
            return 'solver="lowrank" needs little'
        return super()._advice(data)
