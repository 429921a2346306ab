"""Validation of the arguments of public functions, with error messages.

Static errors (shape, dtype, unknown option) raise `ValueError` at trace time. Concrete values are
checked; traced values are accepted unchecked. Every message names the argument, the expected value
and the value received.
"""

import contextlib
import math
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import xla_bridge
from jaxtyping import Array, Bool, Float, Int

#: DLPack's codes for memory that the host can read: ordinary memory, and memory pinned for a GPU.
_HOST_MEMORY = (1, 3, 11)


def fail(name: str, expected: str, got: Any) -> ValueError:
    """Return a `ValueError` with the message "`name` must be `expected`, got `got`"."""
    return ValueError(f"{name} must be {expected}, got {got}")


def listed(items: Iterable[str], limit: int = 5) -> str:
    """Return a text of the first items and the number of the other items.

    >>> listed("abcdefg", limit=3)
    'a, b, c and 4 more'
    """
    items = list(items)
    more = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {more} more" if more > 0 else "")


def is_traced(x: Any) -> bool:
    """Return whether the values of `x` are unknown: `x` is traced, or partly on other hosts.

    Only the shape and dtype of such an array can be checked.
    """
    return isinstance(x, jax.core.Tracer) or (
        isinstance(x, jax.Array) and not x.is_fully_addressable
    )


def with_module(*arrays: Any) -> tuple[Any, ...]:
    """Return `numpy` and NumPy arrays if all `arrays` are concrete, else `jax.numpy` and `arrays`.

    Work on labels and weights by NumPy needs no compilation.
    """
    if any(map(is_traced, arrays)):
        return jnp, *arrays
    return np, *map(np.asarray, arrays)


def array(x: Any, name: str, dtype: Any = None) -> jax.Array:
    """Return `x` as a JAX array. `x` is a NumPy, JAX or DLPack array, or a list of numbers.

    The dtype of the result is `dtype`, by default the dtype of `x`. Without x64, JAX narrows 64-bit
    dtypes to 32 bits; integers then wrap and floats overflow silently. This function raises
    `ValueError` for numbers that do not fit.
    """
    x = numpy_or_jax(x, name)
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(x.dtype) if dtype is None else dtype)
    if not is_traced(x):
        fits(x, dtype, name)
    if not isinstance(x, jax.Array):
        # Pass the dtype: without it, JAX would compile a program for each shape.
        return jnp.asarray(x.astype(dtype, copy=False), dtype)
    if x.dtype == dtype and not x.weak_type:
        return x
    if is_traced(x) or len(x.sharding.device_set) > 1:
        return x.astype(dtype)
    # Convert on the host: on the device, JAX would compile a program for each dtype and shape.
    return jax.device_put(np.asarray(x).astype(dtype), x.sharding if x.committed else None)


def numpy_or_jax(x: Any, name: str) -> jax.Array | np.ndarray:
    """Return `x` as a NumPy or JAX array of real numbers, not yet narrowed to 32 bits by JAX."""
    refuse_forked()
    if isinstance(x, jax.Array):
        if not any(jnp.issubdtype(x.dtype, k) for k in (jnp.floating, jnp.integer, jnp.bool_)):
            raise fail(name, "an array of real numbers", f"dtype {x.dtype}")
        return x
    if isinstance(x, (list, tuple)) and any(map(is_traced, jax.tree.leaves(x))):
        return jnp.asarray(x)
    if hasattr(x, "toarray") and hasattr(x, "nnz"):
        raise fail(name, "a dense array", f"the sparse {type(x).__name__}; use .toarray()")
    unmasked(x, name)
    if not isinstance(x, (np.ndarray, np.generic)):
        if getattr(x, "requires_grad", False):
            lost = "a tensor that requires a gradient, which would be lost"
            hint = "use jaxfs.interop.wrap(function), or .detach()"
            raise fail(name, "an array without a gradient", f"{lost}; {hint}")
        if str(getattr(x, "dtype", "")).endswith("float16"):  # of PyTorch, bfloat16 included
            raise fail(name, "of dtype float32 or float64", f"{x.dtype}; cast it first")
        if on_accelerator(x):
            return numpy_or_jax(from_accelerator(x, name), name)
        try:
            # DLPack fails for memory of other devices and for read-only memory; `asarray` copies.
            with contextlib.suppress(AttributeError, BufferError, RuntimeError, TypeError):
                x = np.from_dlpack(x)
            x = np.asarray(x)
        except (ValueError, TypeError) as error:
            raise fail(name, "a rectangular array of real numbers", type(x).__name__) from error
    narrow = x.dtype.kind == "V" and "float" in x.dtype.name  # bfloat16 and float8 of ml_dtypes
    if x.dtype.kind not in "fiub" and not narrow:
        raise fail(name, "an array of real numbers", f"dtype {x.dtype}")
    if narrow or x.dtype.itemsize > 8:
        raise fail(name, "of dtype float32 or float64", f"{x.dtype}; cast it first")
    return np.asarray(x, dtype=x.dtype.newbyteorder("="))


