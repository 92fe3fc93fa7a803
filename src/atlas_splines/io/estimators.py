"""An estimator as the parts of an archive, with the model inside it, and back.

docs/format.md describes them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.base import UNLEARNED
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.fit import FitRecord
from atlas_splines.estimators.input_space import ColumnMap
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.io.ledger import (
    LEDGER,
    derivable,
    ledger_header,
    ledger_tensors,
    read_ledger,
    with_held_rows,
)
from atlas_splines.io.models import loss_from_json, loss_to_json, model_from_archive, model_to_archive
from atlas_splines.memory.pool import RECENT
from atlas_splines.memory.random_effects import Levels, LevelUnits

if TYPE_CHECKING:
    from atlas_splines.estimators.ledger import Ledger
    from atlas_splines.tables.encoding import Encoding

__all__ = [
    "check_estimator",
    "estimator_from_archive",
    "estimator_to_archive",
    "label_values",
    "labels_to_json",
]

Estimator = AtlasRegressor | AtlasClassifier

CLASSES: dict[str, type[Estimator]] = {"regressor": AtlasRegressor, "classifier": AtlasClassifier}
HEADER = ("estimator", "model")
LEVELS = "domain.levels."  # of tensors, with the number of a column behind it
ESTIMATOR = ("parameters", "feature_names", "n_iter", "validation_loss", "fit", "table")
FIT = ("date", "rows", "held_out", "crossed", "measure")
LATER_ROWS = "later"  # of a fit, in files that have it
FIT_ERRORS = ("error", "baseline", "score")
REGRESSOR, CLASSIFIER = ("one_column",), ("labels",)
LABELS = ("dtype", "values")
NUMERIC = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
TEXT = ("str", "object")
LARGEST_SCALE = 1e154  # of targets: fit refuses those whose squares no float holds
MONOTONE, CLASS_WEIGHT, DATES = "monotonic_cst", "class_weight", "dates"
UNDO = "undo"
OPTIONAL = (MONOTONE, CLASS_WEIGHT, DATES, UNDO)  # parameters that files lack at their defaults
LARGEST_WEIGHT = 1e30  # of a class
FLAGS, WHOLE_OR_NULL = ("early_stopping", "warm_start"), ("n_jobs", "random_state")


def check_estimator(model: object) -> Estimator:
    """Return a fitted estimator, or raise an error that names what is wrong."""
    if not isinstance(model, AtlasRegressor | AtlasClassifier):
        raise TypeError(
            f"save takes an Atlas, an AtlasRegressor or an AtlasClassifier, not {type(model).__name__}"
        )
    if not hasattr(model, "model_"):
        raise ValueError(f"this {type(model).__name__} has learned nothing yet; call fit first")
    return model


# --- taking apart -------------------------------------------------------------------------------------


def estimator_to_archive(model: Estimator) -> Archive:
    """Take an estimator apart, and the encoding of its table if it has one."""
    estimator = copy.copy(check_estimator(model))  # all of one moment, even while another thread updates it
    kind, encoding = "regressor" if isinstance(estimator, AtlasRegressor) else "classifier", estimator._table
    has_names = hasattr(estimator, "feature_names_in_")
    header = {
        "parameters": {
            key: parameter_to_json(key, value)
            for key, value in estimator.get_params(deep=False).items()
            if key not in OPTIONAL or not (value is None or (key == UNDO and value == RECENT))
        },
        "feature_names": list(map(str, estimator._input_names)) if has_names else None,
        "n_iter": int(estimator.n_iter_),
        "validation_loss": [list(map(loss_to_json, losses)) for losses in estimator.validation_loss_],
        "fit": fit_to_json(estimator.fit_record_),
        "table": None if encoding is None else encoding.to_json(),
    }
    domain = estimator.domain_
    tensors = {f"domain.{part}": getattr(domain, part) for part in ("knots", "fill", "indicators")}
    levels = {j: units for j, units in domain.levels.items() if units.are_apart}  # the table tells the others
    tensors |= {f"{LEVELS}{j}": np.append(units.later, units.known) for j, units in levels.items()}
    if isinstance(estimator, AtlasRegressor):
        header["one_column"] = estimator._one_column
        tensors |= {"target.mean": estimator.target_mean_, "target.scale": estimator.target_scale_}
        if estimator._counts:
            tensors["target.dispersion"] = estimator.dispersion_
    else:
        header["labels"] = labels_to_json(estimator.classes_)
        if estimator.class_weight is not None:
            tensors["target.class_weight"] = estimator.class_weight_
    inside = model_to_archive(estimator.model_)
    ledger = estimator._current_ledger
    if ledger is not None:
        header[LEDGER] = ledger_header(ledger, parameter_to_json)
        tensors |= ledger_tensors(ledger, getattr(estimator, "classes_", None))
        for name in derivable(estimator, ledger):
            inside.tensors.pop(name, None)
    return Archive(kind, {"estimator": header, **inside.header}, tensors | inside.tensors)


def parameter_to_json(name: str, value: Any) -> Any:
    """A parameter as JSON has it."""
    if isinstance(value, np.random.RandomState):
        raise TypeError("random_state is a RandomState, which has no place in a file: set a number or None")
    if isinstance(value, np.generic):
        value = value.item()
    if name == "domain" and not isinstance(value, str):
        return [[float(low), float(high)] for low, high in value]
    if name == MONOTONE and isinstance(value, Mapping):
        return {str(column): int(way) for column, way in value.items()}
    if name == DATES and value is not None:
        return dict(value)
    if name == CLASS_WEIGHT and isinstance(value, Mapping):
        return [[label_to_json(label), float(weight)] for label, weight in value.items()]
    if name == MONOTONE and value is not None:
        return np.asarray(value).astype(int).tolist()
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"{name} is a {type(value).__name__}, which has no place in a file")
    return value


def label_to_json(label: Any) -> Any:
    """A class label as JSON has it."""
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, bool | int | float | str):
        raise TypeError(
            "class_weight has labels that are neither texts nor numbers; they have no place in a file"
        )
    return label


def fit_to_json(record: FitRecord | None) -> dict[str, Any] | None:
    """What is known of a fit."""
    if record is None:
        return None
    facts = {key: getattr(record, key) for key in FIT} | {"date": record.date.isoformat()}
    facts |= {LATER_ROWS: True} if record.later else {}
    return facts | {key: loss_to_json(getattr(record, key)) for key in FIT_ERRORS}


def labels_to_json(labels: NDArray[Any]) -> dict[str, Any]:
    """Class labels with their type."""
    dtype = "str" if labels.dtype.kind == "U" else labels.dtype.name
    values = labels.tolist()
    if dtype not in (*NUMERIC, *TEXT, "bool") or (dtype in TEXT and any(type(v) is not str for v in values)):
        raise TypeError("its classes are neither texts nor numbers, so they have no place in a file")
    return {"dtype": dtype, "values": values}


# --- putting together ---------------------------------------------------------------------------------


def estimator_from_archive(archive: Archive) -> Estimator:
    """Put an estimator together again, or raise a ValueError that says what is wrong with it."""
    header = Fields(archive.header, "the header", HEADER)
    own = REGRESSOR if archive.kind == "regressor" else CLASSIFIER
    named = "'estimator' of the header"
    fields = Fields.with_optional(header.value["estimator"], named, ESTIMATOR + own, LEDGER)
    estimator = read_parameters(archive.kind, fields.value["parameters"])
    estimator.domain_ = read_domain(archive)
    encoding = None if fields.is_null("table") else read_encoding(estimator, fields.mapping("table"))
    estimator.n_iter_ = fields.whole("n_iter")
    estimator.validation_loss_ = [read_losses(losses) for losses in fields.items("validation_loss")]
    estimator.fit_record_ = None if fields.is_null("fit") else read_fit(fields.value["fit"])
    read_names(estimator, fields)
    if isinstance(estimator, AtlasRegressor):
        read_targets(estimator, fields, archive)
    else:
        read_labels(estimator, Fields(fields.value["labels"], "the labels", LABELS), archive)
        if estimator.class_weight is not None:
            read_class_weights(estimator, archive)
    if encoding is not None:
        take_encoding(estimator, encoding)
    estimator.ledger_ = read_own_ledger(estimator, fields, archive)
    inside = archive if estimator.ledger_ is None else with_held_rows(archive, estimator, estimator.ledger_)
    estimator.model_ = model_from_archive(inside)
    check_model(estimator)
    return estimator


def take_encoding(estimator: Estimator, encoding: Encoding) -> None:
    """Let an estimator take the table that its inputs were made from."""
    names, labels = getattr(estimator, "feature_names_in_", None), estimator._known_classes
    classes = None if labels is None else tuple(labels.tolist())
    if names is None or encoding.inputs != names.tolist() or (encoding.classes or None) != classes:
        raise ValueError("its table does not go with its model")
    estimator.encoding_ = replace(encoding, classes=None)
    estimator._name_columns(encoding.names)


def check_model(estimator: Estimator) -> None:
    """Refuse a model that does not go with the columns, targets or contributions of its estimator."""
    if estimator.model_.inputs != estimator.domain_.inputs:
        raise ValueError("the model and the domain have different numbers of inputs")
    known = estimator.target_scale_ if isinstance(estimator, AtlasRegressor) else estimator.classes_
    if len(known) != estimator.model_.outputs:
        what = "targets" if isinstance(estimator, AtlasRegressor) else "classes"
        raise ValueError(
            f"the model has {estimator.model_.outputs} outputs, and there are {len(known)} {what}"
        )
    if estimator.ledger_ is not None and estimator._current_ledger is None:
        raise ValueError("the model is not the one that its ledger was of")


def read_own_ledger(estimator: Estimator, fields: Fields, archive: Archive) -> Ledger | None:
    """The contributions of an estimator, if its file has them."""
    if LEDGER not in fields.value:
        return None
    kind, labels, targets = archive.kind, None, None
    if isinstance(estimator, AtlasRegressor):
        targets = None if estimator._one_column else len(estimator.target_scale_)
    else:
        labels = estimator.classes_
    own = {name: parameter_to_json(name, getattr(estimator, name)) for name in UNLEARNED}

    def parameters(value: object) -> dict[str, Any]:
        given = Fields.with_optional(value, "the ledger", (), *estimator.get_params(deep=False)).value
        blank = {"half_life": None} | own
        found = read_parameters(kind, blank | given).get_params(deep=False)
        return {name: value for name, value in found.items() if name not in UNLEARNED}

    columns = len(estimator.domain_.knots)
    return read_ledger(archive, fields.value[LEDGER], columns, targets, labels, parameters)


def read_encoding(estimator: Estimator, table: dict[str, Any]) -> Encoding:
    """The encoding of the table of an estimator, whose levels become known to it."""
    from atlas_splines.tables.encoding import Encoding  # other files load without pyarrow

    encoding = Encoding.from_json(table)
    levels = {j: old_levels(estimator.domain_, j, coded) for j, coded in encoding.levels.items()}
    estimator.domain_ = replace(estimator.domain_, levels={**levels, **estimator.domain_.levels})
    return encoding


def old_levels(domain: ColumnMap, column: int, coded: Levels) -> LevelUnits:
    """Where levels lie by a file that does not say it: its codes were numbers as any others."""
    table = np.tile(domain.fill, (coded.placed + 1, 1))
    table[:, column] = [*range(coded.placed), domain.fill[column] if coded.placed else coded.blank]
    *known, later = domain.to_unit(table)[:, column].tolist()
    return LevelUnits(np.array(known, np.float64), later, are_apart=False)


def read_parameters(kind: str, value: object) -> Estimator:
    """An estimator that is not fitted yet."""
    maker = CLASSES[kind]
    names = [name for name in maker().get_params(deep=False) if name not in OPTIONAL]
    fields = Fields.with_optional(value, "the parameters", names, *OPTIONAL)
    for name in FLAGS:
        fields.flag(name)
    for name in WHOLE_OR_NULL:
        if not fields.is_null(name):
            fields.whole(name, least=0 if name == "random_state" else -(2**31), most=2**32 - 1)
    if UNDO in fields.value:
        fields.whole(UNDO, least=1)
    given = dict(fields.value)
    if not isinstance(given["domain"], str):
        given["domain"] = read_limits(fields.items("domain"))
    if MONOTONE in given:
        refuse_directions(given[MONOTONE])
    if CLASS_WEIGHT in given:
        given[CLASS_WEIGHT] = read_class_weight(given[CLASS_WEIGHT])
    if any(isinstance(given[name], list | dict) for name in given.keys() - {"domain", *OPTIONAL}):
        raise ValueError("one of the parameters is not a single value")
    estimator = maker(**given)
    estimator._check_parameters()
    return estimator


def refuse_directions(given: object) -> None:
    """Refuse what does not tell which way predictions have to go along columns."""
    ways = list(given.values()) if isinstance(given, dict) else given
    if not isinstance(ways, list) or any(type(way) is not int or abs(way) > 1 for way in ways):
        raise ValueError(f"{MONOTONE!r} of the parameters must be -1, 0 or 1 for columns")


def read_class_weight(given: object) -> Any:
    """Weights of classes, as a dict if they are pairs of labels and weights."""
    if not isinstance(given, list):
        return given
    for pair in given:
        is_pair = isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in (bool, int, float, str)
        if not is_pair or type(pair[1]) not in (int, float):
            raise ValueError(f"{CLASS_WEIGHT!r} of the parameters must be pairs of labels and weights")
    return dict(given)


def read_limits(items: list[Any]) -> list[tuple[float, float]]:
    """The (low, high) of each column."""
    limits = []
    for pair in items:
        if not isinstance(pair, list) or len(pair) != 2 or any(type(end) not in (int, float) for end in pair):
            raise ValueError("'domain' of the parameters must be pairs of numbers")
        limits.append((float(pair[0]), float(pair[1])))
    return limits


def read_domain(archive: Archive) -> ColumnMap:
    """The map of the columns to the unit cube."""
    knots = archive.tensor("domain.knots", "float64", (None, None))
    columns, count = knots.shape
    with np.errstate(over="ignore", divide="ignore"):
        steps = np.diff(knots, axis=1)
        are_usable = (steps > 0).all() and np.isfinite(steps).all() and np.isfinite(1 / steps).all()
    if columns < 1 or count < 2 or not are_usable:
        raise ValueError("tensor 'domain.knots' must have rising values for each column")
    fill = archive.tensor("domain.fill", "float64", (columns,))
    indicators = archive.tensor("domain.indicators", "int64", (None,))
    if (np.diff(indicators) <= 0).any() or (indicators < 0).any() or (indicators >= columns).any():
        raise ValueError("tensor 'domain.indicators' must be rising numbers of columns")
    return ColumnMap(knots, fill, indicators, read_levels(archive, columns))


def read_levels(archive: Archive, columns: int) -> dict[int, LevelUnits]:
    """Where the levels of columns of categories lie."""
    levels = {}
    for name in archive.tensors:
        if name.startswith(LEVELS):
            number = name.removeprefix(LEVELS)
            if not number.isdecimal() or int(number) >= columns:
                raise ValueError(f"tensor {name!r} is of no column")
            later, *known = archive.tensor(name, "float64", (None,)).tolist() or [np.nan]
            if not all(0 <= unit <= 1 for unit in (later, *known)):
                raise ValueError(f"tensor {name!r} must have coordinates from 0 to 1")
            levels[int(number)] = LevelUnits(np.array(known, np.float64), later)
    return levels


def read_losses(losses: object) -> list[float]:
    """Losses of one member after each pass."""
    if not isinstance(losses, list):
        raise ValueError("'validation_loss' must be lists of numbers")
    for loss in losses:
        if type(loss) not in (int, float) and loss not in ("inf", "nan"):
            raise ValueError("'validation_loss' must be lists of numbers")
    return [float(loss) for loss in losses]


def read_fit(value: object) -> FitRecord:
    """What is known of a fit."""
    fields = Fields.with_optional(value, "the fit", FIT + FIT_ERRORS, LATER_ROWS)
    return FitRecord(
        date=date.fromisoformat(fields.text("date", r"\d{4}-\d\d-\d\d")),
        rows=fields.whole("rows"),
        held_out=fields.whole("held_out"),
        crossed=fields.flag("crossed"),
        measure=fields.text("measure", r"[A-Za-z ]{1,40}"),
        **{key: loss_from_json(fields, key) for key in FIT_ERRORS},
        later=LATER_ROWS in fields.value and fields.flag(LATER_ROWS),
    )


def read_names(estimator: Estimator, fields: Fields) -> None:
    """Number of the columns, and their names if they have any."""
    estimator.n_features_in_ = len(estimator.domain_.knots)
    if fields.is_null("feature_names"):
        return
    names = fields.items("feature_names")
    if any(type(name) is not str for name in names) or len(names) != estimator.n_features_in_:
        raise ValueError(f"'feature_names' must be {estimator.n_features_in_} texts")
    estimator.feature_names_in_ = np.array(names, object)


def read_targets(estimator: AtlasRegressor, fields: Fields, archive: Archive) -> None:
    """The scale of the targets."""
    estimator.target_mean_ = archive.tensor("target.mean", "float64", (None,))
    outputs = len(estimator.target_mean_)
    estimator.target_scale_ = archive.tensor("target.scale", "float64", (outputs,))
    if (estimator.target_scale_ <= 0).any() or (estimator.target_scale_ > LARGEST_SCALE).any():
        raise ValueError(f"tensor 'target.scale' must be positive, and {LARGEST_SCALE:g} at most")
    if estimator._counts:
        estimator.dispersion_ = archive.tensor("target.dispersion", "float64", (outputs,))
        if not ((estimator.dispersion_ >= 0) & (estimator.dispersion_ <= LARGEST_SCALE)).all():
            raise ValueError("tensor 'target.dispersion' must be finite, and not negative")
    estimator._one_column = fields.flag("one_column")
    if estimator._one_column and outputs != 1:
        raise ValueError(f"'one_column' does not go with {outputs} targets")


def read_class_weights(estimator: AtlasClassifier, archive: Archive) -> None:
    """The weight of each class."""
    weights = archive.tensor("target.class_weight", "float64", (len(estimator.classes_),))
    if not ((weights > 0) & (weights <= LARGEST_WEIGHT)).all():
        raise ValueError("tensor 'target.class_weight' must be positive")
    estimator.class_weight_ = weights


def read_labels(estimator: AtlasClassifier, fields: Fields, archive: Archive) -> None:
    """The classes, sorted, one for each output of the model."""
    estimator.classes_ = label_values(fields, archive)


def label_values(fields: Fields, archive: Archive) -> NDArray[Any]:
    """Sorted class labels of a type."""
    dtype = fields.choice("dtype", (*NUMERIC, *TEXT, "bool"))
    values = fields.items("values")
    wanted = (str,) if dtype in TEXT else (bool,) if dtype == "bool" else (int, float)
    if any(type(value) not in wanted for value in values):
        raise ValueError(f"'values' of the labels must all be of type {dtype}")
    if values != sorted(set(values)):
        raise ValueError("'values' of the labels must be sorted classes")
    if dtype == "str":  # an array has room for the longest in each place
        archive.reserve(np.dtype("U1").itemsize * len(values) * max(map(len, values), default=0))
    try:
        found = np.array(values, dtype)
    except OverflowError:
        raise ValueError(f"'values' of the labels do not fit into {dtype}") from None
    if found.tolist() != values:
        raise ValueError(f"'values' of the labels do not fit into {dtype}")
    return found
