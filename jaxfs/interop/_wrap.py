"""Choose the wrapper of an array library by name."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxfs import _checks


def wrap(function: Callable[..., Any], like: str = "torch") -> Callable[..., Any]:
    """Return `function` for PyTorch tensors: tensors in, tensors out, on the same device.

    **Arguments**

    - `function`: a function of JAX arrays that returns a pytree of JAX arrays. This is any score
      or selection of jaxfs, or a composition of them (preferably compiled by `jax.jit`).
    - `like`: "torch".

    **Returns** a function with the same arguments. Arguments that are not tensors, such as options
    and JAX keys, are passed on unchanged.

    **Numerics** the tensors decide the precision. If one of them is float64, the function computes
    in float64, whether or not `jax_enable_x64` is set. Otherwise, 64-bit integers become 32-bit
    integers; integers that do not fit raise `ValueError`.

    **Derivatives** the derivatives of JAX, of any order, by `backward` and by `torch.func` (`grad`,
    `vjp`, `jacrev`, `vmap`). Forward mode (`torch.func.jvp`) is not available. Results that are
    integers or booleans have no derivative.

    **Cost** tensors are exchanged by DLPack, without a copy if their memory is contiguous and
    aligned. A CUDA tensor stays on its device; this requires a JAX that has the device. A backward
    pass evaluates the function a second time.

    >>> import jaxfs
    >>> from jaxfs.interop import wrap
    >>> score = wrap(jaxfs.manifest_score)  # doctest: +SKIP
    >>> score(x1, x2).sum().backward()  # doctest: +SKIP
    """
    _checks.function(function, "function", "a function of JAX arrays")
    _checks.option(like, "like", ("torch",))
    import torch

    from jaxfs.interop._torch import call

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[i] for i in places]
        structure = None

        def flat(*arrays: jax.Array) -> tuple[jax.Array, ...]:
            nonlocal structure
            filled = list(leaves)
            for i, value in zip(places, arrays, strict=True):
                filled[i] = value
            args, kwargs = jax.tree.unflatten(tree, filled)
            outputs, structure = jax.tree.flatten(function(*args, **kwargs))
            return tuple(map(jnp.asarray, outputs))

        outputs = call(flat, *tensors)
        return jax.tree.unflatten(structure, outputs)

    return wrapped
