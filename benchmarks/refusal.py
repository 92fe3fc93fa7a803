"""Batches that are faulty as a whole: how many planted faults are refused, and how many ordinary batches.

Streams are fitted and then updated batch by batch. Every ordinary batch is judged before it is learned; into some of them
faults are planted, which are judged and never learned: targets times a factor, shifted or constant, columns in other units,
shifted or exchanged, classes exchanged or constant. A planted fault counts if it does harm, so that the error of the model on
it is out of proportion: five times that on the good batch (in the median), or twice and 0.7 nats more for classes; the
others are counted beside. Shifts, signs and columns count only where predictions tell the good rows apart (a correlation of
at least 0.6): a level alone has no signature.

The constants of `RefusalRules` were chosen on the streams of the first table; none was chosen on those of the second.

    python benchmarks/refusal.py --data FOLDER              all, in about five minutes
    python benchmarks/refusal.py --data FOLDER --every 20   fewer planted faults
    python benchmarks/refusal.py --streams bike             those whose name contains it; --paper 0 leaves the tasks out
"""

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

from atlas_splines import AtlasClassifier, AtlasRegressor, UpdateRefused, UpdateWarning
from atlas_splines.experiments.arena.stream_data import BUILT_IN_STREAMS, StreamSource, file_rows, make_stream
from atlas_splines.experiments.paper.tasks import two_tasks
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.refusal import refuse_faulty

WEEK, QUARTER = 168, 13 * 168
BIKE_DROP = ("instant", "dteday", "season", "yr", "holiday", "atemp", "casual", "registered")


def stream(label, path, first=QUARTER, batch=WEEK, target="", by="order", drop=()):
    return StreamSource(label, "file", first, batch, Path(path), target, by, drop)


CHOSEN = [
    stream("bike", "bike-hour.csv", target="cnt", drop=BIKE_DROP),
    stream("transformer", "transformer-hourly.csv", target="OT"),
    *(stream(name, f"streams/{name}.csv") for name in ("metro", "seoul", "beijing")),
    stream("power-plant", "power-plant.txt", 2000, 250, by="random"),
    stream("kin8nm", "kin8nm.txt", 2000, 250, by="random"),
    stream("elec2, classes", "streams/elec2.csv", 2016, 336),
    stream("noaa, classes", "streams/noaa.csv", 2000, 200),
    stream("steel-load, classes", "streams/steel-load.csv", 2688, 336),
]
UNSEEN = [
    stream("kc-house", "tables/kc-house.csv", 2000, 250, "price"),
    stream("airfoil", "tables/airfoil.csv", 600, 100, "pressure", "random"),
    stream("energy", "energy.txt", 300, 60, by="random"),
    stream("bike by temperature", "bike-hour.csv", QUARTER, WEEK, "cnt", "temp", BIKE_DROP),
    stream(
        "bike, all columns",
        "bike-hour.csv",
        2 * QUARTER,
        WEEK,
        "cnt",
        "order",
        ("dteday", "casual", "registered"),
    ),
    *BUILT_IN_STREAMS,
]
FACTORS = (10, 0.1, 100, 1000, -1)
MAPS = {
    "×10": (10, 0),
    "×0.1": (0.1, 0),
    "×100": (100, 0),
    "miles as km": (1.609344, 0),
    "°C as °F": (1.8, 32),
}
DISTINCT = 8  # values of a column that can be in another unit
TRIES = 3  # columns and pairs that a fault is planted into
OUT, NATS = 5, 0.7
TOLD_APART = 0.6  # correlation of predictions and good targets
LEVEL_FREE = ("constant", "target ×10", "target ×0.1", "target ×100", "target ×1000")


def rows_of(source, folder):
    """Inputs and targets in the order of the stream, in their own units."""
    if source.kind != "file":
        drawn = make_stream(source, 0)
        return drawn.X, drawn.y
    X, y = file_rows(StreamSource(**{**vars(source), "path": folder / source.path}), np.random.default_rng(0))
    return X, y.astype(int) if "classes" in source.label else y


def reason(model, X, y):
    """Why an update would be refused, or nothing."""
    try:
        refuse_faulty(state_of(model.model_), model._origin(np.asarray(X, float), y))
    except UpdateRefused as refused:
        return refused.what
    return ""


def error_of(model, X, y):
    if isinstance(model, AtlasRegressor):
        return float(np.median(np.abs(model.predict(X) - y)))
    probability = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(-np.log(np.maximum(probability, 1e-12)).mean())


def does_harm(model, X, y, faulty, kind):
    """Whether a planted fault makes errors that are out of proportion, and can be known by more than a level."""
    good, bad = error_of(model, X, y), error_of(model, *faulty)
    if not isinstance(model, AtlasRegressor):
        return bad >= max(2 * good, good + NATS)
    tells = kind in LEVEL_FREE or np.corrcoef(model.predict(X), y)[0, 1] >= TOLD_APART
    return bad >= OUT * good and tells


