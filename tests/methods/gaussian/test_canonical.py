"""Selection by canonical correlation against determinants and inverses from scratch."""

import numpy as np
import pytest

import jaxfs
from tests.helpers import rng
from tests.methods.gaussian import oracle
from tests.methods.gaussian.test_select import mixture


def criterion(x, y, features, ridge, weights):
    """tr(Σ_T⁻¹ Σ_B), from the covariance of fitted indicators."""
    x = x[:, list(features)]
    mean = np.average(x, axis=0, weights=weights)
    total = (x - mean).T @ np.diag(weights / weights.sum()) @ (x - mean)
    between = np.zeros_like(total)
    for c in np.unique(y):
        share = weights[y == c].sum() / weights.sum()
        away = np.average(x[y == c], axis=0, weights=weights[y == c]) - mean
        between += share * np.outer(away, away)
    ridge = np.diag(np.broadcast_to(ridge, (len(mean),)))
    return np.trace(np.linalg.solve(total + ridge, between))


@pytest.mark.parametrize(("ridge", "weighted"), [(0.0, True), (0.1, False)])
def test_selects_what_the_formula_selects(ridge, weighted):
    x, y = mixture(40, num_classes=4)
    weights = rng(1).integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    expected, values, _ = oracle.greedy(lambda s: criterion(x, y, s, ridge, weights), 8, 16)
    got = jaxfs.cca_select(x, y, 8, num_classes=4, ridge=ridge, weights=weights)
    np.testing.assert_array_equal(got.indices, expected)
    np.testing.assert_allclose(got.objective, values, rtol=1e-9)


def test_the_criterion_is_the_sum_of_squared_canonical_correlations():
    x, y = mixture(41, num_classes=4, apart=1.0)
    got = jaxfs.cca_select(x, y, 6, num_classes=4, ridge=0.0)
    chosen, indicators = x[:, np.asarray(got.indices)], np.eye(4)[y]
    bases = [np.linalg.svd(a - a.mean(axis=0), full_matrices=False) for a in (chosen, indicators)]
    correlations = np.linalg.svd(bases[0][0].T @ bases[1][0][:, :3], compute_uv=False)
    np.testing.assert_allclose(got.objective[-1], np.sum(correlations**2), rtol=1e-9)
    assert got.objective[-1] < 3


def test_units_do_not_matter_and_copies_come_last():
    x, y = mixture(42, d=8)
    x[:, 6], x[:, 7] = 3 - x[:, 1], 1.0
    expected = jaxfs.cca_select(x, y, 7, num_classes=3)
    assert len({1, 6} & set(np.asarray(expected.indices[:6]).tolist())) == 1
    exact = jaxfs.cca_select(x * 2.0 ** np.arange(-4, 4), y, 7, num_classes=3)
    np.testing.assert_array_equal(exact.indices, expected.indices)
    np.testing.assert_array_equal(exact.objective, expected.objective)


def test_few_samples_need_a_ridge():
    x, y = mixture(43, n=18, d=40)
    with pytest.raises(ValueError, match="ridge must be positive to select 20 features"):
        jaxfs.cca_select(x, y, 20, num_classes=3, ridge=0.0)
    got = jaxfs.cca_select(x.astype("float32"), y, 20, num_classes=3)
    assert len(set(np.asarray(got.indices).tolist())) == 20
    assert got.objective.dtype == np.float32


def test_fastcan_selects_the_same():
    fastcan = pytest.importorskip("fastcan")
    x, y = mixture(44, num_classes=4)
    theirs = fastcan.FastCan(8, verbose=0).fit(x, np.eye(4)[y][:, :3]).indices_
    ours = jaxfs.cca_select(x, y, 8, num_classes=4, ridge=0.0).indices
    np.testing.assert_array_equal(ours, theirs)
