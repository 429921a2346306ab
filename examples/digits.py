"""What ManiFeSt sees in two digits: the paper's illustration, on scikit-learn's digits.

Each digit gives a kernel between pixels. The leading eigenvectors of their mean M show what both
digits share, those of their difference D what tells them apart; the score gathers all of D.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files; needs no screen

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.datasets import load_digits

import jaxfs

SIDE = 8
NUM_VECTORS = 4
NUM_SHOWN = 10


def load(digit: int) -> np.ndarray:
    """The images of one digit, (n, 64), intensities in [0, 1]."""
    x, y = load_digits(return_X_y=True)
    return (x[y == digit] / 16).astype(np.float32)


def show(axis: Axes, pixels: np.ndarray, title: str, *, signed: bool = False) -> None:
    reach = float(np.abs(pixels).max())
    axis.imshow(
        pixels.reshape(SIDE, SIDE),
        cmap="RdBu_r" if signed else "cividis",
        vmin=-reach if signed else 0,
        vmax=reach,
    )
    axis.set_title(title, fontsize=10)


def leading(operator: jax.Array) -> list[tuple[float, np.ndarray]]:
    values, vectors = jaxfs.linalg.dominant_eigenpairs(operator, NUM_VECTORS)
    return list(zip(np.asarray(values).tolist(), np.asarray(vectors).T, strict=True))


def draw(x1: np.ndarray, x2: np.ndarray, names: tuple[int, int], path: Path) -> np.ndarray:
    operators = jaxfs.manifest_operators(x1, x2)
    scores = np.asarray(jaxfs.manifest_score(x1, x2))

    figure, axes = plt.subplots(
        3, NUM_VECTORS, figsize=(2.4 * NUM_VECTORS, 8), layout="constrained"
    )
    for column, (x, name) in enumerate(zip((x1, x2), names, strict=True)):
        show(axes[0, column], x.mean(axis=0), f"mean image of {name}")
    show(axes[0, 2], scores, "ManiFeSt score")
    best = np.zeros_like(scores)
    best[np.argsort(-scores)[:NUM_SHOWN]] = 1
    show(axes[0, 3], best, f"the {NUM_SHOWN} best pixels")
    for column, (value, vector) in enumerate(leading(operators.mean)):
        show(axes[1, column], vector, f"shared: λ(M) = {value:.3g}", signed=True)
    for column, (value, vector) in enumerate(leading(operators.difference)):
        show(axes[2, column], vector, f"different: λ(D) = {value:+.3g}", signed=True)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("digits", type=int, nargs="*", default=[4, 9], help="two (default: 4 9)")
    parser.add_argument(
        "--output", type=Path, default=Path("digits.png"), help="the picture (default: %(default)s)"
    )
    arguments = parser.parse_args()
    if len(arguments.digits) != 2 or not set(arguments.digits) <= set(range(10)):
        parser.error(f"two digits from 0 to 9, got {arguments.digits}")
    first, second = arguments.digits

    scores = draw(load(first), load(second), (first, second), arguments.output)
    print(f"The {NUM_SHOWN} pixels in which {first} and {second} differ most (row, column):")
    print(" ".join(str(divmod(int(p), SIDE)) for p in np.argsort(-scores)[:NUM_SHOWN]))
    print(f"The picture is in {arguments.output.resolve()}")


if __name__ == "__main__":
    main()
