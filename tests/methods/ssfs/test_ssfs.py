"""SSFS against its oracle, its ablations, and what it must not stumble over."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs.resample import subsample_masks
from jaxfs.surrogates.models import BoostedTrees, Logistic, Ridge
from tests.helpers import assert_close, rng
from tests.methods.ssfs import oracle

KEY = jax.random.key(0)
N, P, K, B = 30, 9, 2, 12
STABLE = jaxfs.Stable(num_resamples=B)
PAPER = {"selection": STABLE, "scoring": "boosting", "ranking": "score"}


@functools.cache
def data() -> np.ndarray:
    """Two overlapping partitions in features 0 … 3, noise in the others, of several scales."""
    r = rng(5)
    x = r.normal(size=(N, P))
    x[:, :2] += 4 * (np.arange(N) % 2)[:, None]
    x[:, 2:4] += 4 * (np.arange(N) % 3 == 0)[:, None]
    return x * np.logspace(-1, 2, P) + 3.0


def standard_data() -> np.ndarray:
    return oracle.standardized(data())


@functools.partial(jax.jit, static_argnames=("dtype", "options"))
def _run(x, mask, dtype, options):
    return jaxfs.ssfs(KEY, x.astype(dtype), num_pseudo_labels=K, mask=mask, **dict(options))


def run(x=None, mask=None, dtype="float64", **options):
    """The paper's rules, but for `options`; one program for each set of them."""
    x = data() if x is None else x
    mask = np.ones(len(x)) if mask is None else mask
    return _run(x, mask, dtype, tuple(sorted((PAPER | options).items())))


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ("binary", "float32"),
        ("binary", "float64"),
        pytest.param("continuous", "float32", marks=pytest.mark.thorough),
        ("continuous", "float64"),
    ],
)
def test_oracle(labels, dtype):
    binary = labels == "binary"
    x = oracle.standardized(data())
    values, vectors = oracle.eigenpairs(x, 2 * K)
    got = run(dtype=dtype, pseudo_labels=labels)
    tolerance = {"float32": 2e-3, "float64": 1e-6}[dtype]
    assert got.scores.dtype == dtype
    assert_close(got.eigenvalues, values, tolerance)
    assert_close(
        np.abs(np.sum(vectors * np.asarray(got.eigenvectors), axis=0)), np.ones(2 * K), tolerance
    )

    y = np.asarray(got.eigenvectors, np.float64)  # with its signs
    if binary:
        y = np.stack([oracle.two_medoids(v) for v in y.T], axis=1).astype(int)
        np.testing.assert_array_equal(got.pseudo_labels, y)
    masks = np.asarray(subsample_masks(KEY, B, N))
    expected = [oracle.instability(x, label, masks, binary) for label in y.T]
    assert_close(got.criterion, expected, 10 * tolerance)
    np.testing.assert_array_equal(got.selected, np.argsort(expected)[:K])

    each = np.stack([oracle.gains(x, y[:, i], binary) for i in np.asarray(got.selected)])
    assert_close(got.scores_per_eigenvector, each, tolerance)
    score = each.max(axis=0)
    assert_close(np.where(score > 0, np.asarray(got.scores), 0), score, tolerance)


def test_features_without_a_part_are_ordered_by_correlation():
    got = run(rng(0).normal(size=(N, 40)), selection="leading")
    score = np.asarray(got.scores_per_eigenvector.max(axis=0))
    v = np.asarray(got.eigenvectors)[:, np.asarray(got.selected)]
    x = rng(0).normal(size=(N, 40))
    second = np.square(np.corrcoef(x.T, v.T)[:40, 40:]).sum(axis=1)
    unused = score == 0
    assert 5 < unused.sum() < 35
    np.testing.assert_array_equal(np.asarray(got.scores)[~unused], score[~unused])
    rest = np.asarray(got.scores)[unused]
    assert rest.max() < score[~unused].min()
    np.testing.assert_array_equal(np.argsort(rest), np.argsort(second[unused]))


#: Options of small programs, for what does not depend on how eigenvectors are chosen or scored.
LEADING = {"selection": "leading", "scoring": "correlation"}


