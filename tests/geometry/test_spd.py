"""jaxfs.geometry.spd against theorems, pyRiemann and finite differences."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs.geometry import spd
from tests.geometry.common import FLOAT32, DerivativeCheck, probe, spread_spd
from tests.helpers import assert_close, degenerate_matrices, relative_error, rng, symmetric
from tests.helpers import spd as random_spd

D = 4
A, B = random_spd(D, seed=1, batch=(3,)), random_spd(D, seed=2, batch=(3,))
S = np.stack([symmetric(D, seed=i) for i in range(3)])
MATS = random_spd(D, seed=3, batch=(5,))
WEIGHTS = np.array([1.0, 3.0, 0.5, 2.0, 0.25])

metrics = pytest.mark.parametrize("metric", spd.METRICS)

# Compiled once for many tests; that eager calls say the same is a test of its own.
compiled = functools.partial(jax.jit, static_argnames="metric")
distance, exp, geodesic = compiled(spd.distance), compiled(spd.exp), compiled(spd.geodesic)
inner, log = compiled(spd.inner), compiled(spd.log)
mean = jax.jit(spd.mean, static_argnames=("metric", "max_iterations"))


def everything(a, b, metric):
    """All functions of two matrices, for the promises that all of them make."""
    values = {
        "inner": spd.inner(a, b, b, metric=metric),
        "distance": spd.distance(a, b, metric=metric),
        "geodesic": spd.geodesic(a, b, 0.3, metric=metric),
        "exp": spd.exp(a, b, metric=metric),
        "log": spd.log(a, b, metric=metric),
    }
    if metric == "affine":
        values["difference"] = spd.difference(a, b, 0.3)
    return values


# ---- Theorems -----------------------------------------------------------------------------------


@metrics
def test_geodesic_laws(metric):
    path = functools.partial(geodesic, metric=metric)
    assert_close(path(A, B, 0.0), A, 1e-12)
    assert_close(path(A, B, 1.0), B, 1e-12)
    assert_close(path(A, B, 0.3), path(B, A, 0.7), 1e-12)
    assert_close(path(A, path(A, B, 0.6), 0.5), path(A, B, 0.3), 1e-12)
    lengths = [distance(A, path(A, B, t), metric=metric) for t in (0.25, 1.0)]
    assert_close(lengths[0], 0.25 * lengths[1], 1e-12)


@metrics
def test_log_and_exp_are_inverse(metric):
    assert_close(exp(A, log(A, B, metric=metric), metric=metric), B, 1e-12)
    assert_close(log(A, exp(A, S, metric=metric), metric=metric), S, 1e-12)


@metrics
def test_distance_is_the_length_of_log(metric):
    s = log(A, B, metric=metric)
    length = jnp.sqrt(inner(A, s, s, metric=metric))
    assert_close(distance(A, B, metric=metric), length, 1e-12)
    assert_close(distance(B, A, metric=metric), length, 1e-12)


@metrics
def test_inner_is_bilinear_and_symmetric(metric):
    s, r = S, S[::-1]
    both = inner(A, 2 * s + r, r, metric=metric)
    parts = 2 * inner(A, s, r, metric=metric) + inner(A, r, r, metric=metric)
    assert_close(both, parts, 1e-12)
    assert_close(inner(A, s, r, metric=metric), inner(A, r, s, metric=metric), 1e-12)


def test_affine_metric_is_invariant_under_congruence():
    x = rng(4).normal(size=(D, D))

    def turned(a):
        return x @ np.asarray(a) @ x.T

    assert_close(geodesic(turned(A), turned(B), 0.3), turned(geodesic(A, B, 0.3)), 1e-11)
    assert_close(log(turned(A), turned(B)), turned(log(A, B)), 1e-11)
    assert_close(exp(turned(A), turned(S)), turned(exp(A, S)), 1e-11)
    assert_close(distance(turned(A), turned(B)), distance(A, B), 1e-11)
    assert_close(inner(turned(A), turned(S), turned(B)), inner(A, S, B), 1e-11)
    center = mean(MATS, WEIGHTS).mean
    assert_close(mean(turned(MATS), WEIGHTS).mean, turned(center), 1e-11)
    assert_close(mean(np.linalg.inv(MATS), WEIGHTS).mean, np.linalg.inv(center), 1e-11)


@metrics
def test_commuting_matrices_in_closed_form(metric):
    v = np.linalg.eigh(random_spd(D, seed=9))[1]
    w = rng(5).uniform(0.1, 10, size=(5, D))
    mats = (v * w[:, None, :]) @ v.T
    out = mean(mats, WEIGHTS, metric=metric)
    assert_close(out.mean, (v * np.exp(WEIGHTS @ np.log(w) / WEIGHTS.sum())) @ v.T, 1e-12)
    assert out.converged
    path = geodesic(mats[:3], mats[2:], 0.3, metric=metric)[0]
    assert_close(path, (v * w[0] ** 0.7 * w[2] ** 0.3) @ v.T, 1e-12)
    lengths = distance(mats[:3], mats[2:], metric=metric)
    assert_close(lengths, np.linalg.norm(np.log(w[:3] / w[2:]), axis=-1), 1e-12)


@metrics
def test_mean_of_two_is_on_the_geodesic(metric):
    """One matrix and four equal ones, so that the shape is the same as in the other tests."""
    for i in range(3):
        mats = np.stack([A[i], *4 * [B[i]]])
        for t, weights in ((0.75, [1.0, 1.0, 0.5, 0.5, 1.0]), (0.5, [2.0, 0.5, 0.5, 0.5, 0.5])):
            out = mean(mats, np.array(weights), metric=metric)
            assert_close(out.mean, geodesic(A, B, t, metric=metric)[i], 1e-12)
            assert out.converged


@pytest.mark.parametrize("t", [0.0, 0.3, 0.5])
def test_difference_is_half_the_difference_of_logs(t):
    m = geodesic(A, B, t)
    got = jax.jit(spd.difference)(A, B, t)
    assert_close(got, 0.5 * (log(m, A) - log(m, B)), 1e-12)


def test_matrices_of_one_number():
    a, b = np.array([[2.0]]), np.array([[8.0]])
    assert_close(geodesic(a, b, 0.5), [[4.0]], 1e-14)
    assert_close(log(a, b), [[2 * np.log(4)]], 1e-14)
    assert_close(distance(a, b), np.log(4), 1e-14)
    assert_close(mean(np.stack([a, b, b])).mean, [[2 * 4 ** (2 / 3)]], 1e-14)


# ---- pyRiemann ----------------------------------------------------------------------------------


def pyriemann(module: str):
    """pyRiemann's functions, where they live since 0.12 or where they lived before."""
    pytest.importorskip("pyriemann")
    try:
        return importlib.import_module(f"pyriemann.geometry.{module}")
    except ImportError:
        return importlib.import_module(f"pyriemann.utils.{module}")


