"""All-relevant selection: what is confirmed, what is not, and the same decisions as boruta_py."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

from jaxfs.estimators import BorutaSelector, FilterSelector, ReliefF
from jaxfs.estimators.wrappers import _decided

RELEVANT = list(range(10))


def toy(seed=0):
    return make_classification(
        300, 30, n_informative=6, n_redundant=4, shuffle=False, random_state=seed
    )


def test_scores_and_models_confirm_redundant_features_too():
    x, y = toy(2)
    for model in (ReliefF(), RandomForestClassifier(20, max_depth=5)):
        found = BorutaSelector(model, n_trials=40, random_state=0).fit(x, y)
        assert found.get_support(indices=True).tolist() == RELEVANT
        assert not found.tentative_[found.confirmed_].any()
        assert (found.scores_[10:] < 0.5).all()


def test_linear_models_and_numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 8))
    target = x[:, 1] - 2 * x[:, 5] + 0.5 * rng.normal(size=200)
    chosen = BorutaSelector(LinearRegression(), n_trials=30, random_state=0).fit(x, target)
    assert chosen.get_support(indices=True).tolist() == [1, 5]
    labels = np.where(target > 0, "high", "low")
    chosen = BorutaSelector(LogisticRegression(), n_trials=30, random_state=0).fit(x, labels)
    assert chosen.get_support(indices=True).tolist() == [1, 5]


def test_noise_confirms_nothing():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(80, 6)), rng.integers(2, size=80)
    selector = BorutaSelector(FilterSelector(), n_trials=25, random_state=0)
    with pytest.raises(ValueError, match="confirmed none of 6 features"):
        selector.fit(x, y)
    assert selector.set_params(n_features_to_select=2).fit(x, y).n_features_ == 2


def test_the_decision_is_the_binomial_test_with_both_corrections():
    hits, trial, alpha = np.array([20, 17, 10, 2, 0]), 20, 0.05
    accepted, rejected = _decided(hits, trial, alpha)
    for mask, p in (
        (accepted, binom.sf(hits - 1, trial, 0.5)),
        (rejected, binom.cdf(hits, trial, 0.5)),
    ):
        order = np.argsort(p)
        passed = [i for i, j in enumerate(order) if p[j] <= alpha * (i + 1) / p.size]
        expected = np.zeros(p.size, bool)
        expected[order[: max(passed, default=-1) + 1]] = True
        assert mask.tolist() == (expected & (p <= alpha / trial)).tolist()


def test_a_seed_repeats_the_fit_and_bad_options_are_named():
    x, y = toy()
    first, again = (
        BorutaSelector(n_trials=4, random_state=3, n_features_to_select=3) for _ in "ab"
    )
    np.testing.assert_array_equal(first.fit(x, y).scores_, again.fit(x, y).scores_)
    with pytest.raises(ValueError, match="estimator must be a selector"):
        BorutaSelector(3).fit(x, y)
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\]"):
        BorutaSelector(alpha=0.0).fit(x, y)


@pytest.mark.thorough
def test_the_same_features_as_boruta_py():
    boruta = pytest.importorskip("boruta")
    x, y = toy()
    forest = RandomForestClassifier(100, max_depth=5, class_weight="balanced", random_state=1)
    theirs = boruta.BorutaPy(forest, n_estimators=100, random_state=0, max_iter=60).fit(x, y)
    ours = BorutaSelector(forest, n_trials=60, random_state=0).fit(x, y)
    assert ours.support_.tolist() == theirs.support_.tolist()
