"""jaxfs.geometry.grassmann against theorems, the paper's formula and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxfs.geometry import grassmann
from tests.geometry.common import (
    FLOAT32,
    DerivativeCheck,
    equation_10,
    orthonormal,
    probe,
    projector,
)
from tests.helpers import assert_close, relative_error, rng

D, K = 6, 3
A, B = orthonormal(D, K, seed=1, batch=(3,)), orthonormal(D, K, seed=2, batch=(3,))
FRAME = orthonormal(D, D, seed=3)
WEIGHTS = np.array([1.0, 3.0, 0.5, 2.0])

# Compiled once for many tests; that eager calls say the same is a test of its own.
distance, exp, log = map(jax.jit, (grassmann.distance, grassmann.exp, grassmann.log))
geodesic, mean = map(jax.jit, (grassmann.geodesic, grassmann.mean))
principal_angles = jax.jit(grassmann.principal_angles)


def at_angles(*angles):
    """Two bases, in general position inside their spans, at given principal angles."""
    theta = np.array(angles)
    g1, across = FRAME[:, :K], FRAME[:, K:]
    g2 = g1 * np.cos(theta) + across * np.sin(theta)
    return g1 @ orthonormal(K, K, seed=4), g2 @ orthonormal(K, K, seed=5)


def cluster(m: int = 4, spread: float = 0.3) -> np.ndarray:
    """Subspaces around one, well within the ball where their mean is unique."""
    noise = spread * rng(6).normal(size=(m, D, K)) / np.sqrt(D)
    return np.linalg.qr(FRAME[:, :K] + noise)[0]


def everything(a, b):
    """All functions of two bases, for the promises that all of them make."""
    return {
        "principal_angles": grassmann.principal_angles(a, b),
        "distance": grassmann.distance(a, b),
        "geodesic": grassmann.geodesic(a, b, 0.3),
        "log": grassmann.log(a, b),
        "exp": grassmann.exp(a, 0.5 * (b - a)),
    }


# ---- Theorems -----------------------------------------------------------------------------------


def test_geodesic_laws():
    assert_close(geodesic(A, B, 0.0), A, 1e-13)
    assert_close(projector(geodesic(A, B, 1.0)), projector(B), 1e-13)
    assert_close(projector(geodesic(A, B, 0.3)), projector(geodesic(B, A, 0.7)), 1e-13)
    halfway = geodesic(A, geodesic(A, B, 0.6), 0.5)
    assert_close(halfway, geodesic(A, B, 0.3), 1e-13)
    assert_close(halfway.mT @ halfway, np.stack([np.eye(K)] * 3), 1e-13)
    assert_close(distance(A, halfway), 0.3 * distance(A, B), 1e-13)


@pytest.mark.parametrize("t", [0.0, 0.3, 0.5, 1.0])
def test_geodesic_is_equation_10(t):
    """As a subspace: the paper's basis is turned by O₁ within the span."""
    expected = np.stack([equation_10(a, b, t) for a, b in zip(A, B, strict=True)])
    assert_close(projector(geodesic(A, B, t)), projector(jnp.asarray(expected)), 1e-12)


def test_log_and_exp_are_inverse():
    delta = log(A, B)
    assert_close(projector(exp(A, delta)), projector(B), 1e-13)
    assert np.max(np.abs(jnp.asarray(A).mT @ delta)) < 1e-14
    assert_close(log(A, exp(A, 0.5 * delta)), 0.5 * delta, 1e-13)
    assert_close(exp(A, 0.3 * delta), geodesic(A, B, 0.3), 1e-13)


def test_exp_of_long_tangents():
    """Far beyond the shortest curves, exp still follows the geodesic."""
    delta = 10 * log(A, B)[0]
    u, s, vt = np.linalg.svd(delta, full_matrices=False)
    expected = A[0] @ vt.T @ np.diag(np.cos(s)) @ vt + u @ np.diag(np.sin(s)) @ vt
    assert_close(exp(A, jnp.stack([delta] * 3))[0], expected, 1e-13)


def test_principal_angles_are_scipys():
    expected = np.stack([scipy.linalg.subspace_angles(a, b) for a, b in zip(A, B, strict=True)])
    assert_close(principal_angles(A, B), expected[:, ::-1], 1e-13)
    assert_close(distance(A, B), np.linalg.norm(expected, axis=-1), 1e-13)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6, 1e-9])
