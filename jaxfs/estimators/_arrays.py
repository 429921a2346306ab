"""The data that estimators receive, pass to the core, and return.

Callers pass data frames, or arrays of any library. `read` checks them and returns `PaddedData` in
the form that the core expects. `Namespace` converts results to the library and device of the
caller.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import narwhals as nw
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array
from sklearn.base import BaseEstimator
from sklearn.utils import _array_api, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from jaxfs import _checks
from jaxfs._checks import listed

#: Function of scikit-learn that compares the libraries of `fit` and `transform`, from 1.9 on.
check_same_namespace = getattr(_array_api, "check_same_namespace", lambda *_, **__: None)
#: Libraries whose arrays have no `__array_namespace__`.
_WITHOUT_NAMESPACE = ("torch", "cupy")
#: Number of samples from which data are not padded: computing then takes longer than compiling.
_LARGE = 4096
_DTYPES = (None, "float32", "float64")


class Namespace(NamedTuple):
    """The library and device of a caller's array."""

    xp: Any
    device: Any

    def asarray(self, values: np.ndarray) -> Any:
        """Return a NumPy array as an array of this library, on this device, with the same dtype."""
        with jax.enable_x64(True):  # otherwise JAX may narrow 64-bit dtypes to 32 bits
            # Copy the values: PyTorch would share their memory, which may be read-only.
            return self.xp.asarray(np.array(values), device=self.device)

    def columns(self, x: Any, indices: np.ndarray) -> Any:
        """Return the columns `indices` of an array of this library."""
        if self.xp.__name__ == "torch":
            return self.xp.index_select(x, 1, self.asarray(indices))
        return self.xp.take(x, self.asarray(indices), axis=1)


def namespace(x: Any) -> Namespace | None:
    """Return the library and device of an array; `None` for NumPy arrays, lists and frames."""
    library = type(x).__module__.split(".")[0]
    if library in _WITHOUT_NAMESPACE:
        return Namespace(sys.modules[library], x.device)
    if isinstance(x, (np.ndarray, np.generic)) or not hasattr(x, "__array_namespace__"):
        return None
    device = getattr(x, "sharding", None) if isinstance(x, jax.Array) else x.device
    if isinstance(device, NamedSharding):  # results are vectors, replicated on every device
        device = NamedSharding(device.mesh, PartitionSpec())
    return Namespace(x.__array_namespace__(), device)


def to_numpy(x: Any) -> Any:
    """Return an array of any library as a NumPy array; lists and frames are returned unchanged."""
    if namespace(x) is None:
        return x
    if hasattr(x, "detach"):
        x = x.detach().cpu()
    elif type(x).__module__.split(".")[0] == "cupy":
        x = x.get()
    try:
        out = np.from_dlpack(x)
    except (AttributeError, BufferError, RuntimeError, TypeError):  # another device or dtype
        out = np.asarray(x)
    # Half-precision extension types such as bfloat16 have kind "V" in NumPy.
    return out.astype(np.float32) if out.dtype.kind == "V" else out


def check_columns(x: Any) -> None:
    """Raise `ValueError` with the names of the columns of a frame that are not numeric."""
    if not nw.dependencies.is_into_dataframe(x):
        return
    try:
        frame = nw.from_native(x, eager_only=True)
        schema = frame.schema
    except Exception:  # scikit-learn reports duplicate names and names that are not strings
        return

    def numeric(name: str, dtype: nw.dtypes.DType) -> bool:
        if dtype != nw.Object:
            return dtype.is_numeric() or dtype == nw.Boolean
        column = frame[name].to_numpy()
        try:
            column.astype(np.float64)
        except (TypeError, ValueError):
            return False
        return not any(isinstance(value, str) for value in column)

    bad = [f"{name!r} ({dtype})" for name, dtype in schema.items() if not numeric(name, dtype)]
    if bad:
        raise ValueError(f"X has columns that are not numbers: {listed(bad)}; encode or drop them")


