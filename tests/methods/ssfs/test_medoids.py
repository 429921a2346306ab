"""2-medoids of numbers against brute force."""

import itertools

import jax
import numpy as np
import pytest

from jaxfs.methods.ssfs._steps import two_medoids
from tests.helpers import rng

solve = jax.jit(two_medoids)


def cost(v, upper) -> float:
    """Σ |v_i − medoid| over both groups, the best medoids."""
    groups = (v[upper], v[~upper])
    return sum(np.abs(g[:, None] - g[None]).sum(axis=0).min() for g in groups if len(g))


def brute_force(v) -> float:
    """Over every pair of medoids, each number with the nearer."""
    pairs = itertools.combinations(v, 2)
    return min(np.minimum(np.abs(v - a), np.abs(v - b)).sum() for a, b in pairs)


@pytest.mark.parametrize("size", [2, 3, 4, 9, 30])
def test_equals_brute_force(size):
    """Forty vectors of each size: continuous, rounded to make ties, with outliers."""
    for seed in range(40):
        v = rng(seed).normal(size=size)
        v = [v, np.round(v), v**5][seed % 3]
        upper = np.asarray(solve(v, np.ones(size, bool)))
        assert cost(v, upper) <= brute_force(v) + 1e-12
        if len(set(v)) > 1:
            assert v[upper].min() > v[~upper].max()
        else:
            assert not upper.any()


def test_padding_counts_nowhere():
    v = rng(1).normal(size=20)
    expected = np.asarray(solve(v, np.ones(20, bool)))
    padded = np.concatenate([v[:7], [np.nan, 1e9], v[7:]])
    present = np.isin(np.arange(22), [7, 8], invert=True)
    got = np.asarray(solve(padded, present))
    np.testing.assert_array_equal(got[present], expected)
    assert not got[~present].any()


def test_an_outlier_is_not_a_group():
    """A mean would follow it; a medoid does not."""
    v = np.concatenate([np.zeros(20), np.ones(20), [8.0]]) + 0.01 * rng(0).normal(size=41)
    upper = np.asarray(solve(v, np.ones(41, bool)))
    assert upper[20:].all()
    assert not upper[:20].any()


def test_vmap_and_float32():
    v = rng(2).normal(size=(5, 12)).astype("float32")
    batched = jax.vmap(two_medoids, in_axes=(0, None))(v, np.ones(12, bool))
    for one, upper in zip(v, batched, strict=True):
        np.testing.assert_array_equal(solve(one, np.ones(12, bool)), upper)
