"""Verdicts of the results pages follow from the numbers, and small parts compute what they say."""

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("sklearn")

from benchmarks import clustering
from benchmarks.papers import (
    _parts,
    dirichlet,
    dirichlet_graphs,
    dirichlet_sections,
    gaussian_tables,
    ssfs_manifold,
    ssfs_sections,
)


def accuracies(percent: float) -> list:
    """A table of k-means runs whose best mean is `percent`."""
    shape = len(clustering.FEATURE_COUNTS), clustering.NUM_RUNS
    return np.full(shape, percent / 100).tolist()


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.0, "reproduced on the sets"), (-30.0, "not reproduced")]
)
def test_ssfs_table_1(shift, verdict):
    found = [
        {"set": name, "accuracies": {m: accuracies(p[0] + shift) for m, p in rows.items()}}
        for name, rows in ssfs_sections.TABLE_1.items()
    ]
    answer = ssfs_sections.show_table_1(found)
    assert answer.verdict.startswith(verdict)
    assert f"{shift:+.1f} ± " in answer.text


def downstream(shift: float) -> list[dict]:
    """Three splits in which every method has the paper's mean plus `shift` per cent of it."""
    paper = dirichlet_sections.PAPER

    def of(method, i):
        values = {task: paper[task][method][i : i + 1] or ((1.0, 0.0),) for task in paper}
        return {task: [v[0][0] * (1 + shift / 100)] for task, v in values.items()}

    ours = {"Our": "default", "LS": "Laplacian score", "AllFea": "all features"}
    return 3 * [
        {
            name: {"counts": [20], "methods": {ours[m]: of(m, i) for m in ours}}
            for i, name in enumerate(dirichlet_sections.TABLE_1)
        }
    ]


def of_dirichlet(number: str, found: list[dict]) -> str:
    """The verdict on Table S1, S2 or S3."""
    part = next(part for part in dirichlet.PARTS if part.label == f"Table {number}")
    return part.judge({part.name: _parts.tables(part.show(found).text)})


def test_dirichlet_tables():
    same, worse = downstream(0.0), downstream(-40.0)
    verdict = of_dirichlet("S1", same)
    # The paper's network was not run.
    assert verdict.startswith("reproduced in part")
    assert "on 7 of 7 sets and misses them on 0, and 14 of 14 numbers" in verdict
    assert of_dirichlet("S1", worse).startswith("not reproduced")
    assert "on 0 of 7 sets and misses them on 7" in of_dirichlet("S1", worse)
    # A smaller RMSE is better, but it is not the paper's.
    assert "on 0 of 7 sets and misses them on 0" in of_dirichlet("S3", worse)
    assert "on 0 of 7 sets and misses them on 7" in of_dirichlet("S3", downstream(40.0))


def test_numbers_agree_within_two_standard_errors():
    assert _parts.agrees(-2.0, 1.0)
    assert not _parts.agrees(2.01, 1.0)
    assert _parts.agrees(2.5, 1.0, 0.5)


@pytest.mark.parametrize(
    ("marks", "words"),
    [((1, 1), "reproduced"), ((1, 0), "reproduced in part"), ((0, 0), "not reproduced")],
)
def test_a_claim_that_fails_leaves_a_part(marks, words):
    assert _parts.state(map(bool, marks)) == words


def test_starred_rows_are_ranked():
    rows = [["", "paper", "jaxfs"], *([m, "–", "50.0"] for m in gaussian_tables.RANKED)]
    rows += [["random", "–", "60.0"], ["SBMLR", "50.0", "–"]]
    better = {"GC.MI": "70.0", "CFS": "65.0", "GKL.MI": "64.0", "GKL.E": "64.0", "GC.MI*": "63.0"}
    rows = [[row[0], row[1], better.get(row[0], row[2])] for row in rows]
    tables = {part.name: [rows] for part in gaussian_tables.TABLES}
    verdict = gaussian_tables.judge_places(tables)
    assert verdict.startswith("reproduced in part")  # GC.MI* is number 5
    assert "GC.MI is number 1 of 15" in verdict
    assert "number 5 with the paper's covariances (GC.MI*), behind CFS, GKL.E, GKL.MI;" in verdict
    assert "GKL.E is number 3, GKL.E* number 6; random features are better than GKL.E*" in verdict


def test_agreement_ignores_names():
    assert ssfs_manifold.agreement([0, 0, 1, 1], [1, 1, 0, 0]) == 1
    assert ssfs_manifold.agreement([0, 1, 0, 1], [1, 1, 0, 0]) == 0.5


def test_positions_are_uniform_along_the_curves():
    position, x = ssfs_manifold.product(0, 4000)
    order = np.argsort(position[:, 0])
    steps = np.linalg.norm(np.diff(x[order, :3], axis=0), axis=1)
    along = np.concatenate([[0], np.cumsum(steps)]) / steps.sum()
    assert np.abs(along - position[order, 0]).max() < 0.01


def test_energy_is_least_on_the_right_graph():
    one = dirichlet_graphs.figure_1(0)
    assert one["coordinate"] < 0.2 * min(one["noise"], one["random graph"])


def test_smooth_features_are_found_on_the_heat_graph():
    generator = np.random.default_rng(0)
    angle = generator.uniform(0, 2 * np.pi, 60)
    x = generator.normal(size=(60, 6)) * 0.1
    x[:, [1, 4]] = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = x.astype(np.float32)
    graph = dirichlet_graphs.heat(x[:, [1, 4]], 1.0)
    assert np.allclose(graph, graph.T)
    assert (np.count_nonzero(graph, axis=1) >= dirichlet_graphs.NUM_NEIGHBORS).all()
    # Copies of the useful features outweigh the noise in the distances.
    scaled = np.concatenate([x] + [x[:, [1, 4]]] * 3, axis=1)
    chosen = dirichlet_graphs.smoothest(scaled, 8)
    assert set(chosen.tolist()) == {1, 4, *range(6, 12)}