def check_finite(x: np.ndarray, estimator: BaseEstimator, where: str = "") -> None:
    """Raise `ValueError` with the numbers of NaN and infinite values in each column, by name."""
    with np.errstate(all="ignore"):
        # If the sum is finite, all values are. The sum of finite values can overflow, so otherwise
        # the values are counted.
        if x.dtype.kind != "f" or np.isfinite(np.sum(x, dtype=np.float64)):
            return
    counts = {"NaN": np.isnan(x).sum(axis=0), "infinite": np.isinf(x).sum(axis=0)}
    parts = []
    for j in np.flatnonzero(sum(counts.values())).tolist():
        found = [f"{count[j]} {kind}" for kind, count in counts.items() if count[j]]
        parts.append(f"{column_name(estimator, j)} ({', '.join(found)})")
    if parts:
        raise ValueError(
            f"Input X contains NaN or infinity: {listed(parts)}, of {x.shape[0]} rows. "
            f"{type(estimator).__name__}{where} does not accept missing values: impute them or drop"
            " those columns or rows first"
        )


def checked_weights(sample_weight: Any, n: int, dtype: np.dtype) -> np.ndarray:
    """Return sample weights `(n,)` as NumPy array, checked to be finite and nonnegative."""
    _checks.unmasked(sample_weight, "sample_weight")
    weights = np.asarray(to_numpy(sample_weight), dtype)
    if weights.shape != (n,):
        expected = f"of shape ({n},), one weight a sample"
        raise _checks.fail("sample_weight", expected, f"shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise _checks.fail("sample_weight", "finite and nonnegative", weights.min())
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def column_name(estimator: BaseEstimator, j: int) -> str:
    """Return the name of column j for a message."""
    names = getattr(estimator, "feature_names_in_", None)
    return f"column {j}" if names is None else repr(str(names[j]))


@dataclasses.dataclass(frozen=True)
class PaddedData:
    """Samples `values (n, d)` and, for supervised methods, a target `(n,)`; padded for the core.

    The target holds class codes 0 … `num_classes` − 1. For a numeric target, `num_classes` is 0.

    The folds of a cross-validation differ by one or two samples, and JAX compiles each new shape
    again. Samples are therefore padded to a few sizes. Padded rows have weight 0 and do not change
    the results. With `pad_features`, fewer than 64 features are padded with zero columns to a
    multiple of 8. Use it only for methods in which constant features do not change the results of
    the other features.

    `sample_weight (n,)` is positive; without it, every sample has weight 1. `source` is the
    caller's array of these samples if it is on an accelerator: the core then reads it there, and
    `values` is a copy for the checks.
    """

    values: np.ndarray
    target: np.ndarray | None
    num_classes: int
    pad_features: bool = False
    sample_weight: np.ndarray | None = None
    source: Any = None

    @property
    def num_samples(self) -> int:
        return self.values.shape[0]

    @property
    def num_features(self) -> int:
        return self.values.shape[1]

    @functools.cached_property
    def x(self) -> Array:
        more = -self.num_features % 8 if self.pad_features and self.num_features < 64 else 0
        if self.source is None:
            return padded(np.pad(self.values, [(0, 0), (0, more)]))
        x = _checks.from_accelerator(self.source, "X").astype(self.values.dtype)
        return jnp.pad(x, [(0, padded_size(len(x)) - len(x)), (0, more)])

    @functools.cached_property
    def weights(self) -> Array:
        return padded(self._counts())

    @functools.cached_property
    def y(self) -> Array:
        return padded(np.asarray(self.target))

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call `function` with the samples, the target if there is one, and the weights."""
        data = (self.x,) if self.target is None else (self.x, self.y)
        if self.num_classes:
            options["num_classes"] = self.num_classes
        return function(*data, *arguments, weights=self.weights, **options)

    def _counts(self) -> np.ndarray:
        """Return how often each sample counts, `(n,)`."""
        if self.sample_weight is None:
            return np.ones(self.num_samples, self.values.dtype)
        return self.sample_weight.astype(self.values.dtype)

    def neighbors(self, wanted: int, name: str) -> int:
        """Return the number of neighbours: `wanted`, or fewer if the smallest class has fewer.

        Weights count samples.
        """
        wanted = _checks.integer(wanted, "n_neighbors", low=1)
        counts = self._counts()
        least = counts.sum()
        if self.num_classes:
            least = np.bincount(np.asarray(self.target), counts).min()
        if least < 2:
            got = "1 sample" if self.sample_weight is None else f"a total weight of {least:g}"
            raise ValueError(f"{name} needs at least 2 samples of every class, got {got} of one")
        return min(wanted, int(least) - 1)

    def against_rest(self, code: int) -> dict[str, Any]:
        """Return samples `x1` of one class, `x2` of all others, and `weights1` and `weights2`."""
        found, counts = {}, self._counts()
        for number, rows in ((1, self.target == code), (2, self.target != code)):
            found[f"x{number}"] = padded(self.values[rows])
            found[f"weights{number}"] = padded(counts[rows])
        return found


def read(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[PaddedData, np.ndarray]:
    """Return the checked data and the mask `(n,)` of the samples with a positive weight.

    It sets the attributes of the estimator that describe the features and the classes.
    """
    _checks.option(estimator.dtype, "dtype", _DTYPES)  # type: ignore[arg-type]
    _checks.flag(estimator.verbose, "verbose")
    _checks.unmasked(X, "X")
    _checks.unmasked(y, "y")
    source = X if _checks.on_accelerator(X) and sample_weight is None else None
    X, y = to_numpy(X), to_numpy(y)
    check_columns(X)
    num_classes, kind = 0, estimator._target_kind()
    found: Any = validate_data(
        estimator,
        X,
        "no_validation" if kind == "none" else y,
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=estimator._least_samples,
        ensure_min_features=estimator._least_features,
    )
    values, target = found if kind != "none" else [found, None]
    check_finite(values, estimator)
    weights, kept = None, np.ones(values.shape[0], bool)
    if sample_weight is not None:
        weights = checked_weights(sample_weight, values.shape[0], values.dtype)
        kept = weights > 0
        values, weights = values[kept], weights[kept]
        target = None if target is None else target[kept]
    if estimator.dtype is not None and values.dtype != estimator.dtype:
        with np.errstate(over="ignore"):
            cast = values.astype(estimator.dtype)
        check_finite(cast, estimator, f" in {estimator.dtype}")
        _checks.fits(values, cast.dtype, "X")
        values = cast
    if kind == "numbers":
        target = np.asarray(target, np.float64)
        _checks.fits(target, values.dtype, "y")
        target = target.astype(values.dtype)
    elif kind == "classes":
        check_classification_targets(target)
        estimator.classes_, codes = np.unique(target, return_inverse=True)
        target, num_classes = codes.astype(np.int32), estimator.classes_.size
        if num_classes < 2:
            expected = f"{type(estimator).__name__} needs at least 2 classes in y"
            raise ValueError(f"{expected}, got one class: {estimator.classes_.tolist()[0]!r}")
    pad = estimator._pad_features
    return PaddedData(values, target, num_classes, pad, weights, source), kept


def kind_of_target(y: Any) -> str:
    """Return what a target holds: "classes", "numbers", or "none" if there is none.

    A numeric target holds numbers if it has fractions, or many distinct values.
    """
    if y is None:
        return "none"
    values = np.asarray(y)
    if values.dtype.kind not in "iuf":
        return "classes"
    distinct = np.unique(values).size
    many = distinct > max(20, values.size / 10) or 2 * distinct > values.size
    return "numbers" if many or bool((values != np.round(values)).any()) else "classes"


def padded_size(n: int) -> int:
    """Return the number of rows to which n samples are padded.

    For n ≤ 128 it is the next power of two, at least 32. For larger n it exceeds n by at most an
    eighth. From 4096 samples there is no padding.

    >>> [padded_size(n) for n in (5, 80, 150, 455, 456, 5000)]
    [32, 128, 160, 480, 480, 5000]
    """
    if n >= _LARGE:
        return n
    if n <= 128:
        return max(32, 2 ** (n - 1).bit_length())
    step = 2 ** (n.bit_length() - 4)
    return -(-n // step) * step


def padded(values: np.ndarray) -> Array:
    more = padded_size(values.shape[0]) - values.shape[0]
    # With a dtype: without one, JAX compiles a program for each shape.
    return jnp.asarray(np.pad(values, [(0, more)] + [(0, 0)] * (values.ndim - 1)), values.dtype)


def random_key(random_state: int | np.random.RandomState | None) -> Array:
    """Return a JAX key made from scikit-learn's `random_state`."""
    return jax.random.key(int(check_random_state(random_state).randint(2**31 - 1)))
