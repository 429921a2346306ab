"""Bins, counts and entropies against NumPy and scikit-learn."""

import jax
import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from jaxfs.kernels import _order
from jaxfs.methods.classical import _bins
from tests.helpers import assert_close, rng

N, D, B = 60, 4, 5


def data():
    x = rng(0).normal(size=(N, D))
    x[:, 2] = np.round(2 * x[:, 2])  # ties
    x[:, 3] = 1 / 3
    return x


def by_frequency(x, w, num_bins):
    total = w.sum()
    below = np.array([w[x < v].sum() + w[x == v].sum() / 2 for v in x])
    return np.minimum(np.floor(num_bins * below / total).astype(int), num_bins - 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_bins_of_equal_frequency(weighted):
    w = rng(1).integers(1, 4, N).astype(float) if weighted else np.ones(N)
    codes = np.asarray(_bins.bin_codes(data(), w, B))
    assert np.array_equal(codes, [by_frequency(column, w, B) for column in data().T])
    if not weighted:
        assert np.array_equal(np.bincount(codes[0]), [N // B] * B)


def test_bins_of_equal_width():
    codes = np.asarray(_bins.bin_codes(data(), np.ones(N), B, "width"))
    for column, code in zip(data().T[:3], codes[:3], strict=True):
        edges = np.linspace(column.min(), column.max(), B + 1)[1:-1]
        assert np.array_equal(code, np.digitize(column, edges))
    assert np.all(codes[3] == 0)


@pytest.mark.parametrize("binning", _bins.BINNINGS)
def test_absent_samples_have_no_bin(binning):
    w = (np.arange(N) % 4 != 1).astype(float)
    spoilt = np.where(w[:, None] > 0, data(), np.nan)
    codes = np.asarray(_bins.bin_codes(spoilt, w, B, binning))
    assert np.all(codes[:, w == 0] == -1)
    alone = _bins.bin_codes(data()[w > 0], np.ones(int(w.sum())), B, binning)
    assert np.array_equal(codes[:, w > 0], alone)


def test_counts_and_entropies():
    codes = np.array(_bins.bin_codes(data(), np.ones(N), B))
    y = rng(2).integers(0, 3, N)
    w = rng(3).uniform(size=N)
    codes[1, :5] = -1
    counts = jax.jit(_bins.joint_counts, static_argnums=(3, 4))(codes, y, w, B, 3)
    table = np.zeros((D, B, 3))
    for j in range(D):
        for i in range(N):
            if codes[j, i] >= 0:
                table[j, codes[j, i], y[i]] += w[i]
    assert_close(counts, table, 1e-14)

    unit = _bins.joint_counts(codes, y, np.ones(N), B, 3)
    information = _bins.mutual_information(unit)
    expected = [mutual_info_score(c[c >= 0], y[c >= 0]) for c in codes]
    assert np.allclose(information, expected, atol=1e-14)
    margins = _bins.entropy(unit.sum(axis=2)) + _bins.entropy(unit.sum(axis=1))
    assert np.allclose(margins - _bins.entropy(unit.reshape(D, -1)), expected, atol=1e-14)


def test_conditional_mutual_information():
    """I(A; C | M) = I(A; (C, M)) − I(A; M)."""
    codes = _bins.bin_codes(data(), np.ones(N), B)
    c, m = rng(4).integers(0, 2, N), rng(5).integers(0, 3, N)
    counts = _bins.joint_counts(codes, _bins.pair_codes(c, m, 3), np.ones(N), B, 6)
    got = _bins.conditional_mutual_information(counts.reshape(D, B, 2, 3))
    alone = _bins.mutual_information(_bins.joint_counts(codes, m, np.ones(N), B, 3))
    assert np.allclose(got, _bins.mutual_information(counts) - alone, atol=1e-14)
    nothing = np.zeros((2, 3, 4))
    assert _bins.mutual_information(nothing).tolist() == [0, 0]
    assert _bins.conditional_mutual_information(nothing) == 0
    slope = jax.grad(lambda t: _bins.mutual_information(t))(np.diag([1.0, 2.0]))
    assert np.all(np.isfinite(slope))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sorting_by_bits(dtype):
    values = rng(6).normal(size=(3, 50)).astype(dtype)
    values[0, :6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-300]
    assert np.array_equal(_order.sort_last(values), np.sort(values), equal_nan=True)
    rising = np.sort(values[1])
    found = _order.first_places(rising, values[2])
    assert np.array_equal(found, np.searchsorted(rising, values[2]))
