"""diverse_ranking against the literal greedy loop."""

import jax
import numpy as np
import pytest

import jaxfs
from tests.helpers import assert_close, rng


def literal(scores, x):
    """argmax s (1 − max corr² + 0.001), feature by feature."""
    scores = scores - min(scores.min(), 0)
    c2 = np.square(np.corrcoef(x.T))
    expected, left = np.zeros(len(scores)), list(range(len(scores)))
    for _ in range(len(scores)):
        taken = [m for m in range(len(scores)) if m not in left]
        worth = [scores[m] * (1 - max((c2[m, t] for t in taken), default=0) + 0.001) for m in left]
        best = int(np.argmax(worth))
        expected[left.pop(best)] = worth[best]
    return expected


@pytest.mark.parametrize("shift", [0.0, -0.5])
def test_equals_the_loop(shift):
    x = rng(0).normal(size=(30, 7))
    x[:, 6] = x[:, 0]
    scores = rng(1).uniform(size=7) + shift
    got = jaxfs.diverse_ranking(scores, x)
    assert_close(got, literal(scores, x), 1e-10)
    w = np.r_[np.ones(30), 0.0]
    padded = np.r_[x, np.full((1, 7), np.nan)]
    assert_close(jaxfs.diverse_ranking(scores, padded, weights=w), got, 1e-12)


def test_vmap_and_degenerate_data():
    x = rng(0).normal(size=(3, 20, 5))
    x[:, :, 2] = 1.0  # a constant feature overlaps with none
    scores = rng(1).uniform(size=(3, 5))
    got = jax.vmap(jaxfs.diverse_ranking)(scores, x)
    for i in range(3):
        assert_close(got[i], jaxfs.diverse_ranking(scores[i], x[i]), 1e-12)
        assert float(got[i, 2]) == pytest.approx(1.001 * scores[i, 2])
    spoilt = x[0].copy()
    spoilt[3, 1] = np.nan
    assert np.isnan(jaxfs.diverse_ranking(scores[0], spoilt)).all()
    with pytest.raises(ValueError, match="scores and x must be"):
        jaxfs.diverse_ranking(scores[0][:4], x[0])


def test_robust_combination():
    generator = rng(0)
    a, b = generator.normal(size=20), generator.exponential(size=20)
    centred = [s - np.median(s) for s in (a, b)]
    expected = sum(c / (1.4826 * np.median(np.abs(c))) for c in centred)
    assert_close(jaxfs.combine_scores(a, b, method="robust"), expected, 1e-10)
    mostly = np.r_[np.zeros(15), b[:5]]  # the median absolute deviation is 0
    deviation = np.sqrt(np.mean(mostly**2))
    assert_close(jaxfs.combine_scores(mostly, method="robust"), mostly / deviation, 1e-10)
    edge = jaxfs.combine_scores(np.r_[a, np.inf, np.nan], method="robust")
    assert float(edge[20]) == float(edge[:20].max())
    assert np.isnan(edge[21])
    assert_close(jaxfs.combine_scores(np.ones(4), method="robust"), np.zeros(4), 0.0)
