"""The trials of the paper's experiments: each a pure function of its key and the settings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines import Atlas, History, Trainer, update
from atlas_splines.experiments.boxes import WIDTHS, Target, in_box
from atlas_splines.experiments.paper.tasks import APPENDIX, Sample, TwoTasks, noisy_sample, two_tasks

__all__ = ["Outcome", "Settings", "TrialKey", "all_keys", "run_trial"]

Array = NDArray[np.floating]
Row = dict[str, Any]
Retention = Literal["chart", "rehearsal"]

STAGES = 5  # of Task 1 in the appendix: each has one density more
STAGE_EPOCHS = 30
APPENDIX_EPOCHS = 6  # of Task 2
APPENDIX_NOISE = 0.1
APPENDIX_BOX = np.array([[0.45, 0.45], [0.55, 0.55]])  # lower and upper corner of what Task 2 changes
GRID = 100  # points along each side of a picture
INSPECTED = (2, 0.3, 0)  # inputs, width and number of the trial that is drawn


class TrialKey(NamedTuple):
    """Which trial: "main" with its inputs and width, or a letter of the appendix."""

    experiment: str
    inputs: int
    width: float
    trial: int

    @property
    def name(self) -> str:
        """File name of the trial's result."""
        return f"{self.experiment}-n{self.inputs}-w{self.width:.1f}-t{self.trial:02d}"


@dataclass(frozen=True)
class Settings:
    """What is the same for all trials of a run."""

    damping: float = 0.0
    optimizer: str = "adam"
    epochs: int = 50
    samples: int = 10_000


class Outcome(NamedTuple):
    """What a trial returns: a row for each model, and the images of a trial that is drawn."""

    rows: list[Row]
    pictures: dict[str, Array]


def all_keys(trials: int) -> list[TrialKey]:
    """Keys of a whole reproduction, the slowest first.

    Examples
    --------
    >>> len(all_keys(trials=30))
    930
    """
    main = [TrialKey("main", n, width, t) for t in range(trials) for n in (8, 2, 1) for width in WIDTHS]
    return main + [TrialKey(letter, 2, 0.1, t) for t in range(trials) for letter in APPENDIX]


def run_trial(key: TrialKey, settings: Settings) -> Outcome:
    """Run one trial."""
    return main_trial(key, settings) if key.experiment == "main" else appendix_trial(key, settings)


def grid_points() -> Array:
    """Points of a picture, shape (GRID², 2)."""
    side = (np.arange(GRID) + 0.5) / GRID
    return np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)


def image(values: Array) -> Array:
    """Values at the points of a picture, as an image."""
    return np.asarray(values, np.float32).reshape(GRID, GRID)


def mae(model: Atlas, X: Array, y: Array) -> float:
    """Mean absolute error; NaN on no points."""
    return float(np.abs(model(X)[:, 0] - y).mean()) if len(X) else float("nan")


# --- the main experiment ---------------------------------------------------------------------------------


def main_trial(key: TrialKey, settings: Settings) -> Outcome:
    """Both of the paper's models, and rehearsal and charts on top of the first, on the same data."""
    data = two_tasks(key.inputs, key.width, key.trial, settings.samples)
    drawn = (key.inputs, key.width, key.trial) == INSPECTED
    rows, pictures = [], {}
    for name, after_first, after_second, row in main_models(key, data, settings):
        rows.append(row | task_errors(data, after_first, after_second))
        if drawn:
            pictures[f"main/{name}_1"] = image(after_first(grid_points())[:, 0])
            pictures[f"main/{name}_2"] = image(after_second(grid_points())[:, 0])
    if drawn:
        for number, target in enumerate(data.targets, start=1):
            pictures[f"main/target_{number}"] = image(target(grid_points()))
        pictures["main/box"] = data.box.T
    return Outcome(rows, pictures)


def main_models(key: TrialKey, data: TwoTasks, settings: Settings) -> Iterator[tuple[str, Atlas, Atlas, Row]]:
    """Each model's name, what it was after each task, and its row so far."""
    first, second = data.train
    for trainable in ("finest", "all"):
        start = time.perf_counter()
        model = Atlas(key.inputs, trainable=trainable, damping=settings.damping)
        trainer = Trainer(
            model, optimizer=settings.optimizer, learning_rate=data.learning_rate, random_state=key.trial
        )
        one = run_task(trainer, first, data.validation[0], settings.epochs)
        after_first = model.copy()
        two = run_task(trainer, second, data.validation[1], settings.epochs)  # the state is carried over
        yield trainable, after_first, model, row_of(key, trainable, data, one, two, start)
        if trainable == "finest":
            base, history = after_first, one
    kinds: dict[str, Retention] = {"rehearsal": "rehearsal", "charts": "chart"}
    for name, retention in kinds.items():
        start = time.perf_counter()
        model = base.copy()
        update(model, second.X, second.noisy, retention=retention, random_state=key.trial)
        yield name, base, model, row_of(key, name, data, history, History(), start)


