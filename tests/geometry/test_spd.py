"""jaxfs.geometry.spd against theorems, pyRiemann and finite differences."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs.geometry import spd
from tests.geometry.common import FLOAT32, derivative_check, probe, spread_spd
from tests.helpers import assert_close, degenerate_matrices, relative_error, rng, symmetric
from tests.helpers import spd as random_spd

D = 4
A, B = random_spd(D, seed=1, batch=(3,)), random_spd(D, seed=2, batch=(3,))
S = np.stack([symmetric(D, seed=i) for i in range(3)])
MATS = random_spd(D, seed=3, batch=(5,))
WEIGHTS = np.array([1.0, 3.0, 0.5, 2.0, 0.25])

metrics = pytest.mark.parametrize("metric", spd.METRICS)

#: Every function of two matrices, for the promises that all of them make.
PAIRS = {
    "inner": lambda a, b, metric: spd.inner(a, b, b, metric=metric),
    "distance": lambda a, b, metric: spd.distance(a, b, metric=metric),
    "geodesic": lambda a, b, metric: spd.geodesic(a, b, 0.3, metric=metric),
    "exp": lambda a, b, metric: spd.exp(a, b, metric=metric),
    "log": lambda a, b, metric: spd.log(a, b, metric=metric),
    "mean": lambda a, b, metric: spd.mean(jnp.stack([a, b], axis=-3), metric=metric).mean,
}
pairs = pytest.mark.parametrize("name", PAIRS)


# ---- Theorems -----------------------------------------------------------------------------------


@metrics
def test_geodesic_laws(metric):
    def path(a, b, t):
        return spd.geodesic(a, b, t, metric=metric)

    assert_close(path(A, B, 0.0), A, 1e-12)
    assert_close(path(A, B, 1.0), B, 1e-12)
    assert_close(path(A, B, 0.3), path(B, A, 0.7), 1e-12)
    assert_close(path(A, path(A, B, 0.6), 0.5), path(A, B, 0.3), 1e-12)
    lengths = [spd.distance(A, path(A, B, t), metric=metric) for t in (0.25, 1.0)]
    assert_close(lengths[0], 0.25 * lengths[1], 1e-12)


@metrics
def test_log_and_exp_are_inverse(metric):
    assert_close(spd.exp(A, spd.log(A, B, metric=metric), metric=metric), B, 1e-12)
    assert_close(spd.log(A, spd.exp(A, S, metric=metric), metric=metric), S, 1e-12)


@metrics
def test_distance_is_the_length_of_log(metric):
    s = spd.log(A, B, metric=metric)
    length = jnp.sqrt(spd.inner(A, s, s, metric=metric))
    assert_close(spd.distance(A, B, metric=metric), length, 1e-12)
    assert_close(spd.distance(B, A, metric=metric), length, 1e-12)


@metrics
def test_inner_is_bilinear_and_symmetric(metric):
    s, r = S, S[::-1]
    both = spd.inner(A, 2 * s + r, r, metric=metric)
    parts = 2 * spd.inner(A, s, r, metric=metric) + spd.inner(A, r, r, metric=metric)
    assert_close(both, parts, 1e-12)
    assert_close(spd.inner(A, s, r, metric=metric), spd.inner(A, r, s, metric=metric), 1e-12)


def test_affine_metric_is_invariant_under_congruence():
    x = rng(4).normal(size=(D, D))

    def turned(a):
        return jnp.asarray(x @ np.asarray(a) @ x.T)

    assert_close(spd.geodesic(turned(A), turned(B), 0.3), turned(spd.geodesic(A, B, 0.3)), 1e-11)
    assert_close(spd.log(turned(A), turned(B)), turned(spd.log(A, B)), 1e-11)
    assert_close(spd.exp(turned(A), turned(S)), turned(spd.exp(A, S)), 1e-11)
    assert_close(spd.distance(turned(A), turned(B)), spd.distance(A, B), 1e-11)
    assert_close(spd.inner(turned(A), turned(S), turned(B)), spd.inner(A, S, B), 1e-11)
    mean = spd.mean(MATS, WEIGHTS).mean
    assert_close(spd.mean(turned(MATS), WEIGHTS).mean, turned(mean), 1e-11)
    assert_close(spd.mean(np.linalg.inv(MATS), WEIGHTS).mean, jnp.linalg.inv(mean), 1e-11)


@metrics
def test_commuting_matrices_in_closed_form(metric):
    v = np.linalg.eigh(random_spd(D, seed=9))[1]
    w = rng(5).uniform(0.1, 10, size=(5, D))
    mats = (v * w[:, None, :]) @ v.T
    weights = WEIGHTS / WEIGHTS.sum()
    expected = (v * np.exp(weights @ np.log(w))) @ v.T
    out = spd.mean(mats, WEIGHTS, metric=metric)
    assert_close(out.mean, expected, 1e-12)
    assert out.converged
    path = spd.geodesic(mats[0], mats[1], 0.3, metric=metric)
    assert_close(path, (v * w[0] ** 0.7 * w[1] ** 0.3) @ v.T, 1e-12)
    distance = np.linalg.norm(np.log(w[0] / w[1]))
    assert_close(spd.distance(mats[0], mats[1], metric=metric), distance, 1e-12)


@metrics
def test_mean_of_two_is_on_the_geodesic(metric):
    pair = np.stack([A, B], axis=1)
    middle = spd.geodesic(A, B, 0.5, metric=metric)
    assert_close(spd.mean(pair, metric=metric).mean, middle, 1e-12)
    out = spd.mean(pair, [1.0, 3.0], metric=metric)
    assert_close(out.mean, spd.geodesic(A, B, 0.75, metric=metric), 1e-12)
    assert out.converged.shape == out.iterations.shape == out.residual.shape == (3,)


def test_matrices_of_one_number():
    a, b = np.array([[2.0]]), np.array([[8.0]])
    assert_close(spd.geodesic(a, b, 0.5), [[4.0]], 1e-14)
    assert_close(spd.log(a, b), [[2 * np.log(4)]], 1e-14)
    assert_close(spd.distance(a, b), np.log(4), 1e-14)
    assert_close(spd.mean(np.stack([a, b, b])).mean, [[2 * 4 ** (2 / 3)]], 1e-14)


# ---- pyRiemann ----------------------------------------------------------------------------------


def pyriemann(module: str):
    """pyRiemann's functions, where they live since 0.12 or where they lived before."""
    pytest.importorskip("pyriemann")
    try:
        return importlib.import_module(f"pyriemann.geometry.{module}")
    except ImportError:
        return importlib.import_module(f"pyriemann.utils.{module}")


