"""Masks of random parts of the samples, and the stability of a score on these parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs.resample import subsample_masks
from tests.helpers import RTOL, assert_close, rng

KEY = jax.random.key(3)


@pytest.mark.parametrize(
    ("n", "fraction", "size"),
    [(100, 0.95, 95), (10, 0.95, 9), (4, 0.95, 3), (1, 0.95, 1), (7, 1.0, 7), (9, 0.01, 1)],
)
def test_sizes(n, fraction, size):
    masks = subsample_masks(KEY, 20, n, fraction=fraction)
    assert masks.shape == (20, n)
    assert np.all(masks.sum(axis=1) == size)


def test_every_sample_has_its_turn():
    often = np.asarray(subsample_masks(KEY, 4000, 12, fraction=0.5)).mean(axis=0)
    assert np.all(np.abs(often - 0.5) < 0.05)


def test_padding_changes_no_resample():
    where = np.array([1, 0, 1, 1, 0, 1, 1, 1]) > 0
    padded = np.asarray(subsample_masks(KEY, 30, 8, fraction=0.6, mask=where))
    assert not padded[:, ~where].any()
    np.testing.assert_array_equal(padded[:, where], subsample_masks(KEY, 30, 6, fraction=0.6))


def test_other_keys_give_other_resamples():
    a, b = (subsample_masks(jax.random.key(i), 5, 40, fraction=0.5) for i in (0, 1))
    assert np.any(a != b)


@pytest.mark.parametrize("fraction", [0.7, 1.0])
def test_groups_keep_their_share(fraction):
    groups = np.repeat([5, -2, 3], [20, 7, 1])[rng(0).permutation(28)]
    masks = np.asarray(subsample_masks(KEY, 300, 28, fraction=fraction, groups=groups))
    for group, size in {5: 20, -2: 7, 3: 1}.items():
        kept = max(1, round(fraction * size))
        assert np.all(masks[:, groups == group].sum(axis=1) == kept)
        assert np.all(np.abs(masks[:, groups == group].mean(axis=0) - kept / size) < 0.12)


def test_small_groups_keep_a_least_number():
    groups = np.repeat([0, 1, 2], [10, 2, 1])
    masks = np.asarray(subsample_masks(KEY, 9, 13, fraction=0.5, groups=groups, least=2))
    for group, kept in enumerate([5, 2, 1]):
        assert np.all(masks[:, groups == group].sum(axis=1) == kept)


def test_padding_changes_no_resample_of_groups():
    where = np.array([1, 0, 1, 1, 0, 1, 1, 1]) > 0
    groups = np.array([0, 9, 1, 0, 1, 1, 0, 0])
    padded = np.asarray(subsample_masks(KEY, 30, 8, fraction=0.6, groups=groups, mask=where))
    assert not padded[:, ~where].any()
    plain = subsample_masks(KEY, 30, 6, fraction=0.6, groups=groups[where])
    np.testing.assert_array_equal(padded[:, where], plain)


# ---- Stability ----------------------------------------------------------------------------------

B, N, D, K = 10, 30, 8, 3
OPTIONS = {"num_resamples": B, "fraction": 0.5, "num_features": K, "chunk_size": 4}
Y = np.repeat([0, 1], [20, 10])


def gap(x, y, weights):
    """The distance between the class means."""
    rows = jnp.where((weights > 0)[:, None], x, 0)
    first, second = (jnp.where(y == c, weights, 0) for c in (0, 1))
    return jnp.abs(first @ rows / jnp.sum(first) - second @ rows / jnp.sum(second))


def data(dtype: str = "float64") -> np.ndarray:
    return (rng(1).normal(size=(N, D)) + np.outer(Y, np.linspace(2, 0, D))).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stability_is_a_loop(dtype):
    x = data(dtype)
    found = jaxfs.stability(KEY, gap, x, Y, **OPTIONS)
    assert isinstance(found, jaxfs.Stability)
    assert all(a.dtype == dtype for a in found[:-1])
    masks = np.asarray(subsample_masks(KEY, B, N, fraction=0.5, groups=Y))
    scores = jax.jit(jax.vmap(gap, in_axes=(None, None, 0)))(x, Y, masks.astype(dtype))
    orders = np.argsort(-np.asarray(scores), axis=1, stable=True)
    ranks = np.argsort(orders, axis=1) + 1
    np.testing.assert_array_equal(found.indices, orders[:, :K])
    rtol = RTOL[dtype]
    assert_close(found.frequencies, (ranks <= K).mean(axis=0), rtol)
    assert_close(found.mean_ranks, ranks.mean(axis=0), rtol)
    assert_close(found.rank_deviations, ranks.std(axis=0, ddof=1), rtol)
    expected = jaxfs.evaluate.selection_stability(ranks <= K)
    for got, one in zip(found[3:6], expected, strict=True):
        assert_close(got, one, rtol)


def test_stability_of_padded_data_is_that_of_the_data():
    x = data()
    at = [0, 5, 25]
    plain = jaxfs.stability(KEY, gap, x, Y, **OPTIONS)
    weights = np.insert(np.ones(N), at, 0)
    for content in (0.0, np.nan):
        rows, labels = np.insert(x, at, content, axis=0), np.insert(Y, at, 1)
        padded = jaxfs.stability(KEY, gap, rows, labels, weights=weights, **OPTIONS)
        assert all(map(np.array_equal, padded, plain))


def test_stability_from_one_key_is_one_answer_in_any_chunks():
    x = data()
    first = jaxfs.stability(KEY, gap, x, Y, **OPTIONS)
    whole = jaxfs.stability(KEY, gap, x, Y, **{**OPTIONS, "chunk_size": 100})
    assert all(map(np.array_equal, first, jaxfs.stability(KEY, gap, x, Y, **OPTIONS)))
    np.testing.assert_array_equal(whole.indices, first.indices)
    other = jaxfs.stability(jax.random.key(8), gap, x, Y, **OPTIONS)
    assert np.any(other.indices != first.indices)


def noise(x, y, weights):
    """A score of random numbers, different in each resample."""
    del y
    seed = jnp.sum(jnp.where(weights > 0, jnp.arange(x.shape[0]) ** 2, 0))
    return jax.random.uniform(jax.random.key(seed), (x.shape[1],), x.dtype)


def test_stability_of_constant_and_of_random_choices():
    x = rng(0).normal(size=(40, 50))
    options = {"num_resamples": 100, "fraction": 0.5, "num_features": 10}
    same = jaxfs.stability(KEY, lambda x, y, w: jnp.arange(50.0), x, **options)
    assert same.stability == 1
    assert_close(same.interval, np.ones(2), RTOL["float64"])
    assert same.frequencies.tolist() == [0.0] * 40 + [1.0] * 10
    assert same.mean_ranks.tolist() == list(range(50, 0, -1))
    assert np.all(same.rank_deviations == 0)
    random = jax.jit(
        lambda key, x: jaxfs.stability(key, noise, x, np.linspace(0, 1, 40), **options)
    )
    found = random(KEY, x)
    assert abs(found.stability) < 0.05
    assert found.interval[0] < 0 < found.interval[1]
    assert np.all(np.abs(found.frequencies - 0.2) < 0.2)


def test_stability_of_nan_is_nan():
    x = data()
    x[4, 2] = np.nan
    found = jaxfs.stability(KEY, gap, x, Y, **OPTIONS)
    assert all(np.all(np.isnan(a)) for a in found[:-1])
    assert np.all(found.indices == -1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"num_features": D}, r"num_features must be an integer in \[1, 7\], got 8"),
        ({"num_resamples": 1}, "num_resamples must be at least 2, got 1"),
        ({"fraction": 0.0}, r"fraction must be in \(0, 1\], got 0.0"),
        ({"confidence": 0}, r"confidence must be in \(0, 1\], got 0"),
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
        ({"score": 3}, "score must be a function of x, y and weights, got 3"),
        ({"score": lambda x, y, w: w}, r"score must be a function that returns \(8,\), .* \(30,\)"),
        ({"y": Y[1:]}, r"y must be of shape \(30, …\), one label a sample, got shape \(29,\)"),
        ({"x": np.ones((3, 1))}, r"x must be \(n, d\) with n ≥ 1 samples and d ≥ 2 features"),
        ({"weights": np.ones(3)}, r"weights must be of shape \(30,\), one weight a sample"),
    ],
)
def test_mistakes_are_named(spoil, message):
    arguments = {"score": gap, "x": data(), "y": Y, **OPTIONS, **spoil}
    with pytest.raises(ValueError, match=message):
        jaxfs.stability(KEY, **arguments)


def test_groups_must_be_integers():
    with pytest.raises(ValueError, match=r"groups must be integers of shape \(3,\), one a sample"):
        subsample_masks(KEY, 2, 3, groups=np.ones(3))
