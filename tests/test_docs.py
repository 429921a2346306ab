"""The guides and the reference are complete, and their code runs."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.test_readme import ROOT, blocks

DOCS = ROOT / "docs"
PAGES = DOCS / "pages"
#: Modules with a reference of their own, beside the names of `jaxfs` itself.
MODULES = {
    "adaboost",
    "distributed",
    "evaluate",
    "geometry",
    "graphs",
    "kernels",
    "linalg",
    "streaming",
    "surrogates",
    "transport",
}


def entries(nav: object) -> list[str]:
    """Every page that the navigation names."""
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
    source = (ROOT / "jaxfs" / "__init__.py").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom)]
    public = {alias.asname for node in imports for alias in node.names if alias.asname}
    assert {f"jaxfs.{name}" for name in public - MODULES} <= documented()
    assert all(any(name.startswith(f"jaxfs.{m}.") for name in documented()) for m in MODULES)


@pytest.mark.parametrize("name", pages())
def test_links_lead_to_pages(name):
    text = (PAGES / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert ((PAGES / name).parent / target).exists(), target


def test_code_runs(tmp_path: Path):
    """All blocks one after another, in an interpreter of their own: JAX's default settings."""
    code = []
    for name in pages():
        for i, body in enumerate(blocks((PAGES / name).read_text(encoding="utf-8"), "python")):
            code.append(f"exec(compile({body!r}, '{name}-{i + 1}', 'exec'), {{}})")
    assert len(code) >= 10
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        cwd=tmp_path,
        # Compiled in half the time: what the blocks assert does not depend on it.
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