@pytest.mark.parametrize("d", [2, 10])
def test_equals_pyriemann(d):
    a, b = random_spd(d, seed=1, batch=(8,)), random_spd(d, seed=2, batch=(8,))
    s = np.stack([symmetric(d, seed=i) for i in range(8)])
    distance, tangent = pyriemann("distance"), pyriemann("tangentspace")
    path, mean = pyriemann("geodesic"), pyriemann("mean")
    weights = rng(6).uniform(size=8)

    def one_by_one(f, *arrays, **options):
        return np.stack([f(*x, **options) for x in zip(*arrays, strict=True)])

    checks = {
        "distance": (spd.distance(a, b), one_by_one(distance.distance_riemann, a, b)),
        "geodesic": (spd.geodesic(a, b, 0.3), one_by_one(path.geodesic_riemann, a, b, alpha=0.3)),
        "log": (spd.log(a, b), one_by_one(tangent.log_map_riemann, b, a, C12=True)),
        "exp": (spd.exp(a, s), one_by_one(tangent.exp_map_riemann, s, a, Cm12=True)),
        "mean": (
            spd.mean(a, weights).mean,
            mean.mean_riemann(a, tol=1e-12, maxiter=200, sample_weight=weights),
        ),
    }
    assert {name: relative_error(*pair) for name, pair in checks.items()} == pytest.approx(
        dict.fromkeys(checks, 0), abs=1e-9
    )


