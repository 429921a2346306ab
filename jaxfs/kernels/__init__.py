"""Distances, bandwidth rules and Gaussian kernels, all without labels.

Samples are rows and features are columns. Each function of features (`feature_…`) is a function of
samples applied to the transpose. A weight of 0 removes a coordinate, and a mask removes a point
(padding). Removed values, NaN included, do not change any bit of the other results.
"""

from jaxfs.kernels._distances import (
    distances,
    feature_squared_distances,
    self_tuning_affinity,
    squared_distances,
)
from jaxfs.kernels._rbf import bandwidth, feature_bandwidth, feature_kernel, rbf

__all__ = [
    "bandwidth",
    "distances",
    "feature_bandwidth",
    "feature_kernel",
    "feature_squared_distances",
    "rbf",
    "self_tuning_affinity",
    "squared_distances",
]
