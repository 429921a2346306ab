"""What `jaxfs demo` shows: which pixels tell a 4 from a 9."""

from pathlib import Path

import numpy as np

from jaxfs.cli._answer import Choice, choose
from jaxfs.cli._request import Plan
from jaxfs.cli.tables._table import Table

DIGITS = (4, 9)
SIDE = 8
NUMBER = 10

EXPLANATION = """\
The data are 361 handwritten digits of scikit-learn, 8 × 8 pixels each: fours and nines. ManiFeSt
ranked the 64 pixels by how much their relations to the other pixels differ between the two digits;
no pixel was looked at alone. The brighter a pixel of the picture, the higher it ranks; the numbers
are the ranks of the ten best. They lie in two places: low on the left, where the bar of a four runs
and a nine is empty, and at the top, where a nine closes its loop and a four is open.
"""


def table() -> Table:
    """The digits 4 and 9, intensities in [0, 1]."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    keep = np.isin(y, DIGITS)
    names = [f"row{i // SIDE}_column{i % SIDE}" for i in range(SIDE * SIDE)]
    return Table(names, x[keep] / 16, y[keep].astype(np.float64), "digit")


def run(seed: int) -> tuple[Table, Choice]:
    data = table()
    return data, choose(data, Plan("manifest", k=str(NUMBER), seed=seed))


def draw(path: Path, data: Table, choice: Choice) -> None:
    """Both mean digits, and the score of each pixel with the ranks of the best."""
    from jaxfs import plot
    from jaxfs.cli._pictures import pyplot

    figure, axes = pyplot().subplots(1, 3, figsize=(12, 4), layout="constrained")
    for axis, digit in zip(axes, DIGITS, strict=False):
        mean = data.values[data.target == digit].mean(axis=0)
        plot.pixel_map(mean, (SIDE, SIDE), label=None, ax=axis).set_title(f"mean {digit}")
    plot.pixel_map(choice.scores, (SIDE, SIDE), num_marked=NUMBER, ax=axes[2])
    axes[2].set_title(f"ManiFeSt, the {NUMBER} best numbered")
    figure.savefig(path, dpi=150)
    pyplot().close(figure)