def test_equals_pyriemann_log_euclidean():
    distance, tangent = pyriemann("distance"), pyriemann("tangentspace")
    path, mean = pyriemann("geodesic"), pyriemann("mean")
    options = {"metric": "logeuclid"}
    checks = {
        "distance": (spd.distance(A[0], B[0], **options), distance.distance_logeuclid(A[0], B[0])),
        "geodesic": (
            spd.geodesic(A[0], B[0], 0.3, **options),
            path.geodesic_logeuclid(A[0], B[0], alpha=0.3),
        ),
        "log": (spd.log(A[0], B, **options), tangent.log_map_logeuclid(B, A[0])),
        "exp": (spd.exp(A[0], S, **options), tangent.exp_map_logeuclid(S, A[0])),
        "mean": (
            spd.mean(MATS, WEIGHTS, **options).mean,
            mean.mean_logeuclid(MATS, sample_weight=WEIGHTS),
        ),
    }
    assert {name: relative_error(*pair) for name, pair in checks.items()} == pytest.approx(
        dict.fromkeys(checks, 0), abs=1e-9
    )


# ---- The Karcher iteration ----------------------------------------------------------------------


@pytest.mark.parametrize(("m", "d"), [(2, 3), (6, 5)])
def test_mean_of_far_apart_matrices(m, d):
    """The constant step θ = 1 diverges here."""
    out = spd.mean(spread_spd(m, d, 1e6))
    assert out.converged
    assert out.residual < 1e-9
    assert out.iterations < 100


def test_mean_that_is_cut_short_says_so():
    out = spd.mean(spread_spd(2, 3, 1e6), max_iterations=2)
    assert not out.converged
    assert out.iterations == 2
    assert out.residual > 1e-3
    assert jnp.all(jnp.isfinite(out.mean))


def test_mean_ignores_what_has_no_weight():
    weights = np.array([1.0, 0.0, 2.0, 0.0, 1.0])
    expected = spd.mean(MATS[::2], [1.0, 2.0, 1.0])
    first = spd.mean(MATS, weights)
    assert_close(first.mean, expected.mean, 1e-13)
    for junk in (np.nan, np.inf, -1.0, 0.0, 1e300):
        mats = MATS.copy()
        mats[1::2] = junk * np.eye(D)
        assert jnp.array_equal(spd.mean(mats, weights).mean, first.mean), junk


def test_mean_in_float32_converges():
    out = spd.mean(jnp.asarray(MATS, jnp.float32), WEIGHTS)
    assert out.converged
    assert out.mean.dtype == out.residual.dtype == jnp.float32
    assert_close(out.mean, spd.mean(MATS, WEIGHTS).mean, FLOAT32)


def test_mean_batch_is_a_loop():
    """Each problem of a batch stops on its own, with the count it has alone."""
    batch = np.stack([MATS, spread_spd(5, D, 1e4), np.stack([MATS[0]] * 5)])
    together = spd.mean(batch, WEIGHTS)
    alone = [spd.mean(mats, WEIGHTS) for mats in batch]
    assert together.iterations.tolist() == [int(out.iterations) for out in alone]
    assert_close(together.mean, jnp.stack([out.mean for out in alone]), 1e-12)
    mapped = jax.jit(jax.vmap(spd.mean))(batch, jnp.asarray(np.stack([WEIGHTS] * 3)))
    assert_close(mapped.mean, together.mean, 1e-12)


# ---- Derivatives --------------------------------------------------------------------------------

POINTS = degenerate_matrices(D)
PLACES = {
    "random": (POINTS["random"], POINTS["circulant"] + 0.3 * POINTS["duplicated"]),
    "both the identity": (POINTS["identity"], POINTS["identity"]),
    "the same matrix": (POINTS["duplicated"], POINTS["duplicated"]),
    "commuting, repeated": (POINTS["diag(2,2,1)"], POINTS["identity"]),
    "clustered": (POINTS["clustered"], POINTS["clustered"] @ POINTS["clustered"]),
}
TANGENTS = (symmetric(D, seed=21), symmetric(D, seed=22))

