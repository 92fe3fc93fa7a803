"""What depth does to memory: ATLAS networks of one, two and three layers, and an MLP, on two tasks in a row.

Task 1 is a random function on the whole square, Task 2 changes a box of width 0.3 and shows only rows inside it. All
are trained by lazy Adam (SparseAdam; the MLP by Adam), then the outputs at test points *far* from the box, in every
coordinate at least 4/(2^(r+2)−3) away, are compared with those before: a single layer keeps every bit of them.

    python benchmarks/torch_depth.py
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1")

import argparse

import numpy as np
import torch
from torch import nn

from atlas_splines.analysis import orthogonality_distance
from atlas_splines.experiments.boxes import BoxTasks, box_tasks
from atlas_splines.nn import AtlasModule, AtlasNet

DENSITY, BATCH = 3, 100


def networks() -> dict[str, nn.Module]:
    options = {"terms": 4, "density": DENSITY, "sparse": True}
    hidden = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    return {
        "1 layer": AtlasNet([2, 1], **options),
        "1 layer and a chart": AtlasModule(2, 1, **options),
        "2 layers": AtlasNet([2, 6, 1], **options),
        "3 layers": AtlasNet([2, 6, 6, 1], **options),
        "MLP 64-64": hidden,
    }


def train(network: nn.Module, X: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    parameters = list(network.parameters())
    lazy = any(isinstance(module, AtlasModule) for module in network.modules())
    optimizer = (torch.optim.SparseAdam if lazy else torch.optim.Adam)(parameters, lr=0.01)
    for _ in range(epochs):
        for batch in torch.randperm(len(X)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.l1_loss(network(X[batch]), y[batch]).backward()
            optimizer.step()


def far_from(X: np.ndarray, data: BoxTasks) -> np.ndarray:
    """Points that the update of one layer cannot reach: far in every coordinate."""
    task, distance = data.tasks[1], orthogonality_distance(DENSITY)
    gap = np.maximum(task.low - X, X - task.low - task.width)
    return (gap >= distance).all(axis=1)


def measure(network: nn.Module, data: BoxTasks, chart: bool, epochs: int) -> list[float]:
    """Errors on Task 1 and after Task 2, and the change of far outputs: share, and mean size."""
    tasks = [[torch.tensor(a, dtype=torch.float32) for a in (t.X, t.y[:, None])] for t in data.tasks]
    X, far = torch.tensor(data.test_X, dtype=torch.float32), torch.tensor(far_from(data.test_X, data))
    train(network, *tasks[0], epochs)
    with torch.no_grad():
        before = network(X)
    if chart:
        network.open_chart(tasks[1][0], density=DENSITY, terms=4)
    train(network, *tasks[1], epochs)
    with torch.no_grad():
        after = network(X)
    outside = ~torch.tensor(data.tasks[1].inside(data.test_X))
    clean = torch.tensor(data.test_y, dtype=torch.float32)[:, :, None]
    return [
        (before - clean[0]).abs().mean().item(),
        (after - clean[1]).abs()[~outside].mean().item(),
        (after - clean[1]).abs()[outside].mean().item(),
        (after == before)[far].float().mean().item(),
        (after - before)[far].abs().mean().item(),
    ]


def quiet_trials(count: int, samples: int) -> list[BoxTasks]:
    """Trials with a corner that is far from the box."""
    trials = (box_tasks(2, 0.3, seed, samples=samples) for seed in range(1000))
    chosen = []
    while len(chosen) < count:
        trial = next(trials)
        if trial.noise < 1 and far_from(trial.test_X, trial).mean() > 0.02:
            chosen.append(trial)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=5000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, list[list[float]]] = {}
    for seed, data in enumerate(quiet_trials(options.trials, options.samples)):
        torch.manual_seed(seed)
        for name, network in networks().items():
            results.setdefault(name, []).append(measure(network, data, "chart" in name, options.epochs))
    print(
        "| | error on Task 1 | after Task 2: in the box | elsewhere | far outputs that keep every bit | mean change of far outputs |"
    )
    print("|---|---|---|---|---|---|")
    for name, rows in results.items():
        task_1, inside, outside, same, change = np.mean(rows, axis=0)
        print(f"| {name} | {task_1:.2f} | {inside:.2f} | {outside:.2f} | {same:.0%} | {change:.3f} |")


if __name__ == "__main__":
    main()
