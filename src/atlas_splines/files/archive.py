"""The archive: a safetensors file with a JSON header, a digest of each part and a checksum over all bytes."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as shortened
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as deserialize
from safetensors.numpy import save as serialize

from atlas_splines.files.compression import (
    MOST_INFLATED,
    compressed,
    decompressed,
    joined_tables,
    spread_tables,
)
from atlas_splines.files.fields import Fields
from atlas_splines.files.writer import StorageError, naming, replace_file

__all__ = [
    "SHORT",
    "Archive",
    "FileLimits",
    "altered_parts",
    "digests_of",
    "parse",
    "read_archive",
    "sealed",
    "version_of",
    "write_archive",
]

SHORT = 16  # digits of a part's digest: it locates an alteration, which the checksum detects


def digests_of(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """SHA-256 of each part: of a part of the header with its tensors, or of a tensor without one.

    Examples
    --------
    >>> tensors = {"model.table": np.zeros(2), "model.charts.0.table": np.ones(2)}
    >>> list(digests_of({"model": {"charts": [{"terms": 1}], "chain": None}}, tensors))
    ['model.chain', 'model.charts.0', 'model.table']
    """
    texts = dict(_header_parts(header))
    members: dict[str, list[str]] = {name: [] for name in texts}
    for name in sorted(tensors):
        members.setdefault(_part_of(name, texts), []).append(name)
    return {part: _digest_of_part(texts.get(part, ""), members[part], tensors) for part in sorted(members)}


def version_of(kind: str, digests: Mapping[str, str]) -> str:
    """Hash over the digests of all parts.

    Examples
    --------
    >>> version_of("model", {"model.table": "a"}) == version_of("model", {"model.table": "b"})
    False
    """
    return hashlib.sha256(json.dumps([kind, sorted(digests.items())]).encode()).hexdigest()


def _header_parts(header: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts of the parts: fields of the header's objects, and items of lists there."""
    for name, value in header.items():
        for key, each in value.items() if isinstance(value, dict) else [("", value)]:
            part = f"{name}.{key}" if key else name
            if isinstance(each, list) and each:
                yield from ((f"{part}.{k}", _text(item)) for k, item in enumerate(each))
            else:
                yield part, _text(each)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _part_of(tensor: str, parts: Mapping[str, str]) -> str:
    """The part of the header whose name is a prefix of a tensor's, or else the tensor itself."""
    words = tensor.split(".")
    names = (".".join(words[:length]) for length in range(len(words) - 1, 0, -1))
    return next((name for name in names if name in parts), tensor)


