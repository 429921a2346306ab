"""Logistic regression against scikit-learn converged tightly, on all samples and on resamples."""

import functools

import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from jaxfs.resample import subsample_masks
from jaxfs.surrogates import logistic
from tests.helpers import assert_close, rng

SHAPES = {"p > n": (40, 150), "n > p": (120, 8)}
TOLERANCE = {"float32": 2e-4, "float64": 1e-5}  # scikit-learn's own rest at tol=1e-10
both_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


@functools.cache
def problem(shape):
    """A linear label, an unbalanced one, and one of a single sample."""
    n = shape[0]
    r = rng(n)
    x = r.normal(size=shape) + 1.0
    linear = x[:, 0] + 0.3 * r.normal(size=n) > 1
    return x, np.stack([linear, r.random(n) < 0.15, np.arange(n) == 3], axis=1).astype(int)


def reference(x, y, c=1.0, weights=None):
    model = LogisticRegression(C=c, tol=1e-10, max_iter=100_000)
    return model.fit(x, y, sample_weight=weights)


@both_shapes
@both_dtypes
@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
def test_fit(shape, dtype, c):
    x, y = problem(shape)
    got = logistic.fit(x.astype(dtype), y, c=c)
    assert np.all(got.converged)
    assert got.coefficients.dtype == dtype
    for label in range(y.shape[1]):
        model = reference(x, y[:, label], c)
        assert_close(got.coefficients[label], model.coef_[0], max(c, 5) / 5 * TOLERANCE[dtype])
        assert abs(float(got.intercept[label]) - model.intercept_[0]) <= 2e-3


@both_shapes
def test_weights(shape):
    x, y = problem(shape)
    w = rng(1).integers(0, 3, len(y)).astype(float)
    w[3] = 1.0
    x = np.where(w[:, None] > 0, x, np.nan)
    got = logistic.fit(x, y, weights=w)
    model = reference(x[w > 0], y[w > 0, 1], weights=w[w > 0])
    assert_close(got.coefficients[1], model.coef_[0], 1e-5)


@both_shapes
@both_dtypes
def test_resamples(shape, dtype):
    """Those of the single sample that leave it out have no model: they do not count."""
    x, y = problem(shape)
    masks = np.array(subsample_masks(jax.random.key(0), 10, len(y), fraction=0.9))
    masks[0, 3] = False
    got = logistic.resampled_scores(x.astype(dtype), y, masks, chunk_size=4)
    assert np.all(got.converged)
    for label in range(y.shape[1]):
        scores = []
        for mask in masks:
            if len(set(y[mask, label])) == 2:
                beta = np.abs(reference(x[mask], y[mask, label]).coef_[0])
                scores.append(beta / beta.sum())
        assert got.num_counted[label] == len(scores)
        assert_close(got.mean[label], np.mean(scores, axis=0), TOLERANCE[dtype])
        variance = np.var(scores, axis=0, ddof=1)
        assert_close(got.variance[label].sum(), variance.sum(), 20 * TOLERANCE[dtype])
    assert got.num_counted[2] < len(masks)


def test_float32_on_separated_groups():
    """Probabilities next to 0 and 1 must not cancel: variances are of small differences."""
    r = rng(3)
    factors = r.normal(size=(100, 3))
    x = 0.3 * r.normal(size=(100, 400)) + factors @ r.normal(size=(3, 400))
    y = factors[:, 0] > 0
    x[y] += r.normal(size=400)
    masks = subsample_masks(jax.random.key(2), 8, 100)
    double = logistic.resampled_scores(x, y, masks)
    single = logistic.resampled_scores(x.astype(np.float32), y, masks)
    assert_close(single.variance.sum(), double.variance.sum(), 1e-3)
    for mask in np.asarray(masks):
        double = logistic.fit(x, y, weights=mask).coefficients
        single = logistic.fit(x.astype(np.float32), y, weights=mask).coefficients
        assert_close(single, double, 1e-4)


def test_the_size_of_chunks_does_not_matter():
    x, y = problem(SHAPES["n > p"])
    masks = subsample_masks(jax.random.key(1), 7, len(y))
    whole = logistic.resampled_scores(x, y, masks)
    parts = logistic.resampled_scores(x, y, masks, chunk_size=3)
    assert_close(parts.mean, whole.mean, 1e-8)
    assert_close(parts.variance, whole.variance, 1e-6)


def test_one_label_has_no_axis():
    x, y = problem(SHAPES["n > p"])
    one, many = logistic.fit(x, y[:, 0]), logistic.fit(x, y)
    assert one.coefficients.shape == (x.shape[1],)
    assert_close(one.coefficients, many.coefficients[0], 1e-12)


def test_a_label_on_one_side_has_no_model():
    x, _ = problem(SHAPES["n > p"])
    got = logistic.fit(x, np.zeros(len(x), int))
    assert np.all(np.isnan(got.coefficients))
    assert not got.converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(120, 2)}, "y must be 0 or 1, got other values"),
        ({"y": np.zeros(7, int)}, r"y must be of shape \(120,\) or \(120, l\)"),
        ({"y": np.zeros((120, 0))}, r"one label a sample, got shape \(120, 0\)"),
        ({"c": 0.0}, "c must be positive, got 0.0"),
        ({"masks": np.ones((1, 120))}, r"masks must be of shape \(B, 120\) with B ≥ 2"),
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
        ({"weights": -np.ones(120)}, "weights must be finite and at least 0"),
    ],
)
def test_mistakes_are_named(change, message):
    x, y = problem(SHAPES["n > p"])
    arguments = {"x": x, "y": y, "masks": np.ones((3, 120))} | change
    with pytest.raises(ValueError, match=message):
        logistic.resampled_scores(**arguments)
