"""The surrogate models by name and settings, with one face: scores of features for labels.

A model scores features for labels by what it gives them, nonnegative and of sum one for each label
(all 0 if it uses none); correlations are not divided by their sum. Settings that are numbers may be
traced.
"""

from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxfs import _checks, _numerics
from jaxfs._numerics import matmul, safe_divide, unit_columns
from jaxfs._types import Scalar, Static, record
from jaxfs.surrogates import boosting, linear, logistic
from jaxfs.surrogates._common import ResampledScores

__all__ = ["BoostedTrees", "Correlation", "Logistic", "Ridge", "ScoringModel", "SelectionModel"]

Features: TypeAlias = Float[Array, "n p"]
Labels: TypeAlias = Float[Array, "n l"]
Present: TypeAlias = Bool[Array, "n"]


@runtime_checkable
class ScoringModel(Protocol):
    """Feature scores `(l, p)` of models fitted on all samples present.

    A model is a pytree whose static fields are hashable; `check` raises for settings that are known
    to be wrong.
    """

    binary_only: ClassVar[bool]

    def check(self) -> None: ...

    def scores(self, x: Features, y: Labels, present: Present, binary: bool) -> Array: ...


@runtime_checkable
class SelectionModel(ScoringModel, Protocol):
    """And how they vary over resamples."""

    def resampled(
        self, x: Features, y: Labels, masks: Bool[Array, "m n"], present: Present, chunk_size: int
    ) -> ResampledScores: ...


@record()
class Logistic:
    """Logistic regression of binary labels: |β| / Σ |β|. `c` is positive."""

    c: Scalar = 1.0
    binary_only: ClassVar[bool] = True

    def check(self):
        _checks.number(self.c, "c", low=0, open_low=True, scalar=True)

    def scores(self, x, y, present, binary):
        coefficients = logistic.fit(x, y, c=self.c, weights=present).coefficients
        # A label with samples on one side only has no model.
        return _share(jnp.where(_numerics.varied(y, present)[:, None], coefficients, 0))

    def resampled(self, x, y, masks, present, chunk_size):
        return logistic.resampled_scores(
            x, y, masks, c=self.c, weights=present, chunk_size=chunk_size
        )


@record()
class Ridge:
    """Ridge regression: |β| / Σ |β|. `alpha` is positive."""

    alpha: Scalar = 1.0
    binary_only: ClassVar[bool] = False

    def check(self):
        _checks.number(self.alpha, "alpha", low=0, open_low=True, scalar=True)

    def scores(self, x, y, present, binary):
        return _share(linear.fit(x, y, alpha=self.alpha, weights=present).coefficients)

    def resampled(self, x, y, masks, present, chunk_size):
        return linear.resampled_scores(
            x, y, masks, alpha=self.alpha, weights=present, chunk_size=chunk_size
        )


@record(static=("num_trees", "max_depth"))
class BoostedTrees:
    """Boosted trees, of squared loss for labels that are not binary: the mean gain of splits.

    Settings as in `boosting.fit`.
    """

    num_trees: int = 100
    max_depth: int = 6
    learning_rate: Scalar = 0.3
    l2: Scalar = 1.0
    min_child_weight: Scalar = 1.0
    binary_only: ClassVar[bool] = False

    def check(self):
        boosting.check_settings(**vars(self))

    def scores(self, x, y, present, binary):
        loss = "logistic" if binary else "squared"
        return boosting.fit(x, y, loss=loss, weights=present, **vars(self)).importances


@record()
class Correlation:
    """No model: the squared correlation of feature and label, 0 for what is constant."""

    binary_only: ClassVar[bool] = False

    def check(self):
        pass

    def scores(self, x, y, present, binary):
        x, y = (unit_columns(a, present) for a in (x, y))
        return jnp.square(matmul(y.T, x))


def _share(coefficients: Float[Array, "l p"]) -> Float[Array, "l p"]:
    """|β| / Σ |β|."""
    size = jnp.abs(coefficients)
    return safe_divide(size, jnp.broadcast_to(jnp.sum(size, axis=1, keepdims=True), size.shape))


_NAMED = {
    "logistic": Logistic,
    "ridge": Ridge,
    "boosting": BoostedTrees,
    "correlation": Correlation,
}


def check(model, name: str, protocol, names: tuple[str, ...], binary: bool):
    """A model, by name or as a record, that can do what the protocol says."""
    if isinstance(model, str):
        model = _NAMED[_checks.option(model, name, names)]()
    if isinstance(model, type) or not isinstance(model, protocol):
        records = " or ".join(_NAMED[n].__name__ + "(…)" for n in names)
        expected = "one of " + ", ".join(map(repr, names)) + f", or {records}"
        raise _checks.fail(name, expected, repr(model))
    if model.binary_only and not binary:
        raise _checks.fail(name, "a regression for continuous pseudo-labels", repr(model))
    model.check()
    try:
        Static(jax.tree.structure(model))
    except TypeError as error:
        raise _checks.fail(name, "a model of hashable static fields", repr(model)) from error
    return model
