"""Clustering accuracy, variation of information and stability.

The tests compare with oracles and with values computed by hand, and check mathematical laws.
"""

import functools
import itertools
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import jaxfs
from jaxfs import evaluate
from jaxfs.evaluate import clustering_accuracy, clustering_stability, variation_of_information
from tests.helpers import RTOL, assert_close, rng

K = 4
accuracy = jax.jit(clustering_accuracy, static_argnames=("num_classes", "num_clusters"))
distance = jax.jit(functools.partial(variation_of_information, num_clusters=K))


def codes(seed: int, n: int = 30, k: int = K) -> np.ndarray:
    return rng(seed).integers(0, k, size=n)


def table(a, b, k: int, m: int, weights=None) -> np.ndarray:
    out = np.zeros((k, m))
    np.add.at(out, (a, b), 1.0 if weights is None else weights)
    return out


def entropy(p) -> float:
    p = np.ravel(p)[np.ravel(p) > 0]
    return float(-np.sum(p * np.log(p)))


def information(a, b, k: int = K, weights=None) -> float:
    """H(a) + H(b) − 2 I(a; b), I = H(a) + H(b) − H(a, b)."""
    p = table(a, b, k, k, weights)
    p = p / p.sum()
    return 2 * entropy(p) - entropy(p.sum(axis=0)) - entropy(p.sum(axis=1))


def test_is_public():
    assert jaxfs.evaluate is evaluate


# ---- Clustering accuracy ------------------------------------------------------------------------


@pytest.mark.parametrize("num_clusters", [2, 3, 5])
def test_accuracy_is_the_best_of_all_matchings(num_clusters):
    """The oracle tries every one-to-one map of clusters to classes, including unused codes."""
    for seed in range(10):
        y, c = codes(seed, 12, 3), codes(100 + seed, 12, num_clusters)
        names = range(max(3, num_clusters))
        best = max(np.mean(np.array(p)[c] == y) for p in itertools.permutations(names))
        got = accuracy(y, c, num_classes=3, num_clusters=num_clusters)
        assert_close(got, best, RTOL["float64"])


@pytest.mark.parametrize(("num_classes", "num_clusters"), [(20, 20), (15, 8), (8, 15), (1, 4)])
def test_accuracy_equals_scipy(num_classes, num_clusters):
    for seed in range(5):
        y, c = codes(seed, 200, num_classes), codes(50 + seed, 200, num_clusters)
        c = np.where(rng(seed).random(200) < 0.5, y % num_clusters, c)
        counts = table(y, c, num_classes, num_clusters)
        expected = counts[linear_sum_assignment(-counts)].sum() / 200
        got = accuracy(y, c, num_classes=num_classes, num_clusters=num_clusters)
        assert_close(got, expected, RTOL["float64"])


def test_accuracy_by_hand():
    y = [0, 0, 0, 1, 1, 2]
    assert float(clustering_accuracy(y, [2, 2, 2, 0, 0, 1], num_classes=3)) == 1
    assert_close(clustering_accuracy(y, [0] * 6, num_classes=3), 1 / 2, 1e-15)
    # Two clusters share class 0: only the larger is matched to it.
    assert_close(
        clustering_accuracy(y, [0, 0, 3, 1, 1, 2], num_classes=3, num_clusters=4), 5 / 6, 1e-15
    )
    # A greedy matching gives cluster 0 (3 samples) to class 0, and nothing is left for class 1.
    # The best matching gives cluster 1 to class 0, and cluster 0 to class 1: 4 samples.
    y, c = [0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0, 0]
    assert_close(clustering_accuracy(y, c, num_classes=2), 4 / 7, 1e-15)


def test_codes_are_names():
    y, c, names = codes(0), codes(1), rng(2).permutation(K)
    expected = accuracy(y, c, num_classes=K)
    assert accuracy(y, names[c], num_classes=K) == expected
    assert accuracy(names[y], c, num_classes=K) == expected
    assert_close(distance(names[y], c), distance(y, c), RTOL["float64"])


# ---- Variation of information -------------------------------------------------------------------


def test_information_equals_its_definition():
    for seed in range(10):
        a, b = codes(seed), codes(seed + 100)
        assert_close(distance(a, b), information(a, b), RTOL["float64"])


def test_information_by_hand():
    halves, crossed, one = [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]
    assert_close(distance(halves, crossed), 2 * math.log(2), 1e-15)  # independent: H(a) + H(b)
    assert_close(distance(halves, one), math.log(2), 1e-15)
    # One cluster of 4 samples against four clusters of 1 sample: log n, the largest possible value.
    assert_close(distance(one, [0, 1, 2, 3]), math.log(4), 1e-15)
    # The second clustering splits half of the samples into two clusters: ½ log 2.
    assert_close(distance(halves, [0, 0, 1, 2]), math.log(2) / 2, 1e-15)


