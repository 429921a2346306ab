"""Masks of random parts of the samples."""

import jax
import numpy as np
import pytest

from jaxfs.resample import subsample_masks

KEY = jax.random.key(3)


@pytest.mark.parametrize(
    ("n", "fraction", "size"),
    [(100, 0.95, 95), (10, 0.95, 9), (4, 0.95, 3), (1, 0.95, 1), (7, 1.0, 7), (9, 0.01, 1)],
)
def test_sizes(n, fraction, size):
    masks = subsample_masks(KEY, 20, n, fraction=fraction)
    assert masks.shape == (20, n)
    assert np.all(masks.sum(axis=1) == size)


def test_every_sample_has_its_turn():
    often = np.asarray(subsample_masks(KEY, 4000, 12, fraction=0.5)).mean(axis=0)
    assert np.all(np.abs(often - 0.5) < 0.05)


def test_padding_changes_no_resample():
    where = np.array([1, 0, 1, 1, 0, 1, 1, 1]) > 0
    padded = np.asarray(subsample_masks(KEY, 30, 8, fraction=0.6, mask=where))
    assert not padded[:, ~where].any()
    np.testing.assert_array_equal(padded[:, where], subsample_masks(KEY, 30, 6, fraction=0.6))


def test_other_keys_give_other_resamples():
    a, b = (subsample_masks(jax.random.key(i), 5, 40, fraction=0.5) for i in (0, 1))
    assert np.any(a != b)
