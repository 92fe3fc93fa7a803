"""Migration of headers of older format versions to the newest, as docs/format.md describes.

Invalid values stay invalid and are refused by the readers.
"""

from __future__ import annotations

from typing import Any

from atlas_splines.files.archive import Archive
from atlas_splines.io.local_memory import LATER, LOCAL, SEGMENTS
from atlas_splines.updates.initial_memory import FEATURES

__all__ = ["upgrade"]

MAX_ROWS = 100_000  # the default of the parameter


def upgrade(archive: Archive) -> None:
    """Bring the header of an archive to the newest version, in place."""
    if archive.version == 1:
        _add_pooled(archive.header)
        archive.version = 2
    if archive.version == 2:
        _add_chain(archive.header)
        _add_validation(archive.header)
        archive.version = 3
    if archive.version == 3:
        _add_fit(archive.header)
        archive.version = 4
    if archive.version == 4:
        archive.version = 5  # tables can be written by their columns: the header is the same
    if archive.version == 5:
        _add_memory(archive.header)
        archive.version = 6
    if archive.version == 6:
        archive.version = 7  # an estimator can have a ledger: those without one stay as they are
    if archive.version == 7:
        archive.version = 8  # products of errors replace their squares
    if archive.version == 8:
        _add_segments(archive.header)
        archive.version = 9
    _add_quantile(archive.header)


def _add_pooled(header: dict[str, Any]) -> None:
    """Version 2 adds memories, the reason of an update, and parameters for both."""
    for model in _objects([header.get("model")]):
        model["evidence"] = None
        for chart in _objects(model.get("charts")):
            chart["evidence"] = None
        for update in _objects(model.get("updates")):
            if update.get("type") == "update":
                update["reason"] = ""
    for estimator in _objects([header.get("estimator")]):
        for parameters in _objects([estimator.get("parameters")]):
            _add_parameters(parameters)


def _add_chain(header: dict[str, Any]) -> None:
    """Version 3 adds the hash of a log; older logs cannot be checked."""
    for model in _objects([header.get("model")]):
        model["chain"] = None


def _add_validation(header: dict[str, Any]) -> None:
    """Version 3 also adds the parameter for held-out rows."""
    for estimator in _objects([header.get("estimator")]):
        for parameters in _objects([estimator.get("parameters")]):
            parameters["validation"] = "auto"


def _add_fit(header: dict[str, Any]) -> None:
    """Version 4 adds the date, rows and error of a fit."""
    for estimator in _objects([header.get("estimator")]):
        estimator["fit"] = None


def _add_memory(header: dict[str, Any]) -> None:
    """Version 6 adds kept rows; older models keep none."""
    for estimator in _objects([header.get("estimator")]):
        for parameters in _objects([estimator.get("parameters")]):
            if not {"memory", "max_rows"} & parameters.keys():
                parameters |= {"memory": "sums", "max_rows": MAX_ROWS}


def _add_segments(header: dict[str, Any]) -> None:
    """Version 9 has distinct points for each update; older versions merge those of all updates."""
    for model in _objects([header.get("model")]):
        if LOCAL in model or LATER in model:
            model[SEGMENTS] = False


def _add_quantile(header: dict[str, Any]) -> None:
    """Older files lack the quantile."""
    for estimator in _objects([header.get("estimator")]):
        for parameters in _objects([estimator.get("parameters")]):
            parameters.setdefault("quantile", 0.5)


def _add_parameters(parameters: dict[str, Any]) -> None:
    """Later parameters get their defaults; `retention` was called `memory` at first."""
    if "memory" in parameters and "retention" not in parameters:
        parameters["retention"] = parameters.pop("memory")
    parameters |= {"features": FEATURES, "half_life": None}


def _objects(items: object) -> list[dict[str, Any]]:
    """The JSON objects of a list."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
