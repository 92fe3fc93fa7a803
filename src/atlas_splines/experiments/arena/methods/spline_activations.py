"""A network whose activation functions are trained splines (Scardapane and others, 2017).

Each unit has an activation function of its own: a cubic spline through control points at equal steps, of
which four are mixed at any place. They start on the hyperbolic tangent, and damping, λ times the
squared distance from there, holds what no data asks to change. As in the article, the sampled interval is
from −2 to 2 in steps of 0.2 and the splines are those of Catmull and Rom; sums beyond the interval are moved
to its ends.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.autograd import TorchMethod, data_loss, minimise
from atlas_splines.experiments.arena.methods.base import RATES, Setup, one_hot
from atlas_splines.experiments.arena.methods.network import draw_from
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["SplineActivation", "SplineNetwork"]

Array = NDArray[np.floating]
EDGE, STEP = 2.0, 0.2
WIDTH, HIDDEN = 32, 2


class SplineActivation(torch.nn.Module):
    """A spline for each unit, (units, control points); there is one more point beyond each end.

    Examples
    --------
    >>> import torch
    >>> activation = SplineActivation(units=1)
    >>> [round(activation(torch.tensor([[x]])).item(), 3) for x in (0.0, 0.4, 5.0)]  # tanh(2) = 0.964
    [0.0, 0.38, 0.964]
    """

    def __init__(self, units: int) -> None:
        super().__init__()
        steps = round(2 * EDGE / STEP)
        places = STEP * torch.arange(-1, steps + 2) - EDGE
        self.start = torch.tanh(places)
        self.points = torch.nn.Parameter(self.start.repeat(units, 1))
        self.steps = steps

    def forward(self, sums: torch.Tensor) -> torch.Tensor:
        """Outputs of the units, (rows, units)."""
        place = ((sums + EDGE) / STEP).clamp(0, self.steps)
        step = place.detach().floor().clamp(max=self.steps - 1)
        first = step.long() + self.points.shape[1] * torch.arange(len(self.points))
        flat = self.points.flatten()
        # the four control points around each place, (rows, units); index_select is differentiated fast
        a, b, c, d = (flat.index_select(0, (first + k).flatten()).view_as(place) for k in range(4))
        u = place - step
        return b + u / 2 * (c - a + u * (2 * a - 5 * b + 4 * c - d + u * (3 * (b - c) + d - a)))

    def bend(self) -> torch.Tensor:
        """Squared distance of the control points from where they started."""
        return (self.points - self.start).square().sum()


class SplineNetwork(TorchMethod):
    """Trained on each task from where it was."""

    GRID = tuple({"rate": rate, "damping": damping} for damping in (1e-4, 1e-2) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, damping: float) -> None:
        super().__init__(setup, rate)
        self.damping = damping
        self.activations = [SplineActivation(WIDTH) for _ in range(HIDDEN)]
        layers: list[torch.nn.Module] = []
        for inputs, activation in zip([setup.inputs, *[WIDTH] * HIDDEN], self.activations, strict=False):
            layers += [torch.nn.Linear(inputs, WIDTH), activation]
        self.module = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, setup.outputs))

    def fit(self, task: Task) -> None:
        """Train weights and control points on the task."""
        draw = draw_from(centred(task.X), one_hot(task.y, self.setup.classes), self.random)

        def loss() -> torch.Tensor:
            bend = torch.stack([activation.bend() for activation in self.activations]).sum()
            return data_loss(self.module, draw, self.setup.classes) + self.damping * bend

        minimise(list(self.module.parameters()), loss, self.setup.steps, self.rate)

    def predict(self, X: Array) -> Array:
        """Outputs of the network."""
        return super().predict(centred(X))


def centred(X: Array) -> Array:
    """The unit cube moved to where the splines bend: from −1 to 1."""
    return 2 * X - 1
