"""The scripts of the gallery and the tutorials run; the pages show their code, output, pictures."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import PAGES
from tests.test_examples import ROOT, is_picture, run
from tests.test_readme import blocks

GALLERY = sorted(path.stem for path in (ROOT / "examples" / "gallery").glob("*.py"))
TUTORIALS = ("table", "pipeline", "jax")
IMAGES = PAGES / "images"
#: Pictures of the gallery that scripts with their own tests draw.
ELSEWHERE = {"operators.png", "ranks.png"}
#: Largest size of a picture in the documentation, in bytes.
LARGEST = 60_000
SNIPPET = re.compile(r'--8<-- "([\w/.]+?)(?::(\w+))?"')
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.mark.parametrize("names", [GALLERY[i::3] for i in range(3)])
def test_scripts_draw_the_pictures_of_the_gallery(names, tmp_path):
    """Several scripts run in one process, which imports and compiles once."""
    code = f"import runpy\nfor n in {names}: runpy.run_path(f'{ROOT}/examples/gallery/{{n}}.py')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {f"{name}.png" for name in names}
    assert all(is_picture(tmp_path / name) for name in drawn)


def test_gallery_shows_every_script_and_picture():
    text = (PAGES / "gallery.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^!\[.*\]\(images/gallery/([\w.]+)\)$", text, re.MULTILINE))
    assert shown == {f"{name}.png" for name in GALLERY} | ELSEWHERE
    assert shown == {path.name for path in (IMAGES / "gallery").iterdir()}
    assert {Path(path).stem for path, _ in SNIPPET.findall(text)} >= set(GALLERY)
    assert len(shown) >= 12
    thumbnails = re.findall(r"^\[!\[.*\]\(images/gallery/([\w.]+)\)\]\(#", text, re.MULTILINE)
    assert set(thumbnails) == shown


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in IMAGES.rglob("*.png")}
    assert len(sizes) > 15
    assert max(sizes.values()) < LARGEST, sizes


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials_show_what_their_scripts_print(name, tmp_path):
    text = (PAGES / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    script = f"tutorials/tutorial_{name}.py"
    out = run(script, tmp_path, COLUMNS="100").splitlines()
    for block in blocks(text, "text"):
        for line in block.splitlines():
            assert any(same(line, found) for found in out), line
    shown = set(re.findall(r"images/tutorials/([\w.]+)\)", text))
    drawn = {path.name for path in tmp_path.glob("*.png")}
    without_browser = not any(map(shutil.which, BROWSERS))
    assert shown - drawn <= ({"report.png"} if without_browser else set())
    assert drawn <= shown


def same(line: str, other: str) -> bool:
    """Whether two lines have the same words, and numbers that differ by at most 3%.

    Durations, in the last column of the comparison of methods, may differ. So may the numbers of
    ManiFeSt there: another rounding can change the bandwidth that it chooses in a fold.
    """
    line, other = (re.sub(r"│ +\d+\.\d │$", "│", text.rstrip()) for text in (line, other))
    if re.match(r"│ (manifest|combined) ", line):
        return line.split()[:2] == other.split()[:2]
    if NUMBER.sub("0", line).split() != NUMBER.sub("0", other).split():
        return False
    pairs = zip(NUMBER.findall(line), NUMBER.findall(other), strict=True)
    return all(float(a) == pytest.approx(float(b), rel=0.03, abs=0.011) for a, b in pairs)


def test_lines_that_differ_are_told_apart():
    assert same("│ gc │ 0.98 │ 2.8 │", "│ gc  │ 0.985 │ 13.1 │")
    assert not same("│ gc │ 0.98 │", "│ gc │ 0.90 │")
    assert not same("best: 3", "worst: 3")
    assert same("│ manifest │ 5 │", "│ manifest │ 7 │")
    assert not same("│ manifest │ 5 │", "│ combined │ 5 │")


def test_sections_of_scripts_exist():
    for page in [PAGES / "gallery.md", *(PAGES / "tutorials").glob("*.md")]:
        for path, section in SNIPPET.findall(page.read_text(encoding="utf-8")):
            code = (ROOT / path).read_text(encoding="utf-8")
            assert not section or f"[start:{section}]" in code, (path, section)
