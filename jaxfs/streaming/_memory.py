"""The memory that this process can still use. This module does not use JAX."""

import math
import os
from pathlib import Path

#: Files with the memory limit and the memory usage of a control group (cgroup), by version.
_VERSION_2 = "memory.max", "memory.current"
_VERSION_1 = "memory.limit_in_bytes", "memory.usage_in_bytes"


def free() -> float:
    """Return the number of free bytes, or infinity if it is unknown.

    This is the minimum over the machine, the container and the limits of the process.
    """
    return min(_of_machine(), of_container(), _of_process())


def _of_process() -> float:
    """Return the bytes that remain below the limit on the address space (`ulimit -v`)."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):  # the limit is unknown on this platform
        return math.inf
    if limit == resource.RLIM_INFINITY:
        return math.inf
    return float(max(0, limit - pages * resource.getpagesize()))


def _of_machine() -> float:
    try:
        found = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return 1024 * float(found["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:  # the free memory is unknown; assume that half of all memory is free
        return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def of_container(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> float:
    """Return the bytes that remain below the cgroup limits that Docker, Kubernetes or SLURM set.

    This is the minimum over the group of the process and all its parents.
    """
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except (OSError, ValueError):
        return math.inf
    rest = math.inf
    for _, controllers, path in (line for line in lines if len(line) == 3):
        is_version_1 = "memory" in controllers.split(",")
        if controllers and not is_version_1:  # another controller of version 1, such as `cpu`
            continue
        top, files = (root / "memory", _VERSION_1) if is_version_1 else (root, _VERSION_2)
        # Inside a container, `path` may be a path of the host. Then only the root folder exists.
        group = top / path.strip("/")
        folders = [folder for folder in (group, *group.parents) if folder.is_relative_to(top)]
        rest = min(rest, *(_rest(folder, *files) for folder in folders))
    return rest


def _rest(folder: Path, limit: str, used: str) -> float:
    """Return the bytes that remain in one group.

    Cached files count as free, because Linux can drop them.
    """
    try:
        most, now = (int((folder / name).read_text()) for name in (limit, used))
    except (OSError, ValueError):  # no such group, or the limit is `max`
        return math.inf
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        usage = dict(line.split(" ", 1) for line in lines)
    except (OSError, ValueError):
        usage = {}
    cached = usage.get("total_inactive_file", usage.get("inactive_file", "0"))
    return float(max(0, most - now + int(cached)))


def readable(number: float) -> str:
    """Return a number of bytes as text with a unit, such as `1.5 MB`."""
    power = min(4, max(0, int(math.log10(max(number, 1)) // 3)))
    return f"{number / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
