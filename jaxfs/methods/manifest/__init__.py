"""ManiFeSt: few-sample scores from the Riemannian difference of the classes' feature kernels."""

from jaxfs.methods.manifest._bandwidth import ManifestBandwidth, manifest_bandwidth
from jaxfs.methods.manifest._lowrank_score import manifest_cost, manifest_lowrank_score
from jaxfs.methods.manifest._multiclass import (
    ManifestMulticlassOperators,
    manifest_multiclass_from_kernels,
    manifest_multiclass_operators,
    manifest_multiclass_score,
)
from jaxfs.methods.manifest._score import (
    ManifestOperators,
    manifest_from_kernels,
    manifest_operators,
    manifest_score,
)

__all__ = [
    "manifest_bandwidth",
    "manifest_cost",
    "manifest_from_kernels",
    "manifest_lowrank_score",
    "manifest_multiclass_from_kernels",
    "manifest_multiclass_operators",
    "manifest_multiclass_score",
    "manifest_operators",
    "manifest_score",
    "ManifestBandwidth",
    "ManifestMulticlassOperators",
    "ManifestOperators",
]
