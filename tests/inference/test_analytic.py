"""Analytic p-values against scikit-learn and SciPy."""

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_selection import chi2, f_classif, f_regression

from jaxfs.inference import anova_test, chi2_test, f_regression_test, pearson_test, t_test
from tests.helpers import assert_close, rng

X = rng(0).normal(size=(60, 8)) * np.array([1, 2, 3, 1, 1, 1, 1, 1.0])
Y = rng(1).integers(0, 3, size=60)
X[:, 1] += Y * 3
X[:, 2] += Y * 60  # a p-value far below 1e-30
TARGET = X[:, 1] + rng(2).normal(size=60)


def assert_p(found, scores, p):
    assert_close(found.scores, scores, 1e-10)
    np.testing.assert_allclose(found.p_values, p, rtol=1e-10, atol=0)


def test_anova():
    assert_p(anova_test(X, Y, num_classes=3), *f_classif(X, Y))


def test_regression():
    assert_p(f_regression_test(X, TARGET), *f_regression(X, TARGET))
    expected = np.array([stats.pearsonr(X[:, j], TARGET) for j in range(8)])
    assert_p(pearson_test(X, TARGET), np.abs(expected[:, 0]), expected[:, 1])


def test_welch():
    two = Y < 2
    expected = stats.ttest_ind(X[Y == 0], X[Y == 1], equal_var=False)
    assert_p(t_test(X[two], Y[two]), np.abs(expected.statistic), expected.pvalue)


def test_chi2():
    counts = np.floor(np.abs(X))
    assert_p(chi2_test(counts, Y, num_classes=3), *chi2(counts, Y))


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_and_separating_features(value):
    x = np.stack([np.full(60, value), Y.astype(float), np.full(60, np.nan)], axis=1)
    found = anova_test(x, Y, num_classes=3)
    np.testing.assert_array_equal(found.p_values, [1.0, 0.0, np.nan])


def test_weights_are_counts():
    w = rng(3).integers(1, 4, size=60)
    long, labels = np.repeat(X, w, axis=0), np.repeat(Y, w)
    assert_p(anova_test(X, Y, num_classes=3, weights=w), *f_classif(long, labels))
    target = np.repeat(TARGET, w)
    assert_p(f_regression_test(X, TARGET, weights=w), *f_regression(long, target))
