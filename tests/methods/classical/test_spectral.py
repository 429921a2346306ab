"""The Laplacian score, SPEC and MCFS against literal NumPy and scikit-learn."""

import functools

import jax
import numpy as np
import pytest
from sklearn.linear_model import lars_path

import jaxfs
from tests.helpers import assert_close, assert_derivatives, rng
from tests.methods.ssfs.oracle import standardized

N, P = 24, 7
both_graphs = pytest.mark.parametrize("graph", ["heat", "adaptive"])
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


@functools.cache
def data() -> np.ndarray:
    x = rng(3).normal(size=(N, P))
    x[: N // 2, :2] += 3.0
    return standardized(x)


def weights(x, graph):
    """The affinity, one pair at a time."""
    n = len(x)
    d2 = np.array([[np.sum((a - b) ** 2) for b in x] for a in x])
    rows = [np.argsort(np.where(np.arange(n) == i, np.inf, d2[i])) for i in range(n)]
    if graph == "heat":
        sigma = [np.sqrt(d2[i, rows[i][1]]) for i in range(n)]
        return np.exp(-d2 / np.outer(sigma, sigma))
    s = np.zeros((n, n))
    for i in range(n):
        near, last = rows[i][:5], d2[i, rows[i][5]]
        s[i, near] = (last - d2[i, near]) / np.sum(last - d2[i, near])
    return (s + s.T) / 2


@both_graphs
@both_dtypes
def test_laplacian_score(graph, dtype):
    w = weights(data(), graph)
    degree = w.sum(axis=1)
    expected = []
    for f in data().T:
        f = f - (f @ degree) / degree.sum()
        smoothness = sum(w[i, j] * (f[i] - f[j]) ** 2 for i in range(N) for j in range(N)) / 2
        expected.append(1 - smoothness / (f @ (degree * f)) / 2)
    got = jaxfs.laplacian_score(data().astype(dtype), graph=graph)
    assert got.dtype == dtype
    assert_close(got, expected, {"float32": 1e-5, "float64": 1e-12}[dtype])
    if graph == "heat":
        assert set(np.argsort(got)[-2:]) == {0, 1}


SPEC = [
    ("phi1", 3, None),
    ("phi2", 2, None),
    ("phi3", 1, 4),
    pytest.param("phi1", 1, None, marks=pytest.mark.thorough),
    pytest.param("phi3", 2, N, marks=pytest.mark.thorough),
]


@pytest.mark.parametrize(("ranking", "power", "k"), SPEC)
def test_spec_score(ranking, power, k):
    """The paper's sums over eigenpairs; features off their mean, which φ₁ and φ₃ see."""
    x = data() + np.linspace(-1, 2, P)
    w = weights(x, "heat")
    degree = w.sum(axis=1)
    values, vectors = np.linalg.eigh(np.eye(N) - w / np.sqrt(np.outer(degree, degree)))
    expected = []
    for f in x.T:
        f = np.sqrt(degree) * f
        a = (vectors.T @ (f / np.linalg.norm(f))) ** 2
        phi1 = sum(values**power * a)
        phi3 = sum((2**power - values[1:k] ** power) * a[1:k])
        phi = {"phi1": phi1, "phi2": phi1 / (1 - a[0]), "phi3": phi3}[ranking] / 2**power
        expected.append(phi if ranking == "phi3" else 1 - phi)
    options = {"ranking": ranking, "power": power, "num_eigenvectors": k}
    assert_close(jaxfs.spec_score(x, **options), expected, 1e-11)
    assert_close(jaxfs.spec_score(x.astype("float32"), **options), expected, 1e-4)


def test_spec_and_the_laplacian_score():
    """φ₂ is the Laplacian score; a constant feature, the best by φ₁, and padding have no say."""
    x = np.concatenate([data(), np.full((N, 1), 1 / 3)], axis=1)
    assert_close(jaxfs.spec_score(x), jaxfs.laplacian_score(x), 1e-13)
    padded = np.concatenate([x, np.full((2, P + 1), np.nan)])
    for options in ({"ranking": "phi1"}, {"ranking": "phi3", "num_eigenvectors": 3}):
        score = jaxfs.spec_score(x, **options)
        assert score[P] == 0
        assert_close(jaxfs.spec_score(padded, mask=np.arange(N + 2) < N, **options), score, 1e-10)
    with pytest.raises(
        ValueError, match='num_eigenvectors must be given exactly if ranking="phi3"'
    ):
        jaxfs.spec_score(x, num_eigenvectors=2)
    with pytest.raises(
        ValueError, match="ranking must be one of 'phi1', 'phi2', 'phi3', got 'phi'"
    ):
        jaxfs.spec_score(x, ranking="phi")


@pytest.mark.parametrize(("graph", "dtype"), [("heat", "float64"), ("adaptive", "float32")])
def test_mcfs_score(graph, dtype):
    w = weights(data(), graph)
    degree = w.sum(axis=1)
    laplacian = np.eye(N) - w / np.sqrt(np.outer(degree, degree))
    v = np.linalg.eigh(laplacian)[1][:, 1:4] / np.sqrt(degree)[:, None]
    v = v / np.linalg.norm(v, axis=0)
    x = data() - data().mean(axis=0)
    ends = [lars_path(x, y - y.mean(), method="lasso", max_iter=3)[2][:, -1] for y in v.T]
    got = jaxfs.mcfs_score(data().astype(dtype), num_clusters=3, num_nonzero=3, graph=graph)
    assert got.dtype == dtype
    assert_close(got, np.max(np.abs(ends), axis=0), {"float32": 1e-3, "float64": 1e-9}[dtype])


@both_graphs
def test_derivatives(graph):
    assert_derivatives(
        lambda x: jaxfs.laplacian_score(x, graph=graph) @ np.arange(1.0, P + 1),
        data(),
        rng(1).normal(size=(N, P)),
    )


def test_derivatives_of_spec():
    assert_derivatives(
        lambda x: jaxfs.spec_score(x, ranking="phi1", power=3) @ np.arange(1.0, P + 1),
        data() + 1.0,
        rng(1).normal(size=(N, P)),
    )


def test_padding():
    """Padding has no effect with the adaptive graph; `test_contract.py` has the other cases."""
    x, where = np.full((N + 6, P), np.nan), np.arange(N + 6) % 5 != 2
    x[where] = data()
    score = functools.partial(jaxfs.mcfs_score, graph="adaptive", num_clusters=3, num_nonzero=3)
    assert_close(score(x, mask=where), score(data()), 1e-9)


@both_graphs
def test_what_must_not_trouble(graph):
    """A constant feature, far from 0 too; a duplicate feature; duplicate samples; one cluster."""
    x = np.concatenate([data(), np.full((N, 1), 1 / 3), data()[:, :1]], axis=1)
    x[3] = x[4] = x[5]
    smooth = np.asarray(jaxfs.laplacian_score(x, graph=graph))
    sparse = np.asarray(jaxfs.mcfs_score(x, graph=graph, num_clusters=1))
    assert smooth[P] == sparse[P] == 0
    assert smooth[0] == smooth[P + 1]
    assert np.all(np.isfinite(smooth))
    assert np.all(np.isfinite(sparse))
    same = np.ones_like(x)
    assert np.all(np.asarray(jaxfs.laplacian_score(same, graph=graph)) == 0)
    assert np.all(np.asarray(jaxfs.mcfs_score(same, graph=graph, num_clusters=1)) == 0)


def test_float32_far_from_zero():
    """A feature that varies a hundred-thousandth of itself is not constant."""
    cluster = np.repeat([0.0, 1.0], 500)
    x = rng(0).normal(size=(1000, 2))
    x[:, 0] = 1e4 + 0.1 * cluster + 0.01 * x[:, 0]
    x = x.astype(np.float32)
    expected = jaxfs.laplacian_score(x.astype(np.float64))
    assert_close(jaxfs.laplacian_score(x), expected, 1e-3)


@both_graphs
def test_nan_is_passed_on(graph):
    x = data().copy()
    x[2, 3] = np.nan
    assert np.all(np.isnan(jaxfs.laplacian_score(x, graph=graph)))
    options = {"num_clusters": 3, "num_nonzero": 3}
    assert np.all(np.isnan(jaxfs.mcfs_score(x, graph=graph, **options)))
    few = jax.jit(lambda mask: jaxfs.laplacian_score(data(), graph=graph, mask=mask))
    assert np.all(np.isnan(few(np.arange(N) < 2)))


def test_gradients_of_mcfs_are_zero():
    gradient = jax.grad(lambda x: jaxfs.mcfs_score(x, num_clusters=2, num_nonzero=2).sum())
    assert np.all(np.asarray(gradient(data())) == 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones((3, 2))}, r"x must be \(n, p\) with n ≥ 4 samples"),
        ({"graph": "knn"}, "graph must be one of 'heat', 'adaptive', got 'knn'"),
        ({"num_clusters": 24}, r"num_clusters must be an integer in \[1, 23\], got 24"),
        ({"num_nonzero": 0}, "num_nonzero must be at least 1, got 0"),
        ({"num_neighbors": 24}, r"num_neighbors must be an integer in \[1, 23\], got 24"),
        ({"mask": np.arange(N) < 2}, "mask must be true for at least 3 samples, got 2"),
        ({"mask": np.arange(N) < 6, "graph": "adaptive"}, "for at least 7 samples, got 6"),
        ({"mask": np.arange(N) < 3, "num_clusters": 3}, "more than num_clusters = 3 samples"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        jaxfs.mcfs_score(**({"x": data(), "num_clusters": 2} | change))
