"""Limits on the size of a table: decompressed bytes and free memory.

A few kilobytes can decompress to terabytes. The sizes are therefore checked before reading. If a
format does not state the sizes, they are checked while reading.
"""

from collections.abc import Iterable
from pathlib import Path

from jaxfs.cli.tables._columns import TableError
from jaxfs.streaming import _memory

#: Default limit, in gigabytes, on the decompressed size of a file.
GIGABYTES = 2.0
#: Number of bytes that are decompressed at a time.
PART = 2**20
#: Number of copies of the matrix in memory: as read, as columns, and as the input of a method.
COPIES = 3


class Allowance:
    """Limits for one file; every check raises `TableError`."""

    def __init__(self, path: Path, gigabytes: float) -> None:
        self.stored = path.stat().st_size
        self._limit, self._free = 1e9 * gigabytes, _memory.free()

    def check(self, size: float, copies: float = 1) -> None:
        """Check that `size` bytes are within the limit, and that `copies` of them fit into memory.

        The limit applies to compressed files only.
        """
        if size > max(self._limit, self.stored):
            raise TableError(
                f"decompressed, the file has at least {_memory.readable(size)}, more than the "
                f"{_memory.readable(self._limit)} allowed: --max-gb raises the limit"
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
        """Join parts as they are decompressed; `before` bytes were decompressed earlier."""
        kept, size = [], before
        for part in parts:
            size += len(part)
            self.check(size, copies)
            kept.append(part)
        return b"".join(kept)
