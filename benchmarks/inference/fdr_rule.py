"""True share of false features with `n_features_to_select="fdr"`:
`python -m benchmarks.inference.fdr_rule [DRAWS]`.

Ten of 200 independent features differ between two classes of 50 samples by one standard deviation.
"""

import sys
import warnings

import numpy as np

from jaxfs.estimators import FDR, FilterSelector, ManiFeSt, ReliefF

N, D, TRUE = 100, 200, 10
METHODS = {
    "ANOVA, by its distribution": FilterSelector(n_features_to_select=FDR()),
    "ANOVA, by permutation": FilterSelector(n_features_to_select=FDR(n_permutations=1999)),
    "ReliefF": ReliefF(n_features_to_select=FDR()),
    "ManiFeSt": ManiFeSt(factor=1.0, combine=None, n_features_to_select=FDR(n_permutations=199)),
}


def sample(draw: int):
    rng = np.random.default_rng(draw)
    y = np.arange(N) % 2
    x = rng.normal(size=(N, D))
    x[:, :TRUE] += y[:, None]
    return x.astype(np.float32), y


def main(draws: int) -> None:
    warnings.simplefilter("ignore")
    print(f"{draws} draws, {N} × {D}, {TRUE} relevant features, level 0.1")
    for name, selector in METHODS.items():
        false, power = [], []
        for draw in range(draws):
            try:
                chosen = selector.fit(*sample(draw)).get_support()
            except ValueError as error:
                if "no feature with q" not in str(error):
                    raise
                chosen = np.zeros(D, bool)
            false.append(chosen[TRUE:].sum() / max(1, chosen.sum()))
            power.append(chosen[:TRUE].mean())
        error = np.std(false, ddof=1) / draws**0.5
        print(f"{name:28s} FDR {np.mean(false):.3f} ± {error:.3f}  power {np.mean(power):.3f}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
