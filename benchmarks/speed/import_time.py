"""Claim: `import jaxfs` takes little longer than importing the libraries that jaxfs needs.

    python -m benchmarks.speed.import_time

The script prints CPU seconds of a new process, best of five, with bytecode already written. It
measures the time until JAX, Equinox and Optax are imported, then until `jaxfs` is imported, and
then until each sub-package that loads only when used is imported.
"""

import os
import subprocess
import sys

from benchmarks.timing import finish, verdict

#: Maximum time of `import jaxfs`, divided by the time of `import jax, equinox, optax`.
BAR = 1.1
LIBRARIES = "jax, equinox, optax"


def seconds(*imports: str) -> list[float]:
    """CPU time of a new process after each import, best of five."""
    clock = "print(time.process_time())"
    code = "import time; " + "; ".join(f"import {names}; {clock}" for names in imports)
    # Installed packages have bytecode. Without bytecode every process would compile the sources.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def once() -> list[float]:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [float(line) for line in done.stdout.split()]

    once()
    return [min(times) for times in zip(*(once() for _ in range(5)), strict=True)]


def main() -> None:
    base, package = seconds(LIBRARIES, "jaxfs")
    print(f"import {LIBRARIES}: {base:.3f}")
    print(f"import jaxfs: {package:.3f}, {verdict(package / base, BAR)} times as long")
    for name in ("distributed", "streaming", "plot", "estimators"):
        *_, late = seconds(LIBRARIES, "jaxfs", f"jaxfs.{name}")
        print(f"import jaxfs.{name}: {late:.3f}")
    finish()


if __name__ == "__main__":
    main()
