"""Getting better all one's life: prequential errors on streams, next to never updating and to refitting.

A stream is a first part to fit, then batches; each batch is predicted before it is learned. Errors are mean absolute
errors in standard deviations of the target. Results are kept in a folder, a file each, and are not run again.

    python benchmarks/streams.py                              drawn streams only
    python benchmarks/streams.py --data FOLDER                bike-hour.csv, transformer-hourly.csv, power-plant.txt and
                                                              kin8nm.txt too, if there; each also with five columns of noise
    python benchmarks/streams.py --data FOLDER --streams bike --methods atlas-auto --methods never --fresh atlas-auto
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from atlas_splines.experiments.arena.methods import METHODS, STREAM_METHODS
from atlas_splines.experiments.arena.stream_data import BUILT_IN_STREAMS, StreamSource
from atlas_splines.experiments.arena.stream_figures import STREAM_DRAWINGS
from atlas_splines.experiments.arena.streams import (
    DEFAULT_METHODS,
    aligned,
    run_streams,
    shown,
    stream_lines,
    stream_table,
)
from atlas_splines.experiments.drawings import save_all

WEEK, QUARTER = 168, 13 * 168  # rows of hourly data
NOISE_COLUMNS = 5
BIKE_DROP = ("instant", "dteday", "season", "yr", "holiday", "atemp", "casual", "registered")
FILES = [
    StreamSource("bike, weekly", "file", QUARTER, WEEK, Path("bike-hour.csv"), "cnt", "order", BIKE_DROP),
    StreamSource("transformer, weekly", "file", QUARTER, WEEK, Path("transformer-hourly.csv"), "OT", "order"),
    StreamSource("power-plant, random", "file", 2000, 200, Path("power-plant.txt")),
    StreamSource("kin8nm, random", "file", 2000, 200, Path("kin8nm.txt")),
]
REFITTED = "never"  # on a stream that comes at once, this is AtlasRegressor fitted to all data


def sources(folder, most, hold):
    """Streams of the files that are there, each without and with noise, and drawn ones."""
    there = [
        replace(source, path=folder / source.path)
        for source in FILES
        if folder and (folder / source.path).exists()
    ]
    noisy = [replace(source, label=f"{source.label}, noise", noise=NOISE_COLUMNS) for source in there]
    return [replace(source, most=most, hold=hold) for source in (*there, *noisy, *BUILT_IN_STREAMS)]


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


def geometric_mean(values):
    return float(np.exp(np.log(values).mean())) if len(values) else np.nan


def worst(values):
    return float(values.max()) if len(values) else np.nan


def report(results, at_once, looked_back):
    """Print the tables of errors, ratios and seconds; `looked_back` is the error at the end."""
    lines = {(line.stream, line.method): line for line in stream_lines(results)}
    refitted = {
        line.stream.removesuffix(", at once"): getattr(line, looked_back) for line in stream_lines(at_once)
    }
    streams = list(dict.fromkeys(stream for stream, _ in lines))
    methods = list(dict.fromkeys(method for _, method in lines))
    summaries = [("geometric mean", geometric_mean), ("worst", worst)]

    def ratio_to(other, measure):
        def ratio(stream, method):
            base = lines.get((stream, other))
            return getattr(lines[stream, method], measure) / getattr(base, measure) if base else np.nan

        return ratio

    def ratio_to_refitted(stream, method):
        return getattr(lines[stream, method], looked_back) / refitted[stream]

    table("prequential error", streams, methods, lambda s, m: lines[s, m].prequential)
    table("÷ never updating", streams, methods, ratio_to("never", "prequential"), summaries)
    table("÷ boosting refitted", streams, methods, ratio_to("boosting", "prequential"), summaries)
    title = "never learned" if looked_back == "held" else "all seen"
    table(f"{title} ÷ ATLAS refitted", streams, methods, ratio_to_refitted, summaries)
    table("seconds ÷ refitting boosting", streams, methods, ratio_to("boosting", "update_seconds"), summaries)
    print(f"\n{stream_table(results)}")


def is_wanted(label, texts, labels):
    """Whether a name is one of the texts, or contains one that is no whole name."""
    return texts is None or any(text == label if text in labels else text in label for text in texts)


def forget(output, methods):
    """Remove the results of methods that have changed."""
    for method in methods:
        for path in output.glob(f"streams/runs/*-{method}-s*.json"):
            path.unlink()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [*METHODS, *STREAM_METHODS]
    parser.add_argument("--data", type=Path, help="folder with data sets")
    parser.add_argument(
        "--methods", action="append", choices=known, metavar="NAME", help="again for each; all by default"
    )
    parser.add_argument(
        "--streams", action="append", metavar="TEXT", help="those whose name contains it; again for each"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=0, help="of each stream, at most")
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
    chosen = sources(options.data, options.rows, options.hold)
    chosen = [s for s in chosen if is_wanted(s.label, options.streams, [s.label for s in chosen])]
    if not chosen:
        parser.error("no stream has such a name; leave --streams out to see all")
    forget(options.output, options.fresh)
    seeds = range(options.seeds)
    at_once = run_streams([s.at_once() for s in chosen], [REFITTED], seeds, options.output, options.jobs)
    results = run_streams(chosen, options.methods or DEFAULT_METHODS, seeds, options.output, options.jobs)
    report(results, at_once, "held" if options.hold else "seen")
    save_all(STREAM_DRAWINGS, results, options.output)


if __name__ == "__main__":
    main()
