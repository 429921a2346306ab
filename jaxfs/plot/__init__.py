"""Pictures of scores, ranks, operators and graphs, by Matplotlib: `pip install 'jaxfs[plot]'`.

Every function draws on the Axes it is given, or on those of a new figure, and returns them; it
shows nothing and changes no setting. Colours are Okabe and Ito's and cividis, which the
colour-blind can tell apart. A new figure is 4 inches wide, so that it can be read where it is 300
pixels wide. Names are written as they are, dollar signs and underscores too.

In place of Axes, `ax` may be an empty `matplotlib.figure.Figure`, which is filled and given its
size: programs that only write files need neither pyplot nor a screen then.

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
