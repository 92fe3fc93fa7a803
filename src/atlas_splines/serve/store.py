"""The store: the version that answers now, and the one writer of the model's file.

Readers take `snapshot` once and go on with it; a change makes another one in its place when, and only when,
the file that holds it is on the disk.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atlas_splines.files.locks import lock
from atlas_splines.files.writer import StorageError
from atlas_splines.serve.contract import Contract
from atlas_splines.serve.journal import Entry, Journal, journal_of
from atlas_splines.serve.pending import Pending, pending_of
from atlas_splines.serve.snapshot import Snapshot

__all__ = ["Change", "KeyReused", "Reply", "Store"]

Reply = dict[str, Any]
Signature = tuple[int, int, int]

# Seconds that the service waits for another process that changes the file.
LOCK_WAIT = 10.0


class KeyReused(ValueError):
    """An idempotency key came with another request than before."""


@dataclass(frozen=True, eq=False)
class Change:
    """The next version, and what is answered.

    Attributes
    ----------
    snapshot
        The next version, or the same one if nothing changed.
    reply
        What is answered.
    outcomes
        Identifiers of the predictions whose targets it learned.
    is_update
        Whether it has learned rows, and must keep the contract; rows may be forgotten in any case.
    """

    snapshot: Snapshot
    reply: Reply
    outcomes: tuple[str, ...] = ()
    is_update: bool = False


class Store:
    """A model's file, and the version in it.

    Parameters
    ----------
    path
        The file.
    read_only
        Whether it is only followed.
    pending
        How many answered rows may wait for their targets.
    contract
        What every update must keep.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, pending: int = 0, contract: Contract | None = None
    ) -> None:
        self.path, self.read_only = path, read_only
        self._contract = contract
        self._writing = threading.Lock()  # threads of this process; a lock of the file is for others
        self._signature = signature_of(path)
        self.snapshot = Snapshot.load(path)
        self.problem = ""  # what is wrong with a file that has replaced the one that was loaded
        self.journal = None if read_only else Journal(journal_of(path), self.snapshot.version)
        learned = self.journal.outcomes if self.journal else set()
        self.pending = Pending(pending_of(path), pending, learned) if pending and not read_only else None

    def refresh(self) -> bool:
        """Load the file if another process has replaced it; a wrong one is told of, and the old one stays."""
        with self._writing:
            return self._refresh()

    def _refresh(self) -> bool:
        try:
            signature = signature_of(self.path)
        except OSError as error:
            self.problem = f"{self.path.name} cannot be read: {error.strerror}"
            return False
        if signature == self._signature:
            return False
        try:
            found = Snapshot.load(self.path)
        except (StorageError, OSError) as error:
            self.problem = str(error)
            return False
        self._signature, self.problem = signature, ""
        self.snapshot = found
        if self.journal is not None:
            self.journal.learned(found.version)
        return True

    def change(self, key: str, request: bytes, make: Callable[[Snapshot], Change]) -> Reply:
        """Make the next version, put it on the disk, and answer; whatever fails leaves everything as it was.

        Parameters
        ----------
        key
            Of a request that may be sent again, or an empty text.
        request
            All that it said.
        make
            Makes the next version.
        """
        assert self.journal is not None
        digest = hashlib.sha256(request).hexdigest()
        with self._writing, lock(self.path, timeout=LOCK_WAIT):
            self._refresh()
            if self.problem:
                raise StorageError(f"nothing was learned: {self.problem}")
            known = self.journal.find(key)
            if known is not None:
                if known.digest != digest:
                    raise KeyReused(f"the idempotency key {key!r} came with another request; use a new one")
                return known.reply | {"repeated": True}
            change = make(self.snapshot)
            if change.snapshot is self.snapshot:
                return change.reply
            reply = change.reply
            if change.is_update:
                reply = reply | self.check(self.snapshot, change.snapshot)
            self._commit(Entry(key, digest, change.snapshot.version, reply, change.outcomes), change)
            return reply

    def check(self, before: Snapshot, after: Snapshot) -> Reply:
        """Refuse an update that breaks the contract; of others, what a reply has of it."""
        return {} if self._contract is None else {"contract": self._contract.check(before, after)}

    def _commit(self, entry: Entry, change: Change) -> None:
        """Replace the file. The order matters: intention, file, memory, confirmation."""
        assert self.journal is not None
        try:
            self.journal.intend(entry)
        except OSError as error:
            raise StorageError(
                f"nothing was learned: the journal could not be written: {error.strerror}; make room"
            ) from error
        change.snapshot.save(self.path)
        self._signature = signature_of(self.path)
        self.snapshot = change.snapshot
        if self.pending is not None and change.outcomes:
            _if_possible(lambda: self.pending.drop(change.outcomes))  # type: ignore[union-attr]
        _if_possible(lambda: self.journal.confirm(entry.version))  # type: ignore[union-attr]

    def coverage_of_updates(self) -> Mapping[int, float]:
        """By the number of each update that was learned here, the coverage of intervals before it."""
        entries = self.journal.entries if self.journal else []
        return {
            entry.reply["update"]: entry.reply["coverage"]
            for entry in entries
            if entry.reply.get("update") and entry.reply.get("coverage") is not None
        }


def _if_possible(note: Callable[[], None]) -> None:
    """Note what the model's file tells as well: it is learned already, and a full disk comes too late."""
    try:
        note()
    except OSError:
        return


def signature_of(path: Path) -> Signature:
    """What changes when a file is replaced."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size
