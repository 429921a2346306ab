"""The redundancy-aware selectors: against loops over the definitions, a package, and at edges."""

import functools

import jax
import numpy as np
import pytest

import jaxfs
from tests.helpers import assert_close, rng
from tests.methods.classical import redundancy_oracle as oracle

N, D, BINS = 120, 8, 4
BINNED = {"num_classes": 3, "num_bins": BINS, "binning": "width"}
SELECTORS = {
    "mrmr": jaxfs.mrmr_select,
    "cfs": jaxfs.cfs_select,
    "fcbf": jaxfs.fcbf_select,
    "jmi": jaxfs.jmi_select,
    "cmim": jaxfs.cmim_select,
}


def data() -> tuple[np.ndarray, np.ndarray]:
    """Values 0 … 3, which bins of equal width keep; 5 is a copy of 2, 6 a noisy one of 0."""
    random = rng(0)
    y = np.arange(N) % 3
    x = random.integers(0, BINS, size=(N, D))
    x[:, 0] = np.where(random.random(N) < 0.6, y, x[:, 0])
    x[:, 2] = np.where(random.random(N) < 0.5, y == 1, x[:, 2])
    x[:, 3] = np.where(random.random(N) < 0.5, 3 * (y == 2), x[:, 3])
    x[:, 6] = np.where(random.random(N) < 0.9, x[:, 0], x[:, 6])
    x[:, 5] = x[:, 2]
    x[:, 7] = 1
    x[0, :7], x[1, :7] = 0, BINS - 1
    return x.astype(float), y


def padded(chosen: list[int], size: int) -> list[int]:
    return [*chosen, *[-1] * (size - len(chosen))]


def test_jmi_and_cmim_are_the_papers():
    x, y = data()
    for select, literal in ((jaxfs.jmi_select, oracle.jmi), (jaxfs.cmim_select, oracle.cmim)):
        answer = select(x, y, D, **BINNED)
        assert answer.indices.tolist() == padded(literal(x, y, D), D)
        assert answer.indices[-1] == -1  # the constant is never chosen
        assert np.isnan(answer.objective[-1])


def test_cfs_is_halls():
    x, y = data()
    chosen, merits = oracle.cfs(x, y, D)
    answer = jaxfs.cfs_select(x, y, D, **BINNED)
    assert answer.indices.tolist() == padded(chosen, D)
    assert 2 <= len(chosen) < D
    assert not {2, 5} <= set(chosen)
    assert_close(answer.objective[: len(chosen)], merits, 1e-12)
    assert jaxfs.cfs_select(x, y, 2, **BINNED).indices.tolist() == chosen[:2]


@pytest.mark.parametrize("threshold", [0.0, 0.1])
def test_fcbf_is_yus_and_lius(threshold):
    x, y = data()
    chosen = oracle.fcbf(x, y, threshold)
    select = jax.jit(lambda t: jaxfs.fcbf_select(x, y, D, threshold=t, **BINNED))
    answer = select(threshold)
    assert answer.indices.tolist() == padded(chosen, D)
    assert not {2, 5} <= set(chosen)
    expected = [oracle.uncertainty(x[:, i], y) for i in chosen]
    assert_close(answer.objective[: len(chosen)], expected, 1e-12)


@pytest.mark.parametrize("scheme", ["quotient", "difference"])
def test_mrmr_of_information(scheme):
    x, y = data()
    relevance = [oracle.information(column, y) for column in x.T]
    redundancy = np.array([[oracle.information(a, b) for a in x.T] for b in x.T])
    answer = jaxfs.mrmr_select(x, y, D, scheme=scheme, relevance="mi", redundancy="mi", **BINNED)
    expected = oracle.mrmr(relevance, redundancy, D, scheme)
    assert answer.indices.tolist() == padded(expected, D)


def continuous() -> tuple[np.ndarray, np.ndarray]:
    """Thirty features of five sources, the first features the more relevant."""
    random = rng(1)
    y = np.arange(200) % 3
    sources = random.normal(size=(200, 5))
    x = sources[:, np.arange(30) % 5] + random.normal(size=(200, 30))
    return x + np.outer(y, np.linspace(1, 0, 30)), y