def _digest_of_part(text: str, names: list[str], tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in names:
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\n{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


FORMAT, VERSION = "atlas-splines", 9
ENVELOPE = ("format", "version", "sha256", "kind", "header")
PARTS = "parts"  # of the envelope: digests of the parts; older files lack it
PACKED = "packed"  # of the envelope: dtypes and shapes of compressed tensors; files without any lack it
DTYPES = ("F32", "F64", "I32", "I64", "U8", "BOOL")

BY_COLUMNS = 5  # format version from which on tables can be written by their columns
COMPRESSED = 6  # format version from which on tensors can be compressed


@dataclass(frozen=True)
class FileLimits:
    """Limits against malicious files.

    Attributes
    ----------
    header
        Bytes of a header: enough for the logs of old files, of some ten thousand updates.
    values
        Values in a header, enough for the same log: small values take far more memory than their text.
    digits
        Digits of an integer in a header: those of the largest float.
    letters
        Letters of a tensor's name: written ones have some sixty. It bounds the cost of parsing.
    growth, allowance
        Memory of a loaded file: so many times the bytes of its tensors, and so many bytes more for tensors
        that are compressed or written by their columns, and for copies of these, twice for charts. Rows of
        tables are padded to whole vectors of the processor: very short ones could take 16 times their bytes.
    """

    header: int = 32 * 2**20
    values: int = 700_000
    digits: int = 308
    letters: int = 200
    growth: int = 6
    allowance: int = 4 * MOST_INFLATED


LIMITS = FileLimits()

# Placeholder of the checksum while it is computed.
UNSEALED = b"0" * 64


@dataclass
class Archive:
    """The content of a file before it is deserialised.

    Attributes
    ----------
    kind
        One of `save_load.KINDS`, or "patch".
    header
        JSON values by name.
    tensors
        Arrays by name.
    taken
        Names of the tensors that were requested.
    version
        Format version of the file that it was read from; files are written in the newest.
    stored
        Bytes of its tensors in the file that it was read from; None without a file.
    reserved
        Bytes of memory reserved for its content so far.
    claim
        Bytes that the limit of memory is computed from, if not those of its tensors: packed ones may be a
        thousandth of these.
    parts
        The digests of its parts in the file, if there are any.
    """

    kind: str
    header: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    taken: set[str] = field(default_factory=set)
    version: int = VERSION
    stored: int | None = None
    reserved: int = 0
    parts: dict[str, str] | None = None
    claim: int | None = None

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each part."""
        return digests_of(self.header, self.tensors)

    def tensor(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        """A tensor of finite numbers with that dtype and shape, where None is any size; raise for others."""
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

    def reserve(self, size: int) -> None:
        """Reserve memory; raise beyond the limit for a file of this size."""
        self.reserved += size
        if self.reserved > LIMITS.growth * self._claim + LIMITS.allowance:
            raise ValueError(f"it would take {self.reserved:,} bytes of memory, far more than its size")

    @property
    def _claim(self) -> int:
        """Bytes that the limit of memory is computed from."""
        stored = self.held if self.stored is None else self.stored
        return stored if self.claim is None else self.claim

    @cached_property  # used by every chart: summing each time took seconds for a megabyte of charts
    def held(self) -> int:
        """Bytes of all tensors."""
        return sum(array.nbytes for array in self.tensors.values())

    def check_all_taken(self) -> None:
        """Refuse tensors that were not requested."""
        left = sorted(self.tensors.keys() - self.taken)
        if left:
            raise ValueError(f"tensor {left[0]!r} has no place in it")


# --- reading ------------------------------------------------------------------------------------------


def read_archive(path: str | os.PathLike[str]) -> Archive:
    """Read a file and check its sizes and checksum; readers of its kind check the content.

    Only its head is read before the sizes are known to agree.
    """
    with naming(path), _open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = _read_head(file, path, size)
        envelope, extent = _read_envelope(head, path)
        if size - len(head) != extent:
            raise ValueError(f"it should have {len(head) + extent:,} bytes but has {size:,}")
        if size > _machine_memory():  # an overcommitting system would accept it
            raise MemoryError
        file.seek(0)
        content = file.read(size + 1)
        if len(content) != size or not content.startswith(head):
            raise ValueError("it changed while it was read")
        _check_seal(envelope, head, memoryview(content)[len(head) :])
        return _archive_of(envelope, content)


def altered_parts(path: str | os.PathLike[str]) -> list[str] | None:
    """Names of the parts of a file that were altered; None if it has no digests of parts.

    The checksum is not checked: this locates the alteration when that is wrong.
    """
    with naming(path), _open_regular(path) as file:
        head = _read_head(file, path, os.fstat(file.fileno()).st_size)
        archive = _archive_of(_read_envelope(head, path)[0], head + file.read(), is_damaged=True)
    if archive.parts is None:
        return None
    now = _short_digests(archive, archive.version)
    return sorted(name for name in now.keys() | archive.parts if now.get(name) != archive.parts.get(name))


def _short_digests(archive: Archive, version: int) -> dict[str, str]:
    """Shortened digests of all parts, and one of version and kind."""
    beside = digests_of({"file": f"{version} {archive.kind}"}, {})
    return {name: digest[:SHORT] for name, digest in (archive.digests | beside).items()}


def _archive_of(envelope: Fields, content: bytes, is_damaged: bool = False) -> Archive:
    kind, header, version = envelope.text("kind"), envelope.mapping("header"), envelope.whole("version")
    written = _tensors(content)
    stored = sum(array.nbytes for array in written.values())
    packed = envelope.mapping(PACKED) if PACKED in envelope.value else {}
    tensors = decompressed(written, packed, is_damaged)
    made = sum(tensors[name].nbytes for name in packed)
    if version >= BY_COLUMNS:
        joined, tensors = tensors, spread_tables(tensors, MOST_INFLATED - made)
        made += sum(tensors[name].nbytes for name in tensors.keys() - joined.keys())
    parts = _read_parts(envelope)
    return Archive(kind, header, tensors, version=version, stored=stored, reserved=made, parts=parts)


def _read_parts(envelope: Fields) -> dict[str, str] | None:
    if PARTS not in envelope.value:
        return None
    parts = Fields(envelope.mapping(PARTS), "the parts", envelope.value[PARTS])
    return {name: parts.text(name, f"[0-9a-f]{{{SHORT}}}") for name in parts.value}


def _open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would block
        raise StorageError(f"{path} is not a file; check the name")
    return open(path, "rb")


def _machine_memory() -> float:
    """Bytes of memory of this machine; infinite if unknown."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read_head(file: BinaryIO, path: str | os.PathLike[str], size: int) -> bytes:
    """Everything before the tensors: the length of the safetensors header, and that header."""
    start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or not 2 <= length <= LIMITS.header:
        raise StorageError(f"{path} is not an atlas-splines file; check the name")
    if 8 + length > size:
        raise ValueError(f"it was cut off within its header, at {size:,} bytes")
    return start + file.read(length - 1)


def _read_envelope(head: bytes, path: str | os.PathLike[str]) -> tuple[Fields, int]:
    """The envelope of the header, and the bytes of the tensors."""
    entries = parse(head[8:].decode())
    metadata = entries.pop("__metadata__", None) if isinstance(entries, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get(FORMAT), str):
        raise StorageError(f"{path} is not an atlas-splines file; check the name")
    value = parse(metadata[FORMAT])
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is int and version > VERSION:
        raise StorageError(
            f"{path} was written by a newer atlas-splines (format {shortened(version)}); "
            f"this one reads up to {VERSION}: upgrade"
        )
    optional = (PARTS, PACKED) if type(version) is int and version >= COMPRESSED else (PARTS,)
    envelope = Fields.with_optional(value, "the file", ENVELOPE, *optional)
    envelope.choice("format", [FORMAT])
    envelope.whole("version", least=1)
    return envelope, max((_end_of_tensor(name, entry) for name, entry in entries.items()), default=0)


def parse(text: str) -> Any:
    """Parse JSON of a bounded size, without extensions such as NaN and without repeated names."""
    if _count_values(text) > LIMITS.values:
        raise ValueError(f"its header has more than {LIMITS.values:,} values")
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_read_whole,
            parse_float=_read_number,
            object_pairs_hook=_read_object,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"its header is not JSON at character {error.pos}") from None
    except RecursionError:
        raise ValueError("its header is nested too deep") from None


def _count_values(text: str) -> int:
    """Upper bound of the number of values in a JSON text."""
    return sum(text.count(character) for character in ",[{")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"its header holds {name}")


