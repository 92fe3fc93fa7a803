"""Pending predictions: rows that were answered, and wait for their targets."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from atlas_splines.serve.journal import appended, json_lines, kept_lines

__all__ = ["Pending", "Waiting", "pending_of"]


@dataclass(frozen=True)
class Waiting:
    """A row that was answered.

    Attributes
    ----------
    id
        Its identifier.
    row
        Its cells by column.
    prediction
        What was answered.
    region
        Ends of the interval that was believed to hold 90 % of such targets, or the classes of that set; None
        if the model knows nothing of its errors.
    version
        The version that answered.
    """

    id: str
    row: dict[str, Any]
    prediction: Any
    region: list[Any] | None
    version: str


def pending_of(path: Path) -> Path:
    """The file of the pending predictions of a model's file."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.pending")


class Pending:
    """The newest of these rows, in memory and in a file of JSON lines.

    What was answered survives the end of the process, but not of the machine: predictions do not wait for the
    disk.

    Parameters
    ----------
    path
        The file.
    most
        Rows that wait at most; of more the oldest are dropped.
    learned
        Identifiers whose targets have been learned.
    """

    def __init__(self, path: Path, most: int, learned: set[str]) -> None:
        self._path, self._most = path, most
        self._waiting: dict[str, Waiting] = {}
        self._lock = threading.Lock()
        for line in json_lines(path):
            if "gone" in line:
                for name in line["gone"]:
                    self._waiting.pop(name, None)
            elif {*line} == {"id", "row", "prediction", "region", "version"}:
                self._waiting.pop(line["id"], None)
                self._waiting[line["id"]] = Waiting(**line)
                self._trim()
        for name in learned:
            self._waiting.pop(name, None)
        self._lines = 0
        if path.exists():
            self._rewrite()

    def __len__(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    def _trim(self) -> None:
        while len(self._waiting) > self._most:
            del self._waiting[next(iter(self._waiting))]

    def _rewrite(self) -> None:
        kept_lines(self._path, map(asdict, self._waiting.values()))
        self._lines = len(self._waiting)

    def _note(self, *lines: dict[str, Any]) -> None:
        appended(self._path, *lines, sync=False)
        self._lines += len(lines)
        if self._lines > 3 * self._most + 100:
            self._rewrite()

    def keep(self, rows: Sequence[Waiting]) -> None:
        """Let rows wait; one that is sent again takes the place of the first."""
        with self._lock:
            self._note(*map(asdict, rows))
            for row in rows:
                self._waiting.pop(row.id, None)
                self._waiting[row.id] = row
            self._trim()

    def find(self, names: Sequence[str]) -> Mapping[str, Waiting]:
        """Those of some identifiers that wait."""
        with self._lock:
            return {name: self._waiting[name] for name in names if name in self._waiting}

    def drop(self, names: Sequence[str]) -> None:
        """Wait no longer for some rows."""
        with self._lock:
            for name in names:
                self._waiting.pop(name, None)
            self._note({"gone": list(names)})