@pytest.mark.parametrize(("metric", "theirs"), [("affine", "riemann"), ("logeuclid", "logeuclid")])
def test_equals_pyriemann(metric, theirs):
    d, n = 10, 8
    a, b = random_spd(d, seed=1, batch=(n,)), random_spd(d, seed=2, batch=(n,))
    s, weights = np.stack([symmetric(d, seed=i) for i in range(n)]), rng(6).uniform(size=n)

    @jax.jit
    def ours(a, b, s, weights):
        return {
            "distance": spd.distance(a, b, metric=metric),
            "geodesic": spd.geodesic(a, b, 0.3, metric=metric),
            "log_map": spd.log(a, b, metric=metric),
            "exp_map": spd.exp(a, s, metric=metric),
            "mean": spd.mean(a, weights, metric=metric).mean,
        }

    def peer(module, name, *arrays, **options):
        f = getattr(pyriemann(module), f"{name}_{theirs}")
        return np.stack([f(*x, **options) for x in zip(*arrays, strict=True)])

    affine = metric == "affine"
    exact = {"tol": 1e-12, "maxiter": 200} if affine else {}
    expected = {
        "distance": peer("distance", "distance", a, b),
        "geodesic": peer("geodesic", "geodesic", a, b, alpha=0.3),
        "log_map": peer("tangentspace", "log_map", b, a, **({"C12": True} if affine else {})),
        "exp_map": peer("tangentspace", "exp_map", s, a, **({"Cm12": True} if affine else {})),
        "mean": peer("mean", "mean", [a], sample_weight=weights, **exact)[0],
    }
    got = ours(a, b, s, weights)
    errors = {name: relative_error(got[name], expected[name]) for name in expected}
    assert max(errors.values()) <= 1e-9, errors


# ---- The Karcher iteration ----------------------------------------------------------------------


