"""Calls in worker processes: they work after `spawn` and in loky; after `fork` they raise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SCRIPT = """
import sys, warnings
import joblib, numpy as np
warnings.simplefilter("ignore")  # JAX warns of every fork
import jax, jaxfs
from jaxfs.estimators import FilterSelector

x = np.random.default_rng(0).normal(size=(20, 4))
y = np.arange(20) % 2

def score(kind):
    if kind == "function":
        return np.asarray(jaxfs.anova_score(x, y, num_classes=2)).tolist()
    return FilterSelector().fit(x.astype(np.float32), y).scores_.tolist()

if __name__ == "__main__":
    jax.numpy.ones(3).block_until_ready()  # JAX is used, if not by jaxfs
    for kind in ("function", "estimator"):
        try:
            found = joblib.Parallel(n_jobs=2, backend=sys.argv[1])(
                joblib.delayed(score)(kind) for _ in range(2)
            )
            print(kind, np.allclose(found, score(kind), rtol=1e-6))
        except RuntimeError as error:
            print(kind, error)
"""


def run(backend: str) -> list[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JOBLIB_START_METHOD": "fork"}
    if backend == "loky":
        del environment["JOBLIB_START_METHOD"]
    command = [sys.executable, "-c", SCRIPT, backend]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_refuses():
    lines = run("multiprocessing")
    assert len(lines) == 2
    assert all("forked after its parent had used JAX" in line and "loky" in line for line in lines)


@pytest.mark.thorough
def test_loky_workers_answer():
    assert run("loky") == ["function True", "estimator True"]
