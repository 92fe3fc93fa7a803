"""Serialisation of ledgers: one columnar table of all rows, and a list of the rows of each contribution.

docs/format.md describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.estimators.ledger import Contribution, Ledger, held_rows
from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.io.logs import HASH
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.plan import RETENTIONS

if TYPE_CHECKING:
    from atlas_splines.tables.new_columns import NewColumn

__all__ = [
    *("EPOCH", "LEDGER", "MICROSECOND", "contributions_header", "contributions_tensors", "derivable"),
    *("ledger_header", "ledger_tensors", "read_contributions", "read_ledger", "with_held_rows"),
]

Array = NDArray[Any]
Tensors = dict[str, Array]

LEDGER = "ledger"  # field of estimators that have one
NAME = f"estimator.{LEDGER}"
HEADER = ("kinds", "announced")
CAME = "came"  # columns added after the fit; a field only if there are any
FIT = ("seeds", "tolerance", "levels", "trends", "announced")
UPDATE = ("retention", "far", "seed", "features", "batch_size", "learning_rate", "extrapolation")
KINDS = ("fit", "update", "reach", "classes")
EXTRAPOLATIONS = ("constant", "linear", "error")
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(microseconds=1)
MOST_SEED = 2**53
MEMORY = "model.evidence.memory"  # prefix of the kept rows of a model
LEAST_DERIVED = 2**20  # bytes from which on points are omitted that can be derived from the ledger
HELD = ("points", "targets", "weights", "updates")


# --- taking apart ---------------------------------------------------------------------------------------


def ledger_header(ledger: Ledger, parameter: Callable[[str, Any], Any]) -> dict[str, Any]:
    """The scalars and lists of a ledger; `parameter` converts one to JSON."""
    parameters = {
        name: parameter(name, value) for name, value in ledger.parameters.items() if value is not None
    }
    own = {"parameters": parameters, "fingerprint": ledger.fingerprint}
    return own | contributions_header(ledger.contributions)


def contributions_header(contributions: Sequence[Contribution]) -> dict[str, Any]:
    """Kinds of contributions with their options, and classes that were declared."""
    kinds = {_kind_of(each): None for each in contributions}
    announced = [
        [k, each.classes.tolist()]
        for k, each in enumerate(contributions)
        if each.classes is not None and _is_announced(each)
    ]
    options = [[kind, {key: _thawed(value) for key, value in given}] for kind, given in kinds]
    came = [[k, column.to_json()] for k, each in enumerate(contributions) for column in each.columns]
    return {"kinds": options, "announced": announced} | ({CAME: came} if came else {})


def _kind_of(contribution: Contribution) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Kind and options of a contribution without its seed, which most contributions share."""
    options = {key: value for key, value in contribution.options.items() if key != "seed"}
    return contribution.kind, tuple(sorted((key, _frozen(value)) for key, value in options.items()))


