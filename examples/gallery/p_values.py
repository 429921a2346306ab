"""Test features by permutation: 30 measurements of 40 tumours, and 30 permuted copies of them."""

import jax
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

import jaxfs
from jaxfs.inference import AnovaScore

data = load_breast_cancer()
rng = np.random.default_rng(0)
rows = rng.choice(len(data.target), 40, replace=False)
x, y = data.data[rows], data.target[rows]
x = np.hstack([x, rng.permuted(x, axis=0)]).astype(np.float32)
test = jaxfs.permutation_test(
    jax.random.key(0), AnovaScore(num_classes=2), x, y, num_permutations=9999
)
p = np.asarray(test.p_values)
order = np.argsort(p)
real = order < 30

figure = Figure(figsize=(5, 3.2), layout="constrained")
ax = figure.subplots()
place = np.arange(1, p.size + 1)
ax.scatter(place[real], p[order][real], s=18, marker="o", label="measured")
ax.scatter(place[~real], p[order][~real], s=18, marker="x", label="permuted")
ax.plot(place, 0.1 * place / p.size, color="black", linewidth=1, label="limit of FDR 0.1")
ax.set(yscale="log", xlabel="features, smallest p-value first", ylabel="p-value")
ax.legend(frameon=False)
figure.savefig("p_values.png", dpi=90)
