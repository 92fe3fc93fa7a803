"""The one writer of files: whatever happens, a path holds all of the old content or all of the new."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from atlas_splines.files.errors import StorageError

__all__ = ["replace_file", "whole_file", "write_whole"]


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to be written; it takes its place when the block ends without an error.

    Until it is on the disk it is a temporary file in the same folder, which goes away if anything fails. A
    file that was there keeps its permissions, and a symbolic link stays one.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    OSError
        It cannot be written; what was there is still there.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "letter.txt"
    >>> with whole_file(path) as file:
    ...     _ = file.write(b"Dear reader")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'Dear reader'
    """
    target = Path(os.path.realpath(path))  # of a symbolic link, replace what it points to
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut."""
    if os.name == "nt":
        return  # Windows has no such call
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write a file all at once, or raise an OSError and leave what was there."""
    with whole_file(path) as file:
        for part in parts:
            file.write(part)


def replace_file(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write a file all at once, or raise a StorageError that names it and leave what was there."""
    try:
        write_whole(path, *parts)
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror}; make room or choose another folder"
        ) from error
