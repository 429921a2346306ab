"""Verdicts of the results pages follow from the numbers, and small parts compute what they say."""

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("sklearn")

from benchmarks import clustering
from benchmarks.papers import (
    dirichlet_graphs,
    dirichlet_sections,
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


def test_dirichlet_tables():
    same, worse = downstream(0.0), downstream(-40.0)
    assert dirichlet_sections.show_table_s1(same).verdict.startswith("reproduced on the sets")
    assert dirichlet_sections.show_table_s1(worse).verdict.startswith("not reproduced")
    # A smaller RMSE is better.
    assert "reaches the paper on 7 of 7" in dirichlet_sections.show_table_s3(worse).verdict
    assert dirichlet_sections.show_table_s3(downstream(40.0)).verdict.startswith("not reproduced")


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
