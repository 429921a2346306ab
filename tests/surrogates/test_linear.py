"""Ridge regression and least angle regression against scikit-learn and literal NumPy."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Ridge, lars_path

from jaxfs.resample import subsample_masks
from jaxfs.surrogates import linear
from tests.helpers import assert_close, assert_derivatives, rng

SHAPES = {"p > n": (40, 150), "n > p": (120, 8), "n > p, less": (60, 45)}
TOLERANCE = {"float32": 1e-4, "float64": 1e-12}
LARS = {"float32": 1e-3, "float64": 1e-9}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])
#: float64 everywhere, float32 where it is hardest.
shapes_and_dtypes = pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *((shape, "float64") for shape in SHAPES.values()),
        (SHAPES["p > n"], "float32"),
        pytest.param(SHAPES["n > p"], "float32", marks=pytest.mark.thorough),
        pytest.param(SHAPES["n > p, less"], "float32", marks=pytest.mark.thorough),
    ],
)
both_methods = pytest.mark.parametrize("method", ["lasso", "lar"])


@functools.cache
def problem(shape):
    """A linear label, noise, and one that is 1 for a single sample; features correlate."""
    n, p = shape
    r = rng(n)
    x = r.normal(size=shape) @ (np.eye(p) + 0.3 * r.normal(size=(p, p))) + 1.0
    y = x[:, :3] @ r.normal(size=(3, 2)) + 3 * r.normal(size=(n, 2))
    return x, np.concatenate([y, np.arange(n)[:, None] == 3], axis=1)


def reference(x, y, alpha=1.0, weights=None):
    return Ridge(alpha=alpha, solver="svd").fit(x, y, sample_weight=weights)


# ---- Ridge regression ---------------------------------------------------------------------------


@every_shape
@both_dtypes
def test_fit(shape, dtype):
    x, y = problem(shape)
    for alpha in (0.1, 1.0, 30.0):
        got, model = linear.fit(x.astype(dtype), y, alpha=alpha), reference(x, y, alpha)
        assert got.coefficients.dtype == got.intercept.dtype == dtype
        for label in range(y.shape[1]):
            assert_close(got.coefficients[label], model.coef_[label], TOLERANCE[dtype])
        assert_close(got.intercept, model.intercept_, 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["p > n", "n > p"])
def test_weights(name):
    x, y = problem(SHAPES[name])
    w = rng(1).integers(0, 3, len(y)).astype(float)
    x, y = (np.where(w[:, None] > 0, a, np.nan) for a in (x, y))
    got = linear.fit(x, y, weights=w)
    model = reference(x[w > 0], y[w > 0], weights=w[w > 0])
    assert_close(got.coefficients, model.coef_, 1e-12)
    assert_close(got.intercept, model.intercept_, 1e-12)
    masks = np.array(subsample_masks(jax.random.key(0), 4, len(y)))
    got = linear.resampled_scores(x, y[:, 0], masks, weights=w)
    inside = [mask & (w > 0) for mask in masks]
    expected = normalised([reference(x[m], y[m, 0], weights=w[m]).coef_ for m in inside])
    assert_close(got.mean, np.mean(expected, axis=0), 1e-12)


def normalised(coefficients) -> np.ndarray:
    size = np.abs(coefficients)
    return size / size.sum(axis=1, keepdims=True)


@shapes_and_dtypes
@pytest.mark.parametrize("fraction", [0.95, 0.3])
def test_resamples(shape, dtype, fraction):
    """Those that leave the single sample out have no model for it: they do not count."""
    x, y = problem(shape)
    masks = np.array(subsample_masks(jax.random.key(0), 10, len(y), fraction=fraction))
    masks[0, 3], masks[1, 3], masks[2, 3] = False, True, True
    got = linear.resampled_scores(x.astype(dtype), y, masks, alpha=0.5, chunk_size=12)
    assert np.all(got.converged)
    for label in range(y.shape[1]):
        counted = [m for m in masks if np.ptp(y[m, label]) > 0]
        scores = normalised([reference(x[m], y[m, label], 0.5).coef_ for m in counted])
        assert got.num_counted[label] == len(scores)
        assert_close(got.mean[label], np.mean(scores, axis=0), TOLERANCE[dtype])
        assert_close(got.variance[label], np.var(scores, axis=0, ddof=1), 20 * TOLERANCE[dtype])
    assert got.num_counted[2] < len(masks)


def test_float32_keeps_its_digits_where_the_fit_is_exact():
    """With p ≫ n and a weak penalty y − Xβ is rounding alone."""
    x = rng(0).normal(size=(30, 3000))
    y, masks = x[:, 0] + x[:, 1], subsample_masks(jax.random.key(2), 8, 30, fraction=0.9)
    wide = linear.resampled_scores(x, y, masks, alpha=1e-3)
    narrow = linear.resampled_scores(x.astype("float32"), y, masks, alpha=1e-3)
    assert_close(narrow.mean, wide.mean, 2e-6)
    assert_close(narrow.variance, wide.variance, 2e-5)


def test_resamples_of_one_sample_and_of_none():
    x, y = problem(SHAPES["p > n"])
    masks = np.ones((4, len(y)), bool)
    masks[1], masks[2] = np.arange(len(y)) == 5, False
    got = linear.resampled_scores(x, y[:, 0], masks)
    assert got.num_counted == 2
    assert got.converged
    assert_close(got.mean, normalised([reference(x, y[:, 0]).coef_])[0], 1e-12)
    assert np.max(got.variance) <= 1e-20


def test_the_size_of_chunks_does_not_matter():
    x, y = problem(SHAPES["n > p"])
    masks = subsample_masks(jax.random.key(1), 7, len(y))
    whole = linear.resampled_scores(x, y, masks)
    parts = linear.resampled_scores(x, y, masks, chunk_size=4)
    assert_close(parts.mean, whole.mean, 1e-12)
    assert_close(parts.variance, whole.variance, 1e-10)


@pytest.mark.parametrize("shape", [(5, 9), (20, 4)])
def test_derivatives(shape):
    """Equal eigenvalues included: the matrix of the samples is repeated, or nearly orthogonal."""
    x, y = rng(0).normal(size=shape), rng(1).normal(size=(shape[0], 2))
    x[-1] = x[-2]
    x[:, -1] = x[:, 0]

    def f(arguments):
        x, y, alpha, w = arguments
        got = linear.fit(x, y, alpha=alpha, weights=w)
        return jnp.sum(jnp.sin(3 * got.coefficients)) + jnp.sum(got.intercept**2)

    at = x, y, np.array(0.7), rng(2).uniform(1, 2, shape[0])
    assert_derivatives(f, at, jax.tree.map(lambda a: rng(4).normal(size=a.shape), at))


def test_one_label_has_no_axis():
    x, y = problem(SHAPES["n > p"])
    one, many = linear.fit(x, y[:, 0]), linear.fit(x, y)
    assert one.coefficients.shape == (x.shape[1],)
    assert_close(one.coefficients, many.coefficients[0], 1e-12)
    assert linear.lars(x, y[:, 0], 2).coefficients.shape == (x.shape[1],)


def test_a_constant_label():
    x, _ = problem(SHAPES["n > p"])
    got = linear.fit(x, np.full(len(x), 2.0))
    assert np.max(np.abs(got.coefficients)) <= 1e-14
    assert abs(got.intercept - 2) <= 1e-13
    got = linear.resampled_scores(x, np.full(len(x), 2.0), np.ones((3, len(x))))
    assert got.num_counted == 0
    assert np.all(np.isnan(got.mean))


@pytest.mark.parametrize("name", ["p > n", "n > p"])
def test_nan_is_passed_on(name):
    x, y = problem(SHAPES[name])
    bad = y.copy()
    bad[4, 1] = np.nan
    for model in (linear.fit, functools.partial(linear.lars, num_nonzero=5)):
        got = np.isnan(model(x, bad).coefficients)
        assert np.all(got[1])
        assert not np.any(got[[0, 2]])
        worse = np.where(np.arange(x.size).reshape(x.shape) == 7, np.nan, x)
        assert np.all(np.isnan(model(worse, y).coefficients))


# ---- Least angle regression ---------------------------------------------------------------------


def lasso(x, y, number) -> np.ndarray:
    """The first point of scikit-learn's path with `number` coefficients, or the last point.

    The path has values near 1e-17 for features that it has dropped.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, _, path = lars_path(x - x.mean(axis=0), y - y.mean(), method="lasso")
    hits = np.flatnonzero((np.abs(path) > 1e-12 * np.abs(path).max()).sum(axis=0) == number)
    return path[:, hits[0] if len(hits) else -1]


