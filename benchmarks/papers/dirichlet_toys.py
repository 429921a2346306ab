"""Dirichlet energy, section 4.2: two useful features among eighteen noise features.

    python -m benchmarks.papers.dirichlet_toys [SEEDS] [METHOD …]

Blobs, moons and circles of 200 samples, standardised, with shuffled columns and new data for every
seed. Claim: the default call finds both useful features in at least 95% of the seeds of each. For
comparison, the script runs the paper's network, which takes most of the time, and the Laplacian
score.
"""

import sys
import time

import jax
import numpy as np
from sklearn.datasets import make_blobs, make_circles, make_moons

import jaxfs
from benchmarks import clustering, selection, timing

NUM_SAMPLES, NUM_NOISE = 200, 18
TOYS = {
    "blobs": lambda seed: make_blobs(
        NUM_SAMPLES, centers=[[-2, -2], [2, 2]], cluster_std=1, random_state=seed
    )[0],
    "moons": lambda seed: make_moons(NUM_SAMPLES, noise=0.1, random_state=seed)[0],
    "circles": lambda seed: make_circles(NUM_SAMPLES, noise=0.1, factor=0.5, random_state=seed)[0],
}


def toy(name: str, seed: int) -> tuple[np.ndarray, set[int]]:
    """Samples, and the indices of the useful columns."""
    generator = np.random.default_rng(seed)
    useful = TOYS[name](seed)
    x = np.concatenate([useful, generator.normal(size=(NUM_SAMPLES, NUM_NOISE))], axis=1)
    order = generator.permutation(x.shape[1])
    x = clustering.standardized(x)[:, order]
    return x.astype(np.float32), set(np.flatnonzero(order < 2).tolist())


def by_default(x, seed: int) -> np.ndarray:
    return jaxfs.fit_dirichlet_selector(jax.random.key(seed), x, 2).indices


def by_the_energy(x, seed: int) -> np.ndarray:
    key = jax.random.key(seed)
    return jaxfs.fit_dirichlet_selector(key, x, 2, objective="energy").indices


def network(x, seed: int) -> np.ndarray:
    options = {"temperature": (1.0, 0.2), "num_steps": 300}
    key = jax.random.key(seed)
    return jaxfs.fit_dirichlet_selector(key, x, 2, objective="network", **options).indices


def laplacian(x, seed: int) -> np.ndarray:
    return selection.top(jaxfs.laplacian_score(x), 2)


METHODS = {
    "default": by_default,
    "by the energy": by_the_energy,
    "the paper's network": network,
    "Laplacian score": laplacian,
}


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    methods = {name: METHODS[name] for name in sys.argv[2:] or METHODS}
    print(f"both useful features found, of {len(seeds)} seeds")
    for name in TOYS:
        draws = [toy(name, 1000 + seed) for seed in seeds]
        for method, choose in methods.items():
            start = time.perf_counter()
            found = [set(np.asarray(choose(x, s)).tolist()) for s, (x, _) in enumerate(draws)]
            share = np.mean([f == useful for f, (_, useful) in zip(found, draws, strict=True)])
            seconds = (time.perf_counter() - start) / len(draws)
            text = timing.at_least(100 * share, 95) if method == "default" else f"{100 * share:.1f}"
            print(f"{name:8s} {method:22s} {text}   {seconds:.1f} s each", flush=True)
    timing.finish()


if __name__ == "__main__":
    main()
