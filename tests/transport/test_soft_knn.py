"""The soft choice of neighbours against a long Sinkhorn iteration, and its derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs import graphs
from jaxfs.transport import SoftKNN, soft_knn, soft_weights
from tests.helpers import (
    FLOAT32_GRADIENT,
    assert_close,
    assert_derivatives,
    directional_difference,
    rng,
)

K, M = 3, 10
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


# ---- Eqs. 11, 13, 14 and S5 once more, in logarithms --------------------------------------------


def log_sum_exp(a, axis):
    top = a.max(axis, keepdims=True)
    return np.squeeze(top + np.log(np.exp(a - top).sum(axis, keepdims=True)), axis)


def sinkhorn(e, k: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Iterative Bregman projections until they stand still, at each γ of a decreasing sequence.

    The limit does not depend on where the iteration starts; from the answer at 2γ it comes sooner.
    """
    n = e.size
    cost = (e[:, None] / np.sort(e)[k] - np.arange(k + 2)) ** 2
    mu, nu = np.full(n, 1 / n), np.append(np.ones(k + 1), n - k - 1) / n
    prices = np.zeros(k + 2)
    for g in gamma * 2.0 ** np.arange(12, -1, -1):
        log_u = prices / g
        for _ in range(20_000 if g == gamma else 100):
            log_v = np.log(mu) - log_sum_exp(log_u - cost / g, 1)
            log_u, before = np.log(nu) - log_sum_exp(log_v[:, None] - cost / g, 0), log_u
            if np.abs(log_u - before).max() < 1e-12:
                break
        prices = g * log_u
    plan = np.exp(log_v[:, None] + log_u - cost / gamma)
    assert np.abs(plan.sum(1) - mu).max() < 1e-11, "the oracle has not converged"
    return n * plan[:, :k].sum(1), n * plan[:, k]


def clustered(gamma: float, seed: int, m: int = M) -> np.ndarray:
    """Distances that are near each other or far apart, by the measure of γ.

    Between the two, where links of 1e-4 to 1e-9 join the levels, Sinkhorn takes millions of steps.
    """
    gaps = rng(seed).choice([0.0, 0.3, 1.0, 2.0, 45.0], size=m)
    a = np.cumsum(gaps) * gamma
    return 3.7 * rng(seed + 100).permutation(a - np.sort(a)[K] + 1)


@functools.partial(jax.jit, static_argnames=("num_candidates", "block_size"))
def soft(e, mask, gamma, num_candidates=None, block_size=None):
    """One program for many tests."""
    options = {"num_candidates": num_candidates, "block_size": block_size}
    return soft_knn(e, K, gamma=gamma, mask=mask, **options)


def degenerate(dtype="float64") -> tuple[np.ndarray, np.ndarray]:
    """Rows on which a careless derivative is NaN, and their mask."""
    e = rng(1).gamma(2.0, size=(9, M))
    mask = np.ones(e.shape, bool)
    e[1, :] = 2.5  # all tie
    e[2, :5] = e[2].min()  # the nearest tie, beyond rank k + 1
    e[3, :6] = 0.0  # duplicates
    e[4, :2] = 0.0
    mask[4, 5:], e[4, 5:] = False, np.nan  # one more than k + 1
    mask[5, K:], e[5, K:] = False, np.inf  # k are left
    mask[6], e[6] = False, np.nan  # padding
    e[7] = 1e15 * e[7]
    e[7, 2] = 1e-12
    e[8, 3] = np.inf
    return e.astype(dtype), mask


# ---- Values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01, 1e-3])
def test_equals_a_long_sinkhorn(gamma):
    e = np.stack([clustered(gamma, seed) for seed in range(4)])
    mask = np.ones(e.shape, bool)
    mask[3, :4], e[3, :4] = False, np.nan
    e[3, 4:] = clustered(gamma, 7, 6)
    answer = soft(e, mask, gamma)
    for i in range(4):
        nearest, following = sinkhorn(e[i, mask[i]], K, gamma)
        np.testing.assert_allclose(answer.nearest[i, mask[i]], nearest, atol=1e-8)
        np.testing.assert_allclose(answer.next[i, mask[i]], following, atol=1e-8)
        assert not np.any(answer.nearest[i, ~mask[i]])


