"""Serialisation of local terms and of kept rows, as docs/format.md describes.

The centres of local terms are the distinct points of kept rows, which are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.io.bare_models import configuration_of, read_bare_model, table_tensors
from atlas_splines.memory.kept_rows import Distinct, HeldRows
from atlas_splines.memory.laplace_kernel import LaplaceKernel
from atlas_splines.memory.local_memory import Component, LocalMemory, Mixture, Part
from atlas_splines.memory.statistics import HEAVIEST
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.local_terms import LEAF, Boxes, LocalTerms
from atlas_splines.model.state import Later, Offsets, State, inputs_of

__all__ = [
    *("LATER", "LOCAL", "SEGMENTS", "local_header", "local_tensors", "memory_header", "memory_tensors"),
    *("offsets_tensors", "read_local", "read_memory", "read_offsets"),
]

Array = NDArray[np.float32]
Tensors = dict[str, NDArray[Any]]

LOCAL, LATER = "local", "later"  # fields of a model with such terms; others lack them
MEMORY = ("rows", "clocks", "box_rows", "budget", "known", "later")
MIXTURE, COMPONENT = ("smooth", "linear", "components"), ("of", "share", "noise")
BEYOND = ("configuration", LOCAL)
SEGMENTS = "segments"  # false for older versions, where points of all updates are merged
MOST_TERMS = 64  # local terms of a model, and components of a mixture: fits have at most three
MOST_BOX_ROWS = 20_000  # an update solves for all rows of a box, in cubic time
LEAST_NOISE = 1e-9  # with less, close rows make the kernel matrix singular; fits have at least 1e-5
DEEPEST = 200  # levels of a tree: each side of a cut has at least a fifth of the rows, so 10¹² rows have 100
ROW_BYTES = 120  # of memory for each row, to find distinct points


# --- local terms ----------------------------------------------------------------------------------------


def local_header(state: State) -> dict[str, Any]:
    """Fields of the header of a model with local terms; empty without any."""
    own: dict[str, Any] = {LOCAL: len(state.local)} if state.local else {}
    if state.later is None:
        return own
    beyond = state.later.state
    return own | {LATER: {"configuration": configuration_of(model_in(beyond)), LOCAL: len(beyond.local)}}


def local_tensors(state: State, memory: LocalMemory | None, name: str) -> Tensors:
    """Arrays of the local terms of a model, and of the model beyond the end of a clock."""
    beyond = None if state.later is None else state.later.state
    if not state.local and beyond is None:
        return {}
    known = None if memory is None else memory.points
    tensors = _terms_tensors(state.local, known, f"{name}.{LOCAL}")
    if state.later is None or beyond is None:
        return tensors
    name = f"{name}.{LATER}"
    return (
        tensors
        | _terms_tensors(beyond.local, known, f"{name}.{LOCAL}")
        | table_tensors(model_in(beyond), name)
        | offsets_tensors(beyond.offsets, name)
        | {
            f"{name}.clocks": state.later.clocks.astype(np.int64),
            f"{name}.signs": state.later.directions.astype(np.int32),
            f"{name}.ends": state.later.ends,
            f"{name}.slopes": state.later.slopes,
        }
    )


def _terms_tensors(local: tuple[LocalTerms, ...], known: Array | None, name: str) -> Tensors:
    """Arrays of all local terms of a state; centres only if they differ from the known points."""
    tensors: Tensors = {}
    for k, terms in enumerate(local):
        tensors |= {
            f"{name}.{k}.nodes": terms.boxes.nodes,
            f"{name}.{k}.cuts": terms.boxes.cuts,
            f"{name}.{k}.rates": terms.rates,
            f"{name}.{k}.weights": terms.weights,
            f"{name}.{k}.constants": terms.constants.astype(np.float32),
        }
        if known is None or not _are_same(terms.centres, known):
            tensors[f"{name}.{k}.centres"] = terms.centres
    return tensors


def _are_same(one: Array, other: Array) -> bool:
    """Whether two arrays are the same bit for bit: −0 is not 0."""
    return one.shape == other.shape and np.array_equal(one.view(np.uint32), other.view(np.uint32))


def read_local(
    archive: Archive, fields: Mapping[str, Any], model: Atlas, memory: LocalMemory | None, name: str
) -> tuple[tuple[LocalTerms, ...], Later | None]:
    """Local terms of a model, and the model beyond the end of a clock; raise a ValueError if invalid."""
    if LOCAL not in fields and LATER not in fields:
        return (), None
    if state_of(model).monotonic:
        raise ValueError(f"{name} is monotone along inputs, so it cannot have local terms")
    points = None
    if memory is not None:
        archive.reserve(ROW_BYTES * len(memory.rows) + memory.rows.points.nbytes)
        points = memory.points if fields.get(SEGMENTS, True) else Distinct.of(memory.newest).points
    local = _read_all_terms(archive, fields, f"'{LOCAL}' of {name}", model, points, f"{name}.{LOCAL}")
    if LATER not in fields:
        return local, None
    return local, _read_later(archive, fields[LATER], model, points, f"{name}.{LATER}")


def _read_later(archive: Archive, value: object, model: Atlas, points: Array | None, name: str) -> Later:
    fields = Fields(value, name, BEYOND)
    beyond = read_bare_model(archive, fields.value["configuration"], name, f"the configuration of {name}")
    if (beyond.inputs, beyond.outputs, beyond.dtype) != (model.inputs, model.outputs, model.dtype):
        raise ValueError(f"{name} has other inputs, outputs or another dtype than the model")
    if beyond.is_extended:
        raise ValueError(f"{name} reaches beyond the unit cube")
    local = _read_all_terms(archive, fields.value, f"{LOCAL!r} of {name}", model, points, f"{name}.{LOCAL}")
    clocks = archive.tensor(f"{name}.clocks", "int64", (None,))
    if (
        not len(clocks)
        or len(np.unique(clocks)) < len(clocks)
        or clocks.min() < 0
        or clocks.max() >= model.inputs
    ):
        raise ValueError(f"tensor '{name}.clocks' must be different inputs")
    signs = archive.tensor(f"{name}.signs", "int32", (len(clocks),))
    if (np.abs(signs) != 1).any():
        raise ValueError(f"tensor '{name}.signs' must be 1 or -1")
    ends = archive.tensor(f"{name}.ends", "float32", (len(clocks),))
    _check_unit(ends, f"{name}.ends")
    slopes = archive.tensor(f"{name}.slopes", "float32", (model.inputs, model.outputs))
    state = replace(state_of(beyond), local=local, offsets=read_offsets(archive, model, name))
    return Later(clocks.astype(np.intp), signs.astype(np.int8), ends, state, slopes)


def _read_all_terms(
    archive: Archive, fields: Mapping[str, Any], title: str, model: Atlas, points: Array | None, name: str
) -> tuple[LocalTerms, ...]:
    if LOCAL not in fields:
        return ()
    count = Fields({LOCAL: fields[LOCAL]}, title, (LOCAL,)).whole(LOCAL, most=MOST_TERMS)
    return tuple(_read_terms(archive, model, points, f"{name}.{k}") for k in range(count))


def _read_terms(archive: Archive, model: Atlas, points: Array | None, name: str) -> LocalTerms:
    centres = points
    if f"{name}.centres" in archive.tensors or centres is None:
        centres = archive.tensor(f"{name}.centres", "float32", (None, model.inputs))
        _check_unit(centres, f"{name}.centres")
    boxes = _read_boxes(archive, model.inputs, name)
    rates = _read_rates(archive, model.inputs, name)
    weights = archive.tensor(f"{name}.weights", "float32", (len(centres), model.outputs))
    constants = archive.tensor(f"{name}.constants", "float32", (len(boxes), model.outputs))
    archive.reserve(2 * (centres.nbytes + weights.nbytes))  # as the kernels take them
    return LocalTerms(boxes, rates, centres, weights, constants)


def _read_rates(archive: Archive, inputs: int, name: str) -> Array:
    rates = archive.tensor(f"{name}.rates", "float32", (inputs,))
    if (rates < 0).any():
        raise ValueError(f"tensor '{name}.rates' must be numbers of at least 0")
    return rates


def _read_boxes(archive: Archive, inputs: int, name: str) -> Boxes:
    """A k-d tree, checked: every path from the root ends in a box, after a bounded number of nodes."""
    nodes = archive.tensor(f"{name}.nodes", "int32", (None, 3))
    cuts = archive.tensor(f"{name}.cuts", "float32", (len(nodes),))
    if not _is_tree(nodes, inputs):
        raise ValueError(f"tensor '{name}.nodes' is not a tree of boxes")
    return Boxes(nodes, cuts)


def _is_tree(nodes: NDArray[np.int32], inputs: int) -> bool:
    """Whether nodes are one tree whose leaves are boxes 0, 1, 2 and so on, each once."""
    is_leaf = nodes[:, 0] == LEAF
    leaves, inner = nodes[is_leaf], nodes[~is_leaf]
    if (inner[:, 0] < 0).any() or (inner[:, 0] >= inputs).any() or (leaves[:, 2] != LEAF).any():
        return False
    if not np.array_equal(np.sort(leaves[:, 1]), np.arange(len(leaves))):
        return False
    # each node but the root is a child exactly once: what is reachable from the root has no cycle
    if not np.array_equal(np.sort(inner[:, 1:].ravel()), np.arange(1, len(nodes))):
        return False
    level: NDArray[np.integer] = np.arange(len(nodes))[:1]
    reached = 0
    for _ in range(DEEPEST):
        reached += len(level)
        level = nodes[level[~is_leaf[level]], 1:].ravel()
        if not len(level):
            break
    return reached == len(nodes) > 0


def _check_unit(points: NDArray[np.floating], name: str) -> None:
    if (points < 0).any() or (points > 1).any():
        raise ValueError(f"tensor '{name}' leaves the unit cube")


# --- random effects of levels ---------------------------------------------------------------------------


def offsets_tensors(offsets: Offsets | None, name: str) -> Tensors:
    """Arrays of the offsets of levels."""
    if offsets is None:
        return {}
    return {f"{name}.offsets.keys": offsets.keys, f"{name}.offsets.values": offsets.values}


def read_offsets(archive: Archive, model: Atlas, name: str) -> Offsets | None:
    """Offsets of levels; None without any."""
    if f"{name}.offsets.keys" not in archive.tensors:
        return None
    keys = archive.tensor(f"{name}.offsets.keys", "int64", (None,))
    values = archive.tensor(f"{name}.offsets.values", model.dtype.name, (len(keys), model.outputs))
    inputs = inputs_of(keys)
    if not len(keys) or (np.diff(keys) <= 0).any() or inputs[0] < 0 or inputs[-1] >= model.inputs:
        raise ValueError(f"tensor '{name}.offsets.keys' must be rising levels of inputs of the model")
    return Offsets(keys, values)


# --- kept rows ------------------------------------------------------------------------------------------


def memory_header(memory: LocalMemory) -> dict[str, Any]:
    """The scalars and lists of a local memory as JSON."""
    return {
        "rows": len(memory.rows),
        "clocks": list(memory.clocks),
        "box_rows": memory.box_rows,
        "budget": memory.budget,
        "known": _mixture_header(memory.known),
        "later": None if memory.later is None else _mixture_header(memory.later),
    }


def _mixture_header(mixture: Mixture) -> dict[str, Any]:
    return {
        "smooth": mixture.smooth,
        "linear": mixture.linear,
        "components": [
            {"of": each.of, "share": each.share, "noise": each.kernel.noise} for each in mixture.components
        ],
    }


def memory_tensors(memory: LocalMemory, name: str) -> Tensors:
    """The kept rows, by columns, and the rates of all kernels."""
    rows = memory.rows
    tensors: Tensors = {
        f"{name}.points": rows.points.T,
        f"{name}.targets": rows.targets.T,
        f"{name}.updates": _runs(rows.updates),
    }
    if (rows.weights != 1).any():
        tensors[f"{name}.weights"] = rows.weights
    for part, mixture in (("known", memory.known), ("later", memory.later)):
        for k, each in enumerate(() if mixture is None else mixture.components):
            tensors[f"{name}.{part}.{k}.rates"] = each.kernel.rates
    return tensors


def _runs(updates: NDArray[np.int32]) -> NDArray[np.int64]:
    """Run-length encoding of the updates of rows: update and length, shape (runs, 2)."""
    starts = np.flatnonzero(np.diff(updates, prepend=-1))
    return np.stack([updates[starts], np.diff(starts, append=len(updates))], axis=1).astype(np.int64)


def read_memory(archive: Archive, value: object, shape: tuple[int, int], loss: str, name: str) -> LocalMemory:
    """The local memory of a pool; `shape` has the inputs and outputs; raise a ValueError if invalid."""
    inputs, outputs = shape
    fields = Fields(value, name, MEMORY)
    clocks = fields.items("clocks")
    if any(type(j) is not int or not 0 <= j < inputs for j in clocks) or len({*clocks}) < len(clocks):
        raise ValueError(f"'clocks' of {name} must be different inputs")
    if bool(clocks) == fields.is_null("later"):
        raise ValueError(f"'later' of {name} must be there if there are clocks, and only then")
    rows = _read_rows(archive, fields.whole("rows"), inputs, outputs, loss, name)
    parts = {
        key: _read_mixture(archive, fields.value[key], inputs, f"{name}.{key}")
        for key in ("known", *(["later"] if clocks else []))
    }
    return LocalMemory(
        rows=rows,
        known=parts["known"],
        later=parts.get("later"),
        clocks=tuple(clocks),
        box_rows=fields.whole("box_rows", least=1, most=MOST_BOX_ROWS),
        budget=fields.whole("budget", least=1),
    )


def _read_rows(archive: Archive, count: int, inputs: int, outputs: int, loss: str, name: str) -> HeldRows:
    columns = archive.tensor(f"{name}.points", "float32", (inputs, count))
    targets = archive.tensor(f"{name}.targets", "float32", (outputs, count))
    archive.reserve(columns.nbytes + targets.nbytes + 8 * count)
    _check_unit(columns, f"{name}.points")
    if loss == "cross-entropy" and not (
        ((targets == 0) | (targets == 1)).all() and (targets.sum(axis=0) == 1).all()
    ):
        raise ValueError(f"tensor '{name}.targets' must have one class for each row")
    weights = np.ones(count, np.float32)
    if f"{name}.weights" in archive.tensors:
        weights = archive.tensor(f"{name}.weights", "float32", (count,))
        if (weights <= 0).any() or (weights > HEAVIEST).any():
            raise ValueError(f"tensor '{name}.weights' must be above 0 and at most {HEAVIEST:.0f}")
    points, wanted = (np.ascontiguousarray(part.T) for part in (columns, targets))
    return HeldRows(points, wanted, weights, _read_updates(archive, count, name))


def _read_updates(archive: Archive, count: int, name: str) -> NDArray[np.int32]:
    """The update of each row; the reader of the model checks them against the log."""
    runs = archive.tensor(f"{name}.updates", "int64", (None, 2))
    numbers, lengths = runs.T
    known = (numbers >= 0).all() and (numbers < 2**31).all()
    if not known or (lengths < 1).any() or (lengths > count).any() or lengths.sum() != count:
        raise ValueError(f"tensor '{name}.updates' must be updates and their numbers of rows, {count} in all")
    return np.repeat(numbers.astype(np.int32), lengths)


def _read_mixture(archive: Archive, value: object, inputs: int, name: str) -> Mixture:
    fields = Fields(value, name, MIXTURE)
    items = fields.items("components")
    if len(items) > MOST_TERMS:
        raise ValueError(f"'components' of {name} are {len(items)}, and at most {MOST_TERMS} are allowed")
    components = [_read_component(archive, item, inputs, f"{name}.{k}") for k, item in enumerate(items)]
    return Mixture(fields.number("smooth"), fields.number("linear"), tuple(components))


def _read_component(archive: Archive, value: object, inputs: int, name: str) -> Component:
    fields = Fields(value, name, COMPONENT)
    kernel = LaplaceKernel(_read_rates(archive, inputs, name), fields.number("noise", least=LEAST_NOISE))
    return Component(kernel, cast(Part, fields.choice("of", get_args(Part))), fields.number("share"))
