"""The figures and tables of *Spectral Self-supervised Feature Selection*."""

from dataclasses import replace

from benchmarks.papers import ssfs_clustering, ssfs_manifold, ssfs_synthetic
from benchmarks.papers import ssfs_manifold_sections as manifold_sections
from benchmarks.papers import ssfs_sections as sections
from benchmarks.papers._parts import Part

TITLE = "SSFS: every figure and table"
INTRO = """
*Spectral Self-supervised Feature Selection*, TMLR 2024. The data are those that are available:
Prostate-GE, Yale and COIL20 of the paper's eight sets. `make results PAPERS=ssfs` computes this
page.
"""

_BOOSTING = "Boosted trees are those of `jaxfs.surrogates.boosting`, which follows the rules of "
_BOOSTING += "XGBoost, instead of XGBoost."
_RESAMPLES = f"COIL20 has {ssfs_clustering.FEWER_RESAMPLES} resamples instead of 500."

_TABLE_1 = Part(
    "ssfs-table-1",
    "Table 1",
    "accuracy of k-means on the selected features",
    ssfs_clustering.table,
    len(ssfs_clustering.SETS),
    sections.show_table_1,
    differs=f"{_BOOSTING} {_RESAMPLES}",
)
_TABLE_4 = Part(
    "ssfs-table-4",
    "Table 4",
    "stability of clusters",
    ssfs_clustering.stability,
    1,
    sections.show_table_4,
    differs=_BOOSTING,
)

PARTS = [
    Part(
        "ssfs-figure-1",
        "Figure 1",
        "eigenvectors of noisy digits",
        ssfs_manifold.figure_1,
        10,
        manifold_sections.show_figure_1,
    ),
    Part(
        "ssfs-figure-2",
        "Figure 2",
        "eigenvectors of real data",
        ssfs_manifold.figure_2,
        1,
        manifold_sections.show_figure_2,
    ),
    Part(
        "ssfs-figure-3",
        "Figure 3",
        "digits 3 and 8, and points on an interval",
        ssfs_manifold.figure_3,
        5,
        manifold_sections.show_figure_3,
    ),
    Part(
        "ssfs-figure-4",
        "Figure 4",
        "a product of two curves, and Theorem 2",
        ssfs_manifold.figure_4,
        5,
        manifold_sections.show_figure_4,
        differs=f"The features of θ₂ are scaled by {ssfs_manifold.SHORTER}, so that two "
        "eigenvectors of θ₁ precede the first of θ₂. Positions are uniform along the curves.",
    ),
    _TABLE_1,
    replace(
        _TABLE_1,
        name="ssfs-figure-5",
        label="Figure 5",
        title="accuracy by the number of features",
        show=sections.show_figure_5,
        store=_TABLE_1.name,
    ),
    Part(
        "ssfs-figure-6",
        "Figure 6",
        "eigenvectors of the synthetic data",
        ssfs_synthetic.figure_6,
        10,
        ssfs_synthetic.show_figure_6,
    ),
    replace(
        _TABLE_1,
        name="ssfs-table-2",
        label="Table 2",
        title="ablations on real data",
        show=sections.show_table_2,
        store=_TABLE_1.name,
    ),
    Part(
        "ssfs-table-3",
        "Table 3",
        "ablations on synthetic data",
        ssfs_synthetic.table_3,
        20,
        ssfs_synthetic.show_table_3,
        differs=_BOOSTING,
    ),
    replace(
        _TABLE_1,
        name="ssfs-figure-7",
        label="Figure 7",
        title="ablations, best counts",
        show=sections.show_figure_7,
        store=_TABLE_1.name,
    ),
    _TABLE_4,
    replace(
        _TABLE_4,
        name="ssfs-figure-8",
        label="Figure 8",
        title="stability of clusters",
        show=sections.show_figure_8,
        store=_TABLE_4.name,
    ),
    Part(
        "ssfs-figure-9",
        "Figure 9",
        "the first features of COIL20",
        ssfs_clustering.top_features,
        1,
        sections.show_figure_9,
        differs=f"{_BOOSTING} {_RESAMPLES}",
    ),
    Part(
        "ssfs-figure-10",
        "Figure 10",
        "recall among nuisance features",
        ssfs_synthetic.figure_10,
        10,
        ssfs_synthetic.show_figure_10,
        differs=_BOOSTING,
    ),
    replace(
        _TABLE_1,
        name="ssfs-figure-11",
        label="Figure 11",
        title="ablations by the number of features",
        show=sections.show_figure_11,
        store=_TABLE_1.name,
    ),
    replace(
        _TABLE_1,
        name="ssfs-table-5",
        label="Table 5",
        title="data sets",
        show=sections.show_table_5,
        store=_TABLE_1.name,
        differs="",
    ),
]
