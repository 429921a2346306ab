"""Malformed tables: a correct answer, or one line and exit code 2. Never a traceback.

A table is drawn as a grid of cells, spoilt, written, and now and then spoilt again as text. The
oracle reads the final text by plain splitting, knows the delimiter, converts by exact fractions,
and computes the analysis of variance in them; it shares no code with jaxfs.

Binary files are spoilt byte by byte, also inside their compressed parts, where checksums would
otherwise catch everything.
"""

import gzip
import io
import itertools
import json
import math
import zipfile
import zlib
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from jaxfs.cli._commands import app

ROWS, FEATURES, TARGET = 6, 3, "kind"
DELIMITERS = ",;\t|"
NUMBER_MARKS = set("0123456789+-.eE")
GAPS = {"", "na", "nan", "null", "?", "n/a"}
EPS = float(np.finfo(np.float64).eps)

whole = st.integers(-50, 50).map(str)
decimal = st.decimals(-99, 99, places=2, allow_nan=False).map(str)
written = st.sampled_from(["1e3", "-2.5E-1", "+7", ".5", "3.", " 4 ", "0", "-0.0", "12.25"])
numbers = st.one_of(whole, decimal, decimal, written)
letters = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"])
names = st.one_of(
    st.text("abcxyz_0123456789", min_size=1, max_size=6).map(lambda s: "g" + s),
    st.text(letters, min_size=1, max_size=5).filter(lambda s: not set(s) & set(DELIMITERS + '"')),
    st.sampled_from(["größe", "量", "naïve 2", "=1+1", "[red]x[/red]", "gene.1", "a" * 300]),
)
HUGE = ["9007199254740993", "123456789012345678901234567890", "-" + "9" * 25, "1e300"]
ODD = ["x", "1_000", "٣", "1,5", "0x10", "2020-01-01", "TRUE", "inf", "-Infinity", "1e999", "1 2"]
ODD += ["", " ", "NA", "nan", "?", "12%", "−5", "1.2.3", "--1", "\x07", "#", "'1'", "ja", "$3"]


@st.composite
def grids(draw):
    """Header and rows of a sound table, the target in any place."""
    header = draw(st.lists(names, min_size=FEATURES, max_size=FEATURES, unique=True))
    columns = [draw(st.lists(numbers, min_size=ROWS, max_size=ROWS)) for _ in header]
    columns[0][:2] = ["1", "2"]  # not all features are constant
    labels = draw(st.permutations("uuuvvv" if draw(st.booleans()) else "uuvvww"))
    place = draw(st.integers(0, FEATURES))
    header.insert(place, TARGET)
    columns.insert(place, list(labels))
    return [header, *map(list, zip(*columns, strict=True))]


def spoil(draw, grid):
    """One mistake of those that people make."""
    kind = draw(st.sampled_from(range(12)))
    row = draw(st.integers(1, max(1, len(grid) - 1))) % len(grid)
    column = draw(st.integers(0, FEATURES)) % max(1, len(grid[row]))
    if kind <= 2:
        grid[row][column] = draw(st.sampled_from(ODD))
    elif kind == 3:
        grid[row][column] = draw(st.sampled_from(HUGE))
    elif kind == 4:  # ragged
        grid[row] = draw(st.sampled_from([grid[row][:-1], [*grid[row], "1"], []]))
    elif kind == 5:  # a name twice
        grid[0][column] = draw(st.sampled_from([TARGET, *grid[0]]))
    elif kind == 6:  # fewer rows
        grid = grid[: draw(st.integers(0, 3))] or [[]]
    elif kind == 7:  # one column, or without the target, or the target alone
        keep = draw(st.sampled_from([{0}, {1}, {FEATURES}, {0, 1}]))
        grid = [[cell for j, cell in enumerate(line) if j in keep] for line in grid]
    elif kind == 8:  # constant: one feature or all of them
        some = draw(st.sampled_from([{column}, set(range(FEATURES + 1))]))
        for line in grid[2:]:
            line[:] = [grid[1][j] if j in some else cell for j, cell in enumerate(line)]
    elif kind == 9:
        grid[0][column] = draw(st.sampled_from(["", " ", "NA", "3.5", "\x1b[2J", "Unnamed: 0"]))
    elif kind == 10:  # a column of row names, or one that is empty
        new = draw(st.sampled_from([[f"r{i}" for i in range(9)], [""] * 9, ["r"] * 9]))
        name = draw(st.sampled_from(["", "id"]))
        grid = [[cell, *line] for cell, line in zip([name, *new], grid, strict=False)]
    else:  # one column of other things
        for i, line in enumerate(grid[1:]):
            line[column : column + 1] = [["x", "1", "y", "2.5", "", "z"][i % 6]]
    return [list(line) for line in grid]


