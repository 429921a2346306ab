"""scikit-learn estimators for the methods of jaxfs."""

from jaxfs.estimators._catalogue import METHODS, Method
from jaxfs.estimators._significance import FDR
from jaxfs.estimators.auto import AutoSelector, ComparedMethod
from jaxfs.estimators.dirichlet import DirichletGraphSelector
from jaxfs.estimators.ensemble import CombinedSelector, StabilitySelector
from jaxfs.estimators.filters import (
    MCFS,
    SPEC,
    FilterSelector,
    LaplacianScore,
    MutualInformation,
    MutualInformationRegression,
    ReliefF,
    RReliefF,
)
from jaxfs.estimators.greedy import (
    CFS,
    CMIM,
    FCBF,
    JMI,
    MRMR,
    CanonicalCorrelation,
    GaussianCompromise,
    GaussianKL,
    MRMRRegression,
)
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.ssfs import SSFS
from jaxfs.estimators.wrappers import BorutaSelector, RecursiveSelector

__all__ = [
    "AutoSelector",
    "BorutaSelector",
    "ComparedMethod",
    "CanonicalCorrelation",
    "CFS",
    "CMIM",
    "CombinedSelector",
    "DirichletGraphSelector",
    "FCBF",
    "FDR",
    "FilterSelector",
    "GaussianCompromise",
    "GaussianKL",
    "JMI",
    "LaplacianScore",
    "ManiFeSt",
    "MCFS",
    "Method",
    "METHODS",
    "MRMR",
    "MRMRRegression",
    "MutualInformation",
    "MutualInformationRegression",
    "RecursiveSelector",
    "ReliefF",
    "RReliefF",
    "SPEC",
    "SSFS",
    "StabilitySelector",
]
