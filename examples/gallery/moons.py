"""Find the two features of a curve among ten features of noise, and its graph, without labels."""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

import jaxfs
from jaxfs import plot

moons, half = make_moons(200, noise=0.05, random_state=0)
noise = np.random.default_rng(0).normal(size=(200, 10))
x = np.hstack([noise[:, :5], moons, noise[:, 5:]]).astype(np.float32)  # the moons are 5 and 6
found = jaxfs.fit_dirichlet_selector(jax.random.key(0), x, 2)

figure = Figure(figsize=(7, 3), layout="constrained")
before, after = figure.subplots(1, 2)
everything = jaxfs.KNNGraphLearner(num_neighbors=5, gamma=0.0)(jnp.asarray(x))
plot.knn_graph(everything, x[:, 5:7], labels=half, ax=before)
before.set(title="graph of all features", xlabel="feature 5", ylabel="feature 6")
plot.knn_graph(found, x, labels=half, ax=after)
after.set_title("graph of the selected features")
figure.savefig("moons.png", dpi=60)
