"""Functions of a symmetric matrix, with exact derivatives wherever they exist.

`jnp.linalg.eigh` differentiates the eigenvectors. At repeated eigenvalues this derivative is NaN.
For matrices whose eigenvalues repeat by symmetry (circulant matrices) it is finite and wrong. The
functions here differentiate the matrix *function* instead (`_frechet.py`). Their first and second
derivatives are right at repeated and clustered eigenvalues, in forward and reverse mode, and cost a
few matrix products.

All functions accept batches `(..., d, d)`, symmetrise their input, keep its dtype (float32 or
float64) and return NaN for a matrix with a non-finite entry. `leading_eigenpairs` is for operators
that are too large to be stored as a matrix.
"""

from jaxfs.linalg._bordered import eigh_bordered
from jaxfs.linalg._leading import Eigenpairs, leading_eigenpairs
from jaxfs.linalg._matrix_functions import (
    absm,
    absm_diagonal,
    dominant_eigenpairs,
    eigh,
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
