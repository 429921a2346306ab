"""Decompositions against `jax.numpy.linalg`, which they stand for, and that no batch can hang."""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxfs import linalg
from jaxfs.linalg import _lapack
from tests import helpers

ROOT = Path(__file__).parents[2]


def spd(key: int, *shape: int) -> jax.Array:
    *batch, d = shape
    return jnp.asarray(helpers.spd(d, key, tuple(batch)))


def general(key: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(key), shape)


CASES = {
    "eigh": (linalg.eigh, lambda a: tuple(jnp.linalg.eigh(a)), spd(0, 4, 5)),
    "svd": (
        _lapack.svd,
        lambda a: tuple(jnp.linalg.svd(a, full_matrices=False)),
        general(1, 4, 6, 3),
    ),
    "cholesky": (_lapack.cholesky, jnp.linalg.cholesky, spd(2, 4, 5)),
    "qr": (_lapack.qr, lambda a: tuple(jnp.linalg.qr(a)), general(3, 4, 6, 3)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_are_those_of_jax(case, dtype):
    function, reference, a = CASES[case]
    a = a.astype(dtype)
    tolerance = 100 * float(jnp.finfo(dtype).eps)
    want = reference(a)
    for got in (function(a), jax.vmap(function)(a), jax.jit(jax.vmap(function))(a)):
        for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert g.dtype == dtype
            np.testing.assert_allclose(g, w, atol=10 * tolerance, rtol=tolerance)


@pytest.mark.parametrize("size", [2, 40])  # parts of many matrices, and of one
def test_nested_batches(size):
    a = spd(4, 3, 5, 7, size)
    nested = jax.jit(jax.vmap(jax.vmap(_lapack.cholesky)))(a)
    np.testing.assert_allclose(nested, jnp.linalg.cholesky(a), rtol=1e-10, atol=1e-10)
    b = general(5, 5, size, 2)  # one of two arguments has an axis that the other lacks
    solve = jax.vmap(jax.vmap(_lapack.solve_triangular, (None, 0)), (0, None))
    got = jax.jit(solve)(nested[:, 0, 0], b)
    want = jnp.linalg.solve(nested[:, 0, 0][:, None], b[None])
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_solve(transpose):
    root, b = jnp.linalg.cholesky(spd(6, 3, 5)), general(7, 3, 5, 2)
    got = _lapack.solve_triangular(root, b, transpose=transpose)
    want = jnp.linalg.solve(root.mT if transpose else root, b)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    a = spd(8, 3, 5)
    solved = _lapack.cho_solve(_lapack.cholesky(a), b)
    np.testing.assert_allclose(solved, jnp.linalg.solve(a, b), rtol=1e-10, atol=1e-12)


def test_not_positive_definite_is_nan():
    a = jnp.stack([jnp.eye(2), jnp.diag(jnp.array([1.0, -1.0]))])
    assert jnp.isnan(_lapack.cholesky(a)).any(axis=(1, 2)).tolist() == [False, True]


@pytest.mark.parametrize("batch", [pytest.param((), marks=pytest.mark.thorough), (3,)])
def test_derivatives_to_second_order(batch):
    a, b = spd(9, *batch, 4), general(10, *batch, 4, 2)

    def through_cholesky(a):
        return _lapack.cholesky(0.5 * (a + a.mT))

    def through_solve(a, b):
        return _lapack.solve_triangular(jnp.tril(a), b)

    def through_transpose(a, b):
        return _lapack.solve_triangular(jnp.tril(a), b, transpose=True)

    check_grads(through_cholesky, (a,), order=2, eps=1e-4)
    check_grads(through_solve, (a, b), order=2, eps=1e-4)
    check_grads(through_transpose, (a, b), order=2, eps=1e-4)
    check_grads(_lapack.qr, (general(11, *batch, 5, 3),), order=2, eps=1e-4)


def test_constants_have_no_derivative():
    a = spd(12, 4)
    for function in (linalg.eigh, _lapack.svd):
        tangents = jax.jvp(function, (a,), (jnp.ones_like(a),))[1]
        assert all(not bool(jnp.any(t)) for t in jax.tree.leaves(tangents))


@pytest.mark.parametrize("name", ["eigh", "svd", "cholesky", "qr"])
def test_a_batch_on_cpu_is_never_cut_into_tasks(name):
    """What reaches LAPACK is one matrix; on other platforms it is the batch."""
    function = jax.jit(jax.vmap(jax.vmap(getattr(_lapack, name))))
    a = jax.ShapeDtypeStruct((3, 5, 100, 100), jnp.float32)
    calls = re.findall(r"custom_call @lapack_\w+\(.*", function.lower(a).as_text())
    assert calls
    assert all("tensor<100x100xf32>" in call and "x5x100x100" not in call for call in calls)
    # Little work stays together.
    a = jax.ShapeDtypeStruct((2, 3, 4, 4), jnp.float32)
    calls = re.findall(r"custom_call @lapack_\w+\(.*", function.lower(a).as_text())
    assert any("tensor<2x3x4x4xf32>" in call for call in calls)
    a = jax.ShapeDtypeStruct((3, 5, 100, 100), jnp.float32)
    exported = jax.export.export(function, platforms=["cuda"])(a).mlir_module()
    assert "3x5x100x100" in exported or "15x100x100" in exported


def test_independent_batches_on_two_threads_do_not_hang():
    """PJRT_NPROC is the number of XLA's threads: as many batches at once as there are threads."""
    program = """
        import jax, jax.numpy as jnp, jaxfs, numpy as np
        x1, x2 = np.random.default_rng(0).normal(size=(2, 16, 20, 100)).astype(np.float32)
        gradient = jax.jit(jax.vmap(jax.grad(lambda a, b: jaxfs.manifest_score(a, b).sum())))
        operators = jax.jit(jax.vmap(jaxfs.manifest_operators))
        mesh = jax.make_mesh((2,), ("data",))
        scores = jaxfs.distributed.map_datasets(jaxfs.manifest_score, mesh, batch_size=8)
        for _ in range(10):
            jax.block_until_ready((gradient(x1, x2), operators(x1, x2), scores(x1, x2)))
        print("finished")
    """
    environment = os.environ | {
        "PJRT_NPROC": "2",
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
    }
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=ROOT,
    )
    assert answer.stdout.strip() == "finished", answer.stderr[-2000:]


def test_nothing_else_calls_them():
    """Everything decomposes through `jaxfs.linalg`."""
    names = {"eigh", "svd", "cholesky", "qr", "solve", "slogdet", "inv", "det", "lu", "eigvalsh"}
    names |= {"triangular_solve", "solve_triangular", "cho_solve", "cho_factor", "pinv", "lstsq"}
    ours = {"jnp.linalg", "lax.linalg", "jax.numpy.linalg", "jax.lax.linalg"}  # not NumPy's
    for path in (ROOT / "jaxfs").rglob("*.py"):
        if path.name == "_lapack.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in names:
                assert ast.unparse(node.value) not in ours, f"{path}:{node.lineno}"
            if isinstance(node, ast.ImportFrom):
                taken = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                assert not taken & {f"jax.{m}.linalg" for m in ("numpy", "scipy", "lax")}, path


@pytest.mark.thorough
def test_calls_repeat_bit_by_bit():
    """A few of the calls of the benchmark, with two BLAS threads, two at a time."""
    command = [sys.executable, "-m", "benchmarks.precision.repeatability", "20"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("differing  0.00") == 12
