"""The eigenvectors of a graph: against NumPy, beside padding, and where eigenvalues repeat."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs.graphs import _laplacian
from jaxfs.graphs._laplacian import leading_eigenvectors
from tests.helpers import assert_close, rng

N, K = 12, 4


@functools.partial(jax.jit, static_argnums=1)
def leading(w, number, present):
    x = rng(0).normal(size=(len(w), 2)).astype(w.dtype)
    return leading_eigenvectors(w, x, number, present)


def affinity(n: int = N) -> np.ndarray:
    x = rng(0).normal(size=(n, 2))
    return np.exp(-np.sum((x[:, None] - x[None]) ** 2, axis=-1))


def literal(w):
    """Eigenvalues and eigenvectors of I − Δ^-½ W Δ^-½, the first left out."""
    degree = w.sum(axis=1)
    values, vectors = np.linalg.eigh(np.eye(len(w)) - w / np.sqrt(np.outer(degree, degree)))
    peak = np.argmax(np.abs(vectors), axis=0)
    return values[1:], (vectors * np.sign(vectors[peak, np.arange(len(w))]))[:, 1:]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_against_numpy(dtype):
    values, vectors = leading(affinity().astype(dtype), K, np.ones(N, bool))
    assert values.dtype == vectors.dtype == dtype
    expected = literal(affinity())
    assert_close(values, expected[0][:K], {"float32": 1e-5, "float64": 1e-13}[dtype])
    assert_close(vectors, expected[1][:, :K], {"float32": 1e-4, "float64": 1e-12}[dtype])


def test_padding_is_not_there():
    present = np.arange(N) % 5 != 1
    w = affinity()
    expected = literal(w[present][:, present])
    for content in (0.7, np.nan):
        padded = np.where(present[:, None] & present[None], w, content)
        values, vectors = leading(padded, K, present)
        assert_close(values, expected[0][:K], 1e-13)
        assert_close(vectors[present], expected[1][:, :K], 1e-12)
        assert np.all(vectors[~present] == 0)


def test_beyond_the_samples_present_is_nan():
    values, vectors = leading(affinity(), K, np.arange(N) < 4)
    np.testing.assert_array_equal(np.isnan(values), [False, False, False, True])
    np.testing.assert_array_equal(np.isnan(vectors[0]), np.isnan(values))


def test_the_trivial_vector_is_left_out_of_parts_too():
    """Two parts have two eigenvalues 0: what is left of them is not the trivial one."""
    w = affinity()
    w[:5, 5:] = w[5:, :5] = 0
    values, vectors = leading(w, 2, np.ones(N, bool))
    assert values[0] <= 1e-15 < 1e-3 < values[1]
    assert_close(np.sqrt(w.sum(axis=1)) @ vectors, [0, 0], 1e-14)
    v = vectors[:, 0] / np.sqrt(w.sum(axis=1))  # constant on either part
    assert max(np.ptp(v[:5]), np.ptp(v[5:])) <= 1e-14
    assert v[0] * v[-1] < 0


def test_nan_is_passed_on_and_derivatives_are_zero():
    w = affinity()
    assert np.all(
        np.asarray(jax.grad(lambda w: jnp.sum(leading(w, K, np.ones(N, bool))[1]))(w)) == 0
    )
    w[2, 3] = w[3, 2] = np.nan
    assert all(np.all(np.isnan(a)) for a in leading(w, K, np.ones(N, bool)))


def test_iteration_finds_what_eigh_finds():
    """Two groups and a bridge; padding of any content."""
    x = rng(3).normal(size=(150, 3))
    x[:60] += 6
    present = np.arange(150) % 10 != 7
    x[~present] = np.nan
    values, vectors = jax.jit(_laplacian.sample_eigenvectors, static_argnums=(1, 2))(
        x, 2, 4, present
    )
    got, iterated = jax.jit(_laplacian.iterated_eigenvectors, static_argnums=(1, 2))(
        x, 2, 4, present
    )
    np.testing.assert_allclose(got, values, atol=1e-7)
    np.testing.assert_allclose(iterated, vectors, atol=1e-5)
    assert np.all(iterated[~present] == 0)


def test_many_samples_are_iterated(monkeypatch):
    x = jnp.asarray(rng(4).normal(size=(60, 2)))
    everyone = jnp.ones(60, bool)

    def find():
        return jax.jit(lambda x: _laplacian.sample_eigenvectors(x, 2, 3, everyone))(x)

    expected = find()
    monkeypatch.setattr(_laplacian, "LARGE", 50)
    got = find()
    assert not np.array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[0], expected[0], atol=1e-7)


def parts(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Groups of four samples without an edge between them."""
    x = 0.4 * rng(5).normal(size=(4 * number, 3))
    group = np.arange(4 * number) // 4
    w = np.exp(-np.sum((x[:, None] - x[None]) ** 2, axis=-1)) * (group[:, None] == group[None])
    return w, x + 3 * rng(6).normal(size=(number, 3))[group]


def ring() -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues in pairs; of the first the features explain the same, of the others nothing."""
    t = 2 * np.pi * np.arange(20) / 20
    x = np.stack([np.cos(t), np.sin(t)], axis=1)
    return np.exp(-4 * np.sum((x[:, None] - x[None]) ** 2, axis=-1)), x


@pytest.mark.parametrize(
    ("graph", "number", "dtype"),
    [
        (parts(6), 3, "float64"),
        (parts(6), 6, "float32"),
        (parts(15), 2, "float64"),
        (ring(), 5, "float32"),
        *(
            pytest.param(graph, number, dtype, marks=pytest.mark.thorough)
            for graph, number, dtype in (
                (parts(6), 3, "float32"),
                (parts(6), 6, "float64"),
                (parts(15), 2, "float32"),
                (ring(), 5, "float64"),
            )
        ),
    ],
)
def test_permuted_samples_have_permuted_eigenvectors(graph, number, dtype):
    """Also where the last one cuts an eigenspace, within the pairs at hand (6) or not (15)."""
    w, x = (a.astype(dtype) for a in graph)
    find = jax.jit(leading_eigenvectors, static_argnums=2)
    n = len(w)
    values, vectors = map(np.asarray, find(w, x, number, np.ones(n, bool)))
    degree = w.sum(axis=1)
    product = vectors - w / np.sqrt(np.outer(degree, degree)) @ vectors
    tolerance = {"float32": 1e-5, "float64": 1e-13}[dtype]
    assert np.abs(product - vectors * values).max() < tolerance
    assert np.abs(vectors.T @ vectors - np.eye(number)).max() < tolerance
    for seed in range(3):
        order = rng(seed).permutation(n)
        again = find(w[order][:, order], x[order], number, np.ones(n, bool))[1]
        assert_close(again, vectors[order], {"float32": 1e-4, "float64": 1e-9}[dtype])
