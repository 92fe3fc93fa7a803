"""A regression net: what the library does on small drawn data, as characterisation tests are, in a line for each stage.

python benchmarks/net.py > before.txt; change something; python benchmarks/net.py > after.txt; diff before.txt after.txt

Each line has a name, and hashes of what a restructuring must not change: the fingerprint of the model, its version,
its predictions, its intervals (at three coverages), its support, and its log, as numbers and as words. They are apart,
since some changes are meant to touch one column only: identifiers in hashed content change fingerprints and versions,
another vocabulary changes words (and versions, which cover the log). For the command, `fingerprint` is of the hashes
that it printed, `predictions` of the table that it wrote, and numbers and words are of its output. "-" is where a
stage has no such thing.

--full prints more below each line: the first values of each array, the log, and transcripts.
--only NAME runs the configurations whose names contain NAME, --list prints these names.

Only public names are used, so that it outlives the modules behind them. The clock of the library is held: each stage
is an hour after the one before. On another machine, or with another linear algebra, hashes are others.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import hashlib
import importlib
import io
import json
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "110"})  # before numpy

import numpy as np
import pandas as pd
import pyarrow  # noqa: F401  # this and all above have the real clock
import sklearn.base  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
COLUMNS = ("fingerprint", "version", "predictions", "intervals", "support", "numbers", "words")
COVERAGES = [0.5, 0.8, 0.95]
QUICK = {"members": 1, "features": 60, "random_state": 0}
DIGITS = 10  # of a hash
UTC = datetime.timezone.utc


# --- the clock ----------------------------------------------------------------------------------------------


class Coverage(type):
    """Any datetime is an instance of the held one, as isinstance asks in the library."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, REAL)


REAL = datetime.datetime


class Clock(REAL, metaclass=Coverage):
    """A datetime whose `now` stands still until `pass_an_hour`."""

    moment = REAL(2024, 1, 1, 12, tzinfo=UTC)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        moment = cls.moment.astimezone(tz or UTC)
        return moment if tz else moment.replace(tzinfo=None)

    @classmethod
    def pass_an_hour(cls) -> None:
        cls.moment += datetime.timedelta(hours=1)


@contextlib.contextmanager
def held_clock() -> Iterator[None]:
    """Let modules that are imported from now on see the held clock, and the library no time that passes.

    Versions of models have times of their log entries, and seconds spent.
    """
    # deadlines of locks and workers need the other functions of `time`
    real = {name: getattr(time, name) for name in ("perf_counter", "process_time")}

    def still(name: str) -> Callable[[], float]:
        def read() -> float:
            inside = sys._getframe(1).f_globals.get("__name__", "").startswith("atlas_splines")
            return 0.0 if inside else real[name]()

        return read

    datetime.datetime = Clock  # type: ignore[misc]
    for name in real:
        setattr(time, name, still(name))
    try:
        yield
    finally:
        datetime.datetime = REAL  # type: ignore[misc]
        for name, function in real.items():
            setattr(time, name, function)


# --- what a stage shows -------------------------------------------------------------------------------------


@dataclass
class Shown:
    """Hashes of a stage by column, and what they are of, as text."""

    hashes: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def array(self, column: str, values: Any) -> Shown:
        """Add an array, or several."""
        arrays = [np.ascontiguousarray(each) for each in (values if isinstance(values, tuple) else (values,))]
        digest = hashlib.sha256()
        for each in arrays:
            is_text = each.dtype.kind in "OUS"
            content = json.dumps(each.astype(str).tolist()).encode() if is_text else each.tobytes()
            digest.update(f"{'text' if is_text else each.dtype} {each.shape} ".encode() + content)
            sample = each.ravel()[:: max(1, each.size // 6)][:6].tolist()
            few = [f"{value:.9g}" if isinstance(value, float) else str(value) for value in sample]
            self.lines.append(f"{column}: {each.shape} {' '.join(few)}")
        self.hashes[column] = digest.hexdigest()[:DIGITS]
        return self

    def text(self, column: str, *texts: str) -> Shown:
        """Add texts, if there are any."""
        if any(texts):
            self.hashes[column] = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:DIGITS]
        return self

    def names(self, *identifiers: str) -> Shown:
        """Add a fingerprint, and if there is one a version, as they are."""
        for column, identifier in zip(COLUMNS, identifiers, strict=False):
            self.hashes[column] = identifier[:DIGITS]
        return self

    def note(self, text: str) -> Shown:
        """Add lines that have a mixture of numbers, hashes and words."""
        plain = re.sub(r"\b[\d.,]+ (bytes|[kMG]B)|(?<=\"bytes\": )\d+", "SIZE", text)
        hashes = re.findall(HASH, plain)
        plain = re.sub(HASH, "HASH", plain)
        numbers, words = re.findall(NUMBER, plain), re.sub(NUMBER, "#", plain)
        self.lines += text.splitlines()
        if hashes and "fingerprint" not in self.hashes:
            self.text("fingerprint", *hashes)
        return self.text("numbers", *numbers).text("words", words)

    def line(self, name: str) -> str:
        return f"{name:36}" + "".join(f" {self.hashes.get(column, '-'):{DIGITS + 1}}" for column in COLUMNS)


HASH = r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,64}\b"
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"