def on_accelerator(x: Any) -> bool:
    """Return whether an array of another library is in the memory of a GPU or the like."""
    if isinstance(x, (np.ndarray, np.generic, jax.Array)):
        return False
    if hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[0]) not in _HOST_MEMORY
    return hasattr(x, "__cuda_array_interface__")


def from_accelerator(x: Any, name: str) -> jax.Array:
    """Return an array on an accelerator as a JAX array on the same device, without a host copy.

    Without x64, JAX narrows 64-bit numbers on the device, and nothing checks whether they fit.
    """
    if hasattr(x, "detach"):  # PyTorch
        x = x.detach().contiguous()
    try:
        return jnp.from_dlpack(x) if hasattr(x, "__dlpack__") else jnp.asarray(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        got = f"{type(x).__name__} on {getattr(x, 'device', 'another device')}"
        raise fail(name, "contiguous, on a device that JAX has", got) from error


def unmasked(x: Any, name: str) -> None:
    """Raise `ValueError` for masked arrays, also in a list: NumPy would use the masked values."""
    parts = (x, *x) if isinstance(x, (list, tuple)) else (x,)
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        hint = "use .filled(value), or drop the rows or columns with masked values"
        raise fail(name, "an array without a mask", f"a masked array; {hint}")


def fits(x: jax.Array | np.ndarray, dtype: np.dtype, name: str) -> None:
    """Raise `ValueError` for numbers outside the range of `dtype`.

    They would overflow, wrap, or make a whole column 0.
    """
    if x.dtype.itemsize <= dtype.itemsize or dtype.kind not in "fiu" or 0 in x.shape:
        return
    values = np.atleast_1d(np.asarray(x))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wrong = (values < limits.min) | (values > limits.max)
        hint = "JAX has 64-bit integers only with jax_enable_x64"
    elif values.dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            narrow = values.astype(dtype)
        wrong = np.isinf(narrow) != np.isinf(values)
        # Small numbers next to larger ones may round to 0, but a whole column must not.
        wrong |= np.any(values != 0, axis=0) & ~np.any(narrow != 0, axis=0) & (values != 0)
        hint = "rescale it, or compute in float64 with jax_enable_x64"
    else:
        return
    if np.any(wrong):
        raise fail(name, f"within the range of {dtype}", f"{values[wrong][0]}; {hint}")


def real(x: Any, name: str, *, ndim: int | None = None, convert: bool = True) -> jax.Array:
    """Return float32 or float64 data.

    Integers and booleans get JAX's default float dtype, or raise `ValueError` without `convert`.
    """
    x = numpy_or_jax(x, name)
    whole = x.dtype == jnp.bool_ or jnp.issubdtype(x.dtype, jnp.integer)
    if x.dtype not in (jnp.float32, jnp.float64) and not (convert and whole):
        raise fail(name, "of dtype float32 or float64", f"{x.dtype}; cast it first")
    x = array(x, name, jnp.result_type(float) if whole else None)
    if ndim is not None and x.ndim != ndim:
        raise fail(name, f"an array of {ndim} dimension{'s' * (ndim > 1)}", f"shape {x.shape}")
    return x


def square(a: Any, name: str) -> jax.Array:
    """Return square matrices `(..., d, d)` of floating dtype. Their symmetry is not checked."""
    a = real(a, name, convert=False)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or a.shape[-1] == 0:
        raise fail(name, "square, of shape (..., d, d) with d > 0", f"shape {a.shape}")
    return a


def matrices(a: Any, name: str) -> jax.Array:
    """Return matrices `(..., m, k)` of floating dtype."""
    a = real(a, name, convert=False)
    if a.ndim < 2 or 0 in a.shape[-2:]:
        raise fail(name, "of shape (..., m, k) with m, k > 0", f"shape {a.shape}")
    return a


def alike(a: jax.Array, b: jax.Array, names: str, *, axes: slice = slice(-2, None)) -> None:
    """Check that two arrays have the same dtype and agree on `axes`, by default the matrix axes."""
    if a.shape[axes] != b.shape[axes]:
        raise fail(names, "of matching shapes", f"{a.shape} and {b.shape}")
    if a.dtype != b.dtype:
        raise fail(names, "of one dtype", f"{a.dtype} and {b.dtype}")


def broadcast(names: str, *arrays: Array) -> tuple[Array, ...]:
    """Return matrices of one shape and dtype, with their batch axes broadcast to each other."""
    for other in arrays[1:]:
        alike(arrays[0], other, names)
    try:
        batch = jnp.broadcast_shapes(*(x.shape[:-2] for x in arrays))
    except ValueError as error:
        shapes = " and ".join(str(x.shape) for x in arrays)
        raise fail(names, "of batch axes that broadcast", shapes) from error
    return tuple(jnp.broadcast_to(x, batch + x.shape[-2:]) for x in arrays)


def along(t: Any, *ends: Array) -> tuple[Array, ...]:
    """Return `t` and the ends of a geodesic, with batch axes broadcast to each other.

    `t` is a position in [0, 1] on the geodesic. A traced `t` out of range becomes NaN.
    """
    t = jnp.asarray(number(t, "t", low=0, high=1), ends[0].dtype)
    t = jnp.where((t >= 0) & (t <= 1), t, jnp.nan)
    try:
        batch = jnp.broadcast_shapes(t.shape, ends[0].shape[:-2])
    except ValueError as error:
        expected = f"a number or an array that broadcasts to the batch axes {ends[0].shape[:-2]}"
        raise fail("t", expected, f"shape {t.shape}") from error
    return jnp.broadcast_to(t, batch), *(jnp.broadcast_to(x, batch + x.shape[-2:]) for x in ends)


def number(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    scalar: bool = False,
) -> Any:
    """Check that `value` is a real number in [low, high], and return it unchanged.

    An array of such numbers is accepted unless `scalar` is true. The range of a traced number is
    not checked.
    """
    if isinstance(value, (bool, np.bool_, str, bytes)) or value is None:
        raise fail(name, "a real number", repr(value))
    unmasked(value, name)
    try:
        concrete = value if is_traced(value) else np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise fail(name, "a real number", repr(value)) from error
    if scalar and concrete.ndim:
        raise fail(name, "a single number", f"shape {concrete.shape}")
    if is_traced(value):
        return value
    below = concrete <= low if open_low else concrete < low
    if np.any(below | (concrete > high) | np.isnan(concrete)):
        raise fail(name, _interval(low, high, open_low), value)
    if np.any(np.isinf(concrete)):
        raise fail(name, "finite", value)
    return value


def _interval(low: float, high: float, open_low: bool) -> str:
    if high < math.inf:
        return f"in {'(' if open_low else '['}{low}, {high}]"
    if low == -math.inf:
        return "a number"
    return "positive" if open_low and low == 0 else f"{'above' if open_low else 'at least'} {low}"


def integer(value: Any, name: str, *, low: int, high: int | None = None) -> int:
    """Return `value` as a Python integer in [low, high]. It must be static."""
    if is_traced(value):
        raise fail(name, "a static integer", "a traced value; mark it static under jit")
    if isinstance(value, (bool, np.bool_)):
        raise fail(name, "an integer", repr(value))
    try:
        value = operator.index(value)
    except TypeError as error:
        raise fail(name, "an integer", repr(value)) from error
    if value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"an integer in [{low}, {high}]"
        raise fail(name, expected, value)
    return value


def flag(value: Any, name: str) -> bool:
    """Return `value` as a Python boolean. It must be static."""
    if not isinstance(value, (bool, np.bool_)):
        raise fail(name, "True or False", repr(value))
    return bool(value)


def option(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Check that `value` is one of the `allowed` names, and return it."""
    if not isinstance(value, (str, type(None))) or value not in allowed:
        raise fail(name, "one of " + ", ".join(map(repr, allowed)), repr(value))
    return value


def key(value: Any, name: str = "key") -> None:
    """Check that `value` is one key of `jax.random`: a typed key or a legacy pair of integers."""
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    legacy = isinstance(value, (jax.Array, np.ndarray)) and value.dtype == np.uint32
    if not typed and not legacy:
        raise fail(name, "a key, as from jax.random.key", type(value).__name__)
    if value.shape != (() if typed else (2,)):
        raise fail(name, "one key", f"shape {value.shape}")


def function(value: Any, name: str, expected: str) -> None:
    """Check that `value` is callable."""
    if not callable(value):
        raise fail(name, expected, repr(value))


def record(value: Any, name: str, kind: type, maker: str) -> None:
    """Check that `value` is a `kind`, the record that the function `maker` returns."""
    if not isinstance(value, kind):
        raise fail(name, f"a {kind.__name__}, as {maker} gives", type(value).__name__)


def float_dtype(value: Any, name: str) -> np.dtype:
    """Return the dtype float32 or float64 for `value`; `None` gives JAX's default float dtype."""
    try:
        dtype = np.dtype(jnp.result_type(float) if value is None else value)
    except TypeError as error:
        raise fail(name, "float32 or float64", repr(value)) from error
    if dtype not in (np.float32, np.float64):
        raise fail(name, "float32 or float64", dtype)
    return dtype


def weights(value: Any, name: str, size: int, dtype: Any, *, what: str = "sample") -> jax.Array:
    """Return nonnegative weights `(size,)`, not all zero, in `dtype`; all 1 for `None`."""
    out = numpy_or_jax(np.ones(size) if value is None else value, name)
    if out.shape != (size,):
        raise fail(name, f"of shape ({size},), one weight a {what}", f"shape {out.shape}")
    if not is_traced(out):
        concrete = np.asarray(out, dtype=np.float64)
        if np.any(concrete < 0) or not np.all(np.isfinite(concrete)):
            raise fail(name, "finite and at least 0", concrete)
        if not np.any(concrete > 0):
            raise fail(name, f"positive for at least one {what}", concrete)
    return array(out, name, dtype)


def presence(mask: Any, n: int) -> Bool[Array, "n"]:
    """Return a mask `(n,)`: true where `mask` is not 0, or everywhere if `mask` is `None`."""
    out = weights(mask, "mask", n, jnp.result_type(float), what="point")
    return out > 0 if is_traced(out) else jnp.asarray(np.asarray(out) > 0, bool)


def labels(y: Any, name: str, size: int, num_classes: int) -> Any:
    """Return integer class codes `(size,)`; concrete codes must be in 0 … num_classes − 1.

    Codes that are not a JAX array are returned as a NumPy array, because most callers read them.
    """
    y = numpy_or_jax(y, name)
    if not (jnp.issubdtype(y.dtype, jnp.integer) or y.dtype == jnp.bool_):
        raise fail(name, "integer class codes", f"dtype {y.dtype}")
    if y.shape != (size,):
        raise fail(name, f"of shape ({size},), one label a sample", f"shape {y.shape}")
    if is_traced(y):  # a 64-bit code out of range must not wrap to a valid code in 32 bits
        return y if y.dtype.itemsize > 4 else y.astype(jnp.int32)
    concrete = np.asarray(y)
    outside = concrete[(concrete < 0) | (concrete >= num_classes)]
    if outside.size:
        expected = f"in 0 … {num_classes - 1} (num_classes = {num_classes})"
        raise fail(name, expected, f"the label {outside[0]}")
    return array(y, name, jnp.int32) if isinstance(y, jax.Array) else concrete.astype(np.int32)


def targets(y: Any, size: int) -> jax.Array:
    """Return labels or targets `(size, …)` of any real dtype.

    Integers and booleans become int32 if they fit, so that equal labels of different dtypes run the
    same program.
    """
    y = numpy_or_jax(y, "y")
    if y.ndim == 0 or y.shape[0] != size:
        raise fail("y", f"of shape ({size}, …), one label a sample", f"shape {y.shape}")
    narrow = y.dtype == jnp.bool_ or jnp.issubdtype(y.dtype, jnp.integer)
    if narrow and (y.dtype.itemsize > 4 or y.dtype == jnp.uint32):
        most = np.iinfo(np.int32).max
        narrow = not is_traced(y) and bool(
            np.all((np.asarray(y) <= most) & (-most <= np.asarray(y)))
        )
    return array(y, "y", jnp.int32) if narrow else array(y, "y")


def samples(x: Any, *, n: int = 1, d: int = 1) -> jax.Array:
    """Return float32 or float64 samples, at least `n` of them, with at least `d` features."""
    x = real(x, "x", ndim=2)
    if x.shape[0] < n or x.shape[1] < d:
        raise fail("x", f"(n, d) with n ≥ {n} samples and d ≥ {d} features", f"{x.shape}")
    return x


def codes(value: Any, name: str, size: int) -> jax.Array | None:
    """Return integer codes `(size,)`, such as those of groups of samples; `None` for `None`."""
    if value is None:
        return None
    out = array(value, name)
    if out.shape != (size,) or not jnp.issubdtype(out.dtype, jnp.integer):
        expected = f"integers of shape ({size},), one a sample"
        raise fail(name, expected, f"shape {out.shape}, dtype {out.dtype}")
    return out


def returned_scores(scores: Any, size: int, what: str = "feature") -> jax.Array:
    """Return the result of a caller's `score`, if it has the shape `(size,)`."""
    if jnp.shape(scores) != (size,):
        expected = f"a function that returns ({size},), one score a {what}"
        raise fail("score", expected, f"shape {jnp.shape(scores)}")
    return scores


def sample_weights(value: Any, x: jax.Array) -> Any:
    """Return the weights of the samples `x`; all 1 for `None`, as a NumPy array."""
    if value is None:
        return np.ones(x.shape[0], x.dtype)
    return weights(value, "weights", x.shape[0], x.dtype)


def labelled_samples(x: Any, y: Any, num_classes: Any, weights: Any) -> tuple[Any, Any, Any, int]:
    """Return samples, class codes, sample weights and the number of classes."""
    x = samples(x)
    num_classes = integer(num_classes, "num_classes", low=2)
    y = labels(y, "y", x.shape[0], num_classes)
    w = sample_weights(weights, x)
    has_every_class(y, w, "y", num_classes)
    return x, y, w, num_classes


def samples_with_target(x: Any, y: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Return samples, a real target of their dtype, and sample weights."""
    x = samples(x)
    y = array(y, "y", x.dtype)
    if y.shape != (x.shape[0],):
        raise fail("y", f"of shape ({x.shape[0]},), one target a sample", f"{y.shape}")
    return x, y, sample_weights(weights, x)


class Membership(NamedTuple):
    """Class of each sample. A sample with weight 0 or a label out of range is absent."""

    present: Bool[Array, "n"]
    label: Int[Array, "n"]
    weights: Float[Array, "n"]  # 0 for absent samples
    shares: Float[Array, "c n"]  # weight of each sample in its class, 0 in other classes
    mass: Float[Array, "c"]
    priors: Float[Array, "c"]
    first: Int[Array, "c"]  # the first sample of each class
    base: Int[Array, ""]  # the first sample that is present


def membership(y: Any, w: Any, num_classes: int = 1) -> Membership:
    """Return the `Membership` of samples with labels `y`; one class if `y` is `None`."""
    xp, y, w = with_module(np.zeros(w.shape, np.int32) if y is None else y, w)
    member = (y[None] == xp.arange(num_classes, dtype=y.dtype)[:, None]) & (w > 0)[None]
    present = xp.any(member, axis=0)
    w = xp.where(present, w, xp.zeros_like(w))
    shares = xp.where(member, w[None], xp.zeros_like(w[None]))
    mass = xp.sum(shares, axis=1)
    label = xp.clip(y, 0, num_classes - 1)
    first, base = xp.argmax(member, axis=1), xp.argmax(present)
    return Membership(present, label, w, shares, mass, mass / xp.sum(mass), first, base)


def has_every_class(y: jax.Array, weights: jax.Array | None, name: str, num_classes: int) -> None:
    """Check that every class has a sample of positive weight, if the values are concrete."""
    if is_traced(y) or (weights is not None and is_traced(weights)):
        return
    expected = f"such that each of {num_classes} classes has samples"
    if num_classes > y.shape[0]:  # before `bincount` allocates `num_classes` counts
        raise fail(name, expected, f"{y.shape[0]} labels")
    present = np.ones(y.shape) if weights is None else np.asarray(weights)
    counts = np.bincount(np.asarray(y), weights=present > 0, minlength=num_classes)
    if np.any(counts == 0):
        raise fail(name, expected, f"none of {int(np.argmin(counts))}")


def table_size(rows: int, columns: int, name: str) -> None:
    """Check that a float64 table takes less than 2 GB; otherwise XLA may abort the process."""
    if rows * columns >= 2**28:
        raise fail(name, "such that a table has < 2²⁸ entries", f"{rows} × {columns} entries")


def only_if(used: bool, value: Any, name: str, setting: str) -> None:
    """Raise `ValueError` for an option without effect: it must be `None` unless `used` is true.

    `setting` describes in the message when the option is used.
    """
    if value is not None and not used:
        raise fail(name, f"None unless {setting}", repr(value))


def settle(record: Any, **values: Any) -> None:
    """Set the checked fields of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def plain(value: Any) -> Any:
    """Return a checked number as a Python float, with 0.0 for −0.0.

    Two records that compare equal then have the same meaning. A traced number is returned
    unchanged. It has no hash, so `jit` cannot treat it as a constant.
    """
    return value if is_traced(value) else float(value) + 0.0


def variant(value: Any, name: str, variants: Mapping[str, type]) -> Any:
    """Return `value` if it is a record of options, or the default record if `value` is its name."""
    if isinstance(value, str) and value in variants:
        return variants[value]()
    if type(value) in variants.values():
        return value
    names = ", ".join(map(repr, variants))
    records = ", ".join(f"{kind.__name__}(…)" for kind in variants.values())
    raise fail(name, f"one of {names}, or {records}", repr(value))


def refuse_forked() -> None:
    """Raise `RuntimeError` in a child that was forked from a process that had used JAX.

    The threads of JAX do not exist in the child, so a call there would wait for them forever.
    """
    if _forked:
        raise RuntimeError(
            "this process was forked after its parent had used JAX, and would wait forever: start "
            'workers with multiprocessing.get_context("spawn") or joblib\'s backend "loky", or '
            "fork before JAX is used"
        )


#: Whether this process is a fork of a process that had used JAX.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = xla_bridge.backends_are_initialized()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
