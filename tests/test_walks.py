"""A call of a main function runs code in only a few files of the package.

`python -m tests.test_walks NAME` counts them for one call and prints them. Each call runs in a new
interpreter, so that nothing was traced before. Files that are only imported do not count.
"""

import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = str(ROOT / "jaxfs") + "/"

#: Maximum number of files of the package that take part in a call.
LIMITS = {
    "manifest_score": 9,
    "gc_select": 8,
    "ssfs": 11,
    "fit_dirichlet_selector": 10,
    "ManiFeSt.fit": 15,
    "jaxfs select": 22,
}


def importing(frame: FrameType | None) -> bool:
    """Whether the frame belongs to the import of a module of the package."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def files_of(call: Callable[[], object]) -> list[str]:
    """The files of the package whose functions run during a call, in order of their first use."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE) and not importing(frame):
            files[name.removeprefix(PACKAGE)] = None

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(files)


def calls() -> dict[str, Callable[[], object]]:
    """One call for each entry of `LIMITS`, on small data."""
    import jax
    import numpy as np

    import jaxfs
    from jaxfs.cli import main
    from jaxfs.estimators import ManiFeSt

    x = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    y = np.arange(40) % 2
    key = jax.random.key(0)

    def select() -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder, "table.csv")
            header = ",".join([*(f"gene{i}" for i in range(8)), "kind"])
            np.savetxt(table, np.c_[x, y], delimiter=",", header=header, comments="")
            options = ["--target", "kind", "--method", "anova", "-k", "3"]
            sys.argv = ["jaxfs", "select", str(table), *options]
            with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as end:
                main()
            assert end.value.code == 0

    return {
        "manifest_score": lambda: jaxfs.manifest_score(x[:20], x[20:]),
        "gc_select": lambda: jaxfs.gc_select(x, y, 3, num_classes=2),
        "ssfs": lambda: jaxfs.ssfs(key, x, num_pseudo_labels=2),
        "fit_dirichlet_selector": lambda: jaxfs.fit_dirichlet_selector(key, x, 2, num_steps=4),
        "ManiFeSt.fit": lambda: ManiFeSt(n_features_to_select=3).fit(x, y),
        "jaxfs select": select,
    }


@pytest.mark.parametrize("name", LIMITS)
def test_walk_is_short(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.test_walks", name], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    files = done.stdout.split()
    assert 3 <= len(files) <= LIMITS[name], f"{name} passes through {len(files)} files: {files}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(files_of(calls()[sys.argv[1]])) + "\n")