@st.composite
def files(draw):
    """`(content, delimiter, spoilt)`."""
    grid, spoilt = draw(grids()), draw(st.integers(0, 9)) > 0
    if spoilt:
        for _ in range(draw(st.integers(1, 2))):
            if len(grid) > 1 and all(len(line) > 1 for line in grid):
                grid = spoil(draw, grid)
    mark = draw(st.sampled_from(DELIMITERS))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(mark.join(line) for line in grid) + end
    content = text.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"])))
    if spoilt and draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(content)))
        junk = draw(st.sampled_from([b"\xff", b"\x00", b'"', b"\n", b",", b"7", b"", b"-", b"\r"]))
        cut = draw(st.sampled_from([len(content), at, at + 1]))
        content = (
            content[:at] + junk + content[cut:] if draw(st.booleans()) else content[:at] + junk
        )
    return content, mark, spoilt


def is_number(cell):
    cell = cell.strip()
    if not cell or not set(cell) <= NUMBER_MARKS:
        return False
    try:
        return math.isfinite(float(Decimal(cell)))
    except (ArithmeticError, ValueError):
        return False


def read(content, mark):
    """`(names, columns, labels)`, or `None` for a table that must be refused."""
    marks = {b"\xff\xfe": "utf-16", b"\xef\xbb\xbf": "utf-8-sig", b"": "utf-8"}
    encoding = next(name for bom, name in marks.items() if content.startswith(bom))
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        if encoding == "utf-16":
            return None
        text = content.decode("latin-1")
    if "\0" in text or '"' in text:
        return None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    rows = [[cell.strip() for cell in line.split(mark)] for line in lines if line.strip(" ")]
    while rows and not any(rows[-1]):
        rows.pop()
    if len(rows) < 3 or len({len(row) for row in rows}) > 1 or rows[0].count(TARGET) != 1:
        return None
    header, columns = rows[0], [list(column) for column in zip(*rows[1:], strict=True)]
    labels = columns[header.index(TARGET)]
    found = []
    for j, (name, cells) in enumerate(zip(header, columns, strict=True)):
        words = not any(map(is_number, cells)) and not any(c.lower() in GAPS for c in cells)
        nameless = name in ("", "Unnamed: 0")
        if name == TARGET or (name == "" and not any(cells)):
            continue
        if j == 0 and len(set(cells)) == len(cells) and (words or nameless) and all(cells):
            continue  # the names of the rows
        if name == "" or not all(map(is_number, cells)):
            if {cell.lower() for cell in cells} <= {"true", "false"}:
                cells = [str(int(cell.lower() == "true")) for cell in cells]
            else:
                return None
        found.append((j, [Fraction(float(Decimal(cell))) for cell in cells]))
    if all(map(is_number, labels)):
        labels = [float(Decimal(label)) for label in labels]
    gaps = any(isinstance(label, str) and label.lower() in GAPS for label in labels)
    sound = len(found) > 1 and not gaps and 1 < len(set(labels)) <= len(labels) / 2
    return (header, dict(found), labels) if sound else None


