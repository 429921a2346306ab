"""A score as a function of arrays: compile it, batch it, differentiate it."""

# --8<-- [start:imports]
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import jaxfs
from jaxfs import plot

# --8<-- [end:imports]

# --8<-- [start:jit]
x, y = load_digits(return_X_y=True)
rows = np.isin(y, [3, 8])
x = jnp.asarray(x[rows] / 16, jnp.float32)  # (357, 64) pixels of the digits 3 and 8
y = jnp.asarray(y[rows] == 8, jnp.int32)


@jax.jit
def score(x, y, weights, factor=1.0):
    """ManiFeSt: pixels whose relations to other pixels differ between the digits."""
    first = weights * (y == 0)
    return jaxfs.manifest_score(
        x, x, bandwidth=jaxfs.Median(factor), weights1=first, weights2=weights - first
    )


scores = score(x, y, jnp.ones(len(y), x.dtype))
print("best pixels:", jax.lax.top_k(scores, 5)[1].tolist())
# --8<-- [end:jit]

# --8<-- [start:vmap]
key = jax.random.key(0)
masks = jax.random.bernoulli(key, 0.5, (100, len(y))).astype(x.dtype)  # 100 random halves
halves = jax.vmap(score, (None, None, 0))(x, y, masks)  # (100, 64)
print("shapes:", scores.shape, halves.shape)
ten_best = jax.lax.top_k(halves, 10)[1]
often = jnp.zeros(64).at[ten_best].add(1 / 100)
print(f"pixels among the ten best of every half: {int((often > 0.995).sum())}")
# --8<-- [end:vmap]

# --8<-- [start:null]
labels = jax.vmap(lambda k: jax.random.permutation(k, y))(jax.random.split(key, 200))
chance = jax.lax.map(lambda z: score(x, z, jnp.ones(len(y), x.dtype)), labels, batch_size=50)
largest = chance.max(axis=1)  # the best pixel of each relabeling
limit = jnp.quantile(largest, 0.95)
print(f"pixels above 95% of the largest scores by chance: {int((scores > limit).sum())} of 64")
# --8<-- [end:null]


# --8<-- [start:grad]
def total(factor):
    return score(x, y, jnp.ones(len(y), x.dtype), factor).sum()


slope = jax.grad(total)(1.0)
difference = (total(1.01) - total(0.99)) / 0.02
print(f"derivative in the bandwidth: {slope:.3f}, by differences: {difference:.3f}")
saliency = jax.grad(lambda x: score(x, y, jnp.ones(len(y), x.dtype)).max())(x)
print("gradient in the images:", saliency.shape, "finite:", bool(jnp.isfinite(saliency).all()))
# --8<-- [end:grad]

figure = Figure(figsize=(7, 2.6), layout="constrained")
axes = figure.subplots(1, 3)
plot.pixel_map(scores, (8, 8), num_marked=5, ax=axes[0])
axes[0].set_title("score")
plot.pixel_map(often, (8, 8), label="share of the halves", ax=axes[1])
axes[1].set_title("among the ten best")
plot.pixel_map(jnp.abs(saliency).mean(axis=0), (8, 8), label="mean |gradient|", ax=axes[2])
axes[2].set_title("gradient of the best score")
for ax in axes:
    ax.set(xticks=[], yticks=[])
figure.savefig("pixels.png", dpi=80)

figure = Figure(figsize=(5, 2.8), layout="constrained")
ax = figure.subplots()
ax.hist(np.asarray(largest), bins=20, color="0.7", label="largest score of a relabeling")
for place, value in enumerate(np.sort(scores)[::-1][:5]):
    ax.axvline(value, color="C1", linewidth=1.5, label=None if place else "five best scores")
ax.set(xlabel="score", ylabel="relabelings")
ax.legend(frameon=False)
figure.savefig("chance.png", dpi=90)
