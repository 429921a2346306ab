"""A score of many data sets, spread over the devices of a mesh; and how arrays get to a mesh."""

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from jaxfs import _checks


def map_datasets(
    score: Callable[..., Any],
    mesh: Mesh,
    *,
    axis: str | tuple[str, ...] | None = None,
    batch_size: int = 64,
    replicate: bool = False,
) -> Callable[..., Any]:
    """A function that applies `score` to every data set of a batch, spread over a mesh.

    **Arguments**

    - `score`: of the arrays of one data set, any number of them; pure, with answers of one shape.
    - `mesh`: whose devices share the data sets evenly.
    - `axis`: the axis of the mesh, or axes, over which they are spread; by default all.
    - `batch_size`: at most so many at a time are computed side by side (`vmap`) on a device. More
      need more memory, and on a CPU are hardly faster. There a `score` that is not of jaxfs and
      calls `jax.numpy.linalg` should have 1: such batches on several devices can wait for each
      other for ever.
    - `replicate`: whether every device gets all answers, so that `numpy.asarray` works on every
      host. Otherwise they stay where they were computed, if the devices divide their number.

    **Returns** a function. It takes the arrays of `score` with an axis more in front, over the data
    sets, or lists of arrays of one shape; and answers with that axis in front, in order. Any number
    of data sets will do: the batch is filled up with copies of the last. It compiles once for each
    shape.

    For data sets of different sizes see `bucket`.

    >>> import jax, jaxfs
    >>> mesh = jax.make_mesh((1,), ("data",))
    >>> x1, x2 = jax.random.normal(jax.random.key(0), (2, 5, 30, 4))
    >>> map_datasets(jaxfs.manifest_score, mesh)(x1, x2).shape
    (5, 4)
    """
    _checks.function(score, "score", "a function of the arrays of a data set")
    axes = check_axes(mesh, axis)
    batch_size = _checks.integer(batch_size, "batch_size", low=1)
    replicate = _checks.flag(replicate, "replicate")
    devices = math.prod(mesh.shape[name] for name in axes)
    spread, whole = NamedSharding(mesh, P(axes)), NamedSharding(mesh, P())

    def several(*arrays):
        each = arrays[0].shape[0]
        size = _even(each, batch_size)
        # Whole batches: a remainder would be compiled apart.
        arrays = tuple(_filled(a, math.ceil(each / size) * size) for a in arrays)
        out = lax.map(lambda a: score(*a), arrays, batch_size=size)
        return jax.tree.map(lambda a: a[:each], out)

    everywhere = jax.shard_map(
        several, mesh=mesh, in_specs=P(axes), out_specs=P(axes), check_vma=False
    )

    @functools.partial(jax.jit, static_argnums=0)
    def run(number, *arrays):
        return jax.tree.map(lambda a: first(a, number), everywhere(*arrays))

    def first(a, number):
        if not replicate and number == a.shape[0]:
            return a
        return constrained(a, mesh, P())[:number]

    def mapped(*datasets):
        arrays = [_batch(a, i) for i, a in enumerate(datasets)]
        numbers = {len(a) for a in arrays}
        if len(numbers) != 1:
            raise _checks.fail("arrays", "of as many data sets each", sorted(numbers))
        number = numbers.pop()
        if number % devices:  # an array that is spread some way cannot be added to
            arrays = [placed(a, whole) if isinstance(a, jax.Array) else a for a in arrays]
        full = math.ceil(number / devices) * devices
        return run(number, *(placed(_filled(a, full), spread) for a in arrays))

    return mapped


def _even(number: int, most: int) -> int:
    """The size of batches, all alike, of which as few as possible hold `number`."""
    return math.ceil(number / math.ceil(number / most))


def _batch(a: Any, place: int) -> Any:
    """Data sets on the first axis; those of a list stacked."""
    name = f"argument {place}"
    if isinstance(a, (list, tuple)):
        shapes = {np.shape(one) for one in a}
        if len(shapes) > 1:
            expected = "data sets of one shape; `bucket` pads samples, and parts by features"
            raise _checks.fail(name, expected, " and ".join(map(str, sorted(shapes)[:3])))
        if any(isinstance(one, jax.Array) for one in a):
            a = jnp.stack(a)
        else:
            a = np.stack([_checks.numpy_or_jax(one, name) for one in a]) if a else np.zeros(0)
    if not isinstance(a, jax.Array):
        a = _checks.numpy_or_jax(a, name)
        _checks.fits(a, jax.dtypes.canonicalize_dtype(a.dtype), name)
    if a.ndim == 0 or a.shape[0] == 0:
        raise _checks.fail(name, "an array with data sets on its first axis", f"shape {a.shape}")
    return a


def _filled(a: Any, number: int) -> Any:
    """With copies of the last until they are so many."""
    more = number - len(a)
    if not more:
        return a
    where = jnp if isinstance(a, jax.Array) else np
    return where.concatenate([a, where.repeat(a[-1:], more, axis=0)])


def placed(a: Any, sharding: NamedSharding) -> Array:
    """`a` on the mesh; of an array of this host alone only the values can go to others."""
    spread = isinstance(a, jax.Array) and _checks.is_traced(a)
    if spread or sharding.is_fully_addressable:
        return jax.device_put(a, sharding)
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        data = placed(np.asarray(jax.random.key_data(a)), sharding)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
    a = np.asarray(a)
    # `device_put` would send all of it round to see whether it is the same everywhere.
    return jax.make_array_from_callback(a.shape, sharding, lambda part: a[part])


def on_host() -> contextlib.AbstractContextManager[Any]:
    """Where arrays of NumPy wait until they are spread: not on the first device of the mesh."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # there is none
        return contextlib.nullcontext()


def constrained(a: Array, mesh: Mesh, spec: P) -> Array:
    """`a` as laid out by `spec`, inside `jit`, whatever the type of the mesh's axes."""
    sharding = NamedSharding(mesh, spec)
    if AxisType.Explicit in mesh.axis_types:
        return jax.reshard(a, sharding)
    return lax.with_sharding_constraint(a, sharding)


def check_axes(mesh: Mesh, axis: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if not isinstance(mesh, Mesh):
        raise _checks.fail("mesh", "a mesh, as of jax.make_mesh", type(mesh).__name__)
    if not isinstance(axis, (str, tuple, list, type(None))):
        raise _checks.fail("axis", "a name or names of axes", repr(axis))
    axes = mesh.axis_names if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)
    for name in axes:
        if name not in mesh.axis_names:
            known = ", ".join(map(repr, mesh.axis_names))
            raise _checks.fail("axis", f"of the mesh, which has {known}", repr(name))
    return axes