def test_correlation():
    got = run(**LEADING)
    v = np.asarray(got.eigenvectors)[:, np.asarray(got.selected)]
    expected = np.square(np.corrcoef(data().T, v.T)[:P, P:])
    assert_close(got.scores_per_eigenvector, expected.T, 1e-10)
    assert_close(got.scores, expected.sum(axis=1), 1e-10)


def test_diverse():
    x = data().copy()
    x[:, P - 1] = x[:, 0]  # a duplicate of the first feature
    plain = run(x, **LEADING).scores
    got = run(x, **LEADING, ranking="diverse").scores
    c2 = np.square(np.corrcoef(x.T))
    expected, left = np.zeros(P), list(range(P))
    for _ in range(P):
        taken = [m for m in range(P) if m not in left]
        worth = [plain[m] * (1 - max((c2[m, t] for t in taken), default=0) + 0.001) for m in left]
        best = int(np.argmax(worth))
        expected[left.pop(best)] = worth[best]
    assert_close(got, expected, 1e-9)
    assert got[P - 1] < 0.01 * got[0]


def test_leading():
    got = run(selection="leading")
    np.testing.assert_array_equal(got.selected, np.arange(K))
    np.testing.assert_array_equal(got.criterion, got.eigenvalues)


#: The defaults.
PREDICTABLE = {"selection": "predictability", "scoring": "correlation", "ranking": "diverse"}


def test_predictability():
    got = run(**PREDICTABLE)
    x = oracle.standardized(data())
    distance = np.square(x[:, None] - x[None]).sum(axis=2) + 1e9 * np.eye(N)
    near = np.argsort(distance, axis=1)[:, :5]
    for label, criterion in zip(np.asarray(got.pseudo_labels).T, got.criterion, strict=True):
        right = (label[near].mean(axis=1) > 0.5) == label
        balanced = (right[label == 0].mean() + right[label == 1].mean()) / 2
        assert float(criterion) == pytest.approx(1 - balanced, abs=1e-12)
    np.testing.assert_array_equal(got.selected, np.argsort(got.criterion, kind="stable")[:K])


@pytest.mark.parametrize("name", ["logistic", "ridge"])
def test_linear_scores(name):
    got = run(scoring=name, selection="leading")
    x = oracle.standardized(data())
    for i, each in zip(np.asarray(got.selected), got.scores_per_eigenvector, strict=True):
        y = np.asarray(got.pseudo_labels)[:, i]
        expected = oracle.fitted(
            x, y if name == "logistic" else y.astype(float), name == "logistic"
        )
        assert_close(each, expected, 1e-5)


def test_settings_of_models():
    """A name is the model with its defaults; other settings change the answer, traced or not."""
    named = run(scoring="logistic", selection="leading")
    same = run(scoring=Logistic(), selection="leading")
    np.testing.assert_array_equal(named.scores, same.scores)
    named = run(scoring="correlation", selection=jaxfs.Stable("ridge", B))
    same = run(scoring="correlation", selection=jaxfs.Stable(Ridge(alpha=1.0), B))
    np.testing.assert_array_equal(named.criterion, same.criterion)

    @jax.jit
    def at(c):
        model = Logistic(c=c)
        return jaxfs.ssfs(
            KEY, data(), num_pseudo_labels=K, selection="leading", scoring=model
        ).scores_per_eigenvector

    assert np.max(np.abs(at(0.01) - at(1.0))) > 1e-3
    assert np.all(np.isnan(at(-1.0)))  # traced, it cannot be refused
    few = run(scoring=BoostedTrees(num_trees=1, max_depth=1), selection="leading")
    assert np.all(np.sum(few.scores_per_eigenvector > 0, axis=1) <= 1)


def test_deterministic():
    a, b = run(), run()
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_padding():
    """NaN where the mask is 0 changes nothing, the resamples included."""
    x, where = np.full((N + 5, P), np.nan), np.arange(N + 5) % 7 != 3
    x[where] = data()
    got, plain = run(x, where), run()
    np.testing.assert_array_equal(got.selected, plain.selected)
    assert_close(got.criterion, plain.criterion, 1e-6)
    assert_close(got.scores, plain.scores, 1e-9)
    np.testing.assert_array_equal(np.asarray(got.pseudo_labels)[where], plain.pseudo_labels)
    assert np.all(np.asarray(got.eigenvectors)[~where] == 0)


