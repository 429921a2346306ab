"""Walk from one covariance matrix to another, on the geodesic and on the straight line.

The ellipses of the straight line are larger in the middle. The determinant on the geodesic goes
evenly from one end to the other, on a logarithmic scale.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxfs

first = jnp.array([[1.0, 0.9], [0.9, 1.0]])
last = jnp.array([[1.0, -0.9], [-0.9, 1.0]])
steps = jnp.linspace(0, 1, 7)
walks = {
    "geodesic": jax.vmap(lambda t: jaxfs.geometry.spd.geodesic(first, last, t))(steps),
    "straight line": jax.vmap(lambda t: (1 - t) * first + t * last)(steps),
}
angle = np.linspace(0, 2 * np.pi, 100)
circle = jnp.array([np.cos(angle), np.sin(angle)])

figure = Figure(figsize=(7, 2.6), layout="constrained")
axes = figure.subplots(2, 1)
for ax, (name, matrices) in zip(axes, walks.items(), strict=True):
    roots = jax.vmap(jaxfs.linalg.sqrtm)(matrices)
    for place, (root, matrix) in enumerate(zip(roots, matrices, strict=True)):
        ellipse = np.asarray(root @ circle)
        ax.fill(2.4 * place + ellipse[0], ellipse[1], alpha=0.5, color=f"C{name != 'geodesic':d}")
        area = float(jnp.sqrt(jnp.linalg.det(matrix)))
        ax.text(2.4 * place, -1.75, f"{area:.2f}", ha="center", fontsize="small")
    ax.set(aspect="equal", ylabel=name, xticks=[], yticks=[], ylim=(-2, 1.2))
    ax.spines[:].set_visible(False)
figure.suptitle("ellipses of the matrices, with √det", fontsize="medium")
figure.savefig("geodesic.png", dpi=90)