def test_angles_of_any_size(scale):
    """Relative accuracy is limited by the rounding of the bases themselves."""
    angles = scale * np.array([0.0, 0.5, 1.5])
    a, b = at_angles(*angles)
    rounding = 10 * np.finfo(float).eps
    assert np.max(np.abs(principal_angles(a, b) - angles)) < rounding
    assert abs(distance(a, b) - np.linalg.norm(angles)) < rounding
    assert abs(jnp.linalg.norm(log(a, b)) - np.linalg.norm(angles)) < rounding


def test_nothing_depends_on_the_basis():
    turn = orthonormal(K, K, seed=7)
    assert_close(log(A, B @ turn), log(A, B), 1e-13)
    assert_close(log(A @ turn, B), log(A, B) @ turn, 1e-13)
    assert_close(geodesic(A, B @ turn, 0.3), geodesic(A, B, 0.3), 1e-13)
    rotate = orthonormal(D, D, seed=8)
    assert_close(distance(rotate @ A, rotate @ B), distance(A, B), 1e-13)


def test_subspaces_that_coincide():
    same = A @ orthonormal(K, K, seed=7)
    assert jnp.array_equal(distance(A, same), jnp.zeros(3))
    whole = orthonormal(4, 4, seed=1), orthonormal(4, 4, seed=2)
    assert distance(*whole) == 0
    assert_close(projector(geodesic(*whole, 0.3)), np.eye(4), 1e-13)
    line = np.eye(1)
    assert_close(jnp.abs(geodesic(line, -line, 0.5)), line, 1e-15)


# ---- Functions of the angles --------------------------------------------------------------------

U, T = np.array([0.02, 0.11, 0.47]), 0.3
THETA = 2 * np.arcsin(np.sqrt(U))
SERIES = {
    "cos tθ": (grassmann._COS_T, T, np.cos(T * THETA)),
    "sin tθ / sin θ": (grassmann._SIN_T, T, np.sin(T * THETA) / np.sin(THETA)),
    "θ / sin θ": (grassmann._ANGLE_OVER_SINE, None, THETA / np.sin(THETA)),
    "cos √s": (grassmann._COS_ROOT, None, np.cos(np.sqrt(U))),
    "sin √s / √s": (grassmann._SINC_ROOT, None, np.sin(np.sqrt(U)) / np.sqrt(U)),
}


@pytest.mark.parametrize(("fun", "t", "value"), SERIES.values(), ids=SERIES.keys())
def test_divided_differences(fun, t, value):
    """Quotients of values where nodes are apart, and their limit where they are equal."""
    t = None if t is None else jnp.asarray(t)
    a, b, c = map(jnp.asarray, U)
    assert_close(fun.value(jnp.asarray(U), t), value, 1e-14)
    ab, bc = np.diff(value) / np.diff(U)
    assert_close(fun.first(a, b, t), ab, 1e-13)
    assert_close(fun.second(a, b, c, t), (bc - ab) / (U[2] - U[0]), 1e-12)
    h = 1e-3
    near = fun.first(b, b + h, t), fun.first(b, b - h, t)
    assert_close(fun.first(b, b, t), (near[0] + near[1]) / 2, 1e-5)
    assert_close(fun.second(b, b, b, t), (near[0] - near[1]) / (2 * h), 1e-5)


# ---- The Karcher mean ---------------------------------------------------------------------------


def test_mean_of_two_is_on_the_geodesic():
    """One subspace and three equal ones, so that the shape is the same as in the other tests."""
    near = geodesic(A, B, 0.7)
    for i in range(3):
        out = mean(np.stack([A[i], *3 * [near[i]]]), np.ones(4))
        assert_close(projector(out.mean), projector(geodesic(A, B, 0.75 * 0.7)[i]), 1e-13)
        assert out.converged


def test_mean_is_stationary():
    bases = cluster()
    out = mean(bases, WEIGHTS)
    logs = log(np.stack([out.mean] * 4), bases)
    assert np.linalg.norm(np.tensordot(WEIGHTS, logs, 1)) < 1e-14
    assert_close(out.mean.T @ out.mean, np.eye(K), 1e-13)
    assert out.converged
    rotate = orthonormal(D, D, seed=8)
    turned = mean(rotate @ bases, WEIGHTS).mean
    assert_close(projector(turned), rotate @ projector(out.mean) @ rotate.T, 1e-13)


def test_mean_ignores_what_has_no_weight():
    bases, weights = cluster(), np.array([1.0, 0.0, 2.0, 0.5])
    expected = mean(bases, weights).mean
    without = mean(bases[[0, 2, 2, 3]], np.array([1.0, 1.0, 1.0, 0.5])).mean
    assert_close(projector(expected), projector(without), 1e-13)
    for junk in (np.nan, np.inf, 0.0, 1e300):
        bases[1] = junk
        assert jnp.array_equal(mean(bases, weights).mean, expected), junk


