"""Tables: what is read is what is written, and what could be meant two ways is refused."""

import gzip
import warnings
import zipfile

import numpy as np
import polars as pl
import pytest

from jaxfs.cli.tables._columns import TableError
from jaxfs.cli.tables._table import read_table
from jaxfs.streaming import _memory

PLAIN = "a,b,y\n1,2.5,u\n3,-4e1,v\n5,.5,u\n"
PLAIN_VALUES = [[1, 2.5], [3, -40], [5, 0.5]]


def write(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(tmp_path, content, *, name="table.csv", **options):
    return read_table(write(tmp_path, content, name), **options)


def refusal(tmp_path, content, *, name="table.csv", **options):
    with pytest.raises(TableError) as caught:
        read(tmp_path, content, name=name, **options)
    message = str(caught.value)
    assert message.isprintable(), message
    return message


WRITINGS = {
    "comma": PLAIN,
    "semicolon": PLAIN.replace(",", ";"),
    "tab": PLAIN.replace(",", "\t"),
    "pipe": PLAIN.replace(",", "|"),
    "spaces around": PLAIN.replace(",", " , "),
    "spaces around quotes": 'a, "b" ,y\n 1 ,"2.5", "u"\n3, "-4e1" ,"v"\n5,.5, "u" \n',
    "byte order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-32": PLAIN.encode("utf-32"),
    "Windows line ends": PLAIN.replace("\n", "\r\n"),
    "old Macintosh line ends": PLAIN.replace("\n", "\r"),
    "no line end at the end": PLAIN.rstrip(),
    "blank lines": "\n" + PLAIN.replace("\n", "\n\n"),
    "quotes": '"a","b","y"\n"1","2.5","u"\n"3","-4e1","v"\n"5",".5","u"\n',
    "rows of nothing": PLAIN.replace("3", ",,\n3") + ",,\n,,\n",
    "a delimiter at the end": PLAIN.replace("\n", ",\n"),
    "a delimiter after values": "id,a,b,y\nr,1,2.5,u,\ns,3,-40,v,\nt,5,.5,u,\n",
    "German Excel": "\ufeffa;b;y\r\n1;2,5;u\r\n3;-40;v\r\n5;0,5;u\r\n",
    "French with tabs": "a\tb\ty\n1,0\t2,5\tu\n3,0\t-40,0\tv\n5,0\t0,5\tu\n".encode("utf-16"),
    "quoted decimal commas": 'a,b,y\n1,"2,5",u\n3,"-4e1",v\n5,"0,5",u\n',
    "decimal commas": "a;b;y\n1;2,5;u\n3;-40,0;v\n5;0,5;u\n",
    "an index": ",a,b,y\n0,1,2.5,u\n1,3,-40,v\n2,5,0.5,u\n",
    "pandas' index": "Unnamed: 0,a,b,y\n7,1,2.5,u\n3,3,-40,v\n5,5,0.5,u\n",
    "R's row names": "a,b,y\n1,1,2.5,u\n2,3,-40,v\n3,5,0.5,u\n",
    "named rows": "sample,a,b,y\ns1,1,2.5,u\ns2,3,-40,v\ns3,5,0.5,u\n",
}


@pytest.mark.parametrize("content", WRITINGS.values(), ids=WRITINGS.keys())
def test_writings_of_one_table(tmp_path, content):
    table = read(tmp_path, content, target="y")
    assert table.names == ["a", "b"]
    np.testing.assert_array_equal(table.values, PLAIN_VALUES)
    assert table.values.dtype == np.float64
    assert list(table.target) == ["u", "v", "u"]
    assert table.target_name == "y"


def test_gzip_and_names_of_every_script(tmp_path):
    names = ["größe", "суммa", "量, 'x'", "naïve\x1b[2J"]
    header = ",".join(f'"{name}"' for name in names)
    content = gzip.compress(f"{header}\n1,2,3,4\n5,6,7,9\n".encode())
    assert read(tmp_path, content, name="t.csv.gz").names == names
    damaged = content[:12] + b"\xff\xff" + content[14:]
    for broken in (content[:-9], damaged):
        assert "gzip" in refusal(tmp_path, broken, name="t.csv.gz")
    latin = read(tmp_path, "größe,b\n1,2\n3,5\n".encode("latin-1"))
    assert latin.names[0] == "größe"
    assert "Latin-1" in latin.notes[0]


def test_header_is_found_by_its_cells(tmp_path):
    values = read(tmp_path, "1,2\n3,4\n")
    assert values.names == ["column_1", "column_2"]
    assert "no row of names" in values.notes[0]
    assert read(tmp_path, "K,Na,y\n1,2,u\n3,5,v\n", target="-1").names == ["K", "Na"]
    # The name that is asked for settles a first row that also holds numbers.
    assert read(tmp_path, "0,1,2,y\n5,6,7,1\n8,9,1,2\n", target="y").names == ["0", "1", "2"]
    assert read(tmp_path, "4,7,y\n5,6,u\n8,9,v\n", target="y").names == ["4", "7"]
    for doubtful in (
        "0,1,2,y\n5,6,7,1\n8,9,1,2\n",
        "5.1,3.5,u\n4.9,3.0,u\n4.7,3.1,v\n",
        "5,1;3,5;u\n4,9;3,0;u\n4,7;3,1;v\n",
        "1,2,3,w\n5,6,7,u\n8,9,1,u\n",
        "oops,4\n5,6\n",
        "sample,1017,7,99\ns1,1.5,2.5,3.5\ns2,4,2.1,8\n",
        ",1017,7,99\n0,1.5,2.5,3.5\n1,4,2.1,8\n",
    ):
        assert "--header" in refusal(tmp_path, doubtful, target="-1")
    counts = read(tmp_path, "u,5,6\nv,2,2\nu,-1,3\n", target="1", header="no")
    assert counts.names == ["column_2", "column_3"]
    assert counts.notes == ()
    as_names = read(tmp_path, "0,1,2\n5,6,7\n1,9,3\n", header="yes")
    assert as_names.names == ["0", "1", "2"]
    assert len(read(tmp_path, "0,1,2\n5,6,7\n1,9,3\n", header="no").values) == 3


def test_target_and_drop_by_name_or_position(tmp_path):
    content = "a,b,c,2\n1,2,3,4\n5,6,1,8\n9,1,2,3\n"
    assert read(tmp_path, content, target="2", header="yes").names == ["a", "b", "c"]
    assert read(tmp_path, content, target="-1", header="yes").target_name == "2"
    longer = "17;18;y\n1,5;2;u;\n3;4;v;\n"
    assert read(tmp_path, longer, target="-1", header="yes").target_name == "y"
    assert "--header" in refusal(tmp_path, longer, target="-1")
    assert "record 2 has 4" in refusal(tmp_path, longer, target="-1", header="no")
    table = read(tmp_path, content, target="1", drop=["c"], header="yes")
    assert table.names == ["b", "2"]
    np.testing.assert_array_equal(table.target, [1, 5, 9])
    assert "'z'" in refusal(tmp_path, PLAIN, target="z")
    assert "'z'" in refusal(tmp_path, PLAIN, drop=["z"])
    assert "position" in refusal(tmp_path, PLAIN, target="0")
    assert "position" in refusal(tmp_path, PLAIN, target="9")
    assert "both" in refusal(tmp_path, PLAIN, target="y", drop=["y"])
    assert "no feature" in refusal(tmp_path, PLAIN, target="y", drop=["a", "b"])


def test_row_names_are_asked_for_or_found(tmp_path):
    content = "id,a,b\nr,1,2\ns,3,4\nt,5,9\n"
    table = read(tmp_path, content)
    assert table.rows == ["r", "s", "t"]
    assert "'id'" in table.notes[0]
    assert read(tmp_path, content, target="id").target_name == "id"
    assert read(tmp_path, content, drop=["1"]).rows is None
    for mixed in (content.replace("t,", "s,"), content.replace("t,", "7,")):
        assert "'id' is not numeric" in refusal(tmp_path, mixed)
    assert "without a name" in refusal(tmp_path, ",a,b\n1,2,3\n1,4,5\n")
    # The name given to a column without one is no other's.
    assert read(tmp_path, ",row,a\n1,2,3\n2,4,6\n").names == ["row", "a"]


def test_repeated_names_are_told_apart(tmp_path):
    content = "a,a,a.2,y\n1,2,3,0\n4,5,7,1\n"
    table = read(tmp_path, content, target="y")
    assert table.names == ["a", "a.3", "a.2"]
    assert "'a'" in table.notes[0]
    assert "2 columns are called 'a'" in refusal(tmp_path, content, target="a")
    chosen = read(tmp_path, content, drop=["a"])
    assert (chosen.names, chosen.positions) == (["a.2", "y"], [3, 4])


def test_missing_values(tmp_path):
    content = "a,b,c,y\n1,NA,3,u\n,?,4,v\n5,6,9,u\n7,8,1,\n"
    message = refusal(tmp_path, content, target="y")
    assert "1 row without a target" in message
    assert "'b' (2), 'a' (1)" in message
    content = content.replace("7,8,1,\n", "7,8,1,\n8,5,2,v\n")
    dropped = read(tmp_path, content, target="y", impute="drop")
    np.testing.assert_array_equal(dropped.values, [[5, 6, 9], [8, 5, 2]])
    assert list(dropped.target) == ["u", "v"]
    assert "--impute drop" in refusal(tmp_path, content, target="y", impute="median")
    filled = read(tmp_path, content, drop=["y"], impute="median")
    np.testing.assert_array_equal(
        filled.values, [[1, 6, 3], [6, 6, 4], [5, 6, 9], [7, 8, 1], [8, 5, 2]]
    )
    assert "3 missing values" in filled.notes[0]
    assert "'b'" in refusal(tmp_path, "a,b,c\n1,,2\n2,,3\n", impute="median")
    assert "no row" in refusal(tmp_path, "a,b,c\n1,,2\n2,3,\n", impute="drop")
    assert "impute" in refusal(tmp_path, PLAIN, impute="mean")
    assert filled.imputed == {"a": 1, "b": 2}
    assert dropped.imputed == {}


def test_none_is_a_word_among_words(tmp_path):
    content = "group,a,b\nnone,1,3\ndrug,3,None\nnone,6,7\n"
    assert "'b' (1); written 'None';" in refusal(tmp_path, content, target="group")
    table = read(tmp_path, content, target="group", impute="median")
    assert list(table.target) == ["none", "drug", "none"]
    assert "'none' is read as a value of 'group'" in table.notes[0]
    unknown = content + "NA,2,8\n"
    assert "1 row without a target; 'b' (1); written 'NA', 'None'" in refusal(
        tmp_path, unknown, target="group"
    )
    booleans = read(tmp_path, "a,b\nTrue,1\nNone,2\nFalse,4\n", impute="median")
    np.testing.assert_array_equal(booleans.values[:, 0], [1, 0.5, 0])


REFUSED = {
    "": "empty",
    "\n \n": "empty",
    "a,b\n": "no row",
    "a,b\n1,2\n": "one row",
    "a\n1\n2\n": "one feature",
    "a,b\n1,2\n3\n4,5,6\n": "record 3 has 1 cell where the first has 2 (delimiter comma; 2 such",
    "title\na,b\n1,2\n3,5\n": "record 2 has 2 cells where the first has 1",
    "a,b\n1,5,2\n3,5,7\n": "record 2 has 3 cells where the first has 2",
    "a,b\n1,2\n1,2\n": "constant",
    "a,b,c\n1,x,2\n2,3,4\n": "'b' is not numeric ('x'",
    "a,b,c\n1,2,x y\n3,4,z\n": "'c' is not numeric",
    "a,b\n1,1_000\n2,3_000\n": "not numeric ('1_000'",
    "a,b\n1,٣\n2,٤\n": "not numeric",
    "a,b\n1,1e999\n2,-inf\n": "'b' (2)",
    "a;b\n1,234;1\n2,345;7\n": "--decimal comma",
    "a;b\n1,5;1.5\n2,5;7\n": "--decimal comma",
    "a;b\n1.234;2\n987;3\n": "--decimal point",
    'a,b\n"1,2\n3,4\n': "record 2: malformed quoting",
    'a,b\n1,2\n"x"y,1\n"z",2\n': "record 3: malformed quoting",
    'a,b\n5" x,1\n6" y,2\n': "record 2: malformed quoting",
    "a,b\n1,2\x00\n3,4\n": "not text",
    "a,b,c\n1,2020-01-01,3\n2,2020-01-02,5\n": "'b' is not numeric",
    "a,b,c\n1,0x1F,3\n2,0x2F,5\n": "'b' is not numeric",
}


@pytest.mark.parametrize(("content", "words"), REFUSED.items(), ids=map(repr, REFUSED))
def test_refusals_say_what_is_wrong(tmp_path, content, words):
    assert words in refusal(tmp_path, content)


def test_numbers_are_exactly_those_written(tmp_path):
    assert read(tmp_path, "a;b\n1,234;1\n2,345;7\n", decimal="comma").values[0, 0] == 1.234
    assert "point" in refusal(tmp_path, "a;b\n1.5;1\n2;7\n", decimal="comma")
    assert "not numeric" in refusal(tmp_path, "a;b\n1,5;1\n2,5;7\n", decimal="point")
    huge = read(tmp_path, "a,b,c\n9007199254740993,9007199254740991,True\n1,2,false\n")
    assert "'a'" in huge.notes[1]
    assert "'b'" not in huge.notes[1]
    padded = read(tmp_path, f"a,b\n{'0' * 5000}9007199254740993,2\n1,3\n")
    assert "rounded in 'a'" in padded.notes[0]
    np.testing.assert_array_equal(huge.values[:, 2], [1, 0])
    values = np.random.default_rng(0).normal(size=(4, 3)) * 10.0 ** np.arange(-150, 150, 100)
    text = "a,b,c\n" + "\n".join(",".join(map(repr, row)) for row in values.tolist())
    np.testing.assert_array_equal(read(tmp_path, text).values, values)


def test_files_that_are_none(tmp_path):
    for path, words in (
        ("none.csv", "not a file"),
        ("none.npz", "not a file"),
        ("folder.csv", "folder"),
        ("t.doc", "suffix"),
        ("t" * 300 + ".csv", "cannot be read|not a file"),
    ):
        (tmp_path / "folder.csv").mkdir(exist_ok=True)
        with pytest.raises(TableError, match=words):
            read_table(tmp_path / path)
    for name in ("t.npz", "t.mat", "t.parquet", "t.npz"):
        for content in (b"", b"nonsense" * 40, b"PK\x03\x04" + bytes(60)):
            assert "not a valid" in refusal(tmp_path, content, name=name)


X = np.array([[1.0, 2], [3, 5], [4, 1]])


def test_options_of_text_files_are_refused_elsewhere(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3))
    for name in ("header", "delimiter", "decimal"):
        with pytest.raises(TableError, match=f"{name} is for text files, and 't.npz' is not one"):
            read_table(tmp_path / "t.npz", **{name: ","})


