"""How large a table may become: a limit for what is decompressed, and the free memory; no JAX.

A few kilobytes can become terabytes when they are decompressed, so that sizes are checked before
they are read, or, where a format does not tell them, while they are.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from jaxfs.cli.tables._columns import TableError
from jaxfs.streaming import _memory

#: Most gigabytes that a file may become when it is decompressed, unless the caller allows more.
GIGABYTES = 2.0
#: Bytes that are read at a time.
PART = 2**20
#: The matrix as it stands, as columns, and as what a method takes.
COPIES = 3


@dataclasses.dataclass(frozen=True)
class Allowance:
    """`stored`: bytes of the file. `limit`: bytes it may become. `free`: bytes of memory."""

    stored: int
    limit: float
    free: float

    @staticmethod
    def of(path: Path, gigabytes: float) -> "Allowance":
        return Allowance(path.stat().st_size, 1e9 * gigabytes, _memory.free())

    def check(self, size: float, copies: float = 1, what: str = "the file") -> None:
        """Refuse `size` bytes beyond the limit or, with `copies` of them, beyond the free memory.

        A file that is not compressed is as large as it is, and may be.
        """
        if size > max(self.limit, self.stored):
            raise TableError(
                f"decompressed, {what} has at least {_memory.readable(size)}, more than the "
                f"{_memory.readable(self.limit)} allowed: --max-gb raises this"
            )
        self.check_memory(size, copies, what)

    def check_memory(self, size: float, copies: float, what: str) -> None:
        if size * copies > self.free:
            need, free = map(_memory.readable, (size * copies, self.free))
            raise TableError(
                f"{what} needs about {need}, and {free} are free: keep fewer rows or columns"
            )

    def check_sparse(self, n: int, d: int) -> None:
        what = f"with its zeros the sparse matrix of {n} rows and {d} columns"
        self.check_memory(8 * n * d, COPIES, what)

    def gather(self, parts: Iterable[bytes], copies: float, before: int = 0) -> bytes:
        """Parts joined, which are decompressed as they come; `before` bytes came earlier."""
        kept, size = [], before
        for part in parts:
            size += len(part)
            self.check(size, copies)
            kept.append(part)
        return b"".join(kept)
