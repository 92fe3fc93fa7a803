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
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines import versions as V
from atlas_splines.core.model import state_of
from atlas_splines.core.monotone import is_monotone
from atlas_splines.core.records import UpdateWarning

__all__ = ["AROUND_PREDICTIONS", "OPERATIONS", "WEIGHTS", "Life"]

# Whether predictions have to lie in their intervals. docs/intervals.md says that they need not: quantiles of errors
# that lean to one side leave the prediction out. So this is off, and `Life.outside` counts such points.
AROUND_PREDICTIONS = False

KINDS = ("numbers", "numbers", "two targets", "counts", "monotone", "frame", "classes")
SMALL = {"members": 1, "features": 24, "max_iter": 3, "random_state": 0}
LARGEST = 3_000_000  # bytes of a file of such a model, at most
CATEGORIES = ("red", "green", "blue")
ANNOUNCED = "announced"  # in place of a retention: classes without rows


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

    def __init__(self, seed: int, folder: Path) -> None:
        random = np.random.default_rng([seed, 1])
        self.folder, self.trace, self.refusals = folder, [], Counter[str]()
        self.outside = 0  # checks that found a prediction outside its interval
        self.kind = str(random.choice(KINDS))
        self.memory = str(random.choice(["sums", "rows", "rows"]))
        self.columns = int(random.integers(1, 4)) if self.kind != "frame" else 2
        self.missing = bool(random.random() < 0.25) and self.kind != "monotone"
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
        fit = self.rows(random, int(random.integers(40, 200)), 0.0, 1.0)
        if self.kind == "classes":
            fit.y[: self.classes] = np.arange(self.classes)
        self.trace.append(f"{self.kind}, {self.columns} columns, {len(fit)} rows, {self.parameters}")
        self.model.fit(fit.X, fit.y, sample_weight=fit.weights)
        self.first = copy.deepcopy(self.model)
        self.fit, self.gone_of_fit = fit, []
        self.learned: list[Learned] = []  # what counts, in order of clocks
        self.every: list[Learned] = []  # what was ever taught, as it was
        self.is_linear = True  # whether nothing was forgotten, merged or announced: then replay is exact
        self.made: tuple[list[Learned], Any] | None = None  # the model from scratch, and what it was made of
        self.compared = Counter[str]()
        self.probes = self.rows(np.random.default_rng(99), 60, -0.4, 1.4).X
        self.check()

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
            names = [*CATEGORIES, *(["new"] if random.random() < 0.2 else [])]
            codes = random.integers(len(names), size=count)
            X = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.array(names)[codes]})
            signal = signal + 0.5 * codes
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
        return self.rows(random, count, low, high, shift), retention

    def teach(self, model: Any, random: np.random.Generator) -> Learned:
        """Let a model learn some rows."""
        rows, retention = self.some_rows(random)
        before = [record.id for record in model.model_.updates]
        learn(model, rows, retention)
        record = model.model_.updates[-1]
        assert [each.id for each in model.model_.updates] == [*before, record.id], "no entry for an update"
        self.trace.append(f"  {record!r} {record.reason}")
        return replace(rows, id=record.id, retention=retention, time=record.time)

    # --- what a model says ------------------------------------------------------------------------------

    def places(self, model: Any) -> Any:
        """The probes with the columns that a model has: of a new one they hold every value in turn."""
        if self.kind != "frame":
            return self.probes
        new = {name: np.arange(len(self.probes)) % 7 for name in model.column_names if "new" in name}
        return self.probes.assign(**new)[list(model.column_names)]

    def said(self, model: Any) -> list[np.ndarray]:
        """Predictions of the probes."""
        if self.kind == "classes":
            return [model.predict_proba(self.places(model)), model.decision_function(self.places(model))]
        return [model.predict(self.places(model))]

    def doubt(self, model: Any) -> list[Any]:
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
        model, said, doubt = self.model, self.said(self.model), self.doubt(self.model)
        assert all(np.isfinite(part).all() for part in said), "a prediction is not finite"
        if self.kind == "classes":
            assert (said[0] >= 0).all(), "a probability is negative"
            assert np.allclose(said[0].sum(axis=1), 1, atol=1e-6), "probabilities do not sum to 1"
            if not isinstance(doubt[0], str):
                assert (doubt[0][..., 0] <= doubt[0][..., 1]).all(), "sets do not nest"
        elif not isinstance(doubt[0], str):
            low, high = doubt[:2]
            assert np.isfinite(low).all(), "an interval is not finite"
            assert np.isfinite(high).all(), "an interval is not finite"
            assert (np.diff(low) <= 0).all(), "intervals do not nest"
            assert (np.diff(high) >= 0).all(), "intervals do not nest"
            assert (low <= high).all(), "an interval ends before it begins"
            at = said[0][..., None]
            near = 1e-6 * (1 + np.abs(at))
            self.outside += int(((low > at + near) | (at > high + near)).any())
            assert not (AROUND_PREDICTIONS and self.outside), "a prediction is outside its interval"
        if self.kind == "monotone":
            self.check_monotone()
        path = self.folder / "life.atlas"
        save(model, path)
        assert path.stat().st_size < LARGEST, f"the file has {path.stat().st_size:,} bytes"
        loaded = load(path)
        assert loaded.model_.fingerprint() == model.model_.fingerprint(), "a loaded model is another one"
        assert V.version(loaded) == V.version(model), "a loaded model has another version"
        assert same(self.said(loaded), said), "a loaded model predicts otherwise"
        assert same(self.doubt(loaded), doubt), "a loaded model has other intervals"

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
            if self.memory == "rows" and self.gone_of_fit:
                kept = np.setdiff1d(np.arange(len(self.fit)), np.concatenate(self.gone_of_fit))
                fit = self.fit.take(kept)
                model.fit(fit.X, fit.y, sample_weight=fit.weights)
        for rows in learned[len(known) :]:
            if rows.retention == ANNOUNCED:
                model.add_classes(rows.y)
            else:
                learn(model, rows, rows.retention)
        self.made = list(learned), model
        return model

    def compare(self) -> None:
        """Compare the model with what is expected of it."""
        if self.memory == "rows":
            expected = self.from_scratch(self.learned)
            self.compared["rows"] += 1
            assert same(self.said(self.model), self.said(expected)), "differs from a life from scratch"
            assert same(self.doubt(self.model), self.doubt(expected)), "other intervals than from scratch"
            return
        if self.had_charts:  # rows may have joined one, and have another owner in a life from scratch
            return
        expected = self.from_scratch(self.learned)
        state, other = state_of(self.model.model_), state_of(expected.model_)
        pool, wanted = state.evidence, other.evidence
        if other.charts or pool.grown or wanted.grown:  # which features grow depends on what was known then
            return
        total = pool.total.without_levels()
        if self.gone_of_fit:
            total = total + self.sums_of_fit_gone(pool)
        self.compared["sums"] += 1
        assert total == wanted.total.without_levels(), "the sums are not those of the rows that are left"
        is_exact = pool.voice == wanted.voice == "exact" and not self.gone_of_fit and not state.charts
        if is_exact and self.kind != "frame":
            self.compared["predictions"] += 1
            # how far slopes go on beyond the domain depends on where rows were, which a merge does not add up
            where = self.model.in_domain(self.places(self.model)) | (
                self.parameters["extrapolation"] == "constant"
            )
            found, wanted = ([part[where] for part in self.said(each)] for each in (self.model, expected))
            assert same(found, wanted), "differs from a life from scratch"

    def sums_of_fit_gone(self, pool: Any) -> Any:
        gone = [self.fit.take(numbers) for numbers in self.gone_of_fit]
        parts = [self.model._rows(*self.model._checked(each.X, each.y, each.weights)) for each in gone]
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

    def step(self, operation: str, seed: int) -> str:
        """Do something, and check everything; return what came of it."""
        self.trace.append(f"{operation} {seed}")
        before, said, doubt = V.version(self.model), self.said(self.model), self.doubt(self.model)
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
                assert same(self.said(self.model), said), f"refused, and predictions have changed: {sentence}"
                assert same(self.doubt(self.model), doubt), f"refused, and intervals have changed: {sentence}"
                self.refusals[sentence] += 1
                return "refused"
            self.check()
            self.compare()
        return outcome

    def learn(self, random: np.random.Generator) -> None:
        before, said, doubt = copy.deepcopy(self.model), self.said(self.model), self.doubt(self.model)
        rows = self.teach(self.model, random)
        self.learned.append(rows)
        self.every.append(rows)
        now, entry = self.said(self.model), self.model.update_log_[-1]
        inside = entry.footprint.contains(self.places(self.model))
        changed = np.any(
            [(a != b).reshape(len(a), -1).any(axis=1) for a, b in zip(said, now, strict=True)], axis=0
        )
        assert not (changed & ~inside).any(), (
            f"{(changed & ~inside).sum()} points outside the footprint changed"
        )
        self.check_newest(said, doubt, entry)
        if random.random() < 0.3:
            patch = V.patch(before, self.model)
            patch.save(self.folder / "life.patch")
            applied = V.apply(before, V.read_patch(self.folder / "life.patch"))
            assert V.version(applied) == V.version(self.model), "a patch gives another model"

    def check_newest(self, said: list[Any], doubt: list[Any], entry: Any) -> None:
        """The newest update taken back: as before."""
        back = copy.deepcopy(self.model)
        try:
            back.revert(entry.id)
        except ValueError as error:
            few = "not kept apart" in entry.reason or "none was opened" in entry.reason
            unchanged = same(self.said(self.model), said) and same(self.doubt(self.model), doubt)
            why = str(error)
            assert few or unchanged, f"the newest update cannot be reverted: {why}"
            return
        assert same(self.said(back), said), "without the newest update predictions are not those of before"
        assert same(self.doubt(back), doubt), "without the newest update intervals are not those of before"

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
        return [each for each in self.learned if each.retention != ANNOUNCED]

    def drop(self, id: int, rows: np.ndarray | None = None) -> None:
        """An update counts no more, or some of its rows."""
        kept = []
        for each in self.learned:
            if each.id != id:
                kept.append(each)
            elif rows is not None and len(rows) < len(each):
                kept.append(each.take(np.setdiff1d(np.arange(len(each)), rows)))
        self.learned = kept

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
        self.drop(rows.id)
        return None

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
        data = [rows.data] if random.random() < 0.6 else [each.data for each in learned]
        first = self.first if random.random() < 0.5 else None
        self.model, receipt = V.forget(self.model, *rows.take(gone).data, data=data, first=first)
        assert sum(taken.rows for taken in receipt.taken) == len(gone), "a receipt of other rows"
        self.is_linear = False
        self.drop(rows.id, gone)
        return None

    def forget_fit(self, random: np.random.Generator) -> str | None:
        """Some rows of the fit."""
        left = np.setdiff1d(np.arange(len(self.fit)), np.concatenate([[], *self.gone_of_fit]).astype(int))
        gone = random.permutation(left)[:5]
        rows = self.fit.take(gone)
        if len(left) < 30:
            return "nothing to do"
        self.model.forget(rows.X, rows.y, sample_weight=rows.weights)
        self.is_linear = False
        self.gone_of_fit.append(gone)
        self.made = None if self.memory == "rows" else self.made
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
        self.model = both[0]
        numbers = {record.time: record.id for record in self.model.model_.updates}
        taught = [replace(rows, id=numbers[rows.time]) for rows in taught]
        self.learned += sorted(taught, key=lambda rows: rows.id)
        self.every += taught
        self.is_linear = False
        self.drop(-2 if gone is None else gone)

    def replay(self, random: np.random.Generator) -> str | None:
        if not self.every:
            return "nothing to do"
        first = self.first if random.random() < 0.5 else None
        found = V.replay(self.model, [rows.data for rows in self.every], first=first)
        if self.is_linear and first is not None:
            assert found, "a replay is another model"
        return None

    def store(self, random: np.random.Generator) -> None:
        """Another copy takes its place."""
        before, said, doubt = V.version(self.model), self.said(self.model), self.doubt(self.model)
        ways: list[Callable[[Any], Any]] = [
            copy.deepcopy,
            copy.copy,
            lambda model: pickle.loads(pickle.dumps(model)),
            self.reloaded,
        ]
        self.model = ways[int(random.integers(len(ways)))](self.model)
        assert V.version(self.model) == before, "a copy has another version"
        assert same(self.said(self.model), said), "a copy predicts otherwise"
        assert same(self.doubt(self.model), doubt), "a copy has other intervals"

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
        if self.kind != "classes" or self.classes >= 5:
            return "nothing to do"
        self.model.add_classes([self.classes])
        self.classes += 1
        self.is_linear = False
        if self.memory == "rows":
            self.learned.append(Learned(-self.classes, None, np.array([self.classes - 1]), None, ANNOUNCED))
            return None
        self.first.add_classes([self.classes - 1])
        self.made = None
        return None


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