def test_npz(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=X, y=np.array(["u", "v", "u"]), feature_names=np.array(["p", "q"]))
    table = read_table(path, target="y")
    assert table.names == ["p", "q"]
    np.testing.assert_array_equal(table.values, X)
    assert list(table.target) == ["u", "v", "u"]
    assert read_table(path).target is None
    with pytest.raises(TableError, match="no column is called 'z'; there are 'y', 'p', 'q'"):
        read_table(path, target="z")
    np.savez(path, a=X, b=X)
    with pytest.raises(TableError, match=r"one matrix.*'a' \(3, 2\), 'b' \(3, 2\)"):
        read_table(path)
    np.savez(path, X=np.array([{}], dtype=object))
    with pytest.raises(TableError, match="plain arrays"):
        read_table(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_mat(tmp_path, monkeypatch, compressed):
    io, sparse = pytest.importorskip("scipy.io"), pytest.importorskip("scipy.sparse")
    path = tmp_path / "t.mat"
    names = np.array(["p", "long name"], dtype=object)
    other = {"s": {"a": 1}, "z": X[:2] + 1j, "mixed": np.array([1, "a"], dtype=object)}
    for x in (X, sparse.csc_array(X), X.astype("uint8")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = {"X": x, "Y": np.array([[1], [2], [1]]), "names": names}
            io.savemat(path, content | other, do_compression=compressed)
        table = read_table(path, target="Y")
        assert table.names == ["p", "long name"]
        np.testing.assert_array_equal(table.values, X)
        np.testing.assert_array_equal(table.target, [1, 2, 1])
    io.savemat(path, {"X": X, "kind": np.array(["u ", "vé", "w "])}, do_compression=compressed)
    assert list(read_table(path, target="kind").target) == ["u ", "vé", "w "]
    io.savemat(path, {"X": X, "y": np.array([[1, 2, 1]])}, format="4")
    np.testing.assert_array_equal(read_table(path, target="y").values, X)
    io.savemat(path, {"X": sparse.csc_array((30, 20))})
    monkeypatch.setattr(_memory, "free", lambda: 5000.0)
    with pytest.raises(TableError, match=r"30 rows and 20 columns needs about 14\.4 kB, and 5 kB"):
        read_table(path)


def bombs(tmp_path):
    """Files of some kilobytes that become 5 MB."""
    zeros = np.zeros((5000, 125))
    np.savez_compressed(tmp_path / "t.npz", X=zeros)
    pytest.importorskip("scipy.io").savemat(tmp_path / "t.mat", {"X": zeros}, do_compression=True)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"0,0\n" * 1_250_000))
    frame = {f"c{j}": zeros[:, j] for j in range(125)}
    pytest.importorskip("polars").DataFrame(frame).write_parquet(tmp_path / "t.parquet")
    found = sorted(tmp_path.iterdir())
    assert len(found) == 4
    return found


