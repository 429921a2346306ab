"""Nearest neighbours, graph Laplacians and the Dirichlet energy, all without labels.

A graph on n samples is given by a dense matrix of weights `(n, n)`, or by lists of neighbours:
indices `(n, k)` with weights `(n, k)`. The index −1 means that there is no neighbour. Samples that
are padding have no neighbours and are neighbours of no sample.
"""

from jaxfs.graphs._laplacian import laplacian
from jaxfs.graphs._neighbors import (
    Neighbors,
    adaptive_weights,
    dirichlet_energies,
    dirichlet_energy,
    knn_adjacency,
    nearest_neighbors,
)

__all__ = [
    "adaptive_weights",
    "dirichlet_energies",
    "dirichlet_energy",
    "knn_adjacency",
    "laplacian",
    "nearest_neighbors",
    "Neighbors",
]
