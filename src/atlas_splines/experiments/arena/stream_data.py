"""Streams: a first part to fit, then batches in order; from a file in any order, or drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from atlas_splines.experiments.arena.csv_data import one_number, read_columns
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["BUILT_IN_STREAMS", "Stream", "StreamSource", "check_stream", "file_stream", "make_stream"]

Array = NDArray[np.floating]
RECENT = 0.25  # the last part of a stream, which says what regions it has left
DRAWN_ROWS = 5000
NOISE_INPUTS = 5  # of drawn streams, besides the five that matter
NOISE = 1.0  # standard deviation of what is added to targets, whose own is about five
SEASON = 1000  # rows
FIRST, BATCH = 1000, 100  # rows of the first part and of each batch, where nothing else is said


@dataclass(frozen=True)
class StreamSource:
    """Where a stream comes from, and how it is cut; small, since it is sent to other processes.

    Attributes
    ----------
    label
        What tables call it.
    kind
        A drawn stream, or ``"file"``.
    first, batch
        Rows of the first part, or 0 for all rows at once; and rows of each batch after it.
    path, target, drop
        A file, its target column, the last by default, and the columns that are no inputs.
    by
        The column that orders the rows, ``"random"`` to shuffle them, or ``"order"`` to leave them.
    noise
        Columns of noise that are added to the inputs.
    most
        Rows that are drawn, or used from the beginning of a file; 0 for all.
    hold
        Every so many rows one is predicted and never learned; 0 for none. What a method says at the end of
        rows that it has learned may be learned by heart; these tell what it knows of their places.
    classes
        Whether targets are classes and not numbers.
    """

    label: str
    kind: str
    first: int = FIRST
    batch: int = BATCH
    path: Path | None = None
    target: str = ""
    by: str = "random"
    drop: tuple[str, ...] = ()
    noise: int = 0
    most: int = 0
    hold: int = 0
    classes: bool = False

    @property
    def name(self) -> str:
        """Name for files, different for different data or options."""
        content = self.path.read_bytes() if self.path else b""
        cuts = (self.first, self.batch, self.most, self.hold)
        kind = ("classes",) if self.classes else ()
        options = repr((*cuts, self.target, self.by, self.drop, self.noise, *kind))
        digest = hashlib.sha256(content + options.encode()).hexdigest()[:8]
        return f"{self.path.stem if self.path else self.kind}-{digest}"

    def at_once(self) -> StreamSource:
        """The same rows as one first part: what a fit to all data has to say."""
        return replace(self, label=f"{self.label}, at once", first=0)


@dataclass(frozen=True)
class Stream:
    """Rows in order, shapes (rows, inputs) and (rows,), and where they are cut.

    Inputs go from 0 to 1 in the first part, and may leave that range later; targets have mean 0 and standard
    deviation 1 there. Only the unit of errors knows the future. Classes are numbered from 0; ``classes`` is
    how many there are, or 0 if targets are numbers.
    """

    X: Array
    y: Array
    first: int
    batch: int
    hold: int = 0
    classes: int = 0

    @property
    def inputs(self) -> int:
        """Columns of the inputs."""
        return self.X.shape[1]

    @property
    def unit(self) -> float:
        """Standard deviation of all targets: errors are told in it."""
        return float(self.y.std()) or 1.0

    def beginning(self) -> Task:
        """The first part."""
        return self.task(slice(0, self.first))

    def batches(self) -> list[Task]:
        """What comes after it, in order; the last may be shorter."""
        starts = range(self.first, len(self.y), self.batch)
        return [self.task(slice(start, start + self.batch)) for start in starts]

    def task(self, rows: slice) -> Task:
        """Some rows: those to learn, and all of them as a test, which comes before they are learned."""
        learned = ~self.held[rows]
        X, y = self.X[rows], self.y[rows]
        return Task(X[learned], y[learned], X, y)

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """Whether each row is never learned."""
        numbers = np.arange(len(self.y))
        return numbers % self.hold == self.hold - 1 if self.hold else numbers < 0

    @cached_property
    def long_ago(self) -> NDArray[np.intp]:
        """Rows whose neighbourhood the last quarter of the stream does not visit.

        Inputs are measured in their standard deviations. A row is visited if a row of the last quarter is as
        near to it as 95 of 100 rows of that quarter are to their own nearest neighbours.
        """
        start = round((1 - RECENT) * len(self.y))
        points = self.X / np.where(np.ptp(self.X, axis=0) > 0, self.X.std(axis=0), 1)
        if start == 0 or len(points) - start < 2:
            return np.zeros(0, np.intp)
        recent = cKDTree(points[start:])
        apart = recent.query(points[start:], k=2)[0][:, 1]
        return np.flatnonzero(recent.query(points[:start])[0] > np.quantile(apart, 0.95))


def file_stream(
    path: Path,
    by: str,
    *,
    first: int = FIRST,
    batch: int = BATCH,
    target: str = "",
    drop: tuple[str, ...] = (),
) -> StreamSource:
    """The stream of a file."""
    return StreamSource(f"{path.stem} by {by}", "file", first, batch, path, target, by, drop)


def check_stream(source: StreamSource) -> None:
    """Raise one clear sentence if a stream cannot be read or cut as asked."""
    make_stream(source, 0)


@lru_cache(maxsize=2)
def make_stream(source: StreamSource, seed: int) -> Stream:
    """Read or draw the rows, put them in order and scale them; the same for every method.

    Examples
    --------
    >>> stream = make_stream(StreamSource("", "steady", first=100, batch=50, most=220), 0)
    >>> stream.inputs, len(stream.beginning().y), [len(task.y) for task in stream.batches()]
    (10, 100, [50, 50, 20])
    """
    random = np.random.default_rng([seed, *source.kind.encode()])
    if source.kind == "file":
        X, y = file_rows(source, random)
    else:
        X, y = DRAWN[source.kind](random, source.most or DRAWN_ROWS)
    X = np.hstack([X, random.random((len(X), source.noise))])
    most = source.most or len(y)
    return cut(X[:most], y[:most], source)


def cut(X: Array, y: Array, source: StreamSource) -> Stream:
    """Scale the rows by the first part."""
    first = source.first or len(y)
    if not 2 <= first <= len(y) or source.batch < 1:
        raise ValueError(
            f"{source.label} has {len(y)} rows, which cannot be cut into {first} and then "
            f"{source.batch} each; choose a smaller first part"
        )
    low, high = X[:first].min(axis=0), X[:first].max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1)
    if source.classes:
        labels, numbers = np.unique(y, return_inverse=True)
        return Stream(X, numbers.astype(np.float64), first, source.batch, source.hold, len(labels))
    mean, scale = y[:first].mean(), y[:first].std() or 1.0
    return Stream(X, (y - mean) / scale, first, source.batch, source.hold)


# --- files -----------------------------------------------------------------------------------------------


def file_rows(source: StreamSource, random: np.random.Generator) -> tuple[Array, Array]:
    """Inputs and targets of a file in the order of the stream."""
    if source.path is None:
        raise ValueError("a stream of a file needs a path")
    columns = read_columns(source.path, tuple(set(source.drop) - {source.target, source.by}))
    target = source.target or list(columns)[-1]
    for name in (target, *([] if source.by in ("random", "order") else [source.by])):
        if name not in columns:
            raise ValueError(f"{source.path} has no column {name!r}; it has {', '.join(columns)}")
    inputs = [name for name in columns if name != target and name not in source.drop]
    X = np.hstack([columns[name] for name in inputs])
    order = np.arange(len(X))
    if source.by == "random":
        order = random.permutation(len(X))
    elif source.by != "order":
        order = np.argsort(one_number(columns[source.by]), kind="stable")
    return X[order], one_number(columns[target])[order]


# --- drawn streams ---------------------------------------------------------------------------------------


def friedman(X: Array, trend: Array | float = 1.0) -> Array:
    """Friedman's function of five inputs; `trend` scales the effect of the fourth."""
    wave = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * np.square(X[:, 2] - 0.5)
    return wave + 10 * trend * X[:, 3] + 5 * X[:, 4]


