"""Mutual information against scikit-learn without its noise, on random and on real data.

`mutual_info_classif` and `mutual_info_regression` add noise of 1e-10 to what they then hand to
private functions; these are called here with the data as they are, of which the regression wants
unit variances. Where values repeat, scikit-learn without noise is no oracle: there are loops.
"""

import functools

import jax
import numpy as np
import pytest
from scipy.special import digamma
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.feature_selection._mutual_info import _compute_mi_cc, _compute_mi_cd
from sklearn.metrics import mutual_info_score
from sklearn.preprocessing import scale

import jaxfs
from tests.helpers import rng

N = 90


@functools.cache
def data(name: str = "random") -> tuple[np.ndarray, np.ndarray, int]:
    if name == "random":
        y = rng(1).permutation(np.repeat([0, 1, 2], [25, 30, 35]))
        return rng(0).normal(size=(N, 4)) + np.array([2, 1, 0, 0]) * y[:, None], y, 3
    load = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name]
    x, y = load(return_X_y=True)
    return x, y, int(y.max()) + 1


def ross(x, y, k=3):
    return np.array([_compute_mi_cd(column, y, k) for column in x.T])


def kraskov(x, y, k=3):
    return np.array([_compute_mi_cc(column, scale(y, with_mean=False), k) for column in x.T])


def mixed(x, y, k=3):
    """Ross's estimate of one feature; its mean over noise where distances tie (see `_tied`)."""
    n, total = len(x), 0.0
    for i in range(n):
        others = np.arange(n) != i
        distance, mine = np.abs(x - x[i])[others], (y == y[i])[others]
        k_c = min(k, mine.sum())
        r = np.sort(distance[mine])[k_c - 1]
        (s, b), (all_s, all_b) = (
            ((d < r).sum(), (d == r).sum()) for d in (distance[mine], distance)
        )
        place = digamma(k_c - s) + digamma(all_b + 1) - digamma(b + 1)
        psi_m = np.log(all_s + np.exp(place)) if all_b > 1 else digamma(all_s + 1)
        total += digamma(n) + digamma(k_c) - digamma(mine.sum() + 1) - psi_m
    return max(0.0, total / n)


def gao(x, y, k=3):
    """Kraskov's estimate of one feature; Gao's where samples coincide."""
    n, total = len(x), 0.0
    for i in range(n):
        dx, dy = np.abs(x - x[i]) / x.std(), np.abs(y - y[i]) / y.std()
        both = np.maximum(dx, dy)
        r = np.sort(both)[k]
        equal = (both <= 0).sum() if r == 0 else k
        m_x, m_y = (np.sum(d <= 0 if r == 0 else d < r) for d in (dx, dy))
        total += digamma(n) + digamma(equal) - digamma(m_x) - digamma(m_y)
    return max(0.0, total / n)


