"""Type aliases and small records that several subpackages share."""

import dataclasses
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from jaxfs import _checks

#: Anything that JAX can convert: NumPy, JAX, array-API and DLPack arrays, and nested lists.
ArrayLike: TypeAlias = Any
#: A real number, traced or not.
Scalar: TypeAlias = float | int | Float[Array, ""]


class Record(eqx.Module):
    """A frozen dataclass that is a pytree; fields with `eqx.field(static=True)` are not leaves.

    Fields that are `None` are left out of the `repr`.

    Do not use `jax.tree_util.register_dataclass` instead. The tree structures of two registered
    classes compare equal if the classes have the same fields, and `jit` then sometimes runs the
    program that was compiled for the other class.

    `__post_init__` runs when a caller creates a record. It does not run when JAX or Optax rebuild a
    record from gradients or placeholders, because these values must not be checked.
    """

    def __repr__(self):
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        shown = (f"{name}={value!r}" for name, value in given.items() if value is not None)
        return f"{type(self).__name__}({', '.join(shown)})"


class Static:
    """A wrapper of a static argument of `jit`, with a strict test of equality.

    `jit` runs the program of an earlier call if the static arguments of both calls are equal.
    Python's `==` is too weak for this, because it also equates arguments that need different
    programs: `True == 1 == 1.0` and `-0.0 == 0.0`, also inside dataclasses and tuples, and tree
    structures of different classes (see `Record`). Two wrappers are equal only if their values also
    have the same type. Numbers are compared by their `repr`, and tree structures by the classes of
    their nodes. A function equals only itself.

    `value` must be hashable, or a dataclass or tuple of hashable values.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = _comparison_key(value)
        hash(self._key)  # raises here, so that the caller can add the argument's name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _comparison_key(value: Any) -> tuple[Any, ...]:
    """Return the key by which `Static` compares a value: its type, and its exact content."""
    kind = type(value)
    if isinstance(value, (int, float, complex, np.generic)):
        return kind, repr(value)
    if isinstance(value, (tuple, list)):
        return kind, *map(_comparison_key, value)
    if isinstance(value, jax.tree_util.PyTreeDef):
        return kind, _comparison_key(value.node_data()), *map(_comparison_key, value.children())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind, *(_comparison_key(getattr(value, f.name)) for f in dataclasses.fields(value))
    return kind, value


def static_function(function: Any, name: str, expected: str) -> Static:
    """Return a caller's function as a static argument of `jit`."""
    _checks.function(function, name, expected)
    try:
        return Static(function)
    except TypeError as error:
        expected = f"{expected}, hashable: put the arrays it uses into a closure or a partial"
        raise _checks.fail(name, expected, repr(function)) from error


class Selection(NamedTuple):
    """Selected features, in the order in which they were chosen.

    - `indices`: `(k,)`; −1 where no candidate was left. If the data contain NaN, all are −1.
    - `objective`: `(k,)`, the criterion of the features chosen so far.
    - `saturated_at`: the number of features chosen before the criterion could no longer distinguish
      the candidates; k if it always could.
    """

    indices: Int[Array, "k"]
    objective: Float[Array, "k"]
    saturated_at: Int[Array, ""]
