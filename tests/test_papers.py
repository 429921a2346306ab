"""The parts of the benchmarks that the results pages rest on."""

import numpy as np
from sklearn.svm import SVC

from benchmarks import selection
from benchmarks.papers import manifest_genes
from tests.helpers import rng


def test_direct_libsvm_is_scikit_learns_svm():
    x, y = rng(0).normal(size=(140, 4)), np.arange(140) % 2
    x[y == 1, 0] += 1.5
    kernel = x @ x.T
    train, test = np.arange(40), np.arange(40, 140)
    model = SVC(C=2.0, kernel="precomputed").fit(kernel[:40, :40], y[:40])
    expected = model.score(kernel[40:, :40], y[40:])
    assert 0.5 < expected < 1
    assert manifest_genes.right(kernel, y, 2.0, train, test) == expected


def test_settings_are_chosen_by_validation_and_reported_by_test():
    # Two settings and two numbers of features; each entry is (validation, test).
    models = [[[0.9, 0.5], [0.6, 0.7]], [[0.8, 0.6], [0.7, 0.4]]]
    found = [{"counts": [1, 2], "models": {"a": models}}]
    assert manifest_genes.accuracies(found, "a").tolist() == [[[90.0, 50.0], [70.0, 40.0]]]
    assert manifest_genes.accuracies(found, "a", 0)[0, 1].tolist() == [60.0, 70.0]


def test_held_out_svm_is_chosen_without_the_other_samples():
    x, y = rng(1).normal(size=(80, 3)), np.arange(80) % 2
    x[:, 0] += 2.0 * y
    model, accuracy = selection.held_out_svm(x, y, size=40)
    assert accuracy > 0.7
    changed = x.copy()
    order = np.random.default_rng(0).permutation(80)
    changed[order[40:]] = np.nan  # beyond `size`: never seen
    again, same = selection.held_out_svm(changed, y, size=40)
    assert same == accuracy
    assert again.get_params()["svc__gamma"] == model.get_params()["svc__gamma"]


def test_filters_find_a_feature_that_separates_the_classes():
    x, y = rng(2).normal(size=(60, 5)).astype(np.float32), np.arange(60) % 2
    x[:, 3] += 4.0 * y
    found = selection.filters(x, y, neighbors=(3, 5), graphs=(2,))
    assert {len(found[name]) for name in ("IG", "ReliefF")} == {2}
    supervised = [s for name, scores in found.items() if name != "Laplacian" for s in scores]
    assert all(selection.top(s, 1)[0] == 3 for s in supervised)
