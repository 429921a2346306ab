"""Knockoffs: their moments, the optimal s, and the selection against literal formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf as sklearn_ledoit_wolf
from sklearn.linear_model import Lasso

from jaxfs.inference import knockoff_select, knockoffs, lasso_score
from jaxfs.inference._knockoff_select import _select, knockoff_threshold
from jaxfs.inference._knockoffs import equicorrelated, ledoit_wolf, mvr
from tests.helpers import assert_close, rng

KEY = jax.random.key(0)
AR = 0.6 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))


def loss(s, sigma):
    return np.trace(np.linalg.inv(2 * sigma - np.diag(s))) + np.sum(1 / s)


def test_mvr_is_the_minimum():
    s = np.asarray(mvr(jnp.asarray(AR)))
    a = np.linalg.inv(2 * AR - np.diag(s))
    assert np.linalg.eigvalsh(2 * AR - np.diag(s))[0] > 0
    np.testing.assert_allclose(np.diag(a @ a), 1 / s**2, rtol=1e-3)
    for j in range(6):  # no coordinate improves
        for step in (0.99, 1.01):
            other = s.copy()
            other[j] *= step
            assert loss(other, AR) >= loss(s, AR) - 1e-9
    assert_close(mvr(jnp.eye(4)), np.ones(4), 1e-3)


def test_equicorrelated():
    expected = min(1, 2 * np.linalg.eigvalsh(AR)[0]) * (1 - 1e-3)
    assert_close(equicorrelated(jnp.asarray(AR)), np.full(6, expected), 1e-10)


@pytest.mark.parametrize("method", ["mvr", "equicorrelated"])
def test_swaps_keep_the_covariance(method):
    scale = np.arange(1.0, 7)
    sigma = AR * np.outer(scale, scale)
    x = rng(0).multivariate_normal(np.full(6, 5.0), sigma, size=20000)
    copy = np.asarray(knockoffs(KEY, x, covariance=sigma, method=method)[0])
    both = np.cov(np.hstack([x, copy]) / np.tile(scale, 2), rowvar=False)
    s = np.asarray((mvr if method == "mvr" else equicorrelated)(jnp.asarray(AR)))
    expected = np.block([[AR, AR - np.diag(s)], [AR - np.diag(s), AR]])
    assert np.abs(both - expected).max() < 0.05
    assert np.abs(copy.mean(axis=0) - x.mean(axis=0)).max() < 0.15


def test_ledoit_wolf():
    x = (
        rng(1).normal(size=(30, 50))
        @ np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(*[np.arange(50)] * 2))).T
    )
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    expected = sklearn_ledoit_wolf(z, assume_centered=True)[0]
    assert_close(ledoit_wolf(jnp.asarray(z)), expected / np.diag(expected)[0], 1e-9)


def test_copies_differ_and_more_features_than_samples():
    x = rng(2).normal(size=(15, 40))
    x[:, 3] = 2.0
    copies = np.asarray(knockoffs(KEY, x, num_copies=3))
    assert np.all(np.isfinite(copies))
    assert np.all(copies[:, :, 3] == 2.0)
    assert np.abs(copies[0] - copies[1]).max() > 0.1


def literal_threshold(w, level):
    for t in sorted(set(np.abs(w[w != 0]))):
        if (1 + np.sum(w <= -t)) / max(1, np.sum(w >= t)) <= level:
            return t
    return np.inf


def test_threshold_equals_definition():
    for seed in range(20):
        w = np.round(rng(seed).normal(size=60) + 1.5 * (np.arange(60) < 25), 1)
        for level in (0.1, 0.2, 0.5):
            assert float(knockoff_threshold(jnp.asarray(w), level)) == literal_threshold(w, level)


def test_e_values_equal_definition():
    w = rng(3).normal(size=(7, 60)) + 3.0 * (np.arange(60) < 25)
    selected, thresholds, e = _select(jnp.asarray(w), 0.2)
    expected = np.zeros(60)
    for row, t in zip(w, thresholds, strict=True):
        assert float(t) == literal_threshold(row, 0.1)
        expected += 60 * (row >= float(t)) / (1 + np.sum(row <= -float(t))) / 7
    assert_close(e, expected, 1e-12)
    ordered = np.sort(expected)[::-1]
    ks = [k for k in range(1, 61) if ordered[k - 1] >= 60 / (0.2 * k)]
    np.testing.assert_array_equal(selected, expected >= ordered[ks[-1] - 1] if ks else False)
    assert bool(selected[:20].any())


def test_lasso_equals_scikit_learn():
    x = rng(4).normal(size=(80, 30))
    y = x[:, :4] @ np.array([3.0, -2.0, 1.0, 1.0]) + rng(5).normal(size=80)
    z = (x - x.mean(axis=0)) / np.linalg.norm(x - x.mean(axis=0), axis=0)
    t = (y - y.mean()) / np.linalg.norm(y - y.mean())
    top = np.abs(z.T @ t).max()
    fits = []
    for penalty in np.geomspace(1, 0.02, 24) * top:
        beta = (
            Lasso(alpha=penalty / 80, fit_intercept=False, tol=1e-10, max_iter=10**5)
            .fit(z, t)
            .coef_
        )
        used = np.sum(beta != 0)
        fits.append((np.sum((t - z @ beta) ** 2) / (1 - used / 80) ** 2, np.abs(beta)))
    best = min(fits, key=lambda fit: fit[0])[1]
    assert_close(lasso_score(x, y), best, 2e-2)


def test_selection():
    x = rng(6).normal(size=(300, 40))
    y = x[:, :12].sum(axis=1) + rng(7).normal(size=300)
    for copies in (1, 5):
        found = knockoff_select(KEY, lasso_score, x, y, fdr=0.2, num_copies=copies)
        assert found.statistics.shape == (copies, 40)
        assert np.all(found.selected[:12])
        assert "are selected" in found.message
    nothing = knockoff_select(KEY, lasso_score, x, rng(8).normal(size=300), fdr=0.05)
    assert not np.any(nothing.selected)
    assert "at least 20 features" in nothing.message or "too many copies" in nothing.message


def test_nan_scores_are_not_selected():
    def score(z, y, w):
        s = jnp.abs(z.T @ y)
        return s.at[0].set(jnp.nan)

    x = rng(6).normal(size=(200, 20))
    found = knockoff_select(KEY, score, x, x.sum(axis=1), fdr=0.2)
    assert not bool(found.selected[0])
    assert bool(found.selected[1:].any())


def test_bad_arguments():
    x = rng(0).normal(size=(30, 12))
    for options, message in (
        ({"fdr": 0.0}, "fdr must be"),
        ({"fdr": 1.0}, "fdr must be"),
        ({"fdr": -0.1}, "fdr must be"),
        ({"fdr": 0.05}, "because x has 12 features"),
        ({"covariance": np.ones((12, 12))}, "covariance must be positive definite"),
        ({"covariance": np.eye(3)}, "covariance must be"),
        ({"method": "sdp"}, "method must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            knockoff_select(KEY, lasso_score, x, x[:, 0], **{"fdr": 0.2, **options})
