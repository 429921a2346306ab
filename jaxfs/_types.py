"""Type aliases and the small records that several layers share."""

import dataclasses
from collections.abc import Callable, Mapping
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
def record(*, static: tuple[str, ...] = ()) -> Callable[[type[_T]], type[_T]]:
    """A frozen dataclass that is a pytree: fields named in `static` are not leaves.

    It is registered by flattening functions, and not by `jax.tree_util.register_dataclass`: tree
    structures of two classes registered by the latter compare equal if their fields are alike, and
    `jit` then sometimes runs the program of the other class.

    `__post_init__` runs for what a caller writes. JAX and Optax build records of gradients and
    placeholders, which must not be checked.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        cls = dataclasses.dataclass(frozen=True, repr=False)(cls)
        fields = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        names = [name for name in fields if name not in static]

        def flatten(instance):
            leaves = [(jax.tree_util.GetAttrKey(n), getattr(instance, n)) for n in names]
            return leaves, tuple(getattr(instance, n) for n in static)

        def unflatten(constants, leaves):
            instance = object.__new__(cls)
            for name, value in zip([*names, *static], [*leaves, *constants], strict=True):
                object.__setattr__(instance, name, value)
            return instance

        def show(instance):
            given = {n: getattr(instance, n) for n in fields if getattr(instance, n) is not None}
            return f"{cls.__name__}({', '.join(f'{n}={v!r}' for n, v in given.items())})"

        cls.__repr__ = show  # type: ignore[method-assign]
        jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
        return cls

    return decorate


class Static:
    """A static argument of `jit` that equals another only if both mean the same program.

    Python's equality is weaker than that: `True == 1 == 1.0` and `-0.0 == 0.0`, also inside
    dataclasses and tuples, and tree structures of different classes can compare equal (see
    `record`). Here types are compared too, numbers by how they are written, and tree structures by
    the classes of their nodes. Functions are equal to themselves only.

    `value` must be hashable, or a dataclass or tuple of hashable values.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = _exact(value)
        hash(self._key)  # raises here, where the caller can name the argument

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _exact(value: Any) -> tuple[Any, ...]:
    """A key that is equal for values of one type and meaning."""
    kind = type(value)
    if isinstance(value, (int, float, complex, np.generic)):
        return kind, repr(value)
    if isinstance(value, (tuple, list)):
        return kind, *map(_exact, value)
    if isinstance(value, jax.tree_util.PyTreeDef):
        return kind, _exact(value.node_data()), *map(_exact, value.children())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind, *(_exact(getattr(value, f.name)) for f in dataclasses.fields(value))
    return kind, value


def static_function(function: Any, name: str, expected: str) -> Static:
    """A function that a caller passes, as a static argument."""
    if not callable(function):
        raise _checks.fail(name, expected, repr(function))
    try:
        return Static(function)
    except TypeError as error:
        expected = f"{expected}, hashable: put what it uses into a closure or a partial"
        raise _checks.fail(name, expected, repr(function)) from error


@record(static=("sample",))
class Percentile:
    """Bandwidth rule: `factor` times the q-th percentile of the off-diagonal distances.

    Where the percentile is 0, `factor` times the smallest positive distance.

    **Arguments**

    - `q`: in [0, 100]; linearly interpolated between order statistics, as NumPy's. May be traced.
    - `factor`: positive. May be traced.
    - `sample`: static. The percentile is that of the distances among so many points, the same ones
      whenever there are as many to choose from; by default, or if there are no more, among all.

    A pytree, so that rules travel through `jit`, `vmap` and `grad` as arguments, or as static
    constants.

    >>> Percentile(5.0, factor=2.0)
    Percentile(q=5.0, factor=2.0)
    """

    q: Scalar
    factor: Scalar = 1.0
    sample: int | None = None

    def __post_init__(self):
        _checks.number(self.q, "q", low=0, high=100)
        _checks.number(self.factor, "factor", low=0, open_low=True)
        _check_sample(self.sample)


@record(static=("sample",))
class Median:
    """Bandwidth rule: `factor` times the median of the off-diagonal distances.

    The same as `Percentile(50, factor, sample)`.

    >>> Median(0.1), Median(sample=1000)
    (Median(factor=0.1), Median(factor=1.0, sample=1000))
    """

    factor: Scalar = 1.0
    sample: int | None = None

    def __post_init__(self):
        _checks.number(self.factor, "factor", low=0, open_low=True)
        _check_sample(self.sample)


def _check_sample(sample: int | None) -> None:
    if sample is not None:
        _checks.integer(sample, "sample", low=2)


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


# ---- Options that belong to one variant of a method ---------------------------------------------


def settle(record: Any, **values: Any) -> None:
    """Set the checked fields of a frozen record."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def plain(value: Any) -> Any:
    """A checked number as a Python float, without −0.0, so that equal records mean the same.

    A traced number stays. It has no hash, so that `jit` cannot take its record for a constant.
    """
    return value if _checks.is_traced(value) else float(value) + 0.0


def variant(value: Any, name: str, variants: Mapping[str, type]) -> Any:
    """The record of options that `value` is, or that it names with all its defaults."""
    if isinstance(value, str) and value in variants:
        return variants[value]()
    if type(value) in variants.values():
        return value
    names = ", ".join(map(repr, variants))
    records = ", ".join(f"{kind.__name__}(…)" for kind in variants.values())
    raise _checks.fail(name, f"one of {names}, or {records}", repr(value))


class Selection(NamedTuple):
    """Features in the order they were chosen.

    `indices (k,)`: −1 where there was nothing left to choose, and throughout for data with NaN.
    `objective (k,)`: the criterion of the features chosen so far. `saturated_at`: how many were
    chosen before the criterion could no longer tell candidates apart; k if it always could.
    """

    indices: Int[Array, "k"]
    objective: Float[Array, "k"]
    saturated_at: Int[Array, ""]
