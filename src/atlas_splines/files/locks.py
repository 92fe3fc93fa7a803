"""Locks: processes that load a file, change it and save it again take turns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from atlas_splines.files.errors import LockedError, StorageError

__all__ = ["lock"]


@contextlib.contextmanager
def lock(path: str | os.PathLike[str], timeout: float = 10.0) -> Iterator[None]:
    """Keep other processes from updating a file between its `load` and its `save`.

    Reading needs no lock: a file is always whole. Only those who ask for the lock wait for each other.

    Parameters
    ----------
    path
        The file of the model; the lock is an empty file beside it.
    timeout
        Seconds to wait for others.

    Examples
    --------
    >>> import tempfile
    >>> from atlas_splines import Atlas, lock, save
    >>> path = tempfile.mkdtemp() + "/model.atlas"
    >>> with lock(path):
    ...     save(Atlas(inputs=1), path)
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():  # or else it would be made
        raise StorageError(f"{path} cannot be locked: there is no folder {target.parent}; check the name")
    holder = FileLock(target.with_name(f".{target.name}.lock"), timeout=timeout)
    try:
        holder.acquire()
    except Timeout:
        raise LockedError(f"another process is updating {path}; try again, or wait longer") from None
    except OSError as error:
        reason = f"its folder cannot be written: {error.strerror}"
        raise StorageError(f"{path} cannot be changed: {reason}; choose another folder") from error
    try:
        yield
    finally:
        holder.release()
