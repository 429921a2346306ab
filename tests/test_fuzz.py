"""Calls of every public function with random arguments: good, degenerate and wrong.

A call must return, or raise a documented error. The tests fail for any other exception, for a call
that does not end, for a chosen feature whose objective is NaN, and for a finite result if the input
contains NaN. `fuzz_recipes.py` has the arguments.
"""

import collections
import inspect
import os
import re
import threading
import warnings
import zlib
from pkgutil import resolve_name

import jax
import numpy as np
import pytest

import jaxfs
import jaxfs.estimators
import jaxfs.plot
from tests.fuzz_recipes import CALLS, GOOD, SPECIAL
from tests.test_docs import documented

#: Number of calls of each function, with x64 on and again with x64 off, in the thorough run.
NUMBER = int(os.environ.get("JAXFS_FUZZ", "18"))
#: Maximum duration of a call in seconds. The slowest calls compile for about ten seconds.
LIMIT = 180
#: Numbers of samples and features. Most cases have the same shape, because every other shape has to
#: be compiled.
SHAPES = ((12, 5),) * 12 + ((5, 24), (2, 5), (1, 5), (12, 1))


def is_record(thing) -> bool:
    """Whether a name is not to be called: a module, or a class of results without methods."""
    results = (tuple, jaxfs.KnockoffSelection, jaxfs.StabilitySelection)
    return inspect.ismodule(thing) or (isinstance(thing, type) and issubclass(thing, results))


NAMES = sorted(
    name for name in documented() if not is_record(resolve_name(name)) and "._" not in name
)


# ---- Values that spoil a good one ---------------------------------------------------------------

WRONG = (
    None,
    "nonsense",
    -1,
    0,
    2.5,
    float("nan"),
    float("inf"),
    -0.5,
    True,
    1j,
    (),
    {},
    object(),
    "",
    [[1.0], [2.0, 3.0]],
    np.ones(3),
    np.zeros((0, 5)),
    np.ones((12, 0)),
    np.ones((2, 3, 4)),
    np.array(["a", "b"]),
    np.array([1, None]),
)
#: Arguments that the size of the data limits; they are also tested with 10**9.
HUGE = ("num_classes", "num_clusters", "num_features", "k", "rank", "num_neighbors", "num_nonzero")


def changed_shape(a, rng):
    return (a[None], a[:-1], a[:0], a[..., None], a.ravel()[0], np.concatenate([a, a]))[
        rng.integers(6)
    ]


def changed_type(a, rng):
    return (
        a.astype(complex),
        a.astype(str),
        a.astype(object),
        a.astype(np.float16),
        a.astype(np.longdouble),
        np.ma.masked_array(a, np.zeros(a.shape, bool)),
        a.astype("datetime64[s]") if a.dtype.kind == "i" else a > 0,
    )[rng.integers(7)]


def degenerate(a, rng):
    """A degenerate array of numbers. A function must accept it, or refuse it with a message."""
    kind = rng.integers(18)
    if a.dtype.kind in "iub":
        return (
            np.zeros_like(a),
            a + np.ones_like(a),
            a.astype(float),
            a.astype(np.uint8),
            a.astype(np.int64) + 2**32,
            a > 0,
            a.tolist(),
            -a.astype(int),
            np.where(np.arange(len(a)) == 0, np.nan, a.astype(float)) if a.ndim == 1 else a,
        )[kind % 9]
    b = a.astype(np.float64)
    large, small = (1e150, 1e-150) if a.dtype == np.float64 else (1e30, 1e-30)
    b.flat[0] = {0: np.nan, 1: np.nan, 2: np.inf, 3: -np.inf}.get(int(kind), b.flat[0])
    b = {
        4: np.zeros_like(b),
        5: np.full_like(b, 7.0),
        6: b * large,
        7: b * small,
        8: b * 1e300,
        9: -b,
        10: np.round(b),
        11: np.sign(b),
    }.get(int(kind), b)
    if kind == 12 and b.ndim == 2:
        b = np.repeat(b[:1], len(b), axis=0)
    if kind == 13 and b.ndim == 2:
        b[:, -1] = b[:, 0]
    if kind == 14:
        b = b * np.logspace(-12, 12, b.shape[-1])
    if kind == 15:
        return (1e10 * b).astype(np.int64)
    if kind == 16:
        return b.astype(np.float32)
    return b.tolist() if kind == 17 else b.astype(a.dtype) if kind != 8 else b


class Case:
    """The arguments of one call; at most one of them is replaced by a degenerate or wrong value."""

    def __init__(self, name, seed, dtype, tmp, mode):
        self.rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        self.n, self.d = SHAPES[self.rng.integers(len(SHAPES)) if mode == "any" else 0]
        self.dtype, self.tmp, self.mode = dtype, tmp, mode
        self.drawn: dict[str, object] = {}
        # The position of the argument to replace; none is replaced if the call has fewer arguments.
        number = arity(name) if mode == "wrong" else 5
        self.spoil = int(self.rng.integers(number)) if mode != "good" else -1
        self.nan = False

    def value(self, name, good):
        """A good value, or its replacement if this argument is to be replaced."""
        out = good(self)
        if len(self.drawn) == self.spoil:
            out = self.spoiled(name, out)
        self.drawn[name] = out
        return out

    def options(self, good):
        """At most one of the optional arguments `good`, chosen at random."""
        if not good or self.mode == "good" or self.rng.uniform() < 0.6:
            return {}
        name = list(good)[self.rng.integers(len(good))]
        self.spoil = len(self.drawn) if self.mode == "wrong" else self.spoil
        return {name: self.value(name, good[name])}

    def spoiled(self, name, out):
        rng, is_array = self.rng, isinstance(out, np.ndarray)
        if is_array and self.mode == "any" and rng.uniform() < 0.7:
            out = degenerate(out, rng)
            kind = np.asarray(out).dtype.kind
            self.nan = kind == "f" and bool(np.isnan(np.asarray(out)).any())
            return out
        if is_array and rng.uniform() < 0.6:
            return (changed_shape, changed_type)[rng.integers(2)](out, rng)
        if name in HUGE and rng.uniform() < 0.3:
            return 10**9
        return WRONG[rng.integers(len(WRONG))]


