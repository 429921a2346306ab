"""The commands: their answers, files and exit codes, and one line for every user error."""

import csv
import dataclasses
import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxfs import cli
from jaxfs.cli import _answer, _compare, _options, _output, _report, _request
from jaxfs.cli._commands import app
from jaxfs.cli.tables._columns import Refusal
from jaxfs.cli.tables._table import Table, read_table
from jaxfs.estimators import AutoSelector, FilterSelector
from jaxfs.estimators._catalogue import METHODS

ROOT = Path(__file__).parents[2]
ROWS, FEATURES = 30, 6


@pytest.fixture(scope="module", autouse=True)
def no_cache():
    """The cache is a setting of the whole process, which tests must not change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXFS_CACHE_DIR", "off")
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Features c and e separate the classes, the others are noise."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(ROWS, FEATURES))
    labels = np.arange(ROWS) % 2
    values[:, 2] += 4 * labels
    values[:, 4] -= 2 * labels
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    lines = ["a,b,c,d,e,[f],kind"]
    lines += [
        ",".join([*map(repr, row), "uv"[k]]) for row, k in zip(values.tolist(), labels, strict=True)
    ]
    path.write_text("\n".join(lines))
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_scores_that_all_tie_are_noted(tmp_path):
    path = tmp_path / "same.csv"
    path.write_text("a,b,kind\n" + "1,1,u\n2,2,v\n" * 6)
    result = run("select", path, "--target", "kind", "--method", "anova", "-k", 1)
    assert "gives all 2 features the same score" in result.stderr


def test_features_that_no_resample_selects_are_noted(tmp_path):
    """mRMR of three values: a correlation of exactly 0 with the first feature is not stable."""
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 3
    values = rng.normal(size=(60, 80))
    values[:, :30] += rng.normal(size=(3, 30))[kind]
    values = np.sign(np.round(values / 1.5))
    path = tmp_path / "three.csv"
    rows = np.column_stack([values, kind]).astype(int)
    names = ",".join([f"g{j}" for j in range(80)] + ["kind"])
    path.write_text("\n".join([names, *(",".join(map(str, row)) for row in rows)]))
    page = tmp_path / "page.html"
    options = ("--method", "mrmr", "-k", 6, "--resamples", 4, "--json", "--report", page)
    result = run("select", path, "--target", "kind", *options)
    content = json.loads(result.stdout)
    lost = [f"'{line['name']}'" for line in content["selected"] if line["frequency"] == 0]
    assert lost
    note = f"selected from all rows, but in none of 4 resamples: {', '.join(lost)}"
    assert content["notes"][-1] == note
    assert f"note: {note}" in result.stderr
    assert "in none of 4 resamples" in page.read_text(encoding="utf-8")


def refused(*arguments):
    """Return the error line of a command that must fail with exit code 2."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert [line[:5] for line in lines[:-1]] == ["note:"] * (len(lines) - 1)
    assert lines[-1].startswith("error: ")
    return lines[-1]


