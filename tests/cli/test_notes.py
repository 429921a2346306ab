"""What is unusual in a table is noted, with what to do; ordinary tables have no notes."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from typer.testing import CliRunner

from jaxfs.cli import _notes
from jaxfs.cli._commands import app
from jaxfs.cli.tables import TableError, read_table
from jaxfs.cli.tables._table import Table


@pytest.fixture(scope="module", autouse=True)
def no_cache():
    """The cache is a setting of the whole process, which tests must not change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXFS_CACHE_DIR", "off")
        yield


def table(n=40, d=8, names=None, target=True, **changes) -> Table:
    """Noise, with classes u and v."""
    values = np.random.default_rng(0).normal(size=(n, d))
    labels = np.array(list("uv"), dtype=object)[np.arange(n) % 2]
    found = Table(
        names or [f"gene{j}" for j in range(d)], values, labels if target else None, "kind"
    )
    for name, value in changes.items():
        object.__setattr__(found, name, value)
    return found


def notes(data: Table) -> str:
    return "\n".join(_notes.look(data).notes)


def test_ordinary_tables_have_no_notes():
    assert notes(table()) == notes(table(target=False)) == ""
    for load in (load_iris, load_wine, load_breast_cancer):
        data = load()
        found = Table([*map(str, data.feature_names)], data.data, data.target * 1.0, "kind")
        repeats = "1 row repeats another row (rows '102' and '143')" if load is load_iris else ""
        assert notes(found).startswith(repeats)
        assert bool(notes(found)) == bool(repeats)
        assert notes(found).count("\n") == 0


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("batch", np.arange(40) % 2 + 1.0, "its name, few distinct values, it nearly determines"),
        ("plateNumber", np.arange(40.0) ** 1.5, "'plateNumber' (its name)"),
        ("Age (years)", np.arange(40.0) ** 1.5, "'Age (years)' (its name)"),
        ("code", np.arange(40) // 10 * 1.0, "'code' (few distinct values)"),
        ("patient_id", np.arange(40.0) % 7 * 40 + np.arange(40), "'patient_id' (its name)"),
        ("rowIndex", np.arange(40.0) % 7 * 40 + np.arange(40), "'rowIndex' (its name)"),
        ("gene3", np.arange(40.0), "'gene3' (increasing whole numbers)"),
        ("gene3", np.arange(40.0) ** 2, "'gene3' (increasing whole numbers)"),
        ("gene3", np.arange(40) % 2 + np.arange(40) / 100, "'gene3' (it nearly determines 'kind')"),
    ],
)
def test_metadata_is_noted(name, values, why):
    data = table()
    data.names[3] = name
    data.values[:, 3] = values
    found = notes(data)
    assert found.startswith("possible metadata among the features: ")
    assert why in found
    assert found.endswith("--drop what is not a measurement")


def test_names_that_all_columns_share_are_no_metadata():
    assert notes(table(names=[f"time_{j}" for j in range(8)])) == ""
    assert notes(table(names=["acid", "ides", "nonet", "keyed", "a", "b", "c", "d"])) == ""
    assert notes(table(names=["stage", "manage", "runner", "dated", "a", "b", "c", "d"])) == ""


def test_features_that_separate_few_rows_by_chance_are_not_noted():
    """With 3 + 3 rows, one of ten features separates the classes by chance."""
    data = table(n=6, d=30)
    data.values[:, 0] = np.arange(6) % 2 + np.arange(6) / 100
    assert notes(data) == ""


def test_classes_of_one_row_are_named():
    data = table()
    data.target[7] = "rare"
    assert "classes of one row in 'kind': 'rare'; no accuracy can be measured" in notes(data)


def test_repeated_rows_are_noted_unless_they_are_no_surprise():
    data = table()
    data.values[[5, 9]] = data.values[[4, 4]]
    found = notes(data)
    assert "2 rows repeat another row, some with another target (rows '5' and '6')" in found
    assert "accuracies too high: remove them" in found
    few = table(d=3, values=np.random.default_rng(0).integers(0, 2, size=(40, 3)) * 1.0)
    assert "repeat" not in notes(few)


def test_counts_and_skewed_values_are_noted():
    rng = np.random.default_rng(0)
    counts = np.round(np.exp(3 * rng.normal(size=(40, 8))))
    assert "look like counts" in notes(table(values=counts))
    assert "--method chi2" in notes(table(values=counts))
    assert "positive and very skewed" in notes(table(values=np.exp(3 * rng.normal(size=(40, 8)))))


# ---- From files ---------------------------------------------------------------------------------


def select(path, *options):
    return CliRunner().invoke(app, ["select", str(path), *map(str, options)])


