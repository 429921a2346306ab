"""Commas and points in numbers: decimal, or setting thousands apart, or refused; no JAX."""

import re
from collections.abc import Sequence

from jaxfs.cli.tables import _columns
from jaxfs.cli.tables._columns import TableError, plural, quote

#: `1.234`, as German writes thousands.
_POINTED_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)


def settle(
    columns: list[tuple[str, ...]], names: list[str], decimal: str, notes: list[str]
) -> list[tuple[str, ...]]:
    """The columns with points for decimal commas, where commas are decimal."""
    if decimal not in ("auto", "point", "comma"):
        raise TableError(f"decimal must be auto, point or comma, got {decimal!r}")
    if decimal == "point":
        return columns
    commas = {j: cells for j, cells in enumerate(columns) if _is_comma_column(cells)}
    if not commas and decimal == "auto":
        return columns
    pointed = any("." in cell and _columns.is_number(cell) for cells in columns for cell in cells)
    if decimal == "auto":
        clear = any(not _may_be_thousands(cell) for cells in commas.values() for cell in cells)
        if pointed or not clear:
            j, cells = next(iter(commas.items()))
            example = next(cell for cell in cells if _columns.is_comma_number(cell)).strip()
            raise TableError(
                f"column {quote(names[j])} writes {quote(example)}, a decimal comma or a thousand: "
                "say --decimal comma, or remove the commas"
            )
        notes.append(f"decimal commas in {plural(len(commas), 'column')} were read as points")
    if decimal == "comma" and pointed:
        raise TableError("with --decimal comma no number may have a point, and some have")
    return [
        tuple(cell.replace(",", ".") for cell in cells) if j in commas else cells
        for j, cells in enumerate(columns)
    ]


def refuse_pointed_thousands(columns: list[tuple[str, ...]], names: list[str]) -> None:
    """`1.234` beside `987`, and no other point in the column: a decimal point or a thousand."""
    for name, cells in zip(names, columns, strict=True):
        numbers = {cell.strip() for cell in cells if _columns.is_number(cell)}
        pointed = {cell for cell in numbers if "." in cell}
        plain = numbers - pointed
        small = all(_columns.is_whole(c) and len(c.lstrip("+-")) <= 3 for c in plain)
        if pointed and plain and small and all(map(_POINTED_THOUSANDS.fullmatch, pointed)):
            raise TableError(
                f"column {quote(name)} writes {quote(min(pointed))}, a decimal point or a "
                "thousand: say --decimal point, or remove the points"
            )


def _is_comma_column(cells: Sequence[str]) -> bool:
    """Numbers of which at least one has a comma. Most columns are settled by the first test."""
    if "," not in "".join(cells):
        return False
    return not any(map(_columns.is_text, cells)) and any(map(_columns.is_comma_number, cells))


def _may_be_thousands(cell: str) -> bool:
    """`1,234`: three digits after the comma and one to three, not starting with 0, before it."""
    whole, comma, after = cell.strip().lstrip("+-").partition(",")
    return not comma or (len(after) == 3 and len(whole) <= 3 and not whole.startswith("0"))
