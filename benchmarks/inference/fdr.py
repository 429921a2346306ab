"""FDR and power of knockoffs: `python -m benchmarks.inference.fdr [DRAWS] [FOLDER]`.

With a FOLDER, the first draws are written there for `fdr_peers.py`, which runs knockpy and
hidimstat in an environment of their own.
"""

import sys
from pathlib import Path

import jax
import numpy as np

from jaxfs.inference import knockoff_select, lasso_score

TRUE, FDR, SAVED = 30, 0.1, 40
#: Samples, features and correlation of each design.
DESIGNS = {
    "independent": (400, 200),
    "AR(0.5)": (400, 200),
    "blocks of 5, ρ = 0.5": (400, 200),
    "n < p, AR(0.5)": (200, 500),
}


def correlation(design: str, d: int) -> np.ndarray:
    i = np.arange(d)
    if design == "independent":
        return np.eye(d)
    if design.startswith("blocks"):
        return np.where(i[:, None] // 5 == i // 5, 0.5, 0) + 0.5 * np.eye(d)
    return 0.5 ** np.abs(i[:, None] - i).astype(float)


def sample(design: str, response: str, draw: int):
    """Samples, response, and the mask of the true features."""
    n, d = DESIGNS[design]
    random = np.random.default_rng(draw)
    x = random.normal(size=(n, d)) @ np.linalg.cholesky(correlation(design, d)).T
    true = np.zeros(d, bool)
    true[random.choice(d, TRUE, replace=False)] = True
    size = {"linear": 4.5, "logistic": 14.0}[response] / n**0.5
    signal = x[:, true] @ (size * random.choice([-1.0, 1.0], TRUE))
    if response == "linear":
        return x, signal + random.normal(size=n), true
    return x, (random.uniform(size=n) < 1 / (1 + np.exp(-signal))).astype(float), true


def rates(selected: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    false = np.sum(selected & ~true) / max(1, selected.sum())
    return float(false), float(np.sum(selected & true) / true.sum())


def line(name: str, found: list[tuple[float, float]]) -> None:
    found = np.array(found)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / len(found) ** 0.5
    print(
        f"{name:46s} FDR {mean[0]:.3f} ± {error[0]:.3f}  power {mean[1]:.3f} ± {error[1]:.3f}"
        f"  ({len(found)} draws)",
        flush=True,
    )


def main(draws: int, folder: Path | None) -> None:
    for design in DESIGNS:
        for response in ("linear", "logistic"):
            found = []
            for draw in range(draws):
                x, y, true = sample(design, response, draw)
                result = knockoff_select(
                    jax.random.key(draw), lasso_score, x.astype(np.float32), y, fdr=FDR
                )
                found.append(rates(np.asarray(result.selected), true))
                if folder and draw < SAVED:
                    name = f"{list(DESIGNS).index(design)}-{response}-{draw}"
                    own = {"selected": result.selected, "statistics": result.statistics[0]}
                    np.savez(folder / name, x=x, y=y, true=true, **own)
            line(f"{design}, {response}", found)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 300,
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
    )