def arity(name) -> int:
    parameters = inspect.signature(resolve_name(name)).parameters.values()
    return 1 if name in CALLS else max(1, sum(p.default is p.empty for p in parameters))


def call_of(name):
    """A function that makes the call for a case, from `CALLS` or from the signature."""
    if name in CALLS:
        return CALLS[name]
    function, recipe = resolve_name(name), GOOD | SPECIAL.get(name, {})
    parameters = inspect.signature(function).parameters.values()

    def call(c):
        needed = [p.name for p in parameters if p.default is p.empty]
        optional = [p.name for p in parameters if p.default is not p.empty]
        given = {p: c.value(p, recipe[p]) for p in needed}
        return function(**given, **c.options({p: recipe[p] for p in optional}))

    return call


# ---- What must hold -----------------------------------------------------------------------------

#: Accepted messages: `name must be …, got …`, messages of scikit-learn, and unreadable files.
REFUSAL = re.compile(r" must be .*, got |needs at least|cannot be read as", re.DOTALL)
#: Functions that may return finite numbers for input with NaN, and the reason.
NAN_IS_DATA = {
    "jaxfs.distributed.bucket": "copies arrays",
    "jaxfs.distributed.unbucket": "copies arrays",
    "jaxfs.adaboost.predict": "−1 for a sample with NaN",
    "jaxfs.adaboost.fit": "a threshold of NaN is never exceeded",
    "jaxfs.graphs.nearest_neighbors": "a sample with NaN is not a neighbour of any sample",
    "jaxfs.streaming.from_blocks": "makes a source",
    "jaxfs.streaming.Source": "makes a source",
    "jaxfs.geometry.spsd.rank": "a number of finite eigenvalues",
} | {
    f"jaxfs.estimators.{name}": "takes no labels"
    for name in ("LaplacianScore", "SPEC", "MCFS", "SSFS", "DirichletGraphSelector")
}


def fault(name, case, outcome) -> str | None:
    """A description of what is wrong with a result or an exception; None if it is right."""
    if isinstance(outcome, BaseException):
        ok = isinstance(outcome, (ValueError, TypeError, MemoryError))
        in_words = "estimators" in name or isinstance(outcome, MemoryError)
        in_words = in_words or REFUSAL.search(str(outcome))
        return None if ok and in_words and str(outcome) else f"{type(outcome).__name__}: {outcome}"
    if isinstance(outcome, jaxfs.Selection):
        chosen = np.asarray(outcome.indices) >= 0
        if np.any(np.isnan(np.asarray(outcome.objective)[chosen])):
            return f"NaN next to a chosen feature: {outcome}"
    leaves = [np.asarray(a) for a in jax.tree.leaves(outcome) if hasattr(a, "dtype")]
    floats = [a for a in leaves if a.dtype.kind == "f"]
    known = floats and all(np.all(np.isfinite(a)) for a in floats)
    if case.nan and known and name not in NAN_IS_DATA:
        return "a finite answer to NaN"
    return None


def run(name, seed, wide, tmp, mode):
    """Make one call in a separate thread, so that a call that does not end is detected."""
    case = Case(name, seed, np.float64 if wide else np.float32, tmp, mode)
    outcome: list[object] = []

    def work():
        users = jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow")
        with jax.enable_x64(wide), users[0], users[1], warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcome.append(jax.block_until_ready(call_of(name)(case)))
            except BaseException as error:
                outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT)
    wrong = fault(name, case, outcome[0]) if outcome else f"no answer after {LIMIT} s"
    shown = {k: repr(v)[:200] for k, v in case.drawn.items()}
    assert wrong is None, f"{wrong}\n{name} seed {seed}, x64 {wide}, {mode}: {shown}"
    return outcome[0]


def test_every_parameter_has_a_recipe():
    missing = collections.defaultdict(list)
    for name in set(NAMES) - set(CALLS):
        for p in inspect.signature(resolve_name(name)).parameters:
            if p not in GOOD | SPECIAL.get(name, {}):
                missing[name].append(p)
    assert not missing, dict(missing)
    assert (SPECIAL.keys() | CALLS.keys()) - set(NAMES) == set(), "recipes of no public name"


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_named(name, tmp_path):
    """Tested with x64 off. A refused call needs no compilation, so this test is fast."""
    for seed in range(2):
        run(name, seed, False, tmp_path, "wrong")


def elsewhere(name: str) -> bool:
    """Whether the contract tests already run a function, or what it calls, with x64 off."""
    return name.startswith("jaxfs.estimators.") or name.endswith(
        ("_score", "_select", "jaxfs.ssfs")
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.thorough if elsewhere(name) else ()) for name in NAMES],
)
def test_good_arguments_are_taken(name, tmp_path):
    """Every public function accepts good arguments with x64 off, which is JAX's default."""
    assert not isinstance(answer := run(name, 0, False, tmp_path, "good"), BaseException), answer


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [False, True], ids=["x64 off", "x64 on"])
@pytest.mark.parametrize("name", NAMES)
def test_any_arguments(name, wide, tmp_path):
    for seed in range(NUMBER):
        run(name, 1000 + seed, wide, tmp_path, "any")