def test_vmap():
    many = np.stack([data(), data()[:, ::-1]])
    batched = jax.vmap(run)(many)
    for i, x in enumerate(many):
        assert_close(batched.scores[i], run(x).scores, 1e-9)


@pytest.mark.parametrize(
    ("ranking", "dtype"),
    [
        pytest.param("score", "float32", marks=pytest.mark.thorough),
        ("score", "float64"),
        ("diverse", "float32"),
        pytest.param("diverse", "float64", marks=pytest.mark.thorough),
    ],
)
def test_constant_and_duplicate_features(ranking, dtype):
    """Numbers whose mean is not themselves, when it is rounded."""
    constants = np.tile([0.1, 1 / 3, 0.7, 1e6], (N, 1))
    x = np.concatenate([constants, data(), data()[:, :1]], axis=1)
    scores = np.asarray(run(x, ranking=ranking, dtype=dtype).scores)
    assert np.all(scores[:4] == 0)
    assert np.all(np.isfinite(scores))


@pytest.mark.parametrize("scale", [1e20, 1e-22])
def test_units_do_not_matter(scale):
    options = LEADING | {"dtype": "float32"}
    got, plain = run(data() * scale, **options), run(**options)
    assert_close(got.scores, plain.scores, 1e-4)


def test_a_large_offset():
    """float32 keeps the digits that the data have."""
    x = (1e5 + standard_data()).astype(np.float32)
    assert_close(run(x, dtype="float32", **LEADING).scores, run(x, **LEADING).scores, 1e-3)


def test_duplicate_samples():
    """σ_i = 0 where a sample stands three times; all samples equal is the extreme."""
    x = data().copy()
    x[1] = x[2] = x[0]
    got = run(x)
    assert np.all(np.isfinite(got.scores))
    assert np.max(got.scores) > 0
    for options in ({}, PREDICTABLE):
        same = run(np.ones((N, P)), **options)
        assert np.all(np.asarray(same.scores) == 0)


def test_a_single_sample_on_one_side():
    """Resamples without it have no model: its label counts the others."""
    x = np.concatenate([data()[:, :4], np.zeros((N, P - 4))], axis=1)
    x[7] += 60.0
    got = run(x)
    alone = np.asarray(got.pseudo_labels).sum(axis=0)
    assert np.any((alone == 1) | (alone == N - 1))
    assert np.all(np.isfinite(got.criterion))
    assert np.all(np.isfinite(got.scores))


def test_four_samples():
    x = data()[:4]
    few = jaxfs.Stable(num_resamples=4, fraction=0.75)
    got = jaxfs.ssfs(KEY, x, num_pseudo_labels=1, **PAPER | {"selection": few})
    assert np.all(np.isfinite(got.scores))
    assert np.all(np.isfinite(jaxfs.ssfs(KEY, x, num_pseudo_labels=3).scores))


def test_defaults():
    """Informative features first; the key plays no part."""
    got = jaxfs.ssfs(KEY, data(), num_pseudo_labels=K)
    assert set(np.argsort(got.scores)[-2:]) <= {0, 1, 2, 3}
    other = jaxfs.ssfs(jax.random.key(1), data(), num_pseudo_labels=K)
    jax.tree.map(np.testing.assert_array_equal, got, other)
    explicit = run(**PREDICTABLE)
    assert_close(got.scores, explicit.scores, 1e-12)


def six_clusters():
    """Without an edge between them: five eigenvalues 0, of which three are kept."""
    centres = 40 * rng(0).normal(size=(6, 1, 8))
    return (centres + rng(1).normal(size=(6, 6, 8))).reshape(36, 8)


def ring():
    """Eigenvalues in pairs, of which one vector is kept."""
    t = 2 * np.pi * np.arange(24) / 24
    return np.stack([np.cos(t), np.sin(t), 0.5 * np.cos(2 * t), 0.2 * np.sin(3 * t)], axis=1)


def equal_clusters():
    one = rng(2).normal(size=(12, 5))
    return np.concatenate([one, one + np.array([60, 0, 0, 0, 0])])