def test_information_is_a_metric():
    runs = [codes(seed, 12, 1 + seed % K) for seed in range(12)]
    runs += [rng(9).permutation(K)[run] for run in runs[:3]]
    d = np.array([[float(distance(a, b)) for b in runs] for a in runs])
    assert_close(d, d.T, 1e-15)
    for (i, a), (j, b) in itertools.product(enumerate(runs), repeat=2):
        together = (a[:, None] == a) == (b[:, None] == b)
        assert (d[i, j] == 0) == together.all()
    assert (d >= 0).all()
    # The triangle inequality, for all triples of runs.
    assert (d[:, None, :] <= d[:, :, None] + d[None] + 1e-14).all()


def test_a_small_difference_keeps_its_digits():
    """One of 100 000 samples changes its cluster.

    The entropies are 3000 times the distance, so a difference of entropies would lose digits.
    """
    h = 50_000
    a = np.repeat([0, 1], h)
    b = np.where(np.arange(2 * h) == 0, 1, a)
    stay = (h - 1) * math.log1p(1 / (h - 1)) + h * math.log1p(1 / h)
    expected = (stay + math.log(h) + math.log(h + 1)) / (2 * h)
    assert_close(distance(a, b), expected, 1e-14)
    with jax.enable_x64(False):
        got = distance(a, b)
    assert got.dtype == jnp.float32
    assert_close(got, expected, 1e-6)


# ---- Stability ----------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 700, 2**22])
def test_stability_is_over_all_pairs(monkeypatch, budget):
    """The budgets give blocks of one run, of two runs (the last block has one), and of all runs."""
    monkeypatch.setattr(evaluate, "_BLOCK", budget)
    runs = np.stack([codes(seed) for seed in range(7)])
    expected = [information(a, b) for a, b in itertools.combinations(runs, 2)]
    got = clustering_stability(runs, num_clusters=K)
    assert_close(got.values, np.array(expected), RTOL["float64"])
    assert_close(got.mean, np.mean(expected), RTOL["float64"])
    assert_close(got.standard_deviation, np.std(expected), RTOL["float64"])


def test_renamed_runs_are_stable():
    run = codes(0)
    got = clustering_stability([run, (run + 1) % K, (run + 2) % K], num_clusters=K)
    assert got.mean == 0
    assert got.standard_deviation == 0
    assert not np.any(got.values)


# ---- What every function promises ---------------------------------------------------------------

FUNCTIONS = {
    "accuracy": lambda a, b, w=None: clustering_accuracy(a, b, num_classes=K, weights=w),
    "information": lambda a, b, w=None: variation_of_information(a, b, num_clusters=K, weights=w),
    "stability": lambda a, b, w=None: clustering_stability(
        jnp.stack([a, b, (a + b) % K]), num_clusters=K, weights=w
    ),
}
every_function = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS.keys())


def assert_trees_close(got, expected, rtol: float) -> None:
    jax.tree.map(functools.partial(assert_close, rtol=rtol), got, expected)


@every_function
def test_jit_and_vmap(f):
    a, b = (jnp.stack([codes(s) for s in seeds]) for seeds in (range(3), range(5, 8)))
    batched = jax.vmap(f)(a, b)
    chex.clear_trace_counter()
    once = jax.jit(chex.assert_max_traces(f, n=1))
    for i in range(3):
        expected = f(a[i], b[i])
        assert_trees_close(jax.tree.map(lambda v, i=i: v[i], batched), expected, 1e-15)
        assert_trees_close(once(a[i], b[i]), expected, 1e-15)


@every_function
def test_default_float_dtype(f):
    a, b = jnp.asarray(codes(0)), jnp.asarray(codes(1))
    assert {leaf.dtype for leaf in jax.tree.leaves(f(a, b))} == {jnp.dtype("float64")}
    with jax.enable_x64(False):
        single = f(a.astype("int32"), b.astype("int32"))
    assert {leaf.dtype for leaf in jax.tree.leaves(single)} == {jnp.dtype("float32")}
    assert_trees_close(single, f(a, b), RTOL["float32"])


@every_function
def test_weights_repeat_samples_or_leave_them_out(f):
    a, b, w = jnp.asarray(codes(0)), jnp.asarray(codes(1)), rng(2).integers(0, 3, size=30)
    assert_trees_close(f(a, b, w), f(jnp.repeat(a, w), jnp.repeat(b, w)), RTOL["float64"])
    spoilt = jnp.where(w == 0, 99, a)
    assert_trees_close(jax.jit(f)(spoilt, b, w), f(a, b, w), 0)


@every_function
@pytest.mark.parametrize("code", [-1, K])
def test_a_traced_code_out_of_range_gives_nan(f, code):
    a, b = jnp.asarray(codes(0)).at[3].set(code), jnp.asarray(codes(1))
    assert all(np.isnan(leaf).any() for leaf in jax.tree.leaves(jax.jit(f)(a, b)))


