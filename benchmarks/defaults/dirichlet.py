"""Ablation of the Dirichlet selector: which of its parts pay, on training and test splits.

    JAXFS_DATA=… python -m benchmarks.defaults.dirichlet
        [--sets SET …] [--splits 10] [--trees 300] [--keep FILE] [--methods …]

Features are selected without labels on a random 80% of the samples, standardised. A random forest,
fitted on the same samples, classifies the others. Printed are the accuracy of every method, mean
over feature counts and splits, and the paired differences to plain coverage. Their standard errors
are over the sets, after the mean over splits. Then follow the median CPU-seconds of a selection,
compilation included, and the accuracy with 20 features of Madelon.

The methods add one part at a time:

- coverage: greedy Σ_j max_i |corr_ij|, no graph.
- clipped: the same after clipping at three standard deviations.
- judged: relevance as weights, judged on the graph of all features only; no training.
- explored: gates are trained for every data set, as before the default was changed.
- default: gates are trained only if the graph of all features shows too few relevant features.
- energy: `objective="energy"`; network: `objective="network"`, one restart, 300 steps.

Every method runs once for the largest count; smaller sets are its first features. The network's
features have no order, so that it runs for every count. `--keep` names a file of results, to which
finished selections are added, so that a run can be resumed.
"""

import argparse
import json
import pathlib
import time

import jax
import numpy as np

import jaxfs
from benchmarks.papers.dirichlet_downstream import FEWER, coverage, forest, split
from benchmarks.papers.dirichlet_downstream import SETS as PAPER_SETS
from jaxfs.methods.dirichlet import _objectives

SETS = (*PAPER_SETS, "gravier", "shipp", "su", "sorlie")
COUNTS = (25, 50, 100, 200)
#: Values of `ENOUGH`, the fraction of relevant features at which no gates are trained.
TRAINED = {"judged": 0.0, "explored": np.inf, "default": _objectives.ENOUGH}
METHODS = ("coverage", "clipped", *TRAINED, "energy", "network")


def clipped(x: np.ndarray) -> np.ndarray:
    x = np.clip(x, -_objectives.FAR, _objectives.FAR)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def choose(method: str, x: np.ndarray, counts: list[int], seed: int) -> list[np.ndarray]:
    """The selected features for every count, from standardised training samples."""
    key, most = jax.random.key(seed), max(counts)
    if method == "network":
        options = {"objective": method, "num_steps": 300, "num_restarts": 1}
        options |= {"temperature": (1.0, 0.2)}
        fits = [jaxfs.fit_dirichlet_selector(key, x, m, **options) for m in counts]
        return [np.asarray(found.indices) for found in fits]
    if method in ("coverage", "clipped"):
        order = coverage(clipped(x) if method == "clipped" else x, most)
    else:
        _objectives.ENOUGH = TRAINED.get(method, _objectives.ENOUGH)
        objective = "energy" if method == "energy" else "coverage"
        order = jaxfs.fit_dirichlet_selector(key, x, most, objective=objective).indices
        _objectives.ENOUGH = TRAINED["default"]
    return [np.asarray(order)[:m] for m in counts]


def run(done: dict, name: str, seed: int, methods, trees: int) -> None:
    """Add the accuracies and seconds of each method that `done` lacks."""
    s = split(name, seed)
    counts = [m for m in FEWER.get(name, COUNTS) if m <= s.train.shape[1]]
    for method in (m for m in methods if m not in done):
        jax.clear_caches()  # `ENOUGH` is a constant of the compiled programs
        start = time.process_time()
        chosen = choose(method, s.train, counts, seed)
        seconds = time.process_time() - start
        accuracy = [
            forest(s.train[:, c], s.test[:, c], s.y_train, s.y_test, trees, seed) for c in chosen
        ]
        done[method] = {"accuracy": accuracy, "seconds": seconds}


def report(done: dict[str, dict], sets, methods) -> None:
    """Print the table; only splits that have both the method and plain coverage count."""

    def column(method: str, of: str, field: str, value=np.mean) -> np.ndarray:
        """Mean over the splits of each set in which both methods ran; NaN if there is none."""
        found = {
            name: [
                value(r[of][field])
                for key, r in done.items()
                if key.rsplit(" ", 1)[0] == name and {method, "coverage"} <= r.keys()
            ]
            for name in sets
        }
        return np.array([np.mean(v) if v else np.nan for v in found.values()])

    print(f"{'':10s}" + "".join(f"{name[:10]:>11s}" for name in sets))
    for method in methods:
        own = column(method, method, "accuracy")
        print(f"{method:10s}" + "".join(f"{a:11.1f}" for a in own))
    print("minus coverage, mean over all sets and over the sets without Madelon; CPU-seconds")
    real = np.array([name != "madelon" for name in sets])
    for method in methods:
        gain = column(method, method, "accuracy") - column(method, "coverage", "accuracy")
        text = ""
        for part in (gain, gain[real]):
            part = part[~np.isnan(part)]
            error = part.std(ddof=1) / np.sqrt(len(part)) if len(part) > 1 else np.nan
            text += f"  {np.mean(part) if len(part) else np.nan:+6.2f} ± {error:4.2f}"
        seconds = np.nanmedian(column(method, method, "seconds"))
        print(f"{method:10s}{text}  {seconds:6.1f} s")
    if "madelon" in sets:
        last = {
            m: column(m, m, "accuracy", lambda a: a[-1])[sets.index("madelon")] for m in methods
        }
        print("20 features of Madelon: " + ", ".join(f"{m} {a:.1f}" for m, a in last.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    done = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    for seed in range(options.splits):  # all sets have equally many splits if the run is stopped
        for name in options.sets:
            run(done.setdefault(f"{name} {seed}", {}), name, seed, options.methods, options.trees)
            if options.keep:
                options.keep.write_text(json.dumps(done))
            print(f"split {seed} of {name} done", flush=True)
    report(done, options.sets, options.methods)


if __name__ == "__main__":
    main()
