"""The data and the picture of `jaxfs demo`: the pixels that distinguish a 4 from a 9."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from jaxfs import plot
from jaxfs.cli._answer import Answer
from jaxfs.cli.tables._table import Table
from jaxfs.plot import _figures

DIGITS = (4, 9)
SIDE = 8
NUMBER = 10

EXPLANATION = """\
The data are 361 handwritten fours and nines from scikit-learn, with 8 × 8 pixels each. ManiFeSt
ranks the 64 pixels by how much their relations to the other pixels differ between the two digits;
it does not look at any pixel alone. A brighter pixel in the picture has a higher rank; the numbers
are the ranks of the ten best pixels. They lie in two places: at the lower left, where a four has
its bar and a nine is empty, and at the top, where a nine closes its loop and a four is open.
"""


def digits() -> Table:
    """Return the digits 4 and 9, with intensities in [0, 1]."""
    x, y = load_digits(return_X_y=True)
    keep = np.isin(y, DIGITS)
    names = [f"row{i // SIDE}_column{i % SIDE}" for i in range(SIDE * SIDE)]
    return Table(names, x[keep] / 16, y[keep].astype(np.float64), "digit")


def draw_digits(path: Path, answer: Answer) -> None:
    """Draw the mean of each digit, and the scores of the pixels with the ranks of the best ones."""
    figure = _figures.matplotlib("figure").Figure(figsize=(12, 4), layout="constrained")
    *means, scores = figure.subplots(1, 3)
    for axes, digit in zip(means, DIGITS, strict=True):
        mean = answer.table.values[answer.table.target == digit].mean(axis=0)
        plot.pixel_map(mean, (SIDE, SIDE), label=None, ax=axes).set_title(f"mean {digit}")
    plot.pixel_map(answer.scores, (SIDE, SIDE), num_marked=NUMBER, ax=scores)
    scores.set_title(f"ManiFeSt: ranks of the {NUMBER} best pixels")
    figure.savefig(path, dpi=150)
