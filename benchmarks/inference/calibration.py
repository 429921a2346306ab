"""Rates of small p-values on pure noise: `python -m benchmarks.inference.calibration [DRAWS]`."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxfs
from jaxfs.inference import AnovaScore, ReliefFScore, permutation_test

N, D, B = 40, 10, 199


def manifest(x, y, w):
    one = (y == 1).astype(x.dtype)
    return jaxfs.manifest_score(x, x, weights1=w * one, weights2=w * (1 - one))


def gc_first(x, y, w):
    """GC's criterion of a single feature: log variance minus the mean log variance of classes."""

    def log_variance(w):
        w = w / jnp.sum(w)
        mean = w @ x
        return jnp.log(w @ jnp.square(x - mean[None]))

    one = w * (y == 1)
    share = jnp.sum(one) / jnp.sum(w)
    return log_variance(w) - share * log_variance(one) - (1 - share) * log_variance(w - one)


def information(x, y, w):
    return jaxfs.mutual_information_score(x, y, num_classes=2, weights=w)


SCORES = {
    "ANOVA": AnovaScore(2),
    "ReliefF": ReliefFScore(2, num_neighbors=5),
    "ManiFeSt": manifest,
    "GC, first step": gc_first,
    "mutual information": information,
}


def line(name, hits, expected) -> None:
    """Print a rate with its standard error over draws; draws are independent, features are not."""
    rate, error = hits.mean(), hits.std(ddof=1) / len(hits) ** 0.5
    print(f"{name:42s} {rate:.4f} ± {error:.4f}   nominal {expected}")


def main(draws: int) -> None:
    y = np.arange(N) % 2
    print(f"{draws} draws of noise, {N} × {D}, {B} permutations")
    for name, score in SCORES.items():
        tests = jax.jit(
            lambda key, x, score=score: permutation_test(
                key, score, x, y, num_permutations=B, chunk_size=50
            )
        )
        p, fwer = [], []
        for draw in range(draws):
            x = np.random.default_rng(draw).normal(size=(N, D)).astype(np.float32)
            found = tests(jax.random.key(draw), x)
            p.append(found.p_values)
            fwer.append(found.fwer_p_values)
        p, fwer = np.stack(p), np.stack(fwer)
        for level in (0.05, 0.01):
            line(f"{name}: P(p ≤ {level})", (p <= level + 1e-6).mean(axis=1), level)
        line(f"{name}: any FWER p ≤ 0.05", (fwer.min(axis=1) <= 0.05 + 1e-6).astype(float), 0.05)
    grouped(draws)


def grouped(draws: int) -> None:
    """Ten patients with four similar samples each; labels belong to the patients."""
    groups = np.repeat(np.arange(10), 4)
    y = (groups % 2).astype(int)
    naive, ours = [], []
    for draw in range(draws):
        random = np.random.default_rng(draw)
        x = random.normal(size=(10, D))[groups] + 0.5 * random.normal(size=(40, D))
        options = {"num_permutations": B}
        key = jax.random.key(draw)
        naive.append(permutation_test(key, AnovaScore(2), x, y, **options).p_values)
        ours.append(permutation_test(key, AnovaScore(2), x, y, groups=groups, **options).p_values)
    for name, p in (("naive", naive), ("groups=patients", ours)):
        line(f"patients, {name}: P(p ≤ 0.05)", (np.stack(p) <= 0.05 + 1e-6).mean(axis=1), 0.05)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
