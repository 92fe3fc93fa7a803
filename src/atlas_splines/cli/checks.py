"""Refusals of names of files and of options, before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from atlas_splines.cli.model_files import model_of
from atlas_splines.core.model import state_of
from atlas_splines.core.records import count_of
from atlas_splines.estimators.table_model import Estimator
from atlas_splines.estimators.uncertainty import checked_coverages
from atlas_splines.files.errors import StorageError
from atlas_splines.files.writer import is_stream
from atlas_splines.memory.doubt import spread_of
from atlas_splines.storage.saving import load_with_table
from atlas_splines.tables.reading import Source, TableError
from atlas_splines.tables.wording import counted

__all__ = [
    "check_absent",
    "check_coverages",
    "check_folder",
    "check_knows_doubt",
    "check_other",
    "check_picture",
    "check_predictions",
    "check_replaceable",
    "check_there",
]

WAY_OUT = "choose another name, or replace it with --force"


def check_there(path: Path) -> None:
    """Refuse the name of a model file that is not there, before anything is read or locked."""
    if not path.is_file():
        raise TableError(f"{path} does not exist or is not a file; check the name")


def check_folder(path: Path) -> None:
    """Refuse an output before anything is computed for it."""
    if str(path) == "-":
        raise TableError("- is no file: only tables go to standard output; give the name of a file")
    if not path.parent.is_dir():
        raise TableError(f"{path} cannot be written: there is no folder {path.parent}; check the name")
    if path.is_dir():
        raise TableError(f"{path} cannot be written: it is a folder; give the name of a file")
    if is_stream(path):  # it is written into, and its folder is left alone
        return
    if not os.access(path.parent, os.W_OK):
        raise TableError(
            f"{path} cannot be written: nothing can in the folder {path.parent}; choose another one"
        )


def check_replaceable(output: Path) -> None:
    """Refuse to replace a model that has learned since its fit, or a file that is no model."""
    if not output.exists() or is_stream(output):
        return
    try:
        loaded = load_with_table(output)
    except (StorageError, OSError):
        raise TableError(
            f"{output} is there already, and is not a model that can be read; {WAY_OUT}"
        ) from None
    count = count_of(model_of(loaded).updates)
    if count:
        raise TableError(f"{output} has a log of {counted(count, 'update')}, which would be lost; {WAY_OUT}")


def check_predictions(output: Path, column: str) -> None:
    """Refuse to replace a file that is no table with this column of predictions."""
    if not output.exists() or is_stream(output):
        return
    try:
        is_predicted = column in Source.of(output).columns
    except TableError:
        is_predicted = False
    if not is_predicted:
        raise TableError(f"{output} is there already, and has no column {column!r}; {WAY_OUT}")


def check_absent(output: Path) -> None:
    """Refuse to replace any file: pictures and ONNX do not tell what they are of."""
    if output.exists() and not is_stream(output):
        raise TableError(f"{output} is there already; {WAY_OUT}")


def check_other(data: str, output: Path, what: str = "the model", over: str = "the table") -> None:
    """Refuse to write something over what it is made from."""
    if data != "-" and output.exists() and Path(data).exists() and output.samefile(data):
        raise TableError(f"{output} is {over} itself, and would be lost; give {what} another name")


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written."""
    from atlas_splines.plots.style import PICTURES  # brings matplotlib, which only pictures need

    check_folder(path)
    if path.suffix not in PICTURES:
        raise TableError(f"{path} cannot be written: a picture ends in .png, .svg or .pdf")


def check_coverages(coverages: Sequence[float]) -> None:
    """Refuse a coverage that no interval can have."""
    for coverage in coverages:
        checked_coverages(coverage)


def check_knows_doubt(path: Path, estimator: Estimator, support: bool) -> None:
    """Refuse to say how sure a model is that does not know that, such as one of an older version."""
    spread = spread_of(state_of(estimator.model_))
    if spread is None:
        raise TableError(f"{path} does not know how sure it is: make it again with atlas fit")
    if support and spread.presence is None:
        raise TableError(f"{path} does not know where its first rows were: make it again with atlas fit")
