"""The examples run with default settings and reach the results that they describe."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.test_readme import quoted, read

ROOT = Path(__file__).parents[1]


def run(name: str, folder: Path, *arguments: str, **environment: str) -> str:
    """The output of an example, run with JAX's default settings.

    By default the example is compiled without optimisation, as in all tests. `XLA_FLAGS=""`
    compiles it with optimisation, as for users.
    """
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        cwd=folder,
        env={
            "JAXFS_CACHE_DIR": "off",
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "120",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def percentages(text: str) -> dict[str, float]:
    """The percentage in every line of the form `name …  83.3%`, without table borders."""
    lines = re.findall(r"^[\s│]*(\S.*?)\s+[│ ]*([\d.]+)%", text, re.MULTILINE)
    return {name.rstrip(" │"): float(value) for name, value in lines}


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def test_every_example_has_a_test():
    tested = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert tested == {path.name for path in (ROOT / "examples").glob("*.py")}


def test_demo(tmp_path):
    found = percentages(run("demo.py", tmp_path, XLA_FLAGS=""))
    chosen, random, everything = found.values()
    assert chosen > 97
    assert chosen > random + 3
    assert everything > 97
    assert is_picture(tmp_path / "demo.png")
    accuracies = quoted(read("README.md"), demo=True)
    assert accuracies
    assert set(map(float, accuracies)) <= set(found.values())


def test_digits(tmp_path):
    out = run("digits.py", tmp_path, "3", "8", "--output", "pixels.png")
    assert len(re.findall(r"\(\d, \d\)", out)) == 10
    assert is_picture(tmp_path / "pixels.png")


def test_encoder(tmp_path):
    out = run("encoder.py", tmp_path)
    before, after = map(float, re.findall(r"([\d.]+) (?:before|after)", out))
    assert after > 5 * before
    found = percentages(out)
    trained = found.pop("trained encoder")
    assert len(found) == 3
    assert trained > max(found.values()) + 5


def test_stability(tmp_path):
    out = run("stability.py", tmp_path, "--embedded", "--output", "ranks.png")
    assert is_picture(tmp_path / "ranks.png")
    found = dict(re.findall(r"(ManiFeSt|ReliefF|ANOVA)\s+│\s+([\d.]+) │", out))
    assert len(found) == 3
    assert all(0.5 < float(value) <= 1 for value in found.values())
    frequencies = percentages(out)
    assert frequencies["worst concave points"] == 100


def test_pipeline(tmp_path):
    out = run("pipeline.py", tmp_path, "--folds", "2")
    every, searched = percentages(out).values()
    assert min(every, searched) > 85
    change, doubt = map(float, re.findall(r"change: ([+-][\d.]+) points, .* ([\d.]+)", out)[0])
    assert abs(change - (searched - every)) < 0.2
    # The printed conclusion must agree with the numbers.
    assert ("Selection improves on" in out) <= (change > doubt)
    assert ("Selection does worse" in out) <= (change < -doubt)
    assert out.count("Selection") == 1
