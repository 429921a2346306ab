"""The page of ManiFeSt: Cohen, Shnitzer, Kluger, Talmon, ICML 2023."""

from benchmarks.papers._parts import Absent
from benchmarks.papers.manifest_madelon import FIGURE_4, FIGURE_5
from benchmarks.papers.manifest_synthetic import FIGURE_3, FIGURE_6, FIGURE_12

TITLE = "ManiFeSt: figures and tables of the paper"
INTRO = """
D. Cohen, T. Shnitzer, Y. Kluger, R. Talmon, *Few-Sample Feature Selection via Feature Manifold Learning*, ICML 2023.
"""
PARTS = [
    Absent("Figure 1", "the operators M and D", "illustration, nothing to reproduce"),
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    Absent("Figure 10", "pants and shirts of Fashion-MNIST", "data not available"),
    FIGURE_12,
]
