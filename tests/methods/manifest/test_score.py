"""manifest_score against the literal algorithms, the propositions and finite differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import jaxfs
from jaxfs.linalg import dominant_eigenpairs
from jaxfs.methods.manifest import _score
from tests.helpers import RTOL, assert_close, assert_derivatives, rng, spd
from tests.methods.manifest import oracle


def two_classes(seed=0, n1=12, n2=9, d=8):
    generator = rng(seed)
    x1, x2 = generator.normal(size=(n1, d)), generator.normal(size=(n2, d))
    x1[:, 1] = x1[:, 0] + 0.3 * x1[:, 1]
    return x1, x2


def kernels(x1, x2, factor=1.0, ridge=0.0):
    sigmas = [factor * np.median(oracle.feature_distances(x)) for x in (x1, x2)]
    return [
        oracle.rbf_kernel(x, s) + ridge * np.eye(x.shape[1])
        for x, s in zip((x1, x2), sigmas, strict=True)
    ]


# ---- The algorithms -----------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("factor", [0.3, 1.0])
def test_equals_algorithm_1(ridge, factor):
    x1, x2 = two_classes()
    got = jaxfs.manifest_score(x1, x2, bandwidth=jaxfs.Median(factor), ridge=ridge)
    assert_close(got, oracle.algorithm1(*kernels(x1, x2, factor, ridge)), 1e-9)


def digits(dtype=np.float64):
    """Real data with constant pixels: the images of 4 and of 9 that come with scikit-learn."""
    x, y = load_digits(return_X_y=True)
    return tuple((x[y == digit] / 16).astype(dtype) for digit in (4, 9))


@pytest.mark.parametrize("ridge", [1e-3, 1e-2])
def test_equals_algorithm_1_on_real_data(ridge):
    x1, x2 = digits()
    got = jaxfs.manifest_score(x1, x2, ridge=ridge)
    assert_close(got, oracle.algorithm1(*kernels(x1, x2, 1.0, ridge)), 1e-9)


def test_float32_is_near_float64_where_a_class_has_few_samples():
    """Generalised eigenvalues from 1/5000 to 5000: whitening by one kernel alone is 40% off."""
    generator = rng(0)
    level = generator.normal(size=200)
    x1, x2 = (level + 0.5 * generator.normal(size=(n, 200)) for n in (4, 3))
    double = jaxfs.manifest_score(x1, x2, ridge=1e-3)
    single = jaxfs.manifest_score(x1.astype(np.float32), x2.astype(np.float32), ridge=1e-3)
    assert_close(single, double, 1e-3)


def test_float32_is_near_float64_on_real_data():
    single = jaxfs.manifest_score(*digits(np.float32))
    assert_close(single, jaxfs.manifest_score(*digits()), 1e-3)


@pytest.mark.parametrize("t", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_equals_the_definition_at_any_point_of_the_geodesic(t):
    x1, x2 = two_classes(1)
    got = jaxfs.manifest_score(x1, x2, t=t, ridge=0.1)
    assert_close(got, oracle.algorithm1(*kernels(x1, x2, 1.0, 0.1), t=t), 1e-9)


def test_swapping_the_classes_reverses_the_geodesic():
    x1, x2 = two_classes(2)
    forth = jaxfs.manifest_score(x1, x2, t=0.3)
    assert_close(jaxfs.manifest_score(x2, x1, t=0.7), forth, 1e-10)


@pytest.mark.parametrize("rank", [1, 3, 5, 8])
def test_equals_algorithm_2_on_well_conditioned_kernels(rank):
    k1, k2 = spd(8, seed=1), spd(8, seed=2)
    got = jaxfs.manifest_from_kernels(k1, k2, geometry="spsd", rank=rank)
    assert_close(got, oracle.algorithm2(k1, k2, rank), 1e-9)


def test_semidefinite_kernels_take_their_numerical_rank():
    a, b = rng(3).normal(size=(2, 8, 4))
    b[:, 3] = 0
    k1, k2 = a @ a.T, b @ b.T  # of ranks 4 and 3
    got = jaxfs.manifest_from_kernels(k1, k2, geometry="spsd")
    assert_close(got, oracle.algorithm2(k1, k2, 3), 1e-9)


def test_both_geometries_agree_at_full_rank():
    k1, k2 = spd(6, seed=1), spd(6, seed=2)
    semidefinite = jaxfs.manifest_from_kernels(k1, k2, geometry="spsd", rank=6)
    assert_close(semidefinite, jaxfs.manifest_from_kernels(k1, k2, ridge=0), 1e-9)
    at_t = jaxfs.manifest_from_kernels(k1, k2, geometry="spsd", rank=6, t=0.2)
    assert_close(at_t, jaxfs.manifest_from_kernels(k1, k2, ridge=0, t=0.2), 1e-9)


def test_operators_are_the_papers():
    x1, x2 = two_classes(4)
    operators = jaxfs.manifest_operators(x1, x2, ridge=0.05)
    k1, k2 = kernels(x1, x2, 1.0, 0.05)
    assert_close(operators.kernel1, k1, 1e-12)
    assert_close(operators.kernel2, k2, 1e-12)
    assert_close(operators.mean, oracle.geodesic(k1, k2, 0.5), 1e-10)
    assert_close(operators.difference, oracle.difference_spd(k1, k2), 1e-9)
    operators = jaxfs.manifest_operators(x1, x2, geometry="spsd", rank=3)
    assert_close(
        operators.difference, oracle.difference_spsd(*kernels(x1, x2), 3), 1e-8
    )  # the leading eigenvectors of kernels that are not far apart
    values, vectors = dominant_eigenpairs(operators.difference, 2)
    assert_close(operators.difference @ vectors, vectors * values[None], 1e-10)
    assert abs(values[0]) >= abs(values[1])


@pytest.mark.parametrize("bandwidth", [2.0, jaxfs.Percentile(30.0), jaxfs.Percentile(95, 0.5)])
def test_bandwidth_rules(bandwidth):
    x1, x2 = two_classes(5)

    def sigma(x):
        if isinstance(bandwidth, float):
            return bandwidth
        return bandwidth.factor * np.percentile(oracle.feature_distances(x), bandwidth.q)

    expected = oracle.algorithm1(*(oracle.rbf_kernel(x, sigma(x)) + 0.01 * np.eye(8)
                                   for x in (x1, x2)))  # fmt: skip
    assert_close(jaxfs.manifest_score(x1, x2, bandwidth=bandwidth, ridge=0.01), expected, 1e-9)


# ---- Propositions -------------------------------------------------------------------------------


def test_proposition_1_with_its_half_and_its_bound():
    q = np.linalg.qr(rng(6).normal(size=(6, 6)))[0]
    w1, w2 = rng(7).uniform(0.5, 2, size=(2, 6))
    k1, k2 = q @ np.diag(w1) @ q.T, q @ np.diag(w2) @ q.T
    expected = 0.5 * np.sqrt(w1 * w2) * (np.log(w1) - np.log(w2))
    assert_close(jaxfs.geometry.spd.difference(k1, k2, 0.5), q @ np.diag(expected) @ q.T, 1e-12)
    bound = 2 * np.abs(q).T @ np.abs(k1 - k2) @ np.abs(q)
    assert np.all(np.abs(expected) <= np.diagonal(bound))


@pytest.mark.parametrize("scale", [0.03, 0.1, 0.3])
def test_proposition_2_bound_for_nearly_shared_eigenvectors(scale):
    """The bound holds for both forms of the eigenvalue, with the paper's ½ and without it.

    Eq. 21 omits a term: for unit vectors, λ₂ = φᵀK₂φ + λ₂‖φ_ε‖² − φ_εᵀK₂φ_ε. Both corrections lie
    in [0, a ε²], so the bound of eq. 22 is still true.
    """
    x1 = rng(21).normal(size=(20, 6))
    k1, k2 = (oracle.rbf_kernel(x, 5.0) for x in (x1, x1 + scale * rng(22).normal(size=x1.shape)))
    (w1, v1), (w2, v2) = np.linalg.eigh(k1), np.linalg.eigh(k2)
    v2 = v2 * np.sign(np.sum(v1 * v2, axis=0))
    offset = v2 - v1
    squared = np.sum(offset**2, axis=0)
    corrected = np.diagonal(v1.T @ k2 @ v1) + w2 * squared - np.diagonal(offset.T @ k2 @ offset)
    assert_close(corrected, w2, 1e-12)
    bound = 2 * np.diagonal(np.abs(v1).T @ np.abs(k1 - k2) @ np.abs(v1))
    bound = bound + 2 * k2.sum(axis=1).max() * squared
    printed = np.sqrt(w1 * w2) * (np.log(w1) - np.log(w2))
    assert np.all(np.abs(printed) <= bound)


def test_proposition_2_nearly_shared_eigenvectors_are_nearly_eigenvectors_of_the_difference():
    q = np.linalg.qr(rng(23).normal(size=(6, 6)))[0]
    skew = rng(24).normal(size=(6, 6))
    w1, w2 = rng(25).uniform(0.5, 2, size=(2, 6))
    expected = 0.5 * np.sqrt(w1 * w2) * (np.log(w1) - np.log(w2))
    residuals = []
    for angle in (1e-2, 1e-3):
        turned = jax.scipy.linalg.expm(angle * (skew - skew.T)) @ q
        k1, k2 = q @ np.diag(w1) @ q.T, turned @ np.diag(w2) @ turned.T
        difference = np.asarray(jaxfs.geometry.spd.difference(k1, k2))
        residuals.append(np.linalg.norm(difference @ q - q * expected))
    assert residuals[0] < 0.1
    assert residuals[1] == pytest.approx(residuals[0] / 10, rel=0.1)


@pytest.mark.parametrize("t", [0.1, 0.3, 0.5, 0.9])
def test_one_logarithm_is_a_multiple_of_the_difference(t):
    """Log_M K₁ = 2t D(t) and Log_M K₂ = −2(1 − t) D(t): the report's D is 2t times ours."""
    k1, k2 = spd(6, seed=26), spd(6, seed=27)
    difference = np.asarray(jaxfs.geometry.spd.difference(k1, k2, t))
    m = oracle.geodesic(k1, k2, t)
    assert_close(2 * t * difference, oracle.log_map(m, k1), 1e-12)
    assert_close(-2 * (1 - t) * difference, oracle.log_map(m, k2), 1e-12)


