"""Parts of an archive, each with a digest of its own, so that whatever was altered can be named.

docs/format.md describes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHORT", "digests_of", "version_of"]

SHORT = 16  # digits of a digest in a file: it tells where something was altered, the checksum tells whether


def digests_of(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """SHA-256 of each part: of a part of the header with its tensors, or of a tensor that stands alone.

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
    return {part: _digest(texts.get(part, ""), members[part], tensors) for part in sorted(members)}


def version_of(kind: str, digests: Mapping[str, str]) -> str:
    """Hash of all that a model is: whatever differs in a file makes it another one.

    Examples
    --------
    >>> version_of("model", {"model.table": "a"}) == version_of("model", {"model.table": "b"})
    False
    """
    return hashlib.sha256(json.dumps([kind, sorted(digests.items())]).encode()).hexdigest()


def _header_parts(header: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts of the parts: fields of the header's objects, and items of lists there."""
    for name, value in header.items():
        for key, field in value.items() if isinstance(value, dict) else [("", value)]:
            part = f"{name}.{key}" if key else name
            if isinstance(field, list) and field:
                yield from ((f"{part}.{k}", _text(item)) for k, item in enumerate(field))
            else:
                yield part, _text(field)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _part_of(tensor: str, parts: Mapping[str, str]) -> str:
    """The part of the header whose name a tensor's begins with, or else the tensor itself."""
    words = tensor.split(".")
    names = (".".join(words[:length]) for length in range(len(words) - 1, 0, -1))
    return next((name for name in names if name in parts), tensor)


def _digest(text: str, names: list[str], tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in names:
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"\n{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
