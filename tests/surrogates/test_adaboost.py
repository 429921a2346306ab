"""AdaBoost of stumps: scikit-learn's, the report's written out, and what functions promise."""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from jaxfs.surrogates import adaboost
from tests.helpers import assert_close, rng

N, D, ROUNDS = 60, 5, 6  # one shape and length for most tests: they share what is compiled


def data(seed: int = 0, num_classes: int = 2, dtype: str = "float64"):
    """Two features tell the classes apart, a little."""
    x = rng(seed).normal(size=(N, D))
    y = rng(seed + 1).integers(num_classes, size=N)
    y[:num_classes] = np.arange(num_classes)
    x[:, 1] += y
    x[:, 3] -= 0.7 * y
    return x.astype(dtype), y


# ---- Against scikit-learn -----------------------------------------------------------------------


def split(x, y, seed: int = 0):
    """Numbers that float32 holds, as scikit-learn's trees round to it; weights that break ties."""
    x = x.astype(np.float32).astype(np.float64)
    test = rng(seed).random(len(y)) < 0.3
    weights = rng(seed + 1).uniform(0.5, 1.5, size=len(y))
    return x[~test], y[~test], weights[~test], x[test], y[test]


@pytest.mark.parametrize(
    "source",
    [
        lambda: load_breast_cancer(return_X_y=True),
        lambda: load_wine(return_X_y=True),
        lambda: make_classification(200, 12, n_informative=5, random_state=3),
    ],
    ids=["breast cancer", "wine", "generated"],
)
def test_all_thresholds_by_gini_are_those_of_scikit_learn(source):
    x, y, w, x_test, _ = split(*source())
    c, rounds = int(y.max()) + 1, 30
    tree = DecisionTreeClassifier(max_depth=1)
    peer = AdaBoostClassifier(tree, n_estimators=rounds, random_state=0).fit(x, y, sample_weight=w)
    model = adaboost.fit(
        x, y, num_rounds=rounds, num_classes=c, criterion="gini", learning_rate=1.0, weights=w
    )
    for rows in (x, x_test):
        np.testing.assert_array_equal(adaboost.predict(model, rows), peer.predict(rows))
    made = len(peer.estimators_)
    assert_close(model.alpha[:made], peer.estimator_weights_[:made], 1e-10)
    assert_close(model.error[:made], peer.estimator_errors_[:made], 1e-10)
    features = [tree.tree_.feature[0] for tree in peer.estimators_]
    np.testing.assert_array_equal(model.feature[:made], features)


# ---- Written out --------------------------------------------------------------------------------


def report(x, y, threshold, rounds):
    """AdaBoost with both signs of f_j ≥ θ, labels ±1: feature, sign and α of every round."""
    sign = np.where(y == 1, 1.0, -1.0)
    w = np.full(len(y), 1 / len(y))
    rules = []
    for _ in range(rounds):
        best = None
        for j, s in itertools.product(range(x.shape[1]), (1.0, -1.0)):
            h = np.where(x[:, j] >= threshold, s, -s)
            error = w[h != sign].sum()
            if best is None or error < best[0] - 1e-12:
                best = error, j, s, h
        error, j, s, h = best
        alpha = 0.5 * np.log((1 - error) / error)
        w = w * np.exp(-alpha * sign * h)
        w /= w.sum()
        rules.append((j, s, alpha))
    return rules


def test_a_fixed_threshold_is_the_report():
    x, y = data()
    rules = report(x, y, 0.3, 12)
    model = adaboost.fit(x, y, thresholds=0.3, num_rounds=12)
    np.testing.assert_array_equal(model.feature, [j for j, _, _ in rules])
    assert_close(model.alpha, [2 * alpha for _, _, alpha in rules], 1e-10)
    votes = sum(alpha * np.where(x[:, j] >= 0.3, s, -s) for j, s, alpha in rules)
    assert_close(adaboost.margin(model, x), votes / sum(alpha for _, _, alpha in rules), 1e-10)
    assert np.all(model.threshold == 0.3)


def least_error(x, y, w, num_classes):
    """The least weighted error of all stumps whose sides say different classes."""
    found = 1.0
    for j in range(x.shape[1]):
        values = np.unique(x[:, j])
        for theta in [*(0.5 * (values[1:] + values[:-1])), np.inf]:
            above = x[:, j] >= theta
            for a, b in itertools.permutations(range(num_classes), 2):
                found = min(found, w[np.where(above, b, a) != y].sum())
    return found


