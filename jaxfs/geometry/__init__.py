"""Riemannian geometries of kernels and subspaces: geodesic, log, exp, distance and mean."""

from jaxfs.geometry import grassmann, spd, spsd

__all__ = ["grassmann", "spd", "spsd"]
