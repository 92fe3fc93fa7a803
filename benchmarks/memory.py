"""What an update forgets: the experiments behind the tables of docs/memory.

    python benchmarks/memory.py                 all of them, about ten minutes on two cores
    python benchmarks/memory.py --only peaks    one of: two-tasks, sequences, hundred, peaks, shared
    python benchmarks/memory.py --seeds 2       fewer repetitions

Each experiment writes a CSV file and a picture into docs/memory (or --output). Trials are written when they
are done: a run that was stopped goes on where it was. Learning rate 0.01, 50 epochs, M = 10 and r = 4 for
every model that is trained on its own; noise and targets as in the paper; errors against clean targets.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numba
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm

from atlas_splines import Atlas, footprint, train, update
from atlas_splines.experiments.boxes import WIDTHS, BoxTasks, box_tasks

Row = dict[str, float | int | str]
METHODS = {"paper": "none", "rehearsal": "rehearsal", "charts": "chart", "both": "both"}
STYLES = {
    "paper": ("#d55e00", "s:"),
    "rehearsal": ("#0072b2", "^--"),
    "both": ("#999999", "d-."),
    "charts": ("#000000", "o-"),
}


def error(model: Atlas, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(model(X)[:, 0] - y).mean())


def learn_sequence(trial: BoxTasks, method: str, seed: int) -> Atlas:
    """Train on the first task, then update with each of the others."""
    first, *others = trial.tasks
    model = Atlas(first.X.shape[1])
    train(model, first.X, first.y, random_state=seed)
    for task in others:
        update(model, task.X, task.y, retention=METHODS[method], random_state=seed)
    return model


def compare(trial: BoxTasks, seed: int, methods: Iterable[str] = METHODS) -> Row:
    """Final error of each method, of retraining from scratch on all that still holds, and the ratios."""
    X, y = trial.surviving()
    scratch = Atlas(X.shape[1])
    train(scratch, X, y, random_state=seed)
    row: Row = {"noise": trial.noise, "retrain": error(scratch, trial.test_X, trial.test_y[-1])}
    for method in methods:
        row[method] = error(learn_sequence(trial, method, seed), trial.test_X, trial.test_y[-1])
        row[f"{method}/retrain"] = row[method] / row["retrain"]
    return row


# --- 1. the paper's two tasks --------------------------------------------------------------------------


def two_tasks_trial(inputs: int, width: float, seed: int) -> Row:
    return compare(box_tasks(inputs, width, seed), seed)


def two_tasks(output: Path, seeds: int, jobs: int) -> None:
    cells = [(n, w, seed) for seed in range(seeds) for n in (8, 2, 1) for w in WIDTHS]
    rows = run_trials(output / "two-tasks.csv", two_tasks_trial, ("inputs", "width", "seed"), cells, jobs)
    figure = Figure(figsize=(13, 4), layout="constrained")
    print(f"\nTask 2 error over that of retraining from scratch, mean of {seeds} seeds")
    print(f"{'n':>2} {'method':>10} " + " ".join(f"{w:6.1f}" for w in WIDTHS) + "   worst")
    means = {}
    for axes, n in zip(figure.subplots(1, 3), (1, 2, 8), strict=True):
        for method, (colour, style) in STYLES.items():
            mean = [average(rows, f"{method}/retrain", inputs=n, width=w) for w in WIDTHS]
            means[n, method] = mean
            axes.plot(WIDTHS, mean, style, color=colour, label=method)
            print(f"{n:2d} {method:>10} " + " ".join(f"{v:6.2f}" for v in mean) + f"  {max(mean):6.2f}")
        decorate(axes, "width of the changed box", "error / error of retraining", f"{n} input{'s' * (n > 1)}")
        axes.axhline(1, color="black", lw=0.8)
        axes.set_yscale("log")
        ticks = [0.5, 1, 2, 5, 10, 20]
        axes.set_yticks(ticks, map(str, ticks))
        axes.minorticks_off()
    axes.legend(loc="center left")
    summary = {method: np.array([means[n, method] for n in (1, 2, 8)]) for method in METHODS}
    charts, plain = summary["charts"], summary["paper"]
    figure.suptitle(
        f"Error after an update, over that of retraining: charts {charts.mean():.2f} on average and "
        f"{charts.max():.2f} at worst, plain training {plain.mean():.1f} and {plain.max():.1f}"
    )
    figure.savefig(output / "two-tasks.png", dpi=110)
    for method, every in summary.items():
        print(f"{method:>10}: average {every.mean():.2f}, worst cell {every.max():.2f}")


# --- 2. sequences of overlapping boxes -----------------------------------------------------------------


def sequence_trial(inputs: int, width: float, boxes: int, seed: int) -> Row:
    return compare(box_tasks(inputs, width, seed, boxes=boxes), seed)


def sequences(output: Path, seeds: int, jobs: int) -> None:
    cells = [(n, w, k, seed) for n, w, k in ((2, 0.3, 10), (8, 0.5, 5)) for seed in range(seeds)]
    names = ("inputs", "width", "boxes", "seed")
    rows = run_trials(output / "sequences.csv", sequence_trial, names, cells, jobs)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    methods = [*METHODS, "retrain"]
    print("\nFinal error after a sequence of overlapping boxes: " + ", ".join(methods))
    for axes, (n, w, k) in zip(figure.subplots(1, 2), ((2, 0.3, 10), (8, 0.5, 5)), strict=True):
        mean = [average(rows, method, inputs=n) for method in methods]
        axes.bar(methods, mean, color=[*(STYLES[m][0] for m in METHODS), "#009e73"])
        axes.bar_label(axes.containers[0], fmt="%.2f")
        decorate(axes, "", "mean absolute error", f"{k} boxes of width {w} in {n} dimensions")
        print(f"  {k} boxes of width {w}, n = {n}: " + " ".join(f"{v:.3f}" for v in mean))
    figure.savefig(output / "sequences.png", dpi=110)


# --- 3. a hundred small updates ------------------------------------------------------------------------


def hundred(output: Path, seeds: int, jobs: int) -> None:
    trial = box_tasks(2, 0.1, seed=0, boxes=100, box_samples=1000)
    model = Atlas(2)
    train(model, trial.tasks[0].X, trial.tasks[0].y, random_state=0)
    X, rows = trial.test_X.astype(np.float32), []
    for k, task in enumerate(tqdm(trial.tasks, desc="hundred", unit="update")):
        if k:
            update(model, task.X, task.y, random_state=k)
        seconds = min(timed(model, X) for _ in range(10))
        size = model.nbytes
        rows.append(
            {
                "updates": k,
                "error": error(model, X, trial.test_y[k]),
                "kilobytes": size / 1e3,
                "ns_per_row": seconds / len(X) * 1e9,
            }
        )
    write(output / "hundred.csv", rows)
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    labels = {"error": "mean absolute error", "kilobytes": "size, kB", "ns_per_row": "prediction, ns per row"}
    first, last = rows[0], rows[-1]
    for axes, (name, label) in zip(figure.subplots(1, 3), labels.items(), strict=True):
        axes.plot([row["updates"] for row in rows], [row[name] for row in rows], color="black", lw=1)
        decorate(
            axes,
            "updates",
            label,
            f"{name.replace('_', ' ')}: {first[name]:.3g} before, {last[name]:.3g} after",
        )
        axes.set_ylim(bottom=0)
    figure.savefig(output / "hundred.png", dpi=110)
    print(
        "\nA hundred updates of width 0.1 in 2-D, before and after: "
        + ", ".join(f"{k} {first[k]:.3g} → {last[k]:.3g}" for k in labels)
    )


def timed(model: Atlas, X: np.ndarray) -> float:
    start = time.perf_counter()
    model(X)
    return time.perf_counter() - start


# --- 4. the five peaks of KAN's continual-learning example ---------------------------------------------


def peaks(output: Path, seeds: int, jobs: int) -> None:
    centres = np.linspace(-0.8, 0.8, 5)
    everywhere = np.linspace(-1, 1, 2001)
    truth = np.exp(-300 * np.square(everywhere[:, None] - centres)).sum(axis=1)
    unit = ((everywhere + 1) / 2)[:, None].astype(np.float32)  # [−1, 1] becomes [0, 1]
    own = np.abs(everywhere - centres[0]) <= 0.2
    rows, figure = [], Figure(figsize=(13, 4.4), layout="constrained")
    for line, (method, memory) in zip(
        figure.subplots(2, 5), (("charts", "chart"), ("paper", "none")), strict=True
    ):
        model, areas = Atlas(1), []
        for k, (axes, centre) in enumerate(zip(line, centres, strict=True)):
            x = np.linspace(centre - 0.2, centre + 0.2, 100)
            y = np.exp(-300 * np.square(x - centre))
            areas.append(update(model, ((x + 1) / 2)[:, None], y, retention=memory, random_state=k).footprint)
            now = model(unit)[:, 0]
            if k == 0:
                first = now
            axes.plot(everywhere, truth, color="#bbbbbb", lw=3)
            axes.plot(everywhere, now, color="black", lw=1)
            decorate(axes, "x", method if k == 0 else "", f"{method}: after peak {k + 1}")
            axes.set_ylim(-0.5, 1.5)
        later = np.any([area.contains(unit) for area in areas[1:]], axis=0)
        rows.append(
            {
                "method": method,
                "maximum error": float(np.abs(now - truth).max()),
                "change of peak 1": float(np.abs(now - first)[own].max()),
                "change of peak 1 outside later footprints": float(np.abs(now - first)[own & ~later].max()),
                "share of peak 1 outside later footprints": float((own & ~later).sum() / own.sum()),
            }
        )
    figure.savefig(output / "peaks.png", dpi=110)
    write(output / "peaks.csv", rows)
    print("\nKAN's five peaks, 100 points each, one after the other")
    for row in rows:
        print("  " + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else v for k, v in row.items()))


# --- 5. where spline models are weakest: data that shares coordinates with everything ------------------


def line_data(random: np.random.Generator, inputs: int) -> np.ndarray:
    X = random.random((5000, inputs))
    X[:, 0] = 0.5
    return X


def diagonal_data(random: np.random.Generator, inputs: int) -> np.ndarray:
    return np.repeat(random.random((5000, 1)), inputs, axis=1)


def cloud_data(random: np.random.Generator, inputs: int) -> np.ndarray:
    return np.clip(random.normal(0.5, 0.15, (5000, inputs)), 0, 1)


SHARED: dict[str, tuple[int, Callable[[np.random.Generator, int], np.ndarray]]] = {
    "line x₁ = ½, n = 2": (2, line_data),
    "diagonal, n = 2": (2, diagonal_data),
    "diagonal, n = 8": (8, diagonal_data),
    "scattered cloud, n = 8": (8, cloud_data),
}


def shared_trial(case: str, seed: int) -> Row:
    """Add one to the target on the new data; whatever changes elsewhere is off target."""
    inputs, draw = SHARED[case]
    trial, random = box_tasks(inputs, 0.5, seed), np.random.default_rng(seed)
    first = trial.tasks[0]
    model = Atlas(inputs)
    train(model, first.X, first.y, random_state=seed)
    X, X_new = draw(random, inputs), draw(random, inputs)
    y, y_new = model(X)[:, 0] + 1, model(X_new)[:, 0] + 1
    row: Row = {
        "footprint of charts": footprint(model, X).volume,
        "footprint of plain training": footprint(model, X, retention="none").volume,
    }
    before = model(trial.test_X)
    for method, memory in METHODS.items():
        new = model.copy()
        update(new, X, y, retention=memory, random_state=seed)
        change = np.abs(new(trial.test_X) - before)
        row[f"{method}: error on the new data"] = error(new, X_new, y_new)
        row[f"{method}: change elsewhere"] = float(change.mean())
        row[f"{method}: share changed"] = float((change > 0).mean())
    return row


def shared(output: Path, seeds: int, jobs: int) -> None:
    cells = [(case, seed) for case in SHARED for seed in range(seeds)]
    rows = run_trials(output / "shared.csv", shared_trial, ("case", "seed"), cells, jobs)
    figure = Figure(figsize=(14, 3.8), layout="constrained")
    print("\nNew data that shares coordinates with everything: the target grows by 1 on it")
    panels = figure.subplots(1, 4)
    for axes, case in zip(panels, SHARED, strict=True):
        volumes = [average(rows, f"footprint of {kind}", case=case) for kind in ("charts", "plain training")]
        print(f"  {case}: footprint of charts {volumes[0]:.3f}, of plain training {volumes[1]:.3f}")
        measures = ("error on the new data", "change elsewhere", "share changed")
        for i, method in enumerate(METHODS):
            values = [average(rows, f"{method}: {name}", case=case) for name in measures]
            print(
                f"    {method:>10}: "
                + ", ".join(f"{n} {v:.3f}" for n, v in zip(measures, values, strict=True))
            )
            axes.bar(np.arange(3) + 0.2 * i, values, 0.2, color=STYLES[method][0], label=method)
        axes.set_xticks(
            np.arange(3) + 0.3, ["error on\nnew data", "change\nelsewhere", "share of points\nchanged"]
        )
        decorate(
            axes,
            "",
            "mean absolute error, or share" if axes is panels[0] else "",
            f"{case}\nfootprint {volumes[0]:.2g} (plain {volumes[1]:.2g})",
        )
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(output / "shared.png", dpi=110)


# --- running -------------------------------------------------------------------------------------------


def run_trials(
    path: Path, trial: Callable[..., Row], names: tuple[str, ...], cells: list[tuple], jobs: int
) -> list[Row]:
    """Run the trials that the file does not have yet, and append each when it is done."""
    done = {tuple(row[name] for name in names): row for row in read(path)}
    missing = [cell for cell in cells if tuple(map(str, cell)) not in done]
    with (
        ProcessPoolExecutor(jobs, get_context("spawn"), numba.set_num_threads, (1,)) as pool,
        tqdm(total=len(cells), initial=len(cells) - len(missing), desc=path.stem, unit="trial") as bar,
    ):
        futures = {pool.submit(trial, *cell): cell for cell in missing}
        for future in as_completed(futures):
            key = dict(zip(names, futures[future], strict=True))
            append(path, key | future.result())
            bar.update()
    wanted = {tuple(map(str, cell)) for cell in cells}
    return [row for row in read(path) if tuple(row[name] for name in names) in wanted]


def average(rows: list[Row], column: str, **where: object) -> float:
    chosen = [float(row[column]) for row in rows if all(row[k] == str(v) for k, v in where.items())]
    return float(np.mean(chosen))


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: Row) -> None:
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf8") as file:
        writer = csv.DictWriter(file, row.keys(), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def write(path: Path, rows: list[Row]) -> None:
    path.unlink(missing_ok=True)
    for row in rows:
        append(path, row)


def decorate(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)


EXPERIMENTS = {
    "two-tasks": two_tasks,
    "sequences": sequences,
    "hundred": hundred,
    "peaks": peaks,
    "shared": shared,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=EXPERIMENTS, action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, default=Path("docs/memory"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    numba.set_num_threads(1)  # trials share the cores
    for name in options.only or EXPERIMENTS:
        EXPERIMENTS[name](options.output, options.seeds, options.jobs)


if __name__ == "__main__":
    main()
