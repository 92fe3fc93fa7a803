"""Getting better all one's life: prequential errors on streams, next to never updating, refitting and online learning.

A stream is a first part to fit, then batches; each batch is predicted before it is learned. Errors are mean absolute
errors in standard deviations of the target, or the log loss of classes. Results are kept in a folder, a file each, and are
not run again; tables and goals are of all that is there for the chosen streams and seeds, whoever ran it.

    python benchmarks/streams.py                              drawn streams only
    python benchmarks/streams.py --data FOLDER                seven regressions and three classifications, if they are there:
                                                              bike-hour.csv, transformer-hourly.csv, power-plant.txt,
                                                              kin8nm.txt, and metro, seoul, beijing, elec2, noaa and
                                                              steel-load of its folder streams
    python benchmarks/streams.py --data FOLDER --streams bike --methods atlas-auto --methods never --fresh atlas-auto
    python benchmarks/streams.py --data FOLDER --cost         seconds of updates instead
    python benchmarks/streams.py --data FOLDER --methods none what has been run already

Whole streams are run; `--batches 50` cuts them. Goals are printed for all streams, and for two halves of them
that alternate by name: a choice that was made on one half is reported on the other.
"""

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from atlas_splines import AtlasRegressor, UpdateWarning
from atlas_splines.experiments.arena.methods import METHODS, STREAM_METHODS
from atlas_splines.experiments.arena.stream_data import BUILT_IN_STREAMS, StreamSource, make_stream
from atlas_splines.experiments.arena.stream_figures import STREAM_DRAWINGS
from atlas_splines.experiments.arena.stream_goals import (
    WINDOW,
    Goal,
    StreamGoals,
    geometric_mean,
    goals_of,
    halves,
    ratio,
)
from atlas_splines.experiments.arena.streams import (
    FOLDER,
    StreamKey,
    aligned,
    run_streams,
    shown,
    stored_results,
    stream_lines,
    stream_table,
)
from atlas_splines.experiments.drawings import save_all
from atlas_splines.experiments.jobs import result_path
from atlas_splines.river import RiverAtlasRegressor

WEEK, QUARTER = 168, 13 * 168  # rows of hourly data
NOISE_COLUMNS = 5
BIKE_DROP = ("instant", "dteday", "season", "yr", "holiday", "atemp", "casual", "registered")
HOURLY = {"kind": "file", "first": QUARTER, "batch": WEEK, "by": "order"}
CLASSES = {"kind": "file", "by": "order", "classes": True}
SHUFFLED = {"kind": "file", "first": 2000, "batch": 250, "by": "random"}
FILES = [
    StreamSource("bike", path=Path("bike-hour.csv"), target="cnt", drop=BIKE_DROP, **HOURLY),
    StreamSource("transformer", path=Path("transformer-hourly.csv"), target="OT", **HOURLY),
    StreamSource("metro", path=Path("streams/metro.csv"), **HOURLY),
    StreamSource("seoul", path=Path("streams/seoul.csv"), **HOURLY),
    StreamSource("beijing", path=Path("streams/beijing.csv"), **HOURLY),
    StreamSource("power-plant", path=Path("power-plant.txt"), **SHUFFLED),
    StreamSource("kin8nm", path=Path("kin8nm.txt"), **SHUFFLED),
    StreamSource("elec2", path=Path("streams/elec2.csv"), first=2016, batch=336, **CLASSES),
    StreamSource("noaa", path=Path("streams/noaa.csv"), first=2000, batch=200, **CLASSES),
    StreamSource("steel-load", path=Path("streams/steel-load.csv"), first=2688, batch=336, **CLASSES),
]
OURS = ("atlas-auto", "atlas-sums")
OTHERS = (
    "never", "boosting", "boosting-window", "mlp-partial-fit", "lightgbm-continued", "splines-forgetting",
    "river-amf", "river-forest", "catboost",
)  # fmt: skip
NONE = "none"
REFITTED = "never"  # on a stream that comes at once, this is ATLAS fitted to all data
COST_FIT, COST_BATCH, COST_UPDATES, COST_ROWS = 3000, 200, 10, 20  # rows, rows, and repetitions of both
COST_LEARNED = 500  # rows that `learn_one` is measured on, five of its batches


