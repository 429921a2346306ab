"""Functions of jaxfs for the tensors of other array libraries, with derivatives."""

from jaxfs.interop._torch import wrap

__all__ = ["wrap"]