def run_task(trainer: Trainer, train: Sample, validation: Sample, epochs: int) -> History:
    """Train on a task, with its validation curve."""
    return trainer.run(train.X, train.noisy, epochs=epochs, validation=(validation.X, validation.noisy))


def row_of(key: TrialKey, model: str, data: TwoTasks, one: History, two: History, start: float) -> Row:
    """What a row holds besides the test errors."""
    return {
        **key._asdict(),
        "model": model,
        "learning_rate": data.learning_rate,
        "noise": data.noise,
        "training_1": one.loss,
        "validation_1": one.validation,
        "training_2": two.loss,
        "validation_2": two.validation,
        "stage_clean": [],
        "seconds": time.perf_counter() - start,
    }


def task_errors(data: TwoTasks, after_first: Atlas, after_second: Atlas) -> Row:
    """Test errors after each task."""
    first, second = data.test
    inside = data.inside(second.X)
    return {
        "task1_noisy": mae(after_first, first.X, first.noisy),
        "task1_clean": mae(after_first, first.X, first.clean),
        "test_noisy": mae(after_second, second.X, second.noisy),
        "test_clean": mae(after_second, second.X, second.clean),
        "test_inside": mae(after_second, second.X[inside], second.clean[inside]),
        "test_outside": mae(after_second, second.X[~inside], second.clean[~inside]),
    }


# --- the appendix ----------------------------------------------------------------------------------------


def appendix_data(key: TrialKey, samples: int) -> TwoTasks:
    """Data of an experiment A–D; the test set is the validation set too, as in the paper."""
    target = APPENDIX[key.experiment]
    random = np.random.default_rng([ord(key.experiment), key.trial])

    def changed(X: Array) -> Array:
        return np.where(in_box(X, APPENDIX_BOX), 0.0, target(X))

    def sample(function: Target, X: Array) -> Sample:
        return noisy_sample(function, X, APPENDIX_NOISE, random)

    everywhere, box = random.random((2, samples, 2)), 0.45 + 0.1 * random.random((samples, 2))
    test = (sample(target, everywhere[1]), sample(changed, random.random((samples, 2))))
    train = (sample(target, everywhere[0]), sample(changed, box))
    return TwoTasks(0.01, APPENDIX_NOISE, APPENDIX_BOX, train, test, test, (target, changed))


def appendix_trial(key: TrialKey, settings: Settings) -> Outcome:
    """Train and expand five times, then learn a hole in the middle, plainly and with a chart."""
    data = appendix_data(key, settings.samples)
    drawn, letter = key.trial == 0, key.experiment
    start, pictures = time.perf_counter(), {}
    model, one, stages = Atlas(2, terms=0, density=0, damping=settings.damping), History(), []
    for stage in range(STAGES):
        if stage:
            model.expand(density=1, terms=2)
        trainer = Trainer(model, optimizer=settings.optimizer, random_state=key.trial)
        history = run_task(trainer, data.train[0], data.test[0], STAGE_EPOCHS)
        one.loss += history.loss
        one.validation += history.validation
        stages.append(mae(model, data.test[0].X, data.test[0].clean))
        if drawn:
            pictures[f"{letter}/stage_{stage}"] = image(model(grid_points())[:, 0])
    after_first = model.copy()
    two = run_task(trainer, data.train[1], data.test[1], APPENDIX_EPOCHS)
    rows = [row_of(key, "finest", data, one, two, start) | task_errors(data, after_first, model)]
    start, charted = time.perf_counter(), after_first.copy()
    update(charted, data.train[1].X, data.train[1].noisy, random_state=key.trial)
    rows.append(row_of(key, "charts", data, one, History(), start) | task_errors(data, after_first, charted))
    if drawn:
        for number, target in enumerate(data.targets, start=1):
            pictures[f"{letter}/target_{number}"] = image(target(grid_points()))
        pictures[f"{letter}/finest_2"] = image(model(grid_points())[:, 0])
        pictures[f"{letter}/charts_2"] = image(charted(grid_points())[:, 0])
    return Outcome([row | {"stage_clean": stages} for row in rows], pictures)