def anova(values, labels):
    """F in exact arithmetic, and how far float64 may be from it."""
    classes, n = sorted(set(labels)), len(values)
    mean = sum(values) / n
    groups = [[v for v, k in zip(values, labels, strict=True) if k == c] for c in classes]
    between = sum(len(g) * (sum(g) / len(g) - mean) ** 2 for g in groups)
    within = sum((v - sum(g) / len(g)) ** 2 for g in groups for v in g)
    largest = max(v * v for v in values)
    if within == 0:
        return (math.inf if between else 0.0), math.inf
    score = float(between / (len(classes) - 1) / (within / (n - len(classes))))
    return score, 1e3 * EPS * (
        1 + math.sqrt(largest / within) + float(largest / (within + between))
    )


def check_answer(answer, truth):
    header, columns, labels = truth
    assert answer["features"] == len(columns)
    assert answer["rows"] == len(labels)
    expected = {j: anova(values, labels) for j, values in columns.items()}
    chosen = [item["column"] - 1 for item in answer["selected"]]
    for item, j in zip(answer["selected"], chosen, strict=True):
        name = header[j]
        assert item["name"] == name or item["name"].startswith(f"{name}.")
        score, tolerance = expected[j]
        if tolerance < 1e-3:
            assert float(item["score"]) == pytest.approx(score, rel=tolerance, abs=tolerance)
        elif score == math.inf:
            assert float(item["score"]) > 1e6
    clear = {j: s for j, (s, tolerance) in expected.items() if tolerance < 1e-3}
    for a, b in itertools.product(set(clear) & set(chosen), set(clear) - set(chosen)):
        assert clear[a] >= clear[b] * (1 - 1e-3) - 1e-12


seen = {"answers": 0, "refusals": 0}


def draw_examples(check, number: int, **strategies):
    """Call `check(drawn=…)` with `number` examples, the same in every run."""
    options = {"derandomize": True, "deadline": None, "suppress_health_check": list(HealthCheck)}
    settings(max_examples=number, **options)(given(**strategies)(check))()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXFS_CACHE_DIR", "off")
        yield tmp_path_factory.mktemp("fuzz")


def check_file(folder, drawn):
    content, mark, spoilt = drawn
    path = folder / "table.csv"
    path.write_bytes(content)
    options = ["--target", TARGET, "--method", "anova", "-k", "1", "--json"]
    result = CliRunner().invoke(app, ["select", str(path), *options])
    lines = result.stderr.splitlines()
    assert "Traceback" not in result.output
    assert result.exit_code == 0 if not spoilt else result.exit_code in (0, 2), result.output
    seen["answers" if result.exit_code == 0 else "refusals"] += 1
    if result.exit_code == 2:
        assert result.stdout == ""
        assert [line[:6] for line in lines if not line.startswith("note: ")] == ["error:"]
        assert lines[-1].isprintable()
    else:
        truth = read(content, mark)
        assert truth is not None, result.output
        check_answer(json.loads(result.stdout), truth)


@pytest.mark.parametrize("number", [200, pytest.param(1000, marks=pytest.mark.thorough)])
def test_malformed_tables(folder, number):
    draw_examples(lambda drawn: check_file(folder, drawn), number, drawn=files())
    # Both halves of the promise were tested.
    assert seen["answers"] > number / 10
    assert seen["refusals"] > number / 10


# ---- Binary files -------------------------------------------------------------------------------

