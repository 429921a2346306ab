"""jaxfs.graphs against NumPy loops in float64, SciPy and theorems."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse.csgraph

from jaxfs import graphs, kernels
from tests.helpers import RTOL, assert_close, assert_derivatives, rng

DTYPES = (np.float32, np.float64)
GARBAGE = (np.nan, np.inf, -3e38, 1.0)
KINDS = ("unnormalized", "symmetric", "random_walk")
N, P, K = 14, 3, 4  # one shape for most tests: one compilation


def weights(n=N, seed=0):
    """Symmetric and nonnegative, with loops and an isolated node."""
    w = rng(seed).uniform(size=(n, n))
    w = w + w.T
    w[2] = w[:, 2] = 0
    return w


def neighbors_oracle(x, k):
    x = np.asarray(x, np.float64)
    d2 = np.sum(np.square(x[:, None] - x[None]), -1)
    np.fill_diagonal(d2, np.inf)
    order = np.argsort(d2, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(d2, order, 1)


# ---- Laplacians ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_laplacian_is_the_formula(kind, dtype):
    w = weights()
    degree = w.sum(1)
    inverse = np.where(degree > 0, 1 / np.where(degree > 0, degree, 1), 0)
    left, right = {
        "unnormalized": (np.ones(N), np.ones(N)),
        "symmetric": (np.sqrt(inverse), np.sqrt(inverse)),
        "random_walk": (inverse, np.ones(N)),
    }[kind]
    got = np.asarray(graphs.laplacian(w.astype(dtype), kind))
    assert got.dtype == dtype
    assert_close(got, left[:, None] * (np.diag(degree) - w) * right, RTOL[np.dtype(dtype).name])
    np.testing.assert_array_equal(got[2], 0)
    np.testing.assert_array_equal(got[:, 2], 0)


def test_laplacian_equals_scipy():
    w = weights() * (1 - np.eye(N))  # SciPy leaves loops out
    for kind, normed in (("unnormalized", False), ("symmetric", True)):
        expected = scipy.sparse.csgraph.laplacian(w, normed=normed)
        np.testing.assert_allclose(graphs.laplacian(w, kind), expected, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_zero_eigenvalues_count_components(kind):
    w = weights()
    w[:5, 5:] = w[5:, :5] = 0  # two parts and an isolated node
    values = np.linalg.eigvals(graphs.laplacian(w, kind))
    assert np.sum(np.abs(values) < 1e-12) == 3


def test_loops_do_not_cancel_a_weak_node():
    w = np.array([[1, 1e-9], [1e-9, 1]], np.float32)
    got = graphs.laplacian(w, "symmetric")
    np.testing.assert_allclose(got, [[1e-9, -1e-9], [-1e-9, 1e-9]], rtol=1e-6)


def test_laplacians_of_a_batch():
    batch = np.stack([weights(seed=i) for i in range(3)])
    for kind in KINDS:
        loop = np.stack([graphs.laplacian(w, kind) for w in batch])
        np.testing.assert_array_equal(graphs.laplacian(batch, kind), loop)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_laplacian(kind):
    c, direction = rng(1).normal(size=(N, N)), rng(2).normal(size=(N, N))
    direction[2] = direction[:, 2] = 0  # the isolated node stays isolated
    assert_derivatives(lambda w: jnp.sum(c * graphs.laplacian(w, kind)), weights(), direction)


# ---- Nearest neighbours -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block_size", [None, 1, 5])
def test_neighbors_of_any_block_size(block_size, dtype):
    x = rng(0).normal(size=(N, P)).astype(dtype)
    x[[4, 9]] = x[1]  # duplicates are neighbours of each other, never of themselves
    got = graphs.nearest_neighbors(x, K, block_size=block_size)
    order, d2 = neighbors_oracle(x, K)
    assert got.squared_distances.dtype == dtype
    np.testing.assert_array_equal(got.indices, order)
    np.testing.assert_allclose(got.squared_distances, d2, 4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_fall_to_the_lowest_index(dtype):
    for high in (2, 4):
        x = rng(0).integers(0, high, size=(60, 7)).astype(dtype)
        got = graphs.nearest_neighbors(x, 3)
        np.testing.assert_array_equal(got.indices, neighbors_oracle(x, 3)[0])


def test_float32_neighbors_far_from_the_origin():
    x = (1e4 + rng(0).normal(size=(60, 7))).astype(np.float32)
    got, (order, d2) = graphs.nearest_neighbors(x, 3), neighbors_oracle(x, 3)
    np.testing.assert_array_equal(got.indices, order)
    np.testing.assert_allclose(got.squared_distances, d2, 1e-6)


def test_the_smallest_graph():
    got = graphs.nearest_neighbors(np.array([[1.0], [4.0]]), 1)
    np.testing.assert_array_equal(got.indices, [[1], [0]])
    np.testing.assert_array_equal(got.squared_distances, [[9], [9]])


@pytest.mark.parametrize("present", [10, 3, 1])
def test_padding_is_nobodys_neighbor(present):
    x = rng(0).normal(size=(N, P))
    mask = np.arange(N) < present
    search = jax.jit(lambda x, mask: graphs.nearest_neighbors(x, K, mask=mask))
    answers = [search(np.where(mask[:, None], x, garbage), mask) for garbage in GARBAGE]
    found = min(K, present - 1)
    indices, d2 = np.full((N, K), -1), np.full((N, K), np.inf)
    indices[:present, :found], d2[:present, :found] = neighbors_oracle(x[:present], found)
    for answer in answers:
        np.testing.assert_array_equal(answer.indices, indices)
        np.testing.assert_allclose(answer.squared_distances, d2, 1e-14)
        chex.assert_trees_all_equal(answer, answers[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_no_list_is_known_where_a_sample_is_not(bad):
    x = rng(0).normal(size=(N, P))
    x[5, 1] = bad
    got = graphs.nearest_neighbors(x, K)
    assert np.all(np.asarray(got.indices) == -1)
    assert np.all(np.isnan(got.squared_distances))


def test_derivatives_of_neighbor_distances():
    x, direction = rng(0).normal(size=(N, P)), rng(1).normal(size=(N, P))
    x[4], direction[4] = x[1], direction[1]  # apart they would change places in the lists
    c = rng(2).normal(size=(N, K))
    f = jax.jit(lambda x: jnp.sum(c * graphs.nearest_neighbors(x, K).squared_distances))
    assert_derivatives(f, x, direction)


def test_memory_stays_bounded():
    """20 000 samples: all distances would be 1600 MB, all differences to 20 candidates 80 MB."""
    x = jax.ShapeDtypeStruct((20_000, 50), jnp.float32)
    f = jax.jit(lambda x: graphs.nearest_neighbors(x, 10))
    assert f.lower(x).compile().memory_analysis().temp_size_in_bytes < 64e6


# ---- Weights on lists ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_adaptive_weights_are_equation_9(dtype):
    e = np.sort(rng(0).uniform(size=(5, K + 1)), axis=1).astype(dtype)
    expected = np.zeros((5, K))
    for i, row in enumerate(e.astype(np.float64)):
        for j in range(K):
            expected[i, j] = (row[K] - row[j]) / (K * row[K] - sum(row[:K]))
    got = graphs.adaptive_weights(e)
    assert got.dtype == dtype
    assert_close(got, expected, RTOL[np.dtype(dtype).name])
    np.testing.assert_allclose(np.sum(got, axis=1), 1, 4 * np.finfo(dtype).eps)


def test_adaptive_weights_minimise_their_objective():
    """S6 with α from S15: no feasible move along the simplex improves."""
    e = np.sort(rng(0).uniform(size=9))
    k = K
    s = np.append(graphs.adaptive_weights(e[: k + 1]), np.zeros(9 - k))
    alpha = 0.5 * (k * e[k] - np.sum(e[:k]))
    gradient = s + e / (2 * alpha)  # of ½‖s + e/2α‖²; KKT: equal on the support, larger off it
    np.testing.assert_allclose(gradient[:k], gradient[0], rtol=1e-12)
    assert np.all(gradient[k:] >= gradient[0] - 1e-12)


def test_adaptive_weights_at_ties_and_gaps():
    inf = np.inf
    rows = [[2, 2, 2, 2], [0, 0, 0, 0], [0, 0, 0, 5], [1, 2, 3, inf], [1, inf, inf, inf], [inf] * 4]
    third = 1 / 3
    expected = [[third] * 3, [third] * 3, [third] * 3, [third] * 3, [1, 0, 0], [0, 0, 0]]
    rows = np.array(rows, float)
    np.testing.assert_allclose(graphs.adaptive_weights(rows), expected)
    assert np.all(np.isfinite(jax.jit(jax.jacrev(graphs.adaptive_weights))(rows)))
    assert np.all(np.isnan(graphs.adaptive_weights(np.array([1, np.nan, 3.0]))))


def test_derivatives_of_adaptive_weights():
    e, c = np.sort(rng(0).uniform(size=(5, K + 1))), rng(1).normal(size=(5, K))
    direction = rng(2).normal(size=e.shape)
    assert_derivatives(lambda e: jnp.sum(c * graphs.adaptive_weights(e)), e, direction)


def test_adjacency_of_lists():
    indices = np.array([[1, 2], [0, -1], [3, 1], [-1, -1]])
    s = np.array([[0.5, 0.25], [1, 9], [2, 4], [9, 9]])
    a = np.array([[0, 0.5, 0.25, 0], [1, 0, 0, 0], [0, 4, 0, 2], [0, 0, 0, 0]])
    for symmetrize, expected in {
        "none": a,
        "mean": (a + a.T) / 2,
        "max": np.maximum(a, a.T),
        "min": np.minimum(a, a.T),
    }.items():
        got = graphs.knn_adjacency(indices, s, symmetrize=symmetrize)
        np.testing.assert_array_equal(got, expected)
        ones = graphs.knn_adjacency(indices, symmetrize=symmetrize)
        if symmetrize != "mean":
            np.testing.assert_array_equal(ones, expected > 0)


# ---- Dirichlet energy ---------------------------------------------------------------------------


def energies_oracle(x, s):
    """½ Σ_ij s_ij (x_i − x_j)², two loops."""
    total = np.zeros(x.shape[1])
    for i in range(len(x)):
        for j in range(len(x)):
            total += 0.5 * s[i, j] * (x[i] - x[j]) ** 2
    return total


@pytest.mark.parametrize("dtype", DTYPES)
def test_energies_of_matrices_and_lists(dtype):
    """Energies of directed graphs, and the quadratic form of the Laplacian of ½(S + Sᵀ)."""
    x = (100 + rng(0).normal(size=(N, P))).astype(dtype)
    neighbors = graphs.nearest_neighbors(x, K + 1)
    s, indices = graphs.adaptive_weights(neighbors.squared_distances), neighbors.indices[:, :K]
    a = np.asarray(graphs.knn_adjacency(indices, s, symmetrize="none"))
    expected = energies_oracle(x.astype(np.float64), a.astype(np.float64))
    rtol = RTOL[np.dtype(dtype).name]
    for got in (
        graphs.dirichlet_energies(x, a),
        graphs.dirichlet_energies(x, s, indices=indices),
    ):
        assert got.dtype == dtype
        assert_close(got, expected, rtol)
    laplacian = np.asarray(graphs.laplacian(graphs.knn_adjacency(indices, s)), np.float64)
    centred = x.astype(np.float64) - 100
    assert_close(np.trace(centred.T @ laplacian @ centred), np.sum(expected), rtol)
    assert_close(graphs.dirichlet_energy(x, a), np.sum(expected), rtol)
    assert_close(graphs.dirichlet_energy(x, s, indices=indices), np.sum(expected), rtol)
    # The weights are those that tie the energy to the distances: ½ Σ s_ij e_ij.
    half = 0.5 * np.sum(np.asarray(s) * np.asarray(neighbors.squared_distances)[:, :K])
    assert_close(half, np.sum(expected), rtol)


def test_energy_of_constants_and_of_padding():
    x, w = np.full((N, P), 0.1), weights()  # node 2 is isolated
    np.testing.assert_array_equal(graphs.dirichlet_energies(x, w), 0)
    x = rng(0).normal(size=(N, P))
    answers = []
    for garbage in GARBAGE:
        x[2] = garbage
        answers.append(graphs.dirichlet_energies(x, w))
        np.testing.assert_array_equal(answers[-1], answers[0])
    keep = np.arange(N) != 2
    assert_close(answers[0], energies_oracle(x[keep], w[np.ix_(keep, keep)]), 1e-12)
    x[3, 1] = np.nan
    np.testing.assert_array_equal(np.isnan(graphs.dirichlet_energies(x, w)), [False, True, False])


def test_lists_without_neighbors_leave_padding_out():
    indices = np.array([[1, 2], [0, -1], [-1, -1], [0, 1]])
    s = np.array([[1.0, 2], [3, np.nan], [np.nan, 1], [1, 1]])
    indices[0, 1], s[0, 1] = 3, 2
    x, energies = rng(0).normal(size=(4, 2)), []
    compute = jax.jit(
        jax.value_and_grad(lambda x: jnp.sum(graphs.dirichlet_energies(x, s, indices=indices)))
    )
    for garbage in GARBAGE:
        x[2] = garbage
        energies.append(compute(x))
        chex.assert_trees_all_equal(energies[-1], energies[0])
    assert np.all(np.isfinite(energies[0][1]))


def test_derivatives_of_energies():
    x, direction = rng(0).normal(size=(N, P)), rng(1).normal(size=(N, P))
    w, dw, c = weights(), rng(2).normal(size=(N, N)), rng(3).normal(size=P)
    f = lambda args: jnp.sum(c * graphs.dirichlet_energies(*args))  # noqa: E731
    assert_derivatives(f, (x, w), (direction, dw))  # an edge to the isolated node included
    indices = np.asarray(graphs.nearest_neighbors(x, K).indices)
    s, ds = rng(4).uniform(size=(N, K)), rng(5).normal(size=(N, K))
    s[:, 3] = 0
    g = lambda args: jnp.sum(c * graphs.dirichlet_energies(*args, indices=indices))  # noqa: E731
    assert_derivatives(g, (x, s), (direction, ds))


# ---- The contract -------------------------------------------------------------------------------


def adaptive_energy(x):
    neighbors = graphs.nearest_neighbors(x, K + 1)
    s = graphs.adaptive_weights(neighbors.squared_distances)
    return graphs.dirichlet_energies(x, s, indices=neighbors.indices[:, :K])


def spectral(x):
    affinity = kernels.self_tuning_affinity(kernels.squared_distances(x))
    return graphs.laplacian(affinity, "symmetric")


def dense_energy(x):
    return graphs.dirichlet_energies(
        x, graphs.knn_adjacency(graphs.nearest_neighbors(x, 2).indices)
    )


@pytest.mark.parametrize("f", [adaptive_energy, spectral, dense_energy])
def test_jit_vmap_and_one_compilation(f):
    batch = rng(0).normal(size=(3, N, P))
    once = jax.jit(chex.assert_max_traces(f, n=1))
    loop = np.stack([f(x) for x in batch])
    np.testing.assert_allclose(np.stack([once(x) for x in batch]), loop, rtol=1e-12, atol=1e-13)
    batched = jax.jit(jax.vmap(f))(batch)
    np.testing.assert_allclose(batched, loop, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", [adaptive_energy, spectral])
def test_values_and_gradients_lower_for_every_platform(f):
    x = jax.ShapeDtypeStruct((N, P), jnp.float32)
    g = jax.jit(jax.value_and_grad(lambda x: jnp.sum(f(x))))
    assert jax.export.export(g, platforms=("cpu", "cuda", "tpu"))(x).platforms


ONES, INDICES = np.ones((3, 2)), np.zeros((3, 2), int)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: graphs.laplacian(ONES), r"weights must be square.*\(3, 2\)"),
        (lambda: graphs.laplacian(np.eye(2), "cosine"), "kind must be one of .* got 'cosine'"),
        (lambda: graphs.nearest_neighbors(ONES, 3), r"k must be an integer in \[1, 2\], got 3"),
        (lambda: graphs.nearest_neighbors(ONES[:1], 1), "k must be"),
        (lambda: graphs.nearest_neighbors(ONES, 1, block_size=0), "block_size must be at least 1"),
        (lambda: graphs.nearest_neighbors(ONES, 1, mask=[1, 1]), r"mask .*shape \(2,\)"),
        (lambda: graphs.nearest_neighbors(ONES[0], 1), "x must be"),
        (lambda: graphs.adaptive_weights(np.ones((3, 1))), r"k \+ 1.*got shape \(3, 1\)"),
        (lambda: graphs.knn_adjacency(ONES), "indices must be integers"),
        (lambda: graphs.knn_adjacency(INDICES, np.ones((3, 3))), "weights and indices must be"),
        (lambda: graphs.knn_adjacency(INDICES, symmetrize="or"), "symmetrize must be .* got 'or'"),
        (lambda: graphs.dirichlet_energies(ONES, np.eye(2)), "x and weights must be"),
        (lambda: graphs.dirichlet_energy(ONES, ONES[:2], indices=INDICES[:2]), "x and weights"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_neighbours_that_do_not_exist_are_refused_or_missing():
    indices, x = np.array([[7], [0], [1]]), np.arange(3.0)[:, None]
    for call in (
        lambda i: graphs.knn_adjacency(i),
        lambda i: graphs.dirichlet_energies(x, np.ones((3, 1)), indices=i),
    ):
        with pytest.raises(ValueError, match=r"indices must be in \[-1, 2\], got"):
            call(indices)
        missing = np.where(indices == 7, -1, indices)
        assert np.array_equal(jax.jit(call)(indices), call(missing))


def test_float32_samples_go_with_unweighted_neighbours():
    x = np.random.default_rng(0).normal(size=(9, 2)).astype("float32")
    adjacency = graphs.knn_adjacency(graphs.nearest_neighbors(x, 2).indices)
    assert graphs.dirichlet_energies(x, adjacency).dtype == jnp.float32


def test_adaptive_weights_of_tiny_distances_have_finite_derivatives():
    e = 1e-25 * jnp.array([1.0, 2.0, 5.0, 7.0], jnp.float32)
    gradient = jax.grad(lambda e: graphs.adaptive_weights(e)[0])(e)
    expected = jax.grad(lambda e: graphs.adaptive_weights(e)[0])(1e25 * e)
    assert_close(1e-25 * gradient, expected, 1e-4)