def test_select_prints_and_writes(table, tmp_path):
    gap = tmp_path / "gap.csv"
    head, first, *rest = table.read_text().splitlines()
    gap.write_text("\n".join([head, "NA," + first.partition(",")[2], *rest]))
    out, plot, page = (tmp_path / name for name in ("o.csv", "p.png", "r.html"))
    files = ("--out", out, "--plot", plot, "--report", page, "--resamples", 3)
    command = (
        "select",
        gap,
        "--target",
        "kind",
        "--impute",
        "median",
        "--method",
        "anova",
        "-k",
        2,
    )
    result = run(*command, *files)
    assert result.exit_code == 0, result.output
    assert re.search(r"1 │ c .*100%", result.stdout)
    assert "written: " in result.stderr
    names = ["gap.csv", "o.csv", "p.png", "r.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    written, read = read_table(out, target="kind"), read_table(table, target="kind")
    assert written.names == ["c", "e"]
    np.testing.assert_array_equal(written.values, read.values[:, [2, 4]])
    assert list(written.target) == list(read.target)
    assert plot.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    repeated = "--target kind --impute median --method anova -k 2 --seed 0"
    assert f"{repeated} --report {page} --resamples 3<" in text
    assert "Missing values that were imputed" in text
    # Without --force nothing is overwritten.
    before = out.read_bytes()
    assert "--force" in refused(*command[:-1], 1, "--out", out)
    assert out.read_bytes() == before
    assert run(*command[:-1], 1, "--out", out, "--force").exit_code == 0
    assert out.read_text().splitlines()[0] == "c,kind"


def test_written_tables_keep_the_name_of_the_rows(table, tmp_path):
    """In text and in Parquet; a nameless index gets the name that pandas gives it."""
    named, nameless = tmp_path / "named.csv", tmp_path / "nameless.csv"
    lines = table.read_text().splitlines()
    rows = [f"p{i},{line}" for i, line in enumerate(lines[1:])]
    named.write_text("\n".join([f"patient,{lines[0]}", *rows]))
    nameless.write_text("\n".join([f",{lines[0]}", *rows]))
    for path, name in ((named, "patient"), (nameless, "")):
        for suffix in ("csv", "parquet"):
            out = tmp_path / f"out.{suffix}"
            command = (
                "select",
                path,
                "-t",
                "kind",
                "-m",
                "anova",
                "-k",
                2,
                "--out",
                out,
                "--force",
            )
            assert run(*command).exit_code == 0
            found = read_table(out, target="kind")
            assert (found.names, found.rows_name) == (["c", "e"], name)
            assert found.rows == [f"p{i}" for i in range(ROWS)]
            np.testing.assert_array_equal(
                found.values, read_table(table, target="kind").values[:, [2, 4]]
            )


def test_the_command_in_the_report_repeats_the_run(table, tmp_path):
    page = tmp_path / "a page.html"
    options = ("-m", "variance", "-k", 2, "-d", "kind", "-d", "a", "--standardize", "-q")
    options += ("--option", "dtype=float32", "--seed", 5, "--resamples", 2)
    assert run("select", table, *options, "--report", page).exit_code == 0
    first = page.read_text(encoding="utf-8")
    command = html.unescape(re.search("<code><bdi>(jaxfs .*)</bdi>", first)[1])
    _, *words = shlex.split(command)
    assert words.count("--drop") == 2
    assert "--quiet" not in words
    assert run(*words, "--force").exit_code == 0
    assert page.read_text(encoding="utf-8") == first


def test_resamples_keep_two_rows_of_every_class():
    """ReliefF refuses a class of one row."""
    rng = np.random.default_rng(0)
    data = Table(list("abc"), rng.normal(size=(12, 3)), np.array([0.0] * 10 + [1] * 2), "y")
    answer = _answer.choose(data, _request.Request("relieff", k=2), 3)
    assert answer.stability.indices.shape == (3, 2)
    assert float(np.sum(answer.stability.frequencies)) == pytest.approx(2)


@pytest.mark.parametrize("package", ["matplotlib.figure", "jinja2"])
def test_missing_packages_are_named_before_the_work(table, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    command = ("select", table, "-t", "nothing", "-m", "anova", "--report", tmp_path / "r.html")
    assert package.split(".")[0] in refused(*command).lower()


def test_json_is_all_of_stdout_and_repeats(table):
    command = ("select", table, "-t", "kind", "-m", "anova", "-k", 3, "--json", "--seed", 7)
    first, second = run(*command), run(*command)
    content, again = json.loads(first.stdout), json.loads(second.stdout)
    for answer in (content, again):
        answer.pop("seconds")
    assert content == again
    data = read_table(table, target="kind")
    y = np.unique(data.target, return_inverse=True)[1]
    fitted = METHODS["anova"].estimator(n_features_to_select=3).fit(data.values, y)
    assert [item["column"] for item in content["selected"][:2]] == [3, 5]
    for item in content["selected"]:
        assert data.names[item["column"] - 1] == item["name"]
        assert item["score"] == pytest.approx(float(fitted.scores_[item["column"] - 1]))
    assert (content["rows"], content["features"]) == (ROWS, FEATURES)


def test_unsupervised_methods_need_no_target(table):
    result = run("select", table, "--drop", "kind", "-m", "variance", "-k", 1, "--json")
    assert [item["name"] for item in json.loads(result.stdout)["selected"]] == ["c"]
    # Columns are counted as in the file, as --drop counts them.
    result = run("select", table, "-d", "kind", "-d", 1, "-m", "variance", "-k", 1, "--json")
    assert [item["column"] for item in json.loads(result.stdout)["selected"]] == [3]


def test_constant_features_and_many_classes_are_noted():
    values = np.random.default_rng(0).normal(size=(ROWS, FEATURES))
    values[:, 1] = 7
    data = Table(list("abcdef"), values)
    notes = _answer.choose(data, _request.Request("variance", k=6)).notes
    assert notes == ("constant features were selected: 'b'; --drop them",)
    halves = dataclasses.replace(data, target=np.arange(ROWS) % 5 / 2, target_name="y")
    with pytest.raises(Refusal, match=r"anova needs classes; 'y' has fractions .*pearson"):
        _answer.target_values(halves, "classes", "anova")
    several = dataclasses.replace(data, target=np.arange(60.0) % 25, target_name="y")
    _, classes, notes = _answer.target_values(several, "classes", "anova")
    assert len(classes) == 25
    assert "each of the 25 values of 'y'" in notes[0]


def test_units_are_noted_where_they_matter():
    values = np.array([[1.0, 1000], [2, 5000]])
    for name, matters in (("gkl", True), ("combined", True), ("gc", False), ("ssfs", False)):
        assert bool(_answer._note_units(values, METHODS[name])) == matters


AUTO = {
    "classes": [("anova", FilterSelector()), ("gini", FilterSelector(criterion="gini"))],
    "numbers": [("pearson", FilterSelector(criterion="pearson"))],
    "none": [("variance", FilterSelector(criterion="variance"))],
}


def test_without_a_method_several_are_compared(table, tmp_path, monkeypatch):
    monkeypatch.setattr(AutoSelector, "_members", lambda self, kind, d: AUTO[kind])
    content = json.loads(run("select", table, "-t", "kind", "--json").stdout)
    names = [row["name"] for row in content["comparison"]]
    assert sorted(names[:2]) == ["anova", "gini"]
    assert names[2:] == ["all features", "random features"]
    assert (content["method"], content["best"]) == ("auto", names[0])
    assert content["selected"][0]["name"] == "c"
    assert content["selected"][0]["frequency"] == 1
    result = run("select", table, "-t", "kind")
    assert content["verdict"] in result.stdout
    assert re.search(r"random features .* ± ", result.stdout)
    assert "selected in folds" in result.stdout
    assert re.search(r"Alone, 1 of the \d selected .* \(ANOVA, q ≤ 0.05 over all 6", result.stdout)
    content = json.loads(run("select", table, "-t", "e", "-d", "kind", "--json").stdout)
    assert (content["best"], content["measure"]) == ("pearson", "R²")
    result = run("select", table, "-d", "kind", "--json")
    assert json.loads(result.stdout)["best"] == "variance"
    assert "note: without --target" in result.stderr
    # The whole choice is a method of `compare` too, inside its folds.
    command = ("compare", table, "-t", "kind", "-m", "auto,anova", "-k", 2, "--folds", 2, "--json")
    rows = json.loads(run(*command).stdout)["methods"]
    assert [row["name"] for row in rows[:2]] == ["auto", "anova"]
    assert rows[0]["mean"] > 0.8


def test_auto_needs_two_rows_of_every_class(table, tmp_path):
    path = tmp_path / "rare.csv"
    path.write_text(table.read_text().removesuffix("v") + "rare")
    assert "auto needs at least two rows of every class, and 'rare' has one" in refused(
        "select", path, "-t", "kind"
    )


@pytest.mark.parametrize("target", ["kind", "e"])
def test_the_portfolio_runs(table, target):
    options = () if target == "kind" else ("--drop", "kind")
    result = run("select", table, "-t", target, "--json", *options, "--option", "n_repeats=1")
    names = {row["name"] for row in json.loads(result.stdout)["comparison"]}
    expected = {"anova", "relieff", "manifest", "combined", "gc", "mrmr"}
    if target == "e":
        expected = {"f_regression", "rrelieff", "mrmr_regression"}
    assert names == expected | {"all features", "random features"}


def test_compare_chooses_within_the_folds(tmp_path):
    """On noise the accuracy is near chance; a selection from all rows would be near 1."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(40, 300))
    path = tmp_path / "noise.npz"
    np.savez(path, X=values, y=np.arange(40) % 2)
    command = ("compare", path, "-t", "y", "--methods", "anova,variance", "-k", 5, "--folds", 4)
    content = json.loads(run(*command, "--json").stdout)
    rows = {row["name"]: row for row in content["methods"]}
    assert list(rows) == ["anova", "variance", "all features", "at random"]
    assert rows["anova"]["mean"] < 0.75
    assert rows["anova"]["features"] == 5
    assert content["overlap"]["anova"]["anova"] == 1
    assert content["overlap"]["anova"]["variance"] < 0.5
    assert rows["variance"]["stability"] > rows["anova"]["stability"]
    shown = run(*command)
    assert re.search(r"anova .*±", shown.stdout)


def test_compare_fits_its_defaults_to_the_table(table):
    command = ("compare", table, "-t", "kind", "-m", "anova", "--folds", 2)
    content = json.loads(run(*command, "--json").stdout)
    assert content["k"] == "6"
    assert "-k is 6" in content["notes"][-1]
    assert "-k must be" in refused(*command, "-k", 7)


def test_missing_values_are_filled_from_training_rows():
    gaps = np.zeros((4, 2), bool)
    gaps[0, 1] = True
    data = Table(["a", "b"], np.array([[1.0, 5], [2, 4], [3, 6], [4, 100]]), gaps=gaps)
    assert _compare._fill(data, np.array([0, 1, 2]))[0].tolist() == [1, 5]
    assert _compare._fill(data, np.array([1, 3]))[0].tolist() == [1, 52]
    assert data.values[0, 1] == 5
    with pytest.raises(Refusal, match="'b' has no value"):
        _compare._fill(data, np.array([0]))


def test_methods_and_demo(tmp_path):
    listed = run("methods").stdout
    assert all(name in listed for name in METHODS)
    assert "n_neighbors = 10" in run("methods", "ReliefF").stdout
    content = json.loads(run("methods", "--json").stdout)
    assert content["manifest"]["options"]["solver"] == "auto"
    picture, data = tmp_path / "demo.png", tmp_path / "digits.csv"
    result = run("demo", "--out", picture, "--data", data)
    assert result.exit_code == 0, result.output
    assert "closes its loop" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert read_table(data, target="digit").values.shape == (361, 64)


MISTAKES = {
    ("-m", "none such"): "method must be one of",
    ("-k", "0"): "-k must be",
    ("-k", "many"): "-k must be",
    ("-k", "1.5"): "-k must be",
    ("-k", "7"): "-k must be",
    ("-t", "none such"): "no column is called 'none such'",
    ("--dtype", "float16"): "dtype must be",
    ("--option", "nonsense"): "name=value",
    ("--option", "nonsense=1"): "anova has no option 'nonsense'",
    ("--option", "criterion=t"): "'criterion' cannot be changed",
    ("--option", "x={[]:1}"): "anova has no option 'x'",
    ("--solver", "exact"): "anova has no option 'solver'",
    ("--out", "o.xlsx"): "--out must end in",
    ("--plot", "p.gif"): "--plot must end in",
    ("--report", "r.pdf"): "--report must end in",
    ("--out", "no/such/folder/o.csv"): "no folder",
    ("--resamples", "1"): "--resamples",
    ("--impute", "mean"): "impute must be",
    ("-m", "rrelieff"): "needs a numeric target",
    ("--raw", ""): "--raw needs --out",
    ("-t", "a"): "needs classes; 'a' has 30 values in 30 rows (methods for numbers: ",
}


@pytest.mark.parametrize("options", MISTAKES, ids=" ".join)
def test_mistakes_take_one_line(table, options):
    given = {"-t": "kind", "-m": "anova"}
    given |= dict([options])
    extra = ("--drop", "kind") if given["-t"] == "a" else ()
    words = [part for pair in given.items() for part in pair if part]
    assert MISTAKES[options] in refused("select", table, *words, *extra)


def test_more_mistakes(table, tmp_path):
    assert "supervised" in refused("select", table, "-m", "anova")
    assert "must not be the table" in refused(
        "select", table, "-t", "kind", "-m", "anova", "--out", table, "--force"
    )
    again = tmp_path / "again.csv"
    os.link(table, again)
    assert "must not be the table" in refused("select", table, "--out", again, "-t", "kind")
    assert "not a file" in refused("select", tmp_path / "none.csv", "-t", "y")
    for method, option, words in (
        ("relieff", "n_neighbors=ten", "option 'n_neighbors' must be a whole number, got 'ten'"),
        ("combined", "manifest__ridge=many", "must be a number or none, got 'many'"),
        ("combined", "estimators=none", "no option 'estimators'"),
        ("combined", "manifest=5", "no option 'manifest'"),
    ):
        assert words in refused("select", table, "-t", "kind", "-m", method, "-o", option)
    absent = mock.Mock(fit=mock.Mock(side_effect=ImportError("needs its package")))
    with pytest.raises(Refusal, match="its package"):
        _answer.fit_estimator(absent, _request.Request("anova"), np.zeros((2, 2)), None)
    assert "--data must end in" in refused("demo", "--data", "x.txt")
    assert "--folds" in refused("compare", table, "-t", "kind", "-m", "anova", "--folds", 16)
    assert "cannot be compared" in refused("compare", table, "-t", "kind", "-m", "anova,rrelieff")
    assert "differ" in refused("compare", table, "-t", "kind", "-m", "anova,anova", "-k", 2)
    huge = tmp_path / "huge.csv"
    huge.write_text("alpha,beta,kind\n" + "1,2,u\n3,1e300,v\n" * 4)
    for command in (("select",), ("compare", "--folds", 2)):
        options = ("-t", "kind", "-m", "anova", "-k", 1, "--dtype", "float32")
        assert "'beta' (" in refused(command[0], huge, *command[1:], *options)
    assert run("select").exit_code == 2
    assert run("select", table, "--nonsense").exit_code == 2


def test_interrupts_and_bugs_have_their_codes(table, tmp_path, monkeypatch):
    out = tmp_path / "o.csv"
    command = ("select", table, "-t", "kind", "-m", "anova", "-k", 2, "--out", out)
    for error, code, words in (
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("oh"), 1, "please report"),
        (MemoryError("too\nlarge"), 2, "error: too large"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 2, "error: RESOURCE_EXHAUSTED"),
        (OSError(28, "No space left"), 2, "error: standard output: No space left"),
    ):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(type(METHODS["anova"].estimator()), "fit", fail)
        result = run(*command)
        assert result.exit_code == code
        assert words in result.stderr
        assert list(tmp_path.iterdir()) == []


def test_memory_may_be_out_anywhere(table, monkeypatch):
    for module, name in (
        (_answer, "target_values"),
        (_output, "print_selection"),
        (_output, "number"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, mock.Mock(side_effect=MemoryError))
            command = ("select", table, "-t", "kind", "-m", "anova", "-k", 2)
            assert refused(*command) == "error: there is not enough memory"


@pytest.mark.parametrize("raw", [False, True])
def test_words_that_spreadsheets_would_run(tmp_path, raw):
    """Text gets an apostrophe; numbers, including negative ones, stay numbers."""
    path, out = tmp_path / "t.csv", tmp_path / "o.tsv"
    rows = [["=A1", "-2.5", "-1", "@u"], ["x=1", "3", "5", "-1"]]
    rows += [["-7", "-4", "2", "@u"], ["\rr", "8", "-9", "-1"]]
    lines = [["", "+a", "=cmd|' /C calc'!A0", "-kind"], *rows]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    options = ("-t", "-kind", "-m", "variance", "-k", 2, "--out", out, "--header", "yes")
    result = run("select", path, *options, *(["--raw"] if raw else []))
    assert result.exit_code == 0, result.output
    with out.open(newline="") as file:
        head, *body = csv.reader(file, delimiter="\t")
    mark = "" if raw else "'"
    assert head == ["", f"{mark}=cmd|' /C calc'!A0", f"{mark}+a", f"{mark}-kind"]
    assert [row[0] for row in body] == [f"{mark}=A1", "x=1", "-7", "r"]
    assert [float(row[2]) for row in body] == [-2.5, 3, -4, 8]
    assert [row[3] for row in body] == [f"{mark}@u", "-1", f"{mark}@u", "-1"]
    assert [_output._inert(cell) for cell in ("\tx", "\r=1", "＝1", "", "-1e5", "1-2")] == [
        "'\tx",
        "'\r=1",
        "'＝1",
        "",
        "-1e5",
        "1-2",
    ]


def test_a_full_disk_error_names_the_file(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    final = tmp_path / "o.csv"
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with (
            pytest.raises(Refusal, match=r"o\.csv' cannot be written: File too large"),
            _output.write_atomically(force=False) as temporary,
        ):
            temporary(final).write_text("x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    assert _output.pending == {}


def loaded(process, folder):
    """Whether JAX is being imported."""
    return "jaxlib" in Path(f"/proc/{process.pid}/maps").read_text()


def compiling(process, folder):
    return "Compiling" in (folder / "log").read_text()


def writing(process, folder):
    return len(list(folder.glob(".o-*"))) > 0


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    "moment",
    [loaded, *(pytest.param(late, marks=pytest.mark.thorough) for late in (compiling, writing))],
)
def test_interrupts_at_any_moment(table, tmp_path, moment):
    """A real signal to a real process: one line, exit code 130, nothing left behind."""
    code = "import signal as s; s.signal(s.SIGINT, s.default_int_handler); "
    code += "import jaxfs_command; jaxfs_command.main()"
    options = ("-t", "kind", "-m", "anova", "-k", "2", "--plot", str(tmp_path / "o.png"))
    logged = {"JAX_LOG_COMPILES": "1"} if moment is compiling else {}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "select", str(table), *options],
            env=os.environ | {"PYTHONPATH": str(ROOT)} | logged,
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    try:
        end = time.monotonic() + 120
        while process.poll() is None and not moment(process, tmp_path) and time.monotonic() < end:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[-1] == "interrupted"
    assert len(lines) == 1 or moment is compiling
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_staged_files_appear_whole_or_not_at_all(tmp_path):
    old = tmp_path / "old.txt"
    old.write_text("old")
    interrupt = mock.Mock(side_effect=KeyboardInterrupt)
    for force, fate, error in ((True, interrupt, KeyboardInterrupt), (False, str, Refusal)):
        with pytest.raises(error), _output.write_atomically(force=force) as temporary:
            fate([temporary(path).write_text("half") for path in (tmp_path / "first.txt", old)])
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    with _output.write_atomically(force=True) as temporary:
        temporary(old).write_text("new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]
    plain = tmp_path / "plain.txt"
    plain.touch()
    assert old.stat().st_mode == plain.stat().st_mode


def test_unwritable_cache_is_a_note(monkeypatch, capsys):
    denied = mock.Mock(side_effect=PermissionError(13, "Permission denied", "/programs"))
    monkeypatch.setattr(_options, "enable_compilation_cache", denied)
    _options.use_cache()
    note = "note: compiled programs are not cached: /programs: Permission denied\n"
    assert capsys.readouterr().err == note


def test_without_typer_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "jaxfs.cli._commands")
    monkeypatch.delitem(sys.modules, "jaxfs.cli._options")
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert "pip install 'jaxfs[cli]'" in capsys.readouterr().err


def test_options_are_read_as_python_writes_them():
    parsed = dict(
        map(_request._parse_option, ["a=1", "b=0.5", "c=None", "d=true", "e=spd", "f=[1"])
    )
    assert parsed == {"a": 1, "b": 0.5, "c": None, "d": True, "e": "spd", "f": "[1"}
    standard = _answer.standardize_columns(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_array_equal(standard, [[-1, 0], [1, 0]])
    assert os.environ["JAXFS_CACHE_DIR"] == "off"


def test_answers_can_be_drawn_and_printed_anywhere(capsys):
    drawn = _report.finite(np.array([1e306, np.inf, 2.0, -np.inf]))
    assert drawn.tolist() == [1e300, 1e300, 2, 2]
    _output.print_json({"größe": "\ud800"})
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"größe": "\ud800"}
