"""Figures and tables of Lefakis and Fleuret, JMLR 17, 2016 (GC and GKL)."""

from benchmarks.papers import (
    gaussian_cost,
    gaussian_eigen,
    gaussian_mixtures,
    gaussian_pruning,
    gaussian_samples,
    gaussian_tables,
)
from benchmarks.papers._parts import Absent

TITLE = "GC and GKL: figures and tables of the paper"
INTRO = """
L. Lefakis, F. Fleuret, *Jointly Informative Feature Selection Made Tractable by Gaussian Modeling*,
JMLR 17, 2016. `make results PAPERS=gaussian` writes this page.

The paper's real data, features of CIFAR-10, STL-10 and INRIA, are not available. Where the paper
uses them, the numbers are for other sets, and the tables compare what does not depend on the set:
the gap between two methods, and the order of the methods. MNIST (ten classes), COIL20 (20 classes)
and Madelon (two classes) stand for the three sets. `gc_select` and `gkl_select` have their default
options unless stated. Their default ridge and shrinkage were chosen on samples of thirteen of the
fourteen sets, so that their rows are optimistic. GKL.E and GC.E depend on units: images are used as
they are, and all other features are standardised.

The baselines are those that jaxfs has. Missing are SBMLR, CMTF and GBFS. Spectral is `spec_score`
(Zhao and Liu), not the method of Wolf and Shashua. The t-test is the mean over the classes against
the others, χ² is that of features scaled to [0, 1], MRMR is the difference of mutual information
in bins. FCBF and CFS stop when no feature helps, and may have fewer features than allowed. JMI,
CMIM and CCA are further selectors of jaxfs. GC.MI* and GKL.E* have covariances as in the paper: no
shrinkage, a ridge of only 0.001 times the mean variance, and random features once GC saturates.

Classifiers: AdaBoost of 100 stumps for each class against the others, a linear SVM with C = 0.01,
an RBF-SVM with the options of scikit-learn, and QDA with 0.1 added to the variances, all three on
standardised features. The paper does not name its settings. None of these classifiers was tuned for
this page; the ridge and shrinkage of GC and GKL were.
"""
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
    gaussian_cost.TABLE_3,
    *gaussian_tables.TABLES,
    gaussian_tables.SECTION_5_4,
    gaussian_samples.FIGURE_8,
    gaussian_samples.FIGURE_9,
]
