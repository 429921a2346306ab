"""The options that control errors: --fdr, --permutations, --groups, --strata, -k one_se."""

import json
import re

import numpy as np
import pytest
from sklearn import metrics
from sklearn.feature_selection import f_classif
from typer.testing import CliRunner

from jaxfs.cli import _compare
from jaxfs.cli._commands import app
from jaxfs.cli._request import Request
from jaxfs.cli.tables._table import Table, TableError, read_table

PATIENTS, EACH = 16, 5


@pytest.fixture(scope="module", autouse=True)
def no_cache():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXFS_CACHE_DIR", "off")
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Patients with five rows each; `a` separates the classes, the rest belongs to the patients."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(PATIENTS), EACH)
    labels, site = patient % 2, patient // 8
    values = rng.normal(size=(PATIENTS, 8))[patient] + 0.3 * rng.normal(size=(PATIENTS * EACH, 8))
    values[:, 0] = rng.normal(size=PATIENTS * EACH) + 3 * labels
    path = tmp_path_factory.mktemp("tables") / "patients.csv"
    lines = ["patient,site,a,b,c,d,e,f,g,h,kind"]
    for p, s, row, k in zip(patient, site, values.tolist(), labels, strict=True):
        lines.append(",".join([f"p{p}", str(s), *map(repr, row), "uv"[k]]))
    path.write_text("\n".join(lines))
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def content(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    errors = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
    assert len(errors) == 1
    return errors[0]


def test_fdr_prints_p_and_q(table):
    command = ("select", table, "-t", "kind", "-m", "anova", "--drop", "patient", "--drop", "site")
    found = content(*command, "--fdr", 0.05)
    data = read_table(table, target="kind", drop=["patient", "site"])
    p = f_classif(data.values, data.target)[1]
    for row in found["selected"]:
        assert row["p"] == pytest.approx(p[row["column"] - 3], rel=1e-9)
        assert row["q"] <= 0.05
    assert found["reason"].endswith("features have q ≤ 0.05 by the distribution of the score.")
    shown = run(*command, "--fdr", 0.05).stdout
    assert re.search(r"feature ┃ +score ┃ +p ┃ +q ┃", shown)
    assert found["reason"] in shown
    assert content(*command, "-k", "fdr")["reason"].startswith(str(len(found["selected"])))


def test_groups_remove_the_features_of_the_patients(table):
    command = ("select", table, "-t", "kind", "-m", "anova", "--drop", "site", "--fdr", 0.1)
    rows = content(*command, "--drop", "patient")["selected"]
    assert len(rows) > 1  # the rows of a patient are not independent
    grouped = content(*command, "--groups", "patient")
    assert [row["name"] for row in grouped["selected"]] == ["a"]
    assert grouped["features"] == 8
    assert "999 relabelings" in grouped["reason"]
    other = content(*command, "--groups", "patient", "--permutations", 199, "--seed", 3)
    assert other["selected"][0]["p"] == pytest.approx(1 / 200)


def test_permutations_give_p_values_of_any_number(table):
    command = ("select", table, "-t", "kind", "-m", "relieff", "-k", 3, "--permutations", 99)
    found = content(*command, "--strata", "site", "--groups", "patient")
    assert len(found["selected"]) == 3
    assert found["reason"] == "3 of 8 features were asked for."
    assert all(0 < row["p"] <= row["q"] <= 1 for row in found["selected"])
    assert "p" not in content("select", table, "-t", "kind", "-m", "anova", "-k", 1, "--drop",
                              "patient")["selected"][0]  # fmt: skip


def test_report_has_p_and_q(table, tmp_path):
    page = tmp_path / "r.html"
    command = ("select", table, "-t", "kind", "-m", "anova", "--drop", "site", "--drop", "patient")
    assert run(*command, "--fdr", 0.1, "--report", page, "--resamples", 0).exit_code == 0
    text = page.read_text()
    assert "q of score" in text
    assert "features have q ≤ 0.1" in text


def test_one_se_uses_groups(table):
    command = ("select", table, "-t", "kind", "-m", "anova", "-k", "one_se", "--drop", "site")
    found = content(*command, "--groups", "patient")
    assert "is the smallest number of features with accuracy within" in found["reason"]
    assert found["features"] == 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fdr", "0"), "--fdr must be in (0, 1), got 0"),
        (("--fdr", "1"), "--fdr must be in (0, 1), got 1"),
        (("--fdr", "0.1", "-k", "5"), "leave out -k 5"),
        (("-k", "3", "--groups", "patient"), "--groups needs --fdr"),
        (("-k", "one_se", "--strata", "site"), "--strata needs --fdr"),
        (("--fdr", "0.1", "--groups", "none"), "groups and strata: no column is called 'none'"),
        (("--fdr", "0.1", "--groups", "kind"), "cannot be both the target and groups"),
        (("-m", "gc", "--fdr", "0.1"), '-k="fdr" needs a score of every feature alone'),
        (("-m", "gc", "--permutations", "9"), "--permutations needs a score of every feature"),
        (("-m", "variance", "--fdr", "0.1"), "needs a target, and FilterSelector uses none"),
        (("--fdr", "1e-40"), "found no feature with q ≤ 1e-40"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_take_one_line(table, options, words):
    method = () if "-m" in options else ("-m", "anova")
    dropped = [part for name in ("patient", "site") if name not in options
               for part in ("--drop", name)]  # fmt: skip
    assert words in refused("select", table, "-t", "kind", *method, *dropped, *options)


def test_labels_follow_dropped_rows_and_must_be_complete(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("g,a,b,y\nu,1,2,0\nv,,3,1\nw,4,5,1\nu,5,7,0\n")
    found = read_table(path, target="y", labels=["g"], impute="drop")
    assert found.labels["g"].tolist() == ["u", "w", "u"]
    assert found.names == ["a", "b"]
    path.write_text("g,a,b,y\nu,1,2,0\n,2,3,1\nw,4,5,1\n")
    with pytest.raises(TableError, match="'g' has 1 missing value"):
        read_table(path, target="y", labels=["g"])


def test_compare_keeps_groups_together_and_measures_each_class(table):
    command = ("compare", table, "-t", "kind", "-m", "anova,relieff", "-k", 1, "--drop", "site")
    found = content(*command, "--groups", "patient", "--folds", 4)
    rows = {row["name"]: row for row in found["methods"]}
    assert rows["anova"]["auc"] > 0.9
    assert 0 <= rows["anova"]["balanced_accuracy"] <= 1
    assert found["verdict"].startswith(("anova has the largest", "relieff has the largest"))
    assert "all 8" in found["verdict"]
    # Patients in both parts of a fold make the features of the patients look relevant.
    split = content(*command, "--drop", "patient", "--folds", 4)
    everything = {row["name"]: row["mean"] for row in split["methods"]}["all features"]
    assert everything > rows["all features"]["mean"]
    assert found["verdict"] in run(*command, "--groups", "patient", "--folds", 4).stdout
    words = "--folds must be at most the number of groups (16 groups), got 17"
    assert words in refused(*command, "--groups", "patient", "--folds", 17)


def test_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], [30, 20, 10])
    x = rng.normal(size=(60, 5)) + y[:, None]
    train, test = np.arange(60) % 2 == 0, np.arange(60) % 2 == 1
    model = _compare._validation.default_model(classes=True)
    found = _compare._measure(model, y, {"a": 30, "b": 20, "c": 10}, x, train, test)
    fitted = _compare._validation.default_model(classes=True).fit(x[train], y[train])
    guess = fitted.predict(x[test])
    recalls = [np.mean(guess[y[test] == c] == c) for c in range(3)]
    shares = fitted.predict_proba(x[test])
    areas = [metrics.roc_auc_score(y[test] == c, shares[:, c]) for c in range(3)]
    assert found == pytest.approx((np.mean(guess == y[test]), np.mean(recalls), np.mean(areas)))
    only = _compare._measure(model, y, {"a": 30, "b": 20, "c": 10}, x, train, y == 0)
    assert np.isnan(only[2])


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ((0.9, 0.7, 0.9, 0.5), "first has the largest accuracy, 0.900. 2 features are as good as"),
        ((0.9, 0.89, 0.6, 0.5), "second is not clearly worse. 2 features are better than all 9"),
        ((0.5, 0.5, 0.5, 0.5), "Always predicting the largest class gives 0.600: no method helps."),
        ((0.8, 0.7, 0.9, 0.79), "worse than all 9, but not clearly better than random features."),
    ],
)
def test_verdict(means, words):
    wave = np.array([0.03, -0.03, 0.02, -0.02])
    folds = [m + wave * s for m, s in zip(means, (1, -1, 0.5, -1), strict=True)]
    names = ("first", "second", "all features", "at random")
    rows = [
        _compare._row(name, k, list(by_fold[:, None]))
        for name, k, by_fold in zip(names, (2, 2, 9, 2), folds, strict=True)
    ]
    assert words in _compare._verdict(rows, "accuracy", 0.6)


def test_comparison_of_numbers_has_no_classes():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 4))
    data = Table(list("abcd"), x, x[:, 0] + 0.1 * rng.normal(size=40), "y")
    found = _compare.compare(data, [Request("pearson", "1")], folds=4)
    assert found.methods[0].auc is None
    assert "R²" in found.verdict
