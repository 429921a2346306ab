"""manifest_lowrank_score against the exact score, Algorithm 1 on low-rank kernels, differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs.methods.manifest import _blocks, _nystrom
from jaxfs.methods.manifest._shard import Shard
from tests.helpers import assert_close, assert_derivatives, rng
from tests.methods.manifest import oracle

KEY = jax.random.key(0)


def two_classes(d=24, n=5, seed=0):
    """Smooth curves of few samples: kernels that are nearly of low rank."""
    generator = rng(seed)
    x1, x2 = generator.normal(size=(2, n, d)) * 0.3 + np.sin(np.arange(d) / 2)
    x1[:, 1] = x1[:, 0] + 0.1 * x1[:, 1]
    return x1, x2


def kernel(x, factor=1.0):
    return oracle.rbf_kernel(x, factor * np.median(oracle.feature_distances(x)))


def truncated(k, rank):
    """The leading eigenpairs of a kernel, put together again."""
    w, v = np.linalg.eigh(k)
    return (v[:, -rank:] * w[-rank:]) @ v[:, -rank:].T


def with_mean_tail(k, rank):
    """A kernel whose eigenvalues beyond the rank are replaced by their mean."""
    w, v = np.linalg.eigh(k)
    w[:-rank] = np.mean(w[:-rank])
    return (v * w) @ v.T


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_full_rank_it_is_the_exact_score(dtype):
    x1, x2 = (x.astype(dtype) for x in two_classes(10))
    w1 = np.array([1.0, 0.5, 0.0, 2.0, 1.0])
    exact = jaxfs.manifest_score(x1, x2, weights1=w1, t=0.3, ridge=0.1)
    got = jaxfs.manifest_lowrank_score(KEY, x1, x2, rank=10, weights1=w1, t=0.3, ridge=0.1)
    assert got.dtype == dtype
    assert_close(got, exact, {"float32": 1e-3, "float64": 1e-9}[dtype])


@pytest.mark.parametrize(
    ("rank", "factor", "t"), [(3, 1.0, 0.5), (3, 0.25, 0.3), (14, 0.25, 0.5), (23, 0.5, 0.8)]
)
def test_the_joint_subspace_is_exact(rank, factor, t):
    """With every feature a landmark: Algorithm 1 on d×d kernels whose tail is its mean."""
    x1, x2 = two_classes()
    dense = [with_mean_tail(kernel(x, factor), rank) + 0.01 * np.eye(24) for x in (x1, x2)]
    got = jaxfs.manifest_lowrank_score(
        KEY, x1, x2, rank=rank, landmarks=24, bandwidth=jaxfs.Median(factor), t=t
    )
    assert_close(got, oracle.algorithm1(*dense, t), 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_duplicated_and_coinciding_features(dtype):
    """A kernel of rank 1 and one of rank 3 have no tail, whatever the rank that is asked for."""
    x1, x2 = rng(1).normal(size=(2, 6, 3)).astype(dtype)
    x1, x2 = np.repeat(x1[:, :1], 12, axis=1), np.repeat(x2, 4, axis=1)
    exact = jaxfs.manifest_score(x1, x2, bandwidth=2.0)
    score = jax.jit(lambda a: jaxfs.manifest_lowrank_score(KEY, a, x2, rank=5, bandwidth=2.0))
    # The square root of a singular matrix of landmarks keeps half of the digits.
    assert_close(score(x1), exact, {"float32": 5e-3, "float64": 1e-7}[dtype])
    assert np.all(np.isfinite(jax.grad(lambda a: jnp.sum(score(a)))(x1)))


@pytest.mark.parametrize("factor", [0.1, 0.25])
def test_small_bandwidths_find_planted_features(factor):
    """Features 0 … 9 follow feature 10 in the second class only; the spectra are nearly flat."""
    x1, x2 = rng(0).normal(size=(2, 20, 600)).astype(np.float32)
    x2[:, :10] = x2[:, 10:11] + 0.1 * x2[:, :10]
    score = jaxfs.manifest_lowrank_score(KEY, x1, x2, rank=20, bandwidth=jaxfs.Median(factor))
    assert set(np.argsort(-score)[:11].tolist()) == set(range(11))


def test_landmarks_and_passes_approach_the_leading_eigenpairs(monkeypatch):
    monkeypatch.setattr(_nystrom, "BLOCK", 1000)  # several blocks of rows
    x = two_classes(80)[0]
    k, w = kernel(x), jnp.ones(5)
    sigma = jnp.asarray(np.median(oracle.feature_distances(x)))
    shard = Shard(x.shape[1], x.shape[1])

    @jax.jit
    def factors(x):
        lazy = _nystrom.lazy_kernel(x, w, sigma, shard, x.T)
        chosen = _nystrom.pivots(_nystrom.pivot_draws(KEY, shard.total)[0], lazy, 40)
        coarse, fine = (_nystrom.nystrom(lazy, chosen[:m], 6) for m in (8, 40))
        return coarse, fine, _nystrom.refined(lazy, coarse)

    best = np.linalg.norm(k - truncated(k, 6))
    loss = [np.linalg.norm(k - np.asarray(f @ f.T)) / best for f in factors(x)]
    assert loss[0] > 1.2
    assert loss[1] < 1.02
    assert loss[2] < 1 + 0.5 * (loss[0] - 1)


def test_landmarks_are_distinct_and_reach_loners():
    """57 of 60 features nearly coincide; the other three are among the 15 landmarks."""
    x = 1e-3 * rng(0).normal(size=(4, 60))
    x[:, [7, 20, 41]] += np.eye(4, 3) * 5
    w = jnp.ones(4)
    shard = Shard(x.shape[1], x.shape[1])

    @jax.jit
    def landmarks(x):
        lazy = _nystrom.lazy_kernel(x, w, jnp.asarray(1.0), shard, x.T)
        return _nystrom.pivots(_nystrom.pivot_draws(KEY, shard.total)[0], lazy, 15)

    chosen = landmarks(x).tolist()
    assert {7, 20, 41} < set(chosen)
    assert len(set(chosen)) == 15


def test_landmarks_reach_small_clusters():
    """Twenty of 2000 features are close to each other, all others are far apart."""
    x = rng(0).normal(size=(30, 2000))
    x[:, 100:120] = x[:, 100:101] + 0.01 * x[:, 100:120]
    shard = Shard(2000, 2000)

    @jax.jit
    def landmarks(key):
        lazy = _nystrom.lazy_kernel(x, jnp.ones(30), jnp.asarray(0.7), shard, x.T)
        return _nystrom.pivots(_nystrom.pivot_draws(key, shard.total)[0], lazy, 30)

    chosen = map(landmarks, jax.random.split(KEY, 10))
    # Of uniform draws, 26% reach the cluster.
    assert sum(bool(np.any((c >= 100) & (c < 120))) for c in chosen) >= 7


@pytest.mark.parametrize("factor", [0.3, 1.0])
def test_gradient_is_that_of_the_factors(factor):
    x1, x2 = two_classes()
    weight = rng(3).normal(size=24)

    def total(x1, bandwidth, ridge, t):
        score = jaxfs.manifest_lowrank_score(
            KEY, x1, x2, rank=4, landmarks=9, refine=1,
            bandwidth=bandwidth, ridge=ridge, t=t,
        )  # fmt: skip
        return score @ jnp.asarray(weight)

    at = (jnp.asarray(x1), jaxfs.Median(jnp.asarray(factor), sample=20), 0.05, 0.4)
    along = (rng(4).normal(size=x1.shape), jaxfs.Median(jnp.asarray(0.5), sample=20), 0.02, 0.1)
    assert_derivatives(lambda a: total(*a), at, along, rtol=1e-5)


def test_a_second_derivative_is_refused():
    x1, x2 = two_classes()
    score = lambda r: jnp.sum(jaxfs.manifest_lowrank_score(KEY, x1 * r, x2, rank=2))  # noqa: E731
    with pytest.raises(NotImplementedError, match="no further derivative"):
        jax.grad(jax.grad(score))(1.0)


def test_mistakes_are_named():
    x1, x2 = two_classes()
    score = functools.partial(jaxfs.manifest_lowrank_score, KEY, x1, x2)
    for options, message in [
        ({"rank": 25}, r"rank must be an integer in \[1, 24\], got 25"),
        ({"rank": 0}, r"rank must be an integer in \[1, 24\], got 0"),
        ({"rank": 5, "landmarks": 4}, r"landmarks must be an integer in \[5, 24\], got 4"),
        ({"rank": 5, "refine": -1}, "refine must be at least 0, got -1"),
        ({"rank": 5, "block": 25}, r"block must be an integer in \[1, 24\], got 25"),
        ({"rank": 5, "ridge": 0.0}, "ridge must be positive, got 0.0"),
        ({"rank": 5, "ridge": -1.0}, "ridge must be at least 0, got -1.0"),
        ({"rank": 5, "t": 2.0}, "t must be in"),
    ]:
        with pytest.raises(ValueError, match=message):
            score(**options)
    wide = np.zeros((2, 20_000), np.float32)
    with pytest.raises(ValueError, match=r"sample ≤ 16384 for 20000 features, got Median.*1 GiB"):
        jaxfs.manifest_lowrank_score(KEY, wide, wide, rank=3, bandwidth=jaxfs.Median(1.0))


def test_cost_is_known_before():
    exact = jaxfs.manifest_cost(6000, 50, dtype="float64")
    low = jaxfs.manifest_cost(6000, 50, 200, "float64")
    assert exact.memory_bytes == 8 * 6000**2 * 8
    assert low.flops < 0.1 * exact.flops
    blocks = jaxfs.manifest_cost(6000, 50, 200, "float64", block=1500)
    assert low.flops < blocks.flops < 0.2 * exact.flops
    wide, wider = (jaxfs.manifest_cost(d, 40, 200, "float32") for d in (100_000, 200_000))
    assert wide.memory_bytes < 3e9 < jaxfs.manifest_cost(100_000, 40).memory_bytes
    assert wider.memory_bytes < 2 * wide.memory_bytes
    assert wider.flops < 2 * wide.flops
    with pytest.raises(ValueError, match="rank must be"):
        jaxfs.manifest_cost(10, 5, 11)


# ---- Blocks -------------------------------------------------------------------------------------


def restricted_score(kernels, blocks, rank, ridge, t):
    """diag |D| of both kernels on the span of a block's features and the leading eigenvectors."""
    out = np.empty(len(kernels[0]))
    leading = np.concatenate([np.linalg.eigh(k)[1][:, -rank:] for k in kernels], axis=1)
    for block in blocks:
        span = np.concatenate([np.eye(len(out))[:, block], leading], axis=1)
        q = np.linalg.qr(span)[0]  # the first columns are the block's features, up to sign
        dense = [q.T @ k @ q + ridge * np.eye(q.shape[1]) for k in kernels]
        out[block] = oracle.algorithm1(*dense, t)[: len(block)]
    return out


