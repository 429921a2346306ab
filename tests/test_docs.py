"""The documentation covers every public name, its links exist, and its code runs."""

import re
import tomllib
from pathlib import Path

import pytest

import jaxfs
from tests.test_readme import ROOT, assert_runs, blocks

DOCS = ROOT / "docs"
PAGES = DOCS / "pages"
#: Public modules whose members have their own entries in the reference.
MODULES = {
    "adaboost",
    "distributed",
    "estimators",
    "evaluate",
    "geometry",
    "graphs",
    "inference",
    "interop",
    "kernels",
    "linalg",
    "plot",
    "streaming",
    "surrogates",
    "transport",
}


def entries(nav: object) -> list[str]:
    """Every page named in the navigation."""
    if isinstance(nav, str):
        return [nav]
    values = nav.values() if isinstance(nav, dict) else nav
    return [page for value in values for page in entries(value)]


def pages() -> list[str]:
    return sorted(path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md"))


def test_every_page_is_in_the_navigation():
    nav = tomllib.loads((DOCS / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    assert sorted(entries(nav)) == pages()


def documented() -> set[str]:
    text = "\n".join((PAGES / name).read_text(encoding="utf-8") for name in pages())
    return set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))


def test_every_public_name_is_in_the_reference():
    assert {f"jaxfs.{name}" for name in set(jaxfs.__all__) - MODULES} <= documented()
    assert all(any(name.startswith(f"jaxfs.{m}.") for name in documented()) for m in MODULES)


@pytest.mark.parametrize("name", pages())
def test_links_lead_to_pages(name):
    text = (PAGES / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert ((PAGES / name).parent / target).exists(), target


def test_code_runs(tmp_path: Path):
    texts = {n: blocks((PAGES / n).read_text(encoding="utf-8"), "python") for n in pages()}
    assert sum(map(len, texts.values())) >= 10
    assert_runs(texts, tmp_path)
