"""Atomic writing by a temporary file, fsync and rename; errors that name the file."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

__all__ = [
    "LockedError",
    "StorageError",
    "is_stream",
    "naming",
    "replace_file",
    "replace_files",
    "whole_file",
    "write_whole",
]


class StorageError(ValueError):
    """A file could not be read or written; the message has its name, the reason and what to do.

    Examples
    --------
    >>> from atlas_splines import load
    >>> load("pyproject.toml")
    Traceback (most recent call last):
    ...
    atlas_splines.files.writer.StorageError: pyproject.toml is not an atlas-splines file; check the name
    """


class LockedError(StorageError):
    """Another process is changing the file."""


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of reading to a `StorageError` that names the file."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the name") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check its permissions") from error
    except (ValueError, TypeError, ArithmeticError) as error:
        raise StorageError(
            f"{path} cannot be loaded: {error}; restore it from a copy, or save the model again"
        ) from error
    except MemoryError as error:
        raise StorageError(f"{path} does not fit into memory; load it on a larger machine") from error


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to be written; it replaces the old one when the block ends without an error.

    Until it is on the disk it is a temporary file in the same folder, which is removed if anything fails. A
    replaced file keeps its permissions, and a symbolic link stays one. A stream such as /dev/null or a pipe
    is not replaced: everything is written to it at the end.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    OSError
        It cannot be written; the old file is unchanged.

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
    if is_stream(path):
        with tempfile.TemporaryFile() as file:
            yield cast(BinaryIO, file)
            file.seek(0)
            with open(path, "wb") as stream:
                shutil.copyfileobj(file, stream)
        return
    with _drafted(path) as draft:
        with open(draft.temporary, "r+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.commit()
    draft.sync()


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a character device or a pipe.

    Examples
    --------
    >>> is_stream(os.devnull), is_stream("pyproject.toml"), is_stream("missing.txt")
    (True, False, False)
    """
    try:
        mode = os.stat(path).st_mode  # follows links: the target of /dev/stdout may have no name
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


@dataclass(frozen=True)
class _Draft:
    """A temporary file beside its target."""

    temporary: Path
    target: Path

    def commit(self) -> None:
        """Replace the target, atomically."""
        os.replace(self.temporary, self.target)

    def sync(self) -> None:
        """Sync the folder, so that the new name survives a power cut."""
        if os.name == "nt":
            return  # Windows has no such call
        descriptor = os.open(self.target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _drafted(path: str | os.PathLike[str]) -> Iterator[_Draft]:
    """An empty draft with the permissions of the target; without a commit it is removed."""
    target = Path(os.path.realpath(path))  # the target of a symbolic link is replaced
    mode = target.stat().st_mode if target.exists() else stat.S_IFREG
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # replacing a folder fails anyway
        raise OSError(errno.EINVAL, "it is neither a file nor a stream")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb"):
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(mode))
        yield _Draft(temporary, target)
    finally:  # also on Ctrl-C
        temporary.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write a file atomically, or raise an OSError and leave the old one."""
    with whole_file(path) as file:
        file.writelines(parts)


def replace_file(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write a file atomically, or raise a StorageError that names it and leave the old one."""
    with _naming(path):
        write_whole(path, *parts)


def replace_files(contents: Mapping[Path, Sequence[bytes | memoryview]]) -> None:
    """Write several files, all or none; a StorageError names the one that could not be written.

    All are on the disk before the first is replaced, and copies of the old ones are kept until the last is:
    if one fails, those before it are restored. A power cut in between leaves the first ones new, in order.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> replace_files({folder / "a": [b"1"], folder / "missing" / "b": [b"2"]})
    Traceback (most recent call last):
    ...
    atlas_splines.files.writer.StorageError: ... could not be written: No such file or directory; ...
    >>> list(folder.iterdir())
    []
    """
    files = {path: parts for path, parts in contents.items() if not is_stream(path)}
    with contextlib.ExitStack() as drafts, contextlib.ExitStack() as undo:
        written = {path: drafts.enter_context(_written(path, parts)) for path, parts in files.items()}
        for path in contents.keys() - files.keys():
            replace_file(path, *contents[path])
        for path, draft in written.items():
            with _naming(path):
                put_back = drafts.enter_context(_kept(draft.target))
                draft.commit()
                undo.callback(put_back)
        undo.pop_all()
    for draft in written.values():
        draft.sync()


@contextlib.contextmanager
def _written(path: Path, parts: Sequence[bytes | memoryview]) -> Iterator[_Draft]:
    """A draft of a file that is on the disk, or a StorageError that names the file."""
    with contextlib.ExitStack() as stack:
        with _naming(path):
            draft = stack.enter_context(_drafted(path))
            with open(draft.temporary, "r+b") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
        yield draft


@contextlib.contextmanager
def _kept(target: Path) -> Iterator[Callable[[], None]]:
    """Keep a copy of the target; the function restores it."""
    if not target.exists():
        yield partial(target.unlink, missing_ok=True)
        return
    with _drafted(target) as draft:
        shutil.copyfile(target, draft.temporary)
        yield draft.commit


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of writing to a `StorageError` that names the file."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror}; make room or choose another folder"
        ) from error
