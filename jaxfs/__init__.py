"""Feature selection in pure JAX: scores and selectors under jit, vmap and grad."""

from jaxfs import adaboost as adaboost
from jaxfs import distributed as distributed
from jaxfs import evaluate as evaluate
from jaxfs import geometry as geometry
from jaxfs import graphs as graphs
from jaxfs import kernels as kernels
from jaxfs import linalg as linalg
from jaxfs import streaming as streaming
from jaxfs import surrogates as surrogates
from jaxfs import transport as transport
from jaxfs._types import Median as Median
from jaxfs._types import Percentile as Percentile
from jaxfs._types import Selection as Selection
from jaxfs.methods._combine import combine_scores as combine_scores
from jaxfs.methods.canonical import cca_select as cca_select
from jaxfs.methods.dirichlet import Coverage as Coverage
from jaxfs.methods.dirichlet import DirichletResult as DirichletResult
from jaxfs.methods.dirichlet import DirichletSelector as DirichletSelector
from jaxfs.methods.dirichlet import Energy as Energy
from jaxfs.methods.dirichlet import FeatureGates as FeatureGates
from jaxfs.methods.dirichlet import KNNGraph as KNNGraph
from jaxfs.methods.dirichlet import KNNGraphLearner as KNNGraphLearner
from jaxfs.methods.dirichlet import Network as Network
from jaxfs.methods.dirichlet import UniqueFeatureSelector as UniqueFeatureSelector
from jaxfs.methods.dirichlet import fit_dirichlet_selector as fit_dirichlet_selector
from jaxfs.methods.filters import anova_score as anova_score
from jaxfs.methods.filters import chi2_score as chi2_score
from jaxfs.methods.filters import f_regression_score as f_regression_score
from jaxfs.methods.filters import fisher_score as fisher_score
from jaxfs.methods.filters import gini_score as gini_score
from jaxfs.methods.filters import pearson_score as pearson_score
from jaxfs.methods.filters import t_score as t_score
from jaxfs.methods.filters import variance_score as variance_score
from jaxfs.methods.gaussian import gc_objective as gc_objective
from jaxfs.methods.gaussian import gc_select as gc_select
from jaxfs.methods.gaussian import gkl_objective as gkl_objective
from jaxfs.methods.gaussian import gkl_select as gkl_select
from jaxfs.methods.information import (
    mutual_information_regression_score as mutual_information_regression_score,
)
from jaxfs.methods.information import mutual_information_score as mutual_information_score
from jaxfs.methods.manifest import ManifestOperators as ManifestOperators
from jaxfs.methods.manifest import manifest_from_kernels as manifest_from_kernels
from jaxfs.methods.manifest import manifest_multiclass_score as manifest_multiclass_score
from jaxfs.methods.manifest import manifest_operators as manifest_operators
from jaxfs.methods.manifest import manifest_score as manifest_score
from jaxfs.methods.manifest_lowrank import manifest_cost as manifest_cost
from jaxfs.methods.manifest_lowrank import manifest_lowrank_score as manifest_lowrank_score
from jaxfs.methods.redundancy import cfs_select as cfs_select
from jaxfs.methods.redundancy import cmim_select as cmim_select
from jaxfs.methods.redundancy import fcbf_select as fcbf_select
from jaxfs.methods.redundancy import jmi_select as jmi_select
from jaxfs.methods.redundancy import mrmr_select as mrmr_select
from jaxfs.methods.relief import relieff_score as relieff_score
from jaxfs.methods.relief import rrelieff_score as rrelieff_score
from jaxfs.methods.spectral import laplacian_score as laplacian_score
from jaxfs.methods.spectral import mcfs_score as mcfs_score
from jaxfs.methods.spectral import spec_score as spec_score
from jaxfs.methods.ssfs import Leading as Leading
from jaxfs.methods.ssfs import Predictable as Predictable
from jaxfs.methods.ssfs import SSFSResult as SSFSResult
from jaxfs.methods.ssfs import Stable as Stable
from jaxfs.methods.ssfs import ssfs as ssfs
from jaxfs.resample import Stability as Stability
from jaxfs.resample import stability as stability
from jaxfs.transport import SoftKNN as SoftKNN
from jaxfs.transport import soft_knn as soft_knn

__version__ = "0.1.0"
