"""Features and a differentiable k-NN graph of the samples, learnt together."""

from jaxfs.methods.dirichlet._fit import DirichletResult, FeatureGates, fit_dirichlet_selector
from jaxfs.methods.dirichlet._network import (
    DirichletSelector,
    KNNGraph,
    KNNGraphLearner,
    UniqueFeatureSelector,
)
from jaxfs.methods.dirichlet._options import Coverage, Energy, Network

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
