"""Cache of compiled programs on disk, so that later processes do not compile them again."""

import os

import jax

from jaxfs import _checks

__all__ = ["enable_compilation_cache"]


def enable_compilation_cache(folder: str | os.PathLike[str] | None = None) -> str | None:
    """Store compiled programs in a folder, so that later processes can load them.

    The first call of a function in a process takes seconds, nearly all of them for compilation.
    Loading a stored program takes a small part of this time. Call this function once, at the start
    of a script or notebook. The cache is JAX's own (`jax_compilation_cache_dir`), set to keep small
    programs too. It also stores the other functions that the process compiles.

    **Arguments**

    - `folder`: created if it does not exist. If JAX already has a cache folder, the default is to
      change nothing. Otherwise the default is the folder in the environment variable
      `JAXFS_CACHE_DIR`, or else `jaxfs` in the user's cache folder (`~/.cache/jaxfs`,
      `~/Library/Caches/jaxfs` or `%LOCALAPPDATA%/jaxfs`). `JAXFS_CACHE_DIR=off` disables the
      default.

    **Returns** the folder, or `None` if no folder is used, because the default is disabled or the
    user has no home folder.

    A stored program is valid for one version of JAX, one kind of processor and one set of flags.
    Programs are never removed; the folder may be deleted at any time. JAX runs the programs that it
    finds, so do not use a folder to which others may write.

    **Raises** `OSError` if the folder cannot be created.
    """
    import platformdirs
    from jax.experimental.compilation_cache import compilation_cache

    if folder is None:
        named = os.environ.get("JAXFS_CACHE_DIR")
        if named is not None and named.strip().lower() in ("", "0", "off", "no"):
            return None
        if current := jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
            return str(current)
        folder = named or platformdirs.user_cache_path("jaxfs", appauthor=False, opinion=False)
        if not named and not os.path.isabs(folder):  # the user has no home folder
            return None
    try:
        folder = os.path.expanduser(os.fsdecode(folder))
    except TypeError as error:
        raise _checks.fail("folder", "a path", repr(folder)) from error
    os.makedirs(folder, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # JAX reads the folder only at its first compilation
    return folder
