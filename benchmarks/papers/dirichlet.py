"""The figures and tables of *Joint Feature and Differentiable k-NN Graph Learning*."""

from dataclasses import replace

from benchmarks.papers import dirichlet_downstream, dirichlet_graphs, dirichlet_toys
from benchmarks.papers import dirichlet_graph_sections as graph_sections
from benchmarks.papers import dirichlet_sections as sections
from benchmarks.papers._parts import Absent, Part

TITLE = "Dirichlet energy: every figure and table"
INTRO = """
*Joint Feature and Differentiable k-NN Graph Learning using Dirichlet Energy*, NeurIPS 2023. The
data are the seven of the paper's twelve sets that are available. PIX10 is pixraw10P and PROSTATE is
Prostate-GE. "default" is `fit_dirichlet_selector` with its default options, which are not the
paper's network. "network" is `objective="network"`. `make results PAPERS=dirichlet` computes this
page.
"""

_TABLE_2 = Part(
    "dirichlet-table-2",
    "Table 2",
    "classification, clustering and reconstruction",
    dirichlet_downstream.run,
    10,
    sections.show_table_2,
)
_TABLE_3 = Part(
    "dirichlet-table-3",
    "Table 3",
    "ablations",
    dirichlet_graphs.ablations,
    3,
    graph_sections.show_table_3,
)

PARTS = [
    Part(
        "dirichlet-figure-1",
        "Figure 1",
        "energies on a right and a wrong graph",
        dirichlet_graphs.figure_1,
        20,
        graph_sections.show_figure_1,
    ),
    Absent("Figure 2", "scheme of the network", "illustration, nothing to reproduce"),
    Part(
        "dirichlet-table-1",
        "Table 1",
        "data sets",
        dirichlet_downstream.shapes,
        1,
        sections.show_table_1,
    ),
    Part(
        "dirichlet-figure-3",
        "Figure 3",
        "toys, with and without the unique feature selector",
        dirichlet_toys.run,
        10,
        dirichlet_toys.show_figure_3,
    ),
    _TABLE_2,
    _TABLE_3,
    replace(
        _TABLE_2,
        name="dirichlet-table-s1",
        label="Table S1",
        title="classification with standard deviations",
        show=sections.show_table_s1,
        store=_TABLE_2.name,
    ),
    replace(
        _TABLE_2,
        name="dirichlet-table-s2",
        label="Table S2",
        title="clustering with standard deviations",
        show=sections.show_table_s2,
        store=_TABLE_2.name,
    ),
    replace(
        _TABLE_2,
        name="dirichlet-table-s3",
        label="Table S3",
        title="reconstruction with standard deviations",
        show=sections.show_table_s3,
        store=_TABLE_2.name,
    ),
    Part(
        "dirichlet-figure-s1",
        "Figure S1",
        "reconstructed images",
        dirichlet_graphs.figure_s1,
        1,
        graph_sections.show_figure_s1,
    ),
    Part(
        "dirichlet-figure-s2",
        "Figure S2",
        "graphs of COIL20",
        dirichlet_graphs.figure_s2,
        3,
        graph_sections.show_figure_s2,
    ),
    replace(
        _TABLE_3,
        name="dirichlet-table-s4",
        label="Table S4",
        title="clustering without DGL",
        show=graph_sections.show_table_s4,
        store=_TABLE_3.name,
    ),
    replace(
        _TABLE_3,
        name="dirichlet-table-s5",
        label="Table S5",
        title="reconstruction without DGL",
        show=graph_sections.show_table_s5,
        store=_TABLE_3.name,
    ),
    Part(
        "dirichlet-figure-s3",
        "Figure S3",
        "sensitivity to the parameters",
        dirichlet_graphs.sensitivity,
        1,
        graph_sections.show_figure_s3,
    ),
]
