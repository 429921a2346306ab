"""Placement of arrays on the devices of a mesh."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from jaxfs import _checks


def check_axes(mesh: Mesh, axis: Any, *, single: bool = False) -> tuple[str, ...]:
    """Return the names of mesh axes; `None` stands for all axes, unless `single` is true."""
    if not isinstance(mesh, Mesh):
        raise _checks.fail("mesh", "a mesh, as of jax.make_mesh", type(mesh).__name__)
    if single and not isinstance(axis, str):
        raise _checks.fail("axis", "the name of one axis of the mesh", repr(axis))
    if not isinstance(axis, (str, tuple, list, type(None))):
        raise _checks.fail("axis", "a name or names of axes", repr(axis))
    axes = mesh.axis_names if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)
    for name in axes:
        if name not in mesh.axis_names:
            known = ", ".join(map(repr, mesh.axis_names))
            raise _checks.fail("axis", f"of the mesh, which has {known}", repr(name))
    return axes


def placed(a: Any, mesh: Mesh, *spec: Any) -> Array:
    """Put `a` on the mesh, sharded as `PartitionSpec(*spec)`."""
    sharding = NamedSharding(mesh, P(*spec))
    if sharding.is_fully_addressable or (isinstance(a, jax.Array) and _checks.is_traced(a)):
        return jax.device_put(a, sharding)
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        data = placed(np.asarray(jax.random.key_data(a)), mesh, *spec)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
    a = np.asarray(a)
    # `device_put` would send the whole array to all hosts, to check that their arrays are equal.
    return jax.make_array_from_callback(a.shape, sharding, lambda part: a[part])


def placed_evenly(a: Any, dimension: int, mesh: Mesh, axis: str) -> Array:
    """Shard `a` along one dimension, padded with zeros to a multiple of the number of devices."""
    more = -a.shape[dimension] % mesh.shape[axis]
    if more:
        widths = [(0, more if i == dimension else 0) for i in range(a.ndim)]
        traced = _checks.is_traced(a)
        a = jnp.pad(placed(a, mesh), widths) if traced else np.pad(np.asarray(a), widths)
    return placed(a, mesh, *[None] * dimension, axis)


def replicated(a: Array, mesh: Mesh) -> Array:
    """Replicate `a` on all devices, inside `jit`, for a mesh with explicit or automatic axes."""
    sharding = NamedSharding(mesh, P())
    if AxisType.Explicit in mesh.axis_types:
        return jax.reshard(a, sharding)
    return lax.with_sharding_constraint(a, sharding)


def on_host() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which new arrays are on the host, not on the first device of the mesh."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # there is no CPU backend
        return contextlib.nullcontext()