def test_proposition_3_first_order_in_the_perturbation():
    k1, e = spd(6, seed=8), spd(6, seed=9) - spd(6, seed=10)
    errors = []
    for h in (1e-3, 1e-4):
        k2 = k1 + h * e
        w, v = np.linalg.eig(np.linalg.inv(k1) @ k2)
        root = (v @ np.diag(np.sqrt(w)) @ np.linalg.inv(v)).real
        approximation = -0.5 * (k2 - k1) @ root
        exact = np.asarray(jaxfs.geometry.spd.difference(k1, k2, 0.5))
        errors.append(np.linalg.norm(exact - approximation) / np.linalg.norm(exact))
    assert errors[0] < 1e-2
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.1)


# ---- The paper's examples -----------------------------------------------------------------------


def labelled(x, y, **options):
    w1, w2 = (y == 0).astype(x.dtype), (y == 1).astype(x.dtype)
    return jaxfs.manifest_score(x, x, weights1=w1, weights2=w2, **options)


def test_xor_100():
    """Section 5.1: y = f1 xor f5 among 100 features, 50 samples; benchmarks/papers has 200 runs."""
    x = rng(0).integers(0, 2, size=(20, 50, 100)).astype(np.float32)
    y = (x[:, :, 0] != x[:, :, 4]).astype(np.int32)
    scores = jax.jit(jax.vmap(lambda x, y: labelled(x, y, bandwidth=jaxfs.Median(0.1))))(x, y)
    picks = np.argsort(np.asarray(scores), axis=1)[:, -2:]
    assert np.isin(picks, [0, 4]).mean() >= 0.97


