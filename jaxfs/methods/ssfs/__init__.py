"""SSFS: unsupervised feature scores from predictable eigenvectors of a graph of the samples."""

from jaxfs.methods.ssfs._ssfs import Leading, Predictable, Stable, ssfs
from jaxfs.methods.ssfs._steps import SSFSResult

__all__ = ["Leading", "Predictable", "ssfs", "SSFSResult", "Stable"]