def test_a_confounded_table_says_so(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 2
    rows = np.column_stack([rng.normal(size=(40, 6)), kind + 1])
    header = ",".join([*(f"gene{j}" for j in range(6)), "batch", "kind"])
    lines = [
        ",".join([*map(repr, row.tolist()), "uv"[k]]) for row, k in zip(rows, kind, strict=True)
    ]
    path = tmp_path / "confounded.csv"
    path.write_text("\n".join([header, *lines]))
    result = select(path, "-t", "kind", "-m", "anova", "-k", 1, "--json")
    assert json.loads(result.stdout)["selected"][0]["name"] == "batch"
    assert "note: possible metadata among the features: 'batch'" in result.stderr
    assert "'batch'" in json.loads(result.stdout)["notes"][0]
    quiet = select(path, "-t", "kind", "-m", "anova", "-k", 1, "--drop", "batch")
    assert "metadata" not in quiet.stderr


@pytest.fixture
def transposed(tmp_path):
    """Genes in rows and samples in columns; with and without a row of classes."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 12))
    values[3] += 5 * (np.arange(12) % 2)
    header = ",".join(["gene", *(f"sample_{i}" for i in range(12))])
    lines = [f"g{j}," + ",".join(map(repr, row)) for j, row in enumerate(values.tolist())]
    plain, labelled = tmp_path / "plain.csv", tmp_path / "labelled.csv"
    plain.write_text("\n".join([header, *lines]))
    kinds = "kind," + ",".join("uv"[i % 2] for i in range(12))
    labelled.write_text("\n".join([header, kinds, *lines]))
    return plain, labelled, values


def test_a_transposed_table_is_noted_and_turned(transposed):
    plain, labelled, values = transposed
    result = select(plain, "-m", "variance", "-k", 2)
    assert "note: the rows may be features and the columns samples" in result.stderr
    assert "'sample_0', 'sample_1' and 10 more): if so, use --transpose" in result.stderr
    result = select(labelled, "-m", "variance", "-k", 2)
    assert result.exit_code == 2
    assert "if rows are features, use --transpose" in result.stderr
    result = select(labelled, "-t", "kind", "-m", "anova", "-k", 1)
    assert "a row has this name: if the rows are features, use --transpose" in result.stderr
    found = read_table(labelled, target="kind", transpose=True)
    assert found.names == [f"g{j}" for j in range(60)]
    assert found.rows == [f"sample_{i}" for i in range(12)]
    assert found.target.tolist() == ["u", "v"] * 6
    np.testing.assert_array_equal(found.values, values.T)
    np.testing.assert_array_equal(read_table(plain, transpose=True).values, values.T)
    result = select(labelled, "-t", "kind", "-m", "anova", "-k", 1, "--transpose", "--json")
    assert [item["name"] for item in json.loads(result.stdout)["selected"]] == ["g3"]
    assert "transpose" not in result.stderr


def test_a_transposed_table_keeps_its_gaps_and_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",s1,s2,s3\ng1,1,2,NA\ng2,4,5,6\nage,20,30,x40\n")
    with pytest.raises(TableError, match=r"'g1' \(1\); written 'NA'"):
        read_table(path, transpose=True, drop=["age"])
    found = read_table(path, transpose=True, impute="median", target="age")
    assert found.values.tolist() == [[1, 4], [2, 5], [1.5, 6]]
    assert found.target.tolist() == ["20", "30", "x40"]
    matrix = tmp_path / "m.npz"
    np.savez(matrix, X=np.arange(6.0).reshape(2, 3) ** 2)
    assert read_table(matrix, transpose=True).values.tolist() == [[0, 9], [1, 16], [4, 25]]
    np.savez(matrix, X=np.arange(6.0).reshape(2, 3) ** 2, y=np.arange(2))
    with pytest.raises(TableError, match="such as 'y', cannot be transposed"):
        read_table(matrix, transpose=True)


def test_words_become_indicators_on_request(tmp_path):
    path = tmp_path / "t.csv"
    cells = ["a,colour,code,kind", *(["1", "2", "3", "4", "5", "6"])]
    for i, colour in enumerate(["red", "green", "red", "blue", "red", "green"], start=1):
        cells[i] += f",{colour},{7 + i % 2},{'uv'[i % 2]}"
    path.write_text("\n".join(cells))
    with pytest.raises(TableError, match=r"'colour' is not numeric .*: use --categorical"):
        read_table(path, target="kind")
    found = read_table(path, target="kind", categorical=["colour", "3"])
    assert found.names == ["a", "colour=blue", "colour=green", "colour=red", "code=7", "code=8"]
    assert found.positions == [1, 2, 2, 2, 3, 3]
    assert found.values[:, 3].tolist() == [1, 0, 1, 0, 1, 0]
    assert found.values[:, 4].tolist() == [0, 1, 0, 1, 0, 1]
    with pytest.raises(TableError, match="'kind' cannot be both"):
        read_table(path, target="kind", categorical=["kind", "colour"])
    path.write_text("\n".join([*cells[:-1], cells[-1].replace("green", "")]))
    with pytest.raises(TableError, match=r"missing values: 'colour=blue' \(1\)"):
        read_table(path, target="kind", categorical=["colour"])


def test_mistyped_names_get_a_suggestion(transposed):
    plain, _, _ = transposed
    for options, hint in (
        (("-t", "sample_99"), "did you mean 'sample_9'?"),
        (("-t", "Sample_3"), "did you mean 'sample_3'?"),
        (("-m", "relief"), "did you mean 'relieff'?"),
        (("-m", "anova", "-t", "sample_1", "-o", "critrion=t"), "did you mean 'criterion'?"),
    ):
        result = select(plain, *options)
        assert result.exit_code == 2
        assert hint in result.stderr