@pytest.mark.parametrize("name", ["random", "breast cancer", "wine"])
def test_classes(name):
    x, y, c = data(name)
    if name != "random":  # without the ties
        x = x + 1e-4 * x.std(axis=0) * rng(2).normal(size=x.shape)
    got = jaxfs.mutual_information_score(x, y, num_classes=c)
    assert np.allclose(got, ross(x, y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["breast cancer", "wine", "digits"])
def test_ties_of_real_data(name):
    """Numbers of few digits; in the digits all pixels are of 17 values, and 0 without the rule."""
    x, y, c = data(name)
    x, y = x[::2, 20:30] if name != "wine" else x, y[::2] if name != "wine" else y
    got = np.asarray(jaxfs.mutual_information_score(x, y, num_classes=c))
    assert np.allclose(got, [mixed(column, y) for column in x.T], rtol=0, atol=1e-12)
    assert np.mean(got > 0) > 0.8


def three_values():
    """Features of three values; the first four depend on the class, the others are noise."""
    y = np.repeat([0, 1, 2], 25)
    x = rng(7).normal(size=(75, 12))
    x[:, :4] += np.linspace(2, 1, 4) * y[:, None]
    return 2.0 * np.digitize(x, [0, 1.5]) - 2, y


@pytest.mark.parametrize("classes", [2, 3])
def test_three_values(classes):
    """As scikit-learn on average over noise; what it finds in discrete data is found."""
    x, y = three_values()
    y = np.minimum(y, classes - 1)
    got = np.asarray(jaxfs.mutual_information_score(x, y, num_classes=classes))
    assert np.allclose(got, [mixed(column, y) for column in x.T], rtol=0, atol=1e-12)
    noise = [ross(x[:, :4] + 1e-6 * rng(i).normal(size=(75, 4)), y) for i in range(60)]
    assert np.abs(got[:4] - np.mean(noise, axis=0)).max() < 0.03
    plain = np.array([mutual_info_score(column, y) for column in x.T])
    bias = 4 * (classes - 1) / 2 / 75
    assert np.all(got[plain > 4 * bias] > 0)
    assert got[4:].max() < got[:4].min()
    single = jaxfs.mutual_information_score(x.astype("float32"), y, num_classes=classes)
    assert np.allclose(single, got, rtol=0, atol=1e-5)


def test_three_values_and_a_target_of_few():
    x, y = three_values()
    got = np.asarray(jaxfs.mutual_information_regression_score(x, y.astype(float)))
    assert np.allclose(got, [gao(column, y) for column in x.T], rtol=0, atol=1e-12)
    assert got[:4].min() > max(0.1, got[4:].max())


def test_other_numbers_of_neighbours_and_masks():
    x, y, _ = data()
    for k in (1, 7):
        score = functools.partial(jaxfs.mutual_information_score, num_classes=3, num_neighbors=k)
        assert np.allclose(score(x, y), ross(x, y, k), rtol=0, atol=1e-12)
    mask = np.arange(N) % 3 != 1
    spoilt = np.where(mask[:, None], x, np.nan)
    expected = ross(x[mask], y[mask], 7)
    assert np.allclose(score(spoilt, y, weights=mask), expected, rtol=0, atol=1e-12)


def test_small_classes_under_jit():
    """As scikit-learn: with the neighbours they have, and without classes of one sample."""
    x, y, _ = data()
    y = np.where(np.arange(N) < 3, 3, np.where(np.arange(N) == 3, 4, y))
    traced = jax.jit(functools.partial(jaxfs.mutual_information_score, num_classes=6))
    assert np.allclose(traced(x, y), ross(x, y), rtol=0, atol=1e-12)


def test_repeated_values_and_constants():
    x, y, _ = data()
    x = np.concatenate([np.round(x), np.full((N, 1), 0.1)], axis=1)
    got = np.asarray(jaxfs.mutual_information_score(x, y, num_classes=3))
    assert np.allclose(got[:-1], [mixed(c, y) for c in x.T[:-1]], rtol=0, atol=1e-12)
    assert got[-1] == 0
    assert jaxfs.mutual_information_regression_score(x, y)[-1] == 0
    assert jaxfs.mutual_information_score(x, y, num_classes=3, estimator="binned")[-1] == 0


@pytest.mark.parametrize("binning", ["frequency", "width"])
def test_binned(binning):
    x, y, _ = data()
    got = jaxfs.mutual_information_score(
        x, y, num_classes=3, estimator="binned", num_bins=5, binning=binning
    )
    if binning == "width":
        edges = [np.linspace(c.min(), c.max(), 6)[1:-1] for c in x.T]
    else:
        edges = [np.sort(c)[N // 5 :: N // 5] for c in x.T]
    expected = [mutual_info_score(np.digitize(c, e), y) for c, e in zip(x.T, edges, strict=True)]
    assert np.allclose(got, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["random", "diabetes"])
def test_regression(name):
    if name == "random":
        x = data()[0]
        y = x[:, 0] ** 2 + 0.1 * x[:, 1]
    else:
        x, y = load_diabetes(return_X_y=True)  # whose ties rounding would decide
        x, y = (a + 1e-4 * a.std() * rng(2).normal(size=a.shape) for a in (x, y))
    expected = kraskov(scale(x, with_mean=False), y)
    got = jaxfs.mutual_information_regression_score(x, y)
    assert np.allclose(got, expected, rtol=0, atol=1e-12)
    if name == "random":
        far = jaxfs.mutual_information_regression_score(1e3 + 1e-3 * x, 5 - y)
        assert np.allclose(far, expected, rtol=0, atol=1e-6)
        single = jaxfs.mutual_information_regression_score(x.astype("float32"), y)
        assert np.allclose(single, expected, rtol=0, atol=1e-2)


def test_regression_with_a_mask():
    x, y, _ = data()
    y, mask = x @ np.arange(4.0), np.arange(N) % 4 != 1
    spoilt = np.where(mask[:, None], x, np.nan), np.where(mask, y, np.inf)
    got = jaxfs.mutual_information_regression_score(*spoilt, num_neighbors=5, weights=mask)
    expected = kraskov(scale(x[mask], with_mean=False), y[mask], 5)
    assert np.allclose(got, expected, rtol=0, atol=1e-12)
    few = jax.jit(lambda w: jaxfs.mutual_information_regression_score(x, y, weights=w))
    assert np.all(np.isnan(few(np.arange(N) < 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"num_neighbors": 25},
            "num_neighbors must be less than the 25 samples of class 0, got 25",
        ),
        ({"num_neighbors": 0}, "num_neighbors must be at least 1"),
        ({"num_bins": 1, "estimator": "binned"}, "num_bins must be at least 2"),
        ({"estimator": "kde"}, "estimator must be one of 'knn', 'binned'"),
        (
            {"binning": "deciles", "estimator": "binned"},
            "binning must be one of 'frequency', 'width'",
        ),
        ({"num_classes": 4}, "each of 4 classes has samples, got none of 3"),
    ],
)
def test_mistakes_are_named(change, message):
    x, y, _ = data()
    with pytest.raises(ValueError, match=message):
        jaxfs.mutual_information_score(x, y, **({"num_classes": 3} | change))


def test_too_few_samples_for_regression():
    with pytest.raises(ValueError, match="num_neighbors must be less than the 3 samples present"):
        jaxfs.mutual_information_regression_score(np.ones((3, 2)), np.arange(3.0))
