"""Boosted trees against a literal oracle and against numbers that XGBoost printed."""

import functools

import jax
import numpy as np
import pytest

from jaxfs.surrogates import boosting
from tests.helpers import assert_close, rng
from tests.surrogates.boosting_oracle import boost

#: XGBClassifier and XGBRegressor (3.2.0, tree_method="exact", else defaults) on `problem()`.
IMPORTANCES = {
    "logistic": [0.381973, 0.060998, 0.093382, 0.051493, 0.152238, 0.104121, 0.069538, 0.086257],
    "squared": [0.426461, 0.328211, 0.039494, 0.036664, 0.036303, 0.014950, 0.080392, 0.037526],
}
PREDICTIONS = {
    "logistic": [0.02508, 0.99652, 0.80342, 0.01934, 0.03818],
    "squared": [-1.85276, 1.09020, 0.37220, -0.14678, -0.00149],
}
both_losses = pytest.mark.parametrize("loss", ["logistic", "squared"])


@functools.cache
def problem(loss):
    r = rng(7)
    x = r.normal(size=(60, 8)).astype(np.float32)
    x[:, 5] = np.round(x[:, 5])
    y = x[:, 0] + x[:, 1] * x[:, 2] + 0.4 * r.normal(size=60) > 0
    return x, y.astype(int) if loss == "logistic" else x[:, 0] + x[:, 1] * x[:, 2]


@both_losses
def test_xgboost(loss):
    x, y = problem(loss)
    model = boosting.fit(x, y, loss=loss)
    assert model.importances.dtype == np.float32
    assert_close(model.importances, IMPORTANCES[loss], 1e-5)
    new = rng(8).normal(size=(5, 8)).astype(np.float32)
    assert_close(boosting.predict(model, new, loss=loss), PREDICTIONS[loss], 2e-5)


@both_losses
def test_oracle(loss):
    """Other settings, weights, NaN where a weight is 0, and several labels at once."""
    x, y = (a.astype(float) for a in problem(loss))
    w = rng(1).choice([0.0, 1.0, 2.0], size=len(y))
    settings = {"num_trees": 8, "max_depth": 3, "learning_rate": 0.5, "l2": 0.7}
    hidden = np.where(w[:, None] > 0, x, np.nan)
    labels = np.stack([y, y[::-1]], axis=1)
    model = boosting.fit(hidden, labels, loss=loss, weights=w, min_child_weight=1.5, **settings)
    predicted = boosting.predict(model, x, loss=loss)
    for i, label in enumerate(labels.T):
        expected, margin = boost(
            x, label, loss=loss, trees=8, depth=3, eta=0.5, l2=0.7, child=1.5, weights=w
        )
        assert_close(model.importances[i], expected, 1e-6)
        expected = margin if loss == "squared" else 1 / (1 + np.exp(-margin))
        assert_close(predicted[w > 0, i], expected[w > 0], 1e-6)


def test_more_features_than_samples():
    """Many features split alike: the first of them counts, in float32 too."""
    x = rng(2).normal(size=(24, 80))
    y = (x[:, 40] > 0).astype(int)
    expected, _ = boost(x, y, loss="logistic")
    for dtype in ("float32", "float64"):
        assert_close(boosting.fit(x.astype(dtype), y).importances, expected, 1e-5)


def test_duplicates_and_constants():
    x, y = problem("logistic")
    plain = boosting.fit(x, y)
    x = np.concatenate([x, x[:, :1], np.ones((60, 1), np.float32)], axis=1)
    got = boosting.fit(x, y).importances
    assert_close(got[:8], plain.importances, 1e-6)
    assert np.all(got[8:] == 0)


def test_one_label_has_no_axis():
    x, y = problem("logistic")
    one, many = boosting.fit(x, y, num_trees=3), boosting.fit(x, y[:, None], num_trees=3)
    assert one.importances.shape == (8,)
    assert one.feature.shape == (3, 128)
    np.testing.assert_array_equal(one.value, many.value[0])
    np.testing.assert_array_equal(boosting.predict(one, x), boosting.predict(many, x)[:, 0])