def test_mrmr_of_correlations():
    x, y = continuous()
    relevance = np.asarray(jaxfs.anova_score(x, y, num_classes=3))
    redundancy = np.abs(np.corrcoef(x.T))
    for scheme in ("quotient", "difference"):
        answer = jaxfs.mrmr_select(x, y, 20, num_classes=3, scheme=scheme)
        assert answer.indices.tolist() == oracle.mrmr(relevance, redundancy, 20, scheme)


def test_mrmr_selection_chooses_the_same_twenty():
    mrmr, pandas = pytest.importorskip("mrmr"), pytest.importorskip("pandas")
    x, y = continuous()
    peer = mrmr.mrmr_classif(
        X=pandas.DataFrame(x), y=pandas.Series(y), K=20, n_jobs=1, show_progress=False
    )
    assert jaxfs.mrmr_select(x, y, 20, num_classes=3).indices.tolist() == peer


def continuous_target() -> tuple[np.ndarray, np.ndarray]:
    x, _ = continuous()
    return x, x[:, 3] - 0.5 * x[:, 11] + rng(2).normal(size=200)


def test_mrmr_of_a_number():
    x, target = continuous_target()
    relevance = np.asarray(jaxfs.f_regression_score(x, target))
    expected = oracle.mrmr(relevance, np.abs(np.corrcoef(x.T)), 20, "quotient")
    assert jaxfs.mrmr_regression_select(x, target, 20).indices.tolist() == expected
    weights = np.r_[np.ones(150), np.zeros(50)]
    weighted = jaxfs.mrmr_regression_select(x, target, 5, weights=weights)
    assert (
        weighted.indices.tolist()
        == jaxfs.mrmr_regression_select(x[:150], target[:150], 5).indices.tolist()
    )
    for wrong in (np.ones(200), np.full(200, np.nan)):
        assert jaxfs.mrmr_regression_select(x, wrong, 3).indices.tolist() == [-1, -1, -1]


def test_mrmr_selection_chooses_the_same_twenty_for_a_number():
    x, target = continuous_target()
    mrmr, pandas = pytest.importorskip("mrmr"), pytest.importorskip("pandas")
    frame, series = pandas.DataFrame(x), pandas.Series(target)
    peer = mrmr.mrmr_regression(X=frame, y=series, K=20, n_jobs=1, show_progress=False)
    assert jaxfs.mrmr_regression_select(x, target, 20).indices.tolist() == peer


def test_copies_come_last_in_the_quotient():
    """A redundancy of 1 counts as infinite; of equal features the first is chosen."""
    x, y = continuous()
    x[:, 1] = -3 * x[:, 0] + 7
    answer = jaxfs.mrmr_select(x[:, :4], y, 4, num_classes=3)
    assert answer.indices[0] == 0
    x[:, 1:4] = x[:, :1]
    answer = jaxfs.mrmr_select(x[:, :4], y, 4, num_classes=3)
    assert answer.indices.tolist() == [0, 1, 2, 3]
    assert np.all(answer.objective[1:] == 0)


def test_features_that_part_the_classes_perfectly_come_first():
    x, y = continuous()
    x[:, 3] = x[:, 5] = y
    answer = jaxfs.mrmr_select(x[:, :6], y, 3, num_classes=3)
    assert answer.indices[0] == 3
    assert np.isinf(answer.objective[0])


@pytest.mark.parametrize("select", SELECTORS.values(), ids=SELECTORS.keys())
def test_bad_input_is_named(select):
    x, y = data()
    if select is jaxfs.mrmr_select:  # whose F and Pearson have no bins
        select = functools.partial(select, relevance="mi")
    for options, message in (
        ({"num_classes": 4}, "each of 4 classes has samples, got none of 3"),
        ({"num_classes": 2}, "got the label 2"),
        ({"num_classes": 3, "num_bins": 1}, "num_bins must be at least 2"),
        ({"num_classes": 3, "binning": "mdl"}, "binning must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            select(x, y, 2, **options)
    with pytest.raises(ValueError, match=r"num_features must be an integer in \[1, 8\], got 9"):
        select(x, y, 9, num_classes=3)


def test_options_are_named():
    x, y = data()
    for option in ("scheme", "relevance", "redundancy"):
        with pytest.raises(ValueError, match=f"{option} must be one of"):
            jaxfs.mrmr_select(x, y, 2, num_classes=3, **{option: "other"})
    with pytest.raises(ValueError, match=r"threshold must be in \[0, 1\], got 2.0"):
        jaxfs.fcbf_select(x, y, 2, num_classes=3, threshold=2.0)
