"""Time of a training step and of a predicted row, side by side in one run, on one thread.

ATLAS as a PyTorch module, eager and compiled, and by the fused engine; against an MLP of PyTorch, scikit-learn's
MLPRegressor and KAN (pykan), each with about as many parameters as ATLAS trains (M = 10, r = 4).

    python benchmarks/torch_speed.py            tables of times and ratios
    python benchmarks/torch_speed.py --error    the time to reach an error on the paper's Task 1
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from kan import KAN
from sklearn.neural_network import MLPRegressor
from torch import nn

from atlas_splines import Atlas, Trainer
from atlas_splines.experiments.paper.tasks import two_tasks
from atlas_splines.model import kernels
from atlas_splines.model.atlas import state_of
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.train import OPTIMIZERS, fresh_moments
from atlas_splines.nn import AtlasModule

INPUTS, BATCHES = (2, 8, 64), (100, 1000, 10_000)
LEARNING_RATE = 0.01
NOISE = 0.3  # Task 1 is the first trial with less
STEPS = 20  # that the fused engine makes in one call
ROUNDS, PATIENCE = 30, 3.0  # each time is the best of so many, or of as many as fit into so many seconds


class TorchCase:
    """A network in the usual loop: zero_grad, forward, loss, backward, step."""

    def __init__(self, network: nn.Module, compiled: bool = False, optimizer: type = torch.optim.Adam):
        self.network = network
        options = {"fused": True} if optimizer is torch.optim.Adam else {}
        self.optimizer = optimizer(list(network.parameters()), lr=LEARNING_RATE, **options)
        self.loss: Callable = lambda X, y: nn.functional.l1_loss(network(X), y)
        self.call: Callable = network
        if compiled:
            self.loss, self.call = (torch.compile(f, dynamic=True) for f in (self.loss, network))

    def load(self, X: np.ndarray, y: np.ndarray):
        return torch.from_numpy(X), torch.from_numpy(y)

    def step(self, batch):
        self.optimizer.zero_grad()
        self.loss(*batch).backward()
        self.optimizer.step()

    def predict(self, batch):
        with torch.no_grad():
            return self.call(batch[0]).numpy()


class FusedCase:
    """The engine of `train`: one call of its kernel makes all the steps of an epoch, here STEPS."""

    def __init__(self, inputs: int):
        self.model = Atlas(inputs)
        self.moments = fresh_moments(self.model)
        state = state_of(self.model)
        densities = np.array(state.trained_densities, np.int64)
        self.options = kernels.Step(
            kernels.MAE, OPTIMIZERS["lazy-adam"], LEARNING_RATE, densities, state.first_trained_row
        )

    def load(self, X: np.ndarray, y: np.ndarray):
        many, targets = np.tile(X, (STEPS, 1)), np.tile(y, (STEPS, 1))
        none = np.zeros((0, state_of(self.model).table.shape[1]), X.dtype)
        samples = kernels.Samples(many, targets, np.ones(len(many), X.dtype), none, none[:, 0], y[:0])
        return samples, np.arange(len(many)), X

    def step(self, batch):
        state, (samples, order, X) = state_of(self.model), batch
        kernels.train_batches(state.table, state.layout, self.moments, samples, order, len(X), self.options)

    def predict(self, batch):
        return evaluate(state_of(self.model), batch[2])


class ScikitCase:
    """scikit-learn's network, a step at a time by partial_fit."""

    def __init__(self, hidden: int):
        self.network = MLPRegressor(
            hidden_layer_sizes=(hidden, hidden), learning_rate_init=LEARNING_RATE, batch_size=10**9
        )

    def load(self, X: np.ndarray, y: np.ndarray):
        return X, y[:, 0]

    def step(self, batch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the batch is larger than the data, which is what we want
            self.network.partial_fit(*batch)

    def predict(self, batch):
        return self.network.predict(batch[0])[:, None]


def hidden_width(inputs: int, parameters: int) -> int:
    """Width of two hidden layers that have about so many parameters."""
    return int(np.ceil((np.sqrt((inputs + 3) ** 2 + 4 * (parameters - 1)) - inputs - 3) / 2))


def mlp(inputs: int, hidden: int) -> nn.Module:
    layers = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, 1))


def kan(inputs: int, parameters: int) -> nn.Module:
    """KAN of pykan, without what is not needed here: symbolic functions, saved activations, its log on disk."""
    per_edge = 5 + 3 + 2  # coefficients of grid 5 and order 3, and two scales
    hidden = max(round(parameters / (per_edge * (inputs + 1))), 1)
    network = KAN(
        [inputs, hidden, 1], grid=5, k=3, symbolic_enabled=False, auto_save=False, grid_range=[0, 1]
    )
    network.save_act = False
    return network


def cases(inputs: int, with_kan: bool = True) -> dict:
    parameters = Atlas(inputs).n_trainable
    hidden = hidden_width(inputs, parameters)
    torch.manual_seed(0)
    contenders = {
        "module": TorchCase(AtlasModule(inputs)),
        "sparse": TorchCase(AtlasModule(inputs, sparse=True), optimizer=torch.optim.SparseAdam),
        "compiled": TorchCase(AtlasModule(inputs), compiled=True),
        "fused": FusedCase(inputs),
        "MLP": TorchCase(mlp(inputs, hidden)),
        "scikit": ScikitCase(hidden),
    }
    return contenders | ({"KAN": TorchCase(kan(inputs, parameters))} if with_kan else {})


