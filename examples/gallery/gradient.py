"""Differentiate a score: which pixels of an image change the score of one pixel?

The gradient of the score of the best pixel has one entry for each pixel of each image. The lower
row shows it for six images of the digit 4: red pixels raise the score when they get darker.
"""

import jax
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import jaxfs

x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)
fours, nines = x[y == 4], x[y == 9]
best = int(jaxfs.manifest_score(fours, nines).argmax())
slope = jax.jit(jax.grad(lambda x1: jaxfs.manifest_score(x1, nines)[best]))(fours)
slope = np.asarray(slope)
most = np.argsort(-np.abs(slope).max(axis=1))[:6]  # the images with the most influence

figure = Figure(figsize=(6.5, 2.4), layout="constrained")
axes = figure.subplots(2, 6)
limit = np.abs(slope[most]).max()
for place, image in enumerate(most):
    axes[0, place].imshow(fours[image].reshape(8, 8), cmap="gray_r")
    shown = slope[image].reshape(8, 8)
    axes[1, place].imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit)
for ax in axes.flat:
    ax.plot(best % 8, best // 8, "x", color="black")
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("image")
axes[1, 0].set_ylabel("gradient")
figure.suptitle(f"score of the pixel in row {best // 8}, column {best % 8} (×)", fontsize="medium")
figure.savefig("gradient.png", dpi=90)
