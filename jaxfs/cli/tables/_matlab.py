"""Reader of MATLAB files of level 5, the format of MATLAB 5 to 7.2.

SciPy's reader can crash the interpreter on a damaged file. This one uses only operations that
Python and NumPy check. It reads numbers, strings, cell arrays of strings and sparse matrices, and
skips complex matrices, structures, objects and functions.

**Reference**: MathWorks, *MAT-File Format*.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jaxfs.cli.tables._columns import PART, Allowance, TableError

#: Codes of the kinds of elements: containers, then data with their NumPy types or encodings.
_MATRIX, _COMPRESSED = 14, 15
_NUMBER_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_NUMBER_TYPES |= {12: "i8", 13: "u8"}
_LETTERS = {4: "utf-16", 6: "utf-32", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
#: Codes of the classes of matrices; the numeric classes are consecutive.
_CELL, _CHARACTER, _SPARSE, _FIRST_NUMBER, _LAST_NUMBER = 1, 4, 5, 6, 15
_IS_LOGICAL, _IS_COMPLEX = 0x200, 0x800
_HEADER = 128

_Elements = Iterator[tuple[int, memoryview]]


def read_level_5(path: Path, allowed: Allowance) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name. A damaged file can raise any exception."""
    allowed.check(allowed.stored)
    data = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(data[_HEADER - 2 : _HEADER])
    if order is None:
        raise ValueError("the byte-order indicator is missing")
    if data[124:126] == struct.pack(f"{order}H", 0x200):
        raise TableError("the file is MATLAB 7.3: save it again with '-v7'")
    reader, found, size = _Reader(order, allowed), {}, 0
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
    while part := engine.decompress(rest, PART):
        yield part
        rest = engine.unconsumed_tail
    if not engine.eof:
        raise EOFError("compressed data are truncated")


class _Reader:
    def __init__(self, order: str, allowed: Allowance) -> None:
        self._order, self._allowed = order, allowed

    def elements(self, data: memoryview) -> _Elements:
        """Yield the kind and content of each element.

        An element is a tag of 8 bytes, the content, and padding.
        """
        at = 0
        while at < len(data):
            if at + 8 > len(data):
                raise EOFError("an element is truncated")
            kind, length = struct.unpack_from(f"{self._order}II", data, at)
            start = at + 8
            at = start + length + (0 if kind == _COMPRESSED else -length % 8)
            if kind >> 16:  # content of up to four bytes is part of the tag
                kind, length, start, at = kind & 0xFFFF, kind >> 16, start - 4, start
            if start + length > min(at, len(data)):
                raise EOFError("an element is truncated")
            yield kind, data[start : start + length]

    def matrix(self, body: memoryview) -> tuple[str, np.ndarray | None]:
        """Return the name and value of a matrix; the value is `None` if the class is skipped."""
        if not body:
            return "", np.zeros((0, 0))
        parts = self.elements(body)
        flags = int(self._numbers(*next(parts))[0])
        shape = tuple(self._numbers(*next(parts)).tolist())
        name = bytes(next(parts)[1]).decode("latin-1")
        kind = flags & 0xFF
        if len(shape) < 2 or min(shape) < 0:
            raise ValueError(f"invalid shape {shape}")
        if flags & _IS_COMPLEX:
            return name, None
        if kind == _CELL:
            return name, self._cells(parts, shape)
        if kind == _CHARACTER:
            return name, self._words(*next(parts), shape)
        if kind == _SPARSE:
            return name, self._sparse(parts, shape, flags)
        is_number = _FIRST_NUMBER <= kind <= _LAST_NUMBER
        return name, self._numbers(*next(parts)).reshape(shape, order="F") if is_number else None

    def _numbers(self, kind: int, data: memoryview) -> np.ndarray:
        if kind not in _NUMBER_TYPES:
            raise ValueError(f"numbers expected, got data of kind {kind}")
        return np.frombuffer(data, f"{self._order}{_NUMBER_TYPES[kind]}")

    def _words(self, kind: int, data: memoryview, shape: tuple[int, ...]) -> np.ndarray:
        """Return one string per row; the characters are stored column by column."""
        encoding = _LETTERS.get(kind, "latin-1")
        if encoding[-2:] in ("16", "32"):
            encoding += "-le" if self._order == "<" else "-be"
        letters = np.array(list(bytes(data).decode(encoding, "replace")), dtype="U1")
        rows = letters.reshape(shape, order="F").reshape(-1, max(1, shape[-1]))
        return np.array(["".join(row) for row in rows.tolist()], dtype=str)

    def _cells(self, parts: _Elements, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return the strings of a cell array if every cell holds at most one, otherwise `None`."""
        found = [self.matrix(body)[1] for _, body in parts]
        if len(found) != math.prod(shape):
            raise ValueError(f"{len(found)} cells for a shape of {shape}")
        words = ["".join(a) for a in found if a is not None and a.dtype.kind == "U" and a.size <= 1]
        everything = len(words) == len(found)
        return np.array(words, dtype=str).reshape(shape, order="F") if everything else None

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
            raise ValueError("a sparse matrix has negative positions")
        out = np.zeros(shape, values.dtype)
        out[rows[:number], columns] = values[:number]
        return out
