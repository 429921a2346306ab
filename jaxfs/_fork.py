"""A child of `fork` cannot use the JAX of its parent: its threads are not there, and a call waits
for them for ever. Such calls are refused.
"""

import os

from jax._src import xla_bridge

_MESSAGE = (
    "this process was forked after its parent had used JAX, and would wait for ever: start workers "
    'with multiprocessing.get_context("spawn") or joblib\'s backend "loky", or fork before JAX is '
    "used"
)
_used = False
_forked = False


def check() -> None:
    """Raise `RuntimeError` in a child that was forked from a process that had used JAX."""
    if _forked:
        raise RuntimeError(_MESSAGE)


def _before() -> None:
    global _used
    _used = xla_bridge.backends_are_initialized()


def _in_child() -> None:
    global _forked
    _forked = _used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
