"""Files are written whole or not at all, and never over another unless told to; no JAX."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from jaxfs.cli.tables._columns import Refusal, printable, quote

#: Files that are being written, which an interrupt removes.
pending: list[Path] = []


def cache_folder() -> Path | None:
    """Where compiled programs are kept: `JAXFS_CACHE_DIR` (`off`: nowhere), or the user's cache."""
    chosen = os.environ.get("JAXFS_CACHE_DIR")
    if chosen is not None:
        return None if chosen.strip().lower() in ("", "0", "off", "no") else Path(chosen)
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "jaxfs"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "jaxfs"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "jaxfs"


def check_outputs(paths: Iterable[Path | None], *, force: bool, source: Path | None = None) -> None:
    """Refuse before the work what could not be written after it."""
    seen: list[Path] = []
    for path in paths:
        if path is None:
            continue
        real = path.resolve()
        if any(_same(real, other) for other in seen):
            raise Refusal(f"two outputs have one name, {quote(path)}")
        seen.append(real)
        if source is not None and _same(real, source.resolve()):
            raise Refusal(f"{quote(path)} is the table itself")
        if path.is_dir():
            raise Refusal(f"{quote(path)} is a folder")
        if not real.parent.is_dir():
            raise Refusal(f"there is no folder {quote(real.parent)} to write {quote(path.name)} in")
        _check_absent(path, force)


def _same(a: Path, b: Path) -> bool:
    """One file, also by two names of it (links, letters in another case)."""
    return a == b or (a.exists() and b.exists() and a.samefile(b))


def _check_absent(path: Path, force: bool) -> None:
    if not force and os.path.lexists(path):
        raise Refusal(f"{quote(path)} exists; --force overwrites it")


class Staged:
    """Files written aside, and put in place together when all are done.

        with Staged(force=False) as staged:
            staged.path(out).write_text(…)

    On an exception, Ctrl-C included, nothing is left behind and nothing old is touched.
    """

    def __init__(self, *, force: bool) -> None:
        self._force = force
        self._pending: list[tuple[Path, Path]] = []

    def __enter__(self) -> "Staged":
        return self

    def path(self, final: Path) -> Path:
        """Where to write what shall become `final`: the same folder, the same ending."""
        try:
            handle, name = tempfile.mkstemp(final.suffix, f".{final.stem[:40]}-", final.parent)
        except OSError as error:
            raise Refusal(f"{quote(final)} cannot be written: {error.strerror}") from error
        os.close(handle)
        pending.append(Path(name))
        self._pending.append((Path(name), final))
        return Path(name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, OSError) and self._pending:  # the system names no file then
                final = self._pending[-1][1]
                reason = error.strerror or error
                raise Refusal(f"'{printable(final, 500)}' cannot be written: {reason}") from error
            if kind is None:
                for _, final in self._pending:
                    _check_absent(final, self._force)
                for temporary, final in self._pending:
                    self._place(temporary, final)
        finally:
            for temporary, _ in self._pending:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
                pending.remove(temporary)

    def _place(self, temporary: Path, final: Path) -> None:
        temporary.chmod(0o666 & ~_umask())  # made readable for its owner alone
        if not self._force:
            try:
                os.link(temporary, final)  # unlike a rename, fails if someone else was faster
                return
            except FileExistsError as error:
                raise Refusal(f"{quote(final)} exists; --force overwrites it") from error
            except OSError:  # a file system without links
                _check_absent(final, self._force)
        temporary.replace(final)


def _umask() -> int:
    """The mask can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
