"""Choose two nearest neighbours softly: the choice sharpens as γ decreases, and has gradients."""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxfs

distances = jnp.array([0.1, 0.4, 0.5, 0.9, 2.0])
gammas = jnp.logspace(-2.5, 1, 40)


def chosen(gamma: jax.Array, e: jax.Array) -> jax.Array:
    """How much each point is chosen as one of two neighbours: numbers that sum to two."""
    return jaxfs.soft_knn(e[None], 2, gamma=gamma).nearest[0]


shares = np.asarray(jax.vmap(chosen, (0, None))(gammas, distances))
slopes = np.asarray(jax.vmap(jax.jacobian(chosen, 1), (0, None))(gammas, distances))

figure = Figure(figsize=(7, 2.8), layout="constrained")
left, right = figure.subplots(1, 2)
for i, style in enumerate(["-", "--", "-.", ":", (0, (3, 1, 1, 1))]):
    left.plot(gammas, shares[:, i], linestyle=style, label=f"{distances[i]:.1f}")
    right.plot(gammas, slopes[:, i, 1], linestyle=style)
left.set(ylabel="chosen", title="choice of each point")
right.set(ylabel="derivative", title="derivative in the distance 0.4")
left.legend(title="distance", frameon=False, fontsize="small")
for ax in (left, right):
    ax.set(xscale="log", xlabel="γ")
figure.savefig("soft_neighbors.png", dpi=80)