SMOOTH = {
    "geodesic": lambda a, b, t, metric: spd.geodesic(a, b, t, metric=metric),
    "exp": lambda a, b, t, metric: spd.exp(a, t * b, metric=metric),
    "log": lambda a, b, t, metric: spd.log(a, b, metric=metric),
    "distance²": lambda a, b, t, metric: spd.distance(a, b, metric=metric) ** 2,
    "inner": lambda a, b, t, metric: t * spd.inner(a, b, b, metric=metric),
}


@metrics
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name, metric):
    """Distances at a = b: the square has a zero derivative; rounding is all there is to compare."""
    check = derivative_check(lambda x: probe(SMOOTH[name](*x, metric)) + probe(x[0]))
    for a, b in PLACES.values():
        check((a, b, 0.3), (*TANGENTS, 0.7))


@metrics
def test_derivative_of_distance_at_zero_is_zero(metric):
    f = jax.grad(lambda a, b: spd.distance(a, b, metric=metric), argnums=(0, 1))
    for gradient in f(jnp.asarray(A[0]), jnp.asarray(A[0])):
        assert jnp.array_equal(gradient, jnp.zeros((D, D)))
    assert spd.distance(A[0], A[0], metric=metric) == 0


@metrics
def test_derivatives_of_mean(metric):
    def f(x):
        return probe(spd.mean(x[0], jnp.exp(x[1]), metric=metric).mean)

    check = derivative_check(f)
    direction = (np.stack([symmetric(D, seed=i) for i in range(5)]), rng(8).normal(size=5))
    check((MATS, np.log(WEIGHTS)), direction)
    check((np.stack([MATS[0]] * 5), np.log(WEIGHTS)), direction)
    check((np.stack([np.eye(D)] * 5), np.zeros(5)), direction)
    if metric == "logeuclid":
        return
    far = spread_spd(5, D, 1e3)
    chol = np.linalg.cholesky(far)
    check((far, np.zeros(5)), (chol @ direction[0] @ np.swapaxes(chol, -1, -2), direction[1]))


@metrics
def test_derivatives_of_mean_at_zero_weight(metric):
    """A matrix without weight has a derivative in its weight, unless it is not one at all."""
    gradient = jax.jit(
        jax.grad(lambda k, w: probe(spd.mean(k, w, metric=metric).mean), argnums=(0, 1))
    )
    w = jnp.asarray(WEIGHTS).at[1].set(0.0)
    step = jnp.zeros(5).at[1].set(1e-5)
    value = jax.jit(lambda w: probe(spd.mean(MATS, w, metric=metric).mean))
    one_sided = (4 * value(w + step) - value(w + 2 * step) - 3 * value(w)) / 2e-5
    of_mats, of_weights = gradient(MATS, w)
    assert_close(of_weights[1], one_sided, 1e-6)
    assert jnp.all(of_mats[1] == 0)
    mats = MATS.copy()
    mats[1] = np.nan
    of_rest, of_others = gradient(mats, w)
    assert of_others[1] == 0
    assert jnp.all(of_rest[1] == 0)
    assert_close(of_rest, of_mats, 1e-12)


# ---- Promises -----------------------------------------------------------------------------------


@metrics
@pytest.mark.parametrize("name", [n for n in PAIRS if n != "mean"])
def test_jit_and_vmap_and_loop_agree(name, metric):
    f = lambda a, b: PAIRS[name](a, b, metric)  # noqa: E731
    eager = f(jnp.asarray(A), jnp.asarray(B))
    assert_close(jax.jit(f)(A, B), eager, 1e-13)
    assert_close(jax.vmap(f)(A, B), eager, 1e-13)
    assert_close(np.stack([f(a, b) for a, b in zip(A, B, strict=True)]), eager, 1e-13)
    assert_close(f(jnp.asarray(A[0]), jnp.asarray(B))[1], f(A[0], B[1]), 1e-13)


def test_batch_axes_and_t_broadcast():
    t = jnp.linspace(0, 1, 4)[:, None]
    out = spd.geodesic(A, B[0], t)
    assert out.shape == (4, 3, D, D)
    assert_close(out[2, 1], spd.geodesic(A[1], B[0], t[2, 0]), 1e-13)
    traced = jax.jit(spd.geodesic)(A[0], B[0], 0.4)
    assert_close(traced, spd.geodesic(A[0], B[0], 0.4), 1e-13)


