"""Calls with the same shapes and options share one program, however the arguments are written.

Each public score and selector is called once, and then with other spellings of every argument:
labels of any integer dtype, Python, NumPy and JAX scalars, lists, weakly typed arrays, weights that
are integers or booleans, a default and the value that it stands for. JAX reports each program that
it compiles.
"""

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.lax.lax import _convert_element_type

import jaxfs
from tests.fuzz_recipes import GOOD, SPECIAL

N, D = 12, 5

NAMES = sorted(
    name
    for name in jaxfs.__all__
    if name.endswith(("_score", "_select", "_objective"))
    or name in ("ssfs", "fit_dirichlet_selector", "soft_knn", "stability", "manifest_from_kernels")
    or name == "manifest_multiclass_from_kernels"
    or name in ("permutation_test", "structure_test", "stability_selection", "knockoffs")
)


def variances(x, y, weights):
    return jnp.var(x, axis=0)


#: Options set in every call: numbers whose default is `None`, and options for fast compilation.
GIVEN: dict[str, dict[str, Any]] = {
    "cca_select": {"ridge": 0.25},
    "fit_dirichlet_selector": {"num_steps": 2, "num_restarts": 1, "learning_rate": 0.1},
    "gc_objective": {"ridge": 0.25, "shrinkage": 0.5},
    "gc_select": {"ridge": 0.25, "shrinkage": 0.5, "initial": np.arange(1)},
    "gkl_select": {"ridge": 0.25, "shrinkage": 0.5},
    "knockoff_select": {"score": variances, "fdr": 0.5},
    "manifest_lowrank_score": {"landmarks": 4, "bandwidth": 1.0},
    "soft_knn": {"distances": np.linspace(0, 1, N * 3).reshape(N, 3), "mask": np.ones((N, 3))},
    "permutation_test": {"score": variances, "num_permutations": 9},
    "stability": {"score": variances},
    "stability_selection": {"score": variances, "num_features": 1, "num_pairs": 5, "pfer": 4.0},
    "structure_test": {"score": variances, "num_permutations": 9},
}
#: Other values that mean the same as the default, or as the value in `GIVEN`.
EQUAL: dict[str, dict[str, tuple[Any, ...]]] = {
    "fit_dirichlet_selector": {
        "objective": (jaxfs.Coverage(),),
        "temperature": ([1, 0.05], (np.float64(1.0), np.float64(0.05))),
    },
    "manifest_multiclass_score": {"ridge": (0.01, np.float64(0.01), jnp.float64(0.01))},
    "manifest_score": {
        "ridge": (0.01, np.float64(0.01), jnp.float64(0.01)),
        "bandwidth": (jaxfs.Median(), jaxfs.Median(np.float64(1)), jaxfs.Median(jnp.asarray(1.0))),
    },
    "ssfs": {"selection": (jaxfs.Predictable(),)},
}

programs = 0


def _count(event: str, _: float, **__: object) -> None:
    global programs
    programs += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count)


def arguments(name: str) -> dict[str, Any]:
    """Every argument of a function: good data, equal weights, and the default of each option."""
    case = SimpleNamespace(n=N, d=D, dtype=np.dtype("float64"), rng=np.random.default_rng(0))
    recipes = GOOD | SPECIAL.get(f"jaxfs.{name}", {})
    found = {}
    for key, parameter in inspect.signature(getattr(jaxfs, name)).parameters.items():
        if key in GIVEN.get(name, {}):
            found[key] = GIVEN[name][key]
        elif key.startswith(("weights", "mask")):
            found[key] = np.ones(N)
        elif parameter.default is inspect.Parameter.empty:
            found[key] = recipes[key](case)
        else:
            found[key] = parameter.default
    return found


def spellings(key: str, value: Any) -> Iterator[Any]:
    """Other values with the same meaning."""
    if isinstance(value, bool):
        yield np.bool_(value)
    elif isinstance(value, int):
        yield from (np.int64(value), np.uint16(value), np.array(value))
    elif isinstance(value, float):
        yield from (np.float64(value), np.array(value), jnp.asarray(value), jnp.float64(value))
        if value.is_integer():
            yield from (int(value), np.float32(value))
    elif isinstance(value, np.ndarray) and value.dtype.kind == "i":
        dtypes = ("int8", "int32", "uint8", "uint64", *(["bool"] if key == "y" else []))
        yield from (value.astype(dtype) for dtype in dtypes)
        yield from (jnp.asarray(value, dtype) for dtype in ("int8", "int32", "int64"))
        yield value.tolist()
    elif isinstance(value, np.ndarray):
        yield from (value.tolist(), np.asfortranarray(value), jnp.asarray(value))
        yield _convert_element_type(value, weak_type=True)
        if key.startswith(("weights", "mask")):
            yield from (value.astype(dtype) for dtype in ("bool", "int64", "float32"))
            yield from (jnp.asarray(value, bool), jnp.asarray(value, "float32"))


@pytest.mark.parametrize("name", NAMES)
def test_equal_calls_compile_once(name):
    function, given = getattr(jaxfs, name), arguments(name)
    variants = [
        (key, value)
        for key in given
        for value in (*spellings(key, given[key]), *EQUAL.get(name, {}).get(key, ()))
    ]
    # JAX compiles a small program to cast a JAX scalar, once per process; do not count it.
    jnp.asarray(jnp.asarray(1.0), jnp.float64)
    defaults = {k: p.default for k, p in inspect.signature(function).parameters.items()}
    function(**{key: value for key, value in given.items() if value is not defaults[key]})
    compiled = []
    for key, value in [*variants, ("no argument", None)]:
        before = programs
        function(**(given | {key: value} if key in given else given))
        if programs > before:
            compiled.append(f"{key} = {value!r}, a {type(value).__name__}")
    assert not compiled, "\n".join(compiled)
