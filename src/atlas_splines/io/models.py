"""Serialisation of models with their charts, log and memory, as docs/format.md describes.

There is no pickle, and no name in a file is ever imported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.io.bare_models import (
    configuration_of,
    padded_size,
    read_bare_model,
    read_domain,
    read_table,
    table_tensors,
    table_width,
)
from atlas_splines.io.local_memory import (
    LATER,
    LOCAL,
    SEGMENTS,
    local_header,
    local_tensors,
    offsets_tensors,
    read_local,
    read_offsets,
)
from atlas_splines.io.logs import (
    HASH,
    NOTES,
    chain_header,
    check_chain,
    folded_header,
    notes_of,
    read_folded,
    read_notes,
    record_facts,
)
from atlas_splines.io.memory import chart_memory, pool_from_archive, pool_header, pool_tensors
from atlas_splines.memory.pool import Pool
from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, model_in, snapshot_of, state_of
from atlas_splines.model.charts import Chart, Window, chart_densities, chart_layout, chart_table
from atlas_splines.model.lattice import MAX_DENSITY, Domain, Lattice, cell_range
from atlas_splines.model.log import Folded, Record, folded_of
from atlas_splines.model.monotone import constrained, is_monotone
from atlas_splines.model.resize import cropped
from atlas_splines.model.state import Monotonic, State
from atlas_splines.model.train import History
from atlas_splines.updates.footprint import BoxFootprint, CrossFootprint, Footprint, RestFootprint
from atlas_splines.updates.log import Consolidation, Removal, Update
from atlas_splines.updates.metrics import HeldOut
from atlas_splines.updates.plan import RETENTIONS
from atlas_splines.updates.routing import memory_of

__all__ = ["held_out_to_json", "loss_from_json", "loss_to_json", "model_from_archive", "model_to_archive"]

MODEL = ("configuration", "charts", "updates", "chain", "evidence")
MONOTONE = "monotone"  # directions of a monotone model; others lack it
OPTIONAL = (MONOTONE, LOCAL, LATER, SEGMENTS)
CHART = ("update", "replaces", "terms", "density", "filled", "fence", "evidence")
RECORD = ("type", "id", "kind", "time", "rows", "before", "after", "reverted")
UPDATE = ("seconds", "error_before", "error_after", "footprint", "history", "reason")
CONSOLIDATION = ("replaced", "error", "worst", "seconds")
HISTORY = ("seconds", "steps", "stopped", "best_epoch", "state")
SETTINGS = "settings"  # options of an update; older ones lack it
MOST_SETTINGS = 50
ASSESSED = "assessed"  # errors and warning of an update; older ones lack it
ASSESSMENT = ("known_rows", "held_out", "caution")
HELD_OUT = ("rows", "crossed", "error", "baseline", "score")
UPDATE_KINDS = tuple(kind for kind in RETENTIONS if kind != "auto")  # whose entries have one of these


def model_to_archive(model: Atlas, name: str = "model") -> Archive:
    """A model as an archive, for a file of its own or as a part of another.

    The header has one entry of that name, and the names of all tensors start with it. To embed a model, merge
    its header and tensors into those of another archive.
    """
    model = snapshot_of(model)
    tensors = table_tensors(model, name) | pool_tensors(state_of(model).pooled, f"{name}.evidence")
    tensors |= offsets_tensors(state_of(model).offsets, name)
    tensors |= local_tensors(state_of(model), memory_of(state_of(model)), name)
    for k, chart in enumerate(model.charts):
        tensors |= _chart_tensors(chart, f"{name}.charts.{k}")
    for k, record in enumerate(model.updates):
        tensors |= _record_tensors(record, f"{name}.updates.{k}")
    header: dict[str, Any] = {
        "configuration": configuration_of(model),
        "charts": [_chart_header(chart) for chart in model.charts],
        "updates": [_record_header(record) for record in model.updates],
        "chain": chain_header(model),
        "evidence": pool_header(state_of(model).pooled),
    } | local_header(state_of(model))
    if state_of(model).monotonic:
        header[MONOTONE] = [list(directions) for directions in state_of(model).monotonic]
    return Archive("model", {name: header}, tensors)


def model_from_archive(archive: Archive, name: str = "model") -> Atlas:
    """The model of an archive; raise a ValueError if it is invalid."""
    fields = Fields.with_optional(archive.header.get(name), f"{name!r} of the header", MODEL, *OPTIONAL)
    bare = read_bare_model(archive, fields.value["configuration"], name)
    bare = constrained(bare, _read_monotonic(fields, bare))
    updates = [
        _read_record(archive, value, bare, f"{name}.updates.{k}")
        for k, value in enumerate(fields.items("updates"))
    ]
    pool = pool_from_archive(archive, fields.value["evidence"], bare, f"{name}.evidence")
    charts = [
        _read_chart(archive, value, bare, pool, f"{name}.charts.{k}")
        for k, value in enumerate(fields.items("charts"))
    ]
    memory = None if pool is None else pool.memory
    local, later = read_local(archive, fields.value, bare, memory, name)
    whole = replace(
        state_of(bare).with_charts(charts),
        pooled=pool,
        offsets=read_offsets(archive, bare, name),
        local=local,
        later=later,
    )
    model = model_in(_derived(whole), updates)
    if not is_monotone(state_of(model)):
        raise ValueError(f"the coefficients of {name} or of its charts do not follow {MONOTONE!r}")
    _check_log(model)
    check_chain(model, fields.value["chain"])
    return model


def _derived(state: State) -> State:
    """The state with its model cached in the pool, if it is the one derived from kept rows."""
    pool = state.pooled
    if not isinstance(pool, Pool) or pool.memory is None or not pool.is_base_alone:
        return state
    unit = np.tile([0.0, 1.0], (state.lattice.inputs, 1))
    alone = replace(state.with_charts(()), pooled=None, offsets=None)
    smaller = (cropped(alone, unit, density) for density in range(state.density + 1))
    base = next(each for each in smaller if each is not None)
    if base.later is not None:
        base = replace(base, later=replace(base.later, state=replace(base.later.state, offsets=None)))
    return replace(state, pooled=pool.derived_as(base))


def _read_monotonic(fields: Fields, model: Atlas) -> Monotonic:
    """Monotone directions of each output along each input; empty if the file has none."""
    if MONOTONE not in fields.value:
        return ()
    directions = fields.items(MONOTONE)
    shaped = len(directions) == model.outputs and all(
        isinstance(w, list) and len(w) == model.inputs for w in directions
    )
    if not shaped or any(type(sign) is not int or abs(sign) > 1 for each in directions for sign in each):
        raise ValueError(f"{MONOTONE!r} of {fields.name} must be -1, 0 or 1 for each input of each output")
    signs = np.array(directions)
    if not signs.any() or (abs(signs) != abs(signs[0])).any():
        raise ValueError(f"{MONOTONE!r} of {fields.name} must be of the same inputs for each output")
    return tuple(map(tuple, directions))


def _function_range(domain: Domain, density: int, dtype: str) -> NDArray[np.intp]:
    """First and last basis function of each input whose support meets a domain: shape (2, inputs)."""
    return cell_range(domain, density, dtype).T + np.array([[0], [splines.ACTIVE - 1]])


def _check_log(model: Atlas) -> None:
    """Refuse repeated ids, and charts or revertible statistics of updates that are missing or reverted."""
    if len({record.id for record in model.updates}) < len(model.updates):
        raise ValueError("two of its updates have the same id")
    kinds = {record.id: record.kind for record in model.updates if not record.reverted}
    for chart in model.charts:
        # the decision for a pooled update may change once other rows are reverted or forgotten
        if kinds.get(chart.update) not in ("chart", "both", "pool"):
            raise ValueError(
                f"a chart belongs to update {chart.update}, which is not in the log or has no charts"
            )
        _check_recent(state_of(chart.content), kinds, after=chart.update)
        _check_kept(state_of(chart.content), model.updates)
    _check_recent(state_of(model), kinds, after=0)
    _check_kept(state_of(model), model.updates)


def _check_recent(state: State, kinds: dict[int, str], after: int) -> None:
    """Refuse revertible statistics of updates that are not in the log, or not after the given one."""
    for batch in state.pooled.recent if isinstance(state.pooled, Pool) else ():
        if kinds.get(batch.update) not in ("pool", "chart") or batch.update <= after:
            raise ValueError(
                f"statistics belong to update {batch.update}, which is not in the log or has none there"
            )


def _check_kept(state: State, log: Sequence[Record]) -> None:
    """Refuse kept rows of updates that are not in the log, in full or folded."""
    memory, folded = memory_of(state), folded_of(log)
    if memory is None:
        return
    standing = {0, *(record.id for record in log if not record.reverted)}
    for update in np.unique(memory.rows.updates).tolist():
        if update not in standing and (folded is None or update > folded.last):
            raise ValueError(f"kept rows belong to update {update}, which is not in the log")


# --- charts and windows -------------------------------------------------------------------------------


def _chart_header(chart: Chart) -> dict[str, Any]:
    return {
        "update": chart.update,
        "replaces": chart.replaces,
        "terms": chart.content.terms,
        "density": chart.content.density,
        "filled": chart_densities(chart).tolist(),
        "fence": chart.window.density,
        "evidence": pool_header(state_of(chart.content).pooled),
    }


def _chart_tensors(chart: Chart, name: str) -> dict[str, NDArray[Any]]:
    width = table_width(chart.content.outputs, chart.content.terms)
    if state_of(chart.content).local or state_of(chart.content).later is not None:
        raise ValueError("a chart has local terms, which have no place in a file")
    return {
        f"{name}.table": chart_table(chart)[:, :width],
        f"{name}.slope": chart_layout(chart).slope[:width],
        f"{name}.fence": _window_range(chart.window),
        f"{name}.domain": np.broadcast_to(chart.window.domain, (chart.content.inputs, 2)),
        **pool_tensors(state_of(chart.content).pooled, f"{name}.evidence"),
    }


def _read_chart(archive: Archive, value: object, model: Atlas, pool: Pool | None, name: str) -> Chart:
    fields = Fields(value, name, CHART)
    terms, density = fields.whole("terms"), fields.whole("density", most=MAX_DENSITY)
    lattice = Lattice.of_unit_cube(model.inputs, density, model.dtype)
    width = table_width(model.outputs, terms)
    table = read_table(archive, f"{name}.table", lattice, width)
    archive.reserve(2 * padded_size(table))  # kernels need all charts in one array as well
    open_range = archive.tensor(f"{name}.fence", "int32", (model.inputs, 2))
    domain = read_domain(archive, f"{name}.domain", model.inputs, model.domain)
    bare = Atlas(model.inputs, model.outputs, terms, density, dtype=model.dtype)
    state_of(bare).table[:, :width] = table
    bare = constrained(bare, state_of(model).monotonic)
    loss = None if pool is None else pool.loss
    pooled = chart_memory(archive, fields.value["evidence"], bare, loss, f"{name}.evidence")
    slope = archive.tensor(f"{name}.slope", model.dtype.name, (width,))
    chart = Chart(
        update=fields.whole("update", least=1),
        window=_read_window(
            fields.whole("fence", most=MAX_DENSITY), open_range, domain, model, name, _spanned(domain, model)
        ),
        content=model_in(replace(state_of(bare), pooled=pooled)),
        size=slope[2 * terms :: 2 * terms + 1].copy(),  # the slope of F
        replaces=fields.flag("replaces"),
    )
    _check_derived(chart, slope, fields.items("filled"), name)
    return chart


def _check_derived(chart: Chart, slope: NDArray[np.floating], filled: list[Any], name: str) -> None:
    """Refuse stored values that do not agree with the content and size of a chart, which imply them."""
    width = slope.size
    if (chart.size <= 0).any() or not np.array_equal(chart_layout(chart).slope[:width], slope):
        raise ValueError(f"tensor '{name}.slope' does not fall like 1/k² from a positive size")
    if any(type(d) is not int for d in filled) or filled != chart_densities(chart).tolist():
        raise ValueError(f"'filled' of {name} must be the densities that have coefficients")


def _window_range(window: Window) -> NDArray[np.int32]:
    """First and last open function of each input: (inputs, 2)."""
    return np.stack([window.first, window.last], axis=1).astype(np.int32)


def _spanned(domain: Domain, model: Atlas) -> Domain:
    """Largest domain of the window of a chart, which follows that of the model along monotone inputs."""
    spanned = np.isin(np.arange(model.inputs), state_of(model).monotone_inputs)
    return np.where(spanned[:, None], model.domain, domain)


def _read_window(
    density: int,
    open_range: NDArray[np.int32],
    domain: Domain,
    model: Atlas,
    name: str,
    reached: Domain | None = None,
) -> Window:
    """A window made in a domain; its functions meet that domain or the one it was extended to."""
    first, last = np.ascontiguousarray(open_range.T)
    lowest, highest = _function_range(domain if reached is None else reached, density, model.dtype.name)
    if (first < lowest).any() or (first > last).any() or (last > highest).any():
        raise ValueError(f"a window of {name} leaves the functions of density {density}")
    counted = np.iinfo(np.int32)  # in 32 bits, from the first cell of a window, three before its functions
    if lowest.min() - 3 < counted.min or highest.max() > counted.max:
        raise ValueError(f"a window of {name} is too fine for the domain")
    window = Window(density, first, last, domain)
    if (np.diff(window.box) <= 0).any():
        raise ValueError(f"a window of {name} is empty")
    return window


# --- the log ------------------------------------------------------------------------------------------


def _record_header(record: Record) -> dict[str, Any]:
    """An entry of the log as JSON; its type is one of five words, never imported."""
    if isinstance(record, Folded):
        return folded_header(record)
    header = {"type": "record", **record_facts(record), **notes_of(record)}
    if isinstance(record, Update):
        header |= {
            "type": "update",
            "seconds": record.seconds,
            "error_before": loss_to_json(record.error_before),
            "error_after": loss_to_json(record.error_after),
            "footprint": _footprint_header(record.footprint),
            "history": {key: getattr(record.history, key) for key in HISTORY},
            "reason": record.reason,
        } | ({SETTINGS: record.settings} if record.settings else {})
        header |= _assessment_of(record)
    elif isinstance(record, Consolidation):
        header |= {key: getattr(record, key) for key in CONSOLIDATION} | {"type": "consolidation"}
    elif isinstance(record, Removal):
        header |= {"type": "removal", "updates": list(record.updates)}
    return header


def _record_tensors(record: Record, name: str) -> dict[str, NDArray[Any]]:
    if not isinstance(record, Update):
        return {}
    history = {
        f"{name}.loss": np.array(record.history.loss, np.float64),
        f"{name}.validation": np.array(record.history.validation, np.float64),
    }
    return history | _footprint_tensors(record.footprint, name)


def _read_record(archive: Archive, value: object, model: Atlas, name: str) -> Record:
    """Read an entry of the log by its type."""
    type_name = value.get("type") if isinstance(value, dict) else None
    known = (*NOTES, SETTINGS, ASSESSED)
    noted = tuple(key for key in known if isinstance(value, dict) and key in value)
    if type_name == "update":
        return _read_update(archive, Fields(value, name, RECORD + UPDATE + noted), model, name)
    others = tuple(key for key in noted if key in NOTES)
    if type_name == "consolidation":
        return _read_consolidation(Fields(value, name, RECORD + CONSOLIDATION + others))
    if type_name == "folded":
        return read_folded(value, name)
    if type_name == "removal":
        return _read_removal(Fields(value, name, (*RECORD, "updates", *others)))
    fields = Fields(value, name, RECORD + others)
    fields.choice("type", ("record", "update", "consolidation"))
    return Record(**_read_entry(fields, (*UPDATE_KINDS, "consolidation")))


def _read_removal(fields: Fields) -> Removal:
    """An entry of removed rows."""
    updates = fields.items("updates")
    if any(type(number) is not int or not 0 <= number < 2**53 for number in updates):
        raise ValueError(f"'updates' of {fields.name} must be numbers of updates")
    return Removal(**_read_entry(fields, ("revert", "forget")), updates=tuple(updates))


def _read_entry(fields: Fields, kinds: tuple[str, ...]) -> dict[str, Any]:
    """The fields of all entries."""
    return {
        "id": fields.whole("id", least=1),
        "kind": fields.choice("kind", kinds),
        "time": fields.time("time"),
        "rows": fields.whole("rows"),
        "before": fields.text("before", HASH),
        "after": fields.text("after", HASH),
        "reverted": _read_reverted(fields),
        **read_notes(fields),
    }


def _read_reverted(fields: Fields) -> datetime | None:
    return None if fields.is_null("reverted") else fields.time("reverted")


def _assessment_of(record: Update) -> dict[str, Any]:
    """The assessment of an update as JSON; empty without one."""
    known, assessed = record.footprint.known_rows, record.held_out
    if known is None and assessed is None and not record.warning:
        return {}
    held_out = held_out_to_json(assessed)
    return {ASSESSED: {"known_rows": known, "held_out": held_out, "caution": record.warning}}


def held_out_to_json(assessed: HeldOut | None) -> dict[str, Any] | None:
    """An out-of-sample error as JSON; the score of a model that overflows is NaN."""
    if assessed is None:
        return None
    score = assessed.score if math.isfinite(assessed.score) else math.nan
    losses = {"error": assessed.error, "baseline": assessed.baseline, "score": score}
    plain = {key: loss_to_json(value) for key, value in losses.items()}
    return {"rows": assessed.rows, "crossed": assessed.cross_validated, **plain}


def _read_assessment(fields: Fields) -> tuple[float | None, HeldOut | None, str]:
    """The share of known rows in the footprint of an update, its out-of-sample error, and its warning."""
    if ASSESSED not in fields.value:
        return None, None, ""
    found = Fields(fields.value[ASSESSED], f"{ASSESSED!r} of {fields.name}", ASSESSMENT)
    known = None if found.is_null("known_rows") else found.number("known_rows", least=0)
    if known is not None and known > 1:
        raise ValueError(f"'known_rows' of {found.name} must be a share")
    if found.is_null("held_out"):
        return known, None, found.text("caution")
    assessed = Fields(found.value["held_out"], f"'held_out' of {found.name}", HELD_OUT)
    error, baseline, score = (loss_from_json(assessed, key) for key in ("error", "baseline", "score"))
    held_out = HeldOut(assessed.whole("rows", least=1), assessed.flag("crossed"), error, baseline, score)
    return known, held_out, found.text("caution")


def _read_update(archive: Archive, fields: Fields, model: Atlas, name: str) -> Update:
    known, held_out, warning = _read_assessment(fields)
    area = _read_footprint(archive, fields.value["footprint"], model, name)
    return Update(
        **_read_entry(fields, UPDATE_KINDS),
        footprint=replace(area, known_rows=known),
        seconds=fields.number("seconds", least=0),
        error_before=loss_from_json(fields, "error_before"),
        error_after=loss_from_json(fields, "error_after"),
        history=_read_history(archive, fields.value["history"], name),
        reason=fields.text("reason"),
        settings=_read_settings(fields) if SETTINGS in fields.value else {},
        held_out=held_out,
        warning=warning,
    )


def _read_settings(fields: Fields) -> dict[str, Any]:
    """Options of an update; replay checks their values."""
    settings = fields.mapping(SETTINGS)
    plain = all(value is None or isinstance(value, bool | int | float | str) for value in settings.values())
    if not plain or len(settings) > MOST_SETTINGS:
        raise ValueError(f"{SETTINGS!r} of {fields.name} must be at most {MOST_SETTINGS} numbers and strings")
    return settings


def _read_consolidation(fields: Fields) -> Consolidation:
    return Consolidation(
        **_read_entry(fields, ("consolidation",)),
        replaced=fields.flag("replaced"),
        error=fields.number("error", least=0),
        worst=fields.number("worst", least=0),
        seconds=fields.number("seconds", least=0),
    )


def loss_to_json(loss: float) -> float | str:
    """A number, or the string "inf" or "nan" where a model has overflowed, which JSON cannot represent."""
    return float(loss) if math.isfinite(loss) else str(float(loss)).removeprefix("-")


def loss_from_json(fields: Fields, key: str) -> float:
    """The number of `loss_to_json`."""
    return float(fields.value[key]) if fields.value[key] in ("inf", "nan") else fields.number(key)


def _read_history(archive: Archive, value: object, name: str) -> History:
    fields = Fields(value, f"the history of {name}", HISTORY)
    loss = archive.tensor(f"{name}.loss", "float64", (None,)).tolist()
    validation = archive.tensor(f"{name}.validation", "float64", (None,)).tolist()
    last = len(validation) - 1
    return History(
        loss=loss,
        validation=validation,
        seconds=fields.number("seconds", least=0),
        steps=fields.whole("steps"),
        stopped=cast(Any, fields.choice("stopped", ("epochs", "patience"))),
        best_epoch=None if fields.is_null("best_epoch") else fields.whole("best_epoch", most=last),
        state=cast(Any, fields.choice("state", ("fresh", "carried"))),
    )


# --- footprints ---------------------------------------------------------------------------------------


def _footprint_header(footprint: Footprint) -> dict[str, Any]:
    if isinstance(footprint, BoxFootprint | RestFootprint):
        kind = "boxes" if isinstance(footprint, BoxFootprint) else "rest"
        return {"type": kind, "densities": [window.density for window in footprint.windows]}
    if isinstance(footprint, CrossFootprint):
        return {"type": "cross", "densities": [footprint.density]}
    raise TypeError(f"a footprint of type {type(footprint).__name__} has no place in a file")


def _footprint_tensors(footprint: Footprint, name: str) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {f"{name}.domain": footprint.domain}
    if isinstance(footprint, BoxFootprint | RestFootprint):
        ranges = [_window_range(window) for window in footprint.windows]
        shape = (len(ranges), footprint.inputs, 2)
        return tensors | {f"{name}.fences": np.array(ranges, np.int32).reshape(shape)}
    touched = cast(CrossFootprint, footprint).touched
    return tensors | {
        f"{name}.touched": np.concatenate(touched).astype(np.int64),
        f"{name}.counts": np.array([cells.size for cells in touched], np.int64),
    }


def _read_footprint(archive: Archive, value: object, model: Atlas, name: str) -> Footprint:
    fields = Fields(value, f"the footprint of {name}", ("type", "densities"))
    kind, densities = fields.choice("type", ("boxes", "rest", "cross")), fields.items("densities")
    if not (densities or kind == "rest") or any(
        type(d) is not int or not 0 <= d <= MAX_DENSITY for d in densities
    ):
        raise ValueError(f"{fields.name} needs densities from 0 to {MAX_DENSITY}")
    domain = read_domain(
        archive, f"{name}.domain", model.inputs
    )  # that of the time: the model may have shrunk since
    if kind == "cross":
        if len(densities) != 1:
            raise ValueError(f"{fields.name} is a cross, and needs one density")
        touched = _read_touched(archive, domain, densities[0], model, name)
        return CrossFootprint(domain, model.dtype, densities[0], touched)
    ranges = archive.tensor(f"{name}.fences", "int32", (len(densities), model.inputs, 2))
    windows = tuple(  # also of that time: windows of charts may have followed the model since
        _read_window(density, part, domain, model, name)
        for density, part in zip(densities, ranges, strict=True)
    )
    return (BoxFootprint if kind == "boxes" else RestFootprint)(domain, model.dtype, windows)


def _read_touched(
    archive: Archive, domain: Domain, density: int, model: Atlas, name: str
) -> tuple[NDArray[np.intp], ...]:
    """Cells of each input, rising, in the domain or up to three cells beyond it."""
    counts = archive.tensor(f"{name}.counts", "int64", (model.inputs,))
    cells = archive.tensor(f"{name}.touched", "int64", (None,)).astype(np.intp, copy=False)
    if (counts < 0).any() or (counts > cells.size).any() or counts.sum() != cells.size:
        raise ValueError(f"tensor '{name}.counts' does not add up to the touched cells")
    touched = tuple(np.split(cells, np.cumsum(counts)[:-1]))
    first, last = _function_range(domain, density, model.dtype.name) + np.array([[-3], [0]])
    for part, least, most in zip(touched, first, last, strict=True):
        if (np.diff(part) <= 0).any() or (part < least).any() or (part > most).any():
            raise ValueError(f"tensor '{name}.touched' must hold rising cells near the domain")
    return touched