def best_times(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Shortest time of each run, taken in turns so that all meet the same disturbances."""
    best = dict.fromkeys(runs, np.inf)
    spent = dict.fromkeys(runs, 0.0)
    for run in runs.values():
        run()  # compile, warm the caches
    for _ in range(ROUNDS):
        for name, run in runs.items():
            if spent[name] < PATIENCE:
                start = time.perf_counter()
                run()
                seconds = time.perf_counter() - start
                best[name], spent[name] = min(best[name], seconds), spent[name] + seconds
    return best


def print_speeds() -> None:
    for inputs in INPUTS:
        contenders = cases(inputs)
        names = list(contenders)
        print(f"\nn = {inputs}, {Atlas(inputs).n_trainable:,} trained coefficients")
        print(f"{'':24}" + "".join(f"{name:>11}" for name in names))
        for rows in BATCHES:
            random = np.random.default_rng(0)
            X = random.random((rows, inputs)).astype(np.float32)
            y = np.sin(5 * X.sum(axis=1, keepdims=True))
            batches = {name: case.load(X, y) for name, case in contenders.items()}
            steps = best_times({n: partial(c.step, batches[n]) for n, c in contenders.items()})
            steps["fused"] /= STEPS
            reads = best_times({n: partial(c.predict, batches[n]) for n, c in contenders.items()})
            print_row(f"batch {rows}: step, µs", [steps[n] * 1e6 for n in names])
            print_row("   ratio to module", [steps[n] / steps["module"] for n in names])
            print_row("   prediction, ns a row", [reads[n] * 1e9 / rows for n in names])


def print_row(label: str, values: list[float]) -> None:
    print(
        f"{label:24}" + "".join(f"{value:11,.0f}" if value >= 100 else f"{value:11.3g}" for value in values),
        flush=True,
    )


# --- time to an error ---------------------------------------------------------------------------------------


class FusedEpochs:
    """The engine as its users call it."""

    def __init__(self, inputs: int):
        self.trainer = Trainer(Atlas(inputs), learning_rate=LEARNING_RATE, random_state=0)

    def epoch(self, X: np.ndarray, y: np.ndarray) -> None:
        self.trainer.run(X, y, epochs=1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.trainer.model(X)


class Epochs:
    """Epochs of single steps, batch 100."""

    def __init__(self, case):
        self.case, self.random = case, np.random.default_rng(0)

    def epoch(self, X: np.ndarray, y: np.ndarray) -> None:
        order = self.random.permutation(len(X))
        for begin in range(0, len(X), 100):
            batch = order[begin : begin + 100]
            self.case.step(self.case.load(X[batch], y[batch]))

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.case.predict(self.case.load(X, X[:, :1]))


def print_times_to_error(share: float, limit: float) -> None:
    """Time of training, without that of testing, until the clean test error is low enough."""
    for inputs in (2, 8):
        data = next(
            data for data in (two_tasks(inputs, 0.5, trial) for trial in range(100)) if data.noise < NOISE
        )
        train, test = data.train[0], data.test[0]
        X, y = train.X.astype(np.float32), train.noisy.astype(np.float32)[:, None]
        goal = share * np.abs(test.clean - np.median(train.noisy)).mean()
        print(f"\nTask 1, n = {inputs}, noise {data.noise:.2f}: time to a mean error of {goal:.3f}, "
              f"{share:.0%} of that of a constant; batch 100, learning rate {LEARNING_RATE}")  # fmt: skip
        for case in cases(inputs).values():  # compile what is compiled on first use
            Epochs(case).epoch(X[:200], y[:200])
        FusedEpochs(inputs).epoch(X[:200], y[:200])
        contenders = {n: Epochs(c) for n, c in cases(inputs).items() if n != "fused"}
        for name, contender in {"fused": FusedEpochs(inputs), **contenders}.items():
            print(f"{name:>10}: {time_to(contender, X, y, test, goal, limit)}", flush=True)


def time_to(contender, X: np.ndarray, y: np.ndarray, test, goal: float, limit: float) -> str:
    seconds, epochs, lowest = 0.0, 0, np.inf
    points = test.X.astype(np.float32)
    while seconds < limit:
        start = time.perf_counter()
        contender.epoch(X, y)
        seconds, epochs = seconds + time.perf_counter() - start, epochs + 1
        lowest = min(lowest, np.abs(contender.predict(points)[:, 0] - test.clean).mean())
        if lowest <= goal:
            return f"{seconds:.3g} s, {epochs} epochs"
    return f"not in {limit:.0f} s ({epochs} epochs); best error {lowest:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--error", action="store_true")
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--limit", type=float, default=40.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.error:
        print_times_to_error(options.share, options.limit)
    else:
        print_speeds()


if __name__ == "__main__":
    main()
