"""knockpy and hidimstat on the draws that `fdr.py` saved: `python fdr_peers.py FOLDER [DRAWS]`.

Needs knockpy and hidimstat, and not jaxfs. The statistics of the peers are kept in FOLDER, so that
an interrupted run continues. Two powers are printed: the power of the selection at the nominal
FDR, and the power at an equal FDR. The latter takes the features in the order of their statistics,
as many as have a true share of false features of at most 0.1. It compares the orders alone, so
that a selection with more errors has no advantage.
"""

import itertools
import sys
import warnings
from pathlib import Path

import numpy as np

FDR = 0.1
DESIGNS = ("independent", "AR(0.5)", "blocks", "n < p")


def knockpy(x, y):
    from knockpy import KnockoffFilter

    chosen = KnockoffFilter(ksampler="gaussian", fstat="lasso", knockoff_kwargs={"method": "mvr"})
    selected = chosen.forward(X=x, y=y, fdr=FDR, shrinkage="ledoitwolf").astype(bool)
    return selected, chosen.W


def hidimstat(x, y):
    from hidimstat import ModelXKnockoff
    from sklearn.linear_model import LassoCV
    from sklearn.model_selection import KFold

    # Its default model with a larger tolerance: tol=1e-6 takes minutes a draw, because one of the
    # penalties is almost 0.
    lasso = LassoCV(max_iter=1000, tol=1e-3, cv=KFold(5, shuffle=True))
    model = ModelXKnockoff(lasso, random_state=0)
    model.fit_importance(x, y)
    return np.asarray(model.fdr_selection(fdr=FDR)) > 0, model.importances_[0]


PEERS = (knockpy, hidimstat)


def run(folder: Path, name: str, peer) -> dict[str, np.ndarray]:
    """Return the selection and the statistics of a peer for one draw."""
    path = folder / f"{peer.__name__}-{name}.npz"
    if not path.exists():
        data = np.load(folder / f"{name}.npz")
        np.random.seed(int(name.rpartition("-")[2]))  # noqa: NPY002 (NumPy's global generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            selected, statistics = peer(data["x"], data["y"])
        np.savez(path, selected=selected, statistics=statistics)
    return dict(np.load(path))


def rates(found: dict[str, np.ndarray], true: np.ndarray) -> tuple[float, float, float]:
    """FDP and power of the selection, and power at an equal share of false features."""
    selected, w = found["selected"], found["statistics"]
    order = np.argsort(-w, kind="stable")
    order = order[w[order] > 0]
    false = np.cumsum(~true[order]) / np.arange(1, order.size + 1)
    number = int(np.flatnonzero(false <= FDR).max(initial=-1)) + 1
    share = np.sum(selected & ~true) / max(1, selected.sum())
    return share, np.sum(selected & true) / true.sum(), true[order[:number]].sum() / true.sum()


def main(folder: Path, draws: int) -> None:
    names = ["-".join(pair) for pair in itertools.product("0123", ("linear", "logistic"))]
    for draw, name, peer in itertools.product(range(draws), names, PEERS):
        run(folder, f"{name}-{draw}", peer)
    results: dict[tuple[str, str], list] = {}
    for draw, name in itertools.product(range(draws), names):
        data = dict(np.load(folder / f"{name}-{draw}.npz"))
        results.setdefault((name, "jaxfs"), []).append(rates(data, data["true"]))
        for peer in PEERS:
            found = rates(run(folder, f"{name}-{draw}", peer), data["true"])
            results.setdefault((name, peer.__name__), []).append(found)
    for (name, peer), values in sorted(results.items(), key=lambda item: names.index(item[0][0])):
        mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / draws**0.5
        design = f"{DESIGNS[int(name[0])]}, {name[2:]}"
        parts = zip(("FDR", "power", "at equal FDR"), mean, error, strict=True)
        text = "  ".join(f"{what} {m:.3f} ± {e:.3f}" for what, m, e in parts)
        print(f"{design:24s} {peer:10s} {text}  ({draws} draws)", flush=True)
    print("difference of powers at equal FDR, jaxfs minus the peer")
    for name, peer in itertools.product(names, PEERS):
        ours, theirs = (np.array(results[name, p])[:, 2] for p in ("jaxfs", peer.__name__))
        gap = ours - theirs
        design = f"{DESIGNS[int(name[0])]}, {name[2:]}"
        error = gap.std(ddof=1) / draws**0.5
        print(f"{design:24s} {peer.__name__:10s} {gap.mean():+.3f} ± {error:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30)
