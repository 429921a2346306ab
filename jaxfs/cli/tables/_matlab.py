"""MATLAB files of level 5, as versions 5 to 7.2 write them; no JAX.

SciPy's reader can crash the interpreter on a damaged file. This one reads numbers, words, cells of
words and sparse matrices with operations that Python and NumPy check. It leaves out complex
matrices, structures, objects and functions.

**Reference**: MathWorks, *MAT-File Format*.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jaxfs.cli.tables._allowance import PART, Allowance
from jaxfs.cli.tables._columns import TableError

#: Kinds of elements: those that hold other elements, and the types of those that hold data.
_MATRIX, _COMPRESSED = 14, 15
_NUMBER_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_NUMBER_TYPES |= {12: "i8", 13: "u8"}
_LETTERS = {4: "utf-16", 6: "utf-32", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
#: Classes of matrices; the classes of numbers are consecutive.
_CELL, _CHARACTER, _SPARSE, _FIRST_NUMBER, _LAST_NUMBER = 1, 4, 5, 6, 15
_IS_LOGICAL, _IS_COMPLEX = 0x200, 0x800
_HEADER = 128

_Elements = Iterator[tuple[int, memoryview]]


def is_level_5(path: Path) -> bool:
    """Whether a file is of level 5: files of level 4 have a zero among their first four bytes."""
    with path.open("rb") as stream:
        return b"\0" not in stream.read(4)


def read_level_5(path: Path, allowed: Allowance) -> dict[str, np.ndarray]:
    """The arrays of a file by name. Damaged bytes can raise any exception."""
    allowed.check(allowed.stored)
    data = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(data[_HEADER - 2 : _HEADER])
    if order is None:
        raise ValueError("the mark of its byte order is missing")
    if data[124:126] == struct.pack(f"{order}H", 0x200):
        raise TableError("the file is MATLAB 7.3: save it again with '-v7'")
    reader = _Reader(order, allowed)
    found: dict[str, np.ndarray] = {}
    size = 0
    for kind, body in reader.elements(memoryview(data)[_HEADER:]):
        if kind == _COMPRESSED:
            inflated = allowed.gather(_inflated(body), 1, before=size)
            size += len(inflated)
            ((kind, body),) = reader.elements(memoryview(inflated))
        if kind == _MATRIX:
            name, value = reader.matrix(body)
            if name[:2] != "__" and value is not None:
                found[name] = value
    return found


def _inflated(body: memoryview) -> Iterator[bytes]:
    engine, rest = zlib.decompressobj(), bytes(body)
    while not engine.eof:
        part = engine.decompress(rest, PART)
        rest = engine.unconsumed_tail
        if not part and not rest and not engine.eof:
            raise EOFError("compressed data are cut off")
        yield part


class _Reader:
    def __init__(self, order: str, allowed: Allowance) -> None:
        self._order, self._allowed = order, allowed

    def elements(self, data: memoryview) -> _Elements:
        """Kind and content of each element: a tag of 8 bytes, the content, and padding."""
        at = 0
        while at < len(data):
            if at + 8 > len(data):
                raise EOFError("an element is cut off")
            kind, length = struct.unpack_from(f"{self._order}II", data, at)
            start = at + 8
            if kind >> 16:  # a content of up to four bytes is part of the tag
                kind, length, start = kind & 0xFFFF, kind >> 16, at + 4
                at += 8
            else:
                at = start + length + (0 if kind == _COMPRESSED else -length % 8)
            if start + length > min(at, len(data)):
                raise EOFError("an element is cut off")
            yield kind, data[start : start + length]

    def matrix(self, body: memoryview) -> tuple[str, np.ndarray | None]:
        """Name and value of a matrix; the value is `None` for what is left out."""
        if not body:
            return "", np.zeros((0, 0))
        parts = self.elements(body)
        flags = int(self._numbers(*next(parts))[0])
        shape = tuple(self._numbers(*next(parts)).tolist())
        name = bytes(next(parts)[1]).decode("latin-1")
        kind = flags & 0xFF
        if len(shape) < 2 or min(shape) < 0:
            raise ValueError(f"a shape of {shape}")
        if flags & _IS_COMPLEX:
            return name, None
        if kind == _CELL:
            return name, self._cells(parts, shape)
        if kind == _CHARACTER:
            return name, self._words(*next(parts), shape)
        if kind == _SPARSE:
            return name, self._sparse(parts, shape, flags)
        if not _FIRST_NUMBER <= kind <= _LAST_NUMBER:
            return name, None
        return name, self._numbers(*next(parts)).reshape(shape, order="F")

    def _numbers(self, kind: int, data: memoryview) -> np.ndarray:
        if kind not in _NUMBER_TYPES:
            raise ValueError(f"data of kind {kind} where numbers should be")
        return np.frombuffer(data, f"{self._order}{_NUMBER_TYPES[kind]}")

    def _words(self, kind: int, data: memoryview, shape: tuple[int, ...]) -> np.ndarray:
        """One word a row; the letters are stored by columns."""
        encoding = _LETTERS.get(kind, "latin-1")
        if encoding[-2:] in ("16", "32"):
            encoding += "-le" if self._order == "<" else "-be"
        letters = np.array(list(bytes(data).decode(encoding, "replace")), dtype="U1")
        rows = letters.reshape(shape, order="F").reshape(-1, max(1, shape[-1]))
        return np.array(["".join(row) for row in rows.tolist()], dtype=str)

    def _cells(self, parts: _Elements, shape: tuple[int, ...]) -> np.ndarray | None:
        """The words of a cell array in which every cell holds at most one; otherwise `None`."""
        found = [self.matrix(body)[1] for _, body in parts]
        if len(found) != math.prod(shape):
            raise ValueError(f"{len(found)} cells for a shape of {shape}")
        if not all(a is not None and a.dtype.kind == "U" and a.size <= 1 for a in found):
            return None
        words = ["".join(a.tolist()) for a in found if a is not None]
        return np.array(words, dtype=str).reshape(shape, order="F")

    def _sparse(self, parts: _Elements, shape: tuple[int, ...], flags: int) -> np.ndarray:
        n, d = shape
        self._allowed.check_matrix(n, d, "the dense form of a matrix")
        rows, starts = self._numbers(*next(parts)), self._numbers(*next(parts))
        # The entries of logical matrices are bytes, whatever their tag says.
        kind, data = next(parts)
        values = np.frombuffer(data, "u1") if flags & _IS_LOGICAL else self._numbers(kind, data)
        number = int(starts[-1])
        columns = np.repeat(np.arange(d), np.diff(starts))
        if starts[0] != 0 or rows[:number].min(initial=0) < 0:
            raise ValueError("positions of a sparse matrix below 0")
        out = np.zeros(shape, values.dtype)
        out[rows[:number], columns] = values[:number]
        return out
