"""GC and GKL, section 5.1: features that are informative only in pairs.

    python -m benchmarks.papers.gaussian_synthetic [DRAWS]

X1 and X4 are weakly informative on their own. X2 and X5 are strongly informative, but only together
with X1 and X4. X3 is noise. Claims, over 200 draws of 25 000 samples: GC.MI and GKL.MI select X1 or
X4 first in at least 93% (the paper, GC.MI: 96.3%). GKL.E, which depends on scale, starts with X2 or
X5. All methods select the partner second and X3 last, every time.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxfs
from benchmarks.timing import finish, verdict

NUM_SAMPLES, CHUNK = 25_000, 10
PARTNER = np.array([1, 0, -1, 4, 3])


def draw(key):
    y_key, key = jax.random.split(key)
    y = jax.random.bernoulli(y_key, 0.5, (NUM_SAMPLES,)).astype(jnp.float32)
    z = jax.random.normal(key, (NUM_SAMPLES, 5))
    x1, x4 = z[:, 0] + 0.1 * y, z[:, 3] + 0.1 * y
    x2, x5 = (2 * y - 1) * x1 + z[:, 1], (2 * y - 1) * x4 + z[:, 4]
    return jnp.stack([x1, x2, z[:, 2], x4, x5], axis=1), y.astype(jnp.int32)


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    keys = jax.random.split(jax.random.key(0), draws)
    methods = {
        "GC.MI": (jaxfs.gc_select, "mi", (0, 3), 7.0),
        "GKL.MI": (jaxfs.gkl_select, "mi", (0, 3), 7.0),
        "GKL.E": (jaxfs.gkl_select, "entropy", (1, 4), 0.0),
    }
    print(f"section 5.1, {draws} draws of {NUM_SAMPLES} samples; misses, in % of the draws")
    for name, (select, objective, first, allowed) in methods.items():

        def order(key, select=select, objective=objective):
            x, y = draw(key)
            return select(
                x, y, 5, num_classes=2, objective=objective, ridge=0.0, shrinkage=0.0
            ).indices

        orders = np.asarray(jax.lax.map(order, keys, batch_size=CHUNK))
        started = 100 * np.mean(~np.isin(orders[:, 0], first))
        partner = 100 * np.mean(orders[:, 1] != PARTNER[orders[:, 0]])
        last = 100 * np.mean(orders[:, -1] != 2)
        names = " or ".join(f"X{i + 1}" for i in first)
        print(
            f"{name:7s} not {names} first {verdict(started, allowed)}, not the partner second "
            f"{verdict(partner, 0.0)}, not X3 last {verdict(last, 0.0)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
    finish()
