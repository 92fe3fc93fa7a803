"""Model files: what is in them, and who may change them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from atlas_splines.cli.messages import Say
from atlas_splines.core.model import Atlas, state_of
from atlas_splines.estimators.table_model import Estimator, TableModel
from atlas_splines.files.errors import LockedError
from atlas_splines.files.locks import lock
from atlas_splines.memory.owners import evidence_of, memory_of
from atlas_splines.storage.saving import load_with_table
from atlas_splines.tables.reading import TableError
from atlas_splines.tables.wording import counted

__all__ = [
    "Loaded",
    "alone_with",
    "kept_rows",
    "kept_text",
    "learned_rows",
    "load_table_model",
    "model_of",
    "without_table",
]

Loaded = Atlas | Estimator | TableModel


def load_table_model(path: Path) -> TableModel:
    """A model that `fit` wrote, or that was fitted to a data frame; others do not know their columns."""
    loaded = load_with_table(path)
    if not isinstance(loaded, TableModel):
        raise TableError(f"{path} does not know the columns of a table; make it with atlas fit")
    targets = 1 if loaded.encoding.classes else loaded.estimator.model_.outputs
    if targets > 1:
        raise TableError(f"{path} has {targets} targets, and atlas knows one; use it in Python")
    return loaded


def without_table(loaded: Loaded) -> Atlas | Estimator:
    """The estimator or bare model that a file holds."""
    return loaded.estimator if isinstance(loaded, TableModel) else loaded


def model_of(loaded: Loaded) -> Atlas:
    """The model inside whatever a file holds."""
    inner = without_table(loaded)
    return inner if isinstance(inner, Atlas) else inner.model_


def kept_rows(loaded: Loaded) -> int:
    """How many rows a model keeps: all of its ledger, or those that it predicts from."""
    ledger = getattr(without_table(loaded), "ledger_", None)
    if ledger is not None:
        return int(ledger.rows)
    memory = memory_of(state_of(model_of(loaded)))
    return 0 if memory is None else len(memory.rows)


def learned_rows(loaded: Loaded) -> int:
    """How many rows a model has learned, in rows of the mean weight of its first ones."""
    pool, kept = evidence_of(state_of(model_of(loaded))), kept_rows(loaded)
    has_ledger = getattr(without_table(loaded), "ledger_", None) is not None
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
