"""The journal: what was acknowledged under which idempotency key, in a file beside the model.

The model's file is the truth about what was learned. The journal only tells a request that is sent again from
a new one. Its entry is on the disk before the model's file is replaced, and is confirmed afterwards: an entry
that is neither confirmed nor of the version in the file was never learned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from atlas_splines.files.writer import write_whole

__all__ = ["Entry", "Journal", "appended", "journal_of", "json_lines"]

# Entries that are kept. A client that sends a request again does so within minutes, not after 10,000 others.
KEPT = 10_000


@dataclass(frozen=True)
class Entry:
    """One change of the model.

    Attributes
    ----------
    key
        The idempotency key of its request; empty if it had none.
    digest
        Of the request: the same key with another request is an error.
    version
        Of the model after it.
    reply
        What was answered.
    outcomes
        Identifiers of kept predictions whose targets it learned.
    confirmed
        Whether the model's file is known to have had this version.
    """

    key: str
    digest: str
    version: str
    reply: dict[str, Any]
    outcomes: tuple[str, ...] = ()
    confirmed: bool = False


def journal_of(path: Path) -> Path:
    """The journal of a model's file."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.journal")


class Journal:
    """Entries, oldest first, in a file of JSON lines.

    Parameters
    ----------
    path
        The file; a line that a crash has cut off is dropped.
    version
        Version of the model's file: the entry that made it is confirmed by that, if its process was killed
        before it could do so itself.
    """

    def __init__(self, path: Path, version: str) -> None:
        self._path = path
        self._entries: list[Entry] = []
        lines = 0
        for line in json_lines(path):
            lines += 1
            if "confirmed" in line and "reply" not in line:
                self.learned(line["confirmed"])
            elif "reply" in line:
                self._entries.append(Entry(**line | {"outcomes": tuple(line.get("outcomes", ()))}))
        self.learned(version)
        self._entries = [entry for entry in self._entries if entry.confirmed][-KEPT:]
        if lines and (lines > 2 * len(self._entries) or not _ends_whole(path)):
            self._rewrite()

    def learned(self, version: str) -> None:
        """Take it as confirmed that the model's file has had a version."""
        self._entries = [
            replace(each, confirmed=True) if each.version == version else each for each in self._entries
        ]

    def _rewrite(self) -> None:
        lines = "".join(json.dumps(asdict(entry)) + "\n" for entry in self._entries)
        write_whole(self._path, lines.encode())

    def find(self, key: str) -> Entry | None:
        """The entry with a key; None if there is none that was learned."""
        found = [entry for entry in self._entries if entry.key == key and entry.confirmed]
        return found[-1] if key and found else None

    @property
    def entries(self) -> list[Entry]:
        """Entries that were learned, oldest first."""
        return [entry for entry in self._entries if entry.confirmed]

    @property
    def outcomes(self) -> set[str]:
        """Identifiers of kept predictions that were learned."""
        return {name for entry in self.entries for name in entry.outcomes}

    def intend(self, entry: Entry) -> None:
        """Put an entry on the disk, before the model's file is replaced."""
        appended(self._path, asdict(entry), sync=True)
        self._entries = [*self._entries[-KEPT:], entry]

    def confirm(self, version: str) -> None:
        """Note that the model's file has been replaced.

        This need not be on the disk: until the next change the file itself has that version.
        """
        self.learned(version)
        appended(self._path, {"confirmed": version}, sync=False)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a file of JSON lines; what is no such line is left out."""
    try:
        content = path.read_text(encoding="utf8", errors="replace")
    except FileNotFoundError:
        return
    for line in content.split("\n"):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _ends_whole(path: Path) -> bool:
    """Whether the last line of a file is complete."""
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        if not file.tell():
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def appended(path: Path, *lines: dict[str, Any], sync: bool) -> None:
    """Append lines of JSON to a file, all of them or none; an OSError tells of a full disk."""
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with open(path, "ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(content):
                written += file.write(content[written:])
            if sync:
                os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def kept_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Replace a file of JSON lines."""
    write_whole(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
