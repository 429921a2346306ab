"""Functions of JAX arrays as differentiable functions of PyTorch tensors."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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


def call(function: Callable[..., tuple[jax.Array, ...]], *tensors: Any) -> tuple[Any, ...]:
    """Return `function(*tensors)` as a tuple of tensors, with derivatives."""
    return _autograd_function().apply(function, *tensors)


@functools.cache
def _autograd_function() -> Any:
    import torch

    class Call(torch.autograd.Function):
        """`forward` evaluates the function in JAX; `backward` is a call of the pullback.

        Derivatives of higher order follow from this, and `vmap` is a call of the function under
        `jax.vmap`.
        """

        @staticmethod
        def forward(function, *tensors):
            wide = any(tensor.dtype == torch.float64 for tensor in tensors)
            with jax.enable_x64(wide or jnp.result_type(float) == jnp.float64):
                outputs = function(*map(_to_jax, tensors))
                # The result must not share memory with an argument: PyTorch may change it in place.
                used = {tensor.data_ptr() for tensor in tensors}
                results = [
                    torch.utils.dlpack.from_dlpack(output)
                    for output in jax.block_until_ready(outputs)
                ]
            return tuple(out.clone() if out.data_ptr() in used else out for out in results)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.function, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.real = [out.is_floating_point() for out in output]
            whole = [out for out, real in zip(output, ctx.real, strict=True) if not real]
            ctx.mark_non_differentiable(*whole)

        @staticmethod
        def backward(ctx, *cotangents):
            function, tensors, real = ctx.function, ctx.saved_tensors, ctx.real
            wanted = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]

            def pullback(*arrays):
                inputs, cotangents = arrays[: len(tensors)], arrays[len(tensors) :]

                def partial(*parts):
                    merged = list(inputs)
                    for i, part in zip(wanted, parts, strict=True):
                        merged[i] = part
                    outputs = function(*merged)
                    return tuple(out for out, kept in zip(outputs, real, strict=True) if kept)

                return jax.vjp(partial, *(inputs[i] for i in wanted))[1](cotangents)

            kept = (c for c, is_real in zip(cotangents, real, strict=True) if is_real)
            found = dict(zip(wanted, call(pullback, *tensors, *kept), strict=True))
            return None, *(found.get(i) for i in range(len(tensors)))

        @staticmethod
        def vmap(info, in_dims, function, *tensors):
            outputs = call(jax.vmap(function, in_axes=in_dims[1:]), *tensors)
            return outputs, tuple(0 for _ in outputs)

    return Call


def _to_jax(tensor: Any) -> jax.Array:
    """Return a tensor as a JAX array on the same device, without a copy if possible."""
    limit = np.iinfo(np.int32).max
    narrowed = tensor.element_size() > 4 and not tensor.is_floating_point()
    narrowed &= jnp.result_type(int) == jnp.int32
    if narrowed and tensor.numel() and int(tensor.abs().max()) > limit:
        raise _checks.fail("integers", f"at most {limit} without float64 tensors", "larger ones")
    try:
        return jnp.from_dlpack(tensor.detach().contiguous())
    except (RuntimeError, BufferError) as error:
        expected = "on a device that JAX has, in a dtype that JAX has"
        raise _checks.fail("a tensor", expected, f"{tensor.device}, {tensor.dtype}") from error
