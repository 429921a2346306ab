"""jaxfs.kernels, and the distances and order statistics beneath it, against NumPy in float64."""

import fractions
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs import kernels
from jaxfs._numerics import smallest
from jaxfs.kernels import _rbf
from jaxfs.kernels._rbf import Median, Percentile
from tests.helpers import RTOL, assert_close, assert_derivatives, rng

DTYPES = (np.float32, np.float64)
GARBAGE = (np.nan, np.inf, -3e38, 1.0)


def exact(x, z=None, weights=None):
    """The formula, differences first, in float64."""
    x = np.asarray(x, np.float64)
    z = x if z is None else np.asarray(z, np.float64)
    gaps = np.square(x[:, None, :] - z[None, :, :])
    return gaps @ (np.ones(x.shape[1]) if weights is None else np.asarray(weights, np.float64))


def pairs(d2):
    return np.sqrt(np.asarray(d2, np.float64)[np.triu_indices(len(d2), 1)])


def symmetric(values, dtype):
    """A matrix of squared distances with the given ones above the diagonal."""
    values = np.asarray(values, dtype)
    d = (1 + math.isqrt(1 + 8 * len(values))) // 2
    out = np.zeros((d, d), dtype)
    out[np.triu_indices(d, 1)] = values
    return out + out.T


# ---- Squared distances --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (33, 20)])
def test_squared_distances_equal_the_formula(shape, dtype):
    x = rng(0).normal(size=shape).astype(dtype)
    z = rng(1).normal(size=shape).astype(dtype)
    w = rng(2).uniform(size=shape[1]).astype(dtype)
    tolerance = 10 * np.finfo(dtype).eps

    @jax.jit
    def compute(x, z, w):
        return (
            kernels.squared_distances(x),
            kernels.squared_distances(x, z),
            kernels.squared_distances(x, weights=w),
            kernels.squared_distances(x, z, weights=w),
            kernels.feature_squared_distances(x.T, weights=w),
            kernels.distances(x, z),
        )

    wanted = [exact(x), exact(x, z), exact(x, weights=w), exact(x, z, w), exact(x, weights=w)]
    for got, expected in zip(compute(x, z, w), [*wanted, np.sqrt(exact(x, z))], strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("p", "dtype"), [(1, np.float32), (20, np.float64), (1000, np.float32), (1000, np.float64)]
)
def test_symmetry_diagonal_and_duplicates_are_exact(p, dtype):
    x = (rng(p).normal(size=(33, p)) * rng(1).uniform(0.1, 9, size=p) + 3).astype(dtype)
    x[[5, 32, 20]] = x[0]
    d2 = np.array(kernels.squared_distances(x))
    np.testing.assert_array_equal(d2, d2.T)
    np.testing.assert_array_equal(np.diag(d2), 0)
    same = np.ix_([0, 5, 20, 32], [0, 5, 20, 32])
    np.testing.assert_array_equal(d2[same], 0)
    np.testing.assert_array_equal(np.asarray(kernels.squared_distances(x, x))[same], 0)
    d2[same], d2[np.diag_indices(33)] = 1, 1
    assert np.all(d2 > 0)


def test_float32_keeps_small_distances_far_from_the_origin():
    """Mean 1e4, spread 1: the uncentred product would be off by some 1e4² eps = 12 a coordinate."""
    x = (1e4 + rng(0).normal(size=(33, 20))).astype(np.float32)
    x[1] = x[0] + np.float32(2**-4)
    expected, off = exact(x), ~np.eye(33, dtype=bool)
    for got in (kernels.squared_distances(x), kernels.squared_distances(x, x)):
        np.testing.assert_allclose(np.asarray(got)[off], expected[off], rtol=1e-3)