@metrics
@pairs
def test_float32_in_float32_out(name, metric):
    a, b = jnp.asarray(A, jnp.float32), jnp.asarray(B, jnp.float32)
    out = PAIRS[name](a, b, metric)
    assert out.dtype == jnp.float32
    assert_close(out, PAIRS[name](jnp.asarray(A), jnp.asarray(B), metric), FLOAT32)


@metrics
@pairs
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0], ids=str)
def test_what_is_not_definite_gives_nan(name, metric, bad):
    """In that matrix of the batch, throughout, and in no other."""
    spoilt = jnp.asarray(A).at[1].set(bad * np.eye(D))
    outputs = [PAIRS[name](spoilt, jnp.asarray(B), metric)]
    if name in ("distance", "geodesic", "log", "mean") or not np.isfinite(bad):
        outputs.append(PAIRS[name](jnp.asarray(B), spoilt, metric))
    for out in outputs:
        assert jnp.all(jnp.isnan(out[1]))
        assert jnp.all(jnp.isfinite(out[0]))
        assert jnp.all(jnp.isfinite(out[2]))


def test_distance_of_what_is_not_definite_to_itself_is_nan():
    assert jnp.isnan(spd.distance(-np.eye(2), -np.eye(2)))


def test_mean_that_is_nan_has_not_converged():
    for metric in spd.METRICS:
        assert not spd.mean(np.stack([np.eye(2), -np.eye(2)]), metric=metric).converged
    out = jax.jit(spd.mean)(MATS, jnp.zeros(5))  # traced: cannot be refused
    assert jnp.all(jnp.isnan(out.mean))
    assert not out.converged


EYE = np.eye(3)
MISTAKES = {
    "not square": (lambda: spd.log(np.ones((3, 2)), EYE), r"a must be square.*\(3, 2\)"),
    "a vector": (lambda: spd.log(EYE, np.ones(3)), r"b must be square.*\(3,\)"),
    "sizes": (lambda: spd.distance(EYE, np.eye(2)), r"a and b.*\(3, 3\) and \(2, 2\)"),
    "batches": (lambda: spd.exp(A, A[:2]), r"a and s.*batch axes.*\(3, 4, 4\) and \(2, 4, 4\)"),
    "dtypes": (lambda: spd.inner(EYE, EYE, EYE.astype("f4")), "a and s1 and s2.*float32"),
    "integers": (lambda: spd.log(np.eye(3, dtype=int), EYE), "a must be.*int64"),
    "complex": (lambda: spd.mean(np.ones((2, 3, 3)) * 1j), "mats must be.*complex128"),
    "t": (lambda: spd.geodesic(EYE, EYE, 1.5), r"t must be in \[0, 1\], got 1.5"),
    "t in an array": (lambda: spd.geodesic(EYE, EYE, [0.5, -1.0]), r"t must be in \[0, 1\]"),
    "t of a wrong shape": (lambda: spd.geodesic(A, A, [0.1, 0.2]), r"t must be.*\(3,\), got.*\(2,\)"),
    "metric": (lambda: spd.log(EYE, EYE, metric="riemann"), "metric must be one of.*'riemann'"),
    "one matrix": (lambda: spd.mean(EYE), r"mats must be of shape \(\.\.\., m, d, d\).*\(3, 3\)"),
    "no matrix": (lambda: spd.mean(np.ones((0, 3, 3))), r"mats must be.*\(0, 3, 3\)"),
    "negative weight": (lambda: spd.mean(MATS, -WEIGHTS), "weights must be.*at least 0"),
    "no weight": (lambda: spd.mean(MATS, 0 * WEIGHTS), "weights must be positive.*point"),
    "weights": (lambda: spd.mean(MATS, WEIGHTS[:4]), r"weights must be of shape \(5,\).*\(4,\)"),
    "iterations": (lambda: spd.mean(MATS, max_iterations=0), "max_iterations.*got 0"),
}


@pytest.mark.parametrize(("call", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
