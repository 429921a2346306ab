"""SSFS, section 5.2.1 and appendix D: blobs among correlated nuisance features.

    python -m benchmarks.papers.ssfs_synthetic [SEEDS OF 5.2.1 [TRIALS OF D]]

The first five features form two Gaussian blobs. The others are correlated noise of unit variance.
Section 5.2.1 shows one draw; this script uses several. It tries both scalings, because the paper
z-scores its real data and does not state the scaling here. There are two clusters, so that two of
four eigenvectors are kept.
"""

import sys
from collections.abc import Callable

import jax
import numpy as np
from scipy.special import ndtr
from scipy.stats import laplace
from sklearn.datasets import make_blobs

import jaxfs
from benchmarks import clustering, selection

NUM_INFORMATIVE, BLOCK = 5, 15
NUISANCES = (5, 20, 40, 60, 80, 100)

#: Options of `ssfs` for the variants of section 5.2.
PAPER = {"selection": "stability", "scoring": "boosting", "ranking": "score"}
VARIANTS = {
    "SSFS": PAPER,
    "linear_clf": PAPER | {"scoring": "logistic"},
    "no selection": PAPER | {"selection": "leading"},
    "regression": PAPER | {"pseudo_labels": "continuous"},
}

#: True positive rates in Table 3, for one draw.
TABLE_3 = {"SSFS": 0.3, "linear_clf": 1.0, "no selection": 0.0, "regression": 0.0, "MCFS": 0.0}

Score = Callable[[np.ndarray, int, bool], np.ndarray]


def variant(options: dict) -> Score:
    def score(x, seed, standardize):
        result = jaxfs.ssfs(
            jax.random.key(seed), x, num_pseudo_labels=2, standardize=standardize, **options
        )
        return result.scores

    return score


def mcfs(x, seed, standardize) -> np.ndarray:
    return jaxfs.mcfs_score(clustering.standardized(x) if standardize else x, num_clusters=2)


METHODS = {name: variant(options) for name, options in VARIANTS.items()} | {"MCFS": mcfs}


def normal_noise(generator, n: int, p: int) -> np.ndarray:
    """Normal noise of unit variances, covariances 0.5 in blocks of 15 and 0.01 between them."""
    block = np.arange(p) // BLOCK
    covariance = np.where(block[:, None] == block, 0.5, 0.01)
    np.fill_diagonal(covariance, 1)
    return generator.multivariate_normal(np.zeros(p), covariance, size=n)


def laplace_noise(generator, n: int, p: int) -> np.ndarray:
    """Noise with the copula of `normal_noise` and Laplace marginals of unit variance."""
    return laplace.ppf(ndtr(normal_noise(generator, n, p)), scale=np.sqrt(0.5))


def sample(seed: int, n: int, num_nuisance: int, noise: Callable = normal_noise) -> np.ndarray:
    """Samples (n, 5 + num_nuisance): blobs of `make_blobs` first, then noise."""
    blobs, _ = make_blobs(
        n, NUM_INFORMATIVE, centers=2, cluster_std=1.0, random_state=seed
    )  # centres uniform in [−10, 10]⁵
    return np.hstack([blobs, noise(np.random.default_rng(seed), n, num_nuisance)])


def hits(method: Score, x, seed: int, standardize: bool, k: int) -> float:
    """Share of the k best features that belong to the blobs."""
    chosen = selection.top(method(x, seed, standardize), k)
    return float(np.mean(chosen < NUM_INFORMATIVE))


def scaling(standardize: bool) -> str:
    return "z-scored" if standardize else "as drawn"


def section_5_2_1(seeds: int) -> None:
    print(f"5.2.1: TPR of the top 3, 500 samples, 5 + 45 features, {seeds} draws")
    print(f"{'':16s}" + "".join(f"{scaling(s):>14s}" for s in (True, False)) + f"{'paper':>8s}")
    draws = [sample(seed, 500, 45) for seed in range(seeds)]
    for name, method in METHODS.items():
        row = f"{name:16s}"
        for standardize in (True, False):
            found = [hits(method, x, seed, standardize, 3) for seed, x in enumerate(draws)]
            row += f"{np.mean(found):8.2f} ± {np.std(found):.2f}"
        print(row + f"{TABLE_3[name]:8.1f}", flush=True)


def appendix_d(trials: int) -> None:
    for noise in (normal_noise, laplace_noise):
        for standardize in (True, False):
            kind = noise.__name__.split("_")[0]
            print(f"D: recall of the top 5, {kind} noise, {scaling(standardize)}, {trials} trials")
            print(f"{'nuisance':16s}" + "".join(f"{p:7d}" for p in NUISANCES))
            for name, method in METHODS.items():
                row = f"{name:16s}"
                for p in NUISANCES:
                    draws = [sample(seed, 100, p, noise) for seed in range(trials)]
                    found = [hits(method, x, s, standardize, 5) for s, x in enumerate(draws)]
                    row += f"{np.mean(found):7.2f}"
                print(row, flush=True)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    section_5_2_1(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    appendix_d(int(sys.argv[2]) if len(sys.argv) > 2 else 10)


if __name__ == "__main__":
    main()
