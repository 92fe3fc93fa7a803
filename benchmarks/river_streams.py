"""ATLAS in river's own evaluation: progressive error on streams, next to models of river and to doing nothing.

Each row is predicted, then learned, by `river.evaluate.progressive_val_score`. Errors are mean absolute errors in
standard deviations of the target; seconds are of the processor.

    python benchmarks/river_streams.py --data FOLDER          bike-hour.csv and transformer-hourly.csv, in time order,
                                                              and kin8nm.txt, whichever are there, and two of river
    python benchmarks/river_streams.py --data FOLDER --streams bike --methods atlas --rows 6000
"""

import argparse
import time
from pathlib import Path

import numpy as np
from river import datasets, dummy, evaluate, forest, linear_model, metrics, optim, preprocessing, stats, tree

from atlas_splines.river import RiverAtlasRegressor

DROPPED = (
    "instant",
    "dteday",
    "casual",
    "registered",
)  # of bikes: a number, the date, and parts of the target
STREAMS = {
    "bike": ("bike-hour.csv", ",", True),
    "transformer": ("transformer-hourly.csv", ",", True),
    "kin8nm": ("kin8nm.txt", None, False),
}

OF_RIVER = {"TrumpApproval": datasets.TrumpApproval, "ChickWeights": datasets.ChickWeights}


class Stopped(RiverAtlasRegressor):
    """ATLAS that learns nothing once it is warm."""

    def learn_one(self, x, y):
        if self._kept is not None:
            super().learn_one(x, y)


METHODS = {
    "atlas": RiverAtlasRegressor,
    "atlas, warm-up only": Stopped,
    "mean so far": lambda: dummy.StatisticRegressor(stats.Mean()),
    "linear": lambda: (
        preprocessing.StandardScaler()  # with river's usual step of 0.01 it diverges on bikes
        | preprocessing.TargetStandardScaler(linear_model.LinearRegression(optim.SGD(0.001)))
    ),
    "Hoeffding adaptive tree": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=0),
    "AMF": lambda: forest.AMFRegressor(seed=0),
    "ARF": lambda: forest.ARFRegressor(seed=0),
}


def rows_of(folder, name, most):
    """Rows of a stream as dictionaries with their targets, and the standard deviation of these."""
    if name in OF_RIVER:
        rows = list(OF_RIVER[name]())[:most]
        return rows, np.std([y for _, y in rows])
    file, separator, named = STREAMS[name]
    lines = [line.split(separator) for line in (folder / file).read_text().splitlines() if line.strip()]
    *keys, _ = lines.pop(0) if named else map(str, range(len(lines[0])))
    kept = [(j, key) for j, key in enumerate(keys) if key not in DROPPED]
    rows = [({key: float(line[j]) for j, key in kept}, float(line[-1])) for line in lines[:most]]
    return rows, np.std([y for _, y in rows])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--streams", nargs="+", default=[*STREAMS, *OF_RIVER], choices=[*STREAMS, *OF_RIVER])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--rows", type=int, help="rows of each stream, at most")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=2000)
    options = parser.parse_args()
    for name in options.streams:
        if name in STREAMS and not (options.data / STREAMS[name][0]).exists():
            continue
        rows, deviation = rows_of(options.data, name, options.rows)
        for method in options.methods:
            start = time.process_time()
            own = {"batch": options.batch, "warm_up": options.warm_up} if "atlas" in method else {}
            score = evaluate.progressive_val_score(rows, METHODS[method](**own), metrics.MAE())
            seconds = time.process_time() - start
            print(
                f"{name}, {len(rows):,} rows  {method:24} {score.get() / deviation:.3f}  {seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
