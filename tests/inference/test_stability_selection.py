"""Stability selection against a literal transcription of the paper and of its authors' method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from jaxfs.inference import AnovaScore, false_selection_bounds, stability_selection
from jaxfs.inference._stability_selection import complementary_halves, tail_bounds
from tests.helpers import assert_close, rng

KEY = jax.random.key(0)
X = rng(0).normal(size=(41, 12))
Y = rng(1).integers(0, 2, size=41)
X[:, :2] += 1.5 * Y[:, None]


def test_equals_numpy():
    found = stability_selection(KEY, AnovaScore(2), X, Y, num_features=3, threshold=0.8)
    masks = np.asarray(complementary_halves(KEY, jnp.asarray(Y), jnp.ones(41, bool), 50))
    score = AnovaScore(2)
    chosen = np.zeros((100, 12))
    for row, mask in zip(chosen, masks, strict=True):
        row[np.argsort(-np.asarray(score(X[mask], Y[mask])), kind="stable")[:3]] = 1
    pairs = chosen.reshape(50, 2, 12)
    assert_close(found.frequencies, chosen.mean(axis=0), 1e-12)
    assert_close(found.simultaneous, pairs.prod(axis=1).mean(axis=0), 1e-12)
    np.testing.assert_array_equal(found.selected, chosen.mean(axis=0) >= 0.8)


def test_halves_are_disjoint_and_balanced():
    present = np.arange(41) != 3
    masks = complementary_halves(KEY, jnp.asarray(Y), jnp.asarray(present), 20)
    masks = np.asarray(masks).reshape(20, 2, 41)
    assert not np.any(masks.all(axis=1))
    assert not np.any(masks[..., 3])
    for c in (0, 1):
        size = np.sum((c == Y) & present) // 2
        assert np.all(masks[..., c == Y].sum(axis=-1) == size)


def literal_tail(eta, size, r):
    """D(η, t, B, r), as the authors' program computes it: roots and one-dimensional maxima."""
    s, mean = -1 / r, eta * size
    start = int(np.ceil(2 * mean)) + 1
    out = np.ones(size)
    if start > size:
        return out
    a = {}
    for k in range(start, size + 1):
        i = np.arange(k + 1.0)
        a[k] = np.exp(
            brentq(
                lambda u, i=i: (
                    np.sum(i * (np.exp(u) + i) ** -s) / np.sum((np.exp(u) + i) ** -s) - mean
                ),
                np.log(1e-5),
                np.log(1e8),
                xtol=1e-12,
            )
        )

    def tail(a, k, t):
        i = np.arange(k + 1.0)
        below = (k + 1 - mean) * np.sum((a + np.arange(t)) ** -s)
        return 1 - below / np.sum((k + 1 - i) * (a + i) ** -s)

    for t in range(start, size + 1):
        options = {"method": "bounded", "options": {"xatol": 1e-9}}
        best = [
            -minimize_scalar(
                lambda v, k=k, t=t: -tail(v, k, t), bounds=(a[k + 1], a[k]), **options
            ).fun
            for k in range(max(start, t - 1), size)
        ]
        best.append(tail(a[size], size, t))
        out[t - 1] = min(1.0, max(best))
    return out


@pytest.mark.parametrize(("eta", "size", "r"), [(0.05, 20, -0.5), (0.1, 30, -0.25), (0.6, 9, -0.5)])
def test_tail_bounds(eta, size, r):
    np.testing.assert_allclose(tail_bounds(eta, size, r), literal_tail(eta, size, r), atol=1e-6)


def test_bounds_by_hand():
    bounds = false_selection_bounds(10, 1000, 50, 0.9)
    assert bounds["none"] == pytest.approx(100 / 1000 / 0.8)
    assert bounds["unimodal"] == pytest.approx(0.1 * 4 * (0.1 + 0.01) / 1.02)
    assert bounds["r-concave"] < bounds["unimodal"] < bounds["none"]
    low = false_selection_bounds(10, 1000, 50, 0.6)
    assert low["unimodal"] == pytest.approx(0.1 / (2 * (0.2 - 0.01)))


@pytest.mark.parametrize("assumption", ["none", "unimodal", "r-concave"])
def test_threshold_meets_pfer(assumption):
    found = stability_selection(
        KEY, AnovaScore(2), X, Y, num_features=2, pfer=0.5, assumption=assumption
    )
    assert found.bound <= 0.5
    assert dict(found.bounds)[found.assumption] == found.bound
    lower = false_selection_bounds(2, 12, 50, found.threshold - 0.01)
    accepted = ("none", "unimodal", "r-concave")
    accepted = accepted[: accepted.index(assumption) + 1]
    assert min(lower[name] for name in accepted) > 0.5


def test_nan_is_never_selected():
    x = X.copy()
    x[:, 4] = np.nan
    found = stability_selection(KEY, AnovaScore(2), x, Y, num_features=3, threshold=0.8)
    assert float(found.frequencies[4]) == 0
    assert bool(found.selected[0])


def test_bad_arguments():
    for options, message in (
        ({"pfer": 1e-9}, "pfer must be at least"),
        ({"threshold": 0.5}, "threshold must be"),
        ({"assumption": "normal"}, "assumption must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            stability_selection(KEY, AnovaScore(2), X, Y, num_features=3, **options)
    with pytest.raises(ValueError, match="num_features"):
        stability_selection(KEY, AnovaScore(2), X, Y, num_features=12)