@pytest.mark.parametrize("gamma", [1.0, 0.01])
def test_candidates_may_be_permuted_and_rescaled(gamma):
    e, order = rng(2).gamma(2.0, size=(9, M)), rng(3).permutation(M)
    ones = np.ones(e.shape, bool)
    answer, permuted = soft(e, ones, gamma), soft(7 * e[:, order], ones, gamma)
    assert_close(permuted.nearest, answer.nearest[:, order], 1e-12)
    assert_close(permuted.next, answer.next[:, order], 1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01, 1e-3, 1e-4])
def test_float32_is_within_60_eps_of_float64(gamma):
    """`benchmarks/precision/soft_knn.py` has more rows, widths and k."""
    ones, gamma = np.ones((9, M), bool), np.float32(gamma)
    for seed in range(20):
        e = rng(seed).gamma(2.0, size=(9, M)).astype(np.float32)
        pairs = zip(soft(e, ones, gamma), soft(e.astype(float), ones, float(gamma)), strict=True)
        worst = max(np.abs(np.asarray(a, float) - np.asarray(b)).max() for a, b in pairs)
        assert worst <= 60 * np.finfo(np.float32).eps


def test_gamma_zero_is_a_sort():
    e = np.array([[4.0, 1.0, 3.0, 1.0, 9.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
    exact = soft_knn(e, 2, gamma=0)
    np.testing.assert_array_equal(exact.nearest, [[0, 1, 0, 1, 0], [1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(exact.next, [[0, 0, 1, 0, 0], [0, 0, 1, 0, 0]])
    near = soft_knn(e[:1], 2, gamma=1e-4)
    np.testing.assert_allclose(near.nearest, exact.nearest[:1], atol=1e-12)


def test_ties_share_and_small_rows_take_all():
    e, mask = degenerate()
    answer = soft(e, mask, 0.1)
    np.testing.assert_allclose(answer.nearest[1], K / M, rtol=1e-12)
    np.testing.assert_allclose(answer.next[1], 1 / M, rtol=1e-12)
    np.testing.assert_allclose(answer.nearest[3, :6], K / 6, rtol=1e-6)
    np.testing.assert_allclose(answer.nearest[5], np.arange(M) < K, atol=1e-15)
    np.testing.assert_array_equal(answer.nearest[6], 0)
    np.testing.assert_array_equal(answer.next[5:7], 0)
    assert answer.nearest[8, 3] == 0


def test_a_few_candidates_are_enough():
    x = rng(4).normal(size=(200, 20))
    e = np.sum(np.square(x[:6, None] - x[None]), axis=-1)
    mask = np.arange(200)[None, :] != np.arange(6)[:, None]
    weight = rng(5).normal(size=e.shape)

    def total(e, num_candidates):
        both = soft(e, mask, 0.01, num_candidates=num_candidates)
        return jnp.sum(weight * (both.nearest + both.next)), both

    slope = jax.grad(total, has_aux=True)
    (g_all, whole), (g_few, few) = slope(e, None), slope(e, 64)
    np.testing.assert_allclose(few.nearest, whole.nearest, atol=1e-4)
    np.testing.assert_allclose(few.next, whole.next, atol=1e-4)
    assert_close(g_few, g_all, 1e-4)
    small = soft(np.float32(e), mask, 0.01, num_candidates=64)
    np.testing.assert_allclose(small.nearest, few.nearest, atol=1e-5)
    assert small.nearest.dtype == jnp.float32


def test_blocks_rows_and_batches_change_nothing():
    e, mask = rng(6).gamma(2.0, size=(9, M)), rng(7).random((9, M)) < 0.8
    answer = soft(e, mask, 0.1)
    in_blocks = soft(e, mask, 0.1, block_size=4)
    batched = jax.vmap(lambda e, mask: soft_knn(e, K, gamma=0.1, mask=mask))(
        e.reshape(3, 3, M), mask.reshape(3, 3, M)
    )
    batched = jax.tree.map(lambda v: v.reshape(9, M), batched)
    eager = soft_knn(e, K, gamma=0.1, mask=mask)
    for other in (in_blocks, batched, eager):
        assert_close(other.nearest, answer.nearest, 1e-13)
        assert_close(other.next, answer.next, 1e-13)


def test_nan_stays_in_its_row_and_masked_content_has_no_influence():
    e, mask = rng(8).gamma(2.0, size=(9, M)), rng(9).random((9, M)) < 0.7
    answer = soft(e, mask, 0.1)
    for content in (np.nan, np.inf, -1e30):
        again = soft(np.where(mask, e, content), mask, 0.1)
        np.testing.assert_array_equal(again.nearest, answer.nearest)
    e[2, np.flatnonzero(mask[2])[0]] = np.nan
    spoilt = soft(e, mask, 0.1)
    assert np.all(np.isnan(spoilt.nearest[2]) & np.isnan(spoilt.next[2]))
    assert np.all(np.isnan(soft_weights(e, spoilt)[2]))
    others = np.arange(9) != 2
    np.testing.assert_array_equal(spoilt.nearest[others], answer.nearest[others])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": M}, rf"k must be an integer in \[1, {M - 1}\], got {M}"),
        ({"k": 0}, "k must be"),
        ({"gamma": -0.1}, "gamma must be at least 0, got -0.1"),
        ({"mask": np.ones(M)}, rf"mask must be of shape \(2, {M}\), as distances, got shape"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"scale": np.ones(3)}, r"scale must be a number or of shape \(2,\), got shape \(3,\)"),
        ({"num_candidates": K}, f"num_candidates must be at least {K + 1}, got {K}"),
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"distances": np.ones(M)}, "distances must be an array of 2 dimensions"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        soft_knn(**({"distances": np.ones((2, M)), "k": K, "gamma": 0.1} | arguments))


def test_weights_name_shapes_that_differ():
    with pytest.raises(ValueError, match="distances and soft must be of one shape"):
        soft_weights(np.ones((2, 4)), SoftKNN(np.ones((2, 3)), np.ones((2, 4))))


# ---- Weights of the graph -----------------------------------------------------------------------


@both_dtypes
def test_exact_weights_are_the_adaptive_ones(dtype):
    e, mask = degenerate(dtype)
    e = np.where(mask, e, np.inf)
    got = np.take_along_axis(
        np.asarray(soft_weights(e, soft_knn(e, K, gamma=0, mask=mask))),
        np.argsort(e, axis=1, kind="stable"),
        axis=1,
    )
    expected = graphs.adaptive_weights(np.sort(e, axis=1)[:, : K + 1])
    np.testing.assert_allclose(got[:, :K], expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    assert not np.any(got[:, K:])


def test_weights_become_the_adaptive_ones():
    e = rng(10).gamma(2.0, size=(9, M))
    order = np.argsort(e, axis=1)
    expected = graphs.adaptive_weights(np.take_along_axis(e, order, 1)[:, : K + 1])
    weights = soft_weights(e, soft(e, np.ones(e.shape, bool), 1e-4))
    got = np.take_along_axis(np.asarray(weights), order, 1)
    np.testing.assert_allclose(got[:, :K], expected, atol=1e-6)


@pytest.mark.parametrize("gamma", [10.0, 0.1, 1e-4])
def test_weights_follow_the_formula_and_sum_to_one(gamma):
    e, mask = degenerate()
    both = soft(e, mask, gamma)
    weights = np.asarray(soft_weights(e, both))
    present = mask & np.isfinite(e)
    np.testing.assert_allclose(weights.sum(1), present.any(1), rtol=1e-12)
    assert np.all(weights >= 0)
    assert not np.any(weights[~present])
    reach = np.sum(np.asarray(both.next)[0] * e[0])
    close = np.maximum(reach - e[0], 0)
    np.testing.assert_allclose(weights[0], close / close.sum(), atol=1e-10)
    np.testing.assert_allclose(weights[1], 1 / M, rtol=1e-12)
    np.testing.assert_allclose(weights[5, :K], 1 / K, rtol=1e-12)
    if gamma < 1:
        np.testing.assert_allclose(weights[3, :6], 1 / 6, rtol=1e-6)


# ---- Derivatives --------------------------------------------------------------------------------

A = rng(20).normal(size=(3, 9, M))


def total(e, mask, gamma, scale=None, graph=1.0, block_size=None):
    """A smooth function of all there is; `graph` is how much the weights of the graph count."""
    a = jnp.asarray(A[:, : e.shape[0], : e.shape[1]], e.dtype)
    both = soft_knn(e, K, gamma=gamma, mask=mask, scale=scale, block_size=block_size)
    indicators = jnp.sum(a[0] * both.nearest + a[1] * both.next)
    return indicators + graph * jnp.sum(a[2] * soft_weights(e, both))


@pytest.mark.parametrize("gamma", [0.3, 0.02])
def test_derivatives_equal_differences(gamma):
    """In the distances and γ; the scale is the distance of rank k + 1, and moves."""
    e, mask = rng(21).gamma(2.0, size=(4, M)), np.ones((4, M), bool)
    mask[2, 6:] = mask[3, 2:] = False
    direction = (rng(22).normal(size=e.shape), 0.01)
    assert_derivatives(
        lambda x: total(x[0], mask, x[1]), (e, jnp.asarray(gamma)), direction, step=1e-5 * gamma
    )


def test_derivatives_equal_differences_at_ties():
    """With a scale of its own: that of a rank has a kink there."""
    e, mask = degenerate()
    e, mask = e[:5], mask[:5]
    direction = (rng(23).normal(size=e.shape), rng(24).normal(size=5))
    start = (np.where(mask, e, 0), np.full(5, 1.5))
    assert_derivatives(lambda x: total(x[0], mask, 0.3, x[1], graph=0.0), start, direction)


def test_second_derivative_equals_differences():
    """In blocks: JAX forgets rules of derivatives that stand inside a loop, from the second on."""
    e, mask, v = rng(25).gamma(2.0, size=(2, 6)), np.ones((2, 6), bool), rng(26).normal(size=(2, 6))
    slope = jax.jit(jax.grad(lambda e: total(e, mask, 0.3, block_size=1)))
    _, curvature = jax.jit(lambda e: jax.jvp(slope, (e,), (v,)))(e)
    assert_close(curvature, directional_difference(slope, e, v), 1e-6)
    assert np.any(curvature != 0)


def test_finite_for_every_gamma_in_both_dtypes():
    slope = jax.jit(jax.value_and_grad(total), static_argnames="scale")
    for gamma in (10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4):
        gradients = {}
        for dtype in ("float32", "float64"):
            e, mask = degenerate(dtype)
            value, gradient = slope(e, mask, gamma)
            assert np.isfinite(value)
            assert np.all(np.isfinite(gradient)), f"γ = {gamma}, {dtype}"
            assert not np.any(gradient[~mask])
            assert np.any(gradient[0] != 0)
            # Without the graph: its weights are steeper at ties than float32 can tell.
            gradients[dtype] = slope(e, mask, gamma, graph=0.0)[1]
            both = soft(e, mask, gamma)
            number = (mask & np.isfinite(e)).sum(1)
            eps = 20 * np.finfo(dtype).eps
            np.testing.assert_allclose(both.nearest.sum(1), np.minimum(number, K), rtol=eps)
            np.testing.assert_allclose(both.next.sum(1), number > K, rtol=eps)
        small, large = (np.asarray(g)[:7] for g in gradients.values())  # the rest overflows it
        size = np.abs(large).max(1, keepdims=True) + 1e-6  # as small as float32 can tell
        assert np.max(np.abs(small - large) / size) <= FLOAT32_GRADIENT, f"γ = {gamma}"


def test_lowers_for_cpu_cuda_and_tpu():
    def value_and_gradient(e):
        both = functools.partial(soft_knn, k=K, gamma=0.1, num_candidates=6, block_size=2)
        return jax.value_and_grad(lambda e: jnp.sum(soft_weights(e, both(e)) * e))(e)

    platforms = ("cpu", "cuda", "tpu")
    shape = jax.ShapeDtypeStruct((3, M), jnp.float32)
    exported = jax.export.export(jax.jit(value_and_gradient), platforms=platforms)(shape)
    assert exported.platforms == platforms


def test_gamma_may_be_an_array_that_jit_does_not_trace():
    distances, gamma = jnp.asarray(rng(0).uniform(size=(2, 6))), jnp.asarray(0.1)
    got = jax.jit(lambda e: soft_knn(e, 2, gamma=gamma).nearest)(distances)
    np.testing.assert_allclose(got, soft_knn(distances, 2, gamma=0.1).nearest, rtol=1e-12)
