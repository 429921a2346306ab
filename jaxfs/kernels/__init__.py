"""Distances, bandwidths and Gaussian kernels; knows no labels.

Samples are rows, features are columns; distances between either are one function, on the matrix or
on its transpose. A weight of 0 removes a coordinate and a mask removes a point (padding): what
stands there, NaN included, does not change a bit of the rest.
"""

from jaxfs.kernels._rbf import (
    bandwidth,
    distances,
    feature_bandwidth,
    feature_kernel,
    feature_squared_distances,
    rbf,
    self_tuning_affinity,
    squared_distances,
)

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
