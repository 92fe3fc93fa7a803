"""Protocol 7, streams: each batch is predicted before it is learned, as a model in use has it.

Errors are mean absolute errors in standard deviations of the target, or the log loss of classes. A run is a
stream, a method and a seed; it is written when it is done, and a failure is a result too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.measures import Diverged, mean
from atlas_splines.experiments.arena.methods import METHODS, STREAM_METHODS, check_names, find
from atlas_splines.experiments.arena.methods.base import Method, Setup, softmax
from atlas_splines.experiments.arena.runner import Record, attempt
from atlas_splines.experiments.arena.stream_data import Stream, StreamSource, check_stream, make_stream
from atlas_splines.experiments.jobs import read_results, result_path, run_missing

__all__ = [
    "DEFAULT_METHODS",
    "Line",
    "follow",
    "run_streams",
    "stored_results",
    "stream_cells",
    "stream_lines",
    "stream_table",
]

Array = NDArray[np.floating]
FOLDER = Path("streams", "runs")
STEPS = 300  # gradient steps on a part, for methods that have no number of their own
LAST = 5  # batches at the end of a stream
LEAST_PROBABILITY = 1e-6  # of a class, so that a method which rules the true one out has a finite log loss
BINS = 15  # of the probability of the likeliest class, for calibration
DEFAULT_METHODS = (
    "atlas-auto", "atlas-pool", "atlas-charts", "never", "boosting", "boosting-reservoir",
    "river-forest", "river-tree", "mlp-partial-fit",
)  # fmt: skip  # without atlas-retrained, which takes hours on long streams


# --- running ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamKey:
    """One run: a method, with the first setting of its grid, on a stream."""

    source: StreamSource
    method: str
    seed: int

    @property
    def name(self) -> str:
        """File name of the result."""
        return f"{self.source.name}-{self.method}-s{self.seed}"


def run_streams(
    streams: Sequence[StreamSource],
    methods: Sequence[str],
    seeds: Sequence[int],
    output: Path,
    jobs: int = 1,
    *,
    scheduler: str | None = None,
) -> list[Record]:
    """Run what is not there yet, and return all records: by stream, then by method, then by seed.

    Parameters
    ----------
    streams
        Where each stream comes from.
    methods
        Names of methods: those of the arena, and those for streams only.
    seeds
        Repetitions: they draw streams, shuffle files and start methods.
    output
        Folder of the results; a run that was stopped goes on where it was.
    jobs, scheduler
        Local processes, or the address of a Dask scheduler.
    """
    check_names(methods, METHODS | STREAM_METHODS)
    for source in streams:
        check_stream(source)
    keys = [StreamKey(source, method, seed) for source in streams for method in methods for seed in seeds]
    folder = output / FOLDER
    run_missing(folder, keys, run_stream, StreamSettings(), jobs=jobs, scheduler=scheduler, title="streams")
    return read_results(folder, keys)


def stored_results(streams: Sequence[StreamSource], seeds: Sequence[int], output: Path) -> list[Record]:
    """Records of all methods that have been run on these streams and seeds, in the order of `run_streams`."""
    folder, methods = output / FOLDER, METHODS | STREAM_METHODS
    keys = [StreamKey(source, method, seed) for source in streams for method in methods for seed in seeds]
    return read_results(folder, [key for key in keys if result_path(folder, key).exists()])


@dataclass(frozen=True)
class StreamSettings:
    """What all runs on streams have in common: gradient steps on a batch, for methods that need a number.

    ``measures`` counts what records have held over time, so that a folder with older ones is refused.
    """

    steps: int = STEPS
    measures: int = 2


def run_stream(key: StreamKey, settings: StreamSettings) -> Record:
    """Run one method on one stream; whatever goes wrong is said in ``status``."""
    record: Record = {"stream": key.source.label, "method": key.method, "seed": key.seed}
    stream = make_stream(key.source, key.seed)

    def measure() -> Record:
        kind: Any = find(key.method)
        options = dict(kind.GRID[0])
        setup = Setup(stream.inputs, stream.classes, key.seed, settings.steps, bounded=False)
        method = kind(setup, **options)
        return {"settings": options, **follow(stream, method)}

    return record | attempt(measure)


def follow(stream: Stream, method: Method) -> Record:
    """Fit the first part; predict each batch and then learn it; look back at the end.

    Returns
    -------
    dict with ``errors``, of each batch before it was learned, and ``covered``, the share of its targets in
    their 90 % intervals, empty for methods without; of classes ``wrong``, the share of wrong ones, and
    ``calibration_error``, both of rows before they were learned; ``seen``, the error on all rows at the end;
    ``held``, that on the rows that were never learned;
    ``long_ago``, that on rows whose neighbourhood the last quarter of the stream did not visit, and
    ``long_ago_rows``, how many these are; bytes; and seconds of one core for the first fit and an update.
    """
    start = time.process_time()
    method.fit(stream.beginning())
    first = time.process_time() - start
    predicted, covered, seconds = [], [], []
    batches = stream.batches()
    for task in batches:
        predicted.append(outputs_of(stream, method, task.test_X))
        held = method.covers(task.test_X, task.test_y)
        covered += [] if held is None else [float(held.mean())]
        start = time.process_time()
        method.fit(task)
        seconds.append(time.process_time() - start)
    old = stream.long_ago
    return {
        "errors": [
            mean_error(stream, out, task.test_y) for out, task in zip(predicted, batches, strict=True)
        ],
        "covered": covered,
        **(
            class_measures(np.vstack(predicted), stream.y[stream.first :])
            if stream.classes and predicted
            else {}
        ),
        "seen": error(stream, method, stream.X, stream.y),
        "held": error(stream, method, stream.X[stream.held], stream.y[stream.held]),
        "long_ago": error(stream, method, stream.X[old], stream.y[old]),
        "long_ago_rows": len(old),
        "bytes": method.bytes_kept,
        "first_seconds": first,
        "update_seconds": mean(seconds),
    }


def error(stream: Stream, method: Method, X: Array, y: Array) -> float:
    """Mean error of a method as it is now; NaN on no rows."""
    return mean_error(stream, outputs_of(stream, method, X), y) if len(y) else float("nan")


def outputs_of(stream: Stream, method: Method, X: Array) -> Array:
    """Predictions, (rows, 1), or probabilities of the classes, none of which is ruled out."""
    outputs = np.asarray(method.predict(X), np.float64)
    if not np.isfinite(outputs).all():
        raise Diverged("predictions are not finite")
    if not stream.classes:
        return outputs
    probabilities = outputs if method.gives_probabilities else softmax(outputs)
    floored = np.maximum(probabilities, LEAST_PROBABILITY)
    return floored / floored.sum(axis=1, keepdims=True)


def mean_error(stream: Stream, outputs: Array, y: Array) -> float:
    """Mean absolute error in standard deviations of the target, or log loss."""
    if stream.classes:
        return float(-np.log(outputs[np.arange(len(y)), y.astype(np.intp)]).mean())
    return float(np.abs(outputs[:, 0] - y).mean() / stream.unit)


def class_measures(probabilities: Array, y: Array) -> Record:
    """Share of wrong classes, and expected calibration error.

    The latter is the mean distance between the probability of the likeliest class and the share of rows whose
    class it is, over bins of that probability (Guo and others, 2017).

    Examples
    --------
    >>> class_measures(np.array([[0.8, 0.2], [0.8, 0.2], [0.4, 0.6]]), np.array([0.0, 1.0, 1.0]))
    {'wrong': 0.333..., 'calibration_error': 0.333...}
    """
    right = probabilities.argmax(axis=1) == y
    confidence = probabilities.max(axis=1)
    bins = np.minimum((BINS * confidence).astype(np.intp), BINS - 1)
    gaps = np.bincount(bins, confidence - right, BINS)
    return {"wrong": float(1 - right.mean()), "calibration_error": float(np.abs(gaps).sum() / len(y))}


# --- what came out ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """What a method reached on a stream: means over the seeds that ran, NaN if none did."""

    stream: str
    method: str
    label: str
    errors: tuple[float, ...]  # of each batch before it was learned
    prequential: float
    last: float  # over the last five batches
    seen: float
    held: float  # of rows that were never learned
    long_ago: float
    update_seconds: float
    kilobytes: float
    note: str
    covered: tuple[float, ...] = ()  # share of each batch in 90 % intervals, where there are some
    wrong: float = float("nan")  # share of classes
    calibration_error: float = float("nan")  # of classes

    def worst_coverage(self, window: int) -> float:
        """Least share of targets in their intervals over so many batches in a row; NaN without intervals."""
        size = min(window, len(self.covered))
        return (
            float(np.convolve(self.covered, np.full(size, 1 / size), "valid").min()) if size else float("nan")
        )


def stream_lines(results: Sequence[Record]) -> list[Line]:
    """A line for each stream and method; within a stream, the least prequential error first."""
    streams = list(dict.fromkeys(record["stream"] for record in results))
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in results:
        groups.setdefault((record["stream"], record["method"]), []).append(record)
    lines = [line_of(stream, method, records) for (stream, method), records in groups.items()]
    return sorted(
        lines, key=lambda line: (streams.index(line.stream), np.nan_to_num(line.prequential, nan=np.inf))
    )


def line_of(stream: str, method: str, records: Sequence[Record]) -> Line:
    """The means over seeds."""
    ran = [record for record in records if record["status"] == "ok"]
    failed = [record["status"] for record in records if record["status"] != "ok"]
    errors = np.mean([record["errors"] for record in ran], axis=0) if ran else np.zeros(0)
    return Line(
        stream=stream,
        method=method,
        label=(METHODS | STREAM_METHODS)[method].label,
        errors=tuple(errors.tolist()),
        prequential=mean(errors),
        last=mean(errors[-LAST:]),
        seen=mean(record["seen"] for record in ran),
        held=mean(record["held"] for record in ran),
        long_ago=mean(record["long_ago"] for record in ran),
        update_seconds=mean(record["update_seconds"] for record in ran),
        kilobytes=mean(record["bytes"] / 1000 for record in ran),
        note=f"{len(failed)} of {len(records)} runs {failed[0]}" if failed else "",
        covered=tuple(np.mean([record["covered"] for record in ran], axis=0).tolist()) if ran else (),
        wrong=mean(record.get("wrong", np.nan) for record in ran),
        calibration_error=mean(record.get("calibration_error", np.nan) for record in ran),
    )


def stream_table(results: Sequence[Record]) -> str:
    """A table for each stream, with a row for each method."""
    return "\n\n".join(map(aligned, stream_cells(results)))


def stream_cells(results: Sequence[Record]) -> list[list[list[str]]]:
    """The same tables as texts: each has a head, and a row for each method."""
    lines = stream_lines(results)
    tables = []
    for stream in dict.fromkeys(line.stream for line in lines):
        head = [stream, "prequential", f"last {LAST}", "all seen", "long ago", "s/update", "kB", ""]
        tables.append([head, *(cells_of(line) for line in lines if line.stream == stream)])
    return tables


def cells_of(line: Line) -> list[str]:
    """A row of the table as text."""
    errors = (line.prequential, line.last, line.seen, line.long_ago)
    return [
        line.label,
        *(shown(value, ".3f") for value in errors),
        shown(line.update_seconds, ".3f"),
        shown(line.kilobytes, ",.0f"),
        line.note,
    ]


def shown(value: float, form: str) -> str:
    """A number, in powers of ten if it is large, or a dash where there is none."""
    if np.isnan(value):
        return "–"
    return f"{value:.1e}" if value >= 1e6 else f"{value:{form}}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of the same width: the first and the last to the left, the others to the right.

    Examples
    --------
    >>> print(aligned([["a", "error", ""], ["longer", "1", "note"]]))
    a       error
    longer      1  note
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:-1], row[-1]]).rstrip())
    return "\n".join(lines)
