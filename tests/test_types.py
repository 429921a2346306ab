"""Records and static arguments: `jit` never runs the program of another class or function."""

import dataclasses
import importlib
import itertools
import math
import pkgutil
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs._types import Static
from jaxfs.kernels._rbf import Median, Percentile
from jaxfs.methods.ssfs._ssfs import ssfs_plan
from tests.helpers import rng

# ---- No two classes with one tree structure -----------------------------------------------------


def registered_classes() -> dict[str, type]:
    """Every class of the package whose instances are nodes of pytrees."""
    found = {}
    for module in pkgutil.walk_packages(jaxfs.__path__, "jaxfs."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and value.__module__ == module.name:
                instance = filled(value)
                leaf = instance is None or jax.tree_util.treedef_is_leaf(
                    jax.tree.structure(instance)
                )
                if not leaf:
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def filled(cls: type):
    """An instance with 0 in every field, or None if the class has no fields."""
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return cls(*[0] * len(cls._fields))
    if dataclasses.is_dataclass(cls):
        instance = object.__new__(cls)
        for field in dataclasses.fields(cls):
            object.__setattr__(instance, field.name, 0)
        return instance
    return None


def test_no_two_classes_have_one_tree_structure():
    classes = registered_classes()
    assert {"jaxfs.kernels._rbf.Median", "jaxfs.surrogates.models.Ridge"} < set(classes)
    assert any(issubclass(cls, eqx.Module) for cls in classes.values())
    structures = {name: jax.tree.structure(filled(cls)) for name, cls in classes.items()}
    same = [
        (a, b)
        for (a, one), (b, other) in itertools.combinations(structures.items(), 2)
        if one == other
    ]
    assert not same


# ---- Static arguments ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Power:
    """A user's function. By Python's `==`, `Power(0.0)` and `Power(-0.0)` are equal."""

    exponent: float

    def __call__(self, x, y=None, weights=None):
        return jnp.sum(jnp.abs(x), axis=0) * math.copysign(1, self.exponent)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class First:
    """A user's model, written with `register_dataclass`, which JAX provides for this purpose."""

    weight: float = 1.0
    binary_only: ClassVar[bool] = False

    def check(self):
        pass

    def scores(self, x, y, present, binary):
        return jnp.zeros((y.shape[1], x.shape[1]), x.dtype)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Second(First):
    def scores(self, x, y, present, binary):
        return jnp.ones((y.shape[1], x.shape[1]), x.dtype)


SAME = [
    (math.nan, math.nan),
    ((1, "a", None), (1, "a", None)),
    (Power(2.0), Power(2.0)),
    (jax.tree.structure(Median(2.0)), jax.tree.structure(Median(3.0))),
    (jax.tree.structure(First(2.0)), jax.tree.structure(First(3.0))),
]
DIFFERENT = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (np.float32(0.0), np.float32(-0.0)),
    ((1, 2), [1, 2]),
    ((0.0,), (-0.0,)),
    (Power(1), Power(True)),
    (Power(0.0), Power(-0.0)),
    (lambda x: x, lambda x: x),
    (jax.tree.structure(First()), jax.tree.structure(Second())),
    (jax.tree.structure([1, {"a": First()}]), jax.tree.structure([1, {"a": Second()}])),
    (jax.tree.structure(Median()), jax.tree.structure(Percentile(50.0))),
    (jax.tree.structure(Median()), jax.tree.structure(Median(sample=2))),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_what_means_the_same_is_equal(a, b):
    assert Static(a) == Static(b)
    assert hash(Static(a)) == hash(Static(b))


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_what_means_something_else_is_not(a, b):
    assert Static(a) != Static(b)


def test_a_score_is_told_from_an_equal_one():
    """Although -0.0 == 0.0, the second score ranks the features in reverse order."""
    x = rng(0).normal(size=(20, 3)) * np.array([[1, 10, 100]])
    options = {"num_resamples": 2, "fraction": 0.5, "num_features": 1}
    for exponent, best in [(0.0, 2), (-0.0, 0)] * 2:
        answer = jaxfs.stability(jax.random.key(0), Power(exponent), x, **options)
        assert np.argmax(answer.frequencies) == best


def test_a_function_of_a_matrix_is_told_from_an_equal_one():
    def difference(a, b):
        return a + b

    for exponent in (0.0, -0.0):
        answer = jaxfs.linalg.spectral_function(np.eye(1), Sign(exponent), difference)
        assert answer[0, 0] == math.copysign(1, exponent)


@dataclasses.dataclass(frozen=True)
class Sign:
    exponent: float

    def __call__(self, w):
        return w * math.copysign(1, self.exponent)


def test_unhashable_functions_are_named():
    module = eqx.nn.Linear(3, 3, key=jax.random.key(0))
    options = {"num_resamples": 2, "fraction": 0.5, "num_features": 1}
    with pytest.raises(ValueError, match="score must be a function of x, y and weights, hashable"):
        jaxfs.stability(jax.random.key(0), module, np.ones((4, 3)), **options)


@pytest.mark.parametrize("epsilon", [math.nan, 0.0, -1e-3, 1, True])
def test_static_fields_of_modules_are_checked(epsilon):
    with pytest.raises(ValueError, match="epsilon must be a positive float"):
        jaxfs.UniqueFeatureSelector(jnp.ones((3, 2)), epsilon=epsilon)
    with pytest.raises(ValueError, match="num_neighbors must be"):
        jaxfs.KNNGraphLearner(num_neighbors=True)
    with pytest.raises(ValueError, match="num_features must be"):
        jaxfs.FeatureGates(jnp.ones(3), num_features=2.0)


# ---- Models -------------------------------------------------------------------------------------


def wrong_programs(pairs: int, repeats: int = 1) -> int:
    """The number of calls in which `jit` runs the program of the wrong class.

    The calls alternate between two classes of a user. Each pair has its own cache and its own
    `chunk_size`, because two things decide whether `jit` confuses the classes: a hash of all static
    values, and the number of programs in the cache.
    """
    one = jnp.ones((1, 1))
    cases = [(plan(First()), 0.0), (plan(Second()), 1.0)]
    wrong = 0
    for i in range(1, pairs + 1):

        def score(plan):
            return plan.score.scores(one, one, one, False)[0, 0]

        program = jax.jit(score)
        for given, expected in cases * repeats:
            wrong += float(program(dataclasses.replace(given, chunk_size=i))) != expected
    return wrong


def plan(model):
    return ssfs_plan(
        rng(0).normal(size=(6, 3)),
        None,
        num_pseudo_labels=1,
        num_eigenvectors=None,
        standardize=True,
        num_neighbors=2,
        num_passes=1,
        pseudo_labels="binary",
        selection=jaxfs.Stable(num_resamples=2),
        scoring=model,
        ranking="score",
    )[-1]


def test_models_of_a_user_are_told_apart():
    first, second, other = map(
        jax.tree.structure, (plan(First()), plan(Second()), plan(First(2.0)))
    )
    assert first != second
    assert first == other
    assert wrong_programs(50) == 0


@pytest.mark.thorough
def test_models_of_a_user_are_told_apart_in_20_000_calls():
    assert wrong_programs(1_000, repeats=10) == 0