@every_function
def test_traced_weights_of_nan_give_nan(f):
    """The call also terminates: the matching algorithm would loop forever on NaN."""
    a, b, w = jnp.asarray(codes(0)), jnp.asarray(codes(1)), jnp.ones(30).at[0].set(jnp.nan)
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(jax.jit(f)(a, b, w)))


@every_function
def test_lowers_for_cpu_cuda_and_tpu(f):
    shape, platforms = jax.ShapeDtypeStruct((30,), jnp.int32), ("cpu", "cuda", "tpu")
    exported = jax.export.export(jax.jit(lambda a, b: f(a, b)), platforms=platforms)
    assert exported(shape, shape).platforms == platforms


def stability(runs, k: int = 2):
    return clustering_stability(runs, num_clusters=k)


def score(y, c, **options):
    return clustering_accuracy(y, c, **{"num_classes": 2, **options})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score([0, 2], [0, 1]), r"labels must be in 0 … 1 .*, got the label 2"),
        (lambda: score([0, 1], [0, -1]), r"clusters must be in 0 … 1 .*, got the label -1"),
        (lambda: score([0.0, 1.0], [0, 1]), "labels must be integer class codes, got dtype float"),
        (lambda: score([0, 1], [0, 1, 1]), r"clusters must be of shape \(2,\), .* shape \(3,\)"),
        (lambda: score([[0, 1]], [0, 1]), r"labels must be of shape \(n,\) .* shape \(1, 2\)"),
        (lambda: score([], []), r"labels must be of shape \(n,\) with n ≥ 1, .* shape \(0,\)"),
        (lambda: score([0], [0], num_classes=0), "num_classes must be at least 1, got 0"),
        (lambda: score([0], [0], num_clusters=1.5), "num_clusters must be an integer, got 1.5"),
        (lambda: score([0], [0], weights=[-1.0]), "weights must be finite and at least 0"),
        (lambda: distance([0, 1], np.array([0.5, 1])), "b must be integer class codes"),
        (lambda: variation_of_information([0, 2], [0, 1], num_clusters=2), "a must be in 0 … 1"),
        (lambda: stability([0, 1]), r"clusterings must be of shape \(r, n\) .* shape \(2,\)"),
        (lambda: stability([[0, 1]]), r"r ≥ 2 runs and n ≥ 1 samples, got shape \(1, 2\)"),
        (lambda: stability([[0, 1], [1, 5]]), "clusterings must be in 0 … 1"),
        (lambda: stability([[0, 1], [1, 0.5]]), "clusterings must be integer class codes"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- Stability of selections --------------------------------------------------------------------


def nogueira(z) -> tuple[float, float]:
    """The stability and its variance, as sums that follow the formulas of the paper."""
    m, d = z.shape
    p, k = z.mean(axis=0), z.sum(axis=1)
    mean = k.mean()
    expected = mean / d * (1 - mean / d)
    index = 1 - sum(m / (m - 1) * p[f] * (1 - p[f]) for f in range(d)) / d / expected
    phi = []
    for i in range(m):
        agreement = sum(z[i, f] * p[f] for f in range(d)) / d - k[i] * mean / d**2
        slack = 2 * mean * k[i] / d**2 - k[i] / d - mean / d + 1
        phi.append((agreement + index / 2 * slack) / expected)
    return index, 4 / m**2 * sum((a - np.mean(phi)) ** 2 for a in phi)


def test_selection_stability_is_nogueira():
    for seed in range(3):
        z = rng(seed).random((12, 9)) < rng(seed + 5).random(9)  # selections of different sizes
        got = evaluate.selection_stability(z, confidence=0.9)
        index, variance = nogueira(z)
        assert_close(got.stability, index, RTOL["float64"])
        assert_close(got.variance, variance, RTOL["float64"])
        reach = 1.6448536269514722 * np.sqrt(variance)
        assert_close(got.interval, [index - reach, index + reach], RTOL["float64"])


def test_selection_stability_has_the_variance_it_says():
    """Compare with the variance over many repetitions of independent selections."""
    chances = np.linspace(0.05, 0.95, 10)
    many = rng(0).random((1000, 200, 10)) < chances
    found = jax.jit(jax.vmap(evaluate.selection_stability))(many)
    assert 0.85 < np.var(found.stability) / np.mean(found.variance) < 1.15
    truth = 1 - np.mean(chances * (1 - chances)) / (np.mean(chances) * (1 - np.mean(chances)))
    inside = (found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1])
    assert 0.92 < np.mean(inside) < 0.98


def test_selection_stability_ends():
    always = np.tile([True, False, True], (4, 1))
    assert evaluate.selection_stability(always).stability == 1
    assert np.isnan(evaluate.selection_stability(np.ones((4, 3), int)).stability)
    for bad, message in (
        (np.ones(3), r"selected must be of shape \(m, d\)"),
        (np.full((2, 3), 2), "selected must be true or false, 1 or 0"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate.selection_stability(bad)