def target_faults(y):
    """Targets with a fault, and its name."""
    if y.dtype.kind == "i":
        labels = np.unique(y)
        yield "classes exchanged", np.roll(labels, 1)[np.searchsorted(labels, y)]
        for label in labels[:TRIES]:
            yield "constant class", np.full_like(y, label)
        return
    for factor in FACTORS:
        yield f"target ×{factor}", y * factor
    for sign in (-1, 1):
        yield "target shifted", y + 5 * sign * y.std()
    for value in (0.0, float(np.median(y))):
        yield "constant", np.full_like(y, value)


def column_faults(X, widths, random):
    """Inputs with a fault, and its name."""
    columns = [j for j in range(X.shape[1]) if len(np.unique(X[:, j])) >= DISTINCT]
    for name, (a, b) in MAPS.items():
        for j in random.permutation(columns)[:TRIES]:
            yield f"column {name}", with_column(X, j, a * X[:, j] + b)
    for j in random.permutation(columns)[:TRIES]:
        by = widths[j] * random.choice([-1, 1]) * random.uniform(0.5, 1.5)
        yield "column shifted", with_column(X, j, X[:, j] + by)
    for _ in range(TRIES if len(columns) > 1 else 0):
        i, j = random.choice(columns, 2, replace=False)
        yield "columns exchanged", with_column(with_column(X, i, X[:, j]), j, X[:, i])


def with_column(X, j, values):
    changed = X.copy()
    changed[:, j] = values
    return changed


def planted(X, y, widths, random):
    yield from ((name, X, faulty) for name, faulty in target_faults(y))
    yield from ((name, faulty, y) for name, faulty in column_faults(X, widths, random))


def run(source, folder, every, faults):
    """Judge all batches of a stream, and faults in some; return how many batches there were, and why some were refused."""
    X, y = rows_of(source, folder)
    model = (AtlasClassifier if y.dtype.kind == "i" else AtlasRegressor)(random_state=0)
    model.fit(X[: source.first], y[: source.first])
    widths, random = np.ptp(X[: source.first], axis=0), np.random.default_rng(0)
    starts = range(source.first, len(y) - source.batch + 1, source.batch)
    refused, seconds = [], 0.0
    for k, start in enumerate(starts):
        batch = slice(start, start + source.batch)
        since = time.perf_counter()
        found = reason(model, X[batch], y[batch])
        seconds += time.perf_counter() - since
        refused += [(source.label, k, found)] if found else []
        if k % every == min(1, every - 1):
            for kind, faulty_X, faulty_y in planted(X[batch], y[batch], widths, random):
                count = faults[kind]
                if not does_harm(model, X[batch], y[batch], (faulty_X, faulty_y), kind):
                    count[2] += 1
                    continue
                count[0] += 1
                count[1] += bool(reason(model, faulty_X, faulty_y))
        model.partial_fit(X[batch], y[batch], accept=True)
    print(
        f"{source.label}: {len(starts)} batches, {1000 * seconds / max(len(starts), 1):.0f} ms to judge one",
        flush=True,
    )
    return len(starts), refused


def report(title, sources, folder, every):
    """Run streams, and print the tables."""
    print(f"\n{title}")
    faults = defaultdict(lambda: [0, 0, 0])
    ordinary, refused = 0, []
    for source in sources:
        batches, found = run(source, folder, every, faults)
        ordinary, refused = ordinary + batches, refused + found
    print(f"ordinary batches refused: {len(refused)} of {ordinary}")
    for label, k, why in refused:
        print(f"    {label}, batch {k}: {why}")
    print(f"{'planted fault':20} {'harmful':>8} {'refused':>8} {'share':>7} {'others':>7}")
    for kind, (count, caught, others) in sorted(faults.items()):
        print(f"{kind:20} {count:8} {caught:8} {caught / max(count, 1):7.1%} {others:7}")
    count, caught, others = np.sum(list(faults.values()), axis=0) if faults else (0, 0, 0)
    print(f"{'all':20} {count:8} {caught:8} {caught / max(count, 1):7.1%} {others:7}")


def report_paper(trials, samples=600):
    """Count second tasks of the paper that are refused: changes in one box of the domain, with noise of any size."""
    refused = total = 0
    for inputs in (1, 2, 8):
        for width in (0.1, 0.3, 0.5, 0.7, 0.9):
            for trial in range(trials):
                first, second = two_tasks(inputs, width, trial, samples).train
                model = AtlasRegressor(random_state=0, members=1).fit(first.X, first.noisy)
                total, refused = total + 1, refused + bool(reason(model, second.X, second.noisy))
    print(f"\nthe paper's second tasks refused: {refused} of {total}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with data sets; without it drawn streams only")
    parser.add_argument("--every", type=int, default=10, help="plant faults into every so many batches")
    parser.add_argument("--streams", default="", help="only those whose name contains it")
    parser.add_argument("--paper", type=int, default=4, help="trials of each of the paper's tasks")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UpdateWarning)

    def there(sources):
        found = [
            s for s in sources if s.kind != "file" or (options.data and (options.data / s.path).exists())
        ]
        return [s for s in found if options.streams in s.label]

    report("streams that the rules were chosen on", there(CHOSEN), options.data, options.every)
    report("other streams", there(UNSEEN), options.data, max(options.every // 2, 1))
    report_paper(options.paper)


if __name__ == "__main__":
    main()
