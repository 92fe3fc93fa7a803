"""The history of a training: losses of its epochs, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["History", "TrainingDiverged"]


@dataclass
class History:
    """What happened in one call of `train` or `Trainer.run`.

    Attributes
    ----------
    loss
        Mean training loss of each epoch, measured while the coefficients moved.
    validation
        Loss on the validation data after each epoch; empty without validation data.
    seconds
        Time spent, without compilation only if the kernels were compiled before.
    steps
        Number of batches.
    stopped
        "epochs" when all were run, "patience" when validation stopped improving.
    best_epoch
        Zero-based epoch with the lowest validation loss; None without validation data.
    state
        "fresh" when the optimiser started from nothing, "carried" when it went on from an earlier call.
    """

    loss: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    stopped: Literal["epochs", "patience"] = "epochs"
    best_epoch: int | None = None
    state: Literal["fresh", "carried"] = "fresh"

    def __repr__(self) -> str:
        losses = f", loss {self.loss[-1]:.4g}" if self.loss else ""
        best = f", best validation {min(self.validation):.4g}" if self.validation else ""
        return (
            f"<History: {len(self.loss)} epochs, {self.steps} steps in {self.seconds:.3g} s, "
            f"stopped by {self.stopped}, optimiser {self.state}{losses}{best}>"
        )


class TrainingDiverged(ArithmeticError):
    """The loss was no longer finite. The model is as it was after the last good epoch.

    Attributes
    ----------
    history
        The good epochs.
    """

    def __init__(self, history: History, learning_rate: float) -> None:
        good = len(history.loss)
        super().__init__(
            f"the loss was no longer finite in epoch {good + 1}; the model is as it was after epoch {good}: "
            f"lower learning_rate (now {learning_rate:g}) or scale the targets to about 1"
        )
        self.history, self.learning_rate = history, learning_rate

    def __reduce__(self) -> tuple[type, tuple[History, float]]:
        return type(self), (self.history, self.learning_rate)
