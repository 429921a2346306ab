"""Timing on a shared machine: ratios within one run, best of several calls, without compilation."""

import sys
import time
from collections.abc import Callable
from typing import Any

import jax


def best(*calls: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Best wall-clock time of each call in seconds, after one call of each to compile.

    The calls alternate, so that a slow phase of the machine affects all of them.
    """
    for call in calls:
        jax.block_until_ready(call())
    times = [float("inf")] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            jax.block_until_ready(call())
            times[i] = min(times[i], time.perf_counter() - start)
    return times


_missed: list[str] = []


def verdict(value: float, bar: float) -> str:
    """The text `1.23 (bar 1.30)`, with a mark if the value exceeds the bar."""
    text = f"{value:5.2f} (bar {bar:.2f}{'' if value <= bar else ', MISSED'})"
    if not value <= bar:  # NaN is a miss
        _missed.append(text)
    return text


def at_least(value: float, bar: float) -> str:
    """The text `3.1 (bar ≥ 2.0)`, with a mark if the value is below the bar."""
    text = f"{value:.1f} (bar ≥ {bar:.1f}{'' if value >= bar else ', MISSED'})"
    if not value >= bar:
        _missed.append(text)
    return text


def finish() -> None:
    """Exit with 1 if a bar was missed."""
    if _missed:
        sys.exit(f"{len(_missed)} bars missed")
