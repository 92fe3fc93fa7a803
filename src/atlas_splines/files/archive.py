"""Archives: one file with a JSON header and named arrays, written all at once and checked before use.

docs/format.md describes the file. What the header and the arrays mean is told in `storage`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, BinaryIO, NoReturn

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as deserialize
from safetensors.numpy import save as serialize

from atlas_splines.core.checks import check_size

__all__ = [
    "Archive",
    "Fields",
    "LockedError",
    "StorageError",
    "lock",
    "naming",
    "read_archive",
    "replace_file",
    "write_archive",
]

FORMAT, VERSION = "atlas-splines", 1
ENVELOPE = ("format", "version", "sha256", "kind", "header")
DTYPES = ("F32", "F64", "I32", "I64", "U8", "BOOL")
MOST_HEADER = 32 * 2**20  # bytes, enough for a log of some ten thousand updates,
MOST_VALUES = 700_000  # and so are these; many small values take far more memory than their text
UNSEALED = b"0" * 64  # stands in the place of the digest while it is computed


class StorageError(ValueError):
    """A file could not be read or written; the message names it, and says what is wrong and what to do.

    Examples
    --------
    >>> from atlas_splines import load
    >>> load("pyproject.toml")
    Traceback (most recent call last):
    ...
    atlas_splines.files.archive.StorageError: pyproject.toml is not an atlas-splines file; check the name
    """


class LockedError(StorageError):
    """Another process is changing the file."""


@dataclass
class Archive:
    """What a file holds, before it is turned into a model.

    Attributes
    ----------
    kind
        What it is: one of `storage.KINDS`.
    header
        Anything that JSON can hold, by name.
    tensors
        Arrays by name.
    taken
        Names of the tensors that were asked for.
    """

    kind: str
    header: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    taken: set[str] = field(default_factory=set)

    def tensor(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """Return a tensor of finite numbers with that dtype and shape, where None is any size."""
        if name not in self.tensors:
            raise ValueError(f"tensor {name!r} is missing")
        array = self.tensors[name]
        if array.dtype.name != dtype:
            raise ValueError(f"tensor {name!r} has dtype {array.dtype.name} instead of {dtype}")
        fits = len(shape) == array.ndim
        if not fits or any(want not in (None, size) for want, size in zip(shape, array.shape, strict=True)):
            wanted = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
            raise ValueError(f"tensor {name!r} has shape {array.shape} instead of {wanted}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"tensor {name!r} holds {array[~np.isfinite(array)][0]}")
        self.taken.add(name)
        return array

    def check_all_taken(self) -> None:
        """Refuse tensors that nothing asked for."""
        left = sorted(self.tensors.keys() - self.taken)
        if left:
            raise ValueError(f"tensor {left[0]!r} has no place in it")


class Fields:
    """A JSON object with exactly these fields, each checked as it is read.

    Examples
    --------
    >>> Fields({"rows": -1}, "update 3", ["rows"]).whole("rows")
    Traceback (most recent call last):
    ...
    ValueError: 'rows' of update 3 must be at least 0, not -1
    """

    def __init__(self, value: object, name: str, fields: Collection[str]) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be a JSON object, not {shortened(value)}")
        for field_name in fields:
            if field_name not in value:
                raise ValueError(f"{field_name!r} of {name} is missing")
        for field_name in value:
            if field_name not in fields:
                raise ValueError(f"{shortened(field_name)} has no place in {name}")
        self.value, self.name = value, name

    def _refuse(self, key: str, wanted: str) -> NoReturn:
        raise ValueError(f"{key!r} of {self.name} must be {wanted}, not {shortened(self.value[key])}")

    def whole(self, key: str, least: int = 0, most: int = 2**53) -> int:
        """Return a whole number."""
        if type(self.value[key]) is not int:
            self._refuse(key, "a whole number")
        return check_size(f"{key!r} of {self.name}", self.value[key], least=least, most=most)

    def number(self, key: str, least: float = -math.inf) -> float:
        """Return a finite number of at least so much."""
        value = self.value[key]
        if type(value) not in (int, float) or not least <= value <= np.finfo(np.float64).max:
            self._refuse(key, "a finite number" if least == -math.inf else f"a number of at least {least}")
        return float(value)

    def text(self, key: str, pattern: str = "") -> str:
        """Return a text that matches a pattern as a whole."""
        value = self.value[key]
        if not isinstance(value, str) or (pattern and not re.fullmatch(pattern, value)):
            self._refuse(key, f"a text like {pattern}" if pattern else "a text")
        return value

    def choice(self, key: str, options: Collection[str]) -> str:
        """Return one of some texts."""
        if not isinstance(self.value[key], str) or self.value[key] not in options:
            self._refuse(key, "one of " + ", ".join(map(repr, options)))
        return str(self.value[key])

    def flag(self, key: str) -> bool:
        """Return true or false."""
        if not isinstance(self.value[key], bool):
            self._refuse(key, "true or false")
        return bool(self.value[key])

    def time(self, key: str) -> datetime:
        """Return a time with its offset from UTC."""
        try:
            time = datetime.fromisoformat(self.text(key))
        except ValueError:
            self._refuse(key, "a time")
        return time if time.tzinfo is not None else self._refuse(key, "a time with its offset from UTC")

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        if not isinstance(self.value[key], list):
            self._refuse(key, "a list")
        return list(self.value[key])

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a JSON object."""
        if not isinstance(self.value[key], dict):
            self._refuse(key, "a JSON object")
        return dict(self.value[key])

    def is_null(self, key: str) -> bool:
        """Whether a field was left open."""
        return self.value[key] is None


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say which file it was, whatever is wrong with it."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the name") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check its permissions") from error
    except (ValueError, TypeError) as error:
        raise StorageError(
            f"{path} cannot be loaded: {error}; restore it from a copy, or save the model again"
        ) from error
    except MemoryError as error:
        raise StorageError(f"{path} does not fit into memory; load it on a larger machine") from error