def test_decompressed_size_is_limited(tmp_path, monkeypatch):
    for path in bombs(tmp_path):
        assert path.stat().st_size < 100_000
        with pytest.raises(TableError, match=r"decompressed.*the 1 MB allowed: --max-gb"):
            read_table(path, max_gb=1e-3)
        with pytest.raises(TableError, match=r"constant"):  # the limit raised, all is read
            read_table(path, max_gb=1)
        with monkeypatch.context() as patch:
            patch.setattr(_memory, "free", lambda: 1e6)
            with pytest.raises(TableError, match=r"needs about .* MB, and 1 MB are free"):
                read_table(path, max_gb=1)
    # What is not compressed is as large as the file says.
    plain = tmp_path / "plain.npz"
    np.savez(plain, X=np.arange(300_000.0).reshape(-1, 3))
    assert read_table(plain, max_gb=1e-3).values.shape == (100_000, 3)


def npy(header: bytes, data: bytes = bytes(16)) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2)}\n"


@pytest.mark.parametrize(
    "member",
    [
        b"no array",
        npy(HEADER, bytes(15)),
        npy(HEADER.replace(b"(1, 2)", b"(1000000000, 1000000)")),
        npy(HEADER.replace(b"(1, 2)", b"(9223372036854775807, 4)")),
        npy(HEADER.replace(b"(1, 2)", b"(-1, 2)")),
        npy(HEADER.replace(b"<f8", b"O")),
        npy(b"{'descr': " + b"(" * 5000),
        npy(b"{'shape': (1L, 2),"),
        npy(b"\xff\xfe"),
    ],
)
def test_npz_members_that_are_no_arrays(tmp_path, member):
    path = tmp_path / "t.npz"
    np.savez(path, X=X)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y.npy", member)
    with pytest.raises(TableError, match=r"not a valid \.npz of plain arrays \(.+\)$"):
        read_table(path)


