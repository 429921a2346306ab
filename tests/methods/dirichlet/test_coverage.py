"""The greedy coverage against a plain loop, and its theorems."""

import functools

import jax
import numpy as np
import pytest

import jaxfs
from jaxfs.methods.dirichlet import _objectives
from jaxfs.methods.dirichlet._objectives import cover
from tests.helpers import rng

compiled = jax.jit(cover, static_argnames="m")


def correlated(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Columns of mean 0 and norm 1 that share six factors."""
    x = rng(seed).normal(size=(n, 6)) @ rng(seed + 1).normal(size=(6, d))
    x = x + 0.5 * rng(seed + 2).normal(size=(n, d))
    x = x - x.mean(axis=0)
    return x / np.linalg.norm(x, axis=0)


def value(units, worth, chosen) -> float:
    """Σ_j w_j max_{i ∈ S} |corr_ij|."""
    return float(worth @ np.abs(units[:, list(chosen)].T @ units).max(axis=0))


def literal(units, worth, allowed, m: int) -> list[int]:
    chosen: list[int] = []
    for _ in range(m):
        left = [i for i in np.flatnonzero(allowed) if i not in chosen]
        chosen.append(int(max(left, key=lambda i: value(units, worth, [*chosen, i]))))
    return chosen


@pytest.mark.parametrize(
    ("n", "d", "m", "together"),
    [(50, 60, 20, 1), (50, 60, 20, 4), (10, 40, 40, 4), (10, 40, 40, 64), (30, 7, 1, 4)],
)
def test_the_choice_is_that_of_a_loop(monkeypatch, n, d, m, together):
    monkeypatch.setattr(_objectives, "_TOGETHER", together)
    units, worth = correlated(n, d), rng(5).uniform(size=d)
    allowed = np.ones(d, bool)
    find = jax.jit(functools.partial(cover, m=m))
    assert find(units, worth, allowed).tolist() == literal(units, worth, allowed, m)


def test_what_is_not_allowed_or_constant_is_not_chosen():
    units, worth = correlated(30, 12), np.ones(12)
    units[:, 4] = 0  # constant
    allowed = np.arange(12) % 3 > 0
    got = compiled(units, worth, allowed, m=8).tolist()
    assert sorted(got) == np.flatnonzero(allowed).tolist()
    assert got[-1] == 4  # allowed here, and covers nothing
    assert got == literal(units, worth, allowed, 8)


def test_where_nothing_can_be_known_there_is_an_end():
    """Fewer allowed than asked for, infinite worth, NaN; one feature."""
    units, worth = correlated(20, 40), np.ones(40)
    few = compiled(units, worth, np.arange(40) < 3, m=5).tolist()
    assert sorted(few[:3]) == [0, 1, 2]
    worth[7] = np.inf
    assert compiled(units, worth, np.ones(40, bool), m=5).shape == (5,)
    units[0, 3] = np.nan
    assert compiled(units, np.ones(40), np.ones(40, bool), m=5).shape == (5,)
    assert compiled(units[:, :1], np.ones(1), np.ones(1, bool), m=1).tolist() == [0]


def test_duplicates_tie_by_index_and_batches_are_loops():
    units = np.repeat(correlated(30, 50), 2, axis=1)  # in several blocks
    got = compiled(units, np.ones(100), np.ones(100, bool), m=8).tolist()
    assert got == [2 * i for i in literal(units[:, ::2], np.ones(50), np.ones(50, bool), 8)]
    in_float32 = compiled(units.astype("float32"), np.ones(100, "f4"), np.ones(100, bool), m=8)
    assert [i // 2 for i in in_float32.tolist()] == [i // 2 for i in got]
    many = np.stack([correlated(30, 16, seed) for seed in range(3)]).astype("float32")
    find = functools.partial(
        compiled, weights=np.ones(16, "float32"), allowed=np.ones(16, bool), m=5
    )
    both = jax.vmap(find)(many)
    assert both.tolist() == [find(units).tolist() for units in many]


def test_relevant_features_come_first_and_the_others_after_them():
    """Two pairs on curves among noise: those four, then four that cover the noise."""
    x = rng(0).normal(size=(120, 12))
    x[:, 3] = np.sin(2 * x[:, 1]) + 0.1 * x[:, 3]
    x[:, 8] = np.cos(2 * x[:, 5]) + 0.1 * x[:, 8]
    found = jaxfs.fit_dirichlet_selector(jax.random.key(0), x, 8, num_steps=60, num_restarts=4)
    assert set(found.indices[:4].tolist()) == {1, 3, 5, 8}
    assert len(set(found.indices.tolist())) == 8


def test_parts_of_the_samples_and_padding(monkeypatch):
    """Correlations of twenty of sixty samples, whatever padding stands between them."""
    monkeypatch.setattr(_objectives, "CORRELATED", 20)
    x = rng(0).normal(size=(60, 5))
    x[:, 3] = np.cos(1.5 * x[:, 1]) + 0.1 * x[:, 3]
    key, options = jax.random.key(0), {"num_steps": 40, "num_restarts": 2}

    @jax.jit
    def fit(x, mask):
        return jaxfs.fit_dirichlet_selector(key, x, 3, mask=mask, **options)

    mask = np.arange(63) < 60
    found = fit(np.concatenate([x, np.full((3, 5), np.nan)]), mask)
    mask = ~np.isin(np.arange(63), [7, 8, 22])
    rows = np.full((63, 5), 1e30)
    rows[mask] = x
    padded = fit(rows, mask)
    assert set(found.indices[:2].tolist()) == {1, 3}
    assert padded.indices.tolist() == found.indices.tolist()
    assert found.restart_energies.shape == (2,)
