"""ATLAS in all its forms: as in the paper, as this library has it, and splines without exponentials."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines import Atlas, AtlasRegressor, Trainer, update
from atlas_splines.experiments.arena.methods.base import RATES, Method, Setup
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["Both", "Charts", "Lazy", "Paper", "Rehearsal", "SplineAdditive", "WithoutGuarantee"]

Array = NDArray[np.floating]
Retention = Literal["chart", "rehearsal", "both", "none"]

GRID = tuple({"density": density, "rate": rate} for density in (4, 2) for rate in RATES)
BATCH = 100  # rows; a step of the MLP has 250, but there are ten of these for each
CLASS_TERMS = 1  # 64 inputs and ten outputs are many coefficients already
CLASS_EPOCHS = 20


class Plain(Method):
    """Trained on each task from where it was."""

    GRID = GRID
    optimizer: ClassVar[str] = "lazy-adam"
    trainable: ClassVar[Literal["finest", "all"]] = "finest"
    terms: ClassVar[int] = 10

    def __init__(self, setup: Setup, density: int, rate: float) -> None:
        self.setup, self.rate = setup, rate
        terms = min(self.terms, CLASS_TERMS) if setup.classes else self.terms
        self.model = Atlas(setup.inputs, setup.outputs, terms, density, self.trainable)
        self.loss = "cross-entropy" if setup.classes else "mae"
        self.trainer = Trainer(
            self.model, loss=self.loss, learning_rate=rate, optimizer=self.optimizer, random_state=setup.seed
        )

    def fit(self, task: Task) -> None:
        """Train; the optimiser's state is carried from task to task, as in the paper."""
        self.trainer.run(task.X, task.y, epochs=self.epochs(len(task.X)))

    def epochs(self, rows: int) -> int:
        """Passes over the rows of a task: for 500 steps 50, or 5000 batches as `update` has it, or 1000."""
        steps = self.setup.steps
        if self.setup.classes:
            return CLASS_EPOCHS
        return max(steps // 10, min(10 * steps * BATCH // rows, 2 * steps), 1)

    def predict(self, X: Array) -> Array:
        """Outputs of the model."""
        return self.model(X)

    @property
    def bytes_kept(self) -> int:
        """The coefficients, and the two moments of Adam."""
        return 3 * self.model.nbytes


class Lazy(Plain):
    """The paper's model with lazy Adam, which does not move what a batch does not touch."""


class Paper(Plain):
    """The paper's model and its dense Adam."""

    optimizer = "adam"


class WithoutGuarantee(Paper):
    """The paper's contrast model: all densities are trained."""

    trainable = "all"


class SplineAdditive(Plain):
    """A sum of splines of one input each: ATLAS without exponentials."""

    terms = 0


class Updated(Method):
    """What a user of this library does: an estimator of its own size is fitted, and updated."""

    GRID = ({"loss": "squared_error"}, {"loss": "absolute_error"})
    retention: ClassVar[Retention]

    def __init__(self, setup: Setup, loss: str) -> None:
        self.estimator: AtlasRegressor | SmallClassifier
        if setup.classes:
            self.estimator = SmallClassifier(setup, self.retention)
        else:  # one member, for time; four, the default, are better by some per cent
            self.estimator = AtlasRegressor(
                loss=loss, retention=self.retention, members=1, random_state=setup.seed
            )

    def fit(self, task: Task) -> None:
        """Fit the estimator, or update it."""
        self.estimator.partial_fit(task.X, task.y, accept=True)

    def predict(self, X: Array) -> Array:
        """Predictions of the estimator."""
        return np.asarray(self.estimator.predict(X)).reshape(len(X), -1)

    @property
    def bytes_kept(self) -> int:
        """The coefficients of the model and of its charts."""
        return self.estimator.model_.nbytes


class SmallClassifier:
    """Few coefficients of each output: with 64 inputs and ten classes there are many already."""

    def __init__(self, setup: Setup, retention: Retention) -> None:
        self.model_ = Atlas(setup.inputs, setup.classes, CLASS_TERMS)
        self.retention, self.seed = retention, setup.seed

    def partial_fit(self, X: Array, y: Array, accept: bool) -> None:
        """Train the model plainly, and update it from the second time on."""
        before = len(self.model_.updates)
        update(
            self.model_, X, y, retention=self.retention if before else "none", loss="cross-entropy",
            density=1, terms=CLASS_TERMS, epochs=CLASS_EPOCHS, random_state=self.seed + before, accept=accept,
        )  # fmt: skip

    def predict(self, X: Array) -> Array:
        """Outputs of the model."""
        return self.model_(X)


class Charts(Updated):
    """A chart around the data of each update."""

    retention = "chart"


class Rehearsal(Updated):
    """New data together with points from elsewhere, labelled by the model as it was."""

    retention = "rehearsal"


class Both(Updated):
    """Rehearsal, then charts."""

    retention = "both"
