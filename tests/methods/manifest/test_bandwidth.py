"""manifest_bandwidth against the literal recipe, and on problems with a known answer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import make_classification

import jaxfs
from jaxfs.methods.manifest import _bandwidth
from tests.helpers import assert_close, rng
from tests.methods.manifest import oracle

KEY = jax.random.key(0)


def problem(seed=0, n=24, d=12, classes=2):
    """Labels by turns; features 0 and 1 go together in class 0 only, feature 2 shifts."""
    generator = rng(seed)
    y = np.arange(n) % classes
    x = generator.normal(size=(n, d))
    x[y == 0, 1] = x[y == 0, 0] + 0.1 * x[y == 0, 1]
    x[:, 2] += y
    return x, y


def masks(y, classes, folds=(5, 2)):
    """The folds that `manifest_bandwidth` draws with `KEY`."""
    present = jnp.ones(len(y), bool)
    counts = jnp.asarray(np.bincount(y, minlength=classes), jnp.int32)
    return np.asarray(_bandwidth.fold_masks(KEY, jnp.asarray(y, jnp.int32), present, counts, folds))


def root_f(x, y):
    return np.sqrt(np.asarray(jaxfs.anova_score(x, y, num_classes=int(y.max()) + 1)))


def relieff(x, y):
    w = jnp.ones(len(y))  # traced weights: up to ten neighbours, as many as exist
    score = jax.jit(lambda w: jaxfs.relieff_score(x, y, num_classes=int(y.max()) + 1, weights=w))
    return np.asarray(score(w))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("partner", [None, "anova", "relieff"])
def test_equals_the_literal_recipe(classes, partner):
    x, y = problem(classes=classes)
    got = jaxfs.manifest_bandwidth(KEY, x, y, num_classes=classes, combine=partner)
    other = {None: None, "anova": root_f, "relieff": relieff}[partner]
    expected = oracle.bandwidth_losses(x, y, classes, masks(y, classes), _bandwidth.FACTORS, other)
    assert_close(got.losses, expected, 1e-9)
    assert float(got.factor) == _bandwidth.FACTORS[int(np.argmin(expected))]


def test_folds_are_stratified_and_test_every_sample_once_a_repeat():
    y = np.array([0] * 11 + [1] * 7 + [2])
    found = masks(y, 3)
    assert found.shape == (10, 19)
    np.testing.assert_array_equal(found.reshape(2, 5, -1).sum(axis=1), [[1] * 18 + [0]] * 2)
    assert found[:, y == 0].sum(axis=1).min() == 2
    assert found[:, y == 1].sum(axis=1).max() == 2
    assert not np.array_equal(found[:5], found[5:])


def test_row_norms_in_blocks(monkeypatch):
    x, y = problem()
    member = jnp.asarray(np.stack([y == 0, y == 1]).astype(float))
    sigma = jnp.array([4.0, 5.0])
    points = _bandwidth.class_points(jnp.asarray(x), member)
    whole = _bandwidth.row_norms(points, member, sigma)
    monkeypatch.setattr(_bandwidth, "BLOCK", 2 * 12 * 5)
    assert_close(_bandwidth.row_norms(points, member, sigma), whole, 1e-12)


def test_padding_changes_nothing():
    x, y = problem()
    choose = functools.partial(jaxfs.manifest_bandwidth, KEY, num_classes=2, combine="relieff")
    padded = np.concatenate([x[:10], np.full((3, 12), np.nan), x[10:]])
    codes = np.concatenate([y[:10], [1, 1, 0], y[10:]])
    w = np.concatenate([np.ones(10), np.zeros(3), np.ones(14)])
    got, expected = choose(padded, codes, weights=w), choose(x, y)
    assert_close(got.losses, expected.losses, 1e-10)
    again = choose(np.where(np.isnan(padded), 7.0, padded), codes, weights=w)
    jax.tree.map(np.testing.assert_array_equal, again, got)


def test_many_samples_are_thinned_with_the_shares_of_the_classes():
    y = jnp.asarray(np.repeat([0, 1, 2], [40, 20, 7]), jnp.int32)
    present = jnp.arange(67) < 60
    part = np.asarray(_bandwidth._part(KEY, y, present, jnp.array([40, 20, 0], jnp.int32), 20))
    assert len(set(part.tolist())) == 20
    assert part.max() < 60
    np.testing.assert_array_equal(np.bincount(np.asarray(y)[part]), [13, 7])


def test_vmap_is_a_loop():
    xs, ys = zip(*(problem(seed) for seed in range(3)), strict=True)
    keys = jax.random.split(KEY, 3)
    choose = functools.partial(jaxfs.manifest_bandwidth, num_classes=2)
    got = jax.jit(jax.vmap(choose))(keys, jnp.stack(xs), jnp.stack(ys))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        assert_close(got.losses[i], choose(keys[i], x, y).losses, 1e-10)


def test_float32_chooses_alike():
    x, y = problem()
    wide = jaxfs.manifest_bandwidth(KEY, x, y, num_classes=2)
    narrow = jaxfs.manifest_bandwidth(KEY, x.astype(np.float32), y, num_classes=2)
    assert narrow.losses.dtype == narrow.factor.dtype == jnp.float32
    # At 1/16 median all kernels of noise are the identity, up to numbers that float32 cannot hold.
    assert_close(narrow.losses[:3], wide.losses[:3], 1e-4)


def test_undefined_cases_are_nan():
    x, y = problem()
    spoilt = x.copy()
    spoilt[3, 4] = np.nan
    assert np.isnan(jaxfs.manifest_bandwidth(KEY, spoilt, y, num_classes=2).factor)
    one_each = jaxfs.manifest_bandwidth(KEY, x[:2], y[:2], num_classes=2)
    assert np.isnan(one_each.factor)
    assert np.isnan(one_each.losses).all()
    empty = jax.jit(functools.partial(jaxfs.manifest_bandwidth, KEY, x, num_classes=3))(y=y)
    assert np.isnan(empty.factor)


def test_the_factor_acts_where_the_median_distance_is_0():
    """Sparse counts: more than half of the features are equal, so the median distance is 0."""
    generator = rng(0)
    y = np.arange(30) % 2
    x = np.zeros((30, 20))
    x[:, :5] = generator.poisson(1 + 3 * y[:, None] * np.arange(5) / 5, size=(30, 5))
    assert np.median(oracle.feature_distances(x[y == 0])) == 0
    got = jaxfs.manifest_bandwidth(KEY, x, y, num_classes=2)
    assert_close(
        got.losses, oracle.bandwidth_losses(x, y, 2, masks(y, 2), _bandwidth.FACTORS), 1e-9
    )
    scores = [
        jaxfs.manifest_score(x[y == 0], x[y == 1], bandwidth=jaxfs.Median(f)) for f in (4.0, 0.25)
    ]
    assert np.abs(scores[0] - scores[1]).max() > 1e-3


def test_derivatives_are_those_of_the_score_at_the_factor():
    x, y = problem()
    x1, x2 = x[y == 0], x[y == 1]

    def chosen(x1):
        found = jaxfs.manifest_bandwidth(KEY, jnp.concat([x1, x2]), np.sort(y), num_classes=2)
        return jnp.sum(jaxfs.manifest_score(x1, x2, bandwidth=jaxfs.Median(found.factor)) ** 2)

    factor = jaxfs.manifest_bandwidth(KEY, np.concatenate([x1, x2]), np.sort(y), num_classes=2)
    fixed = jaxfs.Median(float(factor.factor))
    expected = jax.grad(lambda a: jnp.sum(jaxfs.manifest_score(a, x2, bandwidth=fixed) ** 2))(x1)
    assert_close(jax.grad(chosen)(x1), expected, 1e-10)


# ---- Problems with a known answer ---------------------------------------------------------------


@jax.jit
@jax.vmap
def untuned(key, x, y):
    rule = jaxfs.Median(jaxfs.manifest_bandwidth(key, x, y, num_classes=2).factor)
    w = (y == 0).astype(x.dtype)
    return jaxfs.manifest_score(x, x, bandwidth=rule, weights1=w, weights2=1 - w)


def test_finds_the_pair_of_xor():
    x = rng(0).integers(0, 2, size=(12, 50, 100)).astype(np.float32)
    y = (x[:, :, 0] != x[:, :, 4]).astype(np.int32)
    picks = np.argsort(untuned(jax.random.split(KEY, 12), x, y), axis=1)[:, -2:]
    assert np.isin(picks, [0, 4]).mean() >= 0.95


def test_finds_the_features_of_the_hypercube():
    def draw(seed):
        x, y = make_classification(
            2000, 200, n_informative=10, n_redundant=0, shuffle=False, random_state=seed
        )
        rows = rng(seed).permutation(2000)[:50]
        return x[rows], y[rows]

    xs, ys = zip(*map(draw, range(4)), strict=True)
    scores = untuned(jax.random.split(KEY, 4), np.stack(xs), np.stack(ys))
    assert (np.argsort(scores, axis=1)[:, -10:] < 10).mean() >= 0.9