@pytest.mark.parametrize("num_classes", [2, 3])
def test_all_thresholds_by_error_are_the_best(num_classes):
    x, y = data(2, num_classes)
    x = np.round(2 * x)  # many equal values
    model = adaboost.fit(x, y, num_rounds=ROUNDS, num_classes=num_classes)
    w = np.full(N, 1 / N)
    for t in range(ROUNDS):
        error = float(model.error[t])
        assert error == pytest.approx(least_error(x, y, w, num_classes), abs=1e-12)
        sides = np.argmax(model.votes[t], axis=1)
        said = np.where(x[:, model.feature[t]] >= model.threshold[t], sides[1], sides[0])
        w = w * np.exp(float(model.alpha[t]) * (said != y))
        w /= w.sum()
        alpha = np.log((1 - error) / error) + np.log(num_classes - 1)
        assert float(model.alpha[t]) == pytest.approx(alpha, rel=1e-10)
    margins = adaboost.margin(model, x)
    assert margins.shape == ((N,) if num_classes == 2 else (N, 3))
    best = margins > 0 if num_classes == 2 else np.argmax(margins, axis=1)
    np.testing.assert_array_equal(adaboost.predict(model, x), best)


def test_quantiles_are_those_of_the_weighted_distribution():
    x = np.round(data()[0], 1)
    w = np.resize([1.0, 0.0, 3.0], N)
    repeated = np.repeat(x, w.astype(int), axis=0)
    levels = np.arange(1, 5) / 5
    expected = np.quantile(repeated, levels, axis=0, method="inverted_cdf").T
    for dtype in ("float32", "float64"):
        got = adaboost.quantiles(x.astype(dtype), 4, weights=w)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, expected.astype(dtype))


def test_thresholds_of_every_feature_have_their_own():
    x, y = data()
    values = np.sort(x, axis=0).T  # all of them as thresholds are all cuts
    listed = adaboost.fit(x, y, thresholds=values, num_rounds=ROUNDS)
    searched = adaboost.fit(x, y, num_rounds=ROUNDS)
    assert all(t in values[j] for j, t in zip(listed.feature, listed.threshold, strict=True))
    np.testing.assert_array_equal(listed.feature, searched.feature)
    np.testing.assert_array_equal(adaboost.predict(listed, x), adaboost.predict(searched, x))


# ---- Ends and ties ------------------------------------------------------------------------------


def test_equal_features_go_to_the_first():
    x, y = data()
    same = np.stack([x[:, 0], x[:, 1], -x[:, 1], np.exp(x[:, 0]), x[:, 1]], axis=1)
    for criterion in ("error", "gini"):  # the last three part the samples like the first two
        model = adaboost.fit(same, y, num_rounds=ROUNDS, criterion=criterion)
        assert set(model.feature.tolist()) == {0, 1}


def test_a_value_halfway_is_below():
    model = adaboost.fit(np.array([[2.0], [4.0]]), np.array([0, 1]), num_rounds=1)
    new = np.array([[3.0], [np.nextafter(3.0, 4.0)], [np.inf], [-np.inf]])
    assert adaboost.predict(model, new).tolist() == [0, 1, 1, 0]
    neighbours = np.array([[1.0], [np.nextafter(1.0, 2.0)]])
    model = adaboost.fit(neighbours, np.array([0, 1]), num_rounds=1)
    assert adaboost.predict(model, neighbours).tolist() == [0, 1]


def test_it_ends_without_error_and_at_chance():
    x, y = data()
    x[:, 2] = y
    perfect = adaboost.fit(x, y, num_rounds=ROUNDS)
    assert perfect.feature.tolist() == [2] + [-1] * 5
    assert perfect.alpha.tolist() == [1] + [0] * 5
    assert perfect.error.tolist() == [0] + [1] * 5
    np.testing.assert_array_equal(adaboost.predict(perfect, x), y)
    blank, most, half = np.ones((N, D)), np.arange(N) % 5 > 1, np.arange(N) % 2
    for criterion in ("error", "gini"):  # the larger class, once
        constant = adaboost.fit(blank, most, num_rounds=ROUNDS, criterion=criterion)
        assert constant.error[0] == pytest.approx(0.4)
        assert np.all(adaboost.predict(constant, blank) == 1)
    even = adaboost.fit(blank, half, num_rounds=ROUNDS)
    assert np.all(even.feature == -1)
    assert np.all(adaboost.margin(even, blank) == 0)


# ---- Promises -----------------------------------------------------------------------------------

KINDS = {
    "given": {"thresholds": np.array([-0.5, 0.0, 0.5]), "criterion": "error"},
    "halfway": {"criterion": "gini"},
}
kinds = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())