@pytest.mark.parametrize(
    ("x", "k"),
    [
        (six_clusters(), 3),
        (ring(), 1),
        pytest.param(equal_clusters(), 2, marks=pytest.mark.thorough),
    ],
)
def test_the_order_of_the_samples_does_not_matter(x, k):
    """Where eigenvalues repeat, too: their vectors have a basis that the data fix."""
    score = jax.jit(lambda x: jaxfs.ssfs(KEY, x, num_pseudo_labels=k).scores)
    expected = score(x)
    for seed in range(4):
        assert_close(score(x[rng(seed).permutation(len(x))]), expected, 1e-6)
    if k == 3:
        single = score(x.astype("float32"))
        again = score(x[rng(0).permutation(len(x))].astype("float32"))
        assert_close(again, single, 1e-3)


def test_nan_is_passed_on():
    x = data().copy()
    x[3, 4] = np.nan
    got = run(x)
    for name in ("scores", "eigenvalues", "eigenvectors", "criterion", "scores_per_eigenvector"):
        assert np.all(np.isnan(getattr(got, name))), name
    assert np.all(got.selected == -1)
    few = run(mask=np.arange(N) < 3)
    assert np.all(np.isnan(few.scores))


def test_a_mask_that_leaves_fewer_samples_than_eigenvectors():
    got = jaxfs.ssfs(KEY, data(), num_pseudo_labels=3, mask=np.arange(N) < 6)
    alone = jaxfs.ssfs(KEY, data()[:6], num_pseudo_labels=3)
    assert got.eigenvalues.shape == alone.eigenvalues.shape == (5,)
    assert_close(got.scores, alone.scores, 1e-9)


def test_gradients_are_zero():
    def total(x):
        return jnp.sum(
            jaxfs.ssfs(KEY, x, num_pseudo_labels=1, selection="leading", scoring="ridge").scores
        )

    assert np.all(np.asarray(jax.grad(total)(jnp.asarray(data()))) == 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones((3, 5))}, r"x must be \(n, p\) with n ≥ 4 samples"),
        ({"x": np.ones(5)}, "x must"),
        ({"num_pseudo_labels": 0}, r"num_pseudo_labels must be an integer in \[1, 29\], got 0"),
        ({"num_pseudo_labels": 2.0}, "num_pseudo_labels must be an integer, got 2.0"),
        ({"num_eigenvectors": 30}, r"num_eigenvectors must be an integer in \[2, 29\], got 30"),
        ({"num_eigenvectors": 1}, r"num_eigenvectors must be an integer in \[2, 29\], got 1"),
        ({"mask": np.arange(N) < 3}, "mask must be true for at least 4 samples, got 3"),
        (
            {"num_neighbors": 8, "mask": np.arange(N) < 8},
            "mask must be true for at least 9 samples",
        ),
        ({"selection": jaxfs.Stable(Logistic(c=-1.0))}, "c must be positive, got -1.0"),
        ({"selection": jaxfs.Stable(Ridge(alpha=0))}, "alpha must be positive, got 0"),
        ({"scoring": BoostedTrees(l2=-5.0)}, "l2 must be at least 0, got -5.0"),
        ({"scoring": BoostedTrees(num_trees=0)}, "num_trees must be at least 1, got 0"),
        ({"num_neighbors": 30}, r"num_neighbors must be an integer in \[1, 29\], got 30"),
        ({"num_neighbors": (2, 30)}, r"num_neighbors must be an integer in \[1, 29\], got 30"),
        ({"num_neighbors": ()}, r"num_neighbors must be an integer"),
        ({"num_passes": 0}, "num_passes must be at least 1, got 0"),
        ({"pseudo_labels": "ternary"}, "pseudo_labels must be one of 'binary', 'continuous'"),
        (
            {"selection": "none"},
            "selection must be one of 'stability', 'predictability', 'leading'",
        ),
        ({"selection": jaxfs.Leading}, "selection must be one of 'stability', 'predictability'"),
        ({"selection": jaxfs.Stable("boosting")}, "model must be one of 'logistic', 'ridge'"),
        ({"selection": jaxfs.Stable(BoostedTrees())}, "model must be one of 'logistic', 'ridge'"),
        ({"selection": jaxfs.Stable(Logistic)}, "model must be one of 'logistic', 'ridge', or"),
        ({"scoring": "xgboost"}, "scoring must be one of 'boosting', 'logistic'"),
        (
            {"scoring": "logistic", "pseudo_labels": "continuous"},
            "scoring must be a regression for continuous pseudo-labels",
        ),
        ({"ranking": "divers"}, "ranking must be one of 'diverse', 'score', got 'divers'"),
        ({"standardize": "yes"}, "standardize must be True or False, got 'yes'"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {"x": data(), "num_pseudo_labels": K} | change
    with pytest.raises(ValueError, match=message):
        jaxfs.ssfs(KEY, **arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_resamples": 1}, "num_resamples must be at least 2, got 1"),
        ({"num_resamples": 2.0}, "num_resamples must be an integer, got 2.0"),
        ({"fraction": 1.5}, r"fraction must be in \(0, 1\], got 1.5"),
        ({"fraction": np.nan}, r"fraction must be in \(0, 1\], got nan"),
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
    ],
)
def test_mistakes_in_records_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        jaxfs.Stable(**options)


