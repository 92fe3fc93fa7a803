"""Random lives of small models, with an oracle: a plain list of what was learned.

A life is made of operations on one estimator, each with a seed of its own. After every operation the model is
compared with one that is made from scratch of the rows that are left, and invariants are checked. Failures are
AssertionErrors; what the library refuses must be refused by one sentence, and change nothing.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.base import clone

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines import versions as V
from atlas_splines.estimators import base
from atlas_splines.estimators.ledger import FRAME_RULES, framed_anew
from atlas_splines.estimators.table_model import TableModel
from atlas_splines.memory.stacking import STACKING_RULES, stack
from atlas_splines.model.atlas import state_of
from atlas_splines.model.log import UpdateWarning
from atlas_splines.model.monotone import is_monotone
from atlas_splines.tables.encoding import Encoding, frame
from atlas_splines.tables.frames import encode_frame

__all__ = ["OPERATIONS", "WEIGHTS", "Life"]

KINDS = ("numbers", "numbers", "two targets", "counts", "monotone", "frame", "classes")
SMALL = {"members": 1, "features": 24, "max_iter": 3, "random_state": 0}
LARGEST = 6_000_000  # bytes of a file of such a model, at most: five classes with charts that were consolidated have 4 MB
CATEGORIES = ("red", "green", "blue")
LEVELS, LATER_LEVELS = 22, 4  # of fits, more than are inputs of their own; and of updates alone
LATER_CATEGORIES = ("new", "a newer one", "the newest")
MOST_CLASSES = 5
ANNOUNCED, REACHED = "announced", "reached"  # in place of a retention: classes, and places, without rows


@contextmanager
def small_rules() -> Iterator[None]:
    """Rules by which models of a hundred rows do what others do with thousands: split boxes, choose frames anew.

    They are judged in two folds, since half of the time went into five.
    """
    boxes = replace(STACKING_RULES, box_rows=50, box_rows_of_classes=50)
    frames = replace(FRAME_RULES, fewest_rows=150)
    assessment = replace(base.ASSESSMENT_RULES, folds=2)
    with (
        patch.dict(stack.__kwdefaults__, rules=boxes),
        patch.object(framed_anew, "__defaults__", (frames,)),
        patch.object(base, "ASSESSMENT_RULES", assessment),
    ):
        yield


@dataclass(frozen=True)
class Learned:
    """Rows of one update, or of the fit, which has number 0, that are still to count."""

    id: int
    X: Any
    y: np.ndarray
    weights: np.ndarray | None
    retention: str = ""
    time: Any = None  # its clock

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray) -> Learned:
        X = self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]
        return replace(
            self, X=X, y=self.y[rows], weights=None if self.weights is None else self.weights[rows]
        )

    @cached_property
    def keys(self) -> list[str]:
        """Each row in words: equal ones have the same."""
        X = self.X.to_numpy(object) if isinstance(self.X, pd.DataFrame) else self.X
        weights = np.ones(len(self)) if self.weights is None else self.weights
        counted = weights.astype(np.float32).tolist()
        return [repr(row) for row in zip(X.tolist(), self.y.tolist(), counted, strict=True)]

    @property
    def is_rows(self) -> bool:
        """Whether its rows were learned."""
        return self.retention not in (ANNOUNCED, REACHED)

    @property
    def data(self) -> tuple[Any, ...]:
        return (self.X, self.y) if self.weights is None else (self.X, self.y, self.weights)


class Life:
    """One estimator, and what it has learned.

    Parameters
    ----------
    seed
        Decides what kind of model it is, and its first rows.
    folder
        For files.
    """

    @small_rules()
    def __init__(self, seed: int, folder: Path) -> None:
        random = np.random.default_rng([seed, 1])
        self.folder, self.trace, self.refusals = folder, [], Counter[str]()
        self.kind = str(random.choice(KINDS))
        self.memory = str(random.choice(["sums", "rows", "rows"]))
        self.columns = int(random.integers(1, 4)) if self.kind != "frame" else 2
        # frames learn what is missing more often, since columns that come later need it
        self.missing = (
            bool(random.random() < (0.7 if self.kind == "frame" else 0.25)) and self.kind != "monotone"
        )
        self.has_levels = bool(random.random() < 0.5)  # whether a frame has a column of many categories
        self.weighted = bool(random.random() < 0.3)
        self.classes = 2 + int(random.integers(2))
        self.parameters = SMALL | {
            "memory": self.memory,
            "undo": int(random.choice([1, 2, 4, 4, 6])),
            "extrapolation": "constant"
            if self.kind == "monotone"
            else str(random.choice(["constant", "linear"])),
            "missing": "learn" if self.missing else "error",
        }
        if random.random() < 0.5:  # of a given size: others are solved for
            self.parameters |= {"terms": 0, "density": 1}
        if self.kind == "monotone":
            self.parameters["monotonic_cst"] = [1, *[0] * (self.columns - 1)]
        if self.kind == "counts":
            self.parameters["loss"] = "poisson"
        self.model = (AtlasClassifier if self.kind == "classes" else AtlasRegressor)(**self.parameters)
        self.trace.append(f"{self.kind}, {self.columns} columns, {self.parameters}")
        self.compared = Counter[str]()
        self.is_fitted = False
        self.probes = self.rows(np.random.default_rng(99), 60, -0.4, 1.4).X
        self.fit_rows(random)
        self.later_probes = self.rows(np.random.default_rng(99), 60, -0.4, 1.4).X
        self.check()

    def fit_rows(self, random: np.random.Generator) -> None:
        """Fit the estimator, which may have been fitted before: a life begins."""
        self.is_fitted = False
        fit = self.rows(random, int(random.integers(40, 200)), 0.0, 1.0)
        if self.kind == "classes":
            fit.y[: self.classes] = np.arange(self.classes)
        if self.kind == "frame" and self.has_levels:
            fit.X["d"] = [f"level {k % LEVELS}" for k in range(len(fit))]  # all share one input
        self.trace.append(f"  fitted to {len(fit)} rows")
        self.memory = self.parameters["memory"]  # a consolidation may have left sums alone
        self.model.fit(fit.X, fit.y, sample_weight=fit.weights)
        self.begin(fit)
        self.is_fitted = True

    def fitted(self, model: Any, rows: Learned) -> Any:
        """An estimator that is fitted to rows, with all classes that the fit was told of."""
        if self.kind == "frame" and isinstance(getattr(self.first, "encoding_", None), Encoding):
            return self.fitted_as_encoded(clone(model), rows, self.first.encoding_)
        if self.announced is None:
            return model.fit(rows.X, rows.y, sample_weight=rows.weights)
        fresh = clone(model)
        return fresh.partial_fit(rows.X, rows.y, classes=self.announced, sample_weight=rows.weights)

    @staticmethod
    def fitted_as_encoded(model: Any, rows: Learned, encoding: Encoding) -> Any:
        """An estimator of a frame that is fitted to rows with an encoding: they may lack categories of it."""
        table = frame(encoding.inputs, list(encode_frame(rows.X, encoding, None).T))
        targets = (rows.y, rows.weights)
        fresh = model._fit(table, *targets, encoding=encoding)
        return TableModel(fresh, replace(encoding, classes=None)).for_frames()

    def begin(self, fit: Learned | None, announced: np.ndarray | None = None) -> None:
        """What the model is now is a first fit, of rows that are known or not."""
        self.announced = announced  # classes that the fit was told of, if more than those of its rows
        self.first = copy.deepcopy(self.model)
        self.fit = fit  # rows of the fit that count
        self.is_whole_fit, self.gone_of_fit = True, list[Learned]()
        self.learned: list[Learned] = []  # what counts, in order of clocks
        self.every: list[Learned] = []  # what was ever taught, as it was
        self.is_linear = True  # whether nothing was forgotten, merged or announced: then replay is exact
        self.made: tuple[list[Learned], Any] | None = None  # the model from scratch, and what it was made of

    # --- rows -------------------------------------------------------------------------------------------

    def rows(
        self, random: np.random.Generator, count: int, low: Any, high: Any, shift: float = 0.0
    ) -> Learned:
        """Rows of a smooth world, moved by a shift."""
        U = random.uniform(low, high, (count, self.columns))
        signal = np.sin(4 * U[:, 0]) + (U**2).sum(axis=1) + shift
        X: Any = 100 * U
        if self.missing:
            X = np.where(random.random(X.shape) < 0.1, np.nan, X)
        if self.kind == "frame":
            later = LATER_CATEGORIES if self.is_fitted and random.random() < 0.4 else ()
            names = [*CATEGORIES, *random.permutation(later)[:2]]
            codes = random.integers(len(names), size=count)
            X = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.array(names)[codes]})
            signal = signal + 0.5 * codes
            if self.has_levels:
                levels = random.integers(LEVELS + LATER_LEVELS * self.is_fitted, size=count)
                X["d"] = np.array([f"level {k}" for k in levels])
                signal = signal + 0.3 * (levels % 5)
        signal = signal + 0.1 * random.normal(size=count)
        y: np.ndarray = signal
        if self.kind == "counts":
            y = random.poisson(np.abs(3 * signal)).astype(float)
        if self.kind == "two targets":
            y = np.column_stack([signal, U[:, 0] - signal])
        if self.kind == "classes":
            y = np.clip(np.floor(signal), 0, self.classes - 1).astype(int)
        weights = random.uniform(0.2, 2, count) if self.weighted and random.random() < 0.5 else None
        return Learned(0, X, y, weights)

    def some_rows(self, random: np.random.Generator) -> tuple[Learned, str]:
        """Rows of an update, and how they are learned."""
        kind = random.choice(["usual", "usual", "place", "beyond", "contradiction"])
        low = random.random(self.columns) * 0.6
        count = int(random.choice([3, 15, 25, 60, 90]))
        ranges = {"usual": (0, 1), "place": (low, low + 0.3), "contradiction": (low, low + 0.3)}
        low, high = ranges.get(str(kind), (low + 0.7, low + 1.3))
        shift = 0.0 if kind in ("usual", "place") else float(random.choice([0, 4]))
        retention = str(random.choice(["auto", "auto", "pool", "pool", "chart"]))
        rows = self.rows(random, count, low, high, shift)
        if self.kind == "classes" and self.classes < MOST_CLASSES and random.random() < 0.1:
            rows.y[: 1 + len(rows) // 3] = self.classes  # one that no row was of so far
        return rows, retention

    def teach(self, model: Any, random: np.random.Generator) -> Learned:
        """Let a model learn some rows."""
        rows, retention = self.some_rows(random)
        before = [record.id for record in model.model_.updates]
        learn(model, rows, retention)
        record = model.model_.updates[-1]
        assert [each.id for each in model.model_.updates] == [*before, record.id], "no entry for an update"
        self.trace.append(f"  {record!r} {record.reason}")
        self.know_classes(model)
        return replace(rows, id=record.id, retention=retention, time=record.time)

    def know_classes(self, model: Any) -> None:
        """Count classes that came with rows; where sums are kept, they stay when the rows go."""
        if self.kind != "classes" or model.classes_[-1] < self.classes:
            return
        self.classes = int(model.classes_[-1]) + 1
        if self.memory == "sums":
            self.first, self.made = copy.deepcopy(self.first).add_classes([self.classes - 1]), None

    # --- what a model says ------------------------------------------------------------------------------

    def places(self, model: Any) -> Any:
        """The probes with the columns that a model has: of a new one they hold every value in turn.

        They have categories of updates where those that are not known, or no longer, count as missing. Where
        sums are kept, names stay: such a category has the place of the population then.
        """
        if self.kind != "frame":
            return self.probes
        probes = self.later_probes if self.missing and self.memory == "rows" else self.probes
        new = {name: np.arange(len(probes)) % 7 for name in model.column_names if "new" in name}
        return probes.assign(**new)[list(model.column_names)]

    def predicted(self, model: Any) -> list[np.ndarray]:
        """Predictions of the probes."""
        if self.kind == "classes":
            return [model.predict_proba(self.places(model)), model.decision_function(self.places(model))]
        return [model.predict(self.places(model))]

    def uncertainty(self, model: Any) -> list[Any]:
        """Intervals, or sets of classes, of the probes, and how much is known there."""
        try:
            if self.kind == "classes":
                return [model.predict_set(self.places(model), [0.5, 0.9]), model.support(self.places(model))]
            return [
                *model.predict_interval(self.places(model), [0.5, 0.9]),
                model.support(self.places(model)),
            ]
        except ValueError as error:
            return [str(error)]

    def check(self) -> None:
        """All that holds for every model."""
        model, predicted, uncertainty = self.model, self.predicted(self.model), self.uncertainty(self.model)
        assert all(np.isfinite(part).all() for part in predicted), "a prediction is not finite"
        if self.kind == "classes":
            assert (predicted[0] >= 0).all(), "a probability is negative"
            assert np.allclose(predicted[0].sum(axis=1), 1, atol=1e-6), "probabilities do not sum to 1"
            if not isinstance(uncertainty[0], str):
                assert (uncertainty[0][..., 0] <= uncertainty[0][..., 1]).all(), "sets do not nest"
        elif not isinstance(uncertainty[0], str):
            low, high = uncertainty[:2]
            assert np.isfinite(low).all(), "an interval is not finite"
            assert np.isfinite(high).all(), "an interval is not finite"
            assert (np.diff(low) <= 0).all(), "intervals do not nest"
            assert (np.diff(high) >= 0).all(), "intervals do not nest"
            assert (low <= high).all(), "an interval ends before it begins"
            at = predicted[0][..., None]
            assert ((low <= at) & (at <= high)).all(), "a prediction is outside its interval"
        self.now = predicted, uncertainty
        if self.kind == "monotone":
            self.check_monotone()
        path = self.folder / "life.atlas"
        save(model, path)
        assert path.stat().st_size < LARGEST, f"the file has {path.stat().st_size:,} bytes"
        loaded = load(path)
        assert loaded.model_.fingerprint() == model.model_.fingerprint(), "a loaded model is another one"
        assert V.version(loaded) == V.version(model), "a loaded model has another version"
        assert same(self.predicted(loaded), predicted), "a loaded model predicts otherwise"
        assert same(self.uncertainty(loaded), uncertainty), "a loaded model has other intervals"

    def check_monotone(self) -> None:
        line = np.full((41, self.columns), 37.0)
        line[:, 0] = np.linspace(-50, 150, 41)
        assert is_monotone(state_of(self.model.model_)), "coefficients do not go the way they have to"
        values = self.model.predict(line)
        assert (np.diff(values) >= -1e-5 * (1 + np.abs(values).max())).all(), "predictions are not monotone"

    # --- the oracle -------------------------------------------------------------------------------------

    def from_scratch(self, learned: list[Learned]) -> Any:
        """The model that is fitted to the rows that are left of the fit, and taught some updates in turn.

        The one made last is taught more if that is all there is to do.
        """
        known, model = self.made or ([], None)
        if (
            model is None
            or len(known) > len(learned)
            or any(a is not b for a, b in zip(known, learned, strict=False))
        ):
            known, model = [], copy.deepcopy(self.first)
            if self.fit is not None and not self.is_whole_fit:
                model = self.fitted(model, self.fit)
        for rows in learned[len(known) :]:
            if rows.retention == ANNOUNCED:
                model.add_classes(rows.y)
            elif rows.retention == REACHED:
                model.reach(rows.X)
            else:
                learn(model, rows, rows.retention)
        self.made = list(learned), model
        return model

    def compare(self) -> None:
        """Compare the model with what is expected of it."""
        if self.memory == "rows":
            expected = self.from_scratch(self.learned)
            self.compared["rows"] += 1
            assert same(self.now[0], self.predicted(expected)), "differs from a life from scratch"
            assert same(self.now[1], self.uncertainty(expected)), "other intervals than from scratch"
            return
        if self.had_charts:  # rows may have joined one, and have another owner in a life from scratch
            return
        expected = self.from_scratch(self.learned)
        state, other = state_of(self.model.model_), state_of(expected.model_)
        pool, wanted = state.pooled, other.pooled
        if other.charts or pool.grown or wanted.grown:  # which features grow depends on what was known then
            return
        total = pool.total.without_levels()
        if self.gone_of_fit:
            total = total + self.sums_of_fit_gone(pool)
        self.compared["sums"] += 1
        assert total == wanted.total.without_levels(), "the sums are not those of the rows that are left"
        is_exact = (
            pool.output_mode == wanted.output_mode == "cumulative"
            and not self.gone_of_fit
            and not state.charts
        )
        if is_exact and self.kind != "frame":
            self.compared["predictions"] += 1
            # how far slopes go on beyond the domain depends on where rows were, which a merge does not add up
            own, other = (each.in_domain(self.places(each)) for each in (self.model, expected))
            where = (own & other) | (self.parameters["extrapolation"] == "constant")
            found, wanted = (
                [part[where] for part in self.predicted(each)] for each in (self.model, expected)
            )
            assert same(found, wanted), "differs from a life from scratch"

    def sums_of_fit_gone(self, pool: Any) -> Any:
        gone = [self.model._checked(each.X, each.y, each.weights) for each in self.gone_of_fit]
        parts = [self.model._rows(*each) for each in gone]
        sums = [
            pool.summed(*(np.asarray(a, np.float64) for a in (part.points, part.targets, part.weights)))
            for part in parts
        ]
        return sum(sums[1:], sums[0]).without_levels()

    @property
    def had_charts(self) -> bool:
        """Whether charts have stood that rows can join: those that had joined one go with it."""
        return any(record.kind == "chart" for record in self.model.model_.updates)

    # --- operations -------------------------------------------------------------------------------------

    @small_rules()
    def step(self, operation: str, seed: int) -> str:
        """Do something, and check everything; return what came of it."""
        self.trace.append(f"{operation} {seed}")
        before, (predicted, uncertainty) = V.version(self.model), self.now
        known = self.first, self.classes, self.made
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpdateWarning)
            try:
                outcome = OPERATIONS[operation](self, np.random.default_rng([seed, 2])) or "done"
            except ValueError as error:
                sentence = str(error)
                self.trace.append(f"  refused: {sentence}")
                assert len(sentence) > 10, f"no sentence: {sentence}"
                assert "\n" not in sentence, f"more than a sentence: {sentence}"
                assert V.version(self.model) == before, f"refused, and the model has changed: {sentence}"
                assert same(self.predicted(self.model), predicted), (
                    f"refused, and predictions have changed: {sentence}"
                )
                assert same(self.uncertainty(self.model), uncertainty), (
                    f"refused, and intervals have changed: {sentence}"
                )
                self.refusals[sentence] += 1
                self.first, self.classes, self.made = known  # a copy may have learned a class
                return "refused"
            self.check()
            self.compare()
        return outcome

    def learn(self, random: np.random.Generator) -> None:
        predicted, uncertainty = self.now
        rows = self.teach(self.model, random)
        self.learned.append(rows)
        self.every.append(rows)
        entry = self.model.update_log_[-1]
        self.check_footprints([entry], predicted)
        if entry.kind == "chart":
            self.check_outside(
                entry.footprint.contains(self.places(self.model)), uncertainty, self.uncertainty(self.model)
            )
        self.check_newest(predicted, uncertainty, entry)

    def check_footprints(self, entries: list[Any], predicted: list[Any]) -> None:
        """Points outside the logged footprints of all updates since are predicted as before, bit for bit."""
        inside = np.any([entry.footprint.contains(self.places(self.model)) for entry in entries], axis=0)
        self.check_outside(inside, predicted, self.predicted(self.model))

    def check_outside(self, inside: np.ndarray, before: list[Any], now: list[Any]) -> None:
        if any(isinstance(part, str) for part in (*before, *now)):
            return  # there were no intervals
        if before[0].shape != now[0].shape:
            return  # there are more classes, of which all rows tell: not only those of the update
        for a, b in zip(before, now, strict=True):
            changed = ~np.isclose(a, b, rtol=0, atol=0, equal_nan=True).reshape(len(a), -1).all(axis=1)
            count = (changed & ~inside).sum()
            assert not count, f"{count} points outside the footprint changed"

    def patch(self, random: np.random.Generator) -> None:
        """A copy goes on; a patch makes the same of the model itself, once."""
        later = copy.deepcopy(self.model)
        taught = [self.teach(later, random) for _ in range(1 + int(random.integers(3)))]
        gone = None
        ids = [record.id for record in later.model_.updates if record.id and not record.reverted]
        if random.random() < 0.4:
            gone = int(random.choice(ids[-4:]))
            later.revert(gone)
        V.patch(self.model, later).save(self.folder / "life.patch")
        patch = V.read_patch(self.folder / "life.patch")
        applied = V.apply(self.model, patch)
        assert V.version(applied) == V.version(later), "a patch gives another model"
        assert same(self.predicted(applied), self.predicted(later)), "a patched model predicts otherwise"
        assert same(self.uncertainty(applied), self.uncertainty(later)), "a patched model has other intervals"
        try:
            V.apply(applied, patch)
        except V.PatchError:
            self.model = applied
            self.learned += taught
            self.every += taught
            self.drop(gone)
            return
        raise AssertionError("a patch was applied twice")

    def check_newest(self, predicted: list[Any], uncertainty: list[Any], entry: Any) -> None:
        """The newest update taken back: as before, but for classes that came with it where sums are kept."""
        # states of prefixes are remembered by a copy that is flat, and derived again by one that is deep
        back = (copy.copy if entry.id % 2 else copy.deepcopy)(self.model)
        if self.memory == "sums" and predicted[0].shape != self.predicted(back)[0].shape:
            return
        try:
            back.revert(entry.id)
        except ValueError as error:
            few = "not kept apart" in entry.reason or "none was opened" in entry.reason
            unchanged = same(self.predicted(self.model), predicted) and same(
                self.uncertainty(self.model), uncertainty
            )
            why = str(error)
            assert few or unchanged, f"the newest update cannot be reverted: {why}"
            return
        assert same(self.predicted(back), predicted), (
            "without the newest update predictions are not those of before"
        )
        assert same(self.uncertainty(back), uncertainty), (
            "without the newest update intervals are not those of before"
        )

    def revert(self, random: np.random.Generator) -> str | None:
        ids = [record.id for record in self.model.model_.updates if record.id]
        if not ids:
            return "nothing to do"
        id = int(random.choice(ids[-6:]))
        self.model.revert(id)
        self.drop(id)
        return None

    @property
    def updates(self) -> list[Learned]:
        """Updates whose rows count."""
        return [each for each in self.learned if each.is_rows]

    def drop(self, id: int | None) -> None:
        """An update counts no more, if there is one."""
        self.learned = [each for each in self.learned if each.id != id]

    def remove(self, gone: Learned, among: list[Learned]) -> None:
        """Rows count no more: all of the latest that has exactly these, or each of the latest that has it.

        Of equal rows the last goes.
        """
        left = Counter(gone.keys)
        exact = [each for each in among if Counter(each.keys) == left]
        for each in exact[-1:] or among[::-1]:
            kept = []
            for k in reversed(range(len(each))):
                if left[each.keys[k]] > 0:
                    left[each.keys[k]] -= 1
                else:
                    kept.append(k)
            if len(kept) < len(each):
                self.put(each, each.take(np.array(kept[::-1], int)))
        assert not left.total(), "rows were forgotten that were not learned"

    def put(self, old: Learned, new: Learned) -> None:
        """Other rows in the place of some; nothing, if there are none."""
        if old is self.fit:
            self.fit, self.is_whole_fit, self.made = new, False, None
        place = [each is old for each in self.learned]
        self.learned = [
            new if here else each
            for here, each in zip(place, self.learned, strict=True)
            if not here or len(new)
        ]

    def forget(self, random: np.random.Generator) -> str | None:
        """All rows of an update."""
        learned = self.updates
        if not learned:
            return "nothing to do"
        rows = learned[int(random.integers(len(learned)))]
        if random.random() < 0.5:
            self.model.forget(rows.X, rows.y, sample_weight=rows.weights)
        else:
            self.model, _ = V.forget(self.model, *rows.data)
        self.is_linear = False
        self.remove(rows, self.with_rows if self.memory == "rows" else [rows])
        return None

    @property
    def with_rows(self) -> list[Learned]:
        """The fit, if its rows are known, and all updates."""
        return [*([] if self.fit is None else [self.fit]), *self.updates]

    def forget_again(self, random: np.random.Generator) -> str | None:
        """All rows of an update that was taken back, or forgotten as a whole: they are gone already."""
        gone = {
            record.time: record for record in self.model.model_.updates if record.reverted and record.data
        }
        rows = [each for each in self.every if each.time in gone and len(each) == gone[each.time].rows]
        if not rows or self.memory == "rows":
            return "nothing to do"
        chosen = rows[int(random.integers(len(rows)))]
        self.model.forget(chosen.X, chosen.y, sample_weight=chosen.weights)
        raise AssertionError("rows were forgotten that were gone already")

    def forget_some(self, random: np.random.Generator) -> str | None:
        """Some rows of an update, found in its data."""
        learned = self.updates
        if not learned:
            return "nothing to do"
        rows = learned[int(random.integers(len(learned)))]
        gone = random.permutation(len(rows))[: 1 + len(rows) // 3]
        among = [rows] if random.random() < 0.6 else learned
        first = self.first if random.random() < 0.5 else None
        known = {record.id for record in self.model.model_.updates if record.data}
        self.model, receipt = V.forget(
            self.model, *rows.take(gone).data, data=[each.data for each in among], first=first
        )
        assert sum(taken.rows for taken in receipt.taken) == len(gone), "a receipt of other rows"
        self.is_linear = False
        found = [each for each in among if each.id in known]
        self.remove(rows.take(gone), self.with_rows if self.memory == "rows" else found)
        return None

    def forget_fit(self, random: np.random.Generator) -> str | None:
        """Some rows of the fit."""
        if self.fit is None or len(self.fit) < 30:
            return "nothing to do"
        rows = self.fit.take(random.permutation(len(self.fit))[:5])
        self.model.forget(rows.X, rows.y, sample_weight=rows.weights)
        self.is_linear = False
        if self.memory == "rows":
            self.remove(rows, self.with_rows)
            return None
        self.gone_of_fit.append(rows)
        left = Counter(rows.keys)
        kept = [k for k, key in enumerate(self.fit.keys) if not left[key]]
        self.fit = self.fit.take(np.array(kept, int))
        return None

    def merge(self, random: np.random.Generator) -> None:
        """Two copies learn apart, one may take something back, and both come together."""
        ours, theirs = copy.deepcopy(self.model), copy.deepcopy(self.model)
        taught = [self.teach(side, random) for side in (ours, theirs) for _ in range(int(random.integers(3)))]
        gone = None
        ids = [record.id for record in self.model.model_.updates if record.id and not record.reverted]
        if ids and random.random() < 0.5:
            gone = int(random.choice(ids[-4:]))
            ours.revert(gone)
        both = []
        for one, other in ((ours, theirs), (theirs, ours)):
            try:
                both.append(V.merge(self.model, one, other))
            except ValueError as error:
                both.append(str(error))
        assert [isinstance(each, str) for each in both] in ([True, True], [False, False]), (
            f"one way only: {both}"
        )
        if isinstance(both[0], str):
            raise ValueError(both[0])
        assert V.version(both[0]) == V.version(both[1]), "a merge depends on its order"
        self.check_merged_patch(ours, theirs, V.version(both[0]))
        predicted, known = self.now[0], len(self.model.update_log_)
        self.model = both[0]
        numbers = {record.time: record.id for record in self.model.model_.updates}
        taught = [replace(rows, id=numbers[rows.time]) for rows in taught]
        self.learned += sorted(taught, key=lambda rows: rows.id)
        self.every += taught
        self.is_linear = False
        self.drop(gone)
        if taught and gone is None:
            self.check_footprints(self.model.update_log_[known:], predicted)

    def check_merged_patch(self, ours: Any, theirs: Any, expected: str) -> None:
        """What one side has learned, as a patch that the other side takes."""
        if V.version(self.model) in (V.version(ours), V.version(theirs)):
            return
        try:
            merged = V.apply(theirs, V.patch(self.model, ours), merge=True)
        except V.PatchError as error:
            self.trace.append(f"  the patch cannot be merged: {error}")
            return
        assert V.version(merged) == expected, "a merged patch is another model than the merge"

    def replay(self, random: np.random.Generator) -> str | None:
        if not self.every:
            return "nothing to do"
        first = self.first if random.random() < 0.5 else None
        found = V.replay(self.model, [rows.data for rows in self.every], first=first)
        if self.is_linear if first is not None else self.memory == "rows":
            assert found, "a replay is another model"
        return None

    def store(self, random: np.random.Generator) -> None:
        """Another copy takes its place."""
        before, (predicted, uncertainty) = V.version(self.model), self.now
        ways: list[Callable[[Any], Any]] = [
            copy.deepcopy,
            copy.copy,
            lambda model: pickle.loads(pickle.dumps(model)),
            self.reloaded,
        ]
        self.model = ways[int(random.integers(len(ways)))](self.model)
        assert V.version(self.model) == before, "a copy has another version"
        assert same(self.predicted(self.model), predicted), "a copy predicts otherwise"
        assert same(self.uncertainty(self.model), uncertainty), "a copy has other intervals"

    def reloaded(self, model: Any) -> Any:
        save(model, self.folder / "life.atlas")
        return load(self.folder / "life.atlas")

    def new_column(self, random: np.random.Generator) -> str | None:
        """Rows with a column that may not have been there."""
        if self.kind != "frame" or self.memory != "rows":
            return "nothing to do"
        rows, name = self.rows(random, 40, 0, 1), f"new {random.integers(2)}"
        rows = replace(rows, X=rows.X.assign(**{name: random.integers(7, size=40)}), retention="auto")
        learn(self.model, rows, rows.retention)
        record = self.model.model_.updates[-1]
        rows = replace(rows, id=record.id, time=record.time)
        self.learned.append(rows)
        self.every.append(rows)
        self.is_linear = False
        return None

    def add_class(self, random: np.random.Generator) -> str | None:
        if self.kind != "classes" or self.classes >= MOST_CLASSES:
            return "nothing to do"
        self.model.add_classes([self.classes])
        self.is_linear = False
        if self.memory == "rows":
            name = np.array([self.classes])
            self.learned.append(Learned(-self.classes, None, name, None, ANNOUNCED))
        self.know_classes(self.model)
        return None

    def reach(self, random: np.random.Generator) -> None:
        """The domain grows to rows that are not learned."""
        predicted, inside = self.now[0], self.model.in_domain(self.places(self.model))
        rows = self.rows(random, 3, 0.8, 1.5)
        self.model.reach(rows.X)
        self.check_outside(~inside, predicted, self.predicted(self.model))
        self.is_linear = False
        self.learned.append(replace(rows, id=-100, retention=REACHED))

    def fit_again(self, random: np.random.Generator) -> None:
        """Another fit of the same estimator: nothing of the life before is left."""
        if self.kind == "classes":
            self.classes = 2 + int(random.integers(2))
        self.fit_rows(random)
        fresh = clone(self.model).fit(self.fit.X, self.fit.y, sample_weight=self.fit.weights)
        assert same(self.predicted(fresh), self.predicted(self.model)), (
            "a second fit is not that of a new estimator"
        )
        assert same(self.uncertainty(fresh), self.uncertainty(self.model)), "a second fit has other intervals"

    def consolidate(self, random: np.random.Generator) -> str | None:
        """Charts become part of the model: of all rows that count, if they are kept."""
        if not self.model.model_.charts:
            return "nothing to do"
        counting = self.counting_rows() if self.memory == "rows" and self.kind != "frame" else None
        done = self.model.consolidate(tolerance=1000)
        assert done.replaced, "a consolidation was too far off"
        assert not self.model.model_.charts, "charts stand after a consolidation"
        if (
            self.model.ledger_ is None
        ):  # one of a given size is consolidated from its sums, and goes on with these
            self.memory, counting = "sums", None
        known = self.model.classes_ if self.kind == "classes" and counting is not None else None
        self.begin(counting, None if known is None or np.isin(known, counting.y).all() else known)
        if counting is not None:
            fresh = self.fitted(clone(self.model), counting)
            assert same(self.predicted(fresh), self.predicted(self.model)), (
                "a consolidation is no fit to what counts"
            )
        return None

    def counting_rows(self) -> Learned | None:
        """Rows of the fit and of updates that are in no chart which came after them, as those of one fit."""
        if self.fit is None:
            return None
        parts, numbers = [], [0, *(each.id for each in self.updates)]
        for k, each in enumerate(self.with_rows):
            points = self.model._points_inside(self.model._inputs(each.X))
            later = [chart for chart in self.model.model_.charts if chart.update in numbers[k + 1 :]]
            inside = np.any(
                [np.zeros(len(each), bool), *(c.window.membership(points) == 1 for c in later)], axis=0
            )
            parts.append(each.take(np.flatnonzero(~inside)))
        weights = [np.ones(len(each)) if each.weights is None else each.weights for each in parts]
        # an update has its weights in single precision, and a fit rounds them after they are divided
        weights[1:] = [each.astype(np.float32).astype(np.float64) for each in weights[1:]]
        X, y = np.concatenate([each.X for each in parts]), np.concatenate([each.y for each in parts])
        return Learned(0, X, y, np.concatenate(weights) if self.weighted else None)


# how often each comes, of all
WEIGHTS = {"learn": 8, "revert": 3, "forget": 2, "forget some": 2, "merge": 2}

OPERATIONS: dict[str, Callable[[Life, np.random.Generator], str | None]] = {
    "learn": Life.learn,
    "revert": Life.revert,
    "forget": Life.forget,
    "forget some": Life.forget_some,
    "forget again": Life.forget_again,
    "forget rows of the fit": Life.forget_fit,
    "merge": Life.merge,
    "replay": Life.replay,
    "store": Life.store,
    "new column": Life.new_column,
    "add a class": Life.add_class,
    "patch": Life.patch,
    "reach": Life.reach,
    "fit again": Life.fit_again,
    "consolidate": Life.consolidate,
}


def learn(model: Any, rows: Learned, retention: str) -> None:
    """Teach a model rows in some way, whatever the library thinks of them."""
    before = model.retention
    model.retention = retention
    try:
        model.partial_fit(rows.X, rows.y, sample_weight=rows.weights, accept=True, new_columns=True)
    finally:
        model.retention = before


def same(one: list[Any], other: list[Any]) -> bool:
    """Whether all parts are the same, bit for bit."""
    return len(one) == len(other) and all(
        a == b if isinstance(a, str) or isinstance(b, str) else np.array_equal(a, b, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )
