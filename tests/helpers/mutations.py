"""Files to try the loader with: models, and the many ways in which a file can be wrong.

Files are opened and sealed here as docs/format.md says, without the library's own code.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from level_rows import both, known_rows, with_levels

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, consolidate, train, update
from atlas_splines.io.estimators import take_encoding
from atlas_splines.model.atlas import commit, state_of
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.log import Record
from atlas_splines.model.state import coordinates_of, inputs_of
from atlas_splines.tables.dates import Calendar
from atlas_splines.tables.dialects import Dialect
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import Column, Encoding, frame

# How a sentence about a damaged file ends.
AGAIN = "; restore it from a copy, or save the model again"

ITEM_SIZES = {"F64": 8, "F32": 4, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}
HOSTILE = [
    None, True, False, -1, 0, 1, 2, 7, 21, 64, 2**31, 2**53, 2**63, 2**64, 10**30, -(2**63), 0.5, -0.5, 1e308, 1e-320,
    "", "0", "nan", "inf", "1e999", "model", "float16", "cross", "update", "__import__('os').abort()", "\ud800", "é" * 300,
    "2024-01-01T00:00:00", "9999-12-31T23:59:59-23:59", [], [0], [1, 1], [[]], [None] * 50, {}, {"type": "cross"},
]  # fmt: skip
# more rows than may be kept, so that what is stored of them is sums
FEW = {"density": 1, "terms": 1, "members": 2, "max_iter": 5, "features": 30, "max_rows": 1}
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e30, 1e300, 2.0**31 - 1, -(2.0**31)]


class File(NamedTuple):
    """The parts of a file, free to be edited."""

    entries: dict[str, Any]  # dtype, shape and data_offsets of each tensor
    envelope: dict[str, Any]
    body: bytearray

    @classmethod
    def open(cls, data: bytes) -> File:
        start = 8 + int.from_bytes(data[:8], "little")
        entries = json.loads(data[8:start])
        envelope = json.loads(entries.pop("__metadata__")["atlas-splines"])
        return cls(entries, envelope, bytearray(data[start:]))

    def seal(self) -> bytes:
        """Bytes of the file with the right checksum, whatever it says."""
        unsealed = self.head({**self.envelope, "sha256": "0" * 64})
        digest = hashlib.sha256(unsealed + self.body).hexdigest()
        return self.head({**self.envelope, "sha256": digest}) + self.body

    def head(self, envelope: Any) -> bytes:
        text = json.dumps({"__metadata__": {"atlas-splines": json.dumps(envelope)}, **self.entries})
        return struct.pack("<Q", len(text)) + text.encode()

    def values(self, name: str) -> np.ndarray:
        """A flat view of a tensor."""
        dtype = {"F64": "<f8", "F32": "<f4", "I32": "<i4", "I64": "<i8"}.get(
            self.entries[name]["dtype"], "u1"
        )
        return np.frombuffer(memoryview(self.body)[slice(*self.entries[name]["data_offsets"])], dtype)


def small_model() -> Atlas:
    """A model without charts, as small as can be."""
    model = Atlas(inputs=1, terms=1, density=0, trainable="all", damping=0.5)
    state_of(model).table[:, :3] = np.linspace(-1, 1, 12).reshape(4, 3)
    return model


def rich_model(dtype: str = "float32", outputs: int = 1) -> Atlas:
    """A model with all that a file can hold: charts, each kind of update, one taken back, a consolidation."""
    random = np.random.default_rng(0)
    model = Atlas(inputs=2, outputs=outputs, terms=2, density=1, dtype=dtype)
    X = random.random((200, 2))
    train(model, X, np.tile(np.sin(5 * X[:, :1]), outputs), epochs=3, random_state=0)
    few = {"epochs": 2, "terms": 1, "random_state": 0}
    y = np.tile(3 + X[:, 1:], outputs)
    update(model, 0.6 + 0.3 * X, y, charts=2, density=1, **few)
    consolidate(model, tolerance=1e6, density=2, terms=3, samples=200, epochs=1, random_state=0)
    model.extend(low=[-0.3, 0], high=[1, 1.4])
    for retention in ("rehearsal", "none", "both", "chart", "chart"):
        update(model, 1.1 * X - [0.1, 0], y, retention=retention, density=0, charts=1, accept=True, **few)
    model.revert(model.updates[-1].id)
    last = model.updates[-1]
    model.updates.append(Record(last.id + 1, "none", last.time, 0, last.after, last.after))
    return model


def long_lived_model() -> Atlas:
    """A model whose log is so long that its oldest entries are folded."""
    model = small_model()
    hashed, start = model.fingerprint(), datetime(2024, 1, 1, tzinfo=timezone.utc)
    for number in range(1, 206):
        time = start + timedelta(days=number)
        commit(model, state_of(model), Record(number, "none", time, number, hashed, hashed))
    return model


def small_regressor() -> AtlasRegressor:
    """A regressor with missing values, names of columns, a trained chart and an extended domain."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({"size": 100 * random.random(60), "age": random.integers(0, 9, 60).astype(float)})
    y = X["size"] * X["age"]
    X.loc[::7, "age"] = np.nan
    model = AtlasRegressor(missing="learn", extrapolation="linear", retention="chart", random_state=0, **FEW)
    return model.fit(X, y.to_numpy()).partial_fit(1.3 * X[:20], np.zeros(20), accept=True)


