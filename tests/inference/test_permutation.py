"""Permutation tests against literal NumPy loops, and their arguments."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs.inference import AnovaScore, ReliefFScore, permutation_test, q_values, structure_test
from jaxfs.inference._null import EXCEEDANCES
from jaxfs.inference._relabel import Blocks, random_relabeling
from tests.helpers import assert_close, rng

N, D, B = 24, 5, 99
KEY = jax.random.key(3)
X = rng(0).normal(size=(N, D))
Y = np.arange(N) % 2
X[:, 0] += 2 * Y
NONE = Blocks(None, None, None)


def mean_gap(x, y, w):
    """A score without ties: the squared gap between the weighted class means."""
    w1 = w * y.astype(x.dtype)
    w0 = w - w1
    gap = w1 @ x / jnp.sum(w1) - w0 @ x / jnp.sum(w0)
    return jnp.square(gap)


def numpy_gap(x, y):
    return np.square(x[y == 1].mean(axis=0) - x[y == 0].mean(axis=0))


def labels_drawn(y, blocks=NONE, number=B):
    draw = random_relabeling(blocks, y.shape[0])
    return [y[np.asarray(draw(jax.random.fold_in(KEY, i)))] for i in range(1, number + 1)]


def test_equals_numpy():
    found = permutation_test(KEY, mean_gap, X, Y, num_permutations=B, chunk_size=7)
    observed = numpy_gap(X, Y)
    null = np.stack([numpy_gap(X, y) for y in labels_drawn(Y)])
    p = (1 + (null >= observed - 1e-12).sum(axis=0)) / (1 + B)
    fwer = (1 + (null.max(axis=1)[:, None] >= observed - 1e-12).sum(axis=0)) / (1 + B)
    assert_close(found.scores, observed, 1e-10)
    assert_close(found.null_mean, null.mean(axis=0), 1e-10)
    assert_close(found.null_deviation, null.std(axis=0, ddof=1), 1e-10)
    assert_close(found.z, (observed - null.mean(axis=0)) / null.std(axis=0, ddof=1), 1e-9)
    assert_close(found.p_values, p, 1e-12)
    assert_close(found.fwer_p_values, fwer, 1e-12)
    assert_close(found.q_values, q_values(p), 1e-12)
    assert int(found.num_permutations) == B
    assert float(found.p_values.min()) > 0


def test_chunks_jit_and_keys():
    one = permutation_test(KEY, mean_gap, X, Y, num_permutations=B, chunk_size=7)
    jitted = jax.jit(lambda x, y: permutation_test(KEY, mean_gap, x, y, num_permutations=B))
    for other in (jitted(X, Y), permutation_test(KEY, mean_gap, X, Y, num_permutations=B)):
        assert_close(other.p_values, one.p_values, 1e-12)
        assert_close(other.null_deviation, one.null_deviation, 1e-9)
    stack = jnp.stack([jnp.asarray(X), -2 * jnp.asarray(X)])
    many = jax.vmap(lambda x: permutation_test(KEY, mean_gap, x, Y, num_permutations=B))(stack)
    assert_close(many.p_values, jnp.stack([one.p_values] * 2), 1e-12)
    assert_close(jitted(X, Y).p_values, jitted(X, Y).p_values, 0)


def test_sequential_equals_numpy():
    found = permutation_test(
        KEY, mean_gap, X, Y, num_permutations=199, sequential=True, chunk_size=16
    )
    observed = numpy_gap(X, Y)
    null = np.stack([numpy_gap(X, y) for y in labels_drawn(Y, number=199)])

    def besag_clifford(exceed):
        total = np.cumsum(exceed)
        reached = np.flatnonzero(total == EXCEEDANCES)
        return EXCEEDANCES / (reached[0] + 1) if reached.size else (1 + total[-1]) / 200

    top = null.max(axis=1)
    assert_close(
        found.p_values, [besag_clifford(null[:, j] >= observed[j]) for j in range(D)], 1e-12
    )
    assert_close(found.fwer_p_values, [besag_clifford(top >= observed[j]) for j in range(D)], 1e-12)


def test_sequential_stops():
    noise = rng(5).normal(size=(N, D))
    found = permutation_test(KEY, mean_gap, noise, Y, num_permutations=10**5, sequential=True)
    assert int(found.num_permutations) < 10**4


def test_few_relabelings_are_enumerated():
    x, y = X[:6], np.array([0, 0, 0, 1, 1, 1])
    found = permutation_test(KEY, mean_gap, x, y, num_permutations=999)
    every = [np.isin(np.arange(6), c).astype(int) for c in itertools.combinations(range(6), 3)]
    null = np.stack([numpy_gap(x, labels) for labels in every])
    assert int(found.num_permutations) == 19
    assert_close(found.p_values, (null >= numpy_gap(x, y) - 1e-12).mean(axis=0), 1e-12)


def test_enumeration_in_groups_and_strata():
    x, groups = rng(1).normal(size=(12, 3)), np.repeat(np.arange(6), 2)
    labels, strata = np.array([0, 1, 1, 0, 0, 1]), np.array([0, 0, 0, 1, 1, 1])
    options = {"groups": groups, "strata": strata[groups]}
    found = permutation_test(KEY, mean_gap, x, labels[groups], **options)
    every = [
        np.array(a + b)[groups]
        for a in sorted(set(itertools.permutations([0, 1, 1])))
        for b in sorted(set(itertools.permutations([0, 0, 1])))
    ]
    null = np.stack([numpy_gap(x, y) for y in every])
    expected = (null >= numpy_gap(x, labels[groups]) - 1e-12).mean(axis=0)
    assert int(found.num_permutations) == len(every) - 1 == 8
    assert_close(found.p_values, expected, 1e-12)


def test_random_relabelings_keep_groups_and_strata():
    groups = rng(2).integers(0, 12, size=40) * 7 - 3
    strata = groups % 2
    y = groups  # every group has a label of its own
    present = np.arange(40) != 5
    blocks = Blocks(jnp.asarray(groups), jnp.asarray(strata), jnp.asarray(present))
    drawn = np.stack(labels_drawn(y, blocks, 50))
    for new in drawn:
        assert new[5] == y[5]
        whole = {g: set(new[(groups == g) & present]) for g in set(groups[present])}
        assert all(len(values) == 1 for values in whole.values())
        assert sorted(v for values in whole.values() for v in values) == sorted(whole)
        assert np.all(new[present] % 2 == strata[present])
    assert len({tuple(new) for new in drawn}) > 40


def test_relabelings_are_uniform():
    y = np.arange(4)
    _, counts = np.unique(np.stack(labels_drawn(y, number=2400)), axis=0, return_counts=True)
    assert counts.shape == (24,)
    assert counts.min() > 60
    assert counts.max() < 140


@pytest.mark.parametrize("n", [2, 256, 300, 600])
def test_draws_are_permutations(n):
    """One sort of pairs, or two or three sorts of packed numbers, depending on n."""
    drawn = np.stack(labels_drawn(np.arange(n), number=40))
    assert (np.sort(drawn, axis=1) == np.arange(n)).all()
    # Under uniform draws, the mean of i · π(i) has this deviation (Hoeffding's theorem).
    centred = np.arange(n) - (n - 1) / 2
    deviation = np.sum(centred**2) / np.sqrt(n - 1)
    assert abs(np.mean(drawn @ centred)) < 5 * deviation / np.sqrt(40)
    assert len({tuple(row) for row in drawn}) == (2 if n == 2 else 40)


def test_nan_scores_leave_the_others():
    def score(x, y, w):
        return mean_gap(x, y, w).at[1].set(jnp.nan)

    found = permutation_test(KEY, score, X, Y, num_permutations=B)
    plain = permutation_test(KEY, mean_gap, np.delete(X, 1, axis=1), Y, num_permutations=B)
    for name in ("p_values", "fwer_p_values", "q_values", "null_mean"):
        values = np.asarray(getattr(found, name))
        assert np.isnan(values[1])
        assert_close(np.delete(values, 1), getattr(plain, name), 1e-10)


def test_padding_has_no_effect_on_the_score():
    x = np.vstack([X, np.full((3, D), np.nan)])
    y, w = np.append(Y, [0, 1, 0]), np.append(np.ones(N), np.zeros(3))
    found = permutation_test(KEY, AnovaScore(2), x, y, weights=w, num_permutations=B)
    assert_close(found.scores, jaxfs.anova_score(X, Y, num_classes=2), 1e-9)
    assert float(found.p_values[0]) <= 0.05


@pytest.mark.parametrize("classes", [2, 3])
def test_anova_of_many_labels(classes):
    score, y = AnovaScore(classes), rng(1).integers(0, classes, size=(3, N))
    w = rng(2).uniform(size=N)
    found = score.given(jnp.asarray(X + 100), jnp.asarray(w))(jnp.asarray(y))
    assert_close(found, np.stack([score(X + 100, one, w) for one in y]), 1e-9)


@pytest.mark.parametrize("candidates", [None, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_relieff_of_many_labels(candidates, weighted):
    n = 40
    x = rng(4).normal(size=(n, 6))
    y = rng(5).integers(0, 3, size=(3, n))
    y[2, :4] = (-1, 3, 7, -1)  # labels out of range: absent samples
    w = rng(6).integers(0, 3, size=n).astype(float) if weighted else np.ones(n)
    score = ReliefFScore(3, num_neighbors=3, num_candidates=candidates)
    expected = jax.jit(score.__call__)  # traced labels are not checked
    found = score.given(jnp.asarray(x), jnp.asarray(w))(jnp.asarray(y))
    assert_close(found, np.stack([expected(x, one, w) for one in y]), 1e-10)


@pytest.mark.parametrize("kind", ["duplicates", "constants", "tiny class", "many features"])
def test_relieff_of_many_labels_in_float32(kind):
    n, d = (12, 300) if kind == "many features" else (40, 6)
    x = rng(7).normal(size=(n, d)).astype(np.float32)
    y = np.stack([rng(seed).permutation(np.arange(n) % 2) for seed in range(3)])
    if kind == "duplicates":
        x = np.repeat(x[:10], 4, axis=0)
    elif kind == "constants":
        x[:, 2], x[:, 3] = 5, 1e6
    elif kind == "tiny class":
        y = (np.arange(n)[None] == np.array([[3], [4], [5]])).astype(int)
    score, w = ReliefFScore(2), jnp.ones(n, jnp.float32)
    found = score.given(jnp.asarray(x), w)(jnp.asarray(y))
    assert found.dtype == jnp.float32
    expected = jax.vmap(score.__call__, (None, 0, None))(x, y, w)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_structure_test():
    x = rng(7).normal(size=(40, 4))
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]

    def score(x, y, w):
        z = (x - jnp.mean(x, axis=0, keepdims=True)) / jnp.std(x, axis=0, keepdims=True)
        return jnp.sum(jnp.square(z.T @ z / x.shape[0]), axis=0)

    found = structure_test(KEY, score, x, num_permutations=B)
    assert np.all(np.asarray(found.p_values[:2]) == 1 / (1 + B))
    assert float(found.p_values[2:].min()) > 0.01


def test_q_values():
    p = rng(0).uniform(size=50) ** 3
    order = np.sort(p)
    for method, factor in (("bh", 1.0), ("by", np.sum(1 / np.arange(1, 51)))):
        expected = [
            min(1.0, min(factor * 50 * order[j] / (j + 1) for j in range(50) if order[j] >= value))
            for value in p
        ]
        assert_close(q_values(p, method=method), expected, 1e-12)
    with_nan = np.append(p, np.nan)
    assert_close(q_values(with_nan)[:-1], q_values(p), 1e-12)
    assert np.isnan(q_values(with_nan)[-1])


BAD = {
    "labels differ in a group": ({"groups": np.arange(N) // 2}, "constant within each group"),
    "one group": ({"groups": np.zeros(N, int), "y": np.zeros(N, int)}, "different between groups"),
    "one class": ({"y": np.zeros(N, int)}, "different between samples"),
    "strata": ({"strata": np.arange(N)}, "different between samples of a stratum"),
    "float groups": ({"groups": X[:, 0]}, "groups must be integers"),
    "no permutation": ({"num_permutations": 0}, "num_permutations"),
    "correction": ({"correction": "bonferroni"}, "correction must be one of"),
    "chunk": ({"chunk_size": 0}, "chunk_size"),
    "short labels": ({"y": Y[:3]}, "one label a sample"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments(options, message):
    y = options.get("y", Y)
    options = {name: value for name, value in options.items() if name != "y"}
    with pytest.raises(ValueError, match=message):
        permutation_test(KEY, mean_gap, X, y, **options)


def test_score_of_wrong_shape():
    with pytest.raises(ValueError, match="one score a feature"):
        permutation_test(KEY, lambda x, y, w: x, X, Y)
