"""jaxfs.linalg against SciPy, finite differences and theorems."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxfs import linalg
from jaxfs._numerics import sinhc as _sinhc
from tests.helpers import (
    FLOAT32_GRADIENT,
    RTOL,
    assert_close,
    assert_derivatives,
    circulant,
    degenerate_matrices,
    directional_difference,
    relative_error,
    spd,
    symmetric,
)


def cube(a):
    return linalg.spectral_function(a, lambda x: x**3, lambda x, y: x * x + x * y + y * y)


def shifted_abs(a):
    """|a − 1.03 I|: both signs in the spectra below, and no eigenvalue at the kink."""
    return linalg.absm(a - jnp.broadcast_to(1.03 * jnp.eye(a.shape[-1], dtype=a.dtype), a.shape))


FUNCTIONS = {
    "sqrtm": (linalg.sqrtm, np.sqrt),
    "inv_sqrtm": (linalg.inv_sqrtm, lambda w: w**-0.5),
    "logm": (linalg.logm, np.log),
    "expm": (linalg.expm, np.exp),
    "powm(0.3)": (lambda a: linalg.powm(a, 0.3), lambda w: w**0.3),
    "powm(-1.2)": (lambda a: linalg.powm(a, -1.2), lambda w: w**-1.2),
    "powm(2.5)": (lambda a: linalg.powm(a, 2.5), lambda w: w**2.5),
    "absm": (shifted_abs, lambda w: np.abs(w - 1.03)),
    "spectral_function": (cube, lambda w: w**3),
}
MATRICES = degenerate_matrices()

STACK = jnp.asarray(np.stack(list(MATRICES.values())))
DIRECTION = jnp.asarray(symmetric(6, seed=5))
WEIGHT = np.random.default_rng(7).normal(size=(6, 6))

functions = pytest.mark.parametrize("name", FUNCTIONS)
#: For what the powers do by the same code, one power.
kinds = pytest.mark.parametrize(
    "name", [n for n in FUNCTIONS if n not in ("inv_sqrtm", "powm(0.3)", "powm(2.5)")]
)
#: Outside `jit` every operation is compiled separately, which takes longer.
COMPILED = {name: jax.jit(f) for name, (f, _) in FUNCTIONS.items()}


def scalar(name: str):
    """A nonlinear function of f(a) that depends on every entry."""
    f = FUNCTIONS[name][0]

    def probe(a):
        value = f(a)
        return jnp.sum(jnp.sin(value * jnp.asarray(WEIGHT, a.dtype)) + value**2 / 7)

    return probe


def assert_each_close(got, expected, rtol):
    """Matrix by matrix, so that a failure names the spectrum."""
    errors = {
        kind: relative_error(g, e) for kind, g, e in zip(MATRICES, got, expected, strict=True)
    }
    assert max(errors.values()) <= rtol, errors


@functions
def test_value_is_that_of_the_spectrum(name):
    w, v = np.linalg.eigh(STACK)
    expected = v * FUNCTIONS[name][1](w)[:, None, :] @ np.swapaxes(v, -1, -2)
    assert_each_close(COMPILED[name](STACK), expected, 1e-12)


def test_one_by_one_matrices():
    for name, (_, expected) in FUNCTIONS.items():
        assert_close(COMPILED[name](np.array([[1.7]])), expected(np.array([[1.7]])), 1e-14)


def test_values_against_scipy():
    a = spd(8)
    assert_close(linalg.sqrtm(a), scipy.linalg.sqrtm(a), 1e-12)
    assert_close(linalg.logm(a), scipy.linalg.logm(a), 1e-12)
    assert_close(linalg.expm(a - 1), scipy.linalg.expm(a - 1), 1e-12)
    assert_close(linalg.powm(a, -0.7), scipy.linalg.fractional_matrix_power(a, -0.7), 1e-12)
    assert_close(linalg.absm(a - np.eye(8)), scipy.linalg.polar(a - np.eye(8))[1], 1e-12)


@functions
def test_first_and_second_derivatives(name):
    """Forward, reverse, and forward over reverse; all spectra in one program."""
    slopes = jax.value_and_grad(scalar(name))

    @jax.jit
    @jax.vmap
    def derivatives(a):
        return jax.jvp(slopes, (a,), (DIRECTION,))

    (_, gradient), (forward, forward_over_reverse) = derivatives(STACK)
    step = jnp.broadcast_to(DIRECTION, STACK.shape)
    first, second = directional_difference(lambda a: derivatives(a)[0], STACK, step)
    assert_each_close(forward, first, 1e-6)
    assert_each_close(jnp.sum(gradient * step, (1, 2)), first, 1e-6)
    assert_each_close(forward_over_reverse, second, 1e-5)


@pytest.mark.parametrize("name", ["sqrtm", "logm"])
def test_reverse_over_reverse_is_forward_over_reverse(name):
    gradient = jax.grad(scalar(name))

    @jax.jit
    @jax.vmap
    def both(a):
        reverse = jax.grad(lambda x: jnp.vdot(gradient(x), DIRECTION))(a)
        return reverse, jax.jvp(gradient, (a,), (DIRECTION,))[1]

    assert_each_close(*both(STACK), 1e-10)


def test_the_derivative_of_eigh_fails_where_ours_does_not():
    """The reason for this module: if JAX's own rule becomes right, it can be simplified."""

    def through_eigh(a):
        w, v = jnp.linalg.eigh(a)
        return jnp.sum(jnp.sin(v @ jnp.diag(jnp.sqrt(w)) @ v.T))

    assert np.isnan(jax.jit(jax.grad(through_eigh))(jnp.eye(3))).any()
    ours = jax.jit(jax.grad(lambda a: jnp.sum(jnp.sin(linalg.sqrtm(a)))))
    assert np.isfinite(ours(jnp.eye(3))).all()