def blocks_of(xs, factor, size):
    """The blocks that the score uses, without their padding."""
    points, weights, sigmas = [], [], []
    for x in xs:
        shard = Shard(x.shape[1], x.shape[1])
        sigma = jnp.asarray(factor * np.median(oracle.feature_distances(x)))
        points.append(_nystrom.lazy_kernel(x, jnp.ones(len(x)), sigma, shard, x.T).points)
        weights.append(jnp.ones(len(x)))
        sigmas.append(sigma)
    return _blocks.partition(points, tuple(weights), tuple(sigmas), xs[0].shape[1], size)


@pytest.mark.parametrize(("size", "factor", "t"), [(8, 1.0, 0.5), (7, 0.25, 0.3)])
def test_blocks_are_exact_on_their_span(size, factor, t):
    """Sizes that divide 24 and that do not."""
    xs = two_classes()
    got = jaxfs.manifest_lowrank_score(
        KEY, *xs, rank=3, landmarks=24, block=size, bandwidth=jaxfs.Median(factor), t=t
    )
    blocks = [b[b < 24] for b in np.asarray(blocks_of(xs, factor, size))]
    assert sorted(np.concatenate(blocks).tolist()) == list(range(24))
    expected = restricted_score([kernel(x, factor) for x in xs], blocks, 3, 0.01, t)
    assert_close(got, expected, 1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [2, 24])
