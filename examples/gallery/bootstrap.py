"""Repeat a selection on 200 bootstrap samples at once: weights count the copies of a sample."""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

import jaxfs

data = load_breast_cancer()
x, y = jnp.asarray(data.data, jnp.float32), jnp.asarray(data.target)
n, d = x.shape


def first_five(key: jax.Array) -> jax.Array:
    """Which features mRMR selects on a bootstrap sample, as a mask."""
    weights = jnp.bincount(jax.random.choice(key, n, (n,)), length=n).astype(x.dtype)
    found = jaxfs.mrmr_select(x, y, 5, num_classes=2, weights=weights)
    return jnp.zeros(d).at[found.indices].set(1)


masks = jax.jit(jax.vmap(first_five))(jax.random.split(jax.random.key(0), 200))
often = np.asarray(masks.mean(axis=0))
together = np.asarray(masks.T @ masks) / len(masks)
shown = np.argsort(-often)[:9]
names = data.feature_names[shown]

figure = Figure(figsize=(6, 4), layout="constrained")
ax = figure.subplots()
image = ax.imshow(together[np.ix_(shown, shown)], cmap="cividis", vmin=0, vmax=1)
ax.set_xticks(range(len(shown)), names, rotation=45, ha="right")
ax.set_yticks(range(len(shown)), names)
figure.colorbar(image, label="selected together")
figure.savefig("bootstrap.png", dpi=80)
