"""knockpy and hidimstat on the draws that `fdr.py` saved: `python fdr_peers.py FOLDER [DRAWS]`.

Needs knockpy and hidimstat, and not jaxfs.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from hidimstat import ModelXKnockoff
from knockpy import KnockoffFilter

warnings.simplefilter("ignore")
FDR = 0.1


def knockpy(x, y):
    chosen = KnockoffFilter(ksampler="gaussian", fstat="lasso", knockoff_kwargs={"method": "mvr"})
    return chosen.forward(X=x, y=y, fdr=FDR, shrinkage="ledoitwolf").astype(bool)


def hidimstat(x, y):
    model = ModelXKnockoff(random_state=0)
    model.fit_importance(x, y)
    return np.asarray(model.fdr_selection(fdr=FDR)) > 0


def main(folder: Path, draws: int) -> None:
    names = sorted({path.stem.rpartition("-")[0] for path in folder.glob("*.npz")})
    for name in names:
        found = {"jaxfs": [], "knockpy": [], "hidimstat": []}
        for draw in range(draws):
            data = np.load(folder / f"{name}-{draw}.npz")
            found["jaxfs"].append(tuple(data["found"]))
            for peer in (knockpy, hidimstat):
                np.random.seed(draw)  # noqa: NPY002 (the peers use NumPy's global generator)
                chosen, true = peer(data["x"], data["y"]), data["true"]
                false = np.sum(chosen & ~true) / max(1, chosen.sum())
                found[peer.__name__].append((false, np.sum(chosen & true) / true.sum()))
        for peer, values in found.items():
            mean = np.mean(values, axis=0)
            error = np.std(values, axis=0, ddof=1) / draws**0.5
            print(
                f"{name:14s} {peer:10s} FDR {mean[0]:.3f} ± {error[0]:.3f}  "
                f"power {mean[1]:.3f} ± {error[1]:.3f}  ({draws} draws)",
                flush=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
