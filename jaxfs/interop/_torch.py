"""A function of JAX arrays as a differentiable function of PyTorch tensors."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxfs import _checks


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
