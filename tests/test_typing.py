"""Types, `__all__` and `help()`, as an editor or a type checker shows them to a user."""

import importlib
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import jaxfs

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jaxfs"


def test_results_have_types(tmp_path):
    """mypy --strict accepts `tests/typing_script.py`, which asserts the type of each result."""
    pytest.importorskip("mypy")
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "mypy",
                "--strict",
                "--config-file=",
                "--follow-imports=silent",
            ),
            *(f"--cache-dir={tmp_path}", "tests/typing_script.py"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file()


def public_modules() -> list[str]:
    """Modules without an underscore in their path, except the command and `jaxfs.methods`."""
    paths = [path.relative_to(ROOT).with_suffix("") for path in PACKAGE.rglob("*.py")]
    names = [".".join(path.parts).removesuffix(".__init__") for path in sorted(paths)]
    return [
        n for n in names if not ("._" in n or n.startswith("jaxfs.cli") or n == "jaxfs.methods")
    ]


@pytest.mark.parametrize("name", public_modules())
def test_public_modules_list_their_names(name):
    module = importlib.import_module(name)
    assert module.__all__
    assert all(hasattr(module, item) for item in module.__all__)


def test_help_shows_the_public_functions():
    text = pydoc.plain(pydoc.render_doc(jaxfs))
    functions = [name for name in jaxfs.__all__ if name.endswith(("_score", "_select"))]
    assert len(functions) > 20
    assert all(f"    {name}(" in text for name in (*functions, "ssfs", "fit_dirichlet_selector"))
