"""Feature selection in pure JAX: scores and selectors under jit, vmap and grad."""

from typing import TYPE_CHECKING

from jaxfs import evaluate, geometry, graphs, inference, kernels, linalg, surrogates, transport
from jaxfs._types import Selection
from jaxfs.cache import enable_compilation_cache
from jaxfs.inference import (
    KnockoffSelection,
    PermutationTest,
    StabilitySelection,
    knockoff_select,
    knockoffs,
    permutation_test,
    stability_selection,
    structure_test,
)
from jaxfs.kernels._rbf import Median, Percentile
from jaxfs.methods.classical import (
    anova_score,
    cfs_select,
    chi2_score,
    cmim_select,
    combine_scores,
    diverse_ranking,
    f_regression_score,
    fcbf_select,
    fisher_score,
    gini_score,
    jmi_select,
    laplacian_score,
    mcfs_score,
    mrmr_regression_select,
    mrmr_select,
    mutual_information_regression_score,
    mutual_information_score,
    pearson_score,
    relieff_score,
    rrelieff_score,
    spec_score,
    t_score,
    variance_score,
)
from jaxfs.methods.dirichlet import (
    Coverage,
    DirichletResult,
    DirichletSelector,
    Energy,
    FeatureGates,
    KNNGraph,
    KNNGraphLearner,
    Network,
    UniqueFeatureSelector,
    fit_dirichlet_selector,
)
from jaxfs.methods.gaussian import cca_select, gc_objective, gc_select, gkl_objective, gkl_select
from jaxfs.methods.manifest import (
    ManifestBandwidth,
    ManifestMulticlassOperators,
    ManifestOperators,
    manifest_bandwidth,
    manifest_cost,
    manifest_from_kernels,
    manifest_lowrank_score,
    manifest_multiclass_from_kernels,
    manifest_multiclass_operators,
    manifest_multiclass_score,
    manifest_operators,
    manifest_score,
)
from jaxfs.methods.ssfs import Leading, Predictable, SSFSResult, Stable, ssfs
from jaxfs.resample import Stability, stability
from jaxfs.surrogates import adaboost
from jaxfs.transport import SoftKNN, soft_knn

if TYPE_CHECKING:
    from jaxfs import distributed, estimators, interop, plot, streaming
else:

    def __getattr__(name):
        """Import a sub-package of `__all__` when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"{__name__}.{name}")

    def __dir__():
        return sorted({*globals(), *__all__})


__version__ = "0.1.0"
# fmt: off
__all__ = [
    # ManiFeSt
    "manifest_score", "manifest_multiclass_score", "manifest_lowrank_score",
    "manifest_bandwidth", "manifest_from_kernels", "manifest_operators", "manifest_cost",
    "manifest_multiclass_from_kernels", "manifest_multiclass_operators",
    "ManifestBandwidth", "ManifestOperators", "ManifestMulticlassOperators",
    "Median", "Percentile",
    # Features that are informative together
    "gc_select", "gkl_select", "cca_select", "gc_objective", "gkl_objective", "mrmr_select",
    "mrmr_regression_select",
    "cfs_select", "fcbf_select", "jmi_select", "cmim_select", "Selection",
    # Without labels
    "ssfs", "SSFSResult", "Stable", "Predictable", "Leading", "fit_dirichlet_selector",
    "DirichletResult", "DirichletSelector", "Coverage", "Energy", "Network", "FeatureGates",
    "UniqueFeatureSelector", "KNNGraphLearner", "KNNGraph", "soft_knn", "SoftKNN",
    "laplacian_score", "mcfs_score", "spec_score", "variance_score",
    # Filters
    "relieff_score", "rrelieff_score", "anova_score", "fisher_score", "t_score",
    "pearson_score", "f_regression_score", "gini_score", "chi2_score",
    "mutual_information_score", "mutual_information_regression_score",
    # Around any score
    "combine_scores", "diverse_ranking", "stability", "Stability", "enable_compilation_cache",
    # With a guarantee
    "permutation_test", "structure_test", "PermutationTest", "stability_selection",
    "StabilitySelection", "knockoffs", "knockoff_select", "KnockoffSelection",
    # Modules
    "adaboost", "distributed", "estimators", "evaluate", "geometry", "graphs", "inference",
    "interop", "kernels", "linalg", "plot", "streaming", "surrogates", "transport",
]
# fmt: on
