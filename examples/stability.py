"""Compare how stable the selections of ManiFeSt, ReliefF and ANOVA are.

Each score ranks the features on random subsamples, stratified by class. Nogueira's stability is 1
if the best features are the same in all subsamples. It is about 0 if they agree only by chance. The
frequency of a feature is the share of subsamples in which it is among the best.

The data are the gene expressions of Prostate-GE if JAXFS_DATA names a folder with `Prostate-GE.mat`
of the scikit-feature collection, and otherwise scikit-learn's breast cancer data.
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from scipy.io import loadmat
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import jaxfs
from jaxfs import plot

NUM_GENES = 500
NUM_RESAMPLES = 50
FRACTION = 0.8
NUM_SHOWN = 8


class Data(NamedTuple):
    title: str
    x: np.ndarray
    y: np.ndarray
    names: list[str]
    num_features: int


def manifest(x: jax.Array, y: jax.Array, weights: jax.Array) -> jax.Array:
    """ManiFeSt score; both the classes and the subsample are given by weights."""
    first, second = (jnp.where(y == c, weights, 0) for c in (0, 1))
    return jaxfs.manifest_score(x, x, weights1=first, weights2=second)


def relieff(x: jax.Array, y: jax.Array, weights: jax.Array) -> jax.Array:
    return jaxfs.relieff_score(x, y, num_classes=2, weights=weights)


def anova(x: jax.Array, y: jax.Array, weights: jax.Array) -> jax.Array:
    return jaxfs.anova_score(x, y, num_classes=2, weights=weights)


SCORES = {"ManiFeSt": manifest, "ReliefF": relieff, "ANOVA": anova}


def prostate(path: Path) -> Data:
    """102 samples and the genes of largest variance among 5966, chosen without labels."""
    contents = loadmat(path)
    y = np.unique(np.ravel(contents["Y"]), return_inverse=True)[1].astype(np.int32)
    x = np.asarray(contents["X"], np.float32)
    genes = np.sort(np.argsort(-x.var(axis=0))[:NUM_GENES])
    names = [f"gene {gene}" for gene in genes]
    return Data(
        f"Prostate-GE, the {NUM_GENES} genes of largest variance", x[:, genes], y, names, 20
    )


def breast_cancer() -> Data:
    bunch = load_breast_cancer()
    x = StandardScaler().fit_transform(bunch.data).astype(np.float32)
    return Data("breast cancer", x, bunch.target.astype(np.int32), list(bunch.feature_names), 5)


def load(embedded: bool) -> Data:
    path = Path(os.environ.get("JAXFS_DATA", "data")) / "Prostate-GE.mat"
    return breast_cancer() if embedded or not path.is_file() else prostate(path)


def stability_table(data: Data, results: dict[str, jaxfs.Stability]) -> Table:
    n, d = data.x.shape
    table = Table(title=f"{data.title}: the first {data.num_features} of {d}, {n} samples")
    for heading in ("score", "stability", "95% interval", "always chosen", "ever chosen"):
        table.add_column(heading, justify="left" if heading == "score" else "right")
    for name, result in results.items():
        low, high = result.interval.tolist()
        often = np.asarray(result.frequencies)
        counts = f"{np.sum(often == 1)}", f"{np.sum(often > 0)}"
        table.add_row(name, f"{result.stability:.3f}", f"{low:.3f} to {high:.3f}", *counts)
    return table


def frequency_table(data: Data, name: str, result: jaxfs.Stability) -> Table:
    table = Table(title=f"{name}, features by mean rank")
    for heading in ("feature", "chosen", "mean rank", "± rank"):
        table.add_column(heading, justify="left" if heading == "feature" else "right")
    for feature in np.argsort(result.mean_ranks)[:NUM_SHOWN]:
        mean, spread = result.mean_ranks[feature], result.rank_deviations[feature]
        share = f"{result.frequencies[feature]:.0%}"
        table.add_row(data.names[feature], share, f"{mean:.1f}", f"{spread:.1f}")
    return table


def draw(data: Data, results: dict[str, jaxfs.Stability], path: Path) -> None:
    figure = Figure(figsize=(4 * len(results), 3), layout="constrained")
    axes = figure.subplots(1, len(results))
    for axis, (name, result) in zip(axes, results.items(), strict=True):
        plot.rank_intervals(result, data.names, num_shown=NUM_SHOWN, ax=axis)
        axis.set_title(name, loc="left")
    figure.savefig(path, dpi=70)


def main() -> None:
    jaxfs.enable_compilation_cache()  # later runs load the compiled programs
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedded", action="store_true", help="always use the breast cancer data")
    parser.add_argument(
        "--output", type=Path, help="file for a picture of the ranks (default: none)"
    )
    arguments = parser.parse_args()
    data = load(arguments.embedded)
    results = {
        name: jaxfs.stability(
            jax.random.key(0),
            score,
            data.x,
            data.y,
            num_resamples=NUM_RESAMPLES,
            fraction=FRACTION,
            num_features=data.num_features,
        )
        for name, score in SCORES.items()
    }
    console = Console()
    console.print(stability_table(data, results))
    for name, result in results.items():
        console.print(frequency_table(data, name, result))
    if arguments.output is not None:
        draw(data, results, arguments.output)


if __name__ == "__main__":
    main()