def _frozen(value: Any) -> Any:
    """A hashable value; NaN, which is not equal to itself, becomes None."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return None if isinstance(value, float) and np.isnan(value) else value


def _thawed(value: Any) -> Any:
    return list(map(_thawed, value)) if isinstance(value, tuple) else value


def _is_announced(contribution: Contribution) -> bool:
    """Whether its classes differ from those of its rows."""
    assert contribution.classes is not None
    return not np.array_equal(contribution.classes, np.unique(contribution.y))


def ledger_tensors(ledger: Ledger, labels: Array | None) -> Tensors:
    """All rows of a ledger with their contributions; targets of classes are indices of labels."""
    return contributions_tensors(ledger.contributions, labels, NAME)


def contributions_tensors(every: Sequence[Contribution], labels: Array | None, name: str) -> Tensors:
    """Rows of contributions; names of tensors start with a name."""
    X = np.vstack([each.X for each in every])
    y = np.concatenate([each.y for each in every]) if labels is None else _codes(every, labels)
    weights = np.concatenate([each.weights for each in every]).astype(np.float64)
    missing = np.isnan(X)
    kinds = list(dict.fromkeys(map(_kind_of, every)))
    tensors: Tensors = {
        f"{name}.inputs": _shortest(np.where(missing, 0.0, X).T),
        f"{name}.targets": _shortest(y.reshape(len(X), -1).T) if labels is None else y,
        f"{name}.contributions": np.array(
            [
                [
                    each.number,
                    (each.time - EPOCH) // MICROSECOND,
                    len(each),
                    kinds.index(_kind_of(each)),
                    each.options.get("seed", 0),
                    each.fitted,
                ]
                for each in every
            ],
            np.int64,
        ),
    }
    if missing.any():
        tensors[f"{name}.missing"] = np.packbits(missing.T.ravel())
    if (weights != 1).any():
        tensors[f"{name}.weights"] = _shortest(weights)
    if every[0].groups is not None:
        tensors[f"{name}.groups"] = every[0].groups.astype(np.int64)
    for k, column in enumerate(column for each in every for column in each.columns):
        gone = np.isnan(column.values)
        tensors[f"{name}.came.{k}"] = _shortest(np.where(gone, 0.0, column.values))
        if gone.any():
            tensors[f"{name}.came.{k}.missing"] = np.packbits(gone)
    return tensors


def _codes(contributions: Sequence[Contribution], labels: Array) -> NDArray[np.int32]:
    labelled = [labels[:0], *(each.y for each in contributions if len(each))]
    return np.searchsorted(labels, np.concatenate(labelled)).astype(np.int32)


def _shortest(values: Array) -> Array:
    """Numbers in float32 if that is exact, and otherwise in float64."""
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    return short if (short == values).all() else np.asarray(values, np.float64)


def derivable(estimator: AtlasEstimator, ledger: Ledger) -> list[str]:
    """Names of tensors of the model that can be derived from the ledger: its kept rows."""
    state = state_of(estimator.model_)
    if not isinstance(state.pooled, Pool) or state.pooled.memory is None:
        return []
    if ledger.columns or state.pooled.memory.rows.points.nbytes < LEAST_DERIVED:
        return []
    rows, own = state.pooled.memory.rows, held_rows(estimator, ledger, state.pooled.weight_unit)
    parts = zip(
        (rows.points, rows.targets, rows.weights, rows.updates),
        (own.points, own.targets, own.weights, own.updates),
        strict=True,
    )
    same = all(one.shape == other.shape and one.tobytes() == other.tobytes() for one, other in parts)
    return [f"{MEMORY}.{part}" for part in HELD] if same else []


def with_held_rows(archive: Archive, estimator: AtlasEstimator, ledger: Ledger) -> Archive:
    """An archive with the omitted tensors, derived from the ledger."""
    unit = _weight_unit(archive.header)
    if f"{MEMORY}.points" in archive.tensors or unit is None:
        return archive
    rows = held_rows(estimator, ledger, unit)
    starts = np.flatnonzero(np.diff(rows.updates, prepend=-1))
    runs = np.stack([rows.updates[starts], np.diff(starts, append=len(rows))], axis=1).astype(np.int64)
    archive.reserve(rows.points.nbytes + rows.targets.nbytes + rows.weights.nbytes)
    tensors: Tensors = {
        f"{MEMORY}.points": rows.points.T,
        f"{MEMORY}.targets": rows.targets.T,
        f"{MEMORY}.updates": runs,
    }
    if (rows.weights != 1).any():
        tensors[f"{MEMORY}.weights"] = rows.weights
    return replace(archive, tensors=archive.tensors | tensors)


def _weight_unit(header: Mapping[str, Any]) -> float | None:
    """Weight that counts as one row of the model of an archive; None if it has no local memory."""
    model = header.get("model")
    pooled = model.get("evidence") if isinstance(model, dict) else None
    if not isinstance(pooled, dict) or pooled.get("memory") is None:
        return None
    fields = Fields({"weight_unit": pooled.get("weight_unit")}, "the evidence", ("weight_unit",))
    return fields.number("weight_unit", least=1e-300)


# --- putting together -----------------------------------------------------------------------------------


def read_ledger(
    archive: Archive,
    value: object,
    columns: int,
    targets: int | None,
    labels: Array | None,
    parameters: Callable[[object], Mapping[str, Any]],
) -> Ledger:
    """The ledger of an estimator; raise a ValueError if it is invalid.

    Arguments are as in `read_contributions`, with the inputs of columns added after the fit; `parameters`
    reads those of the fit.
    """
    fields = Fields.with_optional(value, "the ledger", ("parameters", "fingerprint", *HEADER), CAME)
    rest = {key: fields.value[key] for key in (*HEADER, CAME) if key in fields.value}
    base = columns
    if CAME in rest and f"{NAME}.inputs" in archive.tensors:
        base = len(archive.tensors[f"{NAME}.inputs"])
    contributions = read_contributions(archive, rest, base, targets, labels, NAME)
    found = Ledger(contributions, parameters(fields.value["parameters"]), fields.text("fingerprint", HASH))
    widths = [len(column.inputs) for column in found.columns]
    if base + sum(widths) != columns or max(found.later, default=0) >= base:
        raise ValueError("the columns of the ledger are not those of the model")
    return found


def read_contributions(
    archive: Archive,
    value: object,
    columns: int,
    targets: int | None,
    labels: Array | None,
    name: str,
    has_fit: bool = True,
) -> tuple[Contribution, ...]:
    """Contributions of an archive; raise a ValueError if they are invalid.

    Parameters
    ----------
    archive, value
        The archive, and the entry of its header.
    columns
        Encoded inputs of a row, in the columns of the fit.
    targets
        Number of targets; None for one, of shape (rows,).
    labels
        Classes; None for numbers.
    name
        Prefix of the names of tensors.
    has_fit
        Whether the first is the fit; otherwise none is.
    """
    fields = Fields.with_optional(value, "the ledger", HEADER, CAME)
    kinds = [_read_kind(item) for item in fields.items("kinds")]
    table = archive.tensor(f"{name}.contributions", "int64", (None, 6))
    _check_table(table, kinds, has_fit)
    X, y, weights = _read_rows(archive, int(table[:, 2].sum()), columns, targets, labels, name)
    groups = None
    if f"{name}.groups" in archive.tensors and has_fit:
        groups = archive.tensor(f"{name}.groups", "int64", (int(table[0, 2]),))
    announced = _read_announced(fields.items("announced"), len(table), labels)
    came = _read_came(archive, fields, table, name, int(has_fit))
    ends = np.concatenate([[0], np.cumsum(table[:, 2])]).tolist()
    found = []
    for k, ((begin, end), (number, clock, _, place, seed, fitted)) in enumerate(
        zip(pairwise(ends), table.tolist(), strict=True)
    ):
        rows, (kind, options) = slice(begin, end), kinds[place]
        classes = None if labels is None else announced.get(k, np.unique(y[rows]))
        found.append(
            Contribution(
                number=number,
                time=EPOCH + clock * MICROSECOND,
                X=X[rows],
                y=y[rows],
                weights=weights[rows] if kind == "fit" else weights[rows].astype(np.float32),
                kind=kind,
                options=options | ({"seed": seed} if kind == "update" else {}),
                groups=groups if k == 0 else None,
                fitted=fitted,
                classes=classes if kind in ("fit", "update", "classes") else None,
                columns=came.get(k, ()),
            )
        )
    return tuple(found)


def _read_came(
    archive: Archive, fields: Fields, table: Array, name: str, first: int
) -> dict[int, tuple[NewColumn, ...]]:
    """Values of columns added after the fit, by the places of their contributions."""
    if CAME not in fields.value:
        return {}
    from atlas_splines.tables.new_columns import NewColumn  # other files load without pyarrow

    found: dict[int, tuple[NewColumn, ...]] = {}
    for k, item in enumerate(fields.items(CAME)):
        is_pair = isinstance(item, list) and len(item) == 2 and type(item[0]) is int
        if not is_pair or not 0 <= item[0] < len(table):
            raise ValueError(f"{CAME!r} of the ledger must be columns of contributions")
        rows = int(table[item[0], 2])
        values = np.array(_numbers(archive, f"{name}.came.{k}", (rows,)), np.float64)
        if f"{name}.came.{k}.missing" in archive.tensors:
            bits = archive.tensor(f"{name}.came.{k}.missing", "uint8", (-(-rows // 8),))
            values[np.unpackbits(bits, count=rows).astype(np.bool_)] = np.nan
        column, before = NewColumn.from_json(item[1], values), found.get(item[0], ())
        if column.input is None and item[0] < first:
            raise ValueError(f"{CAME!r} of the ledger has a column of the fit as one that came later")
        if column.is_blank or column.name in [each.name for each in before]:
            raise ValueError(f"a column in {CAME!r} of the ledger is repeated or empty")
        found[item[0]] = (*before, column)
    return found


def _check_table(table: Array, kinds: list[tuple[str, dict[str, Any]]], has_fit: bool) -> None:
    """Refuse contributions that are not in order, or of unknown kinds."""
    number, clock, rows, kind, seed, fitted = table.T if len(table) else np.zeros((6, 1), np.int64)
    if not len(table) or (kind < 0).any() or (kind >= len(kinds)).any():
        raise ValueError("the ledger has contributions of no kind")
    is_fit = np.array([name == "fit" for name, _ in kinds], np.bool_)[kind]
    if is_fit[1:].any() or is_fit[0] != has_fit or (has_fit and number[0] != 0):
        raise ValueError("the ledger must begin with the fit, and has no other")
    later = number[number > 0]
    if (number < 0).any() or len(np.unique(later)) < len(later):
        raise ValueError("the contributions of the ledger must have numbers of their own")
    if (np.diff(clock[int(has_fit) :]) < 0).any() or (np.abs(clock) > 2**58).any():
        raise ValueError("the contributions of the ledger must be in the order of their clocks")
    if (rows < 0).any() or (rows > 2**40).any() or (fitted[~is_fit] != 0).any():
        raise ValueError("the contributions of the ledger must have rows")
    if has_fit and not 0 < fitted[0] <= rows[0]:
        raise ValueError("the fit of the ledger must have at least one row")
    if (seed < 0).any() or (seed > MOST_SEED).any():
        raise ValueError("the contributions of the ledger must have seeds")


def _read_kind(item: object) -> tuple[str, dict[str, Any]]:
    """Kind and options of contributions."""
    if not isinstance(item, list) or len(item) != 2 or item[0] not in KINDS:
        raise ValueError("'kinds' of the ledger must be kinds with their options")
    kind, value = item
    if kind == "fit":
        return kind, _read_fit(Fields(value, "the fit of the ledger", FIT))
    if kind == "update":
        names = [name for name in UPDATE if name != "seed"]
        return kind, _read_update(Fields(value, "an update of the ledger", names))
    return kind, dict(Fields(value, f"a contribution {kind!r} of the ledger", ()).value)


def _read_fit(fields: Fields) -> dict[str, Any]:
    seeds, trends, levels = fields.items("seeds"), fields.items("trends"), fields.items("levels")
    if not seeds or any(type(seed) is not int or not 0 <= seed < 2**31 for seed in seeds):
        raise ValueError("'seeds' of the fit of the ledger must be whole numbers")
    if any(type(j) is not int or not 0 <= j < 2**31 for j in trends):
        raise ValueError("'trends' of the fit of the ledger must be inputs")
    for level in levels:
        if not _is_level(level):
            raise ValueError("'levels' of the fit of the ledger must be inputs with codes of categories")
    return {
        "seeds": seeds,
        "tolerance": fields.number("tolerance", least=0),
        "levels": [[j, placed, np.nan if blank is None else float(blank)] for j, placed, blank in levels],
        "trends": trends,
        "announced": fields.flag("announced"),
    }


def _is_level(value: object) -> bool:
    """Whether a value is an input, a number of categories, and a number or null."""
    if not isinstance(value, list) or [type(each) for each in value[:2]] != [int, int] or min(value[:2]) < 0:
        return False
    return len(value) == 3 and type(value[2]) in (int, float, type(None))


def _read_update(fields: Fields) -> dict[str, Any]:
    return {
        "retention": fields.choice("retention", RETENTIONS),
        "far": fields.flag("far"),
        "features": fields.whole("features"),
        "batch_size": fields.whole("batch_size", least=1),
        "learning_rate": fields.number("learning_rate", least=0),
        "extrapolation": fields.choice("extrapolation", EXTRAPOLATIONS),
    }


def _read_rows(
    archive: Archive, count: int, columns: int, targets: int | None, labels: Array | None, name: str
) -> tuple[Array, Array, Array]:
    """Inputs, targets and weights of all rows."""
    inputs = _numbers(archive, f"{name}.inputs", (columns, count)).T
    archive.reserve(16 * inputs.size)
    X = np.array(inputs, np.float64, order="C")
    if f"{name}.missing" in archive.tensors:
        bits = archive.tensor(f"{name}.missing", "uint8", (-(-X.size // 8),))
        X[np.unpackbits(bits, count=X.size).astype(np.bool_).reshape(columns, count).T] = np.nan
    if labels is None:
        y = np.array(_numbers(archive, f"{name}.targets", (targets or 1, count)).T, np.float64, order="C")
        y = y[:, 0] if targets is None else y
    else:
        codes = archive.tensor(f"{name}.targets", "int32", (count,))
        if (codes < 0).any() or (codes >= len(labels)).any():
            raise ValueError(f"tensor '{name}.targets' must be places of classes")
        y = labels[codes]
    weights = np.ones(count)
    if f"{name}.weights" in archive.tensors:
        weights = _numbers(archive, f"{name}.weights", (count,)).astype(np.float64)
        if (weights < 0).any():
            raise ValueError(f"tensor '{name}.weights' must not be negative")
    return X, y, weights


def _numbers(archive: Archive, name: str, shape: tuple[int, ...]) -> Array:
    """A tensor of float32 or of float64."""
    kind = archive.tensors[name].dtype.name if name in archive.tensors else ""
    return archive.tensor(name, "float32" if kind == "float32" else "float64", shape)


def _read_announced(items: list[Any], count: int, labels: Array | None) -> dict[int, Array]:
    """Declared classes, by the places of their contributions."""
    found = {}
    for item in items:
        is_pair = isinstance(item, list) and len(item) == 2 and type(item[0]) is int
        if labels is None or not is_pair or not 0 <= item[0] < count or not isinstance(item[1], list):
            raise ValueError("'announced' of the ledger must be classes of contributions")
        chosen = np.isin(labels, np.array(item[1], labels.dtype) if item[1] else labels[:0])
        if int(chosen.sum()) != len(item[1]):
            raise ValueError("'announced' of the ledger has classes that the model lacks")
        found[item[0]] = labels[chosen]
    return found
