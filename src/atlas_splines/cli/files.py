"""Model files and folders of tables that commands are given, and checks before anything is computed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from atlas_splines.cli.output import Say
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.predict import checked_coverages
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.files.locks import lock
from atlas_splines.files.writer import LockedError, StorageError, is_stream
from atlas_splines.io.save_load import load
from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.log import count_of
from atlas_splines.tables.encoding import Encoding
from atlas_splines.tables.source import Source, TableError
from atlas_splines.tables.wording import counted
from atlas_splines.updates.intervals import error_model_of
from atlas_splines.updates.routing import memory_in, memory_of

__all__ = [
    "Estimator",
    "Loaded",
    "alone_with",
    "check_absent",
    "check_coverages",
    "check_folder",
    "check_has_intervals",
    "check_other",
    "check_picture",
    "check_predictions",
    "check_replaceable",
    "check_there",
    "kept_rows",
    "kept_text",
    "learned_rows",
    "load_estimator",
    "model_of",
    "table_of",
]

Estimator = AtlasRegressor | AtlasClassifier
Loaded = Atlas | Estimator


def load_estimator(path: Path) -> Estimator:
    """An estimator that `fit` wrote, or that was fitted to a data frame: others have no encoding."""
    loaded = load(path)
    if isinstance(loaded, Atlas) or not hasattr(loaded, "encoding_"):
        raise TableError(f"{path} does not know the columns of a table; make it with atlas fit")
    targets = 1 if isinstance(loaded, AtlasClassifier) else loaded.model_.outputs
    if targets > 1:
        raise TableError(f"{path} has {targets} targets, and atlas knows one; use it in Python")
    return loaded


def table_of(estimator: Estimator) -> Encoding:
    """The encoding of the table of an estimator that has one."""
    encoding = estimator._table
    assert encoding is not None
    return encoding


def model_of(loaded: Loaded) -> Atlas:
    """The model inside whatever a file holds."""
    return loaded if isinstance(loaded, Atlas) else loaded.model_


def kept_rows(loaded: Loaded) -> int:
    """How many rows a model keeps: all of its ledger, or those that it predicts from."""
    ledger = getattr(loaded, "ledger_", None)
    if ledger is not None:
        return int(ledger.rows)
    memory = memory_of(state_of(model_of(loaded)))
    return 0 if memory is None else len(memory.rows)


def learned_rows(loaded: Loaded) -> int:
    """How many rows a model has learned, in rows of the mean weight of its first ones."""
    pool, kept = memory_in(state_of(model_of(loaded))), kept_rows(loaded)
    has_ledger = getattr(loaded, "ledger_", None) is not None
    return kept if pool is None or has_ledger else max(round(pool.total.count), kept)


def kept_text(loaded: Loaded, newest: bool = True) -> str:
    """Which of its rows a model keeps: the newest ones, or those of a sample."""
    kept, learned = kept_rows(loaded), learned_rows(loaded)
    if not kept:
        return "keeps no rows"
    if kept == learned:
        return f"keeps its {counted(kept, 'row')}" if kept == 1 else f"keeps all {kept:,} rows"
    which = "the newest" if newest else "a random sample of"
    return f"keeps {which} {kept:,} of {learned:,} rows; the others are in its sums"


@contextlib.contextmanager
def alone_with(path: Path, wait: float, note: Say) -> Iterator[None]:
    """Keep others from changing a file meanwhile; wait for those who do already, and say so."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock(path, timeout=0))
        except LockedError:
            note(f"another process is changing {path}; waiting for it")
            stack.enter_context(lock(path, timeout=wait))
        yield


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
        loaded = load(output)
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


def check_has_intervals(path: Path, estimator: Estimator, support: bool) -> None:
    """Refuse to say how sure a model is that does not know that, such as one of an older version."""
    error_model = error_model_of(state_of(estimator.model_))
    if error_model is None:
        raise TableError(f"{path} does not know how sure it is: make it again with atlas fit")
    if support and error_model.data_density is None:
        raise TableError(f"{path} does not know where its first rows were: make it again with atlas fit")
