"""File locks: mutual exclusion of processes that load a file, change it and save it again."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from atlas_splines.files.writer import LockedError, StorageError, is_stream

__all__ = ["lock"]

# Seconds between two attempts; not benchmarked.
PAUSE = 0.02


@contextlib.contextmanager
def lock(path: str | os.PathLike[str], timeout: float = 10.0) -> Iterator[None]:
    """Keep other processes from updating a file between its `load` and its `save`.

    Reading needs no lock, as files are replaced atomically. The lock is advisory.

    Parameters
    ----------
    path
        The file of the model. While the lock is held, an empty file is beside it; on Windows it stays.
    timeout
        Seconds to wait for others.

    Examples
    --------
    >>> import os, tempfile
    >>> from atlas_splines import Atlas, lock, save
    >>> folder = tempfile.mkdtemp()
    >>> with lock(folder + "/model.atlas"):
    ...     save(Atlas(inputs=1), folder + "/model.atlas")
    >>> os.listdir(folder)
    ['model.atlas']
    """
    if is_stream(path):  # it holds nothing that others could change
        yield
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():  # otherwise it would be created
        raise StorageError(f"{path} cannot be locked: there is no folder {target.parent}; check the name")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(lock_of(target), timeout))
        except Timeout:
            raise LockedError(f"another process is updating {path}; try again, or wait longer") from None
        except OSError as error:
            raise StorageError(f"{path} cannot be changed: {reason_of(error, target)}") from error
        yield


def reason_of(error: OSError, target: Path) -> str:
    """Why a lock cannot be taken, and what to do."""
    file = lock_of(target)
    if os.path.lexists(file):  # it exists, and can be neither opened nor locked
        return f"its lock {file} cannot be taken: {error.strerror}; if nobody updates the model, remove it"
    return f"its folder cannot be written: {error.strerror}; choose another folder"


def lock_of(target: Path) -> Path:
    """The lock file of a file."""
    return target.with_name(f".{target.name}.lock")


if sys.platform == "win32":

    @contextlib.contextmanager
    def held(file: Path, timeout: float) -> Iterator[None]:
        """Hold a lock on a file, which stays."""
        with FileLock(file, timeout=timeout):
            yield

else:
    import fcntl

    @contextlib.contextmanager
    def held(file: Path, timeout: float) -> Iterator[None]:
        """Hold a lock on a file, and remove the file before releasing it."""
        deadline = time.monotonic() + timeout
        while (descriptor := locked(file)) is None:
            if time.monotonic() >= deadline:
                raise Timeout(str(file))
            time.sleep(PAUSE)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # that of another user stays
                file.unlink()
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also in processes that have inherited it
            os.close(descriptor)

    def locked(file: Path) -> int | None:
        """A locked descriptor of the file of this name, or None while another process holds it."""
        while True:
            descriptor = opened(file)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if has_name(descriptor, file):
                    return descriptor
            except OSError as error:
                os.close(descriptor)
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    return None
                raise
            os.close(descriptor)  # its holder has removed it: a lock on it excludes no one

    def opened(file: Path) -> int:
        """A descriptor of the file of this name, which is created if it does not exist.

        The file of another user, whose process may have been killed, can be locked if it can be read: it is
        empty, so it is created readable for everyone.
        """
        while True:
            with contextlib.suppress(FileNotFoundError):
                try:  # to write, if allowed: network disks may require it for locks
                    return os.open(file, os.O_RDWR | os.O_NOFOLLOW)
                except PermissionError:
                    return os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
                os.fchmod(descriptor, 0o644)  # whatever the umask
                return descriptor

    def has_name(descriptor: int, file: Path) -> bool:
        """Whether the file of this name is still the one that was opened."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(file, follow_symlinks=False))
        except FileNotFoundError:
            return False
