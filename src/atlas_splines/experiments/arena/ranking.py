"""Ranks of methods over cells, and what they are worth (Demšar, 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.measures import confidence, mean, scores
from atlas_splines.experiments.arena.methods import METHODS
from atlas_splines.experiments.arena.runner import Record

__all__ = ["Results", "Row", "critical_difference", "ranks", "table"]

Array = NDArray[np.floating]
REFERENCES = ("atlas-retrained", "mlp-retrained")
RANKED_PROTOCOLS = range(1, 6)  # classification is beside the point of a regression library, and shown apart


def ranks(errors: Array) -> Array:
    """Ranks within each row, from 1 for the least; equal errors share theirs, and NaN comes last.

    Examples
    --------
    >>> ranks(np.array([[0.3, 0.1, np.nan, 0.1]]))
    array([[3. , 1.5, 4. , 1.5]])
    """
    from scipy.stats import rankdata

    return np.asarray(rankdata(np.where(np.isfinite(errors), errors, np.inf), axis=1))


def critical_difference(methods: int, cells: int) -> float:
    """By how much mean ranks must differ to be told apart at 5 %, by Nemenyi's test.

    Examples
    --------
    >>> round(critical_difference(methods=4, cells=10), 2)
    1.48
    """
    from scipy.stats import studentized_range

    return float(
        studentized_range.ppf(0.95, methods, np.inf) / 2**0.5 * (methods * (methods + 1) / (6 * cells)) ** 0.5
    )


class Row(NamedTuple):
    """One method in the table; ranks are among the methods that do not keep all data."""

    method: str
    label: str
    keeps_all: bool
    rank: float  # mean over the cells of protocols 1 to 5
    rank_of_all: float  # the same, with those that keep all data
    by_protocol: dict[int, float]
    ratio: float  # final error over that of retraining: geometric mean over cells and seeds, protocols 1 to 5
    worst_ratio: float  # of a cell
    changed: float
    kilobytes: float
    train_seconds: float
    predict_microseconds: float
    note: str


class Results:
    """All records, as arrays over methods, cells and seeds; NaN where a method failed.

    Those of streams are kept as they are: they have batches instead of tasks.
    """

    def __init__(self, records: Sequence[Record], streams: Sequence[Record] = ()) -> None:
        self.streams = list(streams)
        self.methods = [name for name in METHODS if any(r["method"] == name for r in records)]
        self.cells = list(dict.fromkeys(r["cell"] for r in records))
        self.seeds = sorted({r["seed"] for r in records})
        self.protocol = {r["cell"]: r["protocol"] for r in records}
        self.records = {(r["method"], r["cell"], r["seed"]): r for r in records}
        self._scores = {key: scores(r) for key, r in self.records.items() if r["status"] == "ok"}

    def values(self, measure: str) -> Array:
        """A measure for each method, cell and seed: one of `scores`, or a number of the record itself."""
        shape = (len(self.methods), len(self.cells), len(self.seeds))
        keys = [(m, c, s) for m in self.methods for c in self.cells for s in self.seeds]
        return np.array([self._value(key, measure) for key in keys]).reshape(shape)

    def _value(self, key: tuple[str, str, int], measure: str) -> float:
        if key not in self._scores:
            return float("nan")
        measured = {**self.records[key], **self._scores[key]}
        return float(measured[measure])

    def runs(self, method: str, cell: str) -> list[Record]:
        """Records of the seeds that a method went through."""
        found = [self.records.get((method, cell, seed)) for seed in self.seeds]
        return [run for run in found if run is not None and run["status"] == "ok"]

    def ratios(self, measure: str = "final") -> Array:
        """An error over that of retraining: the better of the two retrained models of the same problem."""
        errors = self.values(measure)
        known = [self.methods.index(name) for name in REFERENCES if name in self.methods]
        if not known:
            return np.full_like(errors, np.nan)
        reference = np.fmin.reduce(errors[known])
        return errors / np.maximum(reference, 1e-12)

    def in_protocols(self, protocols: Sequence[int] | range) -> NDArray[np.intp]:
        """Numbers of the cells of some protocols."""
        return np.array([k for k, c in enumerate(self.cells) if self.protocol[c] in protocols], np.intp)

    def ranked_cells(self) -> NDArray[np.intp]:
        """Numbers of the cells of protocols 1 to 5; of all cells, if there are none."""
        ranked = self.in_protocols(RANKED_PROTOCOLS)
        return ranked if len(ranked) else np.arange(len(self.cells))

    def mean_ranks(self, methods: Sequence[int], cells: Sequence[int] | NDArray[np.intp]) -> Array:
        """Ranks among some methods in each cell, by the mean over seeds of their ranks: (methods, cells)."""
        final = self.values("final")[list(methods)][:, list(cells)]  # (methods, cells, seeds)
        count, cell_count, seeds = final.shape
        return ranks(final.reshape(count, -1).T).T.reshape(count, cell_count, seeds).mean(axis=2)

    def competitors(self) -> list[int]:
        """Numbers of the methods that do not keep all data."""
        return [k for k, name in enumerate(self.methods) if not METHODS[name].keeps_all]

    def interval(self, method: str, cell: str) -> tuple[float, float]:
        """Mean final error over seeds, and half its 95 % interval."""
        return known_confidence(self.values("final")[self.methods.index(method), self.cells.index(cell)])

    def mean_interval(self, method: str, measure: str) -> tuple[float, float]:
        """Mean of a measure over the cells of protocols 1 to 5, and half its 95 % interval over seeds."""
        values = self.values(measure)[self.methods.index(method)][self.ranked_cells()]  # (cells, seeds)
        return known_confidence(np.array([mean(of_a_seed) for of_a_seed in values.T]))

    def note(self, method: str) -> str:
        """What went wrong, and how often."""
        said = [
            r["status"] for (name, _, _), r in self.records.items() if name == method and r["status"] != "ok"
        ]
        return f"{len(said)} of {len(self.cells) * len(self.seeds)} runs {said[0]}" if said else ""


def known_confidence(values: Array) -> tuple[float, float]:
    """Mean, and half its 95 % interval, of the values that are there."""
    known = values[np.isfinite(values)]
    return confidence(known.tolist()) if len(known) else (np.nan, np.nan)


def table(results: Results) -> list[Row]:
    """One row for each method: the competitors by rank, then those that keep all data by theirs."""
    ranked = results.ranked_cells()
    everyone, competitors = range(len(results.methods)), results.competitors()
    of_all = dict(zip(everyone, results.mean_ranks(everyone, ranked).mean(axis=1), strict=True))
    apart = dict(zip(competitors, results.mean_ranks(competitors, ranked).mean(axis=1), strict=True))
    by_protocol = {
        p: protocol_ranks(results, competitors, results.in_protocols([p]))
        for p in sorted(set(results.protocol.values()))
    }
    with np.errstate(all="ignore"):
        ratios = np.log(results.ratios()[:, ranked])
    averages = {name: averaged(results.values(name)) for name in MEANS}
    rows = [
        Row(
            name,
            METHODS[name].label,
            METHODS[name].keeps_all,
            float(apart.get(k, np.nan)),
            float(of_all[k]),
            {p: float(values.get(k, np.nan)) for p, values in by_protocol.items()},
            float(np.exp(averaged(ratios)[k])),
            float(np.exp(worst(ratios[k]))),
            averages["changed"][k],
            averages["bytes"][k] / 1000,
            averages["train_seconds"][k],
            averages["predict_microseconds"][k],
            results.note(name),
        )
        for k, name in enumerate(results.methods)
    ]
    return sorted(rows, key=lambda row: (row.keeps_all, row.rank_of_all if row.keeps_all else row.rank))


MEANS = ("changed", "bytes", "train_seconds", "predict_microseconds")


def protocol_ranks(results: Results, methods: Sequence[int], cells: NDArray[np.intp]) -> dict[int, float]:
    """Mean rank of some methods over some cells, by the number of the method."""
    return dict(zip(methods, results.mean_ranks(methods, cells).mean(axis=1).tolist(), strict=True))


def averaged(values: Array) -> list[float]:
    """Mean over cells and seeds for each method, of what is there."""
    return [float(np.mean(v[np.isfinite(v)])) if np.isfinite(v).any() else float("nan") for v in values]


def worst(values: Array) -> float:
    """Largest mean of a cell, from values (cells, seeds)."""
    means: list[Any] = [v for v in averaged(values) if np.isfinite(v)]
    return max(means) if means else float("nan")
