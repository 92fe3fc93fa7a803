"""Spread: how far off predictions are, and where rows have been, from sums alone.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from atlas_splines.core.remembering import Recomputing
from atlas_splines.core.state import Evidence, Signs, State
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.presence import Presence, Visits
from atlas_splines.evidence.scale import MOST_INPUTS, Scale
from atlas_splines.evidence.scores import Scores, Tally

__all__ = ["LEAST_ROWS", "Seen", "Spread", "telling_inputs"]

Array = NDArray[np.float64]

LEAST_VARIATION = 0.2  # of predictions over that of errors, for the size of errors to depend on predictions
LEAST_ROWS = 100  # of an update, for a spread to begin with it


@dataclass(frozen=True, eq=False)
class Seen:
    """What the rows of one update add to a spread.

    Attributes
    ----------
    tallies
        Scores of each output before the rows were learned; of classes together.
    visits
        Where the rows are, if that is watched.
    """

    tallies: tuple[Tally, ...]
    visits: Visits | None

    def joined(self, more: Seen) -> Seen:
        """The same of more rows of the update."""
        pairs = zip(self.tallies, more.tallies, strict=True)
        both = None if self.visits is None or more.visits is None else self.visits + more.visits
        return Seen(tuple(one.joined(other) for one, other in pairs), both)


@dataclass(frozen=True, eq=False)
class Spread(Recomputing, Evidence):
    """How far off predictions are, by place, and where rows have been; never changed in place.

    Attributes
    ----------
    scales
        Usual size of the errors of each output; empty for classes.
    scores
        Errors over their scale, for each output; of classes the negative logarithms of the probabilities of
        those that came.
    presence
        Where rows have been; None if that was not watched from the first row on.
    """

    scales: tuple[Scale, ...]
    scores: tuple[Scores, ...]
    presence: Presence | None

    @classmethod
    def of(
        cls,
        points: Array,
        said: Array,
        targets: Array,
        weights: Array | None,
        *,
        inputs: list[int],
        loss: str,
        presence: Presence | None = None,
        factor: Array | None = None,
        signs: Signs = (),
    ) -> Spread:
        """The spread of predictions.

        Parameters
        ----------
        points, said, targets, weights
            Rows, in points of the unit cube, and what was said of each by a model that had not learned it:
            shapes (rows, inputs), (rows, outputs), (rows, outputs) and (rows,).
        inputs
            Inputs that matter, those that matter most first.
        loss
            Name of the model's loss; with "cross-entropy" targets are indicators of classes.
        presence
            Where all rows have been.
        factor
            By how much the errors of the model are larger than these, shape (outputs,).
        signs
            Which way outputs have to go along inputs. The size of errors depends on the place along such an
            input only through the prediction, so that quantiles can go the same way.
        """
        free = [j for j in inputs if not any(ways[j] for ways in signs)]
        if loss == "cross-entropy":
            surprise = surprise_of(said, targets)
            return cls((), (Scores.of(np.zeros(len(said)), surprise, weights, is_one_sided=True),), presence)
        scales, scores = [], []
        for k in range(targets.shape[1]):
            errors, place = targets[:, k] - said[:, k], said[:, k]
            # where inputs tell next to nothing, predictions differ by what leaving a row out takes from them:
            # its own error. By such places intervals of 90 % held 85 % of pure noise.
            if place.std() < LEAST_VARIATION * errors.std():
                place = np.full(len(place), place.mean())
            scale, ahead = Scale.of(points, place, errors, weights, free[:MOST_INPUTS])
            larger = 1.0 if factor is None else float(factor[k])
            scales.append(scale)
            scores.append(Scores.of(place, larger * errors / ahead, weights, sizes=ahead))
        return cls(tuple(scales), tuple(scores), presence)

    # --- as evidence of a chart that was trained ------------------------------------------------------

    def holds(self, update: int) -> bool:
        """It goes with its chart only."""
        return False

    def revert(self, update: int, state: State) -> State:
        """There is nothing to take back."""
        return state

    # --- learning -------------------------------------------------------------------------------------

    def seen(self, points: Array, said: Array, targets: Array, weights: Array | None) -> Seen:
        """What rows add that were not learned yet."""
        if not self.scales:
            tallies = [self.scores[0].tally(np.zeros(len(said)), surprise_of(said, targets), weights)]
        else:
            tallies = [
                scores.tally(said[:, k], (targets[:, k] - said[:, k]) / scale(points, said[:, k]), weights)
                for k, (scale, scores) in enumerate(zip(self.scales, self.scores, strict=True))
            ]
        return Seen(tuple(tallies), None if self.presence is None else self.presence.visits_of(points))

    def after(self, seen: Seen) -> Spread:
        """The spread after an update: older scores fade."""
        pairs = zip(self.scores, seen.tallies, strict=True)
        return self._with(tuple(each.after(tally) for each, tally in pairs), seen)

    def joined(self, seen: Seen) -> Spread:
        """The spread with more of the first rows."""
        pairs = zip(self.scores, seen.tallies, strict=True)
        return self._with(tuple(each.joined(tally) for each, tally in pairs), seen)

    def _with(self, scores: tuple[Scores, ...], seen: Seen) -> Spread:
        presence = self.presence
        if presence is not None and seen.visits is not None:
            presence = presence.after(seen.visits)
        return replace(self, scores=scores, presence=presence)

    def forgotten(self, points: Array) -> Spread:
        """The spread without some rows: where they were is forgotten, what they taught of errors stays."""
        if self.presence is None:
            return self
        return replace(self, presence=self.presence.forgotten(self.presence.visits_of(points)))

    # --- what it says ---------------------------------------------------------------------------------

    def ends(self, points: Array, said: Array, coverages: Array) -> Array:
        """Ends of intervals, less the prediction: shape (rows, outputs, coverages, 2)."""
        found = np.empty((*said.shape, len(coverages), 2))
        for k, (scale, scores) in enumerate(zip(self.scales, self.scores, strict=True)):
            size = scale(points, said[:, k])[:, None]
            for c, coverage in enumerate(coverages):
                found[:, k, c] = size * scores.ends(said[:, k], float(coverage))
        return found

    def level(self, points: Array, said: Array, quantile: float) -> Array:
        """Quantile of targets, less the prediction: shape (rows, outputs)."""
        parts = zip(self.scales, self.scores, said.T, strict=True)
        return np.stack(
            [scale(points, at) * scores.level(at, quantile) for scale, scores, at in parts], axis=1
        )

    def deviation(self, points: Array, said: Array) -> Array:
        """Standard deviation of errors: shape (rows, outputs)."""
        parts = zip(self.scales, self.scores, said.T, strict=True)
        return np.stack([scale(points, at) * scores.deviation(at) for scale, scores, at in parts], axis=1)

    def most_surprise(self, rows: int, coverages: Array) -> Array:
        """The largest −log p of a class that is in the set of a coverage, shape (rows, coverages)."""
        ends = [self.scores[0].ends(np.zeros(1), float(coverage))[0, 1] for coverage in coverages]
        return np.tile(ends, (rows, 1))


def surprise_of(said: Array, labels: Array) -> Array:
    """−log p of the class that came, shape (rows,)."""
    return np.asarray(-(labels * log_softmax(said, axis=1)).sum(axis=1))


def telling_inputs(features: Features) -> list[int]:
    """Inputs that a feature depends on, those along which data varies fastest first."""
    lengths = np.full(features.inputs, np.inf)
    for group in features.bumps:
        lengths = np.minimum(lengths, group.lengths)
    return sorted(features.used, key=lambda j: (lengths[j], j))
