"""Type aliases and the small records that several layers share."""

import dataclasses
from typing import Any, TypeAlias

import jax
import numpy as np
from jaxtyping import Array, Float

from jaxfs import _checks

#: Whatever can become a JAX array: NumPy, JAX, nested lists, array-API and DLPack arrays.
ArrayLike: TypeAlias = Any
#: A real number, traced or not.
Scalar: TypeAlias = float | int | Float[Array, ""]


def _check_leaf(value, name: str, **bounds) -> None:
    """Check a number; let the placeholders through that JAX builds pytrees with."""
    if isinstance(value, (str, bool, float, int, np.ndarray, np.generic, jax.Array)):
        _checks.number(value, name, **bounds)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Percentile:
    """Bandwidth rule: `factor` times the q-th percentile of the off-diagonal distances.

    **Arguments**

    - `q`: in [0, 100]; linearly interpolated between order statistics, as NumPy's. May be traced.
    - `factor`: positive. May be traced.

    A pytree, so that rules travel through `jit` and `vmap` as arguments or as static constants.

    >>> Percentile(5.0, factor=2.0)
    Percentile(q=5.0, factor=2.0)
    """

    q: Scalar
    factor: Scalar = 1.0

    def __post_init__(self):
        _check_leaf(self.q, "q", low=0, high=100)
        _check_leaf(self.factor, "factor", low=0, open_low=True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Median:
    """Bandwidth rule: `factor` times the median of the off-diagonal distances.

    The same as `Percentile(50, factor)`.

    >>> Median(0.1)
    Median(factor=0.1)
    """

    factor: Scalar = 1.0

    def __post_init__(self):
        _check_leaf(self.factor, "factor", low=0, open_low=True)


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