def test_records_mean_the_same_exactly_if_they_are_equal():
    assert jaxfs.Stable(fraction=1) == jaxfs.Stable(fraction=np.float32(1))
    assert hash(jaxfs.Stable(fraction=1)) == hash(jaxfs.Stable(fraction=np.float32(1)))
    assert jaxfs.Stable(fraction=0.1) != jaxfs.Stable(fraction=np.float32(0.1))
    assert jaxfs.Stable("ridge") != jaxfs.Stable("logistic")
    assert jaxfs.Predictable() != jaxfs.Leading()  # neither has a field
    assert hash(jaxfs.Predictable()) == hash(jaxfs.Predictable())


def test_a_traced_fraction():
    """It is no constant: one program serves all."""

    @jax.jit
    def criterion(fraction):
        stable = jaxfs.Stable("ridge", 4, fraction)
        options = {"selection": stable, "pseudo_labels": "continuous", "ranking": "score"}
        return jaxfs.ssfs(KEY, data(), num_pseudo_labels=1, **options).criterion

    half, most = criterion(0.5), criterion(0.95)
    assert np.all(np.asarray(half) > np.asarray(most))


def wide_data() -> np.ndarray:
    """150 features, so that a second pass leaves out 50."""
    return np.concatenate([data(), rng(6).normal(size=(N, 141))], axis=1)


def test_the_scores_of_several_graphs_add_up():
    options = {"selection": "predictability", "scoring": "correlation"}
    one, other, both = (run(num_neighbors=q, **options) for q in (2, 5, (2, 5)))
    assert_close(both.scores, one.scores + other.scores, 1e-9)
    assert both.eigenvectors.shape == (N, 4 * K)
    np.testing.assert_array_equal(both.selected, [*one.selected, *(other.selected + 2 * K)])


def test_a_second_pass_builds_the_graph_from_the_best_features():
    x = wide_data()
    options = {"selection": "predictability", "scoring": "correlation"}
    first = run(x, ranking="diverse", **options)
    columns = np.argsort(-np.asarray(first.scores), kind="stable")[:100]
    inside = run(x[:, columns], **options)
    both = run(x, ranking="diverse", num_passes=2, **options)
    # The order of the columns changes the rounding of the distances.
    assert_close(both.eigenvalues, inside.eigenvalues, 1e-9)
    vectors = np.asarray(inside.eigenvectors)[:, np.asarray(inside.selected)]
    expected = np.corrcoef(vectors.T, oracle.standardized(x).T)[:K, K:] ** 2
    assert_close(both.scores_per_eigenvector, expected, 1e-9)


def test_the_estimator_makes_the_same_passes():
    x = wide_data().astype(np.float32)
    found = jaxfs.estimators.SSFS(n_pseudo_labels=K, n_neighbors=(2, 5), n_passes=2).fit(x)
    expected = jaxfs.ssfs(KEY, x, num_pseudo_labels=K, num_neighbors=(2, 5), num_passes=2)
    assert_close(found.scores_, expected.scores, 1e-3)
