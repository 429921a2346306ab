"""scikit-learn estimators for the methods of jaxfs."""

from jaxfs.estimators._catalogue import METHODS, Method
from jaxfs.estimators._number import FDR
from jaxfs.estimators.auto import AutoSelector, ComparedMethod
from jaxfs.estimators.boruta import BorutaSelector
from jaxfs.estimators.dirichlet import DirichletGraphSelector
from jaxfs.estimators.ensemble import CombinedSelector, StabilitySelector
from jaxfs.estimators.filters import (
    FilterSelector,
    MutualInformation,
    MutualInformationRegression,
    ReliefF,
    RReliefF,
)
from jaxfs.estimators.gaussian import CanonicalCorrelation, GaussianCompromise, GaussianKL
from jaxfs.estimators.manifest import ManiFeSt
from jaxfs.estimators.recursive import RecursiveSelector
from jaxfs.estimators.redundancy import CFS, CMIM, FCBF, JMI, MRMR, MRMRRegression
from jaxfs.estimators.spectral import MCFS, SPEC, LaplacianScore
from jaxfs.estimators.ssfs import SSFS

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
