"""Estimator for ManiFeSt."""

import dataclasses
import functools
import math
import warnings
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxfs import _checks
from jaxfs.estimators import _progress
from jaxfs.estimators._arrays import PaddedData, random_key
from jaxfs.estimators._base import ScoringSelector, WeightedFit, estimator
from jaxfs.estimators._significance import CoreScore
from jaxfs.kernels._rbf import Bandwidth, Percentile
from jaxfs.methods.manifest import (
    manifest_bandwidth,
    manifest_cost,
    manifest_lowrank_score,
    manifest_multiclass_score,
    manifest_score,
)
from jaxfs.methods.manifest._bandwidth import PARTNERS, combined_score
from jaxfs.methods.manifest._multiclass import AGGREGATES
from jaxfs.methods.manifest._score import GEOMETRIES, RIDGE

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
#: Number of blocks of features in the low-rank solver at small bandwidths. More blocks are faster
#: and less accurate: with 8, 77 of the top 100 features of Prostate-GE at a quarter of the median
#: are also those of the exact score, with 4 they are 87.
_BLOCKS = 4


@estimator
class ManiFeSt(WeightedFit, ScoringSelector):
    """Features whose relations to the other features differ between classes; for few samples.

    ManiFeSt finds features that are informative *together*: a feature that is uninformative alone
    may rank first. It compares features with each other, so use common units or standardise them.
    By default the bandwidth of its kernels is chosen by cross-validation, and ReliefF is added to
    its score. Use `combine=None` for the score of the paper. The number of features `"fdr"` needs
    `combine=None` and a given bandwidth, because all relabelings must have the same score.

    **Parameters** in addition to those of `Selector`:

    - `bandwidth`: `"auto"` (by default) takes 4, 1, ¼ or 1/16 of the median distance between the
      features of a class, whichever predicts the class best in cross-validation
      (`jaxfs.manifest_bandwidth`). A number is one bandwidth for all classes. Distances between
      features grow with the number of samples. With one number, the kernels of classes of unequal
      sizes therefore differ even if the classes are otherwise alike.
    - `percentile`, `factor`: with either of them, nothing is chosen: the bandwidth of the kernel of
      a class is `factor` (by default 1) times this percentile (by default the 50th) of the
      distances between features in the class.
    - `combine`: `"relieff"` (by default) or `"anova"` adds the score of ReliefF, or the root of the
      F statistic, as `jaxfs.combine_scores` with `method="robust"` does; `None` adds nothing.
      `"relieff"` uses at most 2000 samples, drawn from every class.
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
      it uses the low-rank solver and warns. If `factor_` is below 1 and there are 10 to 40 times
      `lowrank_rank` features, the low-rank solver uses exact kernels within four blocks of
      features.
    - `lowrank_rank`: number of directions of each kernel that the low-rank solver keeps, by default
      200; not for `solver="exact"` or `geometry="spsd"`.
    - `random_state`: seed of the folds and of the low-rank solver. The folds are the same in every
      fit if it is `None`. A sample of weight 2 is in one fold, and two equal samples may be in two:
      the chosen bandwidth can then differ.

    An option that has no effect with the other settings raises `ValueError`.

    **Attributes** in addition to those of `Selector`:

    - `solver_`: the solver that was used.
    - `factor_`: the chosen multiple of the median distance; `factor` if it is given, and `None` if
      `bandwidth` is a number.
    - `factor_losses_`: a dict from every multiple that was tried to its mean hinge loss in
      cross-validation; empty if nothing was chosen.
    - `notes_`: a list of texts that say what was chosen, and how much better it is than the next.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> selector = ManiFeSt(n_features_to_select=5).fit(X / X.std(axis=0), y)
    >>> selector.transform(X).shape
    (569, 5)
    >>> sorted(selector.factor_losses_)
    [0.0625, 0.25, 1.0, 4.0]
    """

    percentile: float | None = None
    factor: float | None = None
    bandwidth: float | str = "auto"
    combine: str | None = "relieff"
    geometry: str = "spd"
    ridge: float | None = None
    rank: int | None = None
    t: float | None = None
    aggregate: str | None = None
    solver: str = "auto"
    lowrank_rank: int | None = None
    random_state: Any = None

    _guide: ClassVar[str] = "methods/manifest"
    _least_features: ClassVar[int] = 2
    _pad_features: ClassVar[bool] = False
    _no_score: ClassVar[str] = "a kernel is not positive definite; raise the ridge"

    def _prepare(self, data: PaddedData) -> None:
        d, c = data.num_features, data.num_classes
        _checks.option(self.geometry, "geometry", GEOMETRIES)
        if self.aggregate is not None:
            _checks.option(self.aggregate, "aggregate", AGGREGATES)
        if self.combine is not None:
            _checks.option(self.combine, "combine", PARTNERS)
        spd, free = self.geometry == "spd", isinstance(self.bandwidth, str)
        if free:
            _checks.option(self.bandwidth, "bandwidth", ("auto",))
        low = 'geometry="spd" and solver is not "exact"'
        _checks.only_if(free, self.percentile, "percentile", 'bandwidth="auto"')
        _checks.only_if(free, self.factor, "factor", 'bandwidth="auto"')
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

    def _chosen_bandwidth(self, data: PaddedData) -> Bandwidth:
        """Return the bandwidth, chosen by cross-validation if no parameter sets it."""
        self.factor_: float | None = None
        self.factor_losses_: dict[float, float] = {}
        self.notes_: list[str] = []
        if not isinstance(self.bandwidth, str):
            return self.bandwidth
        percentile = 50.0 if self.percentile is None else self.percentile
        self.factor_ = 1.0 if self.factor is None else self.factor
        if self._chooses_factor():
            key = random_key(0 if self.random_state is None else self.random_state)
            found = _single(data).call(
                functools.partial(manifest_bandwidth, key), combine=self.combine
            )
            self._note_choice(np.asarray(found.factors), np.asarray(found.losses))
        sample = _SAMPLE if self.solver_ == "lowrank" else None
        return Percentile(percentile, self.factor_, sample)

    def _note_choice(self, factors: np.ndarray, losses: np.ndarray) -> None:
        """Set `factor_`, `factor_losses_` and `notes_`."""
        if np.isnan(losses).any():
            note = "bandwidth: 1 × median, because no class has two samples for cross-validation"
        else:
            best, second = np.argsort(losses, stable=True)[:2]
            self.factor_ = float(factors[best])
            self.factor_losses_ = dict(zip(factors.tolist(), losses.tolist(), strict=True))
            chosen = f"bandwidth: {self.factor_:g} × median, by cross-validation"
            next_best = f"next {losses[second]:.3f} for {factors[second]:g} × median"
            note = f"{chosen}: hinge loss {losses[best]:.3f}, {next_best}"
        self.notes_ = [note]
        if self.verbose:
            _progress.say(f"ManiFeSt: {note}")

    def _score(self, data: PaddedData) -> Any:
        scores: Any
        options = self._score_options(data, self._chosen_bandwidth(data))
        if self.solver_ == "lowrank":
            scores = self._lowrank_score(data, options)
        elif data.num_classes > 2:
            scores = data.call(manifest_multiclass_score, **options)
        else:
            scores = manifest_score(**data.against_rest(0), **options)
        if self.combine is None:
            return scores
        return data.call(functools.partial(combined_score, scores), combine=self.combine)

    def _label_score(self, data: PaddedData) -> Any:
        if self.solver_ == "lowrank":
            raise ValueError(
                'n_features_to_select="fdr" needs the exact solver: the low-rank one is random, and'
                ' too slow for many relabelings. Use a number of features, "one_se", or'
                ' solver="exact"'
            )
        if self.combine is not None or self._chooses_factor():
            raise ValueError(
                'n_features_to_select="fdr" needs one score for all relabelings: pass combine=None,'
                " and a factor, percentile or bandwidth"
            )
        options = self._score_options(data, self._chosen_bandwidth(data))
        if data.num_classes > 2:
            options["num_classes"] = data.num_classes
            return CoreScore(manifest_multiclass_score, tuple(sorted(options.items())))
        return CoreScore(_score_of_labels, tuple(sorted(options.items())))

    def _chooses_factor(self) -> bool:
        return isinstance(self.bandwidth, str) and self.percentile is None and self.factor is None

    def _score_options(self, data: PaddedData, bandwidth: Bandwidth) -> dict[str, Any]:
        low, several = self.solver_ == "lowrank", data.num_classes > 2
        options: dict[str, Any] = {"bandwidth": bandwidth}
        if not several:
            options["t"] = 0.5 if self.t is None else self.t
        if low:
            ridge = RIDGE if self.ridge is None else self.ridge
            d = data.num_features
            size = {"rank": self._lowrank_rank(d), "block": self._lowrank_block(d, self.factor_)}
            return options | {"ridge": ridge} | size
        if several:
            options["aggregate"] = self.aggregate or "max"
        return options | {"geometry": self.geometry, "ridge": self.ridge, "rank": self.rank}

    def _lowrank_score(self, data: PaddedData, options: dict[str, Any]) -> np.ndarray:
        """Score two classes, or each of several classes against all other samples."""
        keys = jax.random.split(random_key(self.random_state), data.num_classes)
        scores = []
        for code, key in enumerate(keys if data.num_classes > 2 else keys[:1]):
            scores.append(manifest_lowrank_score(key, **data.against_rest(code), **options))
        return np.sum(scores, axis=0) if self.aggregate == "sum" else np.max(scores, axis=0)

    def _lowrank_rank(self, d: int) -> int:
        return min(_RANK if self.lowrank_rank is None else self.lowrank_rank, d)

    def _lowrank_block(self, d: int, factor: float | None) -> int | None:
        """Return the size of the blocks, if the bandwidth needs them and d allows them."""
        rank = self._lowrank_rank(d)
        needed = factor is not None and factor < 1
        return math.ceil(d / _BLOCKS) if needed and 10 * rank <= d <= 40 * rank else None

    def _entries(self, n: int, d: int, c: int) -> float:
        if self._chosen_solver(d, c) == "exact":
            return (8 if c == 2 else 6 * c) * d**2 + 2 * n * d
        block = self._lowrank_block(d, 0.0 if self._chooses_factor() else self.factor)
        cost = manifest_cost(d, n, self._lowrank_rank(d), np.float64, block=block)
        lowrank = cost.memory_bytes / 8
        return lowrank + 2 * n * d + 3 * min(d, _SAMPLE) ** 2

    def _advice(self, data: PaddedData) -> str:
        if self.solver_ == "lowrank":
            return "Lower lowrank_rank"
        if self.geometry == "spd":
            return 'solver="lowrank" needs little'
        return super()._advice(data)


def _single(data: PaddedData) -> PaddedData:
    """Return the data in float32, with which the bandwidth is chosen in half the time.

    The data are divided by their largest absolute value, so that they do not overflow. The choice
    does not depend on the unit of the data.
    """
    largest = np.max(np.abs(data.values), initial=np.finfo(data.values.dtype).tiny)
    values = (data.values / largest).astype(np.float32)
    return dataclasses.replace(data, values=values, source=None)


def _score_of_labels(x: Any, y: Any, *, weights: Any, **options: Any) -> Any:
    """Return the score of two classes given by labels 0 and 1."""
    first = jnp.where(y == 0, weights, 0)
    return manifest_score(x, x, weights1=first, weights2=weights - first, **options)