@kinds
def test_float32_gradient_is_near_float64(name):
    gradient = jax.jit(jax.vmap(jax.grad(scalar(name))))
    low = gradient(STACK.astype(jnp.float32))
    assert low.dtype == jnp.float32
    assert_each_close(low, gradient(STACK), FLOAT32_GRADIENT)


def test_divided_difference_of_log_keeps_digits_in_float32():
    """At λ = 100 and a relative gap of 3e-6 the plain quotient errs by percents."""
    a = jnp.diag(jnp.array([100.0, 100.0 * (1 + 3e-6), 1.0], jnp.float32))
    e = jnp.ones((3, 3), jnp.float32)
    derivative = jax.jvp(linalg.logm, (a,), (e,))[1]
    assert abs(float(derivative[0, 1]) - 0.01) < 1e-7


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "name",
    ["inv_sqrtm", "logm", "powm(-1.2)", "powm(2.5)", "absm"],  # e^1e4 overflows
)
def test_wide_spectrum_has_finite_derivatives(name, dtype):
    a = jnp.diag(jnp.array([1e-4, 1.0, 1.0, 1e4], dtype))
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(FUNCTIONS[name][0](x))))(a)
    assert np.isfinite(gradient).all()


def test_expm_of_widely_different_eigenvalues():
    a = jnp.diag(jnp.array([0.0, -2000.0, -1e-9, 1e-9]))
    value, tangent = jax.jvp(linalg.expm, (a,), (jnp.ones((4, 4)),))
    assert np.isfinite(value).all()
    assert_close(tangent[0, 1], 1 / 2000, 1e-12)
    assert_close(tangent[2, 3], 1.0, 1e-12)
    second = jax.jvp(lambda x: jax.jvp(linalg.expm, (x,), (jnp.ones((4, 4)),))[1], (a,),
                     (jnp.ones((4, 4)),))[1]  # fmt: skip
    # Σ_k 2 f[0, w_k, 0]: three zeros give 2 · ½ each, w = −2000 gives 2 (1 − 1/2000)/2000.
    assert_close(second[2, 3], 3.0 + 2 * (1 - 1 / 2000) / 2000, 1e-6)


def test_powm_derivatives_in_its_exponent_mixed_ones_included():
    a = jnp.asarray(np.stack([spd(4), 2 * np.eye(4), np.diag([0.5, 1.0, 1.0, 3.0])]))

    def probe(at):
        return jnp.sum(jnp.cos(linalg.powm(at[0], at[1])))

    slopes = jax.value_and_grad(probe)

    @jax.jit
    @jax.vmap
    def derivatives(a, t):
        (value, gradient), (in_t, (mixed, _)) = jax.jvp(
            slopes, ((a, t),), ((jnp.zeros_like(a), jnp.ones_like(t)),)
        )
        swapped = jax.grad(lambda a: slopes((a, t))[1][1])(a)
        return (value, gradient[0]), gradient[1], in_t, mixed, swapped

    at, step = (a, jnp.full(3, 0.4)), (jnp.zeros_like(a), jnp.ones(3))
    first, second = directional_difference(lambda at: derivatives(*at)[0], at, step)
    _, reverse, forward, mixed, swapped = derivatives(*at)
    assert_close(reverse, first, 1e-6)
    assert_close(forward, first, 1e-6)
    assert_close(mixed, second, 1e-6)
    assert_close(swapped, second, 1e-6)


