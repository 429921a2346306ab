"""The bordered eigen-update: exact to rounding, orthogonal however eigenvalues cluster."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs.linalg import eigh_bordered
from jaxfs.linalg._bordered import arrowhead
from tests.helpers import rng

TOLERANCE = {"float32": 3e-6, "float64": 1e-14}
N = 40


def arrowheads() -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """(d ascending, q, c): what makes secular equations hard."""
    r = rng(0)
    d, q = np.sort(r.normal(size=N)), r.normal(size=N)
    half = q * (np.arange(N) % 2)
    small = q * 10.0 ** r.uniform(-20, 0, N)
    return {
        "random": (d, q, 0.3),
        "no coupling": (d, 0 * q, 0.3),
        "half coupled": (d, half, 0.3),
        "one repeated eigenvalue": (np.ones(N), q, 1.0),
        "identity": (np.ones(N), 0 * q, 1.0),
        "zero": (np.zeros(N), 0 * q, 0.0),
        "groups of equal eigenvalues": (np.sort(np.repeat(d[::8], 8)), small, 1.0),
        "nearly equal eigenvalues": (np.sort(1 + 1e-15 * r.integers(0, 9, N)), q, -2.0),
        "ill-conditioned": (np.sort(10.0 ** r.uniform(-16, 3, N)), small, 1e-9),
        "strong coupling": (d, 1e8 * q, 0.3),
        "far corner": (d, q, 1e12),
        "corner on an eigenvalue": (np.arange(N) * 1.0, 1e-3 * q, 5.0),
        "huge": (1e30 * d, 1e30 * q, 1e29),
        "tiny": (1e-30 * d, 1e-30 * q, 1e-31),
    }


def dense(d, q, c) -> np.ndarray:
    a = np.diag(np.append(d, c))
    a[-1, :-1] = a[:-1, -1] = q
    return a


def assert_eigensystem(a, w, v, tolerance):
    w, v = np.asarray(w, float), np.asarray(v, float)
    norm = np.linalg.norm(a, 2) or 1.0
    assert np.all(np.diff(w) >= 0)
    assert np.max(np.abs(w - np.linalg.eigvalsh(a))) <= tolerance * norm
    assert np.max(np.abs(v.T @ v - np.eye(len(w)))) <= tolerance
    assert np.max(np.abs(a @ v - v * w)) <= tolerance * norm


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", arrowheads())
def test_arrowhead(name, dtype):
    """By itself, and as one of a batch, where XLA fuses and contracts otherwise."""
    for factor in (1.0, 1 / 3):
        parts = [(np.asarray(part) * factor).astype(dtype) for part in arrowheads()[name]]
        w, v = _alone(*parts)
        assert w.dtype == v.dtype == dtype
        matrix = dense(*(part.astype(float) for part in parts))
        assert_eigensystem(matrix, w, v, TOLERANCE[dtype])
        w, v = _batched(*(np.stack([part, part]) for part in parts))
        assert_eigensystem(matrix, w[1], v[1], TOLERANCE[dtype])


_alone, _batched = jax.jit(arrowhead), jax.jit(jax.vmap(arrowhead))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_smallest(size):
    a = rng(1).normal(size=(size + 1, size + 1))
    a = a + a.T
    w, v = np.linalg.eigh(a[:-1, :-1])
    assert_eigensystem(a, *eigh_bordered(w, v, a[:-1, -1], a[-1, -1]), 1e-14)


def matrices() -> dict[str, np.ndarray]:
    r = rng(2)
    a = r.normal(size=(24, 24))
    pixels = np.cumsum(r.normal(size=(200, 24)), axis=1)
    pixels[:, ::5] = 0  # border pixels never vary
    return {
        "indefinite": a + a.T,
        "identity": np.eye(24),
        "blocks": np.kron(np.eye(6), np.ones((4, 4))),
        "singular covariance": np.cov(pixels.T),
        "Hilbert": 1 / (np.arange(24)[:, None] + np.arange(24)[None] + 1.0),
    }


@pytest.mark.parametrize("name", matrices())
def test_many_insertions(name):
    """Each update starts from the last; 1000 of them are in `benchmarks/speed/`."""
    a = matrices()[name]
    start = 18  # six shapes to compile
    w, v = np.linalg.eigh(a[:start, :start])
    for n in range(start, 24):
        w, v = eigh_bordered(w, v, a[:n, n], a[n, n])
    assert_eigensystem(a, w, v, 1e-13)


def test_vmap_and_no_derivative():
    a = rng(3).normal(size=(4, 6, 6))
    a = a + np.swapaxes(a, 1, 2)
    w, v = np.linalg.eigh(a[:, :-1, :-1])
    new, vectors = jax.vmap(eigh_bordered)(w, v, a[:, :-1, -1], a[:, -1, -1])
    for i in range(4):
        assert_eigensystem(a[i], new[i], vectors[i], 1e-14)
    slope = jax.grad(lambda c: jnp.sum(eigh_bordered(w[0], v[0], a[0, :-1, -1], c)[0]))(1.0)
    assert slope == 0


def test_nan_gives_nan():
    w, v = np.ones(3), np.eye(3)
    for answer in eigh_bordered(w, v, np.array([0, np.nan, 1]), 1.0):
        assert np.all(np.isnan(answer))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (np.ones(3), np.eye(2), np.ones(3), 1.0),
            r"eigenvectors and v must be of shapes \(3, 3\)",
        ),
        ((np.ones(3), np.eye(3), np.ones(2), 1.0), r"got \(3, 3\) and \(2,\)"),
        ((np.ones(3), np.eye(3), np.ones(3), np.ones(2)), "c must be a single number"),
        ((np.ones(3), np.eye(3, dtype="float32"), np.ones(3), 1.0), "must be of one dtype"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        eigh_bordered(*arguments)