def drawn_inputs(random: np.random.Generator, rows: int) -> Array:
    """Rows all over the cube, with columns that do not matter."""
    return random.random((rows, 5 + NOISE_INPUTS))


def with_noise(y: Array, random: np.random.Generator) -> Array:
    """Targets as they are measured."""
    return y + NOISE * random.normal(size=len(y))


def steady(random: np.random.Generator, rows: int) -> tuple[Array, Array]:
    """A world that does not change."""
    X = drawn_inputs(random, rows)
    return X, with_noise(friedman(X), random)


def gradual(random: np.random.Generator, rows: int) -> tuple[Array, Array]:
    """The effect of one input turns round, a little with each row."""
    X = drawn_inputs(random, rows)
    return X, with_noise(friedman(X, np.linspace(1, -1, len(X))), random)


def sudden(random: np.random.Generator, rows: int) -> tuple[Array, Array]:
    """From the middle on, targets in a box of two inputs are higher."""
    X = drawn_inputs(random, rows)
    box = ((X[:, :2] > 0.2) & (X[:, :2] < 0.6)).all(axis=1)
    late = np.arange(len(X)) >= len(X) // 2
    return X, with_noise(friedman(X) + 10 * (box & late), random)


def seasons(random: np.random.Generator, rows: int) -> tuple[Array, Array]:
    """One input goes to and fro, so that each region is left for half a season and comes again."""
    X = drawn_inputs(random, rows)
    centre = 0.5 + 0.35 * np.sin(2 * np.pi * np.arange(len(X)) / SEASON)
    X[:, 0] = np.clip(centre + 0.3 * (X[:, 0] - 0.5), 0, 1)
    return X, with_noise(friedman(X), random)


DRAWN: dict[str, Callable[[np.random.Generator, int], tuple[Array, Array]]] = {
    "steady": steady,
    "gradual": gradual,
    "sudden": sudden,
    "seasons": seasons,
}
BUILT_IN_STREAMS = (
    StreamSource("no drift", "steady"),
    StreamSource("gradual drift", "gradual"),
    StreamSource("sudden change in a box", "sudden"),
    StreamSource("recurring seasons", "seasons", first=500),
)
