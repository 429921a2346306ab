"""The same call in other words compiles nothing: one program for equal shapes and options.

Each public function is called once, and then with equivalent spellings of every argument: labels
of any integer dtype, Python, NumPy and JAX scalars, lists, weakly typed arrays, defaults that are
passed. JAX reports each program that it compiles.
"""

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from tests.fuzz_recipes import GOOD, SPECIAL

N, D = 12, 5

#: Functions that take arrays and return scores, features or weights.
NAMES = sorted(
    name
    for name in jaxfs.__all__
    if name.endswith(("_score", "_select", "_objective"))
    or name in ("ssfs", "fit_dirichlet_selector", "manifest_operators", "soft_knn")
)
#: Options that keep the programs small.
SMALL = {
    "fit_dirichlet_selector": {"num_steps": 2, "num_restarts": 1},
    "ssfs": {"num_eigenvectors": 3},
    "manifest_lowrank_score": {"rank": 2, "landmarks": 4, "bandwidth": 1.0},
}
REQUIRED = {
    "soft_knn": {"distances": np.linspace(0, 1, N * 3).reshape(N, 3)},
    "combine_scores": {"a": np.linspace(0, 1, D), "b": np.linspace(1, 0, D)},
}

programs = 0


def _count(event: str, _: float, **__: object) -> None:
    global programs
    programs += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count)


def arguments(name: str) -> dict[str, Any]:
    """Every argument of a function: good data, and the default of each option."""
    case = SimpleNamespace(n=N, d=D, dtype=np.dtype("float64"), rng=np.random.default_rng(0))
    recipes = GOOD | SPECIAL.get(f"jaxfs.{name}", {})
    found = {}
    for key, parameter in inspect.signature(getattr(jaxfs, name)).parameters.items():
        if key in REQUIRED.get(name, {}):
            found[key] = REQUIRED[name][key]
        elif parameter.default is inspect.Parameter.empty:
            found[key] = recipes[key](case)
        else:
            found[key] = parameter.default
    return found | SMALL.get(name, {})


def spellings(value: Any) -> Iterator[Any]:
    """Other values that mean the same."""
    if isinstance(value, (bool, np.bool_)):
        yield np.bool_(value)
    elif isinstance(value, int):
        yield from (np.int64(value), np.int8(value), np.array(value))
    elif isinstance(value, float):
        yield from (np.float64(value), np.array(value), jnp.asarray(value), jnp.float64(value))
        yield from (int(value), np.float32(value)) if value.is_integer() else ()
    elif isinstance(value, np.ndarray) and value.dtype.kind == "i":
        yield from (value.astype(t) for t in ("int8", "int32", "uint8", "uint64", "bool"))
        yield from (value.tolist(), jnp.asarray(value), jnp.asarray(value.astype("int8")))
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield from (value.tolist(), np.asfortranarray(value), jnp.asarray(value))
        yield jax.lax.full_like(value, 1.0) if False else _weak(value)


def _weak(value: np.ndarray) -> jax.Array:
    """A weakly typed array, as arithmetic on Python scalars gives."""
    weak = jax.vmap(lambda i: jax.lax.select_n(i < 0, 1.0, 1.0))(jnp.arange(value.size))
    assert weak.weak_type
    return jnp.reshape(weak * 1.0, value.shape)


@pytest.mark.parametrize("name", NAMES)
def test_equal_calls_compile_once(name):
    function, given = getattr(jaxfs, name), arguments(name)
    defaults = {
        key
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.default is given[key]
    }
    positional = {
        key
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    }

    def call(given):
        first = [given[k] for k in positional_order if k in given]
        return jax.block_until_ready(function(*first, **{k: v for k, v in given.items() if k not in positional}))

    positional_order = [k for k in inspect.signature(function).parameters if k in positional]
    call({k: v for k, v in given.items() if k not in defaults})
    variants = {"every default": given} | {
        f"{key}={value!r} {type(value)} {getattr(value,'dtype','')}": given | {key: value} for key in given for value in spellings(given[key])
    }
    found = []
    for label, variant in variants.items():
        before = programs
        try:
            call(variant)
        except ValueError as e:
            found.append("REFUSED "+label.replace("\n"," ")+str(e))
        if programs > before:
            found.append(f"{programs-before} {label}".replace("\n"," "))
    assert not found, "\n" + "\n".join(found)
