"""Free memory of this process, given the machine, the container and its limits; no JAX."""

import math
import os
from pathlib import Path

#: Files of control groups, of version 2 and 1, with the limit and the usage.
_VERSION_2 = "memory.max", "memory.current"
_VERSION_1 = "memory.limit_in_bytes", "memory.usage_in_bytes"


def free() -> float:
    """The number of free bytes; infinite if it is not known."""
    return min(_of_machine(), of_container(), _of_process())


def _of_process() -> float:
    """Bytes left of the limit of the address space (`ulimit -v`)."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):  # not on this platform
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
    try:
        return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def of_container(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> float:
    """Bytes left by control groups (Docker, Kubernetes, SLURM): the minimum up to their root."""
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except (OSError, ValueError):
        return math.inf
    rest = math.inf
    for _, controllers, path in (line for line in lines if len(line) == 3):
        first_version = "memory" in controllers.split(",")
        if controllers and not first_version:
            continue
        top, files = (root / "memory", _VERSION_1) if first_version else (root, _VERSION_2)
        # Inside a container the path may be that of the host. Then only the root exists.
        group = top / path.strip("/")
        folders = [folder for folder in (group, *group.parents) if folder.is_relative_to(top)]
        rest = min(rest, *(_rest(folder, *files) for folder in folders))
    return rest


def _rest(folder: Path, limit: str, used: str) -> float:
    """Bytes left by one group. Its usage includes cached files, which can be dropped."""
    try:
        most, now = (int((folder / name).read_text()) for name in (limit, used))
    except (OSError, ValueError):  # no such group, or the limit is `max`
        return math.inf
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        stored = dict(line.split(" ", 1) for line in lines)
    except (OSError, ValueError):
        stored = {}
    files = stored.get("total_inactive_file", stored.get("inactive_file", "0"))
    return float(max(0, most - now + int(files)))


def readable(number: float) -> str:
    """A number of bytes with a unit, such as `1.5 MB`."""
    power = min(4, max(0, int(math.log10(max(number, 1)) // 3)))
    return f"{number / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