def test_toy_of_d_2_3():
    """y = f1 is missed among independent features, and found with f5 once that is constant."""
    x = rng(1).integers(0, 2, size=(20, 500, 20)).astype(np.float32)
    y = x[:, :, 0].astype(np.int32)
    score = jax.jit(jax.vmap(labelled))
    apart = np.asarray(score(x, y)).mean(axis=0)
    assert apart[0] < 1.2 * np.median(apart)
    x[:, :, 4] = 0
    together = np.asarray(score(x, y)).mean(axis=0)
    others = np.delete(together, [0, 4])
    assert together[[0, 4]].min() > 3 * others.max()


# ---- Degenerate data ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", RTOL)
def test_constant_and_duplicate_features_are_never_nan(dtype):
    x1, x2 = (x.astype(dtype) for x in two_classes())
    x1[:, 3] = x2[:, 3] = 5.0
    x1[:, 5], x2[:, 5] = x1[:, 4], x2[:, 4]

    @jax.jit
    def score_and_gradients(x1, x2):
        score, pull = jax.vjp(jaxfs.manifest_score, x1, x2)
        return score, pull(jnp.ones_like(score))

    score, gradients = score_and_gradients(x1, x2)
    assert np.isfinite(score).all()
    assert score[4] == pytest.approx(float(score[5]), rel=1e-4)
    assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("dtype", RTOL)