def test_limits_of_the_process_count_as_memory():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 10**9, before[1]))
    try:
        assert 0 < _memory.free() < 1.1e9
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    columns = {
        "id": ["r", "s", "t"],
        "a": [1.5, None, 2.0],
        "b": [True, False, True],
        "c": [2**53 + 1, None, 3],
        "y": ["u", "v", None],
    }
    polars.DataFrame(columns).write_parquet(path)
    table = read_table(path, drop=["y"], impute="median")
    assert table.rows == ["r", "s", "t"]
    np.testing.assert_array_equal(table.values[:, :2], [[1.5, 1], [1.75, 0], [2, 1]])
    with pytest.raises(TableError, match=r"1 row without a target; 'a' \(1\), 'c' \(1\)"):
        read_table(path, target="y")
    index = {"a": [1, 2], "b": [5, 4], "__index_level_0__": [17, 3]}
    polars.DataFrame(index).write_parquet(path)
    stored = read_table(path)
    assert (stored.names, stored.rows) == (["a", "b"], ["17", "3"])
    assert "index" in stored.notes[0]
    polars.DataFrame({"a": [1, 2], "b": [[1], [2]], "c": [3, 4]}).write_parquet(path)
    with pytest.raises(TableError, match="'b' is not numeric"):
        read_table(path)


