"""The filters against scikit-learn and SciPy, on random and on real data."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.feature_selection import chi2, f_classif, f_regression

import jaxfs
from tests.helpers import assert_close, assert_derivatives, rng

SETS = ["random", "breast cancer", "wine", "digits"]


@functools.cache
def data(name: str = "random") -> tuple[np.ndarray, np.ndarray, int]:
    """Nonnegative features, labels and the number of classes."""
    if name == "random":
        y = rng(1).permutation(np.repeat([0, 1, 2], [20, 25, 30]))
        return np.abs(rng(0).normal(size=(75, 6))) + 0.5 * (y == 2)[:, None], y, 3
    load = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name]
    x, y = load(return_X_y=True)
    varies = np.ptp(x, axis=0) > 0  # scikit-learn has NaN for constants
    return x[:, varies], y, int(y.max()) + 1


@pytest.mark.parametrize("name", SETS)
def test_equal_to_scikit_learn(name):
    x, y, c = data(name)
    assert_close(jaxfs.anova_score(x, y, num_classes=c), f_classif(x, y)[0], 1e-11)
    assert_close(jaxfs.chi2_score(x, y, num_classes=c), chi2(x, y)[0], 1e-12)
    target = x[:, 0] - x[:, 1] * y + rng(2).normal(size=len(y)) * x[:, 0].std()
    f = jaxfs.f_regression_score(x, target)
    assert_close(f, f_regression(x, target)[0], 1e-11)
    r = [abs(stats.pearsonr(column, target)[0]) for column in x.T]
    assert_close(jaxfs.pearson_score(x, target), r, 1e-12)


def test_fisher_t_and_variance():
    x, y, _ = data()
    y = (y > 0).astype(int)
    t = stats.ttest_ind(x[y == 0], x[y == 1], equal_var=False)[0]
    assert_close(jaxfs.t_score(x, y), np.abs(t), 1e-12)
    fisher = jaxfs.fisher_score(x, y, num_classes=2)
    assert_close(jaxfs.anova_score(x, y, num_classes=2), fisher * (len(y) - 2), 1e-12)
    pooled = stats.ttest_ind(x[y == 0], x[y == 1])[0]
    assert_close(fisher * (len(y) - 2), pooled**2, 1e-12)
    w = rng(3).uniform(size=len(y))
    spread = np.average((x - np.average(x, axis=0, weights=w)) ** 2, axis=0, weights=w)
    assert_close(jaxfs.variance_score(x, weights=w), spread, 1e-13)


def gini(labels, w):
    p = np.array([w[labels == c].sum() for c in range(3)]) / max(w.sum(), 1e-300)
    return 1 - np.sum(p**2)


@pytest.mark.parametrize("weighted", [False, True])
def test_gini_is_the_best_threshold(weighted):
    x, y, _ = data()
    x = np.round(x, 1)  # ties
    w = rng(4).uniform(0.5, 1.5, len(y)) if weighted else np.ones(len(y))
    expected = []
    for column in x.T:
        gains = []
        for threshold in np.unique(column):
            left = column <= threshold
            parts = [w[s].sum() / w.sum() * gini(y[s], w[s]) for s in (left, ~left)]
            gains.append(gini(y, w) - sum(parts))
        expected.append(max(gains))
    assert_close(jaxfs.gini_score(x, y, num_classes=3, weights=w), expected, 1e-12)


CLASS_SCORES = {
    "fisher": jaxfs.fisher_score,
    "anova": jaxfs.anova_score,
    "t": jaxfs.t_score,
    "chi2": jaxfs.chi2_score,
    "gini": jaxfs.gini_score,
    "pearson": lambda x, y, num_classes, weights=None: jaxfs.pearson_score(x, y, weights=weights),
    "f_regression": lambda x, y, num_classes, weights=None: jaxfs.f_regression_score(
        x, y, weights=weights
    ),
}


@pytest.mark.parametrize("score", CLASS_SCORES.values(), ids=CLASS_SCORES.keys())
def test_degenerate_features_and_extreme_units(score):
    """Constants score 0; units down to 1e-25 and up to 1e25 do not matter to what has none."""
    x, y, _ = data()
    y = (y > 0).astype(int)
    x = np.stack([x[:, 0], np.full(len(y), 0.1), np.zeros(len(y)), x[:, 0]], axis=1)
    answer = np.asarray(score(x.astype("float32"), y, num_classes=2))
    assert np.all(answer[1:3] == 0)
    assert answer[0] == answer[3] > 0
    for unit in (2.0**-80, 2.0**80):
        again = np.asarray(score((x * unit).astype("float32"), y, num_classes=2))
        factor = unit if score is jaxfs.chi2_score else 1
        assert_close(again / factor, answer, 1e-6)


def test_float32_far_from_zero():
    """An offset of ten thousand spreads: what is left of the data gives its float64 score."""
    x, y, _ = data()
    y = (y > 0).astype(int)
    far = (x + 1e4).astype("float32")
    for name, score in CLASS_SCORES.items():
        expected = score(far.astype("float64"), y, num_classes=2)
        tolerance = 1e-5 if name != "gini" else 1e-6
        assert_close(score(far, y, num_classes=2), expected, tolerance)
    assert_close(jaxfs.variance_score(far), jaxfs.variance_score(far.astype("float64")), 1e-5)


def test_classes_that_are_constant_are_told_apart_exactly():
    y = np.repeat([0, 1], 10)
    x = np.stack([np.where(y == 0, 0.1, 0.3), rng(0).normal(size=20)], axis=1)
    for score in (jaxfs.fisher_score, jaxfs.anova_score, jaxfs.t_score):
        answer = np.asarray(score(x, y, num_classes=2))
        assert answer[0] == np.inf
        assert np.isfinite(answer[1])


@pytest.mark.parametrize(
    "score", [jaxfs.fisher_score, jaxfs.t_score, jaxfs.chi2_score, jaxfs.f_regression_score]
)
def test_derivatives_in_data_and_weights(score):
    x, y, _ = data()
    y = (y > 0).astype(int)
    options = {} if score is jaxfs.f_regression_score else {"num_classes": 2}
    assert_derivatives(
        lambda p: score(p[0], y, weights=p[1], **options) @ np.arange(1.0, x.shape[1] + 1),
        (x, rng(5).uniform(0.5, 1.5, len(y))),
        (rng(6).normal(size=x.shape), rng(7).normal(size=len(y))),
        rtol=1e-5,
    )


def test_traced_labels_without_a_class():
    """Out of range and absent: left out, by the weight and by the count of classes."""
    x, y, _ = data()
    strange = np.where(y == 2, 7, y)
    traced = jax.jit(functools.partial(jaxfs.anova_score, num_classes=4))
    few = y < 2
    assert_close(traced(x, strange), f_classif(x[few], y[few])[0], 1e-11)
    assert np.all(np.isnan(traced(x, np.zeros_like(y))))
    negative = x.copy()
    negative[3, 1] = -1.0
    answer = jax.jit(functools.partial(jaxfs.chi2_score, num_classes=3))(negative, y)
    assert np.array_equal(np.isnan(answer), np.arange(x.shape[1]) == 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x, y: jaxfs.chi2_score(-x, y, num_classes=3),
            r"x must be nonnegative .* x\[0, 0\]",
        ),
        (lambda x, y: jaxfs.t_score(x, y, num_classes=3), "num_classes must be 2 for t_score"),
        (lambda x, y: jaxfs.t_score(x, y), "y must be in 0 … 1"),
        (lambda x, y: jaxfs.fisher_score(x, y, num_classes=4), "y must be such that .* none of 3"),
        (lambda x, y: jaxfs.fisher_score(x, y + 0.5, num_classes=3), "y must be integer class"),
        (lambda x, y: jaxfs.pearson_score(x, y[:3]), r"y must be of shape \(75,\), one target"),
        (lambda x, y: jaxfs.gini_score(x[:0], y[:0], num_classes=3), "x must be .* n ≥ 1 samples"),
    ],
)
def test_mistakes_are_named(call, message):
    x, y, _ = data()
    with pytest.raises(ValueError, match=message):
        call(x, y)


# ---- Combination --------------------------------------------------------------------------------

A, B = np.array([3.0, 1.0, 1.0, 0.0]), np.array([10.0, 30.0, 20.0, 0.0])


def test_combinations():
    assert_close(jaxfs.combine_scores(A, B), A / 3 + B / 30, 1e-15)
    ranks = [stats.rankdata(s) for s in (A, B)]
    mean = np.mean([(r - 1) / 3 for r in ranks], axis=0)
    assert_close(jaxfs.combine_scores(A, B, method="mean_rank"), mean, 1e-15)
    fused = sum(1 / (60 + 5 - r) for r in ranks)
    assert_close(jaxfs.combine_scores(A, B, method="reciprocal_rank"), fused, 1e-15)
    early = jaxfs.combine_scores(A, B, method="reciprocal_rank", offset=0.0)
    assert_close(early, sum(1 / (5 - r) for r in ranks), 1e-15)


@pytest.mark.parametrize("method", ["sum", "mean_rank", "reciprocal_rank"])
def test_combinations_of_odd_scores(method):
    combine = functools.partial(jaxfs.combine_scores, method=method)
    constant, holed = np.ones(4), np.array([5.0, np.nan, 1.0, 0.0])
    order = np.argsort(combine(A, B))
    assert np.array_equal(np.argsort(combine(A, B, constant)), order)
    if method == "sum":
        assert np.array_equal(combine(A, B, constant), combine(A, B))
    answer = np.asarray(combine(A, holed))
    assert np.array_equal(np.isnan(answer), [False, True, False, False])
    assert answer[0] > answer[2] > answer[3]
    infinite = np.asarray(combine(np.array([np.inf, 2.0, 1.0, 0.0], "float32")))
    assert np.all(np.isfinite(infinite))
    assert infinite[0] > infinite[1]
    batch = jax.jit(jax.vmap(combine))(np.stack([A, B]), np.stack([B, A]))
    assert_close(batch[0], combine(A, B), 1e-15)
    gradient = jax.grad(lambda a: combine(a, B) @ jnp.arange(4.0))(A)
    assert np.all(np.isfinite(gradient))
    assert np.any(gradient != 0) == (method == "sum")


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ((), {}, "scores must be at least one array"),
        ((A, B[:3]), {}, "scores must be of matching shapes"),
        ((A, B.astype("float32")), {}, "scores must be of one dtype"),
        ((A,), {"method": "product"}, "method must be one of 'sum', 'robust', 'mean_rank'"),
    ],
)
def test_mistakes_of_combinations_are_named(scores, options, message):
    with pytest.raises(ValueError, match=message):
        jaxfs.combine_scores(*scores, **options)