def test_one_sample_and_all_equal_features(dtype):
    x1, x2 = (x.astype(dtype) for x in two_classes())
    one = x1[:1]
    assert np.isfinite(jaxfs.manifest_score(one, x2[:1])).all()
    ones = np.ones((1, 8), dtype)
    assert np.isfinite(jaxfs.manifest_score(ones, one)).all()
    assert_close(jaxfs.manifest_score(ones, ones), np.zeros(8), 10 * RTOL[dtype])


def test_identical_classes_score_zero_with_a_finite_subgradient():
    x = jnp.asarray(two_classes()[0])
    total = jax.jit(jax.value_and_grad(lambda a: jnp.sum(jaxfs.manifest_score(a, x))))
    score, gradient = total(x)
    assert abs(float(score)) < 1e-10
    assert np.isfinite(gradient).all()


def test_singular_kernels_without_a_ridge_are_nan_not_noise():
    x = np.repeat(two_classes()[0], 2, axis=1)  # every feature twice
    assert np.isnan(jaxfs.manifest_score(x, x[::-1] * 2, ridge=0.0)).all()


def test_more_features_than_samples_in_float32():
    generator = rng(0)
    x1, x2 = (generator.normal(size=(10, 150)) for _ in range(2))
    x1[:, 0] = x1[:, 1]
    low = jaxfs.manifest_score(x1.astype(np.float32), x2.astype(np.float32))
    assert low.dtype == jnp.float32
    assert_close(low, jaxfs.manifest_score(x1, x2), 1e-3)


def test_lists_are_data():
    x1, x2 = two_classes()
    expected = jaxfs.manifest_score(x1, x2)
    assert_close(jaxfs.manifest_score(x1.tolist(), x2.tolist()), expected, 0)


def test_every_spelling_of_an_option_compiles_once():
    x1, x2 = two_classes(20, n1=7)
    before = _score._score._cache_size()
    for one in (1, 1.0, np.float32(1), np.float64(1), jnp.ones(())):
        jaxfs.manifest_score(x1, x2, ridge=one, t=one, bandwidth=jaxfs.Median(one))
    assert _score._score._cache_size() == before + 1


def test_traced_options_out_of_range_give_nan():
    x1, x2 = two_classes()
    for options in ({"bandwidth": -1.0}, {"ridge": -0.5}, {"t": 1.5}):
        score = jax.jit(lambda o: jaxfs.manifest_score(x1, x2, **o))
        assert np.isnan(score(options)).all()


def test_integers_are_data():
    x1, x2 = rng(0).integers(0, 255, size=(2, 10, 6))
    expected = jaxfs.manifest_score(x1.astype(float), x2.astype(float))
    assert_close(jaxfs.manifest_score(x1.astype(np.uint8), x2.astype(np.uint8)), expected, 1e-12)


# ---- Derivatives --------------------------------------------------------------------------------


@functools.cache
def weighted(**options):
    weight = rng(9).normal(size=8)  # of NumPy: the first call may be under `jit`
    return lambda a: jaxfs.manifest_score(*a, **options) @ weight


@pytest.mark.parametrize("case", ["random", "duplicates", "constant", "repeated"])
def test_gradient_in_the_data(case):
    x1, x2 = two_classes(11)
    if case == "duplicates":
        x1[:, 5], x2[:, 5] = x1[:, 4], x2[:, 4]
    if case == "constant":
        x1[:, 3] = x2[:, 3] = 1.0
    if case == "repeated":  # circulant distances: eigenvalues repeat by symmetry
        x1 = np.stack([np.roll([1.0, 0, 0, 0, 0, 0, 0, 0], i) for i in range(8)])
    at = (jnp.asarray(x1), jnp.asarray(x2))
    direction = tuple(jnp.asarray(rng(12).normal(size=x.shape)) for x in (x1, x2))
    assert_derivatives(weighted(bandwidth=2.0), at, direction)


def test_gradient_in_the_options():
    x1, x2 = (jnp.asarray(x) for x in two_classes(13))
    weight = jnp.asarray(rng(9).normal(size=8))

    def score(options):
        sigma, factor, ridge, t = options
        fixed = jaxfs.manifest_score(x1, x2, bandwidth=sigma, ridge=ridge, t=t)
        return (fixed + jaxfs.manifest_score(x1, x2, bandwidth=jaxfs.Median(factor))) @ weight

    at = (jnp.array(1.5), jnp.array(0.8), jnp.array(0.02), jnp.array(0.4))
    units = (tuple(map(jnp.array, row)) for row in np.eye(4))
    assert_derivatives(score, at, *units)


