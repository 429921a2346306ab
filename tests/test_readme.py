"""The code in README and CONTRIBUTING runs, and the names, commands and versions in them exist."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, *infos: str) -> list[str]:
    """The bodies of the fenced blocks whose info string is one of `infos`, in order."""
    return [m["body"] for m in FENCE.finditer(text) if m["info"].strip() in infos]


def quoted(text: str, *, demo: bool) -> list[str]:
    """Accuracies in the paragraphs that name `make demo`, or in all others."""
    paragraphs = [p for p in text.split("\n\n") if ("make demo" in p) == demo]
    found = r"(?<![\w.])(\d+(?:\.\d+)?)(?:\s?%|\s+per\s+cent|\s+points)"
    return [number for paragraph in paragraphs for number in re.findall(found, paragraph)]


def test_quoted_accuracies_are_found():
    text = "80.5% by `make demo`\n\n90% and 7.25 %, not 3, but 61.5\npoints"
    assert quoted(text, demo=True) == ["80.5"]
    assert quoted(text, demo=False) == ["90", "7.25", "61.5"]


def assert_runs(texts: dict[str, list[str]], folder: Path, **environment: str) -> None:
    """Run all blocks of the named documents with JAX's default settings.

    The blocks run in order in one interpreter, each with its own namespace. By default they are
    compiled without optimisation, as in all tests. `XLA_FLAGS=""` compiles them with optimisation,
    as for users.
    """
    code = [
        f"exec(compile({body!r}, '{name}, block {i}', 'exec'), {{'__name__': '__main__'}})"
        for name, bodies in texts.items()
        for i, body in enumerate(bodies, 1)
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def test_code_runs(tmp_path):
    """Runs every Python block of README, and those of CONTRIBUTING marked ```python runnable."""
    texts = {
        "README.md": blocks(read("README.md"), "python"),
        "CONTRIBUTING.md": blocks(read("CONTRIBUTING.md"), "python runnable"),
    }
    assert len(texts["README.md"]) >= 2
    assert_runs(texts, tmp_path)


@pytest.mark.thorough
def test_code_runs_as_a_reader_compiles_it(tmp_path):
    assert_runs({"README.md": blocks(read("README.md"), "python")}, tmp_path, XLA_FLAGS="")


def test_code_that_does_not_run_is_named(tmp_path):
    with pytest.raises(AssertionError, match='"page, block 2", line 1'):
        assert_runs({"page": ["a = 1", "a"]}, tmp_path)


def test_readme_fits_on_few_pages():
    assert len(read("README.md").splitlines()) <= 150


def public_names() -> list[str]:
    """Every name in the second column of the table of methods."""
    rows = [
        [c.strip() for c in r.split("|")[1:-1]]
        for r in re.findall(r"^\|.*", read("README.md"), re.M)
    ]
    return [name for row in rows if len(row) == 3 for name in re.findall(r"`([\w.]+)`", row[1])]


def test_named_functions_exist():
    names = public_names()
    assert len(names) > 30
    for name in names:
        resolve_name(name if name.startswith("jaxfs.") else f"jaxfs.{name}")


def make_targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def make_commands(text: str) -> set[str]:
    """Every target of a `make` command in shell blocks and in `code spans`."""
    shell = "\n".join(blocks(text, "sh", "bash", "console"))
    prose = FENCE.sub("", text)
    pieces = [*shell.splitlines(), *re.findall(r"`([^`\n]+)`", prose)]
    return {m for piece in pieces for m in re.findall(r"\bmake ([a-z][a-z-]*)", piece)}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_exist(name):
    named = make_commands(read(name))
    assert named, f"{name} names no make target"
    assert named <= make_targets(read("Makefile"))


def test_make_commands_are_found():
    text = "`make test`, not make love\n```sh\nmake check  # all\n```\n```text\nmake hay\n```\n"
    assert make_commands(text) == {"test", "check"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_local_links_exist(name):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", read(name)):
        assert (ROOT / target).exists(), target


def test_lower_bounds_are_those_tested():
    """The lower bounds in pyproject.toml are the versions that `make test-min` installs."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(r for name in extras for r in extras[name])]
    bounds = {r.replace(">=", "==") for r in requirements if ">=" in r}
    lines = read("constraints-min.txt").splitlines()
    assert {line for line in lines if line and not line.startswith("#")} == bounds


def test_constraints_pin_every_requirement():
    pins = read("constraints.txt").splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+|#.*", line) for line in pins)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in pins}
    project = tomllib.loads(read("pyproject.toml"))["project"]
    listed = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[\[>=]", r)[0] for group in listed for r in group} - {"jaxfs"}
    assert names <= pinned