# --- reading ------------------------------------------------------------------------------------------


def read_archive(path: str | os.PathLike[str]) -> Archive:
    """Read a file and check that it is whole; what it says is for its kind to check.

    Nothing larger than the file is allocated, and nothing but its head before its sizes are known to agree.
    """
    with naming(path), _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = _read_head(file, path, size)
        envelope, extent = _read_envelope(head, path)
        if size - len(head) != extent:
            raise ValueError(f"it should have {len(head) + extent:,} bytes but has {size:,}")
        if size > _memory():  # a system may promise more than it has
            raise MemoryError
        file.seek(0)
        content = file.read(size + 1)
        if len(content) != size or not content.startswith(head):
            raise ValueError("it changed while it was read")
        _check_seal(envelope, head, memoryview(content)[len(head) :])
        return Archive(envelope.text("kind"), envelope.mapping("header"), _tensors(content))


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for ever
        raise StorageError(f"{path} is not a file; check the name")
    return open(path, "rb")


def _memory() -> float:
    """Bytes of memory of this machine, if it tells."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read_head(file: BinaryIO, path: str | os.PathLike[str], size: int) -> bytes:
    """Everything before the tensors: the length of the safetensors header, and that header."""
    start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or not 2 <= length <= MOST_HEADER:
        raise StorageError(f"{path} is not an atlas-splines file; check the name")
    if 8 + length > size:
        raise ValueError(f"it was cut off within its header, at {size:,} bytes")
    return start + file.read(length - 1)


def _read_envelope(head: bytes, path: str | os.PathLike[str]) -> tuple[Fields, int]:
    """What stands beside the header, and how many bytes the tensors take."""
    entries = _parse(head[8:].decode())
    metadata = entries.pop("__metadata__", None) if isinstance(entries, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get(FORMAT), str):
        raise StorageError(f"{path} is not an atlas-splines file; check the name")
    value = _parse(metadata[FORMAT])
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is int and version > VERSION:
        raise StorageError(
            f"{path} was written by a newer atlas-splines (format {shortened(version)}); "
            f"this one reads up to {VERSION}: upgrade"
        )
    envelope = Fields(value, "the file", ENVELOPE)
    envelope.choice("format", [FORMAT])
    envelope.whole("version", least=1)
    return envelope, max((_end(name, entry) for name, entry in entries.items()), default=0)


def _parse(text: str) -> Any:
    """Read JSON of a bounded size, with nothing in it that JSON does not have."""
    if _count_values(text) > MOST_VALUES:
        raise ValueError(f"its header has more than {MOST_VALUES:,} values")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"its header is not JSON at character {error.pos}") from None
    except RecursionError:
        raise ValueError("its header is nested too deep") from None


def _count_values(text: str) -> int:
    """Bound on the number of values in a JSON text."""
    return sum(text.count(character) for character in ",[{")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"its header holds {name}")


def _end(name: str, entry: object) -> int:
    """Where the bytes of a tensor end."""
    fields = Fields(entry, f"tensor {shortened(name)}", ("dtype", "shape", "data_offsets"))
    fields.choice("dtype", DTYPES)
    offsets = fields.items("data_offsets")
    if len(offsets) != 2 or type(offsets[1]) is not int:
        raise ValueError(f"tensor {shortened(name)} does not say where it ends")
    return offsets[1]


def _check_seal(envelope: Fields, head: bytes, body: memoryview) -> None:
    digest = envelope.text("sha256", "[0-9a-f]{64}").encode()
    if head.count(digest) != 1 or digest != _digest(head.replace(digest, UNSEALED), body):
        raise ValueError("its checksum is wrong, so some of its bytes have changed")


def _digest(head: bytes, body: memoryview) -> bytes:
    """Checksum of a whole file, with zeros where it stands itself."""
    digest = hashlib.sha256(head)
    digest.update(body)
    return digest.hexdigest().encode()


def _tensors(content: bytes) -> dict[str, NDArray[Any]]:
    try:
        tensors = deserialize(content)
    except SafetensorError as error:
        raise ValueError(f"its tensors do not fit together ({error})") from None
    for name, array in tensors.items():
        if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
            raise ValueError(f"tensor {shortened(name)} holds more than true and false")
    return tensors


# --- writing ------------------------------------------------------------------------------------------


def write_archive(path: str | os.PathLike[str], archive: Archive) -> None:
    """Write a file all at once: whatever happens, the path holds all of the old content or all of the new."""
    head, body = _seal(archive)
    if len(head) > MOST_HEADER or _count_values(head[8:].decode()) > MOST_VALUES:
        raise StorageError(f"{path} was not written: its header would be too long; shorten the log")
    replace_file(path, head, body)


def replace_file(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write any file all at once, or raise a StorageError and leave what was there."""
    target = Path(os.path.realpath(path))  # of a symbolic link, replace what it points to
    try:
        _replace(target, *parts)
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror}; make room or choose another folder"
        ) from error


def _seal(archive: Archive) -> tuple[bytes, memoryview]:
    """Bytes of a file: everything before the tensors, and the tensors."""
    # one entry of metadata, for safetensors writes several in random order
    values = (FORMAT, VERSION, UNSEALED.decode(), archive.kind, archive.header)
    envelope = json.dumps(dict(zip(ENVELOPE, values, strict=True)), allow_nan=False, separators=(",", ":"))
    tensors = {name: np.ascontiguousarray(array) for name, array in archive.tensors.items()}
    content = serialize(tensors, {FORMAT: envelope})
    start = 8 + int.from_bytes(content[:8], "little")
    head, body = content[:start], memoryview(content)[start:]
    name = rb"\"sha256\":\""
    return head.replace(name + UNSEALED, name + _digest(head, body), 1), body


def _replace(target: Path, *parts: bytes | memoryview) -> None:
    """Write a temporary file beside the target, and let it take its place once it is on the disk."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            for part in parts:
                file.write(part)
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
    >>> from atlas_splines import Atlas, load, save
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