def least_angle(x, y, number) -> np.ndarray:
    """Efron et al., section 2, literally. (After a coefficient has changed its sign scikit-learn's
    `method="lar"` goes on with the sign of the coefficient, where the paper has the correlation's.)
    """
    x, y = x - x.mean(axis=0), y - y.mean()
    beta, active = np.zeros(x.shape[1]), []
    while True:
        c = x.T @ (y - x @ beta)
        largest = np.abs(c).max()
        active = active or [int(np.argmax(np.abs(c)))]
        signs = np.sign(c[active])
        signed = x[:, active] * signs
        inverse = np.linalg.solve(signed.T @ signed, np.ones(len(active)))
        scale = inverse.sum() ** -0.5
        a = x.T @ signed @ inverse * scale
        gamma, joins = largest / scale, None
        for j in set(range(x.shape[1])) - set(active):
            for g in ((largest - c[j]) / (scale - a[j]), (largest + c[j]) / (scale + a[j])):
                if 1e-12 < g < gamma:
                    gamma, joins = g, j
        beta[active] += gamma * scale * inverse * signs
        if len(active) == number or joins is None:
            return beta
        active.append(joins)


@shapes_and_dtypes
@both_methods
def test_lars(shape, dtype, method):
    x, y = problem(shape)
    for number in (3, 30) if shape == SHAPES["n > p, less"] else (min(30, shape[1]),):
        got = linear.lars(x.astype(dtype), y, number, method=method)
        assert got.coefficients.dtype == dtype
        for label in range(y.shape[1]):
            expected = {"lasso": lasso, "lar": least_angle}[method](x, y[:, label], number)
            assert np.sum(np.asarray(got.coefficients[label]) != 0) == number
            assert_close(got.coefficients[label], expected, LARS[dtype])
            intercept = y[:, label].mean() - x.mean(axis=0) @ expected
            assert_close(got.intercept[label], intercept, LARS[dtype])


