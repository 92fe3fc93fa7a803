"""Charts that are solved for against charts that are trained: the paper's two tasks, changes that add, a hundred charts.

An estimator is fitted to the first task. One copy of its model keeps its memory, so that `retention="chart"` solves for the
content of charts; another has lost it, as a plain `Atlas` has none, and trains them. Errors are mean absolute errors against
clean targets: on points of the changed box that lie in the footprint, and over the whole domain.

    python benchmarks/solved_charts.py               all, in about five minutes on one core
    python benchmarks/solved_charts.py --only tasks  one of: tasks, sums, hundred
    python benchmarks/solved_charts.py --seeds 1     fewer repetitions
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np

from atlas_splines import AtlasRegressor, UpdateWarning, update
from atlas_splines.experiments.boxes import box_tasks
from atlas_splines.model.atlas import model_in, state_of

COUNTS = (1, 3, 10, 40, 200, 1000, 4000)
WIDTHS = (0.2, 0.5, 0.8)
KINDS = ("trained", "solved")


def fitted(X, y):
    return AtlasRegressor(random_state=0).fit(X, y)


def learner(model, kind):
    """A copy of the model of an estimator that solves for charts, or one that trains them."""
    state = state_of(model.model_)
    return model_in(state if kind == "solved" else replace(state, pooled=None))


def learn(model, learned, X, y):
    """Teach a copy some rows by charts; returns its log entry, and the seconds that it took."""
    points = model.domain_.to_unit(X).clip(*learned.domain.T)
    start = time.perf_counter()
    done = update(
        learned, points, model._targets(y), retention="chart", loss="mse", random_state=0, accept=True
    )
    return done, time.perf_counter() - start


def predicted(model, learned, X):
    points = model.domain_.to_unit(X).clip(*learned.domain.T).astype(learned.dtype)
    return learned(points)[:, 0] * model.target_scale_[0] + model.target_mean_[0]


def geometric_mean(values):
    values = np.asarray(values)
    return float(np.exp(np.log(values[np.isfinite(values)]).mean()))


def compare(name, cases):
    """Print errors and ratios of cases (model, X, y, X of the box, clean targets there, X everywhere, clean targets)."""
    found = []
    for model, X, y, box, truth, everywhere, clean in cases:
        row = []
        for kind in KINDS:
            learned = learner(model, kind)
            done, seconds = learn(model, learned, X, y)
            inside = done.footprint.contains(model.domain_.to_unit(box).clip(*learned.domain.T))
            error = np.abs(predicted(model, learned, box) - truth)[inside]
            whole = np.abs(predicted(model, learned, everywhere) - clean).mean()
            row.append((error.mean() if inside.any() else np.nan, whole, seconds, len(learned.charts)))
        found.append(row)
    found = np.array(found)  # (cases, kinds, measures)
    ratio, whole = (found[:, 1, k] / found[:, 0, k] for k in (0, 1))
    trained, solved = found.transpose(1, 0, 2)
    print(
        f"{name:34} box {geometric_mean(ratio):6.2f} (worst {np.nanmax([*ratio, 0]):5.2f})  domain {geometric_mean(whole):6.2f}  "
        f"s {trained[:, 2].mean():6.3f} → {solved[:, 2].mean():.3f}  opened {trained[:, 3].mean():.1f} → {solved[:, 3].mean():.1f}",
        flush=True,
    )
    return ratio, whole


def tasks(seeds):
    """The paper's second task, of which some rows come."""
    print("\nThe paper's second task: error of solved charts over that of trained ones")
    every = []
    for n in (1, 2, 8):
        trials = [box_tasks(n, width, seed, samples=4000) for width in WIDTHS for seed in range(seeds)]
        models = [fitted(trial.tasks[0].X, trial.tasks[0].y) for trial in trials]
        for count in COUNTS:
            cases = []
            for trial, model in zip(trials, models, strict=True):
                X, y, inside = (
                    trial.tasks[1].X[:count],
                    trial.tasks[1].y[:count],
                    trial.tasks[1].inside(trial.test_X),
                )
                if inside.any():
                    box, truth = trial.test_X[inside], trial.test_y[1][inside]
                    cases.append((model, X, y, box, truth, trial.test_X, trial.test_y[1]))
            every.append(compare(f"n = {n}, {count} rows", cases))
    ratios = [np.concatenate(values) for values in zip(*every, strict=True)]
    print(f"all: box {geometric_mean(ratios[0]):.3f}, domain {geometric_mean(ratios[1]):.3f}")


def sums(seeds):
    """A constant or a slope is added to the target in a box: what is known there is nearly right."""
    print("\nTargets that grow by a constant or a slope in a box of width 0.5")

    def world(X):
        return 3 * np.sin(7 * X[:, 0]) + 4 * X[:, -1] ** 2 + np.sin(5 * X.sum(axis=1))

    every = []
    for n in (1, 2, 5):
        for kind in ("constant", "slope"):
            for count in COUNTS[1:-1]:
                cases = []
                for seed in range(seeds):
                    random = np.random.default_rng([n, seed])
                    first, everywhere = random.random((2, 3000, n))
                    model = fitted(first, world(first) + 0.3 * random.normal(size=3000))
                    low = 0.5 * random.random(n)

                    def changed(X, low=low, kind=kind):
                        inside = ((low <= X) & (low + 0.5 >= X)).all(axis=1)
                        return world(X) + inside * (3 if kind == "constant" else 6 * (X[:, 0] - low[0]))

                    X, box = low + 0.5 * random.random((count, n)), low + 0.5 * random.random((3000, n))
                    y = changed(X) + 0.3 * random.normal(size=count)
                    cases.append((model, X, y, box, changed(box), everywhere, changed(everywhere)))
                every.append(compare(f"n = {n}, {kind}, {count} rows", cases))
    ratios = [np.concatenate(values) for values in zip(*every, strict=True)]
    print(f"all: box {geometric_mean(ratios[0]):.3f}, domain {geometric_mean(ratios[1]):.3f}")


def hundred(seeds):
    """A hundred boxes of width 0.1 in two dimensions, and of width 0.5 in eight, one after the other."""
    print("\nCharts in a row: error over the domain, seconds of an update, kilobytes, ns a row")
    for n, width, boxes in ((2, 0.1, 100), (8, 0.5, 10)):
        trial = box_tasks(n, width, 0, boxes=boxes, box_samples=1000)
        model = fitted(trial.tasks[0].X, trial.tasks[0].y)
        for kind in KINDS:
            learned, seconds = learner(model, kind), 0.0
            for task in trial.tasks[1:]:
                seconds += learn(model, learned, task.X, task.y)[1]
            error = np.abs(predicted(model, learned, trial.test_X) - trial.test_y[-1]).mean()
            points = model.domain_.to_unit(trial.test_X).clip(0, 1).astype(np.float32)
            start = time.perf_counter()
            learned(points)
            took = (time.perf_counter() - start) / len(points) * 1e9
            print(
                f"  {boxes} boxes of width {width}, n = {n}, {kind}: error {error:.3f}, {seconds / boxes:.3f} s, "
                f"{learned.nbytes / 1e3:,.0f} kB, {took:,.0f} ns, {len(learned.charts)} charts",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("tasks", "sums", "hundred"))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UpdateWarning)
    for part in (tasks, sums, hundred):
        if options.only in (None, part.__name__):
            part(options.seeds)


if __name__ == "__main__":
    main()
