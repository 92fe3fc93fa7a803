"""Learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from atlas_splines.model.train import History
from atlas_splines.plots.columns import check_fitted
from atlas_splines.plots.style import LINE_COLOURS

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["draw_history"]


def draw_history(axes: Axes, history: History | Sequence[Sequence[float]] | AtlasEstimator) -> Axes:
    """Draw the loss after each epoch, with a dot at the best epoch.

    Parameters
    ----------
    axes
        Where to draw.
    history
        From `train` or an entry of ``model.updates``: training and validation loss. Or a fitted estimator or
        its ``validation_loss_``: a line for each member.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> history = History(loss=[3.0, 0.2], validation=[0.4, 0.5], best_epoch=0)
    >>> axes = draw_history(Figure().subplots(), history)
    >>> axes.get_yscale(), [line.get_label() for line in axes.lines]
    ('log', ['training', 'validation', 'best epoch'])
    """
    if not isinstance(history, History | Sequence):
        check_fitted(history)
        history = history.validation_loss_
    lines = losses_of(history)
    values = np.concatenate([np.empty(0), *lines.values()])
    if not values.size:
        raise ValueError("the history has no losses to draw; it takes an epoch, or rows that are held out")
    for (label, losses), colour in zip(lines.items(), cycle(LINE_COLOURS), strict=False):
        axes.plot(np.arange(1, len(losses) + 1), losses, color=colour, label=label)
    assessed = [losses for label, losses in lines.items() if label != "training" and losses]
    for losses in assessed:
        best = int(np.argmin(losses))
        axes.plot(best + 1, losses[best], "o", color="black", ms=5, zorder=3)
    if assessed:
        axes.lines[-1].set_label("best epoch")
    spans_decades = values.min() > 0 and values.max() > 10 * values.min()
    axes.set(xlabel="epoch", ylabel="loss", yscale="log" if spans_decades else "linear")
    return axes


def losses_of(history: History | Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """The lines of a history, by their labels."""
    if isinstance(history, History):
        lines = {"training": history.loss, "validation": history.validation}
        return {label: losses for label, losses in lines.items() if losses}
    return {f"member {k + 1}, held-out rows": list(losses) for k, losses in enumerate(history)}
