"""Locks: processes that load a file, change it and save it again take turns."""

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

# Seconds between two attempts.
PAUSE = 0.02


@contextlib.contextmanager
def lock(path: str | os.PathLike[str], timeout: float = 10.0) -> Iterator[None]:
    """Keep other processes from updating a file between its `load` and its `save`.

    Reading needs no lock: a file is always whole. Only those who ask for the lock wait for each other.

    Parameters
    ----------
    path
        The file of the model. As long as the lock is held there is an empty file beside it, which stays on
        Windows only.
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
    if is_stream(path):  # it is written into, and holds nothing that others could change meanwhile
        yield
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():  # or else it would be made
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
    """What is in the way of a lock, and what to do about it."""
    file = lock_of(target)
    if os.path.lexists(file):  # it is there, and neither can be opened nor locked
        return f"its lock {file} cannot be taken: {error.strerror}; if nobody updates the model, remove it"
    return f"its folder cannot be written: {error.strerror}; choose another folder"


def lock_of(target: Path) -> Path:
    """The file that stands for the lock on another."""
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
        """Hold a lock on a file, and remove the file before anybody else can hold it."""
        deadline = time.monotonic() + timeout
        while (descriptor := locked(file)) is None:
            if time.monotonic() >= deadline:
                raise Timeout(str(file))
            time.sleep(PAUSE)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # it may be another user's; then it stays
                file.unlink()
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also of processes that have inherited it
            os.close(descriptor)

    def locked(file: Path) -> int | None:
        """A locked descriptor of the file of this name, or None while somebody else holds it."""
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
            os.close(descriptor)  # whoever held it has removed it: a lock on it keeps nobody out

    def opened(file: Path) -> int:
        """A descriptor of the file of this name, which is made if it is not there.

        The file of another user, whose process may have been killed, can be locked as long as it can be read:
        it holds nothing, so it is made readable for all whom the folder lets in.
        """
        while True:
            with contextlib.suppress(FileNotFoundError):
                try:  # to write, if that is allowed: network disks may lock no other
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