def test_mean_that_fails_says_so():
    out = grassmann.mean(cluster(), WEIGHTS, max_iterations=1)
    assert not out.converged
    assert out.iterations == 1
    spoilt = cluster()
    spoilt[1, 0, 0] = np.nan
    out = mean(spoilt, WEIGHTS)
    assert jnp.all(jnp.isnan(out.mean))
    assert not out.converged


# ---- Derivatives --------------------------------------------------------------------------------

PLACES = {
    "generic": (0.3, 0.7, 1.1),
    "equal angles": (0.5, 0.5, 0.5),
    "a zero angle, a pair": (0.0, 0.6, 0.6),
    "the same subspace": (0.0, 0.0, 0.0),
    "clustered": (1e-7, 0.4, 0.4 + 1e-9),
}
ROTATIONS = tuple(0.3 * (x - x.T) for x in rng(9).normal(size=(2, D, D)))


def rotated(x, g):
    """Cayley's rotation (I − x)⁻¹(I + x) g for skew x: bases that stay orthonormal."""
    eye = jnp.broadcast_to(jnp.eye(D), x.shape)
    return jnp.linalg.solve(eye - x, (eye + x) @ g)


def test_derivatives():
    def f(x):
        a, b, t = rotated(x[0], x[2]), rotated(x[1], x[3]), x[4]
        values = {
            "geodesic": projector(grassmann.geodesic(a, b, t)),
            "log": grassmann.log(a, b) @ a.mT,
            "exp": projector(grassmann.exp(a, t * grassmann.log(a, b))),
            "distance²": grassmann.distance(a, b) ** 2,
            "distance": grassmann.distance(a, b),
            "principal_angles": grassmann.principal_angles(a, b),
        }
        return {name: probe(value) for name, value in values.items()}

    check = DerivativeCheck(f)
    zero, still = np.zeros((D, D)), np.zeros((D, K))
    for angles in PLACES.values():
        simple = len({0.0, *np.round(angles, 6)}) == 1 + K
        kinks = () if simple else ("principal_angles",)
        kinks += () if any(angles) else ("distance",)
        x = (zero, zero, *at_angles(*angles), 0.3)
        check(x, (*ROTATIONS, still, still, 0.7), kinks=kinks)


def test_derivative_of_distance_at_zero_is_zero():
    """However the subspace is given."""
    gradient = jax.jit(jax.grad(lambda x: grassmann.distance(*x)))
    for pair in (at_angles(0, 0, 0), (A[0], A[0])):
        assert jnp.array_equal(jnp.stack(gradient(pair)), jnp.zeros((2, D, K)))


def test_derivatives_of_mean():
    def f(x):
        turn, bases, weights, junk = x
        bases = rotated(turn, bases) + junk[:, None, None]
        return {"mean": probe(projector(grassmann.mean(bases, weights).mean))}

    check = DerivativeCheck(f)
    zero, still, clean = np.zeros((4, D, D)), np.zeros((4, D, K)), np.zeros(4)
    turn = 0.3 * rng(10).normal(size=(4, D, D))
    turn, change = turn - np.swapaxes(turn, -1, -2), rng(11).normal(size=4)
    a, b = at_angles(0.0, 0.5, 0.5)
    for bases in (cluster(), np.stack([a] * 4), np.stack([a, b, a, b])):
        check((zero, bases, WEIGHTS, clean), (turn, still, change, clean))

    # Without weight, a basis still has a derivative in its weight, unless it is not one at all.
    absent, unit = WEIGHTS * (np.arange(4) != 1), np.eye(4)[1]

    def place(weights, junk=clean):
        return zero, cluster(), weights, junk

    along = (zero, still, unit, clean)
    values = [check.program(place(absent + i * 1e-5 * unit), along)[0]["mean"] for i in range(3)]
    one_sided = (4 * values[1] - values[2] - 3 * values[0]) / 2e-5
    for got in check.program(place(absent), along)[1:]:
        assert_close(got["mean"], one_sided, 1e-6)
    turn[1], change[1] = 0, 0
    junk = np.where(unit == 1, np.nan, 0)
    check.without(place(absent), (turn, still, change, clean), place(absent, junk))


# ---- Promises -----------------------------------------------------------------------------------


