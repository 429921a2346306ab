"""GC and GKL against formulas from scratch; what they promise on copies, constants, few samples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import jaxfs
from tests.helpers import assert_close, assert_derivatives, rng
from tests.methods.gaussian import oracle

CRITERIA = [
    (jaxfs.gc_select, jaxfs.gc_objective, oracle.gc, "mi"),
    (jaxfs.gc_select, jaxfs.gc_objective, oracle.gc, "entropy"),
    (jaxfs.gkl_select, jaxfs.gkl_objective, oracle.gkl, "mi"),
    (jaxfs.gkl_select, jaxfs.gkl_objective, oracle.gkl, "entropy"),
]
every_criterion = pytest.mark.parametrize(
    ("select", "objective_of", "formula", "objective"),
    CRITERIA,
    ids=["GC.MI", "GC.E", "GKL.MI", "GKL.E"],
)
both_selectors = pytest.mark.parametrize("select", [jaxfs.gc_select, jaxfs.gkl_select])
K = 12


def mixture(seed: int, n: int = 300, d: int = 16, num_classes: int = 3, apart: float = 0.3):
    """Correlated features, classes of other means and spreads and unequal sizes."""
    r = rng(seed)
    y = r.choice(num_classes, n, p=r.dirichlet(5 * np.ones(num_classes)))
    turn = r.normal(size=(num_classes, d, d)) / d + np.eye(d)
    x = np.einsum("nd,nde->ne", r.normal(size=(n, d)), turn[y])
    return x * r.uniform(0.5, 2, d) + apart * r.normal(size=(num_classes, d))[y], y


@functools.cache
def dataset(name: str):
    """x, y and a ridge; some real ones with a spread of the features' own, none equal."""
    if name.startswith("mixture"):
        seed = int(name.split()[1])
        num_classes = 2 + seed % 3
        x, y = mixture(seed, num_classes=num_classes, apart=0.1 + 0.1 * seed)
        return x, y, [0.0, 0.05][seed % 2]
    loaders = {"breast": load_breast_cancer, "wine": load_wine, "iris": load_iris}
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        return x[::4, 8:40] / 16, y[::4], 0.01
    x, y = loaders[name](return_X_y=True)
    return x / x.std(axis=0) * np.linspace(0.5, 2, x.shape[1]), y, 0.1


NAMES = [*(f"mixture {seed}" for seed in range(7)), "breast", "wine", "iris", "digits"]
#: Two, three and four classes, without and with a ridge; and images.
ALWAYS = ("mixture 0", "mixture 1", "mixture 2", "digits")


def best_next(p, mix, score, chosen, d):
    """The largest value that one more feature can reach; and of it, whether GC is saturated."""
    left = [j for j in range(d) if j not in chosen]
    saturated = all(oracle.saturated(p, mix, [*chosen, j]) for j in left)
    return max(score([*chosen, j]) for j in left), saturated


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ALWAYS else pytest.mark.thorough) for n in NAMES]
)
@every_criterion
def test_selects_what_the_formulas_select(select, objective_of, formula, objective, name):
    """Every step, given those before: float64 to 1e-10, float32 to its rounding."""
    x, y, ridge = dataset(name)
    num_classes, d = y.max() + 1, x.shape[1]
    k = 6 if name == "digits" else min(K, d)
    p, mix = oracle.groups(x, y, num_classes, ridge)
    options = {"num_classes": num_classes, "objective": objective, "ridge": ridge}
    compromise = select is jaxfs.gc_select

    def score(features):
        return formula(p, mix, features, objective)

    def fallback(features):
        return oracle.wilks(p, mix, features)

    dtypes = [("float64", 1e-10)] + [("float32", 2e-5)] * (name != "mixture 0")
    for dtype, tolerance in dtypes:
        got = select(x.astype(dtype), y, k, **options)
        assert got.objective.dtype == dtype
        chosen, at = np.asarray(got.indices).tolist(), int(got.saturated_at)
        assert len(set(chosen)) == k
        for step in range(k):
            before, after = chosen[:step], chosen[: step + 1]
            best, saturated = best_next(p, mix, score if step < at else fallback, before, d)
            value = score(after) if step < at else fallback(after)
            assert value >= best - tolerance * max(1, abs(best)), f"step {step}, {dtype}"
            if compromise and step <= at and dtype == "float64":
                assert saturated == (step == at)
            np.testing.assert_allclose(
                got.objective[step], score(after), rtol=10 * tolerance, atol=10 * tolerance
            )
    if name != "mixture 2":
        subset = objective_of(x, y, chosen, **options)
        np.testing.assert_allclose(subset, score(chosen), atol=1e-9, rtol=1e-9)


