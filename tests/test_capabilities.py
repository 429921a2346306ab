"""The table of capabilities in the documentation is what the contract suite finds.

Each cell is the outcome of a test of the contract suite for a function. To write the page:

    JAXFS_WRITE_DOCS=1 pytest -m '' -n 0 tests/test_capabilities.py
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests import test_contract as contract

PAGE = Path(__file__).parents[1] / "docs/pages/api/capabilities.md"
YES, NO = "✓", "–"
INTRODUCTION = """\
# What each function can do

The contract suite of the tests writes this table: a ✓ is a test that passes for the function, and
a – is one that fails. `mask` means that samples may be left out, but not weighted. A variant of a
method has a row of its own. The columns at the right say which arrays a function accepts. It
returns JAX arrays, and [`jaxfs.interop.wrap`](interop.md) returns PyTorch tensors. CuPy needs a GPU
and is not in the table.
"""


def passes(test: Callable[..., Any], *arguments: Any) -> bool:
    try:
        test(*arguments)
    except Exception:
        return False
    return True


def lowers(score, platform: str) -> None:
    shape = jax.ShapeDtypeStruct((contract.N, contract.D), np.float32)
    jax.export.export(jax.jit(lambda x: score(x)), platforms=(platform,))(shape)


def accepts(score, convert: Callable[[np.ndarray], Any]) -> None:
    x = contract.data(dtype="float32")
    contract.assert_same(contract.eager(score, convert(x)), contract.eager(score, x), 0)


def keeps_dtype(score, dtype: str) -> None:
    rows, weights = contract.padded(contract.data(dtype=dtype))
    with contract.as_users_have_it(dtype):
        found = jax.eval_shape(lambda r, w: score(r, contract.LABELS, w), rows, weights)
    assert getattr(found, "objective", found).dtype == dtype


def weights(score) -> str:
    if passes(contract.test_weights_count_samples, score, "float32"):
        return YES
    return "mask" if passes(contract.test_padding_is_never_read, score) else NO


def library(name: str, convert: str) -> Callable[[Any], bool] | None:
    """Whether a score accepts the arrays of a library; `None` if it is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    return lambda score: passes(accepts, score, getattr(module, convert))


COLUMNS: dict[str, Callable[[Any], Any] | None] = {
    "jit, vmap": lambda s: passes(contract.test_jit_vmap_and_padding_give_the_eager_answer, s),
    "grad": lambda s: passes(contract.test_gradients_are_finite_and_padding_has_none, s),
    "float32": lambda s: passes(keeps_dtype, s, "float32"),
    "float64": lambda s: passes(keeps_dtype, s, "float64"),
    "CPU": lambda s: passes(lowers, s, "cpu"),
    "CUDA": lambda s: passes(lowers, s, "cuda"),
    "TPU": lambda s: passes(lowers, s, "tpu"),
    "weights": weights,
    "NumPy": library("numpy", "asarray"),
    "array-api-strict": library("array_api_strict", "asarray"),
    "PyTorch": library("torch", "from_numpy"),
}


def row(name: str) -> dict[str, str]:
    """The cells of a function, for the libraries that are installed."""
    score = contract.EVERYTHING[name]
    found = {title: check(score) for title, check in COLUMNS.items() if check is not None}
    return {title: {True: YES, False: NO}.get(cell, cell) for title, cell in found.items()}


def documented() -> dict[str, dict[str, str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    titles = cells[0][1:]
    return {name: dict(zip(titles, rest, strict=True)) for name, *rest in cells[2:]}


def assert_documented(name: str) -> None:
    found = row(name)
    assert found == {title: documented()[name][title] for title in found}


def test_every_function_of_the_suite_has_a_row():
    assert list(documented()) == list(contract.EVERYTHING)
    assert all(list(cells) == list(COLUMNS) for cells in documented().values())


@pytest.mark.parametrize("name", ["fisher_score", "gini_score", "laplacian_score", "mrmr_select"])
def test_the_cells_are_what_the_suite_finds(name):
    assert_documented(name)


@pytest.mark.thorough
def test_all_cells_are_what_the_suite_finds():
    if not os.environ.get("JAXFS_WRITE_DOCS"):
        for name in contract.EVERYTHING:
            assert_documented(name)
        return
    assert None not in COLUMNS.values(), "the page needs every library of the table"
    lines = [f"| Function | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|"]
    lines += [f"| `{n}` | {' | '.join(row(n).values())} |" for n in contract.EVERYTHING]
    PAGE.write_text(INTRODUCTION + "\n" + "\n".join(lines) + "\n", encoding="utf-8")
