"""Surrogate models that score features; each model is a record of its settings.

The scores of the features are nonnegative and sum to one for each label. They are all 0 if the
model uses no feature. The scores of `Correlation` are not divided by their sum. Settings that are
real numbers may be traced.
"""

from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxfs import _checks, _numerics
from jaxfs._numerics import matmul, unit_columns
from jaxfs._types import Record, Scalar, Static
from jaxfs.surrogates import _shared, boosting, linear, logistic
from jaxfs.surrogates._shared import ResampledScores

__all__ = ["BoostedTrees", "Correlation", "Logistic", "Ridge", "ScoringModel", "SelectionModel"]

Features: TypeAlias = Float[Array, "n p"]
Labels: TypeAlias = Float[Array, "n l"]
Present: TypeAlias = Bool[Array, "n"]


@runtime_checkable
class ScoringModel(Protocol):
    """A model that gives feature scores `(l, p)` from all present samples.

    A model is a pytree with hashable static fields. `check` raises if a concrete setting is out of
    range.
    """

    binary_only: ClassVar[bool]

    def check(self) -> None: ...

    def scores(self, x: Features, y: Labels, present: Present, binary: bool) -> Array: ...


@runtime_checkable
class SelectionModel(ScoringModel, Protocol):
    """A scoring model that also gives the variance of its scores over resamples."""

    def resampled(
        self, x: Features, y: Labels, masks: Bool[Array, "m n"], present: Present, chunk_size: int
    ) -> ResampledScores: ...


class Logistic(Record):
    """Logistic regression of binary labels; the scores are |β| / Σ |β|. `c` is positive."""

    c: Scalar = 1.0
    binary_only: ClassVar[bool] = True

    def check(self):
        _checks.number(self.c, "c", low=0, open_low=True, scalar=True)

    def scores(self, x, y, present, binary):
        coefficients = logistic.fit(x, y, c=self.c, weights=present).coefficients
        # A label with only one value has no model.
        coefficients = jnp.where(_numerics.varied(y, present)[:, None], coefficients, 0)
        return _shared.shares(coefficients, axis=1)

    def resampled(self, x, y, masks, present, chunk_size):
        return logistic.resampled_scores(
            x, y, masks, c=self.c, weights=present, chunk_size=chunk_size
        )


class Ridge(Record):
    """Ridge regression; the scores are |β| / Σ |β|. `alpha` is positive."""

    alpha: Scalar = 1.0
    binary_only: ClassVar[bool] = False

    def check(self):
        _checks.number(self.alpha, "alpha", low=0, open_low=True, scalar=True)

    def scores(self, x, y, present, binary):
        coefficients = linear.fit(x, y, alpha=self.alpha, weights=present).coefficients
        return _shared.shares(coefficients, axis=1)

    def resampled(self, x, y, masks, present, chunk_size):
        return linear.resampled_scores(
            x, y, masks, alpha=self.alpha, weights=present, chunk_size=chunk_size
        )


class BoostedTrees(Record):
    """Boosted trees; the score of a feature is the mean gain of its splits, divided by the sum.

    The loss is logistic for binary labels and squared for others. `boosting.fit` describes the
    settings.
    """

    num_trees: int = eqx.field(static=True, default=100)
    max_depth: int = eqx.field(static=True, default=6)
    learning_rate: Scalar = 0.3
    l2: Scalar = 1.0
    min_child_weight: Scalar = 1.0
    binary_only: ClassVar[bool] = False

    def check(self):
        boosting.check_settings(**vars(self))

    def scores(self, x, y, present, binary):
        loss = "logistic" if binary else "squared"
        return boosting.fit(x, y, loss=loss, weights=present, **vars(self)).importances


class Correlation(Record):
    """The squared correlation of feature and label, without a model; 0 if either is constant."""

    binary_only: ClassVar[bool] = False

    def check(self):
        pass

    def scores(self, x, y, present, binary):
        x, y = (unit_columns(a, present) for a in (x, y))
        return jnp.square(matmul(y.T, x))


_NAMED = {
    "logistic": Logistic,
    "ridge": Ridge,
    "boosting": BoostedTrees,
    "correlation": Correlation,
}


def check(model, name: str, protocol, names: tuple[str, ...], binary: bool):
    """Return the model for a name or a record; raise if it does not satisfy the protocol."""
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
        raise _checks.fail(name, "a model with hashable static fields", repr(model)) from error
    return model