def test_eager_jit_vmap_and_loop_agree():
    batched = jax.jit(everything)(A, B)
    for other in (everything(jnp.asarray(A), B), jax.jit(jax.vmap(everything))(A, B)):
        jax.tree.map(lambda x, y: assert_close(x, y, 1e-13), batched, other)
    alone = jax.jit(everything)
    for i in range(3):
        jax.tree.map(lambda x, y: assert_close(x[i], y, 1e-13), batched, alone(A[i], B[i]))  # noqa: B023


def test_mean_batch_is_a_loop():
    batch = np.stack([cluster(), cluster(spread=0.6)])
    together = mean(batch, WEIGHTS)
    alone = jnp.stack([mean(bases, WEIGHTS).mean for bases in batch])
    assert_close(projector(together.mean), projector(alone), 1e-13)
    assert together.converged.tolist() == [True, True]
    assert together.iterations.shape == together.residual.shape == (2,)


def test_batch_axes_and_t_broadcast():
    t = jnp.linspace(0, 1, 4)[:, None]
    out = geodesic(A, B[0], t)
    assert out.shape == (4, 3, D, K)
    assert_close(out[2, 1], geodesic(A, np.stack([B[0]] * 3), t[2, 0])[1], 1e-13)


def test_float32_in_float32_out():
    expected = jax.jit(everything)(A, B)
    for name, value in jax.jit(everything)(A.astype(np.float32), B.astype(np.float32)).items():
        assert value.dtype == jnp.float32
        assert relative_error(value, expected[name]) < FLOAT32, name
    out = mean(cluster().astype(np.float32), WEIGHTS.astype(np.float32))
    assert out.converged
    assert out.mean.dtype == jnp.float32
    assert_close(projector(out.mean), projector(mean(cluster(), WEIGHTS).mean), FLOAT32)


def test_non_finite_entries_give_nan():
    """In that basis of the batch, throughout, and in no other."""
    f = jax.jit(everything)
    for bad in (np.nan, np.inf):
        spoilt = A.copy()
        spoilt[1, 0, 0] = bad
        for name, out in [*f(spoilt, B).items(), *f(B, spoilt).items()]:
            assert jnp.all(jnp.isnan(out[1])), (name, bad)
            assert jnp.all(jnp.isfinite(out[::2])), (name, bad)


def test_absent_columns_stay_absent():
    """A smaller subspace in the shape of a larger one."""
    small_a, small_b = A[..., :2], B[..., :2]
    a, b = (np.concatenate([g, np.zeros((3, D, 1))], axis=-1) for g in (small_a, small_b))
    expected = jax.jit(everything)(small_a, small_b)
    got = jax.jit(everything)(a, b)
    for name in ("geodesic", "log", "exp"):
        assert_close(got[name][..., :2], expected[name], 1e-13)
        assert jnp.all(got[name][..., 2] == 0)
    assert_close(got["distance"], expected["distance"], 1e-13)
    bases = cluster()
    bases[..., 2] = 0
    out = mean(bases, WEIGHTS)
    assert jnp.all(out.mean[:, 2] == 0)
    assert_close(projector(out.mean), projector(mean(bases[..., :2], WEIGHTS).mean), 1e-13)


MISTAKES = {
    "k > d": (lambda: grassmann.log(np.ones((2, 3)), A[0]), r"g1 must be.*d ≥ k, got.*\(2, 3\)"),
    "a vector": (lambda: grassmann.log(A[0], np.ones(3)), r"g2 must be.*\(3,\)"),
    "sizes": (lambda: grassmann.distance(A, B[..., :2]), r"g1 and g2.*\(3, 6, 3\).*\(3, 6, 2\)"),
    "batches": (lambda: grassmann.exp(A, B[:2]), r"g and delta.*batch axes.*\(3, 6, 3\)"),
    "dtypes": (lambda: grassmann.log(A, B.astype("f4")), "g1 and g2.*float32"),
    "integers": (lambda: grassmann.log(np.eye(3, dtype=int), np.eye(3)), "g1 must be.*int64"),
    "complex": (lambda: grassmann.mean(A * 1j), "bases must be.*complex128"),
    "t": (lambda: grassmann.geodesic(A, B, -0.1), r"t must be in \[0, 1\], got -0.1"),
    "one basis": (lambda: grassmann.mean(A[0]), r"bases must be of shape.*\(6, 3\)"),
    "no basis": (lambda: grassmann.mean(A[:0]), r"bases must be of shape.*\(0, 6, 3\)"),
    "negative weight": (lambda: grassmann.mean(A, [-1, 1, 1]), "weights must be.*at least 0"),
    "weights": (lambda: grassmann.mean(A, WEIGHTS), r"weights must be of shape \(3,\).*\(4,\)"),
}


@pytest.mark.parametrize(("call", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
