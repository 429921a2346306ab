"""Plots of scores, ranks, operators and graphs with Matplotlib: `pip install 'jaxfs[plot]'`.

Every function draws on the given Axes, or on the Axes of a new figure, and returns the Axes. It
does not show the figure or change any setting. The colours (the palette of Okabe and Ito, and the
colour map cividis) are distinct for colour-blind readers. A new figure is 4 inches wide, so that it
is legible at a width of 300 pixels. Names are written literally, including dollar signs and
underscores.

The argument `ax` may also be an empty `matplotlib.figure.Figure`. The function then adds Axes to
the figure and resizes it. A program that only writes files needs neither pyplot nor a screen.

>>> from matplotlib.figure import Figure
>>> figure = Figure(layout="constrained")
>>> ax = score_bars([0.1, 0.7, 0.4], ["age", "height", "weight"], ax=figure)
>>> figure.savefig("scores.png")  # doctest: +SKIP
"""

from jaxfs.plot._results import accuracy_curve, by_class, heat_map, knn_graph
from jaxfs.plot._scores import eigenvectors, pixel_map, rank_intervals, score_bars

__all__ = [
    "accuracy_curve",
    "by_class",
    "eigenvectors",
    "heat_map",
    "knn_graph",
    "pixel_map",
    "rank_intervals",
    "score_bars",
]