def test_labels_without_a_split():
    """One side only, or a single sample against the rest, whose side can never weigh 1."""
    x, _ = problem("logistic")
    labels = np.stack([np.zeros(60), np.ones(60), np.arange(60) == 3], axis=1).astype(int)
    model = boosting.fit(x, labels, num_trees=5)
    assert np.all(model.importances == 0)
    assert np.all(model.feature == -1)
    predicted = boosting.predict(model, x)
    assert np.all(predicted[:, 0] < 1e-6)
    assert np.all(predicted[:, 1] > 1 - 1e-6)
    assert np.all((predicted[:, 2] > 0) & (predicted[:, 2] < 0.1))


def test_nan_is_passed_on():
    x, y = problem("logistic")
    hole = np.where((np.arange(60) == 5)[:, None], np.float32(np.nan), x)
    model = boosting.fit(hole, y, num_trees=3)
    assert np.all(np.isnan(model.importances))
    assert np.all(np.isnan(boosting.predict(model, x)))
    model = boosting.fit(x, y, num_trees=3)
    assert np.flatnonzero(np.isnan(boosting.predict(model, hole))).tolist() == [5]


def test_the_scale_of_targets():
    """Gains below 1e-6 are no gains, as in XGBoost."""
    x, y = problem("squared")
    plain = boosting.fit(x, y, loss="squared", num_trees=5)
    huge = boosting.fit(x, y * np.float32(2.0**40), loss="squared", num_trees=5)
    assert_close(huge.value / np.float32(2.0**40), plain.value, 1e-6)
    tiny = boosting.fit(x, y * np.float32(2.0**-60), loss="squared", num_trees=5)
    assert np.all(tiny.feature == -1)
    assert np.all(np.isfinite(tiny.value))


def test_features_near_overflow():
    x = np.float32(1e38) * np.array([[1.5], [3.0]], np.float32)
    x, y = np.tile(x, (10, 1)), np.tile([0, 1], 10)
    predicted = np.asarray(boosting.predict(boosting.fit(x, y), x))
    assert np.all((predicted > 0.5) == y)


def test_traced_settings_out_of_range():
    x, y = problem("logistic")
    at = jax.jit(lambda eta: boosting.fit(x, y, num_trees=2, learning_rate=eta).importances)
    assert np.all(np.isnan(at(-1.0)))
    assert np.all(np.isfinite(at(0.3)))


def test_jit_and_vmap():
    x, y = problem("logistic")
    many = np.stack([x, x[::-1]])
    batched = jax.jit(jax.vmap(lambda x: boosting.fit(x, y, num_trees=4).importances))(many)
    for got, one in zip(batched, many, strict=True):
        assert_close(got, boosting.fit(one, y, num_trees=4).importances, 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(60, 2)}, "y must be 0 or 1, got other values"),
        ({"y": np.zeros(7, int)}, r"y must be of shape \(60,\) or \(60, l\)"),
        ({"loss": "hinge"}, "loss must be one of 'logistic', 'squared', got 'hinge'"),
        ({"num_trees": 0}, "num_trees must be at least 1, got 0"),
        ({"max_depth": 40}, r"max_depth must be an integer in \[1, 12\], got 40"),
        ({"learning_rate": 0}, "learning_rate must be positive, got 0"),
        ({"l2": -1.0}, "l2 must be at least 0, got -1.0"),
        ({"min_child_weight": 0}, "min_child_weight must be positive, got 0"),
    ],
)
def test_mistakes_are_named(change, message):
    x, y = problem("logistic")
    with pytest.raises(ValueError, match=message):
        boosting.fit(**({"x": x, "y": y} | change))


def test_predict_refuses_other_features():
    x, y = problem("logistic")
    model = boosting.fit(x, y, num_trees=3)
    with pytest.raises(ValueError, match=r"x must be \(n, 8\), the features of the fit"):
        boosting.predict(model, x[:, :5])