def test_one_block_is_the_exact_score(rank, dtype):
    x1, x2 = (x.astype(dtype) for x in two_classes())
    weights = np.array([1.0, 0.5, 0.0, 2.0, 1.0])
    exact = jaxfs.manifest_score(x1, x2, weights1=weights, t=0.3, ridge=0.1)
    score = functools.partial(jaxfs.manifest_lowrank_score, KEY, x1, x2, weights1=weights)
    got = score(rank=rank, block=24, t=0.3, ridge=0.1)
    assert got.dtype == dtype
    assert_close(got, exact, {"float32": 1e-3, "float64": 1e-9}[dtype])


def test_neighbours_share_a_block():
    """Four well separated clusters of different sizes that fill the blocks."""
    labels = np.repeat([2, 0, 3, 1], 10)
    xs = 10 * rng(2).normal(size=(2, 9, 4))[:, :, labels] + rng(3).normal(size=(2, 9, 40))
    for block in np.asarray(blocks_of(xs, 1.0, 10)):
        assert len(set(labels[block].tolist())) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_constant_and_coinciding_features(dtype):
    x1, x2 = rng(1).normal(size=(2, 6, 3)).astype(dtype)
    x1, x2 = np.repeat(x1[:, :1], 12, axis=1), np.repeat(x2, 4, axis=1)
    x2[:, 3] = 1
    exact = jaxfs.manifest_score(x1, x2, bandwidth=2.0)
    options = {"rank": 5, "bandwidth": 2.0, "block": 5}
    score = jax.jit(lambda a: jaxfs.manifest_lowrank_score(KEY, a, x2, **options))
    # The square root of a singular matrix of landmarks keeps half of the digits.
    assert_close(score(x1), exact, {"float32": 5e-3, "float64": 1e-7}[dtype])
    assert np.all(np.isfinite(jax.grad(lambda a: jnp.sum(score(a)))(x1)))


