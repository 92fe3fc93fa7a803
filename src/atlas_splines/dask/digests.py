"""The digest of rows that stay on workers: the one that a process with all of them would find.

It is over the sorted hashes of all rows. Workers keep those of their rows, 16 bytes a row, which Dask moves
to disk where memory is short, and the client asks for one range of them after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from distributed import Client, Future

from atlas_splines.memory.row_digest import Hashes

__all__ = ["MOST_DIGESTED", "digest_on_workers"]

# Rows of a range, about: 16 MB of hashes.
RANGE_ROWS = 1_000_000

# Rows of which there is a digest: ranges times partitions are tasks of the scheduler.
MOST_DIGESTED = 100_000_000

LEADING = 2**32  # values of the first four bytes of a hash, by which ranges are told apart


def digest_on_workers(client: Client, hashed: Sequence[Future], rows: int) -> str:
    """The digest of so many rows, of which each worker has some hashes, sorted."""
    digest, count = hashlib.sha256(), -(-rows // RANGE_ROWS)
    for k in range(count):
        parts = [client.submit(in_range, part, k, count, pure=False) for part in hashed]
        digest.update(client.submit(in_order, parts, pure=False).result())
    return digest.hexdigest()


def in_range(hashes: Hashes, k: int, count: int) -> Hashes:
    """Those of some sorted hashes that are in one of so many ranges.

    Examples
    --------
    >>> hashes = np.array([bytes([k] * 16) for k in (1, 100, 200)], "S16")
    >>> [len(in_range(hashes, k, 2)) for k in range(2)]
    [2, 1]
    """
    ends = [(LEADING * end // count).to_bytes(5, "big")[1:] for end in (k, k + 1)]
    begin = np.searchsorted(hashes, np.bytes_(ends[0]))
    return hashes[begin:] if k == count - 1 else hashes[begin : np.searchsorted(hashes, np.bytes_(ends[1]))]


def in_order(parts: Sequence[Hashes]) -> bytes:
    """All hashes of some parts, sorted, as bytes."""
    return np.sort(np.concatenate(parts)).tobytes()