def test_features_leave_the_lasso():
    """The data above see it happen; there the methods part."""
    x, y = problem(SHAPES["n > p, less"])
    ends = [linear.lars(x, y, 30, method=method).coefficients for method in linear.METHODS]
    assert np.max(np.abs(ends[0] - ends[1])) > 1e-2


@both_methods
def test_the_path_ends_in_least_squares(method):
    x, y = problem(SHAPES["n > p"])
    expected = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0]
    got = linear.lars(x, y, 1000, method=method)
    assert_close(got.coefficients.T, expected[:-1], 1e-11)
    assert_close(got.intercept, expected[-1], 1e-11)


@pytest.mark.parametrize(("method", "dtype"), [("lasso", "float32"), ("lar", "float64")])
def test_it_stops_when_nothing_is_left_to_explain(method, dtype):
    """Neither labels that two features explain, nor constant ones, call for more features."""
    x, _ = problem((30, 50))
    y = np.stack([x[:, 4] - 2 * x[:, 7], np.ones(30)], axis=1)
    got = np.asarray(linear.lars(x.astype(dtype), y.astype(dtype), 20, method=method).coefficients)
    expected = np.zeros((2, 50))
    expected[0, [4, 7]] = 1, -2
    assert_close(got, expected, {"float32": 1e-4, "float64": 1e-11}[dtype])
    assert np.sum(np.abs(got) > 1e-3) == 2
    assert np.all(got[1] == 0)


