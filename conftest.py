"""The conditions every test runs under: one thread a worker, x64, no silent promotion, typed calls.

Settings here precede the first import of JAX and of `jaxfs`, and pytest-xdist's workers inherit the
environment, so a bare `pytest` is as good as `make test`.
"""

import gc
import os
import shutil
import sys
from pathlib import Path

# Many tests start an interpreter. Where no bytecode is written, each compiles the sources of JAX,
# SciPy and scikit-learn anew, which takes longer than what is tested.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tracing makes very many small objects that live on: looking for rubbish among them at every 700th
# took a tenth of the time.
gc.set_threshold(100_000, 50, 100)

# pytest-xdist starts one worker a core. Let each also start one BLAS thread a core, and they fight
# for the cores, and are slower than one worker alone.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
_FLAGS = ["--xla_cpu_multi_thread_eigen=false"]
# Tests compile much and run little: without optimisation they take far less time.
# JAXFS_TEST_OPTIMIZED=1 tests the code as users compile it.
if os.environ.get("JAXFS_TEST_OPTIMIZED", "0") == "0":
    _FLAGS += [
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_FLAGS]).strip()
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are written, never shown

import jax  # noqa: E402
import pytest  # noqa: E402
import threadpoolctl  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

# A pytest plugin imports NumPy before this file is read, too early for the variables above.
threadpoolctl.threadpool_limits(limits=1)

jax.config.update("jax_enable_x64", True)
# Programs that did not change since the last run are read, not compiled: half the time.
_PROGRAMS = Path(__file__).parent / ".pytest_cache" / "jax"
jax.config.update("jax_compilation_cache_dir", str(_PROGRAMS))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_num_cpu_devices", 3)  # for jaxfs.distributed; everything else uses one
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Shapes in the annotations of the private arithmetic are checked at every call, under pytest only.
# Public functions check their own arguments: a type checker in front would hide their messages.
install_import_hook(
    ["jaxfs._numerics", "jaxfs.linalg._frechet", "jaxfs.linalg._divided_differences"],
    "beartype.beartype",
)


#: A script for type checkers, which is never run.
collect_ignore = ["tests/typing_script.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Empty the folder of compiled programs when it has grown large, once per run."""
    if not hasattr(config, "workerinput") and _PROGRAMS.exists():
        size = sum(file.stat().st_size for file in _PROGRAMS.iterdir())
        if size > 2**30:
            shutil.rmtree(_PROGRAMS)


def pytest_collection_finish() -> None:
    """Leave what is imported out of every later search for garbage."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests by score, so that one worker has those of a score and compiles it once."""
    seen: dict[object, int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        score = id(given.get("score", given.get("select")))
        return seen.setdefault(item.path, len(seen)), seen.setdefault((item.path, score), len(seen))

    items.sort(key=place)


_finished = 0


def pytest_runtest_teardown() -> None:
    """Close pictures, and forget compiled programs when there are very many.

    Each program holds several memory maps, of which Linux allows a process 65 530; one worker
    compiles enough programs in a run to pass that, and LLVM then aborts.
    """
    global _finished
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    _finished += 1
    if _finished % 20 == 0 and _memory_maps() > 50_000:
        jax.clear_caches()


def _memory_maps() -> int:
    """Number of memory maps of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps)
    except OSError:
        return 0
