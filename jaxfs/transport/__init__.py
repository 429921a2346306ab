"""Differentiable k nearest neighbours: entropic optimal transport onto k + 2 levels.

The distances a_i of a row are transported onto the levels 0, 1, …, k + 1: one distance to each of
the first k + 1 levels and all others to the last, at cost (a_i − j)² with entropy γ (eqs. 11 and
14). The a_i² cancel from n·Γ_ij = softmax_j(j s_i − h_j), s = 2a/γ, so that only k + 2 potentials h
are unknown. `_newton` solves for them and gives the derivative.
"""

from jaxfs.transport._soft_knn import SoftKNN, soft_knn, soft_weights

__all__ = ["soft_knn", "soft_weights", "SoftKNN"]