# --- streams ---------------------------------------------------------------------------------------------


def sources(options):
    """Streams of the files that are there, with noise beside if that is asked for, or drawn ones."""
    there = [
        replace(source, path=options.data / source.path)
        for source in FILES
        if options.data and (options.data / source.path).exists()
    ]
    noisy = [replace(source, label=f"{source.label}, noise", noise=NOISE_COLUMNS) for source in there]
    drawn = BUILT_IN_STREAMS if options.drawn or not there else ()
    found = [*there, *(noisy if options.noise else ()), *drawn]
    return [replace(s, most=most_rows(s, options), hold=options.hold) for s in found]


def most_rows(source, options):
    """Rows of a stream that are used; 0 for all."""
    limits = [options.rows, options.batches and source.first + options.batches * source.batch]
    return min((limit for limit in limits if limit), default=0)


def is_wanted(label, texts, labels):
    """Whether a name is one of the texts, or contains one that is no whole name."""
    return texts is None or any(text == label if text in labels else text in label for text in texts)


# --- errors ----------------------------------------------------------------------------------------------


def table(title, streams, methods, value, summaries=()):
    """Print a table of streams × methods, and a line for each summary of a column."""
    values = np.array([[value(stream, method) for method in methods] for stream in streams])
    rows = [[title, *methods, ""]]
    rows += [
        [stream, *(shown(x, ".3f") for x in line), ""] for stream, line in zip(streams, values, strict=True)
    ]
    for name, summary in summaries:
        rows.append([name, *(shown(summary(column[np.isfinite(column)]), ".3f") for column in values.T), ""])
    print(f"\n{aligned(rows)}", flush=True)


def worst(values):
    return float(values.max()) if len(values) else np.nan


def report(results, chosen, looked_back):
    """Print the tables of errors, ratios, calibration, coverage and seconds; `looked_back` is the error at the end."""
    lines = {(line.stream, line.method): line for line in stream_lines(results)}
    streams = [source.label for source in chosen]
    classes = [source.label for source in chosen if source.classes]
    numbers = [stream for stream in streams if stream not in classes]
    methods = [
        m for m in dict.fromkeys((*OURS, *OTHERS, *(m for _, m in lines))) if any(m == o for _, o in lines)
    ]
    summaries = [("geometric mean", geometric_mean), ("worst", worst)]
    for half, names in halves(streams).items():
        print(f"{half}: {', '.join(names)}")

    def measured(measure):
        return lambda s, m: getattr(lines[s, m], measure) if (s, m) in lines else np.nan

    def ratio_to(other, measure):
        return lambda s, m: ratio(lines, s, m, [other], measure)

    def coverage(stream, method):
        line = lines.get((stream, method))
        return line.worst_coverage(WINDOW) if line else np.nan

    title = "never learned" if looked_back == "held" else "all seen"
    table("prequential error", streams, methods, measured("prequential"))
    for half, names in {"numbers": numbers, "classes": classes, **halves(streams)}.items():
        if names:
            table(f"÷ boosting, {half}", names, methods, ratio_to("boosting", "prequential"), summaries)
    table("÷ never updating", streams, methods, ratio_to("never", "prequential"), summaries)
    table(title, streams, methods, measured(looked_back))
    table(f"{title} ÷ never updating", streams, methods, ratio_to("never", looked_back), summaries)
    if classes:
        table("wrong classes", classes, methods, measured("wrong"))
        table("expected calibration error", classes, methods, measured("calibration_error"))
    covering = [m for m in methods if any(lines[k].covered for k in lines if k[1] == m)]
    if covering:
        table(f"coverage of {WINDOW} batches, worst", streams, covering, coverage)
    table("seconds ÷ refitting boosting", streams, methods, ratio_to("boosting", "update_seconds"), summaries)
    print(f"\n{stream_table(results)}\n")
    for method in OURS:
        if method in methods:
            print_goals(goals_of(lines, method, classes, streams, StreamGoals()))


