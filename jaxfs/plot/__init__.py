"""Plots of scores, ranks, operators and graphs, by Matplotlib: `pip install 'jaxfs[plot]'`.

Every function draws on the given Axes, or on those of a new figure, and returns them. It does not
show the figure or change any setting. Colours are those of Okabe and Ito, and cividis, which
colour-blind readers can distinguish. A new figure is 4 inches wide, so that it is legible at a
width of 300 pixels. Names are written literally, including dollar signs and underscores.

Instead of Axes, `ax` may be an empty `matplotlib.figure.Figure`, which is filled and resized.
Programs that only write files then need neither pyplot nor a screen.

>>> from matplotlib.figure import Figure
>>> figure = Figure(layout="constrained")
>>> ax = score_bars([0.1, 0.7, 0.4], ["age", "height", "weight"], ax=figure)
>>> figure.savefig("scores.png")  # doctest: +SKIP
"""

from jaxfs.plot._results import accuracy_curve, heat_map, knn_graph
from jaxfs.plot._scores import eigenvectors, pixel_map, rank_intervals, score_bars

__all__ = [
    "accuracy_curve",
    "eigenvectors",
    "heat_map",
    "knn_graph",
    "pixel_map",
    "rank_intervals",
    "score_bars",
]
