"""Compare the bandwidths of ManiFeSt: only some of them find an exclusive or.

The class is the exclusive or of two of 100 binary features. The first panel shows the
cross-validated loss by which `manifest_bandwidth` chooses, the second the rank that the worse of
the two features has at each bandwidth.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxfs

x = jax.random.bernoulli(jax.random.key(0), shape=(50, 100)).astype(float)
y = (x[:, 0] != x[:, 4]).astype(int)
chosen = jaxfs.manifest_bandwidth(jax.random.key(1), x, y, num_classes=2)


def worse_rank(factor: jax.Array) -> jax.Array:
    w = (y == 0).astype(x.dtype)
    rule = jaxfs.Median(factor)
    scores = jaxfs.manifest_score(x, x, bandwidth=rule, weights1=w, weights2=1 - w)
    return 1 + jnp.sum(scores > jnp.minimum(scores[0], scores[4]))


factors = 2.0 ** jnp.arange(-5, 3.5, 0.5)
ranks = jax.jit(jax.vmap(worse_rank))(factors)  # seventeen bandwidths at once

figure = Figure(figsize=(6.5, 2.6), layout="constrained")
loss, rank = figure.subplots(1, 2)
loss.plot(chosen.factors, chosen.losses, "o-")
loss.plot(chosen.factor, np.min(chosen.losses), "o", markersize=12, fillstyle="none", color="C1")
loss.set(ylabel="cross-validated hinge loss", title="the choice")
rank.plot(factors, ranks, "s-", color="C2")
rank.set(ylabel="rank of the worse feature", title="the result", yscale="log")
for ax in (loss, rank):
    ax.set_xscale("log", base=2)
    ax.set_xlabel("bandwidth / median distance")
figure.savefig("bandwidth.png", dpi=90)