VALUES = np.random.default_rng(0).normal(size=(ROWS, FEATURES))
LABELS = np.arange(ROWS) % 2
FIELDS = [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", bytes(4), b"\x80\x00\x00\x00"]


@st.composite
def damage(draw, content):
    """`content` with up to three bytes or fields changed, added or cut off."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content)))
        kind = draw(st.sampled_from(["bit", "field", "more", "less", "end"]))
        after = content[at + 1 :]
        if kind == "bit" and at < len(content):
            new = bytes([content[at] ^ 1 << draw(st.integers(0, 7))])
        elif kind == "field":
            new, after = draw(st.sampled_from(FIELDS)), content[at + 4 :]
        elif kind == "more":
            new, after = draw(st.binary(min_size=1, max_size=8)), content[at:]
        elif kind == "less":
            new, after = b"", content[at + draw(st.integers(1, 8)) :]
        else:
            new, after = b"", b""
        content = content[:at] + new + after
    return content


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(x, y):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", x)
        archive.writestr(f"{TARGET}.npy", y)
    return stream.getvalue()


def mat(compressed=False):
    stream = io.BytesIO()
    words = np.array(["a", "b", "c"], dtype=object)
    content = {"X": VALUES, TARGET: LABELS, "names": words}
    pytest.importorskip("scipy.io").savemat(stream, content, do_compression=compressed)
    return stream.getvalue()


def mat_elements(content):
    """The header of a MATLAB file, and its elements."""
    parts, rest = [content[:128]], content[128:]
    while rest:
        size = 8 + int.from_bytes(rest[4:8], "little")
        parts, rest = [*parts, rest[:size]], rest[size:]
    return parts


def deflated(element):
    packed = zlib.compress(element)
    return (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little") + packed


def parquet(compression):
    stream = io.BytesIO()
    columns = {"a": VALUES[:, 0], "b": VALUES[:, 1], "c": VALUES[:, 2], TARGET: ["u", "v"] * 3}
    frame = pytest.importorskip("polars").DataFrame(columns)
    frame.write_parquet(stream, compression=compression)
    return stream.getvalue()


TEXT = "\n".join(
    ["a,b,c,kind", *(f"{a},{b},{c},{k}" for (a, b, c), k in zip(VALUES, "uvuvuv", strict=True))]
).encode()


@st.composite
def binary_files(draw):
    """`(name, content)`."""
    kind = draw(st.sampled_from(["npz", "npy", "gz", "mat", "mat element", "parquet"]))
    if kind == "npz":
        return "t.npz", draw(damage(npz(npy(VALUES), npy(LABELS))))
    if kind == "npy":  # inside a sound archive
        return "t.npz", npz(draw(damage(npy(VALUES))), npy(LABELS))
    if kind == "gz":
        if draw(st.booleans()):
            return "t.csv.gz", gzip.compress(draw(damage(TEXT)))
        return "t.csv.gz", draw(damage(gzip.compress(TEXT)))
    if kind == "mat":
        return "t.mat", draw(damage(mat(draw(st.booleans()))))
    if kind == "mat element":  # inside sound compression
        header, *elements = mat_elements(mat())
        at = draw(st.integers(0, len(elements) - 1))
        elements[at] = draw(damage(elements[at]))
        return "t.mat", header + b"".join(map(deflated, elements))
    compression = draw(st.sampled_from(["uncompressed", "zstd", "snappy"]))
    return "t.parquet", draw(damage(parquet(compression)))


binary_seen = {0: 0, 2: 0}


def check_binary_file(folder, capfd, drawn):
    name, content = drawn
    path = folder / name
    path.write_bytes(content)
    options = ["--target", TARGET, "--method", "anova", "-k", "1", "--json"]
    result = CliRunner().invoke(app, ["select", str(path), *options])
    assert result.exit_code in binary_seen, result.output
    binary_seen[result.exit_code] += 1
    lines = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
    if result.exit_code == 2:
        assert result.stdout == ""
        assert [line[:6] for line in lines] == ["error:"]
        assert lines[0].isprintable()
    else:
        assert lines == []
        assert len(json.loads(result.stdout)["selected"]) == 1
    assert capfd.readouterr() == ("", "")  # nothing from the libraries underneath


@pytest.mark.parametrize("number", [100, pytest.param(1000, marks=pytest.mark.thorough)])
def test_damaged_binary_files(folder, capfd, number):
    draw_examples(
        lambda drawn: check_binary_file(folder, capfd, drawn), number, drawn=binary_files()
    )
    assert binary_seen[0] > 5
    assert binary_seen[2] > 50
