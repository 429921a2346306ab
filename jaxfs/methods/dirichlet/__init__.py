"""Unsupervised feature selection that learns a differentiable k-NN graph of the samples."""

from jaxfs.methods.dirichlet._fit import (
    Coverage,
    DirichletResult,
    Energy,
    Network,
    fit_dirichlet_selector,
)
from jaxfs.methods.dirichlet._network import (
    DirichletSelector,
    FeatureGates,
    KNNGraph,
    KNNGraphLearner,
    UniqueFeatureSelector,
)

__all__ = [
    "Coverage",
    "DirichletResult",
    "DirichletSelector",
    "Energy",
    "FeatureGates",
    "fit_dirichlet_selector",
    "KNNGraph",
    "KNNGraphLearner",
    "Network",
    "UniqueFeatureSelector",
]
