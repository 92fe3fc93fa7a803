"""Variances of the outputs of any state, by a pick-freeze design: for models with a local term for each row.

Points come in pairs that exchange one or two of their inputs (Saltelli 2002). Total effects are mean squares
of the differences (Jansen 1999). The effect of an input alone, and that of two inputs together, is the mean
product of such differences, or of differences of differences, at two independent points of all other inputs:
what else these inputs take part in has a mean of zero there. What has no effect gets zero, without noise.
Section 10 of docs/math.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.state import State

__all__ = ["PICK_FREEZE_RULES", "PickFreeze", "PickFreezeRules"]

Array = NDArray[np.float64]
Both = tuple[Array, Array]  # outputs at the first and at the second point of each pair, (pairs, outputs)


@dataclass(frozen=True)
class PickFreezeRules:
    """How many points variances are estimated with.

    Attributes
    ----------
    most_pairs, least_pairs
        Pairs of points; powers of two, since a Sobol sequence is balanced only there. Over seeds, shares of
        fitted models of 4 to 30 inputs have standard deviations of up to 0.0015 (total effects) and 0.0035
        (others).
    evaluations
        Points at which a state is evaluated for the effects of single inputs, and again for those of two,
        unless the least number of pairs needs more: three seconds for 30 inputs and boxes of 1,000 rows.
    least_share
        Inputs whose interactions with all others have a smaller share of the variance are in no pair.
    """

    most_pairs: int = 2**13
    least_pairs: int = 256
    evaluations: int = 2**18
    least_share: float = 1e-4

    def pairs_for(self, exchanges: int) -> int:
        """Pairs of points, each of which is evaluated once more for every exchange of inputs."""
        affordable = self.evaluations // (2 * max(1, exchanges))
        return max(self.least_pairs, min(self.most_pairs, 1 << max(0, affordable.bit_length() - 1)))


PICK_FREEZE_RULES = PickFreezeRules()


@dataclass(frozen=True, eq=False)
class PickFreeze:
    """Variances of a state without its charts, added up over the outputs; inputs are independent and uniform.

    Attributes
    ----------
    state
        The state.
    seed
        Of the Sobol sequence; the same points each time.
    """

    state: State
    seed: int = 0
    rules: PickFreezeRules = PICK_FREEZE_RULES

    @cached_property
    def _points(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """First and second points of pairs, shape (pairs, inputs) each."""
        from scipy.stats.qmc import Sobol  # takes as long to import as the package

        inputs = self.state.lattice.inputs
        sequence = Sobol(2 * inputs, rng=np.random.default_rng(self.seed))
        drawn = sequence.random(self.rules.pairs_for(inputs + 1)).astype(self.state.dtype)
        return np.ascontiguousarray(drawn[:, :inputs]), np.ascontiguousarray(drawn[:, inputs:])

    def _exchanged(self, inputs: Sequence[int], pairs: int | None = None) -> Both:
        """Outputs where the points of each pair have exchanged some inputs; of the first so many pairs."""
        points, others = (side[:pairs].copy() for side in self._points)
        points[:, inputs], others[:, inputs] = others[:, inputs], points[:, inputs]
        bare = self.state.with_charts(())
        first, second = (evaluate(bare, side).astype(np.float64) for side in (points, others))
        return first, second

    @cached_property
    def _outputs(self) -> Both:
        return self._exchanged([])

    @cached_property
    def _moved(self) -> list[Both]:
        """Outputs where each input in turn is exchanged."""
        return [self._exchanged([j]) for j in range(self.state.lattice.inputs)]

    @cached_property
    def _differences(self) -> list[Both]:
        """By how much outputs at the own coordinate along each input exceed those at the other one.

        All other inputs are those of the first point, and then those of the second.
        """
        first, second = self._outputs
        return [(first - moved, back - second) for moved, back in self._moved]

    @cached_property
    def whole(self) -> float:
        """The variance; 0 if outputs differ by rounding alone."""
        outputs = np.concatenate(self._outputs)
        whole = float(outputs.var(axis=0).sum())
        rounding = 8 * float(np.finfo(self.state.dtype).eps) * np.abs(outputs).max()
        return whole if whole > rounding**2 else 0.0

    @cached_property
    def total(self) -> Array:
        """What vanishes, on average, once an input is known besides all others, shape (inputs,)."""
        return np.array([mean_product(a, a) + mean_product(b, b) for a, b in self._differences]) / 4

    @cached_property
    def pairs(self) -> Array:
        """What two inputs add to what each does alone, and on the diagonal each alone: (inputs, inputs)."""
        main = np.array([mean_product(a, b) for a, b in self._differences]) / 2
        found = np.diag(main.clip(0))
        # of an input it is the mean square of (a − b)/2, and so has no noise where there are no interactions
        interacting = np.flatnonzero(self.total - main > self.rules.least_share * self.whole).tolist()
        count = self.rules.pairs_for(len(interacting) * (len(interacting) - 1) // 2)
        for i, j in combinations(interacting, 2):
            found[i, j] = found[j, i] = max(0.0, self._together(i, j, min(count, len(self._points[0]))))
        return found

    def _together(self, i: int, j: int, pairs: int) -> float:
        """The variance of two inputs together, from differences of differences."""
        both, back = self._exchanged([i, j], pairs)
        first, second = (outputs[:pairs] for outputs in self._outputs)
        (moved_i, back_i), (moved_j, back_j) = (
            (a[:pairs], b[:pairs]) for a, b in (self._moved[i], self._moved[j])
        )
        return mean_product(first - moved_i - moved_j + both, back - back_i - back_j + second) / 4


def mean_product(a: Array, b: Array) -> float:
    """Mean over rows of products, added up over outputs."""
    return float((a * b).sum() / len(a))
