"""Draw the operators of ManiFeSt for two digits, as the paper illustrates them.

Each digit defines a kernel between pixels. The leading eigenvectors of the mean M of the kernels
show the structure that both digits share. Those of the difference D show where the digits differ.
The score combines all eigenvectors of D.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import jaxfs
from jaxfs import plot

SIDE = 8
NUM_VECTORS = 4
NUM_SHOWN = 10


def load(digit: int) -> np.ndarray:
    """Images (n, 64) of one digit, with intensities in [0, 1]."""
    x, y = load_digits(return_X_y=True)
    return (x[y == digit] / 16).astype(np.float32)


def draw(x1: np.ndarray, x2: np.ndarray, names: tuple[int, int], path: Path) -> np.ndarray:
    scores = np.asarray(jaxfs.manifest_score(x1, x2))
    best = np.zeros_like(scores)
    best[np.argsort(-scores)[:NUM_SHOWN]] = 1
    panels = {
        f"mean image of {names[0]}": x1.mean(axis=0),
        f"mean image of {names[1]}": x2.mean(axis=0),
        "ManiFeSt score": scores,
        f"the {NUM_SHOWN} best pixels": best,
    }

    figure = Figure(figsize=(2.4 * NUM_VECTORS, 8), layout="constrained")
    axes = figure.subplots(3, NUM_VECTORS)
    for axis, (title, pixels) in zip(axes[0], panels.items(), strict=True):
        plot.pixel_map(pixels, (SIDE, SIDE), label=None, ax=axis)
        axis.set_title(title, fontsize="medium")
        axis.set(xticks=[], yticks=[])
    operators = jaxfs.manifest_operators(x1, x2)
    plot.eigenvectors(operators, num_vectors=NUM_VECTORS, shape=(SIDE, SIDE), ax=axes[1:])
    for axis, words in zip(axes[1:, 0], ("shared", "different"), strict=True):
        axis.set_ylabel(words)
    figure.savefig(path, dpi=150)
    return scores


def main() -> None:
    jaxfs.enable_compilation_cache()  # later runs load the compiled programs
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "digits", type=int, nargs="*", default=[4, 9], help="two digits (default: 4 9)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("digits.png"),
        help="file of the picture (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if len(arguments.digits) != 2 or not set(arguments.digits) <= set(range(10)):
        parser.error(f"digits must be two numbers from 0 to 9, got {arguments.digits}")
    first, second = arguments.digits

    scores = draw(load(first), load(second), (first, second), arguments.output)
    print(f"The {NUM_SHOWN} pixels in which {first} and {second} differ most (row, column):")
    print(" ".join(str(divmod(int(p), SIDE)) for p in np.argsort(-scores)[:NUM_SHOWN]))
    print(f"Picture written to {arguments.output.resolve()}")


if __name__ == "__main__":
    main()
