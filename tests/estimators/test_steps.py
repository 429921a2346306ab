"""Fits in several steps: the same numbers as in one, a progress bar, and interrupts."""

import builtins

import jax
import numpy as np
import pytest

import jaxfs
from jaxfs.estimators import (
    SSFS,
    DirichletGraphSelector,
    FilterSelector,
    ManiFeSt,
    StabilitySelector,
    _progress,
)
from jaxfs.estimators import manifest as manifest_module
from jaxfs.estimators._arrays import random_key
from jaxfs.methods.dirichlet import _training
from tests.helpers import assert_close, rng

X = rng(0).normal(size=(32, 8))  # of a size that is not padded
X[:16, 2] += 6
X[::2, 5] += 5
OPTIONS = {"pseudo_labels": "continuous", "ranking": "score"}


def test_ssfs_in_chunks():
    with jax.enable_x64(True):
        key = random_key(0)
    stable = jaxfs.Stable(num_resamples=7, fraction=0.7)
    whole = jaxfs.ssfs(key, X, num_pseudo_labels=1, selection=stable, **OPTIONS)
    chunks = SSFS(n_pseudo_labels=1, selection=stable, random_state=0, **OPTIONS)
    chunks.set_params(selection__chunk_size=2).fit(X)
    # The seventh resample is alone in its chunk and still counts.
    assert_close(chunks.result_.criterion, whole.criterion, 1e-9)
    assert_close(chunks.scores_, whole.scores, 1e-9)
    assert chunks.result_.selected.tolist() == whole.selected.tolist()


def test_dirichlet_in_chunks(monkeypatch):
    monkeypatch.setattr(_training, "CHUNK", 2)
    selector = DirichletGraphSelector(
        n_features_to_select=2, n_steps=6, n_restarts=2, n_neighbors=3, random_state=0
    )
    found = selector.fit(X)
    whole = jaxfs.fit_dirichlet_selector(
        random_key(0), X, 2, num_steps=6, num_restarts=2, num_neighbors=3
    )
    assert np.argsort(found.ranking_)[:2].tolist() == whole.indices.tolist()
    assert_close(found.energies_, whole.energies, 1e-9)
    assert_close(found.relevance_, whole.relevance, 1e-9)
    assert found.graph_.indices.tolist() == whole.graph.indices.tolist()


def test_interrupt_leaves_nothing_half_written(monkeypatch):
    y = np.arange(32) % 2
    fitted = StabilitySelector(FilterSelector(), n_resamples=3, random_state=0).fit(X, y)
    before = dict(vars(fitted))
    calls = []

    def fit(self, X, y=None):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, X, y)

    original = FilterSelector.fit
    monkeypatch.setattr(FilterSelector, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X[:, :4], y)
    assert len(calls) == 2
    assert vars(fitted) == before


def test_verbose_shows_a_bar(capsys):
    y = np.arange(32) % 2
    StabilitySelector(FilterSelector(), n_resamples=3, verbose=True, random_state=0).fit(X, y)
    shown = capsys.readouterr()
    assert "StabilitySelector: 32 samples, 8 features: about" in shown.err
    assert "resamples" in shown.err
    assert "100%" in shown.err
    assert shown.out == ""


def test_verbose_without_rich(monkeypatch):
    original = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("rich"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"verbose=True needs the package rich"):
        _progress.say("x")


def test_low_rank_is_taken_where_exact_does_not_fit(monkeypatch):
    y = np.arange(32) % 2
    exact = ManiFeSt(solver="exact").fit(X, y)
    monkeypatch.setattr(manifest_module, "_LARGEST", 7)
    with pytest.warns(UserWarning, match="uses its low-rank solver, because 8 features of 2"):
        low = ManiFeSt(random_state=0).fit(X, y)
    assert (exact.solver_, low.solver_) == ("exact", "lowrank")
    # Of the full rank it is the exact score; float64 factors of a kernel lose some digits.
    assert_close(low.scores_, exact.scores_, 1e-6)
    three = np.arange(32) % 3
    several = ManiFeSt(solver="lowrank", random_state=0).fit(X, three)
    assert several.scores_.shape == (8,)
    with pytest.raises(ValueError, match='"spd" for solver="lowrank"'):
        ManiFeSt(solver="lowrank", geometry="spsd").fit(X, y)


def test_manifest_says_which_bandwidth_it_chose(capsys):
    x = np.random.default_rng(0).integers(0, 2, size=(50, 30)).astype(float)
    y = (x[:, 0] != x[:, 4]).astype(int)
    fitted = ManiFeSt(n_features_to_select=2, verbose=True).fit(x, y)
    assert fitted.get_support(indices=True).tolist() == [0, 4]
    assert fitted.factor_ == min(fitted.factor_losses_, key=fitted.factor_losses_.__getitem__)
    assert fitted.factor_ < 1
    assert f"bandwidth: {fitted.factor_:g} × median" in fitted.notes_[0]
    assert fitted.notes_[0] in capsys.readouterr().err
    alone = ManiFeSt(factor=fitted.factor_, combine=None).fit(x, y)
    assert (alone.notes_, alone.factor_losses_) == ([], {})
    partner = jax.jit(lambda w: jaxfs.relieff_score(x, y, num_classes=2, weights=w))(np.ones(50))
    both = jaxfs.combine_scores(alone.scores_, partner, method="robust")
    assert_close(fitted.scores_, both, 1e-8)
    once = ManiFeSt().fit(x[:2], [0, 1])
    assert once.factor_ == 1
    assert "no class has two samples" in once.notes_[0]


@pytest.mark.parametrize(("classes", "most"), [(2, 3000), (3, 1310), (10, 877)])
def test_exact_up_to_the_documented_work(classes, most):
    """784 pixels of ten digits, the example of the paper, are within the limit."""
    selector = ManiFeSt()
    assert selector._chosen_solver(most, classes) == "exact"
    assert selector._chosen_solver(most + 1, classes) == "lowrank"
    assert f"{most}" in ManiFeSt.__doc__


def test_xgboost_scores():
    pytest.importorskip("xgboost")
    fitted = SSFS(scoring="xgboost", n_pseudo_labels=1, n_features_to_select=1, ranking="score")
    assert fitted.fit(X).get_support(indices=True).tolist() in ([2], [5])
    gains = fitted.result_.scores_per_eigenvector
    assert gains.shape == (1, 8)
    assert gains.sum() == pytest.approx(1)
