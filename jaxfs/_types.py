"""Type aliases and the small records that several layers share."""

import dataclasses
from typing import Any, NamedTuple, TypeAlias, TypeVar, dataclass_transform

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from jaxfs import _checks

_T = TypeVar("_T")

#: Whatever can become a JAX array: NumPy, JAX, nested lists, array-API and DLPack arrays.
ArrayLike: TypeAlias = Any
#: A real number, traced or not.
Scalar: TypeAlias = float | int | Float[Array, ""]


@dataclass_transform(frozen_default=True)
def _record(cls: type[_T]) -> type[_T]:
    """A frozen dataclass that is a pytree.

    Only what a caller writes is checked: JAX and Optax build others, of gradients or placeholders,
    past `__post_init__`.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    def flatten(record):
        return [(jax.tree_util.GetAttrKey(n), getattr(record, n)) for n in names], None

    def unflatten(_, leaves):
        record = object.__new__(cls)
        for name, leaf in zip(names, leaves, strict=True):
            object.__setattr__(record, name, leaf)
        return record

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls


@_record
class Percentile:
    """Bandwidth rule: `factor` times the q-th percentile of the off-diagonal distances.

    **Arguments**

    - `q`: in [0, 100]; linearly interpolated between order statistics, as NumPy's. May be traced.
    - `factor`: positive. May be traced.

    A pytree, so that rules travel through `jit`, `vmap` and `grad` as arguments, or as static
    constants.

    >>> Percentile(5.0, factor=2.0)
    Percentile(q=5.0, factor=2.0)
    """

    q: Scalar
    factor: Scalar = 1.0

    def __post_init__(self):
        _checks.number(self.q, "q", low=0, high=100)
        _checks.number(self.factor, "factor", low=0, open_low=True)


@_record
class Median:
    """Bandwidth rule: `factor` times the median of the off-diagonal distances.

    The same as `Percentile(50, factor)`.

    >>> Median(0.1)
    Median(factor=0.1)
    """

    factor: Scalar = 1.0

    def __post_init__(self):
        _checks.number(self.factor, "factor", low=0, open_low=True)


#: σ itself, or a rule that takes it from the data.
Bandwidth: TypeAlias = Scalar | Median | Percentile


def check_bandwidth(rule: Bandwidth) -> None:
    """A rule of scalars, or a positive number."""
    if isinstance(rule, Percentile):
        _checks.number(rule.q, "q", low=0, high=100, scalar=True)
    if isinstance(rule, (Median, Percentile)):
        _checks.number(rule.factor, "factor", low=0, open_low=True, scalar=True)
    else:
        if not isinstance(rule, (float, int, np.ndarray, np.generic, jax.Array)):
            raise _checks.fail("bandwidth", "a positive number, Median or Percentile", repr(rule))
        _checks.number(rule, "bandwidth", low=0, open_low=True, scalar=True)


class Selection(NamedTuple):
    """Features in the order they were chosen.

    `indices (k,)`: −1 where there was nothing left to choose, and throughout for data with NaN.
    `objective (k,)`: the criterion of the features chosen so far. `saturated_at`: how many were
    chosen before the criterion could no longer tell candidates apart; k if it always could.
    """

    indices: Int[Array, "k"]
    objective: Float[Array, "k"]
    saturated_at: Int[Array, ""]
