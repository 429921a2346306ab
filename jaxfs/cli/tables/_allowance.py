"""Limits on the size of a table: decompressed bytes and free memory; no JAX.

A few kilobytes can decompress to terabytes. Sizes are therefore checked before reading or, where a
format does not state them, while reading.
"""

from collections.abc import Iterable
from pathlib import Path

from jaxfs.cli.tables._columns import TableError
from jaxfs.streaming import _memory

#: Default limit, in gigabytes, on the decompressed size of a file.
GIGABYTES = 2.0
#: Bytes that are decompressed at a time.
PART = 2**20
#: Copies of the matrix in memory: as read, as columns, and as the input of a method.
COPIES = 3


class Allowance:
    """Limits for one file; every check raises `TableError`."""

    def __init__(self, path: Path, gigabytes: float) -> None:
        self.stored = path.stat().st_size
        self._limit, self._free = 1e9 * gigabytes, _memory.free()

    def check(self, size: float, copies: float = 1) -> None:
        """Check that `size` bytes are within the limit, and `copies` of them within the memory.

        The limit does not apply to files that are not compressed.
        """
        if size > max(self._limit, self.stored):
            raise TableError(
                f"decompressed, the file has at least {_memory.readable(size)}, more than the "
                f"{_memory.readable(self._limit)} allowed: --max-gb raises this"
            )
        self.check_memory(size * copies, "the file")

    def check_memory(self, size: float, what: str) -> None:
        if size > self._free:
            need, free = map(_memory.readable, (size, self._free))
            raise TableError(
                f"{what} needs about {need}, and {free} are free: keep fewer rows or columns"
            )

    def check_matrix(self, n: int, d: int, what: str = "a table") -> None:
        self.check_memory(8 * n * d * COPIES, f"{what} of {n} rows and {d} columns")

    def gather(self, parts: Iterable[bytes], copies: float, before: int = 0) -> bytes:
        """Join parts as they are decompressed, after `before` bytes that came earlier."""
        kept, size = [], before
        for part in parts:
            size += len(part)
            self.check(size, copies)
            kept.append(part)
        return b"".join(kept)