def shown(thing: Any, X: Any = None, note: str = "") -> Shown:
    """What a model or an estimator is, and what it predicts for some rows."""
    from atlas_splines import Atlas
    from atlas_splines.versions import version

    inner = getattr(thing, "estimator", thing)
    model = inner if isinstance(inner, Atlas) else inner.model_
    result = Shown().names(model.fingerprint(), version(thing))
    if isinstance(inner, Atlas):
        result.array("predictions", inner(X))
        log = model.updates
    else:
        predictions_of(inner, X, result)
        log = inner.update_log_
    record = getattr(inner, "fit_record_", None)
    return result.note("\n".join([*([str(record)] if record else []), *map(entry_text, log), note]))


def predictions_of(estimator: Any, X: Any, result: Shown) -> Shown:
    """What a fitted estimator predicts for some rows: values or probabilities, intervals or sets, and support."""
    classes = hasattr(estimator, "classes_")
    for column, ask in {
        "predictions": lambda: (
            (estimator.predict_proba(X), estimator.predict(X)) if classes else estimator.predict(X)
        ),
        "intervals": lambda: (
            estimator.predict_set(X, COVERAGES)
            if classes
            else (*estimator.predict_interval(X, COVERAGES), estimator.predict(X, return_std=True)[1])
        ),
        "support": lambda: estimator.support(X),
    }.items():
        try:
            with np.errstate(all="ignore"):
                result.array(column, ask())
        except ValueError as error:
            result.text(column, str(error)).lines.append(f"{column}: {error}")
    return result


def entry_text(entry: Any) -> str:
    """An entry of a log: its facts without its times, and the hashes of the model before and after."""
    held, area = getattr(entry, "held_out", None), getattr(entry, "footprint", None)
    facts = {
        name: getattr(entry, name, None)
        for name in (
            "id", "kind", "rows", "error_before", "error_after", "error", "worst", "replaced", "updates",
            "data", "author", "message", "reason", "caution",
        )
    }  # fmt: skip
    facts["reverted"] = getattr(entry, "reverted", None) is not None
    facts["held out"] = None if held is None else [held.error, getattr(held, "crossed", None)]
    facts["area"] = None if area is None else [area.volume, str(area.share)]
    return json.dumps({name: value for name, value in facts.items() if value not in (None, "")}, default=str)


# --- data ---------------------------------------------------------------------------------------------------


