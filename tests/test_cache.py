"""A second process loads the compiled programs that the first process stored."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jaxfs

ROOT = Path(__file__).parents[1]

#: Prints the folder of the cache, the number of programs that a call compiled, and the number that
#: it found in the cache.
SCRIPT = """
import collections, sys
import jax, jaxfs, numpy as np

jax.jit(lambda x: x + 1)(1.0)  # JAX has already compiled
folder = jaxfs.enable_compilation_cache(*sys.argv[1:])
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name]))
jaxfs.variance_score(np.ones((3, 2), np.float32))
print(folder, *(events[f"/jax/compilation_cache/cache_{kind}"] for kind in ("misses", "hits")))
"""


def run(*arguments: str, **environment: str) -> tuple[str, int, int]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX", "XDG"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=kept | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    folder, misses, hits = done.stdout.split()
    return folder, int(misses), int(hits)


def test_a_second_process_starts_warm(tmp_path):
    folder = str(tmp_path / "new" / "programs")
    used, misses, hits = run(folder)
    assert (used, hits) == (folder, 0)
    assert misses > 0
    assert run(JAXFS_CACHE_DIR=folder) == (folder, 0, misses)


def test_default_folder(tmp_path):
    jaxs, own, home = (str(tmp_path / name) for name in ("jax", "own", "home"))
    assert run(JAX_COMPILATION_CACHE_DIR=jaxs, JAXFS_CACHE_DIR=own)[0] == jaxs
    assert run(JAXFS_CACHE_DIR="off") == ("None", 0, 0)
    if sys.platform == "linux":
        assert run(XDG_CACHE_HOME=home)[0] == str(tmp_path / "home" / "jaxfs")


def test_refuses_what_is_no_path(tmp_path):
    with pytest.raises(ValueError, match="folder must be a path, got 3"):
        jaxfs.enable_compilation_cache(3)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        jaxfs.enable_compilation_cache(tmp_path / "file" / "programs")
