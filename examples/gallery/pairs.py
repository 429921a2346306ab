"""Score the pixels for all pairs of six digits at once, with `vmap`.

Above the diagonal: the score of each pixel. Below: the difference of the mean images, with the
three best pixels.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import jaxfs

x, y = load_digits(n_class=6, return_X_y=True)
x, y = jnp.asarray(x / 16, jnp.float32), jnp.asarray(y)
means = np.array([x[y == digit].mean(axis=0) for digit in range(6)])
pairs = np.array(list(itertools.combinations(range(6), 2)))


def score(pair: jax.Array) -> jax.Array:
    """The score of two digits; weights choose the images, so that all pairs have one shape."""
    first, second = ((y == digit).astype(x.dtype) for digit in pair)
    return jaxfs.manifest_score(x, x, weights1=first, weights2=second)


scores = np.asarray(jax.jit(jax.vmap(score))(pairs))  # (15, 64)

figure = Figure(figsize=(5, 5), layout="constrained")
axes = figure.subplots(6, 6)
for ax in axes.flat:
    ax.axis("off")
for digit, mean in enumerate(means):
    axes[digit, digit].imshow(mean.reshape(8, 8), cmap="gray_r")
for (i, j), found in zip(pairs, scores, strict=True):
    axes[i, j].imshow(found.reshape(8, 8), cmap="cividis")
    difference = (means[i] - means[j]).reshape(8, 8)
    axes[j, i].imshow(difference, cmap="RdBu_r", vmin=-1, vmax=1)
    best = np.argsort(-found)[:3]
    axes[j, i].plot(best % 8, best // 8, "x", color="black", markersize=4)
figure.savefig("pairs.png", dpi=90)
