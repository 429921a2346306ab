"""The conditions every test runs under: one thread a worker, x64, no silent promotion, typed calls.

Settings here precede the first import of JAX and of `jaxfs`, and pytest-xdist's workers inherit the
environment, so a bare `pytest` is as good as `make test`.
"""

import os

# pytest-xdist starts one worker a core. Let each also start one BLAS thread a core, and they fight
# for the cores: a 600 × 600 `eigh` then takes 15 times as long.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
if _ONE_THREAD not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are written, never shown

import jax  # noqa: E402
import threadpoolctl  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

# A pytest plugin imports NumPy before this file is read, too early for the variables above.
threadpoolctl.threadpool_limits(limits=1)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Shapes in the annotations of the private arithmetic are checked at every call, under pytest only.
# Public functions check their own arguments: a type checker in front would hide their messages.
install_import_hook(["jaxfs._numerics", "jaxfs._spectral", "jaxfs._functions"], "beartype.beartype")