@kinds
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_padding_without_weight_changes_nothing(options, dtype):
    x, y = data(4, dtype=dtype)
    fit = jax.jit(lambda x, y, w: adaboost.fit(x, y, num_rounds=ROUNDS, weights=w, **options))
    plain = fit(x, y, np.ones(N, dtype))
    assert plain.alpha.dtype == plain.votes.dtype == plain.threshold.dtype == dtype
    at = np.arange(0, N, 10)
    w = np.insert(np.ones(N, dtype), at, 0)
    found = [
        fit(np.insert(x, at, content, axis=0), np.insert(y, at, label), w)
        for content, label in ((0.0, 1), (np.nan, 0), (-np.inf, 1), (1e30, 7))
    ]
    np.testing.assert_array_equal(found[0].feature, plain.feature)
    np.testing.assert_array_equal(found[0].threshold, plain.threshold)
    assert_close(found[0].votes, plain.votes, 1e-5 if dtype == "float32" else 1e-12)
    for other in found[1:]:
        assert all(map(np.array_equal, jax.tree.leaves(other), jax.tree.leaves(found[0])))
    assert adaboost.margin(plain, x).dtype == dtype


@kinds
def test_vmap_is_a_loop_over_parts_of_the_data(options):
    x, y = data(5)
    masks = rng(6).random((2, N)) < 0.6
    sets = np.array([[1, 1, 0, 0, 1], [0, 0, 1, 1, 0], [1, 1, 1, 1, 1]])

    def fit(weights, features):
        options_of_fit = {"num_rounds": ROUNDS, "weights": weights, "features": features}
        model = adaboost.fit(x, y, **options_of_fit, **options)
        return model, adaboost.margin(model, x)

    chex.clear_trace_counter()
    once = jax.jit(chex.assert_max_traces(fit, n=1))
    batched = jax.jit(jax.vmap(jax.vmap(fit, in_axes=(None, 0)), in_axes=(0, None)))(masks, sets)
    for i, j in itertools.product(range(2), range(3)):
        alone = once(masks[i], sets[j])
        for got, expected in zip(jax.tree.leaves(batched), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(got[i, j], expected, rtol=1e-12)
        assert set(alone[0].feature.tolist()) <= {-1, *np.flatnonzero(sets[j]).tolist()}


@kinds
def test_lowers_for_cpu_cuda_and_tpu(options):
    def call(x, y):
        return adaboost.predict(adaboost.fit(x, y, num_rounds=3, **options), x)

    shapes = jax.ShapeDtypeStruct((N, D), jnp.float32), jax.ShapeDtypeStruct((N,), jnp.int32)
    platforms = ("cpu", "cuda", "tpu")
    assert jax.export.export(jax.jit(call), platforms=platforms)(*shapes).platforms == platforms


def test_nan_is_not_ranked():
    x, y = data()
    clean = adaboost.fit(x, y, num_rounds=ROUNDS, features=np.arange(D) != 2)
    x[3, 2] = np.nan
    model = adaboost.fit(x, y, num_rounds=ROUNDS)
    assert np.all(model.feature == -1)
    for a in (model.threshold, model.votes, model.alpha, model.error):
        assert np.all(np.isnan(a))
    assert np.all(adaboost.predict(model, x) == -1)
    model = adaboost.fit(x, y, num_rounds=ROUNDS, features=np.arange(D) != 2)
    assert all(map(np.array_equal, model, clean)), "outside the set it does not matter"
    x[5] = np.nan
    assert np.flatnonzero(np.isnan(adaboost.margin(model, x))).tolist() == [5]
    assert np.all(np.isnan(adaboost.quantiles(x, 4)))
    rate = jax.jit(lambda r: adaboost.fit(*data(), num_rounds=ROUNDS, learning_rate=r).alpha)
    assert np.all(np.isnan(rate(-1.0)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_rounds": 0}, "num_rounds must be at least 1, got 0"),
        ({"criterion": "entropy"}, "criterion must be one of 'error', 'gini', got 'entropy'"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        (
            {"thresholds": np.zeros((2, 3))},
            r"thresholds must be a number, or .* got shape \(2, 3\)",
        ),
        ({"features": np.zeros(D)}, "features must be positive for at least one feature"),
        ({"features": [1, 2]}, r"features must be of shape \(5,\), one weight a feature"),
        ({"weights": np.ones(3)}, r"weights must be of shape \(60,\), one weight a sample"),
        ({"num_classes": 3}, "each of 3 classes has samples, got none of 2"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        adaboost.fit(*data(), **options)


def test_features_that_are_missing_are_named():
    x, y = data()
    model = adaboost.fit(x, y, num_rounds=ROUNDS)
    with pytest.raises(ValueError, match=r"x must be \(n, d\) with the features of the fit"):
        adaboost.predict(model, x[:, :1])
