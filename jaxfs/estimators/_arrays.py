"""What estimators take and give back: frames by their names, arrays in their own namespace."""

import contextlib
import sys
from typing import Any, NamedTuple

import jax
import narwhals as nw
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

#: Libraries whose arrays do not say their namespace themselves.
_SILENT = ("torch", "cupy")
#: So many columns at most are named in a message.
_NAMED = 5


class Namespace(NamedTuple):
    """The library and device of a caller's array."""

    xp: Any
    device: Any

    def asarray(self, values: np.ndarray) -> Any:
        """NumPy's numbers in this library, on this device, in their own dtype."""
        # Without x64 JAX would make 32 bits of 64.
        wide = jax.enable_x64(True) if self.is_jax else contextlib.nullcontext()
        with wide:
            # A copy: PyTorch would share the memory of an array that must not be written.
            return self.xp.asarray(np.array(values), device=self.device)

    def columns(self, x: Any, indices: np.ndarray) -> Any:
        """Some columns of one of its arrays."""
        if self.xp.__name__ == "torch":
            return self.xp.index_select(x, 1, self.asarray(indices))
        return self.xp.take(x, self.asarray(indices), axis=1)

    @property
    def is_jax(self) -> bool:
        return self.xp.__name__.startswith("jax")


def namespace(x: Any) -> Namespace | None:
    """Where an array lives; `None` for NumPy, lists and frames."""
    library = type(x).__module__.split(".")[0]
    if library in _SILENT:
        return Namespace(sys.modules[library], x.device)
    if isinstance(x, (np.ndarray, np.generic)) or not hasattr(x, "__array_namespace__"):
        return None
    device = getattr(x, "sharding", None) if isinstance(x, jax.Array) else x.device
    if isinstance(device, NamedSharding):  # of a matrix; answers are vectors, whole everywhere
        device = NamedSharding(device.mesh, PartitionSpec())
    return Namespace(x.__array_namespace__(), device)


def to_numpy(x: Any) -> np.ndarray:
    """An array of any library, from any device, as NumPy's."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
    elif type(x).__module__.split(".")[0] == "cupy":
        x = x.get()
    try:
        out = np.from_dlpack(x)
    except (AttributeError, BufferError, RuntimeError, TypeError):  # another device or dtype
        out = np.asarray(x)
    # Half-precision extension types are none of NumPy's kinds.
    return out.astype(np.float32) if out.dtype.kind == "V" else out


# ---- Frames -------------------------------------------------------------------------------------


def check_columns(x: Any) -> None:
    """Refuse columns of a frame that are not numbers, by name."""
    if not nw.dependencies.is_into_dataframe(x):
        return
    try:
        frame = nw.from_native(x, eager_only=True)
        schema = frame.schema
    except Exception:  # duplicate or odd names: what scikit-learn makes of them
        return
    bad = {}
    for name, dtype in schema.items():
        if dtype.is_numeric() or dtype == nw.Boolean:
            continue
        if dtype == nw.Object and _holds_numbers(frame[name].to_numpy()):
            continue
        bad[name] = str(dtype)
    if bad:
        what = listed([f"{name!r} ({dtype})" for name, dtype in bad.items()])
        raise ValueError(f"X has columns that are not numbers: {what}; encode or drop them")


def _holds_numbers(column: np.ndarray) -> bool:
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return not any(isinstance(value, str) for value in column)


def check_finite(x: np.ndarray, names: np.ndarray | None, estimator: str) -> None:
    """Refuse NaN and infinity by the names and counts of their columns."""
    if x.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):  # the sum of finite numbers may overflow; of others it must
        if np.isfinite(np.sum(x, dtype=np.float64)):
            return
    nans, infinite = np.isnan(x).sum(axis=0), np.isinf(x).sum(axis=0)
    columns = np.flatnonzero(nans + infinite)
    if columns.size == 0:
        return
    parts = []
    for j in columns.tolist():
        counts = [f"{nans[j]} NaN"] * bool(nans[j]) + [f"{infinite[j]} infinite"] * bool(
            infinite[j]
        )
        name = f"column {j}" if names is None else repr(str(names[j]))
        parts.append(f"{name} ({', '.join(counts)})")
    raise ValueError(
        f"Input X contains NaN or infinity: {listed(parts)}, of {x.shape[0]} rows. {estimator} does"
        " not accept missing values: impute them or drop those columns or rows first"
    )


def listed(parts: list[str]) -> str:
    """The first few, and how many more there are."""
    more = len(parts) - _NAMED
    return ", ".join(parts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