def small_classifier() -> AtlasClassifier:
    """A classifier of three names, with rows that were pooled."""
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 2))
    y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + random.normal(size=90), [-0.5, 0.5])]
    model = AtlasClassifier(domain=[(-4, 4), (-5, 5)], random_state=0, **FEW)
    return model.fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])


def pooled_regressor() -> AtlasRegressor:
    """A regressor with all that evidence can hold: memories that have faded, an update taken back, and a chart.

    The chart has evidence of its own, which rows have joined.
    """
    random = np.random.default_rng(0)
    X = random.random((400, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=400)
    model = AtlasRegressor(random_state=0, **FEW).fit(X[:200], y[:200])
    for k in range(200, 380, 30):
        model.partial_fit(X[k : k + 30], y[k : k + 30])
    changed = 0.3 + 0.2 * random.random((75, 2))
    model.partial_fit(changed[:55], 5 + changed[:55, 0])
    model.partial_fit(np.vstack([changed[55:], X[380:]]), np.append(5 + changed[55:, 0], y[380:]))
    return model.revert(6)


def of_table(
    estimator: AtlasRegressor | AtlasClassifier, encoding: Encoding
) -> AtlasRegressor | AtlasClassifier:
    """The estimator that was fitted to named inputs, as one that takes their table."""
    take_encoding(estimator, encoding)
    return estimator


def small_table_model() -> AtlasRegressor:
    """A regressor that knows its table, with a column of each kind."""
    columns = (
        Column("size"),
        Column("when", calendar=Calendar(("hour", "trend"), "%d.%m.%Y", "2024-01-01", "+01:00")),
        Column("city", ("Bergen", "Cadiz"), others=("Oslo",)),
    )
    encoding = Encoding(columns, "price", dialect=Dialect(";", False, ("?",), ","))
    X = np.random.default_rng(0).random((60, 4)) * [100, 24, 30, 1]
    X[:, 3] = X[:, 3].round()
    X[::9, 1:3] = np.nan
    model = AtlasRegressor(missing="learn", random_state=0, **FEW)
    return of_table(model.fit(frame(encoding.inputs, X.T), X[:, 0] + X[:, 3]), encoding)


def updated_table_model() -> AtlasRegressor:
    """A regressor that knows its table, and has a chart."""
    return of_table(small_regressor(), Encoding((Column("size"), Column("age")), "price"))


def monotone_regressor() -> AtlasRegressor:
    """A regressor that has to rise along its first column, with evidence and a chart."""
    random = np.random.default_rng(0)
    X = random.random((80, 2))
    model = AtlasRegressor(features=30, members=1, monotonic_cst=[1, 0], random_state=0)
    model.fit(X, X[:, 0] * X[:, 1])
    model.partial_fit(X[:30], X[:30, 0])
    return model._update(*model._checked(0.3 * X, 1 + X[:, 0], None), retention="chart", random_state=0)


def level_regressor() -> AtlasRegressor:
    """A regressor with levels that have effects, more updates than can be taken back, and so sums that fade."""
    model = with_levels(AtlasRegressor(domain=[(0, 1)] * 2, random_state=0, **FEW), *known_rows(150, 0))
    for seed in range(1, 6):
        model.partial_fit(*both(15, seed))
    return model


def classifier_of_many() -> AtlasClassifier:
    """A classifier whose classes share their radial basis functions, so that its table is written by columns."""
    random = np.random.default_rng(0)
    X = random.random((39, 6))  # too few rows for a member, whose columns are all different
    return AtlasClassifier(random_state=0).fit(X, (3 * X[:, :2]).astype(int) @ [1, 3])


def clock_rows(rows: int, seed: int, start: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that are sorted by a running number, some of them with a missing value, and weights."""
    random = np.random.default_rng(seed)
    X = np.column_stack([np.arange(start, start + rows), random.random((rows, 2))])
    y = np.abs(X[:, 1] - 0.5) * 4 + (X[:, 2] > 0.6) + np.sin(X[:, 0] / 7) + 0.05 * random.normal(size=rows)
    X[::11, 2] = np.nan
    return X, y, random.choice([0.5, 1.0, 2.0], rows)


def kept_regressor() -> AtlasRegressor:
    """A regressor that keeps its rows, and predicts those beyond the end of its clock in another way."""
    X, y, weights = clock_rows(90, 0)
    model = AtlasRegressor(features=30, missing="learn", random_state=0).fit(X, y, weights)
    for k in (1, 2):
        model.partial_fit(*clock_rows(30, k, 20 * k), accept=True)  # before the end of the clock
    return model


def kept_classifier(**options: str) -> AtlasClassifier:
    """A classifier that keeps its rows, some of them from an update."""
    X = np.random.default_rng(0).random((140, 2))
    y = np.array(["even", "odd"])[(np.floor(4 * X).sum(axis=1) % 2).astype(int)]
    model = AtlasClassifier(features=20, max_rows=130, random_state=0, **options).fit(X[:110], y[:110])
    return model.partial_fit(X[110:], y[110:])


def noted_model() -> Atlas:
    """A model whose log tells who made an update, why, how and of which data."""
    model = Atlas(inputs=1, terms=1, density=0)
    X, y = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20)
    update(model, X, y, epochs=2, density=0, terms=1, random_state=0, message="prices of May", author="Ada")
    return model


def stored_things() -> dict[str, Atlas | AtlasRegressor | AtlasClassifier]:
    """One of each kind that a file can hold, by the names that golden files have."""
    return {
        "model": rich_model(),
        "model_float64": rich_model("float64", outputs=3),
        "model_small": small_model(),
        "model_long_lived": long_lived_model(),
        "regressor": small_regressor(),
        "classifier": small_classifier(),
        "pooled": pooled_regressor(),
        "monotone": monotone_regressor(),
        "table": small_table_model(),
        "noted": noted_model(),
        "levels": level_regressor(),
        "classes": classifier_of_many(),
        "kept": kept_regressor(),
        "kept_classes": kept_classifier(),
    }


def outputs_of(loaded: Atlas | AtlasRegressor | AtlasClassifier) -> np.ndarray:
    """What a loaded thing says at some points; large coefficients may overflow, an overflow is NaN."""
    random = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        if isinstance(loaded, Atlas):
            low, high = loaded.domain.T
            points = low + (high - low) * random.random((20, loaded.inputs))
            return evaluate(state_of(loaded), points.astype(loaded.dtype))
        echo = loaded.predict_proba if isinstance(loaded, AtlasClassifier) else loaded.predict
        try:
            return echo(rows_to_predict(loaded))
        except (OverflowError, ValueError):  # the edit may have chosen extrapolation="error"
            return np.full(1, np.nan)


def rows_to_predict(estimator: AtlasRegressor | AtlasClassifier) -> np.ndarray | pd.DataFrame | EncodedRows:
    """Rows in the domain of an estimator and beyond, with the names of its columns."""
    X = np.random.default_rng(0).normal(0, 3, (20, len(estimator._input_names)))
    offsets, later = state_of(estimator.model_).offsets, state_of(estimator.model_).later
    if later is not None:
        X[10:, later.clocks] = np.linspace(80, 120, 10)[:, None]  # up to the end of `clock_rows` and beyond
    if offsets is not None:  # of a model whose columns are its inputs
        X[:10, inputs_of(offsets.keys)[0]] = coordinates_of(offsets.keys[:10])[0]
    if hasattr(estimator, "encoding_"):
        return EncodedRows(X)
    names = getattr(estimator, "feature_names_in_", None)
    return X if names is None else pd.DataFrame(X, columns=names)


# --- bytes changed without care: the checksum must notice ----------------------------------------------


def truncate(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data))]


def flip_bits(random: Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 8])):
        flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def splice(random: Random, data: bytes) -> bytes:
    """Cut, double or move a piece."""
    start, stop, to = sorted(random.randrange(len(data) + 1) for _ in range(3))
    return random.choice([data[:start] + data[to:], data[:to] + data[start:], data[start:stop] + data])


def inflate_length(random: Random, data: bytes) -> bytes:
    """Let the header claim any length."""
    return struct.pack("<Q", random.choice([0, 1, 2**20, 2**40, 2**63, 2**64 - 1])) + data[8:]


# --- files that are sealed again: the content itself must be checked -----------------------------------


def edit_header(random: Random, data: bytes) -> bytes:
    """Change, drop, add or double something anywhere in the header."""
    file = File.open(data)
    for _ in range(random.choice([1, 1, 2])):
        parent, key = random.choice(list(places(file.envelope)))
        edit_place(random, parent, key)
    return file.seal()


def edit_place(random: Random, parent: Any, key: Any) -> None:
    if key not in parent if isinstance(parent, dict) else key >= len(parent):
        return  # an earlier edit has removed it
    action = random.randrange(6)
    if action == 0:
        del parent[key]
    elif action == 1 and isinstance(parent, list):
        parent.append(parent[key])
    elif action == 1:
        parent["more"] = parent[key]
    elif action == 2 and type(parent[key]) in (int, float):
        parent[key] = parent[key] * random.choice([-1, 2, 2**30]) + random.choice([-1, 0, 1])
    else:
        parent[key] = random.choice(HOSTILE)


def places(value: Any) -> Any:
    """Every place in a JSON value, as its container and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places(item)


def edit_entry(random: Random, data: bytes) -> bytes:
    """Change what the file says about a tensor: name, dtype, shape or place."""
    file = File.open(data)
    name = random.choice(list(file.entries))
    action = random.randrange(4)
    if action == 0:
        file.entries[name + random.choice(["x", "\0", ".table"])] = file.entries.pop(name)
    elif action == 1:
        file.entries[name]["dtype"] = random.choice([*ITEM_SIZES, "F16", "C64", "F8_E4M3", "", None])
    else:
        parent, key = random.choice(list(places(file.entries[name])))
        edit_place(random, parent, key)
    return file.seal()


def edit_numbers(random: Random, data: bytes) -> bytes:
    """Put some other numbers into a tensor."""
    file = File.open(data)
    name = random.choice(list(file.entries))
    values = file.values(name)
    with np.errstate(all="ignore"):
        for _ in range(random.choice([1, 3])):
            if values.size:
                values[random.randrange(values.size)] = np.float64(random.choice(NUMBERS)).astype(
                    values.dtype
                )
    return file.seal()


def inflate(random: Random, data: bytes) -> bytes:
    """Ask for terabytes: in the configuration, or for a tensor."""
    file = File.open(data)
    configuration = file.envelope["header"]["model"]["configuration"]
    size = random.choice([2**20, 2**31, 2**40, 2**62])
    keys = random.sample(["inputs", "outputs", "terms"], random.randrange(3))
    for key in keys:
        configuration[key] = size
    if not keys or random.random() < 0.5:
        entry = file.entries[random.choice(list(file.entries))]
        entry["shape"] = [size] * len(entry["shape"])
        entry["data_offsets"][1] += random.choice([0, size, size * ITEM_SIZES[entry["dtype"]]])
    return file.seal()


CARELESS = (truncate, flip_bits, splice, inflate_length)
SEALED = (edit_header, edit_entry, edit_numbers, inflate)


def set_value(*keys: str, to: object) -> Callable[[File], None]:
    """An edit of what a file says of its evidence."""

    def edit(file: File) -> None:
        place = file.envelope["header"]["model"]["evidence"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return edit