def test_powm_of_a_singular_matrix_is_differentiable_in_its_exponent():
    a = jnp.diag(jnp.array([0.0, 1.0, 1.0, 3.0]))
    assert_derivatives(lambda t: jnp.sum(jnp.sin(linalg.powm(a, t))), 0.4, 1.0)


def test_powm_derivative_on_the_kernel():
    a = jnp.diag(jnp.array([0.0, 0.0, 1.0]))
    for t, expected in ((1.0, np.eye(3)), (2.0, np.diag([0.0, 0.0, 2.0]))):
        gradient = jax.grad(lambda a, t=t: jnp.trace(linalg.powm(a, t)))(a)
        assert_close(gradient, expected, 1e-12)


@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-12, 1e-8, 1e-2, 1.0])
def test_second_derivative_of_any_function_of_clustered_eigenvalues(gap):
    """The default second difference, of a function whose scale is not that of its argument."""

    def exp(a):
        first = lambda x, y: jnp.exp((x + y) / 2) * _sinhc((x - y) / 2)  # noqa: E731
        return linalg.spectral_function(a, jnp.exp, first)

    a = jnp.diag(jnp.array([-gap, 0.0, gap]))
    e = jnp.asarray(symmetric(3, seed=1))

    def second(f):
        slope = lambda a: jax.jvp(f, (a,), (e,))[1]  # noqa: E731
        return jax.jit(lambda a: jax.jvp(slope, (a,), (e,))[1])(a)

    assert_close(second(exp), second(linalg.expm), 1e-7)


def test_powm_takes_an_exponent_per_matrix():
    a, t = spd(3, batch=(2,)), np.array([0.5, -1.0])
    powers = linalg.powm(a, t)
    assert_close(powers[0], linalg.sqrtm(a[0]), 1e-12)
    assert_close(powers[1], np.linalg.inv(a[1]), 1e-12)


def test_powm_at_the_ends():
    a = spd(4)
    assert_close(linalg.powm(a, 0.0), np.eye(4), 1e-12)
    assert_close(linalg.powm(a, 1), a, 1e-12)


def test_third_derivative_is_refused_and_not_wrong():
    with pytest.raises(NotImplementedError, match="differentiated twice"):
        jax.eval_shape(jax.jacfwd(jax.hessian(lambda a: jnp.sum(linalg.logm(a)))), jnp.eye(2))


# ---- Kinks, singular and non-finite matrices ----------------------------------------------------


def test_absm_subgradient_at_zero_is_finite_and_zero_on_the_kernel():
    a = jnp.diag(jnp.array([1.0, 0.0, -2.0]))
    gradient = jax.grad(lambda x: jnp.trace(linalg.absm(x)))(a)
    assert_close(gradient, np.diag([1.0, 0.0, -1.0]), 1e-12)
    assert np.array_equal(jax.grad(lambda x: jnp.sum(linalg.absm(x)))(jnp.zeros((3, 3))),
                          np.zeros((3, 3)))  # fmt: skip


@pytest.mark.parametrize("dtype", RTOL)
def test_semidefinite_matrices_have_a_root_and_a_finite_gradient(dtype):
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(dtype)
    a = jnp.asarray(x @ x.T)
    root = linalg.sqrtm(a)
    assert_close(root @ root, a, 1e3 * RTOL[dtype])  # √ of eigenvalues at the level of eps
    for f in (linalg.sqrtm, lambda a: linalg.powm(a, 0.5)):
        assert np.isfinite(jax.grad(lambda a, f=f: jnp.sum(f(a)))(jnp.diag(jnp.arange(3.0)))).all()


def test_indefinite_matrices_give_nan():
    a = np.diag([1.0, -1.0])
    for f in (linalg.sqrtm, linalg.inv_sqrtm, linalg.logm, lambda a: linalg.powm(a, 0.5)):
        assert np.isnan(np.diagonal(f(a))).any()


