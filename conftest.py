"""Settings of all tests: one thread per worker, x64, no silent promotion, checked annotations.

This file makes its settings before the first import of JAX and of `jaxfs`. The workers of
pytest-xdist inherit the environment. A plain `pytest` therefore has the settings of `make test`.
"""

import gc
import os
import shutil
import sys
from pathlib import Path

# Many tests start an interpreter. Without bytecode files, each interpreter would compile the
# sources of JAX, SciPy and scikit-learn again, which takes longer than the test itself.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tracing creates very many small objects that stay alive. By default, Python searches for garbage
# after every 700 new objects. These searches took a tenth of the time.
gc.set_threshold(100_000, 50, 100)

# pytest-xdist starts one worker per core. If each worker also started one BLAS thread per core, the
# threads would compete for the cores, and all workers together would be slower than a single one.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
_FLAGS = ["--xla_cpu_multi_thread_eigen=false"]
# Most of the time of a test is compilation, so the tests compile without optimisation.
# JAXFS_TEST_OPTIMIZED=1 compiles with optimisation, as users do.
if os.environ.get("JAXFS_TEST_OPTIMIZED", "0") == "0":
    _FLAGS += [
        "--xla_backend_optimization_level=0",
        "--xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_FLAGS]).strip()
os.environ.setdefault("MPLBACKEND", "Agg")  # plots are written to files, never shown

import jax  # noqa: E402
import pytest  # noqa: E402
import threadpoolctl  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

# A pytest plugin imports NumPy before this file is read, so the variables above are set too late.
threadpoolctl.threadpool_limits(limits=1)

jax.config.update("jax_enable_x64", True)
# Programs that did not change since the last run are loaded from a cache. This halves the time.
_PROGRAMS = Path(__file__).parent / ".pytest_cache" / "jax"
jax.config.update("jax_compilation_cache_dir", str(_PROGRAMS))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_num_cpu_devices", 3)  # three for jaxfs.distributed; other tests use one
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# In these private modules, every call is checked against the shapes in the annotations. Public
# functions check their own arguments; a type checker would hide their error messages.
install_import_hook(
    ["jaxfs._numerics", "jaxfs.linalg._frechet", "jaxfs.linalg._divided_differences"],
    "beartype.beartype",
)


#: A script for type checkers, which is never run.
collect_ignore = ["tests/typing_script.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Delete the cache of compiled programs if it is larger than 1 GiB, once per run."""
    if not hasattr(config, "workerinput") and _PROGRAMS.exists():
        size = sum(file.stat().st_size for file in _PROGRAMS.iterdir())
        if size > 2**30:
            shutil.rmtree(_PROGRAMS)


def pytest_collection_finish() -> None:
    """Exclude all imported objects from later garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by score, so that one worker runs all tests of a score, compiled once."""
    seen: dict[object, int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        score = id(given.get("score", given.get("select")))
        return seen.setdefault(item.path, len(seen)), seen.setdefault((item.path, score), len(seen))

    items.sort(key=place)


_finished = 0


def pytest_runtest_teardown() -> None:
    """Close plots, and drop the compiled programs if there are very many.

    Each program holds several memory maps, and Linux allows 65 530 maps per process. One worker
    compiles enough programs in a run to exceed this limit, and LLVM then aborts the process.
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
