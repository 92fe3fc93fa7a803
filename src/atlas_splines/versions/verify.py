"""Verification of a file: every hash is computed again, and altered parts are named."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field

from atlas_splines.files.archive import Archive, altered_parts, read_archive
from atlas_splines.files.writer import StorageError
from atlas_splines.io.save_load import load
from atlas_splines.model.log import count_of
from atlas_splines.versions.version import model_of, version

__all__ = ["Verification", "verify"]

NAMES = {
    "model.table": "the coefficients",
    "model.offsets.keys": "the levels",
    "model.offsets.values": "the effects of levels",
    "model.local": "the local terms",
    "model.later": "the model beyond the end of a clock",
    "model.domain": "the domain",
    "model.configuration": "the configuration",
    "model.chain": "the hash of the log",
    "model.evidence": "the memory",
    "file": "the version or the kind",
}


@dataclass(frozen=True)
class Verification:
    """The result of `verify`; true if nothing is wrong.

    Attributes
    ----------
    version
        Hash of everything in the file; empty if it cannot be read.
    updates
        Number of updates in its log.
    problems
        Each problem in a few words.
    has_parts
        Whether each part has a digest; of older files only the checksum and the log are checked.
    """

    version: str = ""
    updates: int = 0
    problems: list[str] = field(default_factory=list)
    has_parts: bool = True

    def __bool__(self) -> bool:
        return not self.problems


def verify(path: str | os.PathLike[str], *, expect: str | None = None) -> Verification:
    """Compute every hash of a file again, and name the parts that were altered.

    The checksum covers all bytes. Each entry of the log, each chart, the memory and the coefficients have a
    digest of their own, which locates an alteration. The log is a chain of hashes that ends with the
    coefficients. A writer of the file can recompute all of these: against that, keep the version elsewhere
    and give it as `expect`.

    Parameters
    ----------
    path
        The file.
    expect
        The version that it should be.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from atlas_splines import Atlas, save
    >>> path = Path(tempfile.mkdtemp()) / "model.atlas"
    >>> save(Atlas(inputs=1), path)
    >>> bool(verify(path))
    True
    >>> data = bytearray(path.read_bytes())
    >>> data[-1] ^= 1
    >>> _ = path.write_bytes(data)
    >>> verify(path).problems
    ['its checksum is wrong, so some of its bytes have changed', 'the coefficients were altered']
    """
    problems: list[str] = []
    try:
        archive = read_archive(path)
    except StorageError as error:
        problems.append(_what(error, path))
        archive = None
    problems += _altered(path, archive)
    if archive is None:
        return Verification(problems=problems)
    try:
        loaded = load(path)
    except StorageError as error:
        return Verification(problems=[*problems, _what(error, path)])
    found = version(loaded)
    if expect not in (None, found):
        problems.append(f"its version is {found}, not the expected one")
    updates, has_parts = count_of(model_of(loaded).updates), archive.parts is not None
    return Verification(found, updates, problems, has_parts)


def _altered(path: str | os.PathLike[str], archive: Archive | None) -> list[str]:
    """The parts that were altered, in words; empty if the file is too damaged to be read."""
    try:
        parts = altered_parts(path)
    except StorageError:
        return []
    return [f"{_name(part, archive)} altered" for part in parts or ()]


def _name(part: str, archive: Archive | None) -> str:
    """Name of a part, with its verb."""
    item = re.fullmatch(r"model\.(update|chart)s\.(\d{1,9})", part)
    if item is not None:
        return f"{item[1]} {_number(archive, item[1], int(item[2]))} was"
    several = NAMES.get(part, "").endswith("s")
    return f"{NAMES.get(part, repr(part))} {'were' if several else 'was'}"


def _number(archive: Archive | None, kind: str, place: int) -> int:
    """Number of an entry of the log, if it can be read, or its place."""
    if archive is not None and kind == "update":
        with contextlib.suppress(KeyError, IndexError, TypeError, ValueError):
            return int(archive.header["model"]["updates"][place]["id"])
    return place + 1


def _what(error: StorageError, path: str | os.PathLike[str]) -> str:
    """The message of an error without the name of the file and the advice at the end."""
    text = str(error).removeprefix(f"{path} ").removeprefix("cannot be loaded: ")
    return text.partition("; ")[0]