def test_singular_matrices_have_no_inverse_root_nor_logarithm():
    a = np.diag([1.0, 0.0])
    for f in (linalg.inv_sqrtm, lambda a: linalg.powm(a, -1.0)):
        assert np.isnan(f(a)).all()
    assert np.isnan(linalg.logm(a)).any()


@kinds
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_entries_give_nan_and_leave_the_batch_alone(name, bad):
    a = spd(4, batch=(3,))
    expected = COMPILED[name](a)
    a[1, 0, 2] = bad
    value = COMPILED[name](a)
    assert np.isnan(value[1]).all()
    assert np.array_equal(value[::2], expected[::2])


# ---- Transformations ----------------------------------------------------------------------------


@kinds
def test_jit_vmap_and_batches_agree(name):
    f = FUNCTIONS[name][0]
    a = jnp.asarray(spd(4, batch=(2, 3)))
    expected = np.stack([[f(m) for m in row] for row in a])
    nested = jax.jit(jax.vmap(jax.vmap(f), 1, 1))
    for batched in (f(a), COMPILED[name](a), nested(a)):
        assert_close(batched, expected, 1e-13)


def test_one_compilation_for_one_shape():
    f = jax.jit(chex.assert_max_traces(linalg.sqrtm, n=1))
    f(spd(3))
    f(spd(3, seed=1))


@kinds
def test_lowers_for_every_platform(name):
    """Value, gradient and second derivative, on a machine that need not have the devices."""
    slopes = jax.value_and_grad(scalar(name))

    def all_three(a):
        return jax.jvp(slopes, (a,), (a,))

    shape = jax.ShapeDtypeStruct((6, 6), jnp.float32)
    exported = jax.export.export(jax.jit(all_three), platforms=["cpu", "cuda", "tpu"])(shape)
    assert exported.platforms == ("cpu", "cuda", "tpu")


def test_gradient_is_symmetric_even_for_asymmetric_input():
    a = spd(6) + np.triu(np.full((6, 6), 0.1), 1)
    gradient = jax.jit(jax.grad(scalar("logm")))(jnp.asarray(a))
    assert_close(gradient, gradient.T, 1e-14)


# ---- Bases --------------------------------------------------------------------------------------


def test_polar_against_scipy():
    c = np.random.default_rng(0).normal(size=(3, 5, 5))
    assert_close(linalg.polar(c), np.stack([scipy.linalg.polar(m)[0] for m in c]), 1e-12)


def test_polar_of_nan_is_nan_and_leaves_the_batch_alone():
    c = np.random.default_rng(0).normal(size=(2, 3, 3))
    expected = linalg.polar(c)[1]
    c[0, 1, 1] = np.nan
    factors = linalg.polar(c)
    assert np.isnan(factors[0]).all()
    assert np.array_equal(factors[1], expected)


def test_powm_of_nan_has_no_derivative():
    value, slope = jax.value_and_grad(lambda t: linalg.powm(np.full((2, 2), np.nan), t)[0, 0])(0.5)
    assert np.isnan(value)
    assert np.isnan(slope)


def test_polar_derivatives_at_repeated_singular_values():
    generator = np.random.default_rng(1)
    u, v = (np.linalg.qr(generator.normal(size=(4, 4)))[0] for _ in range(2))
    weight, direction = (jnp.asarray(generator.normal(size=(4, 4))) for _ in range(2))
    probe = lambda c: jnp.sum(jnp.sin(linalg.polar(c) * weight))  # noqa: E731
    gradient = jax.jit(jax.grad(probe))
    second = jax.jit(lambda c: jax.jvp(gradient, (c,), (direction,))[1])
    for singular_values in ([1, 1, 1, 1], [2, 2, 1, 0.5], [3, 1.1, 0.7, 0.2]):
        c = jnp.asarray(u @ np.diag(singular_values) @ v)
        assert_derivatives(probe, c, direction)
        assert_close(second(c), directional_difference(gradient, c, direction), 1e-5)


def test_leading_eigenspace_spans_what_eigh_gives():
    a = spd(6)
    basis, core = linalg.leading_eigenspace(a, 3)
    w, v = np.linalg.eigh(a)
    assert_close(basis @ basis.T, v[:, 3:] @ v[:, 3:].T, 1e-12)
    assert_close(np.diagonal(core), w[:2:-1], 1e-12)
    assert_close(basis @ core @ basis.T, v[:, 3:] @ np.diag(w[3:]) @ v[:, 3:].T, 1e-12)


