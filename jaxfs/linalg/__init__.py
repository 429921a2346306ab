"""Functions of a symmetric matrix, with exact derivatives wherever they exist.

`jnp.linalg.eigh` differentiates its eigenvectors: at repeated eigenvalues that is NaN, and on
matrices whose spectrum is degenerate by symmetry (circulant ones) a finite wrong number. Here the
*function* is differentiated (`_frechet.py`): first and second derivatives are right at repeated
and clustered eigenvalues, in forward and reverse mode, and cost a few matrix products.

All functions are batched, `(..., d, d)`, symmetrise their input, keep its dtype (float32 or
float64) and return NaN for a matrix that holds a non-finite entry. `leading_eigenpairs` is for
operators too large to be a matrix.
"""

from jaxfs.linalg._leading import Eigenpairs, leading_eigenpairs
from jaxfs.linalg._matrix_functions import (
    absm,
    absm_diagonal,
    dominant_eigenpairs,
    eigh,
    eigh_bordered,
    expm,
    inv_sqrtm,
    leading_eigenspace,
    logm,
    polar,
    powm,
    spectral_function,
    sqrtm,
)

__all__ = [
    "absm",
    "absm_diagonal",
    "dominant_eigenpairs",
    "Eigenpairs",
    "eigh",
    "eigh_bordered",
    "expm",
    "inv_sqrtm",
    "leading_eigenpairs",
    "leading_eigenspace",
    "logm",
    "polar",
    "powm",
    "spectral_function",
    "sqrtm",
]
