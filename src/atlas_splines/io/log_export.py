"""The log of a model as lines of JSON, to be kept elsewhere before its oldest entries are folded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from atlas_splines.files.writer import replace_file
from atlas_splines.io.logs import NOTES, folded_header, record_facts
from atlas_splines.io.models import held_out_to_json, loss_to_json
from atlas_splines.model.atlas import Atlas
from atlas_splines.model.log import START, Folded, Record, chained
from atlas_splines.updates.log import Consolidation, Removal, Update

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["export_log", "log_lines"]


def export_log(model: Atlas | AtlasEstimator, path: str | os.PathLike[str], *, after: int = 0) -> None:
    """Write the log of a model to a file, one entry a line, as JSON.

    A model keeps its newest 200 entries in full, and folds older ones into one. Whoever needs them all writes
    them to a file in time. The hash in each line goes on from the line before, and cannot be changed unseen
    by those who cannot change the newest one, wherever that is kept.

    Parameters
    ----------
    model
        A model or an estimator; errors and footprints are in its units.
    path
        The file; one of that name is replaced.
    after
        Only entries with a larger number.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from atlas_splines import Atlas, update
    >>> model, path = Atlas(inputs=1), Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> done = update(model, [[0.5], [0.6]], [1.0, 1.0], epochs=1, random_state=0)
    >>> export_log(model, path)
    >>> entry = json.loads(path.read_text())
    >>> entry["id"], entry["kind"], entry["rows"]
    (1, 'chart', 2)
    """
    text = "".join(f"{line}\n" for line in log_lines(model, after))
    replace_file(path, text.encode())


def log_lines(model: Atlas | AtlasEstimator, after: int = 0) -> Iterator[str]:
    """The entries of a log as lines of JSON, oldest first, each with the hash over the log up to it."""
    inner: Any = model
    is_bare = isinstance(inner, Atlas)
    names = [f"input {j}" for j in range(inner.inputs)] if is_bare else list(inner._input_names)
    chain, last = START, 0
    for record in inner.updates if is_bare else inner.update_log_:
        if isinstance(record, Folded):
            chain, last = record.chain, record.last
            yield json.dumps({"id": 0, **folded_header(record)})
            continue
        is_folded = record.id <= last
        chain = chain if is_folded else chained(chain, record)
        if record.id > after:
            yield json.dumps(_entry(record, names) | {"chain": None if is_folded else chain})


def _entry(record: Record, names: Sequence[str]) -> dict[str, Any]:
    """An entry with what people ask of it."""
    entry = record_facts(record) | {name: getattr(record, name) for name in NOTES}
    if isinstance(record, Update):
        entry |= {
            "seconds": record.seconds,
            "measure": getattr(record, "measure", "loss"),
            "unit": getattr(record, "unit", "model"),
            "error_before": loss_to_json(record.error_before),
            "error_after": loss_to_json(record.error_after),
            "held_out": held_out_to_json(record.held_out),
            "reason": record.reason,
            "caution": record.caution,
            "known_rows": record.footprint.known_rows,
            "volume": record.footprint.volume,
            "footprint": {name: record.footprint.intervals(j) for j, name in enumerate(names)},
        }
    if isinstance(record, Consolidation):
        entry |= {"replaced": record.replaced, "error": record.error, "worst": record.worst}
    if isinstance(record, Removal):
        entry |= {"updates": list(record.updates)}
    return entry
