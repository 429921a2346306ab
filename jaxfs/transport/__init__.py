"""Differentiable k nearest neighbours, by entropic optimal transport onto k + 2 levels.

The distances a_i of a row are transported onto the levels j = 0, 1, …, k + 1. Each of the first
k + 1 levels receives the mass of one distance, and the last level receives all other mass. The cost
is (a_i − j)², with entropy weight γ (eqs. 11 and 14). The terms a_i² cancel in the plan
n·Γ_ij = softmax_j(j s_i − h_j), s = 2a/γ, so that only the k + 2 potentials h are unknown.
`_newton.py` solves for the potentials and computes their derivative.
"""

from jaxfs.transport._soft_knn import SoftKNN, soft_knn, soft_weights

__all__ = ["soft_knn", "soft_weights", "SoftKNN"]