def test_float32_keeps_small_distances_between_features_in_different_units():
    offsets = np.repeat([0.0, 1e3, 1e4], 5)
    x = (offsets + rng(0).normal(size=(20, 15))).astype(np.float32)
    got, expected = kernels.feature_squared_distances(x), exact(x.T)
    off = ~np.eye(15, dtype=bool)
    np.testing.assert_allclose(np.asarray(got)[off], expected[off], rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_distances_between_integers_are_exact(dtype):
    """So that ties stay ties, whatever order the product sums in."""
    for high in (2, 17):
        x = rng(0).integers(0, high, size=(33, 20)).astype(dtype)
        np.testing.assert_array_equal(kernels.squared_distances(x), exact(x))
        np.testing.assert_array_equal(kernels.squared_distances(x, x + 100), exact(x, x + 100))
        np.testing.assert_array_equal(kernels.feature_squared_distances(x), exact(x.T))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_nan_reaches_its_own_point_and_no_other(bad):
    x = rng(0).normal(size=(10, 4))
    x[3, 2] = bad
    for d2 in map(np.asarray, (kernels.squared_distances(x), kernels.squared_distances(x, x))):
        assert np.all(np.isnan(d2[3]))
        assert np.all(np.isnan(d2[:, 3]))
        others = np.delete(np.arange(10), 3)
        np.testing.assert_allclose(d2[np.ix_(others, others)], exact(x[others]), atol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_weights_and_masks_remove_whatever_stands_there(dtype):
    x = (rng(0).normal(size=(12, 7)) + 100).astype(dtype)
    w = np.array([1, 0, 2, 1, 0, 1, 1], dtype)
    mask = np.arange(12) < 8
    kept = np.ix_(mask, w > 0)
    compute = jax.jit(
        jax.value_and_grad(
            lambda x: jnp.sum(
                jnp.sqrt(1 + kernels.squared_distances(x, weights=w, mask=mask)[:8, :8])
            )
        )
    )
    values, gradients = [], []
    for garbage in GARBAGE:
        y = np.full_like(x, garbage)
        y[kept] = x[kept]
        value, gradient = compute(y)
        values.append(value)
        gradients.append(np.asarray(gradient)[kept])
        np.testing.assert_array_equal(np.asarray(gradient)[:8, w == 0], 0)
    expected = np.sum(np.sqrt(1 + exact(x[kept], weights=w[w > 0])))
    np.testing.assert_allclose(values[0], expected, rtol=10 * np.finfo(dtype).eps)
    for value, gradient in zip(values, gradients, strict=True):
        np.testing.assert_array_equal(value, values[0])
        np.testing.assert_array_equal(gradient, gradients[0])


def test_derivatives_of_distances_at_coincident_points():
    """In points and weights; the differences see the formula, not the zeros set by rounding."""
    x, w = rng(0).normal(size=(10, 4)), rng(1).uniform(0.5, 1, size=4)
    x[4] = x[1]
    x[5] = x[1] + 1e-9
    c, direction = rng(2).normal(size=(10, 10)), rng(3).normal(size=(10, 4))
    dw = rng(4).normal(size=4)

    def f(args):
        x, w = args
        return jnp.sum(c * kernels.squared_distances(x, weights=w))

    def exact_jacobian():
        gap, moved = x[:, None] - x[None], direction[:, None] - direction[None]
        return np.sum(c * (np.sum(2 * w * gap * moved, -1) + gap**2 @ dw))

    assert_derivatives(f, (x, w), (direction, dw))
    tangent = jax.jvp(f, ((jnp.asarray(x), jnp.asarray(w)),), ((direction, dw),))[1]
    assert_close(tangent, exact_jacobian(), 1e-12)
    assert_derivatives(lambda z: jnp.sum(c * kernels.squared_distances(x, z)), x, direction)


def test_derivative_in_a_weight_of_zero():
    x, w = rng(0).normal(size=(10, 4)), jnp.array([1.0, 0, 2, 0])
    jacobian = jax.jit(jax.jacfwd(lambda w: kernels.squared_distances(x, weights=w)))(w)
    np.testing.assert_allclose(jacobian, np.square(x[:, None] - x[None]), atol=1e-14)


def test_distance_has_a_finite_derivative_at_zero():
    jacobian = jax.jit(jax.jacrev(kernels.distances))(np.ones((10, 4)))
    np.testing.assert_array_equal(jacobian, 0)


# ---- Order statistics ---------------------------------------------------------------------------


def adversarial(dtype):
    random = rng(0)
    info = np.finfo(dtype)
    integer = np.int32 if dtype == np.float32 else np.int64
    tiny, top = (np.asarray(v).astype(dtype).view(integer) for v in (info.tiny, info.max))
    return {
        "one": [2.0],
        "three": [3.0, 1.0, 2.0],
        "uniform": random.uniform(size=1225),
        "chi2": random.chisquare(30, size=1225),
        "integers": random.integers(0, 9, size=1225),
        "constant": np.full(1225, 0.1),
        "two values": random.choice([1.0, 1.0 + 4 * info.eps], size=1225),
        "mostly zero": random.uniform(size=1225) * (random.uniform(size=1225) < 0.2),
        "far apart": random.choice([1e-30, 1.0, 1e30], size=1225) * random.uniform(size=1225),
        "all scales": np.exp(random.uniform(-80, 80, size=1225)),
        "any bits": random.integers(tiny, top, size=1225, dtype=integer).view(dtype),
        "denormal": info.smallest_subnormal * random.integers(0, 1000, size=1225),
        "outlier": np.append(random.uniform(size=1224), 1e30),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_order_statistics_are_exact(dtype):
    find = jax.jit(_rbf.order_statistics)
    for name, values in adversarial(dtype).items():
        values = np.asarray(values, dtype)
        n = len(values)
        present = np.arange(35 * 35).reshape(35, 35) < n
        ordered = np.append(np.sort(values), values.max())
        for rank in {0, 1 % n, n // 20, n // 2, n - 1}:
            got = np.asarray(find(np.resize(values, (35, 35)), present, rank))
            larger = ordered[np.searchsorted(ordered, ordered[rank], side="right") :]
            expected = np.append(
                ordered[rank : rank + 2], larger[:1] if len(larger) else ordered[-1]
            )
            known = 1 if name == "denormal" else 3  # the others may be flushed to 0
            bits = f"u{values.itemsize}"  # compared as integers: NumPy too may flush denormals
            np.testing.assert_array_equal(got[:known].view(bits), expected[:known].view(bits), name)


def test_order_statistics_of_nothing_and_of_nan():
    values, find = jnp.array([[1.0, jnp.nan, 3.0]]), jax.jit(_rbf.order_statistics)
    assert find(values, jnp.zeros((1, 3), bool), 0) == (0, 0, 0)
    assert find(values, jnp.array([[True, False, True]]), 0) == (1, 3, 3)
    assert np.all(np.isnan(find(values, jnp.ones((1, 3), bool), 0)))


@pytest.mark.parametrize("n", [1, 2, 16, 137])
def test_smallest_are_those_of_a_stable_sort(n):
    random = rng(n)
    rows = np.stack([random.normal(size=n), random.integers(0, 3, size=n), np.zeros(n)])
    rows[0, random.uniform(size=n) < 0.2] = np.inf
    for k in {1, (n + 1) // 2, n}:
        find = jax.jit(jax.vmap(lambda row, k=k: smallest(row, k)))
        values, indices = find(rows)
        order = np.argsort(rows, axis=1, kind="stable")[:, :k]
        expected = np.take_along_axis(rows, order, 1)
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(indices, np.where(np.isinf(expected), -1, order))


# ---- Bandwidths ---------------------------------------------------------------------------------

QS = (0, 0.125, 5, 33.25, 50, 99.75, 100)


@pytest.mark.parametrize("dtype", DTYPES)
def test_percentiles_equal_numpy(dtype):
    """NumPy computes in float64; a percentile of 0 is replaced by the smallest positive number."""
    compute = jax.jit(lambda d2, q: kernels.bandwidth(d2, Percentile(q, 2.0)))
    for name, values in adversarial(dtype).items():
        if name == "denormal":
            continue  # their roots are a matter of the processor's mode
        d2 = symmetric(values, dtype)
        ordered = np.sort(pairs(d2))
        for q in QS:
            expected = 2 * (np.percentile(ordered, q) or ordered[ordered > 0][0])
            got = compute(d2, q)
            assert got.dtype == dtype
            # A few eps; and the position among the ranks is rounded too, NumPy's and ours.
            k, n = math.floor(q / 100 * (len(ordered) - 1)), len(ordered)
            tolerance = 4 * expected + n * (ordered[min(k + 1, n - 1)] - ordered[k])
            assert abs(float(got) - expected) <= np.finfo(dtype).eps * tolerance, (name, q)


def test_position_is_exact_among_millions():
    """float32 cannot count past 2²⁴: there whole percents are exact, others to a part of a rank."""
    for number in (1, 2, 101, 4_950, 17_793_561, 2_000_000_000):
        for q in (0, 1, 5, 50, 99, 100, 12.5, 0.25):
            rank, fraction = _rbf._position(jnp.float32(q), jnp.int32(number))
            exact = fractions.Fraction(q) / 100 * (number - 1)
            error = abs(float(int(rank) + fractions.Fraction(float(fraction)) - exact))
            limit = 1e-5 if q == int(q) else 1e-5 + 1e-9 * number
            assert error <= limit, (number, q)
            assert 0 <= rank < number


@pytest.mark.parametrize("dtype", DTYPES)
def test_median_and_plain_numbers(dtype):
    d2 = kernels.squared_distances(rng(0).normal(size=(10, 4)).astype(dtype))
    median = kernels.bandwidth(d2, Median(0.1))
    np.testing.assert_array_equal(median, kernels.bandwidth(d2, Percentile(50, 0.1)))
    np.testing.assert_allclose(median, 0.1 * np.median(pairs(d2)), 4 * np.finfo(dtype).eps)
    for rule in (3, 3.0, np.float32(3), jnp.asarray(3.0)):
        sigma = np.asarray(kernels.bandwidth(d2, rule))
        assert sigma == 3
        assert sigma.dtype == dtype


def test_bandwidth_where_points_coincide():
    x = np.zeros((10, 4))
    x[7:, 0] = 5, 7, 20  # 21 of 45 pairs at distance 0
    d2 = kernels.squared_distances(x)
    sigma, slope = jax.value_and_grad(lambda rule: kernels.bandwidth(d2, rule))(
        Percentile(20.0, 3.0)
    )
    assert sigma == 6  # three times the smallest positive distance
    assert (slope.factor, slope.q) == (2, 0)
    assert kernels.bandwidth(jnp.zeros((10, 10)), Median()) == 0
    assert kernels.bandwidth(jnp.zeros((1, 1)), Median()) == 0
    assert kernels.bandwidth(jnp.array([[0.0, 9], [9, 0]]), Median(2.0)) == 6


def test_bandwidth_of_what_is_not_finite():
    d2 = np.array(kernels.squared_distances(rng(0).normal(size=(10, 4))))
    for bad in (np.nan, np.inf):
        broken = d2.copy()
        broken[2, 5] = broken[5, 2] = bad
        assert np.isnan(kernels.bandwidth(broken, Percentile(1)))
    diagonal = d2 + np.diag(np.full(10, np.nan))
    assert kernels.bandwidth(diagonal, Median()) == kernels.bandwidth(d2, Median())
    assert np.isnan(jax.jit(lambda q: kernels.bandwidth(d2, Percentile(q)))(101.0))


def test_bandwidth_mask_removes_points():
    mask = np.array([1, 1, 0, 1, 1, 1, 0, 1, 0, 1])
    d2 = np.asarray(kernels.squared_distances(rng(0).normal(size=(10, 4))))
    compute = jax.jit(jax.value_and_grad(lambda d2, rule: kernels.bandwidth(d2, rule, mask=mask)))
    for rule in (Median(), Percentile(7.0, 0.5)):
        expected = kernels.bandwidth(d2[np.ix_(mask > 0, mask > 0)], rule)
        for garbage in GARBAGE:
            padded = np.where(np.outer(mask, mask), d2, garbage)
            value, gradient = map(np.asarray, compute(padded, rule))
            np.testing.assert_array_equal(value, expected)
            assert int(np.sum(gradient != 0)) in {2, 4}
            assert np.all(gradient[mask == 0] == 0)


def test_a_sample_of_points_stands_for_all():
    """200 of 600: whatever the percentile, its rank is off by less than ½/√200.

    The 5th, where distances are sparse, is itself off by 3.3%.
    """
    x = rng(0).normal(size=(20, 600)) * rng(1).uniform(0.5, 2, size=600)
    every = np.sort(pairs(exact(x.T)))
    sampled = jax.jit(lambda q: kernels.feature_bandwidth(x, Percentile(q, sample=200)))
    for q in (5.0, 50.0, 95.0):
        sigma = float(sampled(q))
        assert abs(np.searchsorted(every, sigma) / every.size - q / 100) < 0.035
        assert sigma == pytest.approx(np.percentile(every, q), rel=0.04)
    few = x[:, :30]
    d2 = kernels.feature_squared_distances(few)
    for rule, same in ((Median(2.0, sample=30), Median(2.0)), (Median(sample=9), Median(1.0, 9))):
        assert_close(kernels.feature_bandwidth(few, rule), kernels.bandwidth(d2, same), 1e-14)
    assert kernels.feature_bandwidth(few, 3.0) == 3
    assert jax.tree.leaves(Median(2.0, sample=9)) == [2.0]
    for wrong in (1, 2.5):
        with pytest.raises(ValueError, match="sample must be"):
            Median(sample=wrong)


@pytest.mark.parametrize("rule", [Median(0.7), Percentile(13.0), Percentile(0)])
def test_derivatives_of_bandwidth(rule):
    x, direction = rng(0).normal(size=(10, 4)), rng(1).normal(size=(10, 4))
    # Duplicates that stay together: the smallest distance is 0, and Percentile(0) takes the next.
    x[3], direction[3] = x[7], direction[7]
    assert_derivatives(
        lambda x: kernels.bandwidth(kernels.squared_distances(x), rule), x, direction
    )


def test_second_derivatives_of_bandwidth():
    """Those of the distance attained, in forward over reverse mode and the other ways about."""
    x, first, second = (rng(i).normal(size=(10, 4)) for i in range(3))

    def sigma(x):
        return kernels.bandwidth(kernels.squared_distances(x), Percentile(13.0))

    assert_derivatives(lambda x: jax.jvp(sigma, (x,), (jnp.asarray(first),))[1], x, second)
    assert_derivatives(lambda x: jnp.vdot(jax.grad(sigma)(x), first), x, second)


def test_derivatives_of_bandwidth_in_its_rule():
    d2 = kernels.squared_distances(rng(0).normal(size=(10, 4)))

    def f(r):
        return kernels.bandwidth(d2, Percentile(r[0], r[1]))

    assert_derivatives(f, np.array([31.0, 0.8]), np.array([1.0, -0.4]))


def test_derivative_at_ties_is_shared():
    """By all entries tied, so it moves with the features when they are permuted."""
    d2 = symmetric([4.0, 4, 9, 4, 9, 9], np.float64)
    gradient = jax.jit(jax.grad(lambda d2: kernels.bandwidth(d2, Percentile(0))))(d2)
    np.testing.assert_allclose(gradient, (d2 == 4) / 6 / (2 * 2))
    corners = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    order = np.array([2, 0, 3, 1])
    f = jax.jit(jax.grad(lambda x: kernels.bandwidth(kernels.squared_distances(x), Median())))
    np.testing.assert_allclose(np.asarray(f(corners))[order], f(corners[order]), atol=1e-15)
    np.testing.assert_array_equal(f(np.ones((4, 2))), 0)


# ---- Kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_rbf_is_the_formula_and_its_limits(dtype):
    d2 = rng(0).uniform(0, 9, size=(4, 5)).astype(dtype)
    got = kernels.rbf(d2, 1.5)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, np.exp(-d2.astype(float) / 4.5), 10 * np.finfo(dtype).eps)
    zeros = np.array([0, 1e-30, 1, np.inf, np.nan], dtype)
    np.testing.assert_array_equal(kernels.rbf(zeros, 0), [1, 0, 0, 0, np.nan])
    np.testing.assert_allclose(kernels.rbf(zeros, 1e-15), [1, np.exp(-0.5), 0, 0, np.nan], 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rbf_has_finite_derivatives(dtype):
    d2 = np.array([0, 1e-30, 1e-10, 1, 1e10, 1e30], dtype)
    compute = jax.jit(jax.jacrev(kernels.rbf, (0, 1)))
    for sigma in (0.0, 1e-30, 1e-10, 1.0, 1e10):
        for jacobian in compute(d2, dtype(sigma)):
            assert np.all(np.isfinite(jacobian))


@pytest.mark.parametrize("rule", [1.3, Median(0.5), Percentile(20.0)])
def test_derivatives_of_feature_kernel(rule):
    x, direction = rng(0).normal(size=(6, 5)), rng(1).normal(size=(6, 5))
    x[:, 4], c = x[:, 1], rng(2).normal(size=(5, 5))  # a duplicate feature
    if rule != 1.3:
        direction[:, 4] = direction[:, 1]
    assert_derivatives(
        lambda x: jnp.sum(c * kernels.feature_kernel(x, bandwidth=rule)), x, direction
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_feature_kernel_is_equation_1(dtype):
    x = (rng(0).normal(size=(20, 8)) + 50).astype(dtype)
    x[:, 3], x[:, 6], x[:, 7] = x[:, 0], 50, 51  # a duplicate, two constants
    d2 = exact(x.T)
    expected = np.exp(-d2 / (2 * (0.5 * np.median(pairs(d2))) ** 2))
    got = np.asarray(kernels.feature_kernel(x, bandwidth=Median(0.5)))
    assert got.dtype == dtype
    assert_close(got, expected, RTOL[np.dtype(dtype).name])
    np.testing.assert_array_equal(np.diag(got), 1)
    assert got[0, 3] == 1
    w = rng(1).integers(0, 3, size=20)  # a weight of 2 is a sample twice
    weighted = kernels.feature_kernel(x, bandwidth=Median(0.5), weights=w)
    repeated = kernels.feature_kernel(np.repeat(x, w, axis=0), bandwidth=Median(0.5))
    assert_close(weighted, repeated, RTOL[np.dtype(dtype).name])


def test_feature_kernels_of_tiny_data():
    one = kernels.feature_kernel(np.array([[1.0, 3.0]]), bandwidth=Median(1.0))
    np.testing.assert_allclose(one, [[1, np.exp(-0.5)], [np.exp(-0.5), 1]])
    np.testing.assert_array_equal(kernels.feature_kernel(np.ones((1, 1)), bandwidth=Median()), 1)
    x = np.tile(np.arange(4.0)[:, None], (1, 3))
    kernel, gradient = jax.jit(
        jax.value_and_grad(lambda x: jnp.sum(kernels.feature_kernel(x, bandwidth=Percentile(10))))
    )(x)
    assert kernel == 9
    assert np.all(gradient == 0)


def affinity_oracle(x, k):
    """From the text: σ_i is the distance to the k-th neighbour, the sample itself not counted."""
    n, d2 = len(x), exact(x)
    sigma = np.empty(n)
    for i in range(n):
        others = np.sqrt(np.sort(np.delete(d2[i], i)))
        sigma[i] = others[k - 1] or np.min(others[others > 0])
    return np.array(
        [[np.exp(-d2[i, j] / (sigma[i] * sigma[j])) for j in range(n)] for i in range(n)]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 7])
def test_self_tuning_affinity_is_the_formula(k, dtype):
    x = rng(0).normal(size=(15, 3)).astype(dtype)
    x[[4, 9]] = x[2]  # σ = 0 for k ≤ 2
    got = np.asarray(kernels.self_tuning_affinity(kernels.squared_distances(x), k))
    assert got.dtype == dtype
    assert_close(got, affinity_oracle(x, k), RTOL[np.dtype(dtype).name])
    np.testing.assert_array_equal(got, got.T)
    np.testing.assert_array_equal(np.diag(got), 1)


def test_self_tuning_affinity_where_all_coincide():
    value, gradient = jax.jit(
        jax.value_and_grad(
            lambda x: jnp.sum(kernels.self_tuning_affinity(kernels.squared_distances(x)))
        )
    )(np.ones((10, 4)))
    assert value == 100
    np.testing.assert_array_equal(gradient, 0)


def test_self_tuning_affinity_without_padding():
    x, mask = rng(0).normal(size=(10, 4)), np.array([1, 1, 0, 1, 1, 0, 1, 1, 1, 1], bool)
    d2 = np.array(kernels.squared_distances(x))
    expected = np.zeros((10, 10))
    expected[np.ix_(mask, mask)] = affinity_oracle(x[mask], 2)
    affinity = jax.jit(lambda d2, mask: kernels.self_tuning_affinity(d2, mask=mask))
    answers = [affinity(np.where(np.outer(mask, mask), d2, garbage), mask) for garbage in GARBAGE]
    np.testing.assert_allclose(answers[0], expected, atol=1e-13)
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])
    np.testing.assert_array_equal(
        np.isnan(affinity(d2, np.arange(10) < 2)), np.outer(np.arange(10) < 2, np.arange(10) < 2)
    )
    d2[1, 4] = np.nan
    assert np.all(np.isnan(np.asarray(affinity(d2, np.ones(10)))[1]))


def test_derivatives_of_self_tuning_affinity():
    x, direction, c = (rng(i).normal(size=(10, 10)) for i in range(3))

    def f(x):
        return jnp.sum(c * kernels.self_tuning_affinity(kernels.squared_distances(x)))

    assert_derivatives(f, x, direction)
    x[5], direction[5] = x[2], direction[2]
    x[6], direction[6] = x[2], direction[2]
    assert_derivatives(f, x, direction)


# ---- The contract -------------------------------------------------------------------------------

FUNCTIONS = {
    "squared_distances": kernels.squared_distances,
    "feature_squared_distances": kernels.feature_squared_distances,
    "distances": lambda x: kernels.distances(x, 2 * x),
    "bandwidth": lambda x: kernels.bandwidth(kernels.squared_distances(x), Percentile(30.0)),
    "feature_kernel": lambda x: kernels.feature_kernel(x, bandwidth=Median(1.0)),
    "self_tuning_affinity": lambda x: kernels.self_tuning_affinity(kernels.squared_distances(x)),
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_jit_vmap_and_one_compilation(f):
    batch = rng(0).normal(size=(3, 10, 4))
    once = jax.jit(chex.assert_max_traces(f, n=1))
    loop = np.stack([f(x) for x in batch])
    np.testing.assert_allclose(np.stack([once(x) for x in batch]), loop, rtol=1e-12, atol=1e-13)
    batched = jax.jit(jax.vmap(f))(batch)
    np.testing.assert_allclose(batched, loop, rtol=1e-12, atol=1e-13)


def test_rules_travel_through_jit_and_vmap():
    d2 = kernels.squared_distances(rng(0).normal(size=(10, 4)))
    f = jax.jit(chex.assert_max_traces(kernels.bandwidth, n=1))
    qs = jnp.array([0.0, 10, 50, 100])
    loop = np.stack([f(d2, Percentile(q)) for q in qs])
    np.testing.assert_array_equal(
        jax.vmap(lambda q: kernels.bandwidth(d2, Percentile(q)))(qs), loop
    )
    np.testing.assert_allclose(loop, np.percentile(pairs(d2), qs), rtol=1e-14)


@pytest.mark.parametrize("f", list(FUNCTIONS.values())[-3:], ids=list(FUNCTIONS)[-3:])
def test_values_and_gradients_lower_for_every_platform(f):
    x = jax.ShapeDtypeStruct((10, 4), jnp.float32)
    g = jax.jit(jax.value_and_grad(lambda x: jnp.sum(f(x))))
    assert jax.export.export(g, platforms=("cpu", "cuda", "tpu"))(x).platforms


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kernels.squared_distances(np.ones(3)),
            r"x must be .* 2 dimensions, got shape \(3,\)",
        ),
        (lambda: kernels.squared_distances(np.ones((3, 2)), np.ones((3, 4))), "x and z must be"),
        (
            lambda: kernels.squared_distances(np.ones((3, 2)), weights=np.ones(3)),
            "weights .* a coordi",
        ),
        (lambda: kernels.squared_distances(np.ones((3, 2)), mask=np.ones(2)), "mask .* a point"),
        (
            lambda: kernels.feature_squared_distances(np.ones((3, 2)), weights=np.ones(2)),
            "a sample",
        ),
        (
            lambda: kernels.feature_squared_distances(np.ones((3, 2)), weights=[1, -1, 0]),
            "at least 0",
        ),
        (lambda: kernels.bandwidth(np.ones((3, 2)), Median()), r"square.*\(3, 2\)"),
        (lambda: kernels.bandwidth(np.ones((2, 2)), -1.0), "bandwidth must be positive, got -1.0"),
        (lambda: kernels.bandwidth(np.ones((2, 2)), "median"), "bandwidth .*'median'"),
        (lambda: kernels.bandwidth(np.ones((2, 2)), np.ones(2)), "bandwidth .* single number"),
        (lambda: kernels.bandwidth(np.ones((2, 2)), Percentile(101.0)), r"q must be in \[0, 100\]"),
        (lambda: kernels.rbf(np.ones(3), -2.0), "sigma must be at least 0, got -2.0"),
        (lambda: kernels.feature_kernel(np.ones((3, 2)), bandwidth=None), "bandwidth must be"),
        (
            lambda: kernels.self_tuning_affinity(np.ones((3, 3)), 3),
            r"num_neighbors .*\[1, 2\], got 3",
        ),
        (lambda: kernels.self_tuning_affinity(np.ones((3, 3)), 2, mask=[1, 1, 0]), "mask .* got 2"),
        (lambda: kernels.self_tuning_affinity(np.ones((1, 1))), "num_neighbors"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_array_of_all_differences():
    """Temporaries of distances and affinities are a few n × n arrays, and no n × n × p one."""
    n, p = 600, 300
    affinity = jax.jit(lambda x: kernels.self_tuning_affinity(kernels.squared_distances(x)))
    shape = jax.ShapeDtypeStruct((n, p), jnp.float32)
    memory = affinity.lower(shape).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 12 * 4 * n * n