def _read_whole(text: str) -> int:
    if len(text.lstrip("-")) > LIMITS.digits:
        raise ValueError(f"its header holds a number of {len(text.lstrip('-'))} digits")
    return int(text)


def _read_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("its header holds a number that is too large")
    return number


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are all different: readers may disagree about which of two counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"its header has {shortened(twice)} twice in one object")
    return found


def _end_of_tensor(name: str, entry: object) -> int:
    """Where the bytes of a tensor end."""
    if len(name) > LIMITS.letters:
        raise ValueError(f"tensor {shortened(name)} has a name of more than {LIMITS.letters} letters")
    fields = Fields(entry, f"tensor {shortened(name)}", ("dtype", "shape", "data_offsets"))
    fields.choice("dtype", DTYPES)
    offsets = fields.items("data_offsets")
    if len(offsets) != 2 or type(offsets[1]) is not int:
        raise ValueError(f"tensor {shortened(name)} has no end offset")
    return offsets[1]


def _check_seal(envelope: Fields, head: bytes, body: memoryview) -> None:
    digest = envelope.text("sha256", "[0-9a-f]{64}").encode()
    if head.count(digest) != 1 or digest != _digest(head.replace(digest, UNSEALED), body):
        raise ValueError("its checksum is wrong, so some of its bytes have changed")


def _digest(head: bytes, body: memoryview) -> bytes:
    """Checksum of a whole file, with zeros in its own place."""
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
    """Write a file atomically: the path always holds all of the old content or all of the new."""
    replace_file(path, *sealed(path, archive))


def sealed(path: str | os.PathLike[str], archive: Archive) -> tuple[bytes, memoryview]:
    """Bytes of a file of this name, in two parts; raise a StorageError beyond the limits of reading."""
    head, body = _seal(archive)
    if len(head) > LIMITS.header or _count_values(head[8:].decode()) > LIMITS.values:
        what = "its header would be too long; remove its charts with consolidate"
        raise StorageError(f"{path} was not written: {what}")
    return head, body


def _seal(archive: Archive) -> tuple[bytes, memoryview]:
    """Bytes of a file: everything before the tensors, and the tensors."""
    # one entry of metadata, as safetensors writes several in random order
    parts = _short_digests(archive, VERSION)
    values = (FORMAT, VERSION, UNSEALED.decode(), archive.kind, archive.header, parts)
    named = dict(zip((*ENVELOPE, PARTS), values, strict=True))
    joined = joined_tables(archive.tensors)
    by_columns = sum(archive.tensors[name].nbytes for name in archive.tensors.keys() - joined.keys())
    packed, shapes = compressed(joined, MOST_INFLATED - by_columns)
    named |= {PACKED: shapes} if shapes else {}
    envelope = json.dumps(named, allow_nan=False, separators=(",", ":"))
    content = serialize(
        {name: np.ascontiguousarray(array) for name, array in packed.items()}, {FORMAT: envelope}
    )
    start = 8 + int.from_bytes(content[:8], "little")
    head, body = content[:start], memoryview(content)[start:]
    name = rb"\"sha256\":\""
    return head.replace(name + UNSEALED, name + _digest(head, body), 1), body
