"""A differentiable choice of the k nearest: entropic optimal transport onto k + 2 levels.

The distances of a row are sent onto the levels 0, 1, …, k + 1, one distance to each of the first
k + 1 levels and all others to the last, at the cost (a_i − j)² with entropy γ (eqs. 11 and 14). The
a_i² cancel from n·Γ_ij = softmax_j(j s_i − h_j), s = 2a/γ, so that k + 2 potentials h are all that
is unknown. `_newton` solves for them and has the derivative.
"""

from jaxfs.transport._soft_knn import SoftKNN, soft_knn, soft_weights

__all__ = ["soft_knn", "soft_weights", "SoftKNN"]
