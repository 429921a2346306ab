"""Manhattan distances in chunks of coordinates."""

import jax
import numpy as np
import pytest

from jaxfs.kernels._distances import coordinate_chunks, manhattan
from tests.helpers import RTOL, assert_close, rng


@pytest.mark.parametrize("p", [1, 37])
def test_against_numpy(p):
    x = rng(0).normal(size=(9, p))
    x[4] = x[2]
    expected = np.abs(x[:, None] - x[None]).sum(axis=-1)
    for dtype in ("float32", "float64"):
        chunks = coordinate_chunks(jax.numpy.asarray(x.astype(dtype)))
        whole, part = manhattan(chunks, chunks), manhattan(chunks[:, :, 3:5], chunks)
        assert whole.dtype == dtype
        assert_close(whole, expected, RTOL[dtype])
        np.testing.assert_array_equal(whole, whole.T)
        np.testing.assert_array_equal(part, whole[3:5])
        assert whole[2, 4] == 0
