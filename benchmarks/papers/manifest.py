"""The page of ManiFeSt: Cohen, Shnitzer, Kluger, Talmon, ICML 2023."""

from benchmarks.papers._parts import Absent
from benchmarks.papers.manifest_embedded import TABLE_2
from benchmarks.papers.manifest_madelon import FIGURE_4, FIGURE_5
from benchmarks.papers.manifest_mnist import FIGURE_2, FIGURE_8, FIGURE_9
from benchmarks.papers.manifest_synthetic import FIGURE_3, FIGURE_6, FIGURE_12
from benchmarks.papers.manifest_tables import FIGURE_7, FIGURE_11, PROSTATE, TABLE_1

TITLE = "ManiFeSt: figures and tables"
INTRO = """
D. Cohen, T. Shnitzer, Y. Kluger, R. Talmon, *Few-Sample Feature Selection via Feature Manifold
Learning*, ICML 2023.

The text of the paper was compared, not its pictures: a number that stands only in a picture is not
quoted. All scores are those of jaxfs in float32, ManiFeSt with the default ridge. The classifiers
are scikit-learn's. Every section says what was reduced, or is otherwise not as in the paper.
"""
PARTS = [
    Absent("Figure 1", "the operators M and D", "illustration, nothing to reproduce"),
    FIGURE_2,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURE_7,
    TABLE_1,
    PROSTATE,
    FIGURE_8,
    FIGURE_9,
    Absent("Figure 10", "pants and shirts of Fashion-MNIST", "data not available"),
    FIGURE_11,
    TABLE_2,
    FIGURE_12,
]