def test_rules_are_pytrees_that_train():
    """Gradients and optimiser states of a rule are rules that no caller could write."""
    x1, x2 = two_classes()

    @jax.jit
    @jax.grad
    def slope(rule):
        return jaxfs.manifest_score(x1, x2, bandwidth=rule)[0]

    for rule in (jaxfs.Median(0.3), jaxfs.Median(3.0), jaxfs.Percentile(30.0, 0.5)):
        gradient = slope(rule)
        assert type(gradient) is type(rule)
        assert all(np.isfinite(g) and g != 0 for g in jax.tree.leaves(gradient))
        assert jax.tree.leaves(jax.tree.map(jnp.zeros_like, rule)) == [0.0] * len(
            jax.tree.leaves(rule)
        )


def test_gradient_through_the_median():
    at = tuple(map(jnp.asarray, two_classes(14)))
    direction = tuple(jnp.asarray(rng(15).normal(size=x.shape)) for x in at)
    assert_derivatives(weighted(), at, direction)


def test_gradient_of_semidefinite_geometry_at_a_fixed_rank():
    at = tuple(map(jnp.asarray, two_classes(16)))
    direction = tuple(jnp.asarray(rng(17).normal(size=x.shape)) for x in at)
    assert_derivatives(weighted(geometry="spsd", rank=3), at, direction)


def test_second_derivative_exists():
    x1, x2 = map(jnp.asarray, two_classes(18))
    gradient = jax.jit(jax.grad(lambda x: weighted()((x, x2))))
    direction = jnp.asarray(rng(19).normal(size=x1.shape))
    h = 1e-5
    expected = (gradient(x1 + h * direction) - gradient(x1 - h * direction)) / (2 * h)
    got = jax.jit(lambda x: jax.jvp(gradient, (x,), (direction,))[1])(x1)
    assert_close(got, expected, 1e-5)


# ---- Bad input ----------------------------------------------------------------------------------

X = np.ones((4, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jaxfs.manifest_score(X, X[:, :2]), r"same number of features, got \(4, 3\) and"),
        (lambda: jaxfs.manifest_score(X[:0], X), r"x1 must be.*n ≥ 1 samples.*got \(0, 3\)"),
        (lambda: jaxfs.manifest_score(X[:, :1], X[:, :1]), r"x1 must be.*d ≥ 2.*got \(4, 1\)"),
        (lambda: jaxfs.manifest_score(X, X.astype("f4")), r"of one dtype, got float64 and float32"),
        (lambda: jaxfs.manifest_score(X[0], X), r"x1 must be an array of 2 dimensions"),
        (lambda: jaxfs.manifest_score(X, X, bandwidth=0.0), r"bandwidth must be positive, got 0.0"),
        (lambda: jaxfs.manifest_score(X, X, bandwidth="median"), r"bandwidth.*got 'median'"),
        (lambda: jaxfs.manifest_score(X, X, ridge=-1), r"ridge must be at least 0, got -1"),
        (lambda: jaxfs.manifest_score(X, X, t=1.5), r"t must be in \[0, 1\], got 1.5"),
        (lambda: jaxfs.manifest_score(X, X, geometry="SPD"), r"one of 'spd', 'spsd', got 'SPD'"),
        (lambda: jaxfs.manifest_score(X, X, ridge=np.ones(3)), r"ridge must be a single number"),
        (lambda: jaxfs.manifest_score(X, X, t=np.ones(2) / 2), r"t must be a single number"),
        (lambda: jaxfs.manifest_score(X, X, rank=2), r'rank must be None unless.*"spsd", got 2'),
        (
            lambda: jaxfs.manifest_score(X, X, rank=9, geometry="spsd"),
            r"rank must be an integer in \[1, 3\], got 9",
        ),
        (
            lambda: jaxfs.manifest_score(X, X, weights1=np.ones(3)),
            r"weights1 must be of shape \(4,",
        ),
        (lambda: jaxfs.manifest_score(X, X, weights2=np.zeros(4)), r"weights2 must be positive"),
        (lambda: jaxfs.manifest_score(X, X, weights2=-np.ones(4)), r"weights2 must be.*at least 0"),
        (lambda: jaxfs.manifest_from_kernels(X, X), r"k1 must be square"),
        (lambda: jaxfs.manifest_from_kernels(np.eye(2), np.eye(3)), r"k1 and k2 must be of match"),
        (lambda: jaxfs.Median(0.0), r"factor must be positive, got 0.0"),
        (lambda: jaxfs.manifest_score(X, X, ridge=np.inf), r"ridge must be finite, got inf"),
        (lambda: jaxfs.Percentile(101), r"q must be in \[0, 100\], got 101"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
