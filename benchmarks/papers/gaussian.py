"""Figures and tables of Lefakis and Fleuret, JMLR 17, 2016 (GC and GKL)."""

from benchmarks.papers import gaussian_eigen, gaussian_mixtures, gaussian_pruning
from benchmarks.papers._parts import Absent

TITLE = "Results: GC and GKL"
INTRO = "x"
PARTS = [
    Absent("Table 1", "notation", "illustration, nothing to reproduce"),
    gaussian_mixtures.FIGURE_1,
    gaussian_mixtures.FIGURE_2,
    gaussian_mixtures.TABLE_2,
    gaussian_pruning.FIGURE_3,
    gaussian_eigen.FIGURE_4,
    gaussian_eigen.FIGURE_5,
    gaussian_eigen.FIGURE_6,
    gaussian_eigen.FIGURE_7,
    gaussian_mixtures.SECTION_5_1,
]
