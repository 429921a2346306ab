"""SSFS: unsupervised scores from predictable eigenvectors of a graph of the samples."""

from jaxfs.methods.ssfs._options import Leading, Predictable, Stable
from jaxfs.methods.ssfs._ssfs import ssfs
from jaxfs.methods.ssfs._steps import SSFSResult

__all__ = ["Leading", "Predictable", "ssfs", "SSFSResult", "Stable"]