def test_mean_of_far_apart_matrices():
    """Each has condition 1e6 and a different eigenbasis; the constant step θ = 1 diverges here."""
    mats = spread_spd(5, D, 1e6)
    out = mean(mats, np.ones(5))
    assert out.converged
    assert out.iterations < 100
    root = np.linalg.inv(np.linalg.cholesky(out.mean))
    w, v = np.linalg.eigh(root @ mats @ root.T)
    gradient = np.mean((v * np.log(w)[:, None, :]) @ np.swapaxes(v, -1, -2), axis=0)
    assert np.linalg.norm(gradient) < 1e-9  # eps · condition = 2e-10


def test_mean_that_is_cut_short_says_so():
    out = mean(spread_spd(5, D, 1e6), np.ones(5), max_iterations=2)
    assert not out.converged
    assert out.iterations == 2
    assert out.residual > 1e-3
    assert jnp.all(jnp.isfinite(out.mean))


@metrics
def test_mean_ignores_what_has_no_weight(metric):
    weights = np.array([1.0, 0.0, 2.0, 0.0, 1.0])
    first = mean(MATS, weights, metric=metric)
    others = np.stack([MATS[0], MATS[2], MATS[2], MATS[2], MATS[4]])
    expected = mean(others, np.array([1.0, 0.5, 0.5, 1.0, 1.0]), metric=metric)
    assert_close(first.mean, expected.mean, 1e-13)
    for junk in (np.nan, np.inf, -1.0, 0.0, 1e300):
        mats = MATS.copy()
        mats[1::2] = np.diag(np.full(D, junk))
        assert jnp.array_equal(mean(mats, weights, metric=metric).mean, first.mean), junk


def test_mean_in_float32_converges():
    out = mean(MATS.astype(np.float32), WEIGHTS.astype(np.float32))
    assert out.converged
    assert out.mean.dtype == out.residual.dtype == jnp.float32
    assert_close(out.mean, mean(MATS, WEIGHTS).mean, FLOAT32)


def test_mean_under_vmap_is_a_loop():
    """Each problem of a batch stops on its own."""
    batch = np.stack([MATS, spread_spd(5, D, 1e4), np.stack([MATS[0]] * 5)])
    weights = np.stack([WEIGHTS, np.ones(5), WEIGHTS[::-1]])
    together = jax.jit(jax.vmap(spd.mean))(batch, weights)
    alone = [mean(*problem) for problem in zip(batch, weights, strict=True)]
    assert_close(together.mean, jnp.stack([out.mean for out in alone]), 1e-12)
    # Batched products round differently, so the step at which rounding stops it may differ by some.
    counts = np.array([int(out.iterations) for out in alone])
    assert np.max(np.abs(np.asarray(together.iterations) - counts)) <= 5
    batched = mean(batch, WEIGHTS, metric="logeuclid")
    assert_close(batched.mean[1], mean(batch[1], WEIGHTS, metric="logeuclid").mean, 1e-12)
    assert batched.converged.shape == batched.iterations.shape == batched.residual.shape == (3,)


# ---- Derivatives --------------------------------------------------------------------------------

POINTS = degenerate_matrices(D)
PLACES = {
    "random": (POINTS["random"], POINTS["circulant"] + 0.3 * POINTS["duplicated"]),
    "both the identity": (POINTS["identity"], POINTS["identity"]),
    "the same matrix": (POINTS["duplicated"], POINTS["duplicated"]),
    "commuting, repeated": (POINTS["diag(2,2,1)"], POINTS["identity"]),
    "clustered": (POINTS["clustered"], POINTS["clustered"] @ POINTS["clustered"]),
}


@metrics
def test_derivatives(metric):
    def f(x):
        a, b, t = x
        values = {
            "geodesic": spd.geodesic(a, b, t, metric=metric),
            "exp": spd.exp(a, t * b, metric=metric),
            "log": spd.log(a, b, metric=metric),
            "distance²": spd.distance(a, b, metric=metric) ** 2,
        }
        if metric == "affine":
            values["inner"] = t * spd.inner(a, b, b)
            values["difference"] = spd.difference(a, b, t)
        return {name: probe(value) for name, value in values.items()}

    check = DerivativeCheck(f)
    for a, b in PLACES.values():
        check((a, b, 0.3), (symmetric(D, seed=21), symmetric(D, seed=22), 0.7))


