"""The page of a model's life: what it shows is computed here, by the model itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.inputs import EncodedRows
from atlas_splines.explain.explanation import Blame
from atlas_splines.model.atlas import can_revert, state_of
from atlas_splines.serve.snapshot import COVERAGE, Snapshot, Task
from atlas_splines.tables.encoding import Column
from atlas_splines.updates.synthetic_sample import synthetic_sample_of

__all__ = ["ASSETS", "Asset", "changed_by", "life", "tried", "why"]

Array = NDArray[np.float64]
Facts = dict[str, Any]

FOLDER = Path(__file__).parent / "assets"
PLACES = 41  # along a column of numbers
MOST_CATEGORIES = 24  # that are drawn
MOST_ROWS = 6  # whose contributions are named
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class Asset:
    """A file of the page. Names and categories reach it as JSON alone, and it shows them as text."""

    name: str
    kind: str

    @property
    def content(self) -> bytes:
        """What is in it."""
        return (FOLDER / self.name).read_bytes()


ASSETS = {
    "/": Asset("page.html", "text/html; charset=utf-8"),
    "/page.css": Asset("page.css", "text/css; charset=utf-8"),
    "/page.js": Asset("page.js", "text/javascript; charset=utf-8"),
}


# --- rows like those that are known -----------------------------------------------------------------------


def known_points(snapshot: Snapshot) -> Array | None:
    """Inputs of points like known rows, shape (points, inputs); None if the model has not counted them.

    They are drawn from counts: no row of anybody is among them.
    """
    estimator = snapshot.estimator
    found = synthetic_sample_of(state_of(estimator.model_))
    if found is None:
        return None
    columns = estimator.domain_
    return np.column_stack([columns.to_raw(j, found.points[:, j]) for j in range(len(columns.knots))])


def middle_of(snapshot: Snapshot) -> Array:
    """Medians of the inputs, shape (inputs,)."""
    points = known_points(snapshot)
    return snapshot.estimator.domain_.fill if points is None else np.median(points, axis=0)


def typical_row(snapshot: Snapshot) -> Facts:
    """A row with the median number and the most frequent category of each column."""
    points, middle = known_points(snapshot), middle_of(snapshot)
    row: Facts = {}
    for column, first, end in _spans(snapshot):
        if column.calendar is not None:
            row[column.name] = _date_of(column, middle[first:end])
        elif column.categories is None:
            row[column.name] = float(f"{middle[first]:.3g}")
        else:
            row[column.name] = _most_frequent(column, None if points is None else points[:, first:end])
    return row


def _spans(snapshot: Snapshot) -> list[tuple[Column, int, int]]:
    """Columns, each with the first of its inputs and the one behind its last."""
    ends = np.cumsum([0, *(len(column.inputs) for column in snapshot.encoding.columns)]).tolist()
    return list(zip(snapshot.encoding.columns, ends, ends[1:], strict=False))


def _most_frequent(column: Column, inputs: Array | None) -> str:
    categories = column.categories or ()
    if inputs is None:
        return categories[0]
    codes = inputs.argmax(axis=1) if column.one_hot else np.rint(inputs[:, 0]).astype(int)
    inside = codes[(codes >= 0) & (codes < len(categories))]
    return categories[int(np.bincount(inside).argmax())] if len(inside) else categories[0]


def _date_of(column: Column, inputs: Array) -> str:
    """A day, as ISO 8601 has it, or a time of day."""
    assert column.calendar is not None
    parts = column.calendar.parts
    if not column.calendar.layout:
        return f"{int(inputs[0]) % 24:02d}:00"
    days = float(inputs[parts.index("trend")]) if "trend" in parts else 0.0
    return str(np.datetime64(column.calendar.start, "D") + int(days))


# --- the life ---------------------------------------------------------------------------------------------


def life(snapshot: Snapshot, name: str, coverage: Mapping[int, float], read_only: bool) -> Facts:
    """What the page shows first: the fit, each entry of the log, and a row to try."""
    standing = undoable(snapshot)
    entries = [
        entry | {"coverage": coverage.get(entry["id"]), "undoable": entry["id"] in standing}
        for entry in snapshot.log()
    ]
    record = snapshot.estimator.fit_record_
    return {
        "name": name,
        "version": snapshot.version,
        "target": snapshot.target,
        "classes": None if snapshot.encoding.classes is None else list(map(str, snapshot.encoding.classes)),
        "fit": None
        if record is None
        else {"text": str(record), "error": record.error, "date": str(record.date), "rows": record.rows},
        "entries": entries,
        "columns": [_column_facts(column) for column in snapshot.encoding.columns],
        "row": typical_row(snapshot),
        "read_only": read_only,
        "promised": COVERAGE,
    }


def undoable(snapshot: Snapshot) -> set[int]:
    """Numbers of the updates that can be reverted."""
    ledger = snapshot.estimator.ledger_
    if ledger is not None:
        return {*ledger.numbers}
    model = snapshot.estimator.model_
    return {each.id for each in model.updates if not each.reverted and can_revert(state_of(model), each)}


def _column_facts(column: Column) -> Facts:
    if column.categories is not None:
        return {"name": column.name, "kind": "category", "categories": [*column.categories, *column.others]}
    return {"name": column.name, "kind": "number" if column.calendar is None else "date"}


# --- a row ------------------------------------------------------------------------------------------------


def tried(snapshot: Snapshot, row: Facts, other: Snapshot | None) -> Facts:
    """The prediction of a row, and how it goes along each column, by one version and maybe by another."""
    rows, kinds = _rows_along(snapshot, row)
    label = None
    own = _answers(snapshot, rows, label)
    label = own["label"]
    found: Facts = {"version": snapshot.version, "label": label, "now": _first(own), "notes": own["notes"]}
    shapes = _shapes(kinds, own)
    if other is not None:
        names = {*other.encoding.names}
        fewer = [{name: value for name, value in each.items() if name in names} for each in rows]
        theirs = _answers(other, fewer, label)
        found["other"] = _first(theirs)
        for shape, values in zip(shapes, _shapes(kinds, theirs), strict=True):
            shape["other"] = values["values"]
    found["shapes"] = shapes
    return found


def _rows_along(snapshot: Snapshot, row: Facts) -> tuple[list[Facts], list[tuple[Column, list[Any]]]]:
    """The row, and the rows in which one column has other values."""
    rows, kinds, points = [row], [], known_points(snapshot)
    for column, first, _ in _spans(snapshot):
        places: list[Any]
        if column.categories is not None:
            places = [*column.categories, *column.others][:MOST_CATEGORIES]
        elif column.calendar is None:
            known = snapshot.estimator.domain_.knots[first] if points is None else points[:, first]
            low, high = float(known.min()), float(known.max())
            places = np.linspace(low, high, PLACES).tolist()
        else:
            continue
        kinds.append((column, places))
        rows += [row | {column.name: place} for place in places]
    return rows, kinds


def _answers(snapshot: Snapshot, rows: Sequence[Facts], label: Any) -> Facts:
    """Predictions of rows; of classes, the probability of that which the first row is predicted to be."""
    encoded, notes = snapshot.encode_rows(rows)
    is_classes = snapshot.is_classifier
    try:
        answer = snapshot.answer(encoded, Task((COVERAGE,), support=True, probabilities=True))
    except ValueError:  # a model that knows nothing of its errors
        answer = snapshot.answer(encoded, Task(probabilities=True))
    found: Facts = {"notes": notes, "label": None, "low": None, "high": None, "set": None, "support": None}
    if answer.support is not None:
        found["support"] = float(answer.support[0])
    region = answer.intervals.get(COVERAGE)
    if not is_classes:
        found["values"] = answer.predictions.tolist()
        if region is not None:
            found["low"], found["high"] = region.T.tolist()
        return found
    assert answer.probabilities is not None
    classes = list(snapshot.encoding.classes or ())
    label = answer.predictions[0].item() if label is None else label
    found["label"] = str(label)
    known = classes.index(label) if label in classes else list(map(str, classes)).index(str(label))
    found["values"] = answer.probabilities[:, known].tolist()
    if region is not None:
        found["set"] = [str(name) for name, there in zip(classes, region[0].tolist(), strict=True) if there]
    return found


def _first(answers: Facts) -> Facts:
    """What is answered for the row itself."""
    ends = None if answers["low"] is None else [answers["low"][0], answers["high"][0]]
    return {
        "value": answers["values"][0],
        "interval": ends,
        "set": answers["set"],
        "support": answers["support"],
    }


def _shapes(kinds: Sequence[tuple[Column, list[Any]]], answers: Facts) -> list[Facts]:
    """Predictions along each column."""
    found, begin = [], 1
    for column, places in kinds:
        end = begin + len(places)
        shape: Facts = {"name": column.name, "places": places, "values": answers["values"][begin:end]}
        if answers["low"] is not None:
            shape |= {"low": answers["low"][begin:end], "high": answers["high"][begin:end]}
        found.append(shape)
        begin = end
    return found


# --- why ------------------------------------------------------------------------------------------------


def why(snapshot: Snapshot, row: Facts) -> Facts:
    """Which columns and which updates the prediction of a row comes from; of classes, the score of one."""
    encoded, _ = snapshot.encode_rows([row])
    label = snapshot.answer(encoded).predictions[0]
    found: Facts = {"version": snapshot.version, "problem": None, "explanation": None}
    try:
        explanation = snapshot.explain(encoded)
    except ValueError as error:  # a model without counts of its rows, or with too many charts
        found["problem"] = str(error)
    else:
        output = _output_of(snapshot, label) if explanation.output_names else None
        one = explanation if output is None else explanation.of_output(output)
        found["explanation"] = {
            "names": one.feature_names,
            "values": one.values[0].tolist(),
            "base": float(one.base_values[0]),
            "unit": one.unit,
            "background": one.background,
            "is_exact": one.is_exact,
        }
    return found | {"blame": _blame_facts(snapshot, snapshot.blame(encoded), label)}


def _output_of(snapshot: Snapshot, label: Any) -> int:
    """Number of a class."""
    return list(snapshot.encoding.classes or ()).index(
        label.item() if isinstance(label, np.generic) else label
    )


def _blame_facts(snapshot: Snapshot, blame: Blame, label: Any) -> Facts:
    """Contributions of the fit and of updates to one prediction, and the rows with the largest ones."""
    output = () if blame.rest.ndim == 1 else (_output_of(snapshot, label),)
    facts: Facts = {
        "updates": blame.updates,
        "values": blame.values[(0, slice(None), *output)].tolist(),
        "base": float(blame.base_values[(0, *output)]),
        "rest": float(blame.rest[(0, *output)]),
        "unit": blame.unit if not output else f"{blame.unit} of {label}",
        "rows": [],
    }
    if blame.row_values is not None and blame.row_updates is not None and blame.row_numbers is not None:
        known = (blame.row_values[0], blame.row_updates[0], blame.row_numbers[0])
        single = list(zip(*(part.tolist() for part in known), strict=True))
        chosen = sorted(single, key=lambda each: -abs(each[0]))[:MOST_ROWS]
        facts["rows"] = [{"value": each[0], "update": each[1], "row": each[2] + 1} for each in chosen]
    return facts


# --- undoing ----------------------------------------------------------------------------------------------


def changed_by(now: Snapshot, other: Snapshot) -> Facts:
    """How far predictions of two versions lie apart, over points like known rows."""
    points = known_points(now)
    if points is None:
        return {"points": 0}
    # columns that came with an update are the last, and are gone without it
    kept = points[:, : len(other.encoding.inputs)]
    mine, theirs = _values(now, EncodedRows(points)), _values(other, EncodedRows(kept))
    if now.is_classifier:
        classes, others = list(now.encoding.classes or ()), list(other.encoding.classes or ())
        common = [label for label in classes if label in others]
        mine, theirs = mine[:, [*map(classes.index, common)]], theirs[:, [*map(others.index, common)]]
    change = np.abs(mine - theirs).reshape(len(points), -1).max(axis=1)
    return {
        "points": len(points),
        "columns_gone": [name for name in now.encoding.names if name not in other.encoding.names],
        "share": float(np.mean(change > 0)),
        "mean": float(change.mean()),
        "largest": float(change.max()),
        "unit": "probability" if now.is_classifier else now.target,
    }


def _values(snapshot: Snapshot, rows: EncodedRows) -> Array:
    """Predictions, or probabilities of classes."""
    model = snapshot.estimator
    return model.predict_proba(rows) if isinstance(model, AtlasClassifier) else model.predict(rows)