def rows(count: int, seed: int = 0, columns: int = 3, low: float = 0.0, high: float = 1.0) -> tuple[Any, Any]:
    """Inputs in a cube, and a smooth target with some noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(low, high, (count, columns))
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, -1] + 0.1 * random.normal(size=count)
    return X, y


def classes_of(y: Any, count: int) -> Any:
    """As many classes, of about as many rows each."""
    ends = np.linspace(-1, 2, count + 1)[1:-1]
    return np.array(["ash", "birch", "cedar", "dogwood", "elm"])[np.digitize(y, ends)]


def shops(count: int, seed: int = 0, start: str = "2024-01-01") -> tuple[pd.DataFrame, Any]:
    """A frame with numbers, categories, one of them with 40 levels, dates, and missing cells."""
    random = np.random.default_rng(seed)
    shop = random.integers(0, 40, count)
    frame = pd.DataFrame(
        {
            "size": random.uniform(30, 200, count).round(1),
            "city": random.choice(["Aarhus", "Bergen", "Cadiz"], count),
            "shop": [f"shop {number}" for number in shop],
            "sold": pd.Timestamp(start) + pd.to_timedelta(np.arange(count) * 7, unit="h"),
        }
    )
    frame.loc[::13, "size"] = np.nan
    frame.loc[5::17, "city"] = None
    y = frame["size"].fillna(100) * 2 + 60 * (frame["city"] == "Cadiz") + 5 * np.sin(shop) * 3
    return frame, (y + 10 * (frame["sold"].dt.hour > 12) + random.normal(size=count)).to_numpy()


# --- configurations -----------------------------------------------------------------------------------------

Stages = Iterator[tuple[str, Shown]]
CONFIGURATIONS: dict[str, Callable[[], Stages]] = {}
# all over the domain, beyond it, and in the corner of `changed`
QUERIES = np.vstack([rows(50, 99, low=-0.2, high=1.2)[0], rows(20, 98, low=0.25, high=0.55)[0]])


def configuration(function: Callable[[], Stages]) -> Callable[[], Stages]:
    CONFIGURATIONS[function.__name__] = function
    return function


def fitted(columns: int = 3, count: int = 200, **options: Any) -> Any:
    """A regressor of some drawn rows."""
    from atlas_splines import AtlasRegressor

    return AtlasRegressor(**{**QUICK, **options}).fit(*rows(count, columns=columns))


def changed(count: int = 60, seed: int = 5) -> tuple[Any, Any]:
    """Rows of a corner in which the target has changed."""
    X, _ = rows(count, seed, low=0.3, high=0.5)
    return X, 5 + X[:, 0]


@configuration
def regressor() -> Stages:
    model = fitted()
    yield "fit", shown(model, QUERIES)
    model.partial_fit(*rows(40, 1), message="more", author="Ada", assess=True)
    yield "update", shown(model, QUERIES)
    corner = changed()
    area = model.footprint(corner[0])
    yield (
        "footprint",
        Shown().array("predictions", area.contains(QUERIES)).note(f"{area} {area.intervals(0)}"),
    )
    model.partial_fit(*corner)
    yield "changed", shown(model, QUERIES)
    model.partial_fit(*changed(30, 6))
    yield "joined", shown(model, QUERIES)
    model.revert(2)
    yield "revert", shown(model, QUERIES)
    importances = model.feature_importances_, model.interaction_strengths()
    yield "explained", Shown().array("predictions", importances).array("support", model.in_domain(QUERIES))


@configuration
def default_parameters() -> Stages:
    from atlas_splines import AtlasClassifier, AtlasRegressor

    X, y = rows(150)
    yield "regressor", shown(AtlasRegressor(random_state=0).fit(X, y), QUERIES)
    yield "classifier", shown(AtlasClassifier(random_state=0).fit(X, y > 0.8), QUERIES)


@configuration
def few_rows() -> Stages:
    model = fitted(count=12)
    yield "fit", shown(model, QUERIES)
    model.partial_fit(*rows(1, 1))
    yield "update", shown(model, QUERIES)


@configuration
def two_targets() -> Stages:
    from atlas_splines import AtlasRegressor

    def both(count: int, seed: int) -> tuple[Any, Any]:
        X, y = rows(count, seed)
        return X, np.c_[y, 100 * X[:, 1] - y]

    model = AtlasRegressor(**QUICK).fit(*both(200, 0))
    yield "fit", shown(model, QUERIES)
    model.partial_fit(*both(40, 1))
    yield "update", shown(model, QUERIES)
    yield "revert", shown(model.revert(1), QUERIES)


@configuration
def weights_and_groups() -> Stages:
    from atlas_splines import AtlasRegressor

    X, y = rows(200)
    weights, groups = 0.5 + X[:, 0], np.arange(200) // 10
    model = AtlasRegressor(**QUICK).fit(X, y, weights, groups=groups)
    yield "fit", shown(model, QUERIES)
    model.partial_fit(*rows(40, 1), sample_weight=np.linspace(0, 2, 40))
    yield "update", shown(model, QUERIES)
    for domain in ("data", "quantiles", [(0, 1), (-1, 1), (0, 2)]):
        yield (
            f"domain {domain if isinstance(domain, str) else 'given'}",
            shown(fitted(domain=domain), QUERIES),
        )


@configuration
def two_classes() -> Stages:
    from atlas_splines import AtlasClassifier

    X, y = rows(240)
    model = AtlasClassifier(**QUICK).fit(X[:200], classes_of(y[:200], 2))
    yield "fit", shown(model, QUERIES)
    model.partial_fit(X[200:], classes_of(y[200:], 2))
    yield "update", shown(model, QUERIES)
    model.partial_fit(changed()[0], np.full(60, "ash"))
    yield "changed", shown(model, QUERIES)
    yield "revert", shown(model.revert(1), QUERIES)


@configuration
def four_classes() -> Stages:
    from atlas_splines import AtlasClassifier

    X, y = rows(300)
    for memory in ("rows", "sums"):
        model = AtlasClassifier(memory=memory, class_weight="balanced", **QUICK)
        model.fit(X[:250], classes_of(y[:250], 4))
        yield f"{memory}: fit", shown(model, QUERIES)
        model.partial_fit(X[250:], classes_of(y[250:], 4))
        yield f"{memory}: update", shown(model, QUERIES)


@configuration
def new_classes() -> Stages:
    from atlas_splines import AtlasClassifier

    X, y = rows(260)
    model = AtlasClassifier(**QUICK).fit(X[:200], classes_of(y[:200], 2))
    model.add_classes(["cedar"])
    yield "announced", shown(model, QUERIES)
    came = np.where(X[200:, 0] > 0.6, "cedar", classes_of(y[200:], 2))
    came[:8] = "dogwood"  # which was not announced
    model.partial_fit(X[200:], came, accept=True)
    yield "learned", shown(model, QUERIES)
    yield "revert", shown(model.revert(1), QUERIES)


@configuration
def counts() -> Stages:
    from atlas_splines import AtlasRegressor

    X, y = rows(260)
    y = np.random.default_rng(3).poisson(np.exp(y)).astype(float)
    model = AtlasRegressor(loss="poisson", **QUICK).fit(X[:200], y[:200])
    yield "fit", shown(model, QUERIES)
    model.partial_fit(X[200:], y[200:])
    yield "update", shown(model, QUERIES)


@configuration
def losses() -> Stages:
    options = {"density": 1, "terms": 1, "max_iter": 5, "members": 2, "count": 120}
    for loss in ("absolute_error", "huber", "quantile"):
        model = fitted(loss=loss, **options)
        yield f"{loss}: fit", shown(model, QUERIES)
        model.partial_fit(*rows(40, 1))
        yield f"{loss}: update", shown(model, QUERIES)


@configuration
def monotone() -> Stages:
    model = fitted(monotonic_cst=[0, 1, 0])
    yield "fit", shown(model, QUERIES)
    model.partial_fit(*rows(40, 1))
    yield "update", shown(model, QUERIES)
    model.partial_fit(*changed())
    yield "changed", shown(model, QUERIES)
    yield "sums", shown(fitted(monotonic_cst=[0, 1, -1], memory="sums"), QUERIES)


@configuration
def missing() -> Stages:
    from atlas_splines import AtlasRegressor

    X, y = rows(260)
    X[::7, 0] = np.nan
    X[200::5, 1] = np.nan
    queries = QUERIES.copy()
    queries[::4, 0] = queries[::6, 2] = np.nan
    model = AtlasRegressor(missing="learn", **QUICK).fit(X[:200], y[:200])
    yield "fit", shown(model, queries)
    model.partial_fit(X[200:], y[200:])
    yield "update", shown(model, queries)


@configuration
def frames() -> Stages:
    from atlas_splines import AtlasRegressor

    X, y = shops(300)
    later, later_y = shops(60, 1, "2024-04-01")
    queries, _ = shops(40, 2, "2024-03-15")
    for memory in ("rows", "sums"):
        model = AtlasRegressor(missing="learn", memory=memory, **QUICK).fit(X, y)
        yield f"{memory}: fit", shown(model, queries)
        area = model.footprint(later[:20])
        yield f"{memory}: footprint", Shown().array("predictions", area.contains(queries)).note(str(area))
        came = later.assign(city=later["city"].mask(later.index % 9 == 0, "Oslo"))
        came["shop"] = came["shop"].mask(came.index % 8 == 0, "shop new")
        model.partial_fit(came, later_y)
        yield f"{memory}: new levels", shown(model, pd.concat([queries, came[:20]]))
    model = AtlasRegressor(missing="learn", dates={"sold": "weekday,trend"}, **QUICK)
    yield "dates", shown(model.fit(X, y), queries)


@configuration
def new_columns() -> Stages:
    from atlas_splines import AtlasRegressor

    X, y = shops(250)
    later, later_y = shops(60, 1, "2024-04-01")
    later["rooms"] = np.arange(60) % 5
    model = AtlasRegressor(missing="learn", **QUICK).fit(X, y)
    model.partial_fit(later, later_y + 30 * later["rooms"], new_columns=True)
    yield "update", shown(model, later[:30])
    model.revert(1)
    yield "revert", shown(model, X[:30])


@configuration
def sums() -> Stages:
    model = fitted(memory="sums")
    yield "fit", shown(model, QUERIES)
    for seed in range(1, 8):
        model.partial_fit(*rows(40, seed))
    yield "seven updates", shown(model, QUERIES)
    model.partial_fit(*changed())
    yield "changed", shown(model, QUERIES)
    yield "revert", shown(model.revert(8), QUERIES)
    yield "forget an update", shown(model.forget(*rows(40, 7)), QUERIES)
    yield "half-life", shown(fitted(memory="sums", half_life=100).partial_fit(*rows(90, 2)), QUERIES)


@configuration
def pool() -> Stages:
    model = fitted(retention="pool")
    model.partial_fit(*changed())
    yield "changed", shown(model, QUERIES)
    yield "revert", shown(model.revert(1), QUERIES)


@configuration
def chart() -> Stages:
    for features in (0, 60):
        model = fitted(retention="chart", features=features, terms=0, density=1, max_iter=5, count=120)
        yield f"{features} features: fit", shown(model, QUERIES)
        model.partial_fit(*changed())
        yield f"{features} features: changed", shown(model, QUERIES)
        model.partial_fit(*changed(40, 8))
        yield f"{features} features: again", shown(model, QUERIES)
        yield f"{features} features: revert", shown(model.revert(1 if features else 2), QUERIES)


@configuration
def beyond() -> Stages:
    for extrapolation in ("constant", "linear"):
        model = fitted(extrapolation=extrapolation)
        model.partial_fit(*rows(40, 1, low=0.9, high=1.6))
        far = 3 * QUERIES
        yield f"{extrapolation}: update", shown(model, far)
        yield f"{extrapolation}: reach", shown(model.reach(far), far)
        yield f"{extrapolation}: revert", shown(model.revert(1), far)


@configuration
def drift() -> Stages:
    """Rows in the order of time, whose target drifts."""
    model = fitted()
    for step in range(8):
        X, y = rows(30, 20 + step)
        model.partial_fit(X, y + 0.15 * step)
    yield "eight updates", shown(model, QUERIES)
    yield "revert", shown(model.revert(3), QUERIES)


@configuration
def refused() -> Stages:
    from atlas_splines import UpdateRefused

    model = fitted(missing="error")
    X, y = rows(60, 1)
    attempts = {
        "targets times ten": (X, 10 * y),
        "constant target": (X, np.full(60, 3.0)),
        "columns exchanged": (X[:, [2, 1, 0]] * [1, 1, 40], y),
        "NaN": (np.full((5, 3), np.nan), y[:5]),
        "two columns": (X[:, :2], y),
    }
    texts = []
    for name, given in attempts.items():
        try:
            model.partial_fit(*given)
            texts.append(f"{name}: learned")
        except (UpdateRefused, ValueError) as error:
            texts.append(f"{name}: {type(error).__name__}: {error}")
    yield "sentences", shown(model, QUERIES, "\n".join(texts))
    model.partial_fit(X, y).partial_fit(X, y)
    yield "known rows", shown(model, QUERIES)


@configuration
def forget() -> Stages:
    from atlas_splines import versions

    model = fitted().partial_fit(*rows(40, 1)).partial_fit(*rows(40, 2))
    first = rows(200)
    some = rows(40, 1)
    yield "rows of an update", shown(model.forget(some[0][:10], some[1][:10]), QUERIES)
    yield "rows of the fit", shown(model.forget(first[0][:20], first[1][:20]), QUERIES)
    clean, receipt = versions.forget(model, *rows(40, 2))
    taken = [(each.update, each.rows, each.how) for each in receipt.taken]
    texts = f"{receipt.rows} {receipt.data} {taken} {receipt.remaining} {receipt.not_covered}"
    yield "receipt", shown(clean, QUERIES, texts)
    model = fitted(memory="sums").partial_fit(*rows(40, 1)).partial_fit(*rows(40, 2))
    data = [rows(40, 1), rows(40, 2)]
    clean, receipt = versions.forget(model, some[0][:10], some[1][:10], data=data)
    taken = [(each.update, each.rows, each.how) for each in receipt.taken]
    yield "sums: receipt", shown(clean, QUERIES, f"{taken} {receipt.remaining} {receipt.not_covered}")


@configuration
def merge() -> Stages:
    from copy import deepcopy

    from atlas_splines import versions

    for memory in ("rows", "sums"):
        base = fitted(memory=memory)
        ours = deepcopy(base).partial_fit(*rows(40, 1))
        yield f"{memory}: ours", shown(ours, QUERIES)
        theirs = deepcopy(base).partial_fit(*changed())
        yield f"{memory}: theirs", shown(theirs, QUERIES)
        difference = versions.diff(ours, theirs, rows=rows(50, 3)[0])
        names = "same", "rows", "differing", "mean", "worst", "parts"
        facts = " ".join(f"{name} {getattr(difference, name)}" for name in names)
        yield f"{memory}: diff", Shown().note(facts)
        merged = versions.merge(base, ours, theirs)
        yield f"{memory}: merged", shown(merged, QUERIES)
        yield f"{memory}: revert", shown(deepcopy(merged).revert(1), QUERIES)
        rival = deepcopy(base).partial_fit(*changed(60, 9))
        try:
            versions.merge(base, theirs, rival)
            text = "no conflict"
        except versions.MergeConflict as conflict:
            text = str(conflict)
        yield f"{memory}: conflict", shown(versions.merge(base, theirs, rival, prefer="ours"), QUERIES, text)


@configuration
def patch() -> Stages:
    from copy import deepcopy

    from atlas_splines import versions

    for memory in ("rows", "sums"):
        base = fitted(memory=memory)
        new = deepcopy(base).partial_fit(*rows(40, 1)).partial_fit(*changed())
        for portable in (True, False):
            fix = versions.patch(base, new, portable=portable)
            result = versions.apply(base, fix)
            name = f"{memory}: {'portable' if portable else 'applied'}"
            yield name, shown(result, QUERIES, f"same {versions.version(result) == versions.version(new)}")
        other = deepcopy(base).partial_fit(*rows(40, 4))
        yield f"{memory}: merged", shown(versions.apply(other, fix, merge=True), QUERIES)


@configuration
def replay() -> Stages:
    from atlas_splines import versions

    for memory in ("rows", "sums"):
        data = [rows(40, 1), changed(), rows(40, 2)]
        model = fitted(memory=memory)
        for each in data:
            model.partial_fit(*each)
        done = versions.replay(model.revert(3), data)
        facts = f"same {done.same} {[(step.id, step.expected == step.found) for step in done.steps]}"
        yield memory, shown(done.model, QUERIES, facts)


@configuration
def consolidate() -> Stages:
    for memory in ("rows", "sums"):
        model = fitted(memory=memory, density=1, terms=1, max_iter=5).partial_fit(*changed())
        options = {} if memory == "rows" else {"samples": 500, "epochs": 3, "density": 2, "terms": 1}
        for tolerance in (0.0, 1e6):
            done = model.consolidate(tolerance=tolerance, **options)
            yield f"{memory}: tolerance {tolerance:g}", shown(model, QUERIES, entry_text(done))


@configuration
def more_of_the_fit() -> Stages:
    pieces = [rows(60, seed) for seed in (1, 2)]
    yield "rows", shown(fitted().fit_more(*pieces[0], rest=pieces[1:]), QUERIES)
    yield "too many rows", shown(fitted(max_rows=220).fit_more(*pieces[0], rest=pieces[1:]), QUERIES)
    yield "sums", shown(fitted(memory="sums").fit_more(*pieces[0], rest=pieces[1:]), QUERIES)
    yield "too many updates", shown(fitted(max_rows=220).partial_fit(*pieces[0]), QUERIES)


@configuration
def bare_model() -> Stages:
    from atlas_splines import Atlas, consolidate, footprint, train, update
    from atlas_splines.analysis import variance_shares

    X, y = rows(150, columns=2)
    queries = rows(40, 99, columns=2)[0]
    model = Atlas(inputs=2, terms=2, density=1)
    train(model, X, y, epochs=3, random_state=0)
    yield "trained", shown(model, queries)
    few = {"epochs": 2, "terms": 1, "density": 0, "random_state": 0, "accept": True}
    for retention in ("rehearsal", "both", "none", "chart"):
        area = footprint(model, 0.3 + 0.2 * X, retention=retention)
        update(model, 0.3 + 0.2 * X, 3 + y, retention=retention, **few)
        shares = variance_shares(model) if retention == "none" else ""
        yield retention, shown(model, queries, f"{area} {shares}").array("support", area.contains(queries))
    model.revert(model.updates[-1].id)
    yield "revert", shown(model, queries)
    update(model, 0.3 + 0.2 * X, 3 + y, **few)
    model.extend([-0.5, 0], [1, 1.5])
    consolidate(model, tolerance=1e6, density=2, terms=3, samples=200, epochs=1, random_state=0)
    yield "consolidated", shown(model, queries).array("support", model.gradient(queries).toarray())


@configuration
def theory() -> Stages:
    import atlas_splines.analysis as analysis
    from atlas_splines import Atlas, train

    X, y = rows(100, columns=2)
    model = Atlas(inputs=2, terms=2, density=1)
    train(model, X, y, epochs=2, random_state=0)
    names = (
        "gradient_bound",
        "gradient_norm",
        "overlap",
        "sparsity",
        "expected_off_target",
        "orthogonality_distance",
    )
    arguments = {
        "gradient_bound": (model,),
        "gradient_norm": (model, X[:9]),
        "overlap": (model, X[:9], X[9:18]),
        "orthogonality_distance": (1,),
    }
    texts = [f"{name} {np.asarray(getattr(analysis, name)(*given))}" for name, given in arguments.items()]
    known = " ".join(name for name in names if hasattr(analysis, name))
    yield "properties", shown(model, X[:9], "\n".join([*texts, known]))


@configuration
def round_trip() -> Stages:
    from atlas_splines import AtlasClassifier, AtlasRegressor, export_log, load, save, versions

    frame, target = shops(250)
    X, y = rows(200)
    things = {
        "rows": (fitted().partial_fit(*changed()).revert(1), QUERIES),
        "sums": (fitted(memory="sums").partial_fit(*changed()), QUERIES),
        "frame": (AtlasRegressor(missing="learn", **QUICK).fit(frame, target), frame[:30]),
        "classes": (AtlasClassifier(**QUICK).fit(X, classes_of(y, 4)), QUERIES),
        "counts": (AtlasRegressor(loss="poisson", **QUICK).fit(X, np.floor(3 * abs(y))), QUERIES),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (thing, queries) in things.items():
            path = Path(folder) / f"{name}.atlas"
            save(thing, path)
            twin = load(path)
            is_same = versions.version(twin) == versions.version(thing)
            verified = versions.verify(path)
            inner = getattr(twin, "estimator", twin)
            export_log(inner, path.with_suffix(".jsonl"))
            log = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
            keys = " ".join(sorted({key for entry in log for key in entry}))
            facts = f"same {is_same} {verified.updates} {verified.problems} {len(log)} {keys}"
            yield name, shown(twin, queries, facts)


@configuration
def golden() -> Stages:
    """Files of every version: what they say, and whether what is saved again is the same."""
    from atlas_splines import Atlas, load, save, versions

    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(GOLDEN.glob("*.atlas"), key=lambda path: path.stem):
            thing = load(path)
            save(thing, Path(folder) / "again.atlas")
            again = load(Path(folder) / "again.atlas")
            is_same = versions.version(again) == versions.version(thing)
            if path.stem.startswith("table"):  # its columns are what a table has, not arrays
                yield path.stem, golden_table(path, Path(folder)).note(f"same {is_same}")
                continue
            random = np.random.default_rng(0)
            if isinstance(thing, Atlas):
                low, high = thing.domain.T
                queries = low + (high - low) * random.random((20, thing.inputs))
            else:
                queries = random.normal(0, 3, (30, thing.n_features_in_))
                queries[:20] = random.random((20, thing.n_features_in_))
                if hasattr(thing, "feature_names_in_"):
                    queries = pd.DataFrame(queries, columns=thing.feature_names_in_)
            yield path.stem, shown(thing, queries, f"same {is_same}")


def golden_table(path: Path, folder: Path) -> Shown:
    """What the command predicts with a file that knows its table."""
    cells = [("size", "when", "city")]
    cells += [
        (10 * k, f"{1 + k:02}.02.2024 {k:02}:00", ("Bergen", "Cadiz", "Oslo")[k % 3]) for k in range(12)
    ]
    write(folder / "table.csv", cells)
    options = [
        "--header",
        "--separator",
        ",",
        "--decimal",
        ".",
        "--unknown",
        "missing",
        "--interval",
        "0.9",
        "--support",
    ]
    return command(
        folder, "predict", path, "table.csv", "-o", "said.csv", "--force", *options, table="said.csv"
    )


@configuration
def on_dask() -> Stages:
    import dask.array as da
    from distributed import Client

    from atlas_splines.dask import DaskAtlasClassifier, DaskAtlasRegressor

    def lazy(X: Any, y: Any) -> tuple[Any, Any]:
        return da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)

    X, y = rows(400)
    options = {**QUICK, "sample": 200}
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        for memory in ("rows", "sums"):
            model = DaskAtlasRegressor(client=client, memory=memory, **options).fit(*lazy(X, y))
            yield f"{memory}: fit", shown(model.to_local(), QUERIES)
            model.partial_fit(*lazy(*rows(150, 1)))
            yield f"{memory}: update", shown(model.to_local(), QUERIES)
            model.revert(1)
            yield f"{memory}: revert", shown(model.to_local(), QUERIES)
        model = DaskAtlasClassifier(client=client, **options).fit(*lazy(X, classes_of(y, 4)))
        yield "classes", shown(model.to_local(), QUERIES)


@configuration
def on_river() -> Stages:
    from atlas_splines import AtlasClassifier, AtlasRegressor
    from atlas_splines.river import RiverAtlasClassifier, RiverAtlasRegressor

    frame, target = shops(160)
    frame = frame.drop(columns="shop")  # of which a warm-up has too few rows
    stream = [
        {key: value for key, value in row.items() if value == value} for row in frame.to_dict("records")
    ]
    options = {"missing": "learn", "memory": "sums", **QUICK}
    short = {"batch": 40, "warm_up": 80}
    model, predicted = RiverAtlasRegressor(AtlasRegressor(**options), **short), []
    for x, y in zip(stream, target, strict=True):
        predicted.append(model.predict_one(x))
        model.learn_one(x, y)
    yield "regressor", Shown().array("predictions", np.array(predicted))
    model, predicted = RiverAtlasClassifier(AtlasClassifier(**options), **short), []
    for x, y in zip(stream, target > 250, strict=True):
        predicted.append(model.predict_proba_one(x).get(True, 0.0))
        model.learn_one(x, bool(y))
    yield "classifier", Shown().array("predictions", np.array(predicted))


@configuration
def in_torch() -> Stages:
    import torch

    from atlas_splines import AtlasClassifier
    from atlas_splines.nn import EstimatorModule

    torch.set_num_threads(1)
    X, y = rows(200)
    models = {
        "regressor": fitted(),
        "charts": fitted(memory="sums").partial_fit(*changed()),
        "linear": fitted(extrapolation="linear", memory="sums"),
        "classifier": AtlasClassifier(**QUICK).fit(X, classes_of(y, 4)),
    }
    for name, model in models.items():
        module = EstimatorModule(model, coverage=0.9, support=True)
        with torch.no_grad():
            out = module(torch.tensor(QUERIES))
        arrays = tuple(np.asarray(each) for each in (out if isinstance(out, tuple) else (out,)))
        keys = " ".join(f"{key}{tuple(each.shape)}" for key, each in module.state_dict().items())
        yield name, Shown().array("predictions", arrays).note(f"{module.output_names} {keys}")


# --- the command --------------------------------------------------------------------------------------------


def entry_point() -> Callable[[], None]:
    """The function behind `atlas`, as pyproject.toml names it: what is installed may be older."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf8")
    module, function = re.search(r'^atlas = "(.+):(.+)"', text, re.MULTILINE).groups()  # type: ignore[union-attr]
    return getattr(importlib.import_module(module), function)