def test_h5ad(tmp_path):
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    obs = pandas.DataFrame({"cell": ["u", "v", "u"], "depth": [1, 2, 3]}, index=["r", "s", "t"])
    data = anndata.AnnData(X, obs=obs, var=pandas.DataFrame(index=["p", "q"]))
    data.write_h5ad(tmp_path / "t.h5ad")
    table = read_table(tmp_path / "t.h5ad", target="cell")
    assert (table.names, table.rows) == (["p", "q"], ["r", "s", "t"])
    np.testing.assert_array_equal(table.values, X)
    assert list(table.target) == ["u", "v", "u"]


# ---- Excel, Arrow, and the files that are written ------------------------------------------------


def test_excel_arrow_and_parquet_hold_the_same_table(tmp_path):
    frame = pl.DataFrame(
        {"id": ["p", "q", "r"], "a": [1.5, 2.0, 3.25], "b": [4, 5, 7], "kind": ["u", "v", "u"]}
    )
    pytest.importorskip("fastexcel")
    frame.write_excel(tmp_path / "t.xlsx")
    frame.write_ipc(tmp_path / "t.feather")
    frame.write_parquet(tmp_path / "t.parquet")
    for suffix in ("xlsx", "feather", "parquet"):
        found = read_table(tmp_path / f"t.{suffix}", target="kind")
        assert found.names == ["a", "b"]
        assert found.values.tolist() == [[1.5, 4], [2, 5], [3.25, 7]]
        assert (found.rows, found.rows_name) == (["p", "q", "r"], "id")
        assert found.target.tolist() == ["u", "v", "u"]


def test_excel_sheets_and_cells_without_values(tmp_path):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    pytest.importorskip("fastexcel")
    path = tmp_path / "two.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet, other = book.add_worksheet("first"), book.add_worksheet("second")
        sheet.write_row(0, 1, ["a", "b"])
        for i in range(3):
            sheet.write_row(1 + i, 0, [f"row{i}", float(i), i**2])
        other.write_row(0, 0, ["x"])
    found = read_table(path)
    assert (found.names, found.rows) == (["a", "b"], ["row0", "row1", "row2"])
    assert "the first sheet, 'first', was read, and not 'second'" in found.notes
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["a", "b"])
        sheet.write_row(1, 0, [1.0])
        sheet.write_row(2, 0, [2.0, 3.0])
    with pytest.raises(TableError, match=r"missing values: 'b' \(1\)"):
        read_table(path)
    path.write_bytes(b"PK\3\4 not a workbook")
    with pytest.raises(TableError, match="not a valid Excel file"):
        read_table(path)
    (tmp_path / "t.feather").write_bytes(b"ARROW1 and no more")
    with pytest.raises(TableError, match="not a valid Arrow or Feather"):
        read_table(tmp_path / "t.feather")