@pytest.mark.parametrize("spectrum", [[3, 3, 3, 1, 1, 0.5], [3, 2.5, 2, 1, 0.7, 0]])
def test_leading_eigenspace_derivatives_need_only_the_gap(spectrum):
    q = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 6)))[0]
    a = jnp.asarray(q @ np.diag(spectrum) @ q.T)
    weight = jnp.asarray(np.random.default_rng(3).normal(size=(6, 6)))

    def probe(a):
        basis, core = linalg.leading_eigenspace(a, 3)
        return jnp.sum(jnp.sin(basis @ linalg.expm(core) @ basis.T * weight))

    assert_derivatives(probe, a, jnp.asarray(symmetric(6, seed=4)))


def test_leading_eigenspace_without_a_gap_is_finite_and_twice_is_refused():
    probe = lambda a: jnp.sum(linalg.leading_eigenspace(a, 2)[0] ** 3)  # noqa: E731
    assert np.isfinite(jax.jit(jax.grad(probe))(jnp.eye(4))).all()
    with pytest.raises(NotImplementedError, match="leading_eigenspace once"):
        jax.eval_shape(jax.hessian(probe), jnp.asarray(circulant()))


def test_leading_eigenspace_in_batches():
    a = spd(5, batch=(2, 3))
    basis, core = linalg.leading_eigenspace(a, 2)
    loop = [linalg.leading_eigenspace(m, 2) for m in a.reshape(6, 5, 5)]
    assert_close(basis.reshape(6, 5, 2), np.stack([g for g, _ in loop]), 1e-13)
    assert_close(core.reshape(6, 2, 2), np.stack([p for _, p in loop]), 1e-13)


def test_absm_diagonal_is_the_diagonal_and_has_its_derivatives():
    a = jnp.asarray(symmetric(6, seed=8))
    assert_close(linalg.absm_diagonal(a), np.diagonal(linalg.absm(a)), 1e-12)
    weight = jnp.asarray(np.random.default_rng(9).normal(size=6))
    assert_derivatives(lambda a: jnp.sin(linalg.absm_diagonal(a)) @ weight, a, DIRECTION)


def test_dominant_eigenpairs_by_magnitude():
    values, vectors = linalg.dominant_eigenpairs(np.diag([1.0, -3.0, 2.0]), 2)
    assert values.tolist() == [-3.0, 2.0]
    assert vectors.T.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_leading_eigenspace_of_nan_is_nan():
    basis, core = linalg.leading_eigenspace(np.full((3, 3), np.nan), 2)
    assert np.isnan(basis).all()
    assert np.isnan(core).all()


# ---- Bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linalg.sqrtm(np.ones((2, 3))), r"a must be square.*got shape \(2, 3\)"),
        (lambda: linalg.logm(np.ones(3)), r"a must be square.*got shape \(3,\)"),
        (lambda: linalg.absm(np.eye(2, dtype=int)), r"a must be of dtype float32.*got int64"),
        (lambda: linalg.expm(np.eye(2) * 1j), r"a must be an array of real.*complex128"),
        (lambda: linalg.expm(jnp.eye(2, dtype=complex)), r"a must be an array of real.*complex128"),
        (lambda: linalg.expm(jnp.eye(2, dtype=jnp.bfloat16)), r"float32 or float64, got bfloat16"),
        (lambda: linalg.sqrtm(np.zeros((0, 0))), r"a must be square.*d > 0, got shape \(0, 0\)"),
        (lambda: linalg.powm(np.eye(2), "half"), r"t must be a real number, got 'half'"),
        (lambda: linalg.powm(np.eye(2), np.nan), r"t must be a number, got nan"),
        (
            lambda: linalg.leading_eigenspace(np.eye(2), 3),
            r"k must be an integer in \[1, 2\], got 3",
        ),
        (lambda: linalg.leading_eigenspace(np.eye(2), 1.5), r"k must be an integer, got 1.5"),
        (lambda: linalg.sqrtm([[1, "x"]]), r"a must be an array of real numbers"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_relative_error_sees_a_difference():
    assert relative_error([1.0, 2.0], [1.0, 2.2]) == pytest.approx(0.2 / 2.2)