@pytest.mark.parametrize(("method", "dtype"), [("lasso", "float64"), ("lar", "float32")])
def test_dependent_and_constant_features_do_not_enter(method, dtype):
    """Duplicates, multiples, sums of features in the model, and constants: as without them."""
    x, y = (a.astype(dtype) for a in problem(SHAPES["n > p"]))
    more = [x[:, :3], -2 * x[:, 3:5], x[:, :1] + x[:, 1:2], np.full((len(x), 2), 1e3, dtype)]
    # At half their size the dependent ones never come first.
    wide = np.concatenate([x, *[0.5 * a for a in more[:-1]], x[:, :2], -x[:, :1], more[-1]], axis=1)
    got = np.asarray(linear.lars(wide, y, 8, method=method).coefficients)
    expected = linear.lars(x, y, 8, method=method).coefficients
    assert np.all(np.isfinite(got))
    assert np.all(got[:, -2:] == 0)
    fitted = [a @ b.T for a, b in ((wide - wide.mean(0), got), (x - x.mean(0), np.array(expected)))]
    assert_close(fitted[0], fitted[1], LARS[dtype])
    assert np.all((got != 0).sum(axis=1) <= 8)


def test_features_that_tie_enter_together():
    x = np.kron(np.eye(4), [[1.0], [-1.0]])
    got = linear.lars(x, x @ [2.0, 2.0, 1.0, 0.0], 2)
    assert_close(got.coefficients, [1.0, 1.0, 0.0, 0.0], 1e-14)


@both_methods
def test_weights_count_samples(method):
    x, y = problem(SHAPES["p > n"])
    w = rng(5).integers(0, 3, len(y))
    holes = np.where(w[:, None] > 0, x, np.nan)
    got = linear.lars(holes, y, 6, method=method, weights=w)
    expected = linear.lars(np.repeat(x, w, axis=0), np.repeat(y, w, axis=0), 6, method=method)
    assert_close(got.coefficients, expected.coefficients, 1e-11)
    assert_close(got.intercept, expected.intercept, 1e-11)


# ---- Arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(7)}, r"y must be of shape \(120,\) or \(120, l\)"),
        ({"alpha": 0.0}, "alpha must be positive, got 0.0"),
        ({"masks": np.ones((1, 120))}, r"masks must be of shape \(B, 120\) with B ≥ 2"),
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
        ({"weights": -np.ones(120)}, "weights must be finite and at least 0"),
    ],
)
def test_mistakes_are_named(change, message):
    x, y = problem(SHAPES["n > p"])
    arguments = {"x": x, "y": y, "masks": np.ones((3, 120))} | change
    with pytest.raises(ValueError, match=message):
        linear.resampled_scores(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "lars"}, "method must be one of 'lasso', 'lar', got 'lars'"),
        ({"num_nonzero": 0}, "num_nonzero must be at least 1, got 0"),
        ({"x": np.ones((1, 3)), "y": np.ones(1)}, r"x must be \(n, p\) with n ≥ 2 samples"),
    ],
)
def test_mistakes_of_lars_are_named(change, message):
    x, y = problem(SHAPES["n > p"])
    with pytest.raises(ValueError, match=message):
        linear.lars(**({"x": x, "y": y, "num_nonzero": 2} | change))


def test_a_traced_penalty_that_is_not_positive_gives_nan():
    x, y = problem(SHAPES["n > p"])
    got = jax.jit(lambda alpha: linear.fit(x, y, alpha=alpha).coefficients)(-1.0)
    assert np.all(np.isnan(got))
