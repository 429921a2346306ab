"""Rank pixels by how well they separate the digits 4 and 9, using ManiFeSt.

The script prints the ten best of the 64 pixels of scikit-learn's digits, and the accuracy of a
classifier that uses these ten pixels. It also draws the score of every pixel.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxfs
from jaxfs import plot

DIGITS = (4, 9)
SIDE = 8
NUM_SELECTED = 10
NUM_FOLDS = 5
NUM_RANDOM_DRAWS = 20


@jax.jit
def score(x: jax.Array, in_first: jax.Array, in_second: jax.Array) -> jax.Array:
    """One score per feature; larger scores mean larger differences between the two classes.

    Weights define the classes, and a sample of weight zero is ignored. All samples and any part of
    them therefore have the same shape, and all calls share one compilation.
    """
    return jaxfs.manifest_score(
        x, x, weights1=in_first, weights2=in_second, bandwidth=jaxfs.Median(1.0), ridge=1e-2
    )


def load() -> tuple[np.ndarray, np.ndarray]:
    """Images of the two digits as float32 intensities in [0, 1], and their class (0 or 1)."""
    x, y = load_digits(return_X_y=True)
    keep = np.isin(y, DIGITS)
    return (x[keep] / 16).astype(np.float32), (y[keep] == DIGITS[1]).astype(np.int32)


def rank(x: np.ndarray, y: np.ndarray, use: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores from the samples in use, and the pixels from best to worst."""
    scores = np.asarray(score(x, use & (y == 0), use & (y == 1)))
    return scores, np.argsort(-scores, stable=True)


def accuracy(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return float(model.fit(x[train], y[train]).score(x[test], y[test]))


def accuracies(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Cross-validated accuracy of one classifier on chosen, random and all pixels.

    The pixels are ranked separately in each fold, from its training images only. Test images do
    not influence the choice.
    """
    rng = np.random.default_rng(0)
    chosen, random, everything = [], [], []
    for train, test in StratifiedKFold(NUM_FOLDS, shuffle=True, random_state=0).split(x, y):
        _, order = rank(x, y, np.isin(np.arange(len(y)), train))
        chosen.append(accuracy(x[:, order[:NUM_SELECTED]], y, train, test))
        for _ in range(NUM_RANDOM_DRAWS):
            pixels = rng.permutation(x.shape[1])[:NUM_SELECTED]
            random.append(accuracy(x[:, pixels], y, train, test))
        everything.append(accuracy(x, y, train, test))
    return {
        f"{NUM_SELECTED} pixels by ManiFeSt": float(np.mean(chosen)),
        f"{NUM_SELECTED} random pixels, mean of {NUM_RANDOM_DRAWS} draws": float(np.mean(random)),
        f"all {x.shape[1]} pixels": float(np.mean(everything)),
    }


def ranking_table(scores: np.ndarray, order: np.ndarray, means: list[np.ndarray]) -> Table:
    table = Table(
        title=f"The {NUM_SELECTED} pixels in which {DIGITS[0]} and {DIGITS[1]} differ most"
    )
    for heading in ("rank", "row", "column", "score", *(f"mean of {d}" for d in DIGITS)):
        table.add_column(heading, justify="right")
    for place, pixel in enumerate(order[:NUM_SELECTED], start=1):
        row, column = divmod(int(pixel), SIDE)
        shown = [f"{mean[pixel]:.2f}" for mean in means]
        table.add_row(str(place), str(row), str(column), f"{scores[pixel]:.4f}", *shown)
    return table


def accuracy_table(results: dict[str, float]) -> Table:
    table = Table(title=f"Logistic regression, {NUM_FOLDS}-fold cross-validation")
    table.add_column("features")
    table.add_column("accuracy", justify="right")
    for name, value in results.items():
        table.add_row(name, f"{value:.1%}")
    return table


def draw(scores: np.ndarray, means: list[np.ndarray], path: Path) -> None:
    """Draw both mean digits and the score of each pixel, with the best pixels numbered by rank."""
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, mean, digit in zip(axes, means, DIGITS, strict=False):
        plot.pixel_map(mean, (SIDE, SIDE), label="intensity", ax=axis)
        axis.set_title(f"mean {digit}")
    plot.pixel_map(scores, (SIDE, SIDE), num_marked=NUM_SELECTED, ax=axes[2])
    axes[2].set_title(f"ManiFeSt score, {NUM_SELECTED} best")
    for axis in axes:
        axis.set(xticks=range(SIDE), yticks=range(SIDE), xlabel="column", ylabel="row")
    figure.savefig(path, dpi=100)


def main() -> None:
    jaxfs.enable_compilation_cache()  # later runs load the compiled programs
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo.png"),
        help="file of the picture (default: %(default)s)",
    )
    output: Path = parser.parse_args().output

    x, y = load()
    scores, order = rank(x, y, np.ones_like(y, dtype=bool))
    means = [x[y == label].mean(axis=0) for label in (0, 1)]

    console = Console()
    console.print(ranking_table(scores, order, means))
    console.print(accuracy_table(accuracies(x, y)))
    draw(scores, means, output)
    console.print(f"Picture written to {output.resolve()}", soft_wrap=True)


if __name__ == "__main__":
    main()