@both_selectors
def test_shrinkage_and_weights(select):
    x, y = mixture(1)
    weights = rng(2).integers(0, 4, len(y)).astype(float)
    formula = oracle.gc if select is jaxfs.gc_select else oracle.gkl
    p, mix = oracle.groups(x, y, 3, 0.1, 0.3, weights)
    expected, values, _ = oracle.greedy(lambda s: formula(p, mix, s, "mi"), 6, x.shape[1])
    got = select(x, y, 6, num_classes=3, objective="mi", ridge=0.1, shrinkage=0.3, weights=weights)
    np.testing.assert_array_equal(got.indices, expected)
    np.testing.assert_allclose(got.objective, values, rtol=1e-9)


@both_selectors
def test_the_default_ridge_is_in_the_units_of_each_feature(select):
    """0.1 of the kurtosis times the variance, and a shrinkage of 0.3."""
    x, y = mixture(3)
    x = np.sign(x) * np.abs(x) ** np.linspace(0.5, 2, 16) * np.logspace(-3, 3, 16)
    x[:, 5] = 7.0
    p, mix = oracle.groups(x, y, 3, oracle.default_ridge(x), 0.3)
    formula = oracle.gc if select is jaxfs.gc_select else oracle.gkl
    varying = [j for j in range(16) if j != 5]
    places, values, _ = oracle.greedy(
        lambda s: formula(p, mix, [varying[j] for j in s], "mi"), 5, len(varying)
    )
    got = select(x, y, 5, num_classes=3, objective="mi")
    np.testing.assert_array_equal(got.indices, [varying[j] for j in places])
    np.testing.assert_allclose(got.objective, values, rtol=1e-9)
    objective_of = jaxfs.gc_objective if select is jaxfs.gc_select else jaxfs.gkl_objective
    value = objective_of(x, y, got.indices, num_classes=3, objective="mi")
    np.testing.assert_allclose(value, values[-1], rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@both_selectors
def test_units_do_not_matter_to_the_default(select, dtype):
    """Not those of noise either, whose variance may be larger than that of all others together."""
    options = {"num_classes": 3, "objective": "mi"}
    for seed in (30, 31):
        x, y = mixture(seed, n=120)
        expected = select(x.astype(dtype), y, 8, **options)
        powers = rng(seed).integers(-10, 11, 16)
        exact = select((x * 2.0**powers).astype(dtype), y, 8, **options)
        np.testing.assert_array_equal(exact.indices, expected.indices)
        np.testing.assert_array_equal(exact.objective, expected.objective)
        for units in (10.0 ** rng(seed).choice([-3, 0, 3], 16), np.where(np.arange(16), 1, 1000)):
            got = select((x * units).astype(dtype), y, 8, **options)
            np.testing.assert_array_equal(got.indices, expected.indices)


@both_selectors
def test_rare_values_are_not_taken_for_information(select):
    """A feature at rest in all but a few samples has no variance in most classes."""
    x, y = mixture(32, n=400, d=6, num_classes=4, apart=1.0)
    rare = np.zeros((400, 10))
    for j in range(10):
        rare[np.flatnonzero(y == j % 4)[j : j + 2], j] = 1.0
    got = select(np.concatenate([rare, x], axis=1), y, 6, num_classes=4, objective="mi")
    assert sorted(np.asarray(got.indices).tolist()) == list(range(10, 16))


def synthetic(key, n: int):
    """Section 5.1: X2 tells the class only with X1, X5 only with X4; X3 is noise."""
    y = jax.random.bernoulli(jax.random.fold_in(key, 0), 0.5, (n,))
    z = jax.random.normal(jax.random.fold_in(key, 1), (n, 5))
    one = y.astype(z.dtype)
    sign = 2 * one - 1
    x1, x4 = z[:, 0] + 0.1 * one, z[:, 3] + 0.1 * one
    columns = [x1, sign * x1 + z[:, 1], z[:, 2], x4, sign * x4 + z[:, 4]]
    return jnp.stack(columns, axis=1), y.astype(jnp.int32)


@pytest.mark.parametrize(
    ("select", "objective", "first"),
    [
        (jaxfs.gc_select, "mi", (0, 3)),
        (jaxfs.gkl_select, "mi", (0, 3)),
        (jaxfs.gkl_select, "entropy", (1, 4)),
    ],
    ids=["GC.MI", "GKL.MI", "GKL.E"],
)
def test_jointly_informative_pairs_are_found(select, objective, first):
    """Section 5.1, vmapped over data sets; 200 sets of 25 000 are in `benchmarks/papers/`."""

    @jax.jit
    @jax.vmap
    def run(key):
        x, y = synthetic(key, 10_000)
        return select(x, y, 5, num_classes=2, objective=objective, ridge=0.0).indices

    orders = np.asarray(run(jax.random.split(jax.random.key(0), 8)))
    partner = {0: 1, 1: 0, 3: 4, 4: 3}
    assert np.mean(np.isin(orders[:, 0], first)) >= 0.75
    for order in orders:
        assert order[1] == partner[order[0]]
        assert order[-1] == 2


# ---- Saturation and the fallback ----------------------------------------------------------------


def easy(num_classes: int = 3, n: int = 240, d: int = 8):
    """Classes so far apart that a few features say everything."""
    r = rng(5)
    y = np.arange(n) % num_classes
    return r.normal(size=(n, d)) + 8 * r.normal(size=(num_classes, d))[y], y


def test_saturation_is_reported_and_wilks_goes_on():
    x, y = easy()
    got = jaxfs.gc_select(x, y, 6, num_classes=3, ridge=0.01)
    at = int(got.saturated_at)
    assert 1 <= at < 6
    p, mix = oracle.groups(x, y, 3, 0.01)
    chosen = np.asarray(got.indices).tolist()
    for step in range(6):
        left = [j for j in range(x.shape[1]) if j not in chosen[:step]]
        is_saturated = all(oracle.saturated(p, mix, [*chosen[:step], j]) for j in left)
        assert is_saturated == (step >= at)
        if step >= at:
            values = [oracle.wilks(p, mix, [*chosen[:step], j]) for j in left]
            assert chosen[step] == left[int(np.argmax(values))]
    entropy_of_labels = np.log(3)
    np.testing.assert_allclose(got.objective[at:], entropy_of_labels, rtol=1e-12)


def test_the_other_fallbacks():
    x, y = easy()
    options = {"num_classes": 3, "ridge": 0.01}
    wilks = jaxfs.gc_select(x, y, 6, **options)
    at = int(wilks.saturated_at)
    stopped = jaxfs.gc_select(x, y, 6, fallback="stop", **options)
    np.testing.assert_array_equal(stopped.indices[:at], wilks.indices[:at])
    assert np.all(stopped.indices[at:] == -1)
    assert np.all(np.isnan(stopped.objective[at:]))
    random = [
        jaxfs.gc_select(x, y, 6, fallback="random", key=jax.random.key(seed), **options).indices
        for seed in range(4)
    ]
    assert all(np.array_equal(r[:at], wilks.indices[:at]) for r in random)
    assert all(len(set(r.tolist())) == 6 for r in random)
    assert len({tuple(r.tolist()) for r in random}) > 1


# ---- Copies, constants, few samples -------------------------------------------------------------


@pytest.mark.parametrize(
    ("ridge", "dtype"), [(0.0, "float64"), (0.01, "float32"), (1.0, "float64"), (None, "float32")]
)
@both_selectors
def test_copies_come_last_and_constants_never(select, ridge, dtype):
    x, y = mixture(7, n=400, d=9)
    x[:, 3] = 2.5
    x[:, 4], x[:, 5], x[:, 6] = x[:, 0], -3 * x[:, 0] + 1, x[:, 1]
    alike = [{0, 4, 5}, {1, 6}]
    got = np.asarray(select(x.astype(dtype), y, 8, num_classes=3, ridge=ridge).indices).tolist()
    assert 3 not in got
    for group in alike:
        assert len(group & set(got[:5])) == 1
    if ridge == 0.0:
        assert got[5:] == [-1, -1, -1]
    else:
        assert sorted(got) == [0, 1, 2, 4, 5, 6, 7, 8]


@both_selectors
def test_fewer_samples_than_features(select):
    x, y = mixture(8, n=18, d=40)
    got = select(x, y, 20, num_classes=3)
    assert len(set(np.asarray(got.indices).tolist())) == 20
    assert np.all(np.isfinite(got.objective))
    with pytest.raises(ValueError, match="ridge must be positive to select 20 features, more than"):
        select(x, y, 20, num_classes=3, ridge=0.0)
    with pytest.raises(ValueError, match=r"more than the rank 15 of a covariance, got 0\.0"):
        select(x, y, 20, num_classes=3, ridge=0.0, shrinkage=0.5)
    assert np.all(select(x, y, 12, num_classes=3, ridge=0.0, shrinkage=0.5).indices >= 0)


@both_selectors
def test_far_from_the_origin(select):
    """A common offset of 10⁴ standard deviations costs float32 a few digits, not the answer."""
    x, y = mixture(9)
    expected = select(x, y, 6, num_classes=3, ridge=0.1)
    got = select((x + 1e4).astype("float32"), y, 6, num_classes=3, ridge=0.1)
    np.testing.assert_array_equal(got.indices, expected.indices)
    assert_close(got.objective, expected.objective, 2e-3)


@both_selectors
def test_initial_features_come_first(select):
    x, y = mixture(10)
    got = select(x, y, 5, num_classes=3, ridge=0.1, initial=[7, 2])
    assert np.asarray(got.indices[:2]).tolist() == [7, 2]
    assert len(set(np.asarray(got.indices).tolist())) == 5
    objective_of = jaxfs.gc_objective if select is jaxfs.gc_select else jaxfs.gkl_objective
    value = objective_of(x, y, got.indices, num_classes=3, ridge=0.1)
    np.testing.assert_allclose(got.objective[-1], value, rtol=1e-9)


@both_selectors
@pytest.mark.parametrize(("ridge", "objective"), [(0.0, "mi"), (0.1, "entropy")])
def test_a_class_that_is_traced_and_absent_does_not_count(select, objective, ridge):
    x, y = mixture(11, num_classes=2)

    @functools.partial(jax.jit, static_argnums=2)
    def run(x, y, num_classes):
        return select(x, y, 5, num_classes=num_classes, ridge=ridge, objective=objective)

    absent, never = run(x, y, 3), run(x, y, 2)
    np.testing.assert_array_equal(absent.indices, never.indices)
    np.testing.assert_allclose(absent.objective, never.objective, rtol=1e-9)


@both_selectors
def test_scale_does_not_matter_to_the_default(select):
    """In float32 the squares of variances over- and underflow long before they themselves do."""
    x, y = mixture(16, d=9)
    x[:, 8] = x[:, 4]
    expected = np.asarray(select(x.astype("float32"), y, 6, num_classes=3).indices)
    assert not {4, 8} <= set(expected.tolist())
    for scale in (1e-11, 1e10):
        got = select((scale * x).astype("float32"), y, 6, num_classes=3)
        np.testing.assert_array_equal(got.indices, expected)


@both_selectors
def test_overflow_is_not_ranked(select):
    x, y = mixture(16, d=9)
    x[:, 2] *= 1e20
    got = select(x.astype("float32"), y, 4, num_classes=3, ridge=0.1)
    assert np.all(got.indices == -1)
    assert np.all(np.isnan(got.objective))


@both_selectors
def test_traced_options_out_of_range_select_nothing(select):
    x, y = mixture(16, d=9)
    run = jax.jit(lambda r, s: select(x, y, 3, num_classes=3, ridge=r, shrinkage=s).indices)
    for ridge, shrinkage in ((-1.0, 0.0), (0.1, 2.0), (0.1, np.nan)):
        assert np.all(run(ridge, shrinkage) == -1)
    assert np.all(run(0.1, 0.0) >= 0)


def test_classes_far_apart_in_float32():
    """The covariance of the rest must not be what is left of two large numbers."""
    x, y = mixture(17, d=6)
    x[y == 0, 3] += 1e3
    options = {"num_classes": 3, "ridge": 0.01, "objective": "mi"}
    single, double = (
        jaxfs.gkl_select(x.astype(t), y, 4, **options) for t in ("float32", "float64")
    )
    np.testing.assert_array_equal(single.indices, double.indices)
    np.testing.assert_allclose(single.objective, double.objective, rtol=1e-3)


@both_selectors
def test_equal_features_are_taken_lowest_first(select):
    for seed in range(6):
        base, y = mixture(20 + seed, n=60, d=7)
        x = np.concatenate([base, base, base], axis=1)
        got = np.asarray(select(x, y, 7, num_classes=3).indices)
        assert sorted(got) == list(range(7))


def test_running_out_of_candidates_is_not_saturation():
    x, y = mixture(7, n=400, d=6)
    x[:, 4], x[:, 5] = x[:, 0], x[:, 1]
    got = jaxfs.gc_select(x, y, 6, num_classes=3, ridge=0.0)
    assert np.asarray(got.indices)[4:].tolist() == [-1, -1]
    assert got.saturated_at == 6


@both_selectors
def test_many_classes(select):
    """More classes than a product with their indicator is worth."""
    x, y = mixture(18, n=800, d=5, num_classes=40)
    y[:40] = np.arange(40)
    p, mix = oracle.groups(x, y, 40, 0.5, 0.2)
    formula = oracle.gc if select is jaxfs.gc_select else oracle.gkl
    expected, values, _ = oracle.greedy(lambda s: formula(p, mix, s, "mi"), 3, 5)
    got = select(x, y, 3, num_classes=40, ridge=0.5, shrinkage=0.2, objective="mi")
    np.testing.assert_array_equal(got.indices, expected)
    np.testing.assert_allclose(got.objective, values, rtol=1e-9)


def test_the_objective_of_no_feature_is_nan():
    x, y = mixture(19)
    for value in (jaxfs.gc_objective, jaxfs.gkl_objective):
        run = jax.jit(lambda i, value=value: value(x, y, i, num_classes=3))
        assert np.isnan(run(np.array([0, -1])))
        assert np.isfinite(run(np.array([0, 1])))


@pytest.mark.parametrize("objective_of", [jaxfs.gc_objective, jaxfs.gkl_objective])
def test_objectives_are_differentiable(objective_of):
    x, y = mixture(12, n=60, d=5)
    direction = rng(1).normal(size=x.shape)

    def value(arguments):
        x, ridge, shrinkage, weights = arguments
        return objective_of(
            x, y, [0, 3, 4], num_classes=3, ridge=ridge, shrinkage=shrinkage, weights=weights
        )

    at = (x, 0.1, 0.2, np.linspace(1, 2, 60))
    assert_derivatives(value, at, (direction, 1.0, -1.0, rng(2).normal(size=60)), rtol=1e-6)


@both_selectors
def test_the_objective_reached_is_differentiable(select):
    x, y = mixture(12, n=60, d=5)

    def reached(x):
        return select(x, y, 3, num_classes=3, ridge=0.1).objective[-1]

    assert_derivatives(reached, x, rng(1).normal(size=x.shape), rtol=1e-5)


# ---- Mistakes -----------------------------------------------------------------------------------


@both_selectors
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_features": 16}, "num_features must be at most 15, the features that vary, got 16"),
        ({"num_features": 17}, r"num_features must be an integer in \[1, 16\], got 17"),
        ({"num_features": 0}, "num_features must be an integer in"),
        ({"y": np.full(300, 3)}, r"y must be in 0 … 2 \(num_classes = 3\), got the label 3"),
        ({"y": np.zeros(300, int)}, "y must be such that each of 3 classes has samples"),
        ({"ridge": -0.1}, "ridge must be at least 0, got -0.1"),
        ({"ridge": "big"}, "ridge must be a real number, got 'big'"),
        ({"shrinkage": 1.5}, r"shrinkage must be in \[0, 1\], got 1.5"),
        ({"objective": "MI"}, "objective must be one of 'mi', 'entropy', got 'MI'"),
        ({"num_classes": 1}, "num_classes must be at least 2, got 1"),
        ({"initial": [3, 3]}, r"initial must be distinct features in 0 … 15, got \[3, 3\]"),
        ({"initial": [16]}, "initial must be distinct features in 0 … 15"),
        ({"initial": [0.5]}, "initial must be a vector of 1 to 4 feature indices"),
        ({"weights": np.zeros(300)}, "weights must be positive for at least one sample"),
    ],
)
def test_mistakes_are_named(select, change, message):
    x, y = mixture(13)
    x[:, 0] = 1.0
    arguments = {"x": x, "y": y, "num_features": 4, "num_classes": 3} | change
    with pytest.raises(ValueError, match=message):
        select(**arguments)


def test_one_sample_in_a_class_needs_a_ridge():
    x, y = mixture(14, num_classes=2)
    y[:] = 0
    y[0] = 1
    with pytest.raises(ValueError, match="ridge must be positive to select 2 features"):
        jaxfs.gc_select(x, y, 2, num_classes=2, ridge=0.0)
    assert np.all(jaxfs.gc_select(x, y, 2, num_classes=2).indices >= 0)


def test_fallback_and_key_belong_together():
    x, y = mixture(15)
    with pytest.raises(ValueError, match="fallback must be one of 'wilks', 'random', 'stop'"):
        jaxfs.gc_select(x, y, 2, num_classes=3, fallback="none")
    for options in ({"fallback": "random"}, {"key": jax.random.key(0)}):
        with pytest.raises(ValueError, match="key must be given exactly if fallback"):
            jaxfs.gc_select(x, y, 2, num_classes=3, **options)