@metrics
def test_derivative_of_distance_at_zero_is_zero(metric):
    f = jax.value_and_grad(lambda x: spd.distance(*x, metric=metric))
    value, gradient = jax.jit(f)((A[0], A[0]))
    assert value == 0
    assert jnp.array_equal(jnp.stack(gradient), jnp.zeros((2, D, D)))


@metrics
def test_derivatives_of_mean(metric):
    check = DerivativeCheck(lambda x: {"mean": probe(spd.mean(*x, metric=metric).mean)})
    direction = np.stack([symmetric(D, seed=i) for i in range(5)]), rng(8).normal(size=5)
    check((MATS, WEIGHTS), direction)
    check((np.stack([MATS[0]] * 5), WEIGHTS), direction)
    check((np.stack([np.eye(D)] * 5), np.ones(5)), direction)
    if metric == "affine":
        far = spread_spd(5, D, 1e3)
        chol = np.linalg.cholesky(far)
        check((far, np.ones(5)), (chol @ direction[0] @ np.swapaxes(chol, -1, -2), direction[1]))

    # Without weight, a matrix still has a derivative in its weight, unless it is not one at all.
    absent = WEIGHTS * (np.arange(5) != 1)
    check((MATS, absent), direction)
    for step in direction:
        step[1] = 0
    for junk in (np.nan, -1.0):
        spoilt = MATS.copy()
        spoilt[1] = np.diag(np.full(D, junk))
        check.without((MATS, absent), direction, (spoilt, absent))


# ---- Promises -----------------------------------------------------------------------------------


@metrics
def test_eager_jit_vmap_and_loop_agree(metric):
    f = functools.partial(everything, metric=metric)
    batched = jax.jit(f)(A, B)
    for other in (f(A, B), jax.jit(jax.vmap(f))(A, B)):
        jax.tree.map(lambda x, y: assert_close(x, y, 1e-13), batched, other)
    alone = jax.jit(f)
    for i in range(3):
        jax.tree.map(lambda x, y: assert_close(x[i], y, 1e-13), batched, alone(A[i], B[i]))  # noqa: B023


def test_batch_axes_and_t_broadcast():
    t = jnp.linspace(0, 1, 4)[:, None]
    out = geodesic(A, B[0], t)
    assert out.shape == (4, 3, D, D)
    assert_close(out[2, 1], geodesic(A, np.stack([B[0]] * 3), t[2, 0])[1], 1e-13)


@metrics
def test_float32_in_float32_out(metric):
    f = jax.jit(everything, static_argnames="metric")
    expected = f(A, B, metric)
    for name, value in f(A.astype(np.float32), B.astype(np.float32), metric).items():
        assert value.dtype == jnp.float32
        assert relative_error(value, expected[name]) < FLOAT32, name


@metrics
def test_what_is_not_definite_gives_nan(metric):
    """In that matrix of the batch, throughout, and in no other."""
    f = jax.jit(everything, static_argnames="metric")
    for bad in (np.nan, np.inf, -1.0, 0.0):
        spoilt = A.copy()
        spoilt[1] = np.diag(np.full(D, bad))
        outputs = [*f(spoilt, B, metric).items()]
        tangent = ("inner", "exp") if np.isfinite(bad) else ()  # there any symmetric matrix will do
        outputs += [(name, x) for name, x in f(B, spoilt, metric).items() if name not in tangent]
        for name, out in outputs:
            assert jnp.all(jnp.isnan(out[1])), (name, bad)
            assert jnp.all(jnp.isfinite(out[::2])), (name, bad)


def test_one_bad_entry_spoils_its_matrix():
    for bad in (np.nan, np.inf):
        spoilt = A.copy()
        spoilt[1, 0, 2] = spoilt[1, 2, 0] = bad
        out = geodesic(B, spoilt, 0.3)
        assert jnp.all(jnp.isnan(out[1]))
        assert jnp.all(jnp.isfinite(out[::2]))


def test_what_is_not_definite_has_no_distance_to_itself():
    assert jnp.all(jnp.isnan(distance(-A, -A)))


@metrics
def test_mean_that_is_nan_has_not_converged(metric):
    one_bad = np.concatenate([MATS[:4], -MATS[4:]])
    for mats, weights in ((one_bad, WEIGHTS), (MATS, 0 * WEIGHTS), (MATS, np.nan * WEIGHTS)):
        out = mean(mats, weights, metric=metric)  # traced weights cannot be refused
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
    "t's shape": (lambda: spd.geodesic(A, A, [0.1, 0.2]), r"t must be.*\(3,\), got.*\(2,\)"),
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
