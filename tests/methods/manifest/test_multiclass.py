"""ManiFeSt of many classes against appendix C, written out in NumPy float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from tests.helpers import assert_close, assert_derivatives, rng, spd
from tests.methods.manifest import oracle
from tests.methods.manifest.test_score import two_classes

X, Y = np.ones((4, 3)), np.array([0, 0, 1, 1])


def three_classes(seed=0, d=6):
    generator = rng(seed)
    x = generator.normal(size=(30, d))
    y = np.arange(30) % 3
    x[y == 1, 1] = x[y == 1, 0]
    return x, y


def test_multiclass_equals_appendix_c():
    x, y = three_classes()
    per_class = [x[y == c] for c in range(3)]
    k = [oracle.rbf_kernel(p, np.median(oracle.feature_distances(p))) + 0.05 * np.eye(6)
         for p in per_class]  # fmt: skip
    expected = oracle.multiclass_spd(k)
    score = jax.tree_util.Partial(jaxfs.manifest_multiclass_score, x, y, num_classes=3, ridge=0.05)
    assert_close(score(aggregate=None), expected, 1e-9)
    assert_close(score(), expected.max(0), 1e-9)
    assert_close(score(aggregate="sum"), expected.sum(0), 1e-9)


@pytest.mark.parametrize("geometry", ["spd", "spsd"])
def test_two_classes_are_the_binary_score(geometry):
    x1, x2 = two_classes(3, d=6)
    x, y = np.concatenate([x1, x2]), np.repeat([0, 1], [len(x1), len(x2)])
    rank = 4 if geometry == "spsd" else None
    options = {"geometry": geometry, "rank": rank}
    forth, back = jaxfs.manifest_score(x1, x2, **options), jaxfs.manifest_score(x2, x1, **options)
    multi = jax.tree_util.Partial(jaxfs.manifest_multiclass_score, x, y, num_classes=2, **options)
    assert_close(multi(aggregate=None), np.stack([forth, back]), 1e-9)
    assert_close(multi(aggregate="max"), np.maximum(forth, back), 1e-9)
    assert_close(multi(aggregate="sum"), np.asarray(forth) + np.asarray(back), 1e-9)


def test_multiclass_semidefinite_is_finite_and_differentiable():
    x, y = three_classes(1)
    score = lambda x: jnp.sum(jaxfs.manifest_multiclass_score(  # noqa: E731
        x, y, num_classes=3, geometry="spsd", rank=3, aggregate="sum", bandwidth=2.0))  # fmt: skip
    direction = jnp.asarray(rng(2).normal(size=x.shape))
    assert_derivatives(score, jnp.asarray(x), direction, step=1e-4)


def test_multiclass_gradient():
    x, y = three_classes(2)
    weight = jnp.asarray(rng(3).normal(size=6))
    score = lambda x: jaxfs.manifest_multiclass_score(  # noqa: E731
        x, y, num_classes=3, aggregate="sum", bandwidth=2.0) @ weight  # fmt: skip
    # The mean is a fixed point to rounding only, which differences magnify: take longer steps.
    direction = jnp.asarray(rng(4).normal(size=x.shape))
    assert_derivatives(score, jnp.asarray(x), direction, step=1e-4)


# ---- Operators and kernels ----------------------------------------------------------------------


def class_kernels(x, y, ridge):
    parts = [x[y == c] for c in range(y.max() + 1)]
    sigmas = [np.median(oracle.feature_distances(part)) for part in parts]
    eye = ridge * np.eye(x.shape[1])
    return np.stack([oracle.rbf_kernel(p, s) + eye for p, s in zip(parts, sigmas, strict=True)])


@pytest.mark.parametrize("num_classes", [2, 3])
def test_operators_equal_appendix_c(num_classes):
    x, y = three_classes(3)
    x, y = x[y < num_classes], y[y < num_classes]
    kernels = class_kernels(x, y, 0.05)
    mean = oracle.karcher_mean(kernels)
    got = jaxfs.manifest_multiclass_operators(x, y, num_classes=num_classes, ridge=0.05)
    assert_close(got.kernels, kernels, 1e-12)
    assert_close(got.mean, mean, 1e-9)
    assert_close(got.differences, np.stack([oracle.log_map(mean, k) for k in kernels]), 1e-9)
    assert_close(got.differences.sum(axis=0), np.zeros_like(mean), 1e-9)


@pytest.mark.parametrize("options", [{}, {"geometry": "spsd", "rank": 3}])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_scores_are_those_of_the_operators(options, num_classes):
    x, y = three_classes(4)
    x, y = x[y < num_classes], y[y < num_classes]
    operators = jaxfs.manifest_multiclass_operators(x, y, num_classes=num_classes, **options)
    scores = jaxfs.manifest_multiclass_score(
        x, y, num_classes=num_classes, aggregate=None, **options
    )
    assert_close(scores, np.stack([oracle.score(d) for d in operators.differences]), 1e-9)


def test_semidefinite_operators_of_two_classes_equal_algorithm_2():
    x, y = three_classes(5)
    x, y = x[y < 2], y[y < 2]
    got = jaxfs.manifest_multiclass_operators(x, y, num_classes=2, geometry="spsd", rank=3)
    first, second = class_kernels(x, y, 0.0)
    assert_close(got.differences[0], oracle.difference_spsd(first, second, 3), 1e-7)
    assert_close(got.differences[1], oracle.difference_spsd(second, first, 3), 1e-7)
    assert np.linalg.matrix_rank(got.mean) == 3


@pytest.mark.parametrize("aggregate", [None, "max", "sum"])
def test_score_from_kernels_equals_appendix_c(aggregate):
    kernels = np.stack([spd(5, seed=seed) for seed in range(4)])
    expected = oracle.multiclass_spd(kernels + 0.1 * np.eye(5))
    reduced = expected if aggregate is None else getattr(expected, aggregate)(axis=0)
    got = jaxfs.manifest_multiclass_from_kernels(kernels, aggregate=aggregate, ridge=0.1)
    assert_close(got, reduced, 1e-9)


def test_score_from_kernels_of_the_data_is_the_score_of_the_data():
    x, y = three_classes(6)
    kernels = class_kernels(x, y, 0.0)
    for options in ({"ridge": 0.02}, {"geometry": "spsd", "rank": 2}):
        got = jaxfs.manifest_multiclass_from_kernels(kernels, **options)
        assert_close(got, jaxfs.manifest_multiclass_score(x, y, num_classes=3, **options), 1e-9)


def test_operators_keep_float32_and_vmap():
    x, y = three_classes(7)
    x = x.astype(np.float32)
    operators = functools.partial(jaxfs.manifest_multiclass_operators, y=y, num_classes=3)
    one, many = operators(x), jax.jit(jax.vmap(operators))(np.stack([x, x[:, ::-1]]))
    assert all(a.dtype == np.float32 for a in one)
    for a, b in zip(one, many, strict=True):
        assert_close(b[0], a, 1e-5)


# ---- Bad input ----------------------------------------------------------------------------------


def test_traced_labels_without_a_class_give_nan():
    x, y = three_classes()
    score = jax.jit(lambda y: jaxfs.manifest_multiclass_score(x, y, num_classes=4))
    assert np.isnan(score(y)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: jaxfs.manifest_multiclass_score(X, Y + 1, num_classes=2),
            r"y must be in 0 … 1 \(num_classes = 2\), got the label 2",
        ),
        (
            lambda: jaxfs.manifest_multiclass_score(X, Y, num_classes=3),
            r"each of 3 classes has samples, got none of 2",
        ),
        (
            lambda: jaxfs.manifest_multiclass_score(X, Y + 2**32, num_classes=2),
            r"y must be in 0 … 1 .*got the label 4294967296",
        ),
        (
            lambda: jaxfs.manifest_multiclass_score(X, Y * 1.0, num_classes=2),
            r"y must be integer class codes, got dtype float64",
        ),
        (
            lambda: jaxfs.manifest_multiclass_score(X, Y, num_classes=2, aggregate="mean"),
            r"aggregate must be one of 'max', 'sum', got 'mean'",
        ),
        (
            lambda: jaxfs.manifest_multiclass_from_kernels(np.eye(3)),
            r"kernels must be an array of 3 dimensions, got shape \(3, 3\)",
        ),
        (
            lambda: jaxfs.manifest_multiclass_from_kernels(np.eye(3)[None]),
            r"kernels must be.*c ≥ 2 classes.*got shape \(1, 3, 3\)",
        ),
        (
            lambda: jaxfs.manifest_multiclass_from_kernels(np.ones((2, 3, 4))),
            r"kernels must be square",
        ),
        (
            lambda: jaxfs.manifest_multiclass_from_kernels(np.ones((2, 3, 3)), aggregate="mean"),
            r"aggregate must be one of 'max', 'sum', got 'mean'",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
