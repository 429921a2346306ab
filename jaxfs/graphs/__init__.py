"""Nearest neighbours, graph Laplacians and the Dirichlet energy; knows no labels.

A graph on n samples is a dense matrix of weights `(n, n)`, or lists of neighbours: indices `(n, k)`
with weights `(n, k)`. An index of −1 is no neighbour; a sample of padding has none and is none.
"""

from jaxfs.graphs._neighbors import (
    Neighbors,
    adaptive_weights,
    dirichlet_energies,
    dirichlet_energy,
    knn_adjacency,
    laplacian,
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
