"""Riemannian geometries of kernels and subspaces: geodesic, log, exp, distance and mean."""

from jaxfs.geometry import grassmann as grassmann
from jaxfs.geometry import spd as spd
from jaxfs.geometry import spsd as spsd