def report_at_once(results, at_once, looked_back):
    """Print the errors at the end ÷ those of ATLAS that is fitted to all rows at once."""
    lines = {(line.stream, line.method): line for line in stream_lines(results)}
    refitted = {
        line.stream.removesuffix(", at once"): getattr(line, looked_back) for line in stream_lines(at_once)
    }
    streams = list(dict.fromkeys(stream for stream, _ in lines))
    methods = list(dict.fromkeys(method for _, method in lines))

    def value(s, m):
        return getattr(lines[s, m], looked_back) / refitted[s] if (s, m) in lines else np.nan

    summaries = [("geometric mean", geometric_mean), ("worst", worst)]
    table("at the end ÷ ATLAS refitted", streams, methods, value, summaries)


def print_goals(goals):
    print(*(goal.text() for goal in goals), sep="\n", flush=True)


# --- cost ------------------------------------------------------------------------------------------------


def seconds_of(work):
    """Processor seconds of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def cost_of(stream, memory):
    """Median seconds of an update with a batch and with a row, and of a prediction that follows the former."""
    parts = np.split(np.arange(COST_FIT + COST_UPDATES * COST_BATCH), [COST_FIT])
    model = AtlasRegressor(memory=memory, random_state=0).fit(stream.X[parts[0]], stream.y[parts[0]])
    batches, predictions = [], []
    for rows in np.split(parts[1], COST_UPDATES):
        predictions.append(seconds_of(lambda r=rows: model.predict(stream.X[r])))
        batches.append(seconds_of(lambda r=rows: model.partial_fit(stream.X[r], stream.y[r], accept=True)))
    start = COST_FIT + COST_UPDATES * COST_BATCH
    singles = [
        seconds_of(lambda k=k: model.partial_fit(stream.X[k : k + 1], stream.y[k : k + 1], accept=True))
        for k in range(start, start + COST_ROWS)
    ]
    return np.median(batches), np.median(singles), np.median(predictions[1:])


def learn_one_cost(stream, memory):
    """Mean and largest seconds of `learn_one` of the model for river, the batches that it learns included."""
    estimator = AtlasRegressor(memory=memory, missing="learn", random_state=0)
    model, every = RiverAtlasRegressor(estimator, accept=True), COST_FIT + COST_LEARNED
    named = [dict(enumerate(x)) for x in stream.X[:every].tolist()]
    rows = list(zip(named, stream.y[:every].tolist(), strict=True))
    for x, y in rows[:COST_FIT]:
        model.learn_one(x, y)
    seconds = [seconds_of(lambda x=x, y=y: model.learn_one(x, y)) for x, y in rows[COST_FIT:]]
    return np.mean(seconds), np.max(seconds)


def boosting_cost(stream):
    """Median seconds of boosting refitted on as many rows as the first part has."""
    X, y = stream.X[:COST_FIT], stream.y[:COST_FIT]
    return np.median(
        [seconds_of(lambda: HistGradientBoostingRegressor(random_state=0).fit(X, y)) for _ in range(5)]
    )


def report_cost(chosen):
    """Print seconds of updates on each regression stream, and the goals."""
    found = {"sums": [], "rows": []}
    rows = [
        [
            "stream",
            "memory",
            f"update of {COST_BATCH}, ms",
            "then predict, ms",
            "boosting, ms",
            "ratio",
            "one row, partial_fit, ms",
            "learn_one, mean ms",
            "largest",
            "",
        ]
    ]
    for source in (source for source in chosen if not source.classes):
        stream = make_stream(source, 0)
        if len(stream.y) < COST_FIT + COST_UPDATES * COST_BATCH + COST_ROWS:
            print(f"{source.label} has {len(stream.y)} rows, too few to measure updates")
            continue
        boosted = boosting_cost(stream)
        for memory, measured in found.items():
            batch, single, predicted = cost_of(stream, memory)
            mean, largest = learn_one_cost(stream, memory)
            measured.append((batch / boosted, 1000 * mean, 1000 * single))
            cells = [f"{1000 * s:.1f}" for s in (batch, predicted, boosted)]
            ones = [f"{1000 * s:.1f}" for s in (single, mean, largest)]
            rows.append([source.label, memory, *cells, f"{batch / boosted:.3f}", *ones, ""])
            print(*rows[-1], sep="  ", flush=True)
    print(f"\n{aligned(rows)}\n")
    limits = StreamGoals()
    measures = (
        ("update ÷ boosting refitted", {"sums": limits.sums_update, "rows": limits.rows_update}),
        ("learn_one with its share of batches, ms", {"sums": limits.sums_row, "rows": limits.rows_row}),
        ("partial_fit of one row, ms", {"sums": limits.sums_row, "rows": limits.rows_row}),
    )
    print_goals(
        Goal(
            f"{what}, memory={memory!r}, geometric mean",
            limit[memory],
            geometric_mean([each[k] for each in measured]),
        )
        for k, (what, limit) in enumerate(measures)
        for memory, measured in found.items()
    )


# --- the command -----------------------------------------------------------------------------------------


def forget(output, chosen, methods, seeds):
    """Remove the results of methods that have changed, on the streams and seeds that will be run."""
    for key in (StreamKey(source, m, seed) for source in chosen for m in methods for seed in seeds):
        result_path(output / FOLDER, key).unlink(missing_ok=True)


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [*METHODS, *STREAM_METHODS]
    parser.add_argument("--data", type=Path, help="folder with data sets")
    parser.add_argument(
        "--methods",
        action="append",
        choices=[*known, NONE],
        metavar="NAME",
        help="again for each; all by default",
    )
    parser.add_argument(
        "--streams", action="append", metavar="TEXT", help="those whose name contains it; again for each"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--batches", type=int, default=0, help="of each stream, at most; 0 for all")
    parser.add_argument("--rows", type=int, default=0, help="of each stream, at most; 0 for all")
    parser.add_argument("--noise", action="store_true", help="also with five columns of noise")
    parser.add_argument("--drawn", action="store_true", help="drawn streams too")
    parser.add_argument(
        "--at-once", action="store_true", help="compare with ATLAS that is fitted to all rows"
    )
    parser.add_argument(
        "--cost", action="store_true", help="measure the seconds of updates, and nothing else"
    )
    parser.add_argument(
        "--hold",
        type=int,
        default=0,
        help="one row in so many is never learned, and tells what is known at the end",
    )
    parser.add_argument("--output", type=Path, default=Path("streams-results"), help="folder of the results")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--fresh", action="append", default=[], choices=known, metavar="NAME", help="run a method again"
    )
    options = parser.parse_args()
    chosen = sources(options)
    chosen = [s for s in chosen if is_wanted(s.label, options.streams, [s.label for s in chosen])]
    if not chosen:
        parser.error("no stream has such a name; leave --streams out to see all")
    return options, chosen


def main():
    options, chosen = parsed()
    if options.cost:
        warnings.simplefilter("ignore", UpdateWarning)
        with threadpool_limits(1):
            report_cost(chosen)
        return
    seeds = range(options.seeds)
    forget(options.output, chosen, options.fresh, seeds)
    looked_back = "held" if options.hold else "seen"
    methods = [method for method in options.methods or (*OURS, *OTHERS) if method != NONE]
    run_streams(chosen, methods, seeds, options.output, options.jobs)
    results = stored_results(chosen, seeds, options.output)
    if not results:
        return
    report(results, chosen, looked_back)
    if options.at_once:
        at_once = run_streams([s.at_once() for s in chosen], [REFITTED], seeds, options.output, options.jobs)
        report_at_once(results, at_once, looked_back)
    save_all(STREAM_DRAWINGS, results, options.output)


if __name__ == "__main__":
    main()