def test_blocks_are_closer_to_the_exact_score():
    """Clusters of features at a bandwidth at which neither few eigenpairs nor a mean suffice."""
    centres = rng(5).normal(size=(2, 12, 40))
    x1, x2 = np.repeat(centres, 6, axis=2) + 0.5 * rng(6).normal(size=(2, 12, 240))
    bandwidth = jaxfs.Median(0.4)
    exact = jaxfs.manifest_score(x1, x2, bandwidth=bandwidth)
    score = functools.partial(
        jaxfs.manifest_lowrank_score, KEY, x1, x2, rank=10, bandwidth=bandwidth
    )
    loss = [np.linalg.norm(r - exact) for r in (score(block=60), score())]
    assert loss[0] < 0.5 * loss[1]


def test_gradient_of_blocks_is_near_the_exact_gradient():
    """The span of nearly all eigenvectors is treated as a constant."""
    x1, x2 = two_classes()
    weight = rng(3).normal(size=24)
    low = functools.partial(jaxfs.manifest_lowrank_score, KEY, rank=9, landmarks=24, block=12)
    exact, got = (
        jax.grad(lambda a: jnp.asarray(weight) @ f(a, x2))(x1)  # noqa: B023
        for f in (jaxfs.manifest_score, low)
    )
    assert np.linalg.norm(got - exact) < 0.05 * np.linalg.norm(exact)


def test_a_second_derivative_of_blocks_is_refused():
    x1, x2 = two_classes()
    score = functools.partial(jaxfs.manifest_lowrank_score, KEY, rank=2, block=8)
    with pytest.raises(NotImplementedError, match="no further derivative"):
        jax.grad(jax.grad(lambda r: jnp.sum(score(x1 * r, x2))))(1.0)
