"""The figures and tables of *Joint Feature and Differentiable k-NN Graph Learning*."""

import functools
from collections.abc import Callable
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
    differs=sections.DIFFERS_TABLE_2,
    judge=sections.judge_table_2,
)
_TABLE_3 = Part(
    "dirichlet-table-3",
    "Table 3",
    "ablations",
    dirichlet_graphs.ablations,
    3,
    graph_sections.show_table_3,
    differs=graph_sections.DIFFERS,
    judge=graph_sections.judge_table_3,
)


def _of_table_2(number: str, task: str, title: str, show: Callable) -> Part:
    """Table S1, S2 or S3: the numbers of one task of Table 2."""
    name = f"dirichlet-table-{number.lower()}"
    return replace(
        _TABLE_2,
        name=name,
        label=f"Table {number}",
        title=title,
        show=show,
        store=_TABLE_2.name,
        differs=sections.DIFFERS[task],
        judge=functools.partial(sections.judge, name, task),
    )


def _of_table_3(number: str, task: str, title: str, show: Callable) -> Part:
    """Table S4 or S5: the numbers of one task of Table 3."""
    name = f"dirichlet-table-{number.lower()}"
    return replace(
        _TABLE_3,
        name=name,
        label=f"Table {number}",
        title=title,
        show=show,
        store=_TABLE_3.name,
        judge=functools.partial(graph_sections.judge_without, name, task),
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
    _of_table_2("S1", "forest", "classification with standard deviations", sections.show_table_s1),
    _of_table_2("S2", "k-means", "clustering with standard deviations", sections.show_table_s2),
    _of_table_2("S3", "RMSE", "reconstruction with standard deviations", sections.show_table_s3),
    Part(
        "dirichlet-figure-s1",
        "Figure S1",
        "reconstructed images",
        dirichlet_graphs.figure_s1,
        1,
        graph_sections.show_figure_s1,
        differs="The paper's network was not run: the features are those of the default of jaxfs. "
        "One split; the RMSE is rescaled as in Table S3.",
    ),
    Part(
        "dirichlet-figure-s2",
        "Figure S2",
        "graphs of COIL20",
        dirichlet_graphs.figure_s2,
        3,
        graph_sections.show_figure_s2,
    ),
    _of_table_3("S4", "k-means", "clustering without DGL", graph_sections.show_table_s4),
    _of_table_3("S5", "RMSE", "reconstruction without DGL", graph_sections.show_table_s5),
    Part(
        "dirichlet-figure-s3",
        "Figure S3",
        "sensitivity to the parameters",
        dirichlet_graphs.sensitivity,
        1,
        graph_sections.show_figure_s3,
        differs="One split. The parameters that do not vary are not the paper's optimal ones, "
        "which were chosen on test parts.",
        judge=graph_sections.judge_figure_s3,
    ),
]
