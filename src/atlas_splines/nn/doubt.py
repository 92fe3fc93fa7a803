"""How sure an estimator is, as modules: intervals of one coverage, sets of classes, and support.

All of it is computed in float64, as the estimator does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from torch import Tensor, nn

from atlas_splines.core.model import state_of
from atlas_splines.core.state import State
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.presence import (
    ENOUGH,
    ENOUGH_IN_PAIR,
    GRAIN,
    HALF,
    QUANTILES,
    USUAL,
    Presence,
)
from atlas_splines.evidence.readout import Readout
from atlas_splines.evidence.scale import LARGEST, Scale
from atlas_splines.evidence.scores import Scores
from atlas_splines.evidence.spread import Spread
from atlas_splines.memory.doubt import needed_presence, needed_spread, spread_of
from atlas_splines.nn.charts import AtlasChart
from atlas_splines.nn.tables import locate

__all__ = ["Doubt"]

Ask = Callable[["SpreadModule", Tensor, Tensor], Tensor]


class Exact(nn.Module):
    """Constants that no change of the module's dtype rounds, by name; they are in no checkpoint."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__()
        self.arrays = dict(arrays)
        self._derive(torch.device("cpu"))

    def _derive(self, device: torch.device) -> None:
        for name, values in self.arrays.items():
            self.register_buffer(name, torch.tensor(values, device=device), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> Exact:
        super()._apply(fn, recurse)
        self._derive(next(self.buffers()).device)
        return self

    def __getitem__(self, name: str) -> Tensor:
        return cast(Tensor, getattr(self, name))


class Doubt(nn.Module):
    """What a state with charts knows about its errors, and where it has rows, as `memory.doubt` says it.

    Parameters
    ----------
    state
        A state with a spread.
    coverage
        Of the intervals or sets, if there are to be any.
    support
        Whether support is asked for.
    """

    def __init__(self, state: State, coverage: float | None, support: bool) -> None:
        super().__init__()
        self.base = SpreadModule(needed_spread(state), state, coverage, support)
        contents = [state_of(chart.content) for chart in state.charts]
        spreads = [(number, spread_of(content)) for number, content in enumerate(contents)]
        known = [(number, spread) for number, spread in spreads if spread is not None]
        self.numbers = [number for number, _ in known]  # of charts that know their errors
        self.own = nn.ModuleList(
            SpreadModule(spread, contents[number], coverage, support) for number, spread in known
        )

    def ends(self, charts: nn.ModuleList, points: Tensor, said: Tensor) -> Tensor:
        """Ends of intervals, less what is said: (points, outputs, 2).

        `charts` are those of the model, `points` are in its domain and dtype, and `said` are its outputs.
        """
        return self._blended(charts, points, said, SpreadModule.ends, sized=True)

    def most_surprise(self, charts: nn.ModuleList, points: Tensor, said: Tensor) -> Tensor:
        """The largest −log p of a class that is in the set: (points,)."""
        return self._blended(charts, points, said, SpreadModule.most_surprise, sized=False)

    def support(self, charts: nn.ModuleList, points: Tensor, said: Tensor) -> Tensor:
        """How much evidence stands behind predictions, from 0 to 1: (points,)."""
        return self._blended(charts, points, said, SpreadModule.support, sized=False)

    def _blended(self, charts: nn.ModuleList, points: Tensor, said: Tensor, ask: Ask, sized: bool) -> Tensor:
        """What the spread of the state says, and inside charts theirs."""
        values = ask(self.base, points.to(torch.float64), said)
        for number, own in zip(self.numbers, self.own, strict=True):
            chart = cast(AtlasChart, charts[number])
            size, window = chart.size.to(torch.float64), chart.window(points).to(torch.float64)
            found = ask(cast(SpreadModule, own), chart.to_local(points).to(torch.float64), said / size)
            found = found * size[:, None] if sized else found
            share = window.reshape(-1, *[1] * (found.ndim - 1))
            values = torch.where(share > 0, (1 - share) * values + share * found, values)
        return values


class SpreadModule(nn.Module):
    """One spread, without charts: what `Spread` says for one coverage, and support if that is wanted."""

    def __init__(self, spread: Spread, state: State, coverage: float | None, support: bool) -> None:
        super().__init__()
        if coverage is not None and spread.scales:
            pairs = zip(spread.scales, spread.scores, strict=True)
            self.outputs = nn.ModuleList(EndsModule(scale, scores, coverage) for scale, scores in pairs)
        elif coverage is not None:
            self.most = float(spread.scores[0].ends(np.zeros(1), coverage)[0, 1])
        if support:
            pool, self.presence = state.evidence, PresenceModule(needed_presence(spread))
            self.leverage = None
            if isinstance(pool, Pool) and needed_presence(spread).counts_leverage:
                self.leverage = Leverage(pool.features, pool.first)

    def ends(self, points: Tensor, said: Tensor) -> Tensor:
        """Ends of intervals, less what is said: (points, outputs, 2)."""
        inside = points.clamp(0, 1)
        return torch.stack([ends(inside, said[:, k]) for k, ends in enumerate(self.outputs)], dim=1)

    def most_surprise(self, points: Tensor, said: Tensor) -> Tensor:
        """The largest −log p of a class that is in the set: (points,)."""
        return torch.full_like(said[:, 0], self.most)

    def support(self, points: Tensor, said: Tensor) -> Tensor:
        """How much evidence stands behind predictions, from 0 to 1: (points,)."""
        inside = points.clamp(0, 1)
        found = self.presence(inside, None if self.leverage is None else self.leverage(inside))
        return torch.where((points == inside).all(1), found, 0)


class EndsModule(nn.Module):
    """Ends of the intervals of one output: its scale times quantiles of its scores."""

    def __init__(self, scale: Scale, scores: Scores, coverage: float) -> None:
        super().__init__()
        sizes = np.cumsum(scale.features.sizes)  # the constant, coarse splines, finer ones of the prediction
        inputs = len(scale.features.coarse)
        self.exact = Exact(
            {
                "inputs": np.array(scale.features.coarse[:-1], np.int64),
                "knots": scale.knots,
                "places": np.linspace(0, 1, len(scale.knots)),
                "constant": scale.weights[0],
                "coarse": scale.weights[1 : sizes[1]].reshape(inputs, -1),
                "fine": scale.weights[None, sizes[1] :],
                "centres": scores.centres,
                "ends": scores.ends(scores.centres, coverage).T,  # (2, regions)
            }
        )

    def forward(self, inside: Tensor, said: Tensor) -> Tensor:
        """Ends, less what is said, at points of the unit cube: (points, 2)."""
        exact = self.exact
        place = interpolated(said, exact["knots"], exact["places"])[:, None]
        logs = splines_at(torch.cat([inside[:, exact["inputs"]], place], dim=1), exact["coarse"])
        logs = exact["constant"] + logs + splines_at(place, exact["fine"])
        size = logs.clamp(-LARGEST, LARGEST).exp()
        low, high = exact["ends"]
        ends = [interpolated(said, exact["centres"], end) for end in (low, high)]
        return size[:, None] * torch.stack(ends, dim=1)


class Leverage(nn.Module):
    """φᵀΛ⁻¹φ of points."""

    def __init__(self, features: Features, readout: Readout) -> None:
        super().__init__()
        inverse = solve_triangular(readout.factor, np.eye(len(readout.factor)), lower=True)
        white = inverse.T if readout.face is None else readout.face.basis @ inverse.T  # (features, steps)
        arrays = {"white": np.ascontiguousarray(white)}
        for name in ("coarse", "linear"):
            arrays[name] = np.array(getattr(features, name), np.int64)
        for k, group in enumerate(features.bumps):
            both = group.both_sides
            arrays |= {
                f"scale_{k}": 1 / both,
                f"bells_{k}": group.centres / both,
                f"centres_{k}": group.centres,
            }
        self.fine, self.bumps = features.fine, features.bumps
        self.exact = Exact(arrays)

    def forward(self, inside: Tensor) -> Tensor:
        """The leverage of each point of the unit cube: (points,)."""
        _, weights = locate(inside[:, self.exact["coarse"]], 1)  # density 0: all four functions are active
        parts = [torch.ones_like(inside[:, :1]), weights.transpose(1, 2).flatten(1)]
        parts += [inside[:, self.exact["linear"]]]
        parts += [basis_at(inside[:, j], 2 ** (density + 2)) for j, density in self.fine]
        parts += [self._bumps(inside, k) for k in range(len(self.bumps))]
        return (torch.cat(parts, dim=1) @ self.exact["white"]).square().sum(1)

    def _bumps(self, inside: Tensor, k: int) -> Tensor:
        """Values of a group of bumps: (points, bumps)."""
        at, bells = inside * self.exact[f"scale_{k}"], self.exact[f"bells_{k}"]
        squared = at.square().sum(1, keepdim=True) + bells.square().sum(1) - 2 * at @ bells.T
        exponents = squared.clamp(min=0)
        for j in np.flatnonzero(self.bumps[k].sides).tolist():  # with one side, a cubic
            turn = self.bumps[k].sides[j] / float(self.bumps[k].lengths[j])
            apart = turn * (self.exact[f"centres_{k}"][:, j] - inside[:, j : j + 1])
            exponents = exponents + apart.clamp(min=0) ** 3
        return (-0.5 * exponents).exp()


class PresenceModule(nn.Module):
    """Support of points by where rows have been, and by their leverage if that counts."""

    def __init__(self, presence: Presence) -> None:
        super().__init__()
        counts, paired = presence.visits.alone, presence.visits.paired  # (inputs, cells), (pairs, side, side)
        enough = np.minimum(counts.sum(axis=1, keepdims=True) / presence.cells, ENOUGH)
        rows = np.maximum(paired.sum(axis=(1, 2)), 1.0)[:, None, None]
        expected = paired.sum(axis=2, keepdims=True) * paired.sum(axis=1, keepdims=True) / rows
        first, second = np.array(presence.inputs, np.int64)[presence.pairs.T]
        self.cells, self.side, self.pairs = presence.cells, presence.side, len(presence.pairs)
        self.exact = Exact(
            {
                "alone": np.log(np.minimum((counts + HALF) / (enough + HALF), 1)).ravel(),
                "starts": presence.cells * np.arange(len(counts)),  # of an input among all cells
                "first": first,  # input of each pair
                "second": second,
                "corners": paired[0].size * np.arange(len(paired)) if len(paired) else np.zeros(0, np.int64),
                "near": paired.ravel(),
                "expected": expected.ravel(),
                "usual": presence.usual,  # (views, quantiles)
                "share": np.linspace(0, 1, QUANTILES),
            }
        )

    def forward(self, inside: Tensor, leverage: Tensor | None) -> Tensor:
        """Support of points of the unit cube: (points,)."""
        views = [self._alone(inside), self._paired(inside)]
        if leverage is not None:
            views.append(-leverage.clamp(min=1e-300).log())
        usual, share = self.exact["usual"], self.exact["share"]
        shares = [interpolated(view, usual[k], share) for k, view in enumerate(views)]
        return (torch.stack(shares).amin(0) / USUAL).clamp(max=1)

    def _alone(self, inside: Tensor) -> Tensor:
        """Rows along each input, over what is enough: (points,)."""
        cells = (inside * self.cells).to(torch.int64).clamp(max=self.cells - 1)
        return self.exact["alone"][cells + self.exact["starts"]].amin(1)

    def _paired(self, inside: Tensor) -> Tensor:
        """Rows in each pair, over what independent inputs would have there, or enough: (points,)."""
        if not self.pairs:
            return torch.zeros_like(inside[:, 0])
        places = [inside[:, self.exact[name]] * self.side + HALF for name in ("first", "second")]
        cells = [place.floor() for place in places]
        uppers = [((p - c) * GRAIN).round() / GRAIN for p, c in zip(places, cells, strict=True)]
        near, expected = torch.zeros_like(uppers[0]), torch.zeros_like(uppers[0])
        row, column = (cell.to(torch.int64) for cell in cells)
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            share = (uppers[0] if a else 1 - uppers[0]) * (uppers[1] if b else 1 - uppers[1])
            corner = self.exact["corners"] + (row + a) * (self.side + 2) + column + b
            near = near + share * self.exact["near"][corner]
            expected = expected + share * self.exact["expected"][corner]
        enough = expected.clamp(max=ENOUGH_IN_PAIR)
        return ((near + HALF) / (enough + HALF)).amin(1).clamp(max=1).log()


def interpolated(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """`np.interp`: x has shape (points,), rising knots and their values (knots,)."""
    piece = (x[:, None] >= knots).sum(1).sub(1).clamp(min=0)
    following = (piece + 1).clamp(max=len(knots) - 1)
    width = knots[following] - knots[piece]
    share = ((x - knots[piece]) / torch.where(width > 0, width, 1)).clamp(0, 1)
    return values[piece] + share * (values[following] - values[piece])


def splines_at(points: Tensor, coefficients: Tensor) -> Tensor:
    """Sum over the columns of points, (points, columns), of splines with coefficients (columns, λ)."""
    columns, functions = coefficients.shape
    cells, weights = locate(points, functions - 3)
    starts = functions * torch.arange(columns, device=points.device)
    active = (cells + starts)[:, None] + torch.arange(4, device=points.device)[:, None]  # as the weights
    return (coefficients.flatten()[active] * weights).sum((1, 2))


def basis_at(column: Tensor, functions: int) -> Tensor:
    """Values of all λ basis functions of one input: (points, λ)."""
    cells, weights = locate(column[:, None], functions - 3)  # (points, 1), (points, 4, 1)
    numbers = torch.arange(functions, device=column.device)
    active = cells + torch.arange(4, device=column.device)  # (points, 4)
    return torch.where(active[:, :, None] == numbers, weights, 0).sum(1)
