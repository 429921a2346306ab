"""Functions of PyTorch tensors: values, all kinds of derivatives, and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfs
from jaxfs.interop import wrap

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(12, 5)), RNG.normal(size=(9, 5))


def weighted(first, second):
    return jaxfs.manifest_score(first, second) @ jnp.arange(5.0, dtype=first.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_those_of_jax(dtype):
    x = torch.tensor(FIRST, dtype=dtype, requires_grad=True)
    other = torch.tensor(SECOND, dtype=dtype)
    value = wrap(weighted)(x, other)
    value.backward()
    with jax.enable_x64(dtype == torch.float64):
        ours = jax.value_and_grad(weighted)(jnp.asarray(x.detach().numpy()), other.numpy())
    assert value.dtype == x.grad.dtype == dtype
    np.testing.assert_allclose(value.item(), float(ours[0]), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), np.asarray(ours[1]), rtol=1e-6, atol=1e-9)


def test_derivatives_of_first_and_second_order_match_finite_differences():
    x = torch.tensor(FIRST[:, :3], requires_grad=True)
    score = wrap(jaxfs.manifest_score)
    other = torch.tensor(SECOND[:, :3])
    assert torch.autograd.gradcheck(lambda a: score(a, other), x)
    assert torch.autograd.gradgradcheck(lambda a: score(a, other), x)


def test_torch_func_composes():
    batch, other = torch.tensor(RNG.normal(size=(3, 12, 5))), torch.tensor(SECOND)
    score = wrap(weighted)
    gradient = torch.func.grad(lambda a: score(a, other))
    values = torch.func.vmap(lambda a: score(a, other))(batch)
    torch.testing.assert_close(values[1], score(batch[1], other))
    torch.testing.assert_close(torch.func.vmap(gradient)(batch)[2], gradient(batch[2]))


def test_structure_labels_and_keys_pass_through():
    x, y = torch.tensor(FIRST, dtype=torch.float32), torch.arange(12) % 2
    chosen = wrap(jaxfs.gc_select)(x, y, 2, num_classes=2)
    ours = jaxfs.gc_select(x.numpy(), y.numpy(), 2, num_classes=2)
    assert type(chosen) is type(ours)
    assert chosen.indices.tolist() == ours.indices.tolist()
    assert not chosen.indices.requires_grad
    key = jax.random.key(0)
    kept = wrap(jax.random.permutation)(key, x)
    np.testing.assert_array_equal(kept.numpy(), jax.random.permutation(key, x.numpy()))


def test_a_result_never_shares_memory_with_an_argument():
    x = torch.ones(8, 8)
    wrap(lambda a: a)(x).zero_()
    assert x.sum() == 64


def test_transposed_and_expanded_tensors():
    x = torch.tensor(SECOND, dtype=torch.float32)
    wrapped = wrap(lambda a: a * 2)
    torch.testing.assert_close(wrapped(x.T), 2 * x.T)
    torch.testing.assert_close(wrapped(x[:1].expand(4, 5)), 2 * x[:1].expand(4, 5))


def test_bad_input_is_refused():
    x, y = torch.tensor(FIRST, dtype=torch.float32), torch.arange(12) * 2**40
    with jax.enable_x64(False), pytest.raises(ValueError, match="at most 2147483647"):
        wrap(jaxfs.anova_score)(x, y, num_classes=2)
    with pytest.raises(ValueError, match="float32 or float64, got bfloat16"):
        wrap(jaxfs.manifest_score)(x.bfloat16(), x.bfloat16())
    with pytest.raises(ValueError, match="like must be one of 'torch'"):
        wrap(jaxfs.manifest_score, like="numpy")
    with pytest.raises(ValueError, match="function must be"):
        wrap(3)
