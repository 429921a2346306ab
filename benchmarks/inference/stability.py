"""False selections against their bound: `python -m benchmarks.inference.stability [DRAWS]`."""

import sys

import jax
import numpy as np

from jaxfs.inference import AnovaScore, stability_selection

N, D, TRUE, Q = 100, 200, 10, 12


def main(draws: int) -> None:
    y = np.arange(N) % 2
    print(f"{draws} draws, {N} × {D}, {TRUE} true features, the {Q} best of each half")
    for assumption in ("none", "unimodal", "r-concave"):
        false, right = [], []
        for draw in range(draws):
            x = np.random.default_rng(draw).normal(size=(N, D)).astype(np.float32)
            x[:, :TRUE] += 0.7 * y[:, None]
            options = {"num_features": Q, "pfer": 1.0, "assumption": assumption}
            found = stability_selection(jax.random.key(draw), AnovaScore(2), x, y, **options)
            selected = np.asarray(found.selected)
            false.append(selected[TRUE:].sum())
            right.append(selected[:TRUE].mean())
        mean, error = np.mean(false), np.std(false, ddof=1) / draws**0.5
        print(
            f"{assumption:10s} threshold {found.threshold:.2f}, bound {found.bound:.3f} "
            f"({found.assumption}): false {mean:.3f} ± {error:.3f}, power {np.mean(right):.3f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
