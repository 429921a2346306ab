"""The results pages are as their scripts wrote them and cover every figure and table."""

import dataclasses
import importlib
import re
import sys
from types import SimpleNamespace

import pytest

from benchmarks.papers import __main__, _parts
from tests.test_readme import quoted, read

#: The numbers of figures and tables of each document.
LABELS = {
    "manifest": [*(f"Figure {i}" for i in range(1, 13)), "Table 1", "Table 2"],
    "report": [f"Figure {i}" for i in range(1, 8)],
    "gaussian": [*(f"Figure {i}" for i in range(1, 10)), *(f"Table {i}" for i in range(1, 8))],
    "ssfs": [*(f"Figure {i}" for i in range(1, 12)), *(f"Table {i}" for i in range(1, 6))],
    "dirichlet": [
        *(f"Figure {i}" for i in ("1", "2", "3", "S1", "S2", "S3")),
        *(f"Table {i}" for i in ("1", "2", "3", "S1", "S2", "S3", "S4", "S5")),
    ],
}


def page(paper: str) -> str:
    return (_parts.PAGES / f"{paper}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("paper", LABELS)
def test_page_is_as_written(paper):
    text = page(paper)
    sections = _parts.sections(text)
    for name, (body, _, stored) in sections.items():
        assert _parts.digest(body) == stored, f"{name} was edited by hand: run make results"
    # Nothing stands outside the sections.
    assert len(_parts.SEAL.findall(text)) == len(sections)
    assert text.rstrip().endswith("-->")


@pytest.mark.parametrize("paper", LABELS)
def test_page_has_the_parts_of_its_script(paper):
    module = importlib.import_module(f"benchmarks.papers.{paper}")
    names = [_parts.section_name(paper, part) for part in module.PARTS]
    assert list(_parts.sections(page(paper))) == [paper, *names]
    assert all(name.startswith(f"{paper}-") for name in names)


@pytest.mark.parametrize("paper", LABELS)
def test_page_has_every_figure_and_table(paper):
    text = page(paper)
    headings = re.findall(r"^## (.+?): ", text, re.MULTILINE)
    assert set(LABELS[paper]) <= set(headings)
    verdicts = _parts.VERDICT.findall(text)
    assert len(verdicts) == len(headings)
    assert all(verdict.startswith(_parts.VERDICTS) for verdict in verdicts)


@pytest.mark.parametrize("paper", LABELS)
def test_pictures_are_small_and_used(paper):
    folder = _parts.PAGES / "images"
    used = set(re.findall(r"\]\(images/([^)]+)\)", page(paper)))
    assert used == {path.name for path in folder.glob(f"{paper}-*.png")}
    assert all((folder / name).stat().st_size < 60_000 for name in used)


def unsupported(readme: str, pages: str) -> list[str]:
    """Accuracies of README that no page has; `test_demo` compares those of `make demo`."""
    numbers = quoted(readme, demo=False)
    return [n for n in numbers if not re.search(rf"(?<![\d.]){re.escape(n)}(?!\.?\d)", pages)]


def test_readme_quotes_the_results():
    pages = read("docs/pages/results.md") + "".join(map(page, LABELS))
    assert unsupported(read("README.md"), pages) == []
    # 81.9 is on a page, 81.93 is on none.
    assert unsupported("GC has 81.9%, ManiFeSt 81.93% or 181.9 %.", "81.9") == ["81.93", "181.9"]


@pytest.mark.parametrize("paper", LABELS)
def test_page_follows_from_the_stored_numbers(paper):
    old = _parts.sections(page(paper))
    module = importlib.import_module(f"benchmarks.papers.{paper}")
    texts = _parts.render(paper, module, old)
    assert {name: text.strip() for name, text in texts.items()} == {n: s[0] for n, s in old.items()}


# ---- The code that writes the pages -------------------------------------------------------------


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A paper of two parts in a temporary folder, and the splits that were run."""
    monkeypatch.setattr(_parts, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(_parts, "STORE", tmp_path / "store")
    runs = []

    def run(split):
        runs.append(split)
        return {"value": split}

    def show(found):
        total = sum(split["value"] for split in found)
        return _parts.Answer(
            f"sum {total}", "reproduced", lambda figure: figure.subplots().plot([0, total])
        )

    parts = [
        _parts.Part("toy-figure-1", "Figure 1", "a sum", run, 3, show),
        _parts.Absent("Table 1", "rows", "data not available"),
    ]
    return SimpleNamespace(TITLE="Toy", INTRO="Text.", PARTS=parts), runs


def test_interrupted_run_resumes(paper):
    module, runs = paper
    _parts.compute(module.PARTS[0], limit=2)
    _parts.compute(module.PARTS[0])
    assert runs == [0, 1, 2]
    assert _parts.stored(module.PARTS[0]) == [{"value": i} for i in range(3)]


def test_only_missing_splits_are_computed_unless_again(paper, monkeypatch):
    module, runs = paper
    monkeypatch.setitem(sys.modules, "benchmarks.papers.toy", module)

    def call(*options):
        monkeypatch.setattr(sys, "argv", ["papers", "toy", *options])
        __main__.main()

    call("--splits", "1")
    assert runs == [0]
    assert "toy-figure-1" not in _parts.sections(page("toy"))
    call()
    call()
    assert runs == [0, 1, 2]
    call("--write")
    assert runs == [0, 1, 2]
    call("--again")
    assert runs == [0, 1, 2] * 2
    assert "toy-figure-1" in _parts.sections(page("toy"))


def test_parts_can_share_numbers(paper):
    module, runs = paper
    other = dataclasses.replace(module.PARTS[0], name="toy-figure-2", store="toy-figure-1")
    _parts.compute(module.PARTS[0])
    _parts.compute(other)
    assert runs == [0, 1, 2]
    assert _parts.stored(other) == _parts.stored(module.PARTS[0])


def test_page_has_sealed_sections(paper):
    module, _ = paper
    _parts.compute(module.PARTS[0])
    _parts.write("toy", module)
    text = page("toy")
    sections = _parts.sections(text)
    assert list(sections) == ["toy", "toy-figure-1", "toy-table-1"]
    assert all(_parts.digest(body) == stored for body, _, stored in sections.values())
    assert "| Figure 1 | a sum | reproduced |" in text
    assert (_parts.PAGES / "images" / "toy-figure-1.png").exists()
    edited = _parts.sections(text.replace("sum 3", "sum 4"))["toy-figure-1"]
    assert _parts.digest(edited[0]) != edited[2]


def test_section_is_kept_until_all_splits_are_stored(paper):
    module, _ = paper
    _parts.compute(module.PARTS[0])
    _parts.write("toy", module)
    before = page("toy")
    numbers = dict(enumerate(_parts.stored(module.PARTS[0])))
    for split in (2, 1, 0):
        del numbers[split]
        _parts.save(module.PARTS[0], numbers)
        _parts.write("toy", module)
        assert page("toy") == before


def test_stored_numbers_are_short(paper):
    module, _ = paper
    part = dataclasses.replace(module.PARTS[0], run=lambda _: {"a": [1 / 3, 2], "b": {"c": "x"}})
    _parts.compute(part, limit=1)
    assert part.path.read_text(encoding="utf-8") == '[0,{"a":[0.333333,2],"b":{"c":"x"}}]\n'


def judged(module):
    """The first part, with a note and a verdict from the printed table."""

    def show(found):
        return _parts.Answer(_parts.table(["sum"], [[sum(split["value"] for split in found)]]))

    def judge(tables):
        (total,) = _parts.numbers_in(tables["toy-figure-1"][0][1][0])
        return f"reproduced: {total:g}"

    return dataclasses.replace(module.PARTS[0], show=show, judge=judge, differs="less data")


def test_note_and_verdict_are_new_in_a_section_that_is_kept(paper):
    module, _ = paper
    module.PARTS[0] = part = judged(module)
    _parts.compute(part)
    _parts.write("toy", module)
    text = page("toy")
    assert "| 3 |\n\n**Differs from the paper:** less data\n\n**Verdict:** reproduced: 3\n" in text
    part.path.unlink()
    _parts.write("toy", module)
    assert page("toy") == text
    module.PARTS[0] = dataclasses.replace(
        part, differs="fewer data", judge=lambda tables: f"not reproduced: {part.judge(tables)}"
    )
    _parts.write("toy", module)
    changed = page("toy")
    assert "| 3 |\n\n**Differs from the paper:** fewer data\n" in changed
    assert "**Verdict:** not reproduced: reproduced: 3" in changed
    assert "| Figure 1 | a sum | not reproduced |" in changed


def test_tables_are_read():
    text = "Text | no\n\n| a |  |\n| --- | --- |\n| −1.5 ± 0.2 (10) |  |\n\n| b |\n|---|\n| 2 |\n"
    first, second = _parts.tables(text)
    assert first == [["a", ""], ["−1.5 ± 0.2 (10)", ""]]
    assert second == [["b"], ["2"]]
    assert _parts.numbers_in(first[1][0]) == [-1.5, 0.2, 10]


def test_paragraphs_are_wrapped_and_tables_are_not():
    row = "| " + "a " * 100 + "|"
    text = _parts.filled(f"{'word ' * 50}\nnext line\n\n{row}\n{row}")
    paragraph, rows = text.split("\n\n")
    assert max(map(len, paragraph.splitlines())) <= 110
    assert paragraph.split() == ["word"] * 50 + ["next", "line"]
    assert rows == f"{row}\n{row}"


def test_negative_numbers_have_a_minus_sign(paper):
    module, _ = paper
    module.PARTS[1] = _parts.Absent("Table 1", "a -1.5, `-2`, 3-4", "reproduced: -0.2, -0.0, -0.04")
    _parts.write("toy", module)
    text = page("toy")
    assert "a −1.5, `-2`, 3-4" in text
    assert "reproduced: −0.2, 0.0, −0.04" in text


def test_unknown_verdict_is_refused(paper):
    module, _ = paper
    module.PARTS[1] = _parts.Absent("Table 1", "rows", "perhaps")
    with pytest.raises(ValueError, match="the verdict of Table 1"):
        _parts.write("toy", module)
