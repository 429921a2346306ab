"""GC, GKL and canonical correlation: greedy selection of jointly informative features."""

from jaxfs.methods.gaussian._canonical import cca_select
from jaxfs.methods.gaussian._select import gc_objective, gc_select, gkl_objective, gkl_select

__all__ = ["cca_select", "gc_objective", "gc_select", "gkl_objective", "gkl_select"]
