"""jaxfs.geometry.spsd against the paper's formulas, the SPD geometry and finite differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfs import linalg
from jaxfs.geometry import grassmann, spd, spsd
from tests.geometry.common import FLOAT32, DerivativeCheck, equation_10, orthonormal, probe
from tests.helpers import assert_close, relative_error, rng
from tests.helpers import spd as random_spd

D, K = 6, 3


def low_rank(seed: int, rank: int = K, batch: tuple[int, ...] = ()) -> np.ndarray:
    """Matrices of a given rank around one subspace, of condition ≤ 10 there."""
    noise = 0.4 * rng(seed).normal(size=(*batch, D, rank)) / np.sqrt(D)
    g = np.linalg.qr(np.eye(D, rank) + noise)[0]
    w = np.linspace(1, 5, rank) + rng(seed).uniform(size=(*batch, rank))
    return (g * w[..., None, :]) @ np.swapaxes(g, -1, -2)


A, B = low_rank(1, batch=(3,)), low_rank(2, batch=(3,))
FOUR = low_rank(3, batch=(4,))
WEIGHTS = np.array([1.0, 3.0, 0.5, 2.0])


def everything(a, b):
    """All functions of two matrices, for the promises that all of them make."""
    a, b = spsd.factor(a, K), spsd.factor(b, K)
    middle = spsd.geodesic(a, b, 0.5)
    return {
        "factor": spsd.to_matrix(a) + spsd.to_matrix(b),
        "geodesic": spsd.to_matrix(spsd.geodesic(a, b, 0.3)),
        "middle": spsd.to_matrix(middle),
        "log": spsd.to_matrix(spsd.log(middle, a)),
        "other log": spsd.to_matrix(spsd.log(middle, b)),
        "difference": spsd.to_matrix(spsd.difference(a, b)),
        "score": spsd.absm_diagonal(spsd.difference(a, b)),
    }


@jax.jit
def mean(mats, weights):
    """The mean of matrices, as a matrix, and its report."""
    out = spsd.mean(spsd.factor(mats, K), weights)
    return spsd.to_matrix(out.mean), out


geodesic = jax.jit(
    lambda a, b, t: spsd.to_matrix(spsd.geodesic(spsd.factor(a, K), spsd.factor(b, K), t))
)
factor = jax.jit(spsd.factor, static_argnums=1)
everything_compiled = jax.jit(everything)


# ---- Equations (10) and (12) to (14) of ManiFeSt, as they are printed ----------------------------


def matrix_function(a, f):
    w, v = np.linalg.eigh(a)
    return (v * f(w)) @ v.T


def spd_path(p1, p2, t):
    half, inverse = matrix_function(p1, np.sqrt), matrix_function(p1, lambda w: w**-0.5)
    return half @ matrix_function(inverse @ p2 @ inverse, lambda w: w**t) @ half


def spd_log(p, q):
    half, inverse = matrix_function(p, np.sqrt), matrix_function(p, lambda w: w**-0.5)
    return half @ matrix_function(inverse @ q @ inverse, np.log) @ half


def leading(a):
    return np.linalg.eigh(a)[1][:, -K:]


def equation_12(k1, k2, t):
    g1, g2 = leading(k1), leading(k2)
    o2, _, o1t = np.linalg.svd(g2.T @ g1)
    p1, p2 = o1t @ g1.T @ k1 @ g1 @ o1t.T, o2.T @ g2.T @ k2 @ g2 @ o2
    path = equation_10(g1, g2, t)
    return path @ spd_path(p1, p2, t) @ path.T


def equation_14(m, k1):
    gm, g1 = leading(m), leading(k1)
    o1, _, omt = np.linalg.svd(g1.T @ gm)
    pm, p1 = omt @ gm.T @ m @ gm @ omt.T, o1.T @ g1.T @ k1 @ g1 @ o1
    path = equation_10(gm, g1, 1.0)
    return path @ spd_log(pm, p1) @ path.T


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_geodesic_is_equation_12(t):
    expected = np.stack([equation_12(a, b, t) for a, b in zip(A, B, strict=True)])
    assert_close(geodesic(A, B, t), expected, 1e-11)


def test_mean_and_difference_are_equations_13_and_14():
    got = everything_compiled(A, B)
    for i, (a, b) in enumerate(zip(A, B, strict=True)):
        m = equation_12(a, b, 0.5)
        assert_close(got["middle"][i], m, 1e-11)
        assert_close(got["log"][i], equation_14(m, a), 1e-11)
        assert_close(got["other log"][i], equation_14(m, b), 1e-11)


def test_difference_in_closed_form():
    """At the middle of two matrices: G₁ Log_{Λ₁ # QΛ₂Qᵀ}(Λ₁) G₁ᵀ, Q = polar(G₁ᵀG₂)."""
    got = everything_compiled(A, B)
    for i, (a, b) in enumerate(zip(A, B, strict=True)):
        g1, g2 = leading(a), leading(b)
        u, _, vt = np.linalg.svd(g1.T @ g2)
        p1, p2 = g1.T @ a @ g1, u @ vt @ g2.T @ b @ g2 @ vt.T @ u.T
        expected = g1 @ spd_log(spd_path(p1, p2, 0.5), p1) @ g1.T
        assert_close(got["log"][i], expected, 1e-11)
        assert_close(got["difference"][i], expected, 1e-11)
        score = np.diag(matrix_function(expected, np.abs))
        assert_close(got["score"][i], score, 1e-11)


# ---- Theorems -----------------------------------------------------------------------------------


def test_geodesic_laws():
    assert_close(geodesic(A, B, 0.0), A, 1e-12)
    assert_close(geodesic(A, B, 1.0), B, 1e-12)
    assert_close(geodesic(A, B, 0.3), geodesic(B, A, 0.7), 1e-12)
    assert_close(geodesic(A, geodesic(A, B, 0.6), 0.5), geodesic(A, B, 0.3), 1e-12)
    rotate = orthonormal(D, D, seed=8)
    turned = geodesic(rotate @ A @ rotate.T, rotate @ B @ rotate.T, 0.3)
    assert_close(turned, rotate @ geodesic(A, B, 0.3) @ rotate.T, 1e-12)
    assert_close(geodesic(2 * A, 3 * B, 0.3), 2**0.7 * 3**0.3 * geodesic(A, B, 0.3), 1e-12)


def test_full_rank_is_the_spd_geometry():
    a, b = random_spd(4, seed=1), random_spd(4, seed=2)
    mats = np.stack([a, b, random_spd(4, seed=3)])

    @jax.jit
    def both(a, b, mats):
        fa, fb = spsd.factor(a, 4), spsd.factor(b, 4)
        middle = spd.geodesic(a, b, 0.5)
        return (
            (spsd.to_matrix(spsd.geodesic(fa, fb, 0.3)), spd.geodesic(a, b, 0.3)),
            (spsd.to_matrix(spsd.log(fa, fb)), spd.log(a, b)),
            (spsd.to_matrix(spsd.log(spsd.factor(middle, 4), fa)), spd.log(middle, a)),
            (spsd.to_matrix(spsd.difference(fa, fb, 0.3)), spd.difference(a, b, 0.3)),
            (spsd.to_matrix(spsd.mean(spsd.factor(mats, 4)).mean), spd.mean(mats).mean),
        )

    for got, expected in both(a, b, mats):
        assert_close(got, expected, 1e-11)


def test_mean_of_two_is_on_the_geodesic():
    for i in range(3):
        got, out = mean(np.stack([A[i], A[i], B[i], B[i]]), np.array([1.0, 3.0, 2.0, 2.0]))
        assert_close(got, geodesic(A, B, 0.5)[i], 1e-12)
        assert out.converged


def test_mean_in_one_subspace_is_the_mean_of_the_cores():
    g, cores = orthonormal(D, K, seed=4), random_spd(K, seed=5, batch=(4,))
    got, out = mean(g @ cores @ g.T, WEIGHTS)
    assert_close(got, g @ spd.mean(cores, WEIGHTS).mean @ g.T, 1e-12)
    assert out.converged
    assert out.iterations.shape == out.residual.shape == ()


def test_mean_of_many_is_that_of_its_parts():
    """Yair et al.: the Grassmann mean, then the SPD mean of the cores turned towards it."""
    got, out = mean(FOUR, WEIGHTS)
    bases = np.stack([leading(a) for a in FOUR])
    g = np.asarray(grassmann.mean(bases, WEIGHTS).mean)
    turned = np.stack([h @ np.asarray(linalg.polar(g.T @ h)).T for h in bases])
    cores = np.swapaxes(turned, -1, -2) @ FOUR @ turned
    assert_close(got, g @ spd.mean(cores, WEIGHTS).mean @ g.T, 1e-12)
    assert out.converged
    rotate = orthonormal(D, D, seed=8)
    assert_close(mean(rotate @ FOUR @ rotate.T, WEIGHTS)[0], rotate @ got @ rotate.T, 1e-12)


def test_mean_ignores_what_has_no_weight():
    weights = np.array([1.0, 0.0, 2.0, 0.5])
    expected, _ = mean(FOUR, weights)
    others, _ = mean(FOUR[[0, 2, 2, 3]], np.array([1.0, 1.0, 1.0, 0.5]))
    assert_close(others, expected, 1e-12)
    for junk in (np.full((D, D), np.nan), np.zeros((D, D)), np.eye(D), low_rank(9, rank=1)):
        mats = FOUR.copy()
        mats[1] = junk
        got, out = mean(mats, weights)
        assert jnp.array_equal(got, expected)
        assert out.converged


# ---- Rank ---------------------------------------------------------------------------------------


def test_absent_rank_is_masked():
    point = factor(np.stack([A[0], low_rank(4, rank=2), low_rank(4, rank=1), 0 * A[0]]), K)
    assert spsd.rank(point).tolist() == [3, 2, 1, 0]
    for i, r in enumerate([3, 2, 1, 0]):
        g, p = point.basis[i], point.core[i]
        assert_close(g.T @ g, np.diag(1.0 * (np.arange(K) < r)), 1e-13)
        assert jnp.array_equal(p[r:], jnp.eye(K)[r:])
        assert jnp.array_equal(p[:, r:], jnp.eye(K)[:, r:])
    assert_close(spsd.to_matrix(point)[1], low_rank(4, rank=2), 1e-13)
    assert jnp.array_equal(spsd.to_matrix(point)[3], jnp.zeros((D, D)))


def test_a_masked_rank_is_a_smaller_k():
    """Two matrices of rank 2, given room for 3."""
    a, b = low_rank(5, rank=2), low_rank(6, rank=2)

    @functools.partial(jax.jit, static_argnums=2)
    def with_room_for(a, b, k):
        a, b = spsd.factor(a, k), spsd.factor(b, k)
        return spsd.log(a, b), spsd.to_matrix(spsd.geodesic(a, b, 0.5))

    (log2, middle2), (log3, middle3) = (with_room_for(a, b, k) for k in (2, 3))
    assert_close(spsd.to_matrix(log3), spsd.to_matrix(log2), 1e-12)
    assert jnp.all(log3.core[2] == 0)
    assert_close(middle3, middle2, 1e-12)
    got, out = mean(np.stack([a, a, b, b]), np.ones(4))
    assert_close(got, middle2, 1e-12)
    assert spsd.rank(out.mean) == 2


def test_unequal_ranks_meet_at_the_smaller():
    """k = min rank, as the paper has it: the larger is cut to its leading part."""
    small, large = low_rank(5, rank=2), A[0]
    w, v = np.linalg.eigh(large)
    cut = (v[:, -2:] * w[-2:]) @ v[:, -2:].T
    assert_close(geodesic(large, small, 0.3), geodesic(cut, small, 0.3), 1e-12)
    assert_close(geodesic(small, large, 0.3), geodesic(small, cut, 0.3), 1e-12)
    got, out = mean(np.stack([large, small, large, small]), WEIGHTS)
    assert_close(got, mean(np.stack([cut, small, cut, small]), WEIGHTS)[0], 1e-12)
    assert spsd.rank(out.mean) == 2


def test_nothing_depends_on_the_representation():
    a, b = factor(A[0], K), factor(B[0], K)
    q = orthonormal(K, K, seed=9)
    turned = spsd.SPSD(a.basis @ q, q.T @ a.core @ q)

    @jax.jit
    def three(a, b):
        points = spsd.geodesic(a, b, 0.3), spsd.log(a, b), spsd.log(b, a)
        return [spsd.to_matrix(point) for point in points]

    for got, expected in zip(three(turned, b), three(a, b), strict=True):
        assert_close(got, expected, 1e-12)


# ---- Derivatives --------------------------------------------------------------------------------


def factors(a):
    """x with x xᵀ = a, (D, K): moving x keeps the rank ≤ K."""
    w, v = np.linalg.eigh(a)
    return v[:, -K:] * np.sqrt(np.maximum(w[-K:], 0))


FRAME = orthonormal(D, K, seed=10)
PLACES = {
    "generic": (A[0], B[0]),
    "equal eigenvalues": (2 * FRAME @ FRAME.T, leading(A[0]) @ leading(A[0]).T),
    "the same matrix": (A[0], A[0]),
    "equal spans": (FRAME @ np.diag([1.0, 2.0, 3.0]) @ FRAME.T, FRAME @ FRAME.T),
}
STEPS = tuple(rng(11).normal(size=(2, D, K)))


def test_derivatives():
    def f(x):
        a, b = (spsd.factor(y @ y.T, K) for y in x[:2])
        values = {
            "factor": spsd.to_matrix(a),
            "geodesic": spsd.to_matrix(spsd.geodesic(a, b, x[2])),
            "log": spsd.to_matrix(spsd.log(a, b)),
            "difference": spsd.to_matrix(spsd.difference(a, b, x[2])),
        }
        return {name: probe(value) for name, value in values.items()}

    check = DerivativeCheck(f)
    for a, b in PLACES.values():
        check((factors(a), factors(b), 0.3), (*STEPS, 0.7))
    # Masked: both stay of rank 2 where there is room for 3.
    steps = tuple(step * (np.arange(K) > 0) for step in STEPS)
    check((factors(low_rank(5, rank=2)), factors(low_rank(6, rank=2)), 0.3), (*steps, 0.7))


def test_derivatives_of_mean():
    def f(x):
        y, weights, junk = x
        basis, core = spsd.factor(y @ y.mT, K)
        out = spsd.mean(spsd.SPSD(basis + junk[:, None, None], core), weights)
        return {"mean": probe(spsd.to_matrix(out.mean))}

    check = DerivativeCheck(f)
    clean, steps, change = np.zeros(4), rng(12).normal(size=(4, D, K)), rng(13).normal(size=4)
    four = np.stack([factors(a) for a in FOUR])
    for y in (four, np.stack([four[0]] * 4), np.stack([FRAME] * 4)):
        check((y, WEIGHTS, clean), (steps, change, clean))
    rank_two = np.stack([factors(a) for a in low_rank(7, rank=2, batch=(4,))])
    check((rank_two, WEIGHTS, clean), (steps * (np.arange(K) > 0), change, clean))

    absent, junk = WEIGHTS * (np.arange(4) != 1), clean.copy()
    junk[1], steps[1], change[1] = np.nan, 0, 0
    check.without((four, absent, clean), (steps, change, clean), (four, absent, junk))


def test_derivative_of_a_cut_rank():
    """With a gap below it, the leading part is smooth in a matrix of any rank."""
    check = DerivativeCheck(lambda a: {"factor": probe(spsd.to_matrix(spsd.factor(a + a.T, K)))})
    check(0.5 * random_spd(D, seed=14), rng(15).normal(size=(D, D)))


# ---- Promises -----------------------------------------------------------------------------------


def test_eager_jit_vmap_and_loop_agree():
    batched = everything_compiled(A, B)
    for other in (everything(A, B), jax.jit(jax.vmap(everything))(A, B)):
        jax.tree.map(lambda x, y: assert_close(x, y, 1e-12), batched, other)
    for i in range(3):
        alone = everything_compiled(A[i], B[i])
        jax.tree.map(lambda x, y: assert_close(x[i], y, 1e-12), batched, alone)  # noqa: B023


def test_mean_under_vmap_is_a_loop():
    batch = np.stack([FOUR, low_rank(16, batch=(4,))])
    weights = np.stack([WEIGHTS, WEIGHTS[::-1]])
    together = jax.vmap(mean)(batch, weights)
    alone = jnp.stack([mean(*problem)[0] for problem in zip(batch, weights, strict=True)])
    assert_close(together[0], alone, 1e-12)
    assert together[1].converged.tolist() == [True, True]


def test_t_broadcasts():
    out = geodesic(A[0], B[0], jnp.linspace(0, 1, 4))
    assert out.shape == (4, D, D)
    assert_close(out[1], geodesic(A, B, 1 / 3)[0], 1e-12)


def test_float32_in_float32_out():
    expected = everything_compiled(A, B)
    for name, value in everything_compiled(A.astype("f4"), B.astype("f4")).items():
        assert value.dtype == jnp.float32
        assert relative_error(value, expected[name]) < FLOAT32, name
    got, out = mean(FOUR.astype("f4"), WEIGHTS.astype("f4"))
    assert out.converged
    assert got.dtype == jnp.float32
    assert_close(got, mean(FOUR, WEIGHTS)[0], FLOAT32)


def test_non_finite_entries_give_nan():
    """In that matrix of the batch, throughout, and in no other."""
    for bad in (np.nan, np.inf):
        spoilt = A.copy()
        spoilt[1, 0, 2] = spoilt[1, 2, 0] = bad
        for name, out in [
            *everything_compiled(spoilt, B).items(),
            *everything_compiled(B, spoilt).items(),
        ]:
            assert jnp.all(jnp.isnan(out[1])), name
            assert jnp.all(jnp.isfinite(out[::2])), name
    mats = FOUR.copy()
    mats[1, 0, 0] = np.nan
    got, out = mean(mats, WEIGHTS)
    assert jnp.all(jnp.isnan(got))
    assert not out.converged


def points(m=4, d=D, k=K, dtype=np.float64):
    return spsd.SPSD(np.zeros((m, d, k), dtype), np.zeros((m, k, k), dtype))


MISTAKES = {
    "not square": (lambda: spsd.factor(np.ones((3, 2)), 1), r"a must be square.*\(3, 2\)"),
    "integers": (lambda: spsd.factor(np.eye(3, dtype=int), 1), "a must be.*int64"),
    "complex": (lambda: spsd.factor(1j * np.eye(3), 1), "a must be.*complex128"),
    "k > d": (lambda: spsd.factor(np.eye(3), 4), r"k must be an integer in \[1, 3\], got 4"),
    "k = 0": (lambda: spsd.factor(np.eye(3), 0), r"k must be an integer in \[1, 3\], got 0"),
    "a matrix": (lambda: spsd.geodesic(np.eye(3), points(), 0.5), "a must be an SPSD.*ndarray"),
    "no matrix": (lambda: spsd.to_matrix(np.eye(3)), "point must be an SPSD.*ndarray"),
    "shapes": (lambda: spsd.log(points(), points(d=5)), r"a and b.*\(4, 6, 3\) and \(4, 5, 3\)"),
    "ranks": (lambda: spsd.log(points(), points(k=2)), r"a and b.*\(4, 6, 3\) and \(4, 6, 2\)"),
    "dtypes": (lambda: spsd.log(points(), points(dtype=np.float32)), "a and b.*float32"),
    "core": (
        lambda: spsd.rank(spsd.SPSD(np.eye(3), np.eye(2))),
        r"point must be.*\(3, 3\) and \(2, 2\)",
    ),
    "t": (lambda: spsd.geodesic(points(), points(), 2.0), r"t must be in \[0, 1\], got 2.0"),
    "one point": (
        lambda: spsd.mean(spsd.SPSD(np.zeros((6, 3)), np.eye(3))),
        r"points must be.*\(\.\.\., m, d, k\).*\(6, 3\)",
    ),
    "weights": (
        lambda: spsd.mean(points(), np.ones(3)),
        r"weights must be of shape \(4,\).*\(3,\)",
    ),
    "negative weight": (lambda: spsd.mean(points(), -WEIGHTS), "weights must be.*at least 0"),
}


@pytest.mark.parametrize(("call", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- The inner product, eq. 11 ------------------------------------------------------------------


def tangent_vectors(point, seed):
    """Two tangent vectors (Δ, S) at a point, with Δ = G⊥ B, and the matrices B."""
    generator = rng(seed)
    g = np.asarray(point.basis)
    complement = np.linalg.qr(g, mode="complete")[0][:, K:]
    b = generator.normal(size=(2, D - K, K))
    s = generator.normal(size=(2, K, K))
    return complement @ b, s + np.swapaxes(s, -1, -2), b


def test_inner_product_equals_equation_11():
    point = spsd.factor(A[0], K)
    (delta1, delta2), (s1, s2), (b1, b2) = tangent_vectors(point, 30)
    w, v = np.linalg.eigh(np.asarray(point.core))
    root = v @ np.diag(w**-0.5) @ v.T
    cores = np.trace((root @ s1 @ root).T @ (root @ s2 @ root))  # eq. 6
    expected = np.trace(b1.T @ b2) + 0.7 * cores
    assert_close(spsd.inner(point, delta1, s1, delta2, s2, weight=0.7), expected, 1e-12)


def test_inner_product_does_not_depend_on_the_basis():
    point = spsd.factor(A[1], K)
    (delta1, delta2), (s1, s2), _ = tangent_vectors(point, 31)
    o = np.linalg.qr(rng(32).normal(size=(K, K)))[0]
    turned = spsd.SPSD(point.basis @ o, o.T @ point.core @ o)
    expected = spsd.inner(point, delta1, s1, delta2, s2)
    got = spsd.inner(turned, delta1 @ o, o.T @ s1 @ o, delta2 @ o, o.T @ s2 @ o)
    assert_close(got, expected, 1e-12)


def test_inner_product_of_logarithms_is_the_squared_distance():
    """‖(Δ, S)‖² of the logarithms on both manifolds is the sum of the squared distances."""
    a, b = spsd.factor(A[0], K), spsd.factor(B[0], K)
    delta = grassmann.log(a.basis, b.basis)
    end = grassmann.geodesic(a.basis, b.basis, 1.0)
    core = end.T @ spsd.to_matrix(b) @ end  # P₂ in the basis that the geodesic reaches
    s = spd.log(a.core, core)
    got = spsd.inner(a, delta, s, delta, s, weight=2.0)
    squares = grassmann.distance(a.basis, b.basis) ** 2 + 2 * spd.distance(a.core, core) ** 2
    assert_close(got, squares, 1e-10)


def test_inner_product_batches_and_names_bad_input():
    points = spsd.factor(A, K)
    (delta1, delta2), (s1, s2), _ = tangent_vectors(spsd.factor(A[0], K), 33)
    got = spsd.inner(points, delta1, s1, delta2, s2)
    assert got.shape == (3,)
    with pytest.raises(ValueError, match="basis, delta1 and delta2 must be of matching shapes"):
        spsd.inner(points, delta1[:, :2], s1, delta2, s2)
    with pytest.raises(ValueError, match="weight must be positive"):
        spsd.inner(points, delta1, s1, delta2, s2, weight=0.0)