def run(folder: Path, *arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors of the command, run in this process and in a folder."""
    main, signals = entry_point(), [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {number: signal.getsignal(number) for number in signals}
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf8", newline="") for _ in range(2)]
    old, sys.argv, code = (os.getcwd(), sys.argv), ["atlas", *map(str, arguments)], 0
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(old[0])
        sys.argv = old[1]
        for number, handler in before.items():
            signal.signal(number, handler)
    texts = []
    for stream in streams:
        stream.flush()
        text = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
        text = text.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT")
        texts.append(re.sub(r"\b[\d.]+ (s|ms|seconds)\b", r"TIME \1", text))
    return code, *texts


def command(folder: Path, *arguments: object, table: str = "") -> Shown:
    """What the command printed, and a table that it wrote."""
    code, out, errors = run(folder, *arguments)
    told = " ".join(map(str, arguments)).replace(str(ROOT), "ROOT")
    result = Shown().note(f"$ atlas {told}\n{out}{errors}exit code {code}")
    if table and (folder / table).exists():
        content = (folder / table).read_text(encoding="utf8")
        result.text("predictions", content).lines += [f"{table}: {line}" for line in content.splitlines()[:4]]
    return result


def write(path: Path, cells: Iterable[Iterable[object]]) -> None:
    with open(path, "w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows(cells)


def homes(path: Path, count: int, seed: int, start: str = "2024-01-01", factor: float = 1.0) -> Path:
    """A table of shops as a file."""
    frame, y = shops(count, seed, start)
    frame.assign(price=(factor * y).round(2), good=np.where(y > 250, "yes", "no")).to_csv(path, index=False)
    return path


@configuration
def the_command() -> Stages:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        homes(folder / "homes.csv", 300, 0)
        for number, (seed, start) in enumerate([(1, "2024-04-01"), (2, "2024-04-20"), (3, "2024-05-05")], 1):
            homes(folder / f"new{number}.csv", 60, seed, start)
        homes(folder / "wrong.csv", 60, 4, "2024-05-20", factor=10)
        homes(folder / "near.csv", 60, 5, "2024-02-01", factor=1.2)
        (folder / "data").mkdir()
        for number in (1, 2):
            (folder / "data" / f"new{number}.csv").write_bytes((folder / f"new{number}.csv").read_bytes())
        lines = (folder / "new1.csv").read_text().splitlines()
        (folder / "some.csv").write_text("\n".join(lines[:11]) + "\n")
        fit = ["fit", "homes.csv", "-t", "price", "--ignore", "good", "--members", 1]
        for stage, arguments, table in (
            ("fit", [*fit, "-o", "m.atlas"], ""),
            ("fit: sums", [*fit, "-o", "s.atlas", "--memory", "sums"], ""),
            ("fit: classes", ["fit", "homes.csv", "-t", "good", "--ignore", "price", "--members", 1, "-o", "c.atlas"], ""),
            ("fit: JSON", [*fit, "-o", "j.atlas", "--json"], ""),
            ("update: dry run", ["update", "m.atlas", "new1.csv", "--dry-run"], ""),
            ("update", ["update", "m.atlas", "new1.csv", "-o", "m1.atlas", "-m", "April", "--author", "Ada"], ""),
            ("update: sums", ["update", "s.atlas", "new1.csv"], ""),
            ("fit: again", [*fit, "-o", "s.atlas"], ""),
            ("update: classes", ["update", "c.atlas", "new1.csv"], ""),
            ("update: JSON", ["update", "m.atlas", "new2.csv", "-o", "m2.atlas", "--json"], ""),
            ("update: known", ["update", "m1.atlas", "new1.csv"], ""),
            ("update: refused", ["update", "m1.atlas", "wrong.csv"], ""),
            ("update: chart, levels", ["update", "m1.atlas", "near.csv", "--retention", "chart"], ""),
            ("fit: no levels", ["fit", "homes.csv", "-t", "price", "--ignore", "good,shop", "-o", "w.atlas"], ""),
            ("update: chart", ["update", "w.atlas", "near.csv", "-o", "m3.atlas", "--retention", "chart"], ""),
            ("inspect: chart", ["inspect", "m3.atlas"], ""),
            ("predict", ["predict", "m1.atlas", "new3.csv", "-o", "p.csv", "--interval", 0.9, "--support"], "p.csv"),
            ("predict: output", ["predict", "s.atlas", "some.csv"], ""),
            ("predict: chart", ["predict", "m3.atlas", "near.csv", "-o", "n.csv", "--interval", 0.9], "n.csv"),
            ("predict: classes", ["predict", "c.atlas", "new3.csv", "-o", "q.csv", "--probabilities"], "q.csv"),
            ("inspect", ["inspect", "m1.atlas"], ""),
            ("inspect: sums", ["inspect", "s.atlas", "--verbose"], ""),
            ("inspect: JSON", ["inspect", "c.atlas", "--json"], ""),
            ("evaluate", ["evaluate", "m.atlas", "new3.csv", "--by", "city", "--against", "m1.atlas"], ""),
            ("evaluate: classes", ["evaluate", "c.atlas", "new3.csv"], ""),
            ("log", ["log", "m1.atlas"], ""),
            ("diff", ["diff", "m1.atlas", "m2.atlas", "--rows", "new3.csv"], ""),
            ("merge", ["merge", "m.atlas", "m1.atlas", "m2.atlas", "-o", "both.atlas"], ""),
            ("inspect: merged", ["inspect", "both.atlas"], ""),
            ("patch", ["patch", "m.atlas", "m1.atlas", "-o", "fix.patch"], ""),
            ("apply", ["apply", "m.atlas", "fix.patch", "-o", "a.atlas"], ""),
            ("verify", ["verify", "a.atlas"], ""),
            ("replay", ["replay", "both.atlas", "--data", "data"], ""),
            ("forget", ["forget", "both.atlas", "some.csv", "-o", "f.atlas"], "f.atlas.receipt.json"),
            ("revert", ["revert", "m1.atlas", 1], ""),
            ("revert: again", ["revert", "m1.atlas", 1], ""),
            ("inspect: reverted", ["inspect", "m1.atlas"], ""),
            ("no file", ["predict", "none.atlas", "new3.csv"], ""),
            ("no column", ["fit", "homes.csv", "-t", "prize"], ""),
        ):  # fmt: skip
            yield stage, command(folder, *arguments, table=table)


@configuration
def large_table() -> Stages:
    """More rows than are learned at once (50,000), of which sums come."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for stem, count, seed in (("big", 50_400, 0), ("more", 300, 1)):
            X, y = rows(count, seed, columns=2)
            np.savetxt(folder / f"{stem}.csv", np.c_[X, y].round(4), "%g", ",", header="a,b,y", comments="")
        options = ["--members", 1, "--memory", "sums", "--terms", 0, "--density", 0]
        yield "fit", command(folder, "fit", "big.csv", "-t", "y", "-o", "m.atlas", *options)
        yield "update", command(folder, "update", "m.atlas", "more.csv")
        predicted = ["-o", "p.csv", "--interval", 0.9, "--support"]
        yield "predict", command(folder, "predict", "m.atlas", "more.csv", *predicted, table="p.csv")


@configuration
def help_texts() -> Stages:
    for name in ("", "fit", "update", "predict", "evaluate", "inspect", "merge", "forget"):
        with tempfile.TemporaryDirectory() as folder:
            yield name or "atlas", command(Path(folder), *([name] if name else []), "--help")


# --- running ------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAME", action="append", help="part of a name; repeat for several")
    parser.add_argument("--full", action="store_true", help="print what is hashed too")
    parser.add_argument("--list", action="store_true", help="print the names of the configurations")
    parser.add_argument("--times", action="store_true", help="print how long each took, to standard error")
    options = parser.parse_args()
    chosen = chosen_of(CONFIGURATIONS, options.only)
    if options.list:
        print("\n".join(chosen))
        return
    print(f"{'stage':36}" + "".join(f" {column:{DIGITS + 1}}" for column in COLUMNS))
    with held_clock():
        for name, function in chosen.items():
            start = REAL.now(UTC)
            for line in lines_of(name, function, options.full):
                print(line, flush=True)
            if options.times:
                print(f"{name}: {(REAL.now(UTC) - start).total_seconds():.1f} s", file=sys.stderr)


def chosen_of(known: Mapping[str, Any], names: Iterable[str] | None) -> dict[str, Any]:
    """The configurations that one of the names is part of, or all."""
    chosen = {key: value for key, value in known.items() if not names or any(name in key for name in names)}
    if not chosen:
        raise SystemExit(f"no configuration is named so; there are {', '.join(known)}")
    return chosen


def lines_of(name: str, function: Callable[[], Stages], full: bool) -> Iterator[str]:
    """The lines of a configuration, each an hour after the one before; an error is a line as well."""
    Clock.moment = REAL(2024, 1, 1, 12, tzinfo=UTC)
    stages = function()
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                stage, result = next(stages)
            except StopIteration:
                return
            except Exception as error:  # the others can still be compared
                stage, result = "FAILED", Shown().note(f"{type(error).__name__}: {error}")
        told = [str(each.message) for each in caught if each.category.__name__ == "UpdateWarning"]
        if told:
            result.text("words", result.hashes.get("words", ""), *told).lines += told
        yield result.line(f"{name}/{stage}")
        if full:
            yield from (f"    {line}" for line in result.lines)
        Clock.pass_an_hour()


if __name__ == "__main__":
    main()
