"""The data of an update, known by its digest, and how a model learns it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core.records import Record
from atlas_splines.estimators.ledger import Ledger
from atlas_splines.estimators.reaching import REACHED
from atlas_splines.memory.log import Update
from atlas_splines.memory.row_digest import digest_text, row_hashes
from atlas_splines.memory.updates import update
from atlas_splines.versions.versioned import Versioned, estimator_of, model_of

__all__ = ["Data", "Learned", "by_digest", "learn_again", "learned"]

# Options of an update that its entry in the log may tell.
NOTED = {
    *("retention", "cover", "charts", "density", "terms", "epochs", "batch_size", "learning_rate"),
    *("loss", "features", "extend", "random_state", "far"),
}

Data = Sequence[ArrayLike]  # inputs, targets and, if they are known, weights


@dataclass(frozen=True, eq=False)
class Learned:
    """Rows as an update was given them.

    Attributes
    ----------
    X, y, weights
        Inputs, targets and weights.
    ledger
        That of the estimator, if it has one: it knows the columns that came after the fit.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    weights: NDArray[Any]
    ledger: Ledger | None = None

    @cached_property
    def hashes(self) -> list[bytes]:
        """The hash of each row."""
        own = row_hashes if self.ledger is None else self.ledger.row_hashes
        return own(self.X, self.y, self.weights)

    @property
    def digest(self) -> str:
        """The digest by which the log knows them."""
        return digest_text(self.hashes)

    def split(self, hashes: Counter[bytes]) -> tuple[Learned, Learned]:
        """Rows with these hashes, each as often as it is counted, and all others."""
        left, gone = Counter(hashes), np.zeros(len(self.hashes), np.bool_)
        for k, name in enumerate(self.hashes):
            gone[k] = left[name] > 0
            left[name] -= bool(gone[k])
        return self.take(gone), self.take(~gone)

    def take(self, rows: NDArray[np.bool_]) -> Learned:
        """Some of the rows."""
        return Learned(self.X[rows], self.y[rows], self.weights[rows], self.ledger)


def learned(thing: Versioned, data: Data) -> Learned:
    """Rows in the form in which an update of this model gets them."""
    X, y, *rest = data
    estimator = estimator_of(thing)
    if estimator is not None:
        checked = estimator._checked(X, y, rest[0] if rest else None)
        return Learned(*checked, estimator._current_ledger)
    points = np.asarray(X, np.float64)
    weights = np.asarray(rest[0], np.float64) if rest else np.ones(len(points))
    return Learned(points, np.asarray(y, np.float64), weights)


def by_digest(thing: Versioned, data: Iterable[Data]) -> dict[str, Learned]:
    """Data by its digest."""
    found = [learned(thing, rows) for rows in data]
    return {rows.digest: rows for rows in found}


def learn_again(thing: Versioned, record: Record, rows: Learned) -> Record:
    """Make the update of an entry once more, in place, with the options it had; return the new entry."""
    settings = settings_of(record)
    estimator, message, author = estimator_of(thing), record.message, record.author
    if estimator is not None:
        estimator._update(
            *(rows.X, rows.y, rows.weights),
            retention=settings["retention"],
            seed=settings["random_state"],
            far=settings["far"],
            message=message,
            author=author,
            accept=True,
        )
    else:
        weights = None if (rows.weights == 1).all() else rows.weights
        settings |= {"message": message, "author": author, "accept": True}
        update(model_of(thing), rows.X, rows.y, sample_weight=weights, **settings)
    done = model_of(thing).updates[-1]
    done.time = record.time
    return done


def settings_of(record: Record) -> dict[str, Any]:
    """The options of an update as its entry has them; it may come from a file of a stranger."""
    settings = dict(record.settings) if isinstance(record, Update) else {}
    settings.pop(REACHED, None)  # what it found, and not how it was made
    if not {"retention", "random_state"} <= settings.keys() <= NOTED:
        raise ValueError(
            f"update {record.id} cannot be made again: its entry does not tell its options, or a seed"
        )
    return settings
