"""Fitted estimators as modules, with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from torch import Tensor, nn

from atlas_splines.estimators.targets import ROOT_OF_ZERO, least_count
from atlas_splines.memory.conformal import ConformalScores
from atlas_splines.memory.data_density import DENSITY_RULES, DataDensity
from atlas_splines.memory.error_model import SCALE_RULES, ErrorModel, ResidualScale
from atlas_splines.memory.features import Features
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import Posterior
from atlas_splines.memory.random_effects import LATER, STEPS
from atlas_splines.model.atlas import state_of
from atlas_splines.model.state import LEVEL_STEPS, State
from atlas_splines.nn.gather import locate
from atlas_splines.nn.module import AtlasModule
from atlas_splines.nn.terms import AtlasChart, levelled
from atlas_splines.updates.intervals import error_model_of, needed_density, needed_error_model

if TYPE_CHECKING:
    from atlas_splines.estimators.classifier import AtlasClassifier
    from atlas_splines.estimators.regressor import AtlasRegressor

__all__ = ["EstimatorModule", "Uncertainty"]

Ask = Callable[["ErrorModelModule", Tensor, Tensor], Tensor]


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


class Uncertainty(nn.Module):
    """Intervals and support of a state with charts, as `updates.intervals` computes them.

    Parameters
    ----------
    state
        A state with an error model.
    coverage
        Of the intervals or sets; None for neither.
    support
        Whether support is computed.
    """

    def __init__(self, state: State, coverage: float | None, support: bool) -> None:
        super().__init__()
        self.base = ErrorModelModule(needed_error_model(state), state, coverage, support)
        contents = [state_of(chart.content) for chart in state.charts]
        error_models = [(number, error_model_of(content)) for number, content in enumerate(contents)]
        known = [(number, spread) for number, spread in error_models if spread is not None]
        self.numbers = [number for number, _ in known]  # of charts that have an error model
        self.own = nn.ModuleList(
            ErrorModelModule(spread, contents[number], coverage, support) for number, spread in known
        )

    def ends(self, charts: nn.ModuleList, points: Tensor, predicted: Tensor) -> Tensor:
        """Interval bounds relative to the prediction: (points, outputs, 2).

        `charts` are those of the model, `points` are in its domain and dtype, `predicted` are its outputs.
        """
        return self._blended(charts, points, predicted, ErrorModelModule.ends, sized=True)

    def largest_surprisal(self, charts: nn.ModuleList, points: Tensor, predicted: Tensor) -> Tensor:
        """The largest −log p of a class that is in the set: (points,)."""
        return self._blended(charts, points, predicted, ErrorModelModule.largest_surprisal, sized=False)

    def support(self, charts: nn.ModuleList, points: Tensor, predicted: Tensor) -> Tensor:
        """Support of predictions by the data density, from 0 to 1: (points,)."""
        return self._blended(charts, points, predicted, ErrorModelModule.support, sized=False)

    def _blended(
        self, charts: nn.ModuleList, points: Tensor, predicted: Tensor, ask: Ask, sized: bool
    ) -> Tensor:
        """A value of the state's error model, blended with those of charts inside their windows."""
        values = ask(self.base, points.to(torch.float64), predicted)
        for number, own in zip(self.numbers, self.own, strict=True):
            chart = cast(AtlasChart, charts[number])
            size, membership = chart.size.to(torch.float64), chart.membership(points).to(torch.float64)
            found = ask(
                cast(ErrorModelModule, own), chart.to_local(points).to(torch.float64), predicted / size
            )
            found = found * size[:, None] if sized else found
            share = membership.reshape(-1, *[1] * (found.ndim - 1))
            values = torch.where(share > 0, (1 - share) * values + share * found, values)
        return values


class ErrorModelModule(nn.Module):
    """One `ErrorModel`, without charts, for one coverage, and support if that is requested."""

    def __init__(self, spread: ErrorModel, state: State, coverage: float | None, support: bool) -> None:
        super().__init__()
        if coverage is not None and spread.scales:
            pairs = zip(spread.scales, spread.scores, strict=True)
            self.outputs = nn.ModuleList(EndsModule(scale, scores, coverage) for scale, scores in pairs)
        elif coverage is not None:
            self.most = float(spread.scores[0].ends(np.zeros(1), coverage)[0, 1])
        if support:
            pool, self.data_density = state.pooled, DataDensityModule(needed_density(spread))
            self.leverage = None
            if isinstance(pool, Pool) and needed_density(spread).counts_leverage:
                self.leverage = Leverage(pool.features, pool.first)

    def ends(self, points: Tensor, predicted: Tensor) -> Tensor:
        """Interval bounds relative to the prediction: (points, outputs, 2)."""
        inside = points.clamp(0, 1)
        return torch.stack([ends(inside, predicted[:, k]) for k, ends in enumerate(self.outputs)], dim=1)

    def largest_surprisal(self, points: Tensor, predicted: Tensor) -> Tensor:
        """The largest −log p of a class that is in the set: (points,)."""
        return torch.full_like(predicted[:, 0], self.most)

    def support(self, points: Tensor, predicted: Tensor) -> Tensor:
        """Support of predictions by the data density, from 0 to 1: (points,)."""
        inside = points.clamp(0, 1)
        found = self.data_density(inside, None if self.leverage is None else self.leverage(inside))
        return torch.where((points == inside).all(1), found, 0)


class EndsModule(nn.Module):
    """Ends of the intervals of one output: its scale times quantiles of its scores."""

    def __init__(self, scale: ResidualScale, scores: ConformalScores, coverage: float) -> None:
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

    def forward(self, inside: Tensor, predicted: Tensor) -> Tensor:
        """Interval bounds relative to the prediction, at points of the unit cube: (points, 2)."""
        exact = self.exact
        place = interpolated(predicted, exact["knots"], exact["places"])[:, None]
        logs = splines_at(torch.cat([inside[:, exact["inputs"]], place], dim=1), exact["coarse"])
        logs = exact["constant"] + logs + splines_at(place, exact["fine"])
        size = logs.clamp(-SCALE_RULES.largest_log, SCALE_RULES.largest_log).exp()
        low, high = exact["ends"]
        ends = [interpolated(predicted, exact["centres"], end) for end in (low, high)]
        return size[:, None] * torch.stack(ends, dim=1)


class Leverage(nn.Module):
    """φᵀΛ⁻¹φ of points."""

    def __init__(self, features: Features, posterior: Posterior) -> None:
        super().__init__()
        inverse = solve_triangular(posterior.factor, np.eye(len(posterior.factor)), lower=True)
        white = inverse.T if posterior.face is None else posterior.face.basis @ inverse.T  # (features, steps)
        arrays = {"white": np.ascontiguousarray(white)}
        for name in ("coarse", "linear"):
            arrays[name] = np.array(getattr(features, name), np.int64)
        for k, group in enumerate(features.radial_bases):
            both = group.two_sided_lengths
            arrays |= {
                f"scale_{k}": 1 / both,
                f"bells_{k}": group.centres / both,
                f"centres_{k}": group.centres,
            }
        self.fine, self.radial_bases = features.fine, features.radial_bases
        self.exact = Exact(arrays)

    def forward(self, inside: Tensor) -> Tensor:
        """The leverage of each point of the unit cube: (points,)."""
        _, weights = locate(inside[:, self.exact["coarse"]], 1)  # density 0: all four functions are active
        parts = [torch.ones_like(inside[:, :1]), weights.transpose(1, 2).flatten(1)]
        parts += [inside[:, self.exact["linear"]]]
        parts += [basis_at(inside[:, j], 2 ** (density + 2)) for j, density in self.fine]
        parts += [self._bases(inside, k) for k in range(len(self.radial_bases))]
        return (torch.cat(parts, dim=1) @ self.exact["white"]).square().sum(1)

    def _bases(self, inside: Tensor, k: int) -> Tensor:
        """Values of a group of radial basis functions: (points, functions)."""
        at, gaussian_kernels = inside * self.exact[f"scale_{k}"], self.exact[f"bells_{k}"]
        squared = (
            at.square().sum(1, keepdim=True) + gaussian_kernels.square().sum(1) - 2 * at @ gaussian_kernels.T
        )
        exponents = squared.clamp(min=0)
        for j in np.flatnonzero(self.radial_bases[k].sides).tolist():  # with one side, a cubic
            turn = self.radial_bases[k].sides[j] / float(self.radial_bases[k].lengths[j])
            apart = turn * (self.exact[f"centres_{k}"][:, j] - inside[:, j : j + 1])
            exponents = exponents + apart.clamp(min=0) ** 3
        return (-0.5 * exponents).exp()


class DataDensityModule(nn.Module):
    """Support of points by the data density, and by their leverage if that is included."""

    def __init__(self, data_density: DataDensity) -> None:
        super().__init__()
        counts, paired = (
            data_density.cell_counts.alone,
            data_density.cell_counts.paired,
        )  # (inputs, cells), (pairs, side, side)
        enough = np.minimum(counts.sum(axis=1, keepdims=True) / data_density.cells, DENSITY_RULES.enough)
        rows = np.maximum(paired.sum(axis=(1, 2)), 1.0)[:, None, None]
        expected = paired.sum(axis=2, keepdims=True) * paired.sum(axis=1, keepdims=True) / rows
        first, second = np.array(data_density.inputs, np.int64)[data_density.pairs.T]
        self.cells, self.side, self.pairs = data_density.cells, data_density.side, len(data_density.pairs)
        self.exact = Exact(
            {
                "alone": np.log(
                    np.minimum(
                        (counts + DENSITY_RULES.pseudo_count) / (enough + DENSITY_RULES.pseudo_count), 1
                    )
                ).ravel(),
                "starts": data_density.cells * np.arange(len(counts)),  # of an input among all cells
                "first": first,  # input of each pair
                "second": second,
                "corners": paired[0].size * np.arange(len(paired)) if len(paired) else np.zeros(0, np.int64),
                "near": paired.ravel(),
                "expected": expected.ravel(),
                "usual": data_density.usual,  # (views, quantiles)
                "share": np.linspace(0, 1, DENSITY_RULES.quantiles),
            }
        )

    def forward(self, inside: Tensor, leverage: Tensor | None) -> Tensor:
        """Support of points of the unit cube: (points,)."""
        views = [self._marginal(inside), self._pairwise(inside)]
        if leverage is not None:
            views.append(-leverage.clamp(min=1e-300).log())
        usual, share = self.exact["usual"], self.exact["share"]
        shares = [interpolated(view, usual[k], share) for k, view in enumerate(views)]
        return (torch.stack(shares).amin(0) / DENSITY_RULES.usual).clamp(max=1)

    def _marginal(self, inside: Tensor) -> Tensor:
        """Least marginal density over the inputs, relative to a sufficient count: (points,)."""
        cells = (inside * self.cells).to(torch.int64).clamp(max=self.cells - 1)
        return self.exact["alone"][cells + self.exact["starts"]].amin(1)

    def _pairwise(self, inside: Tensor) -> Tensor:
        """Least density over pairs, relative to independent inputs or a sufficient count: (points,)."""
        if not self.pairs:
            return torch.zeros_like(inside[:, 0])
        places = [inside[:, self.exact[name]] * self.side + 0.5 for name in ("first", "second")]
        cells = [place.floor() for place in places]
        uppers = [
            ((p - c) * DENSITY_RULES.grain).round() / DENSITY_RULES.grain
            for p, c in zip(places, cells, strict=True)
        ]
        near, expected = torch.zeros_like(uppers[0]), torch.zeros_like(uppers[0])
        row, column = (cell.to(torch.int64) for cell in cells)
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            share = (uppers[0] if a else 1 - uppers[0]) * (uppers[1] if b else 1 - uppers[1])
            corner = self.exact["corners"] + (row + a) * (self.side + 2) + column + b
            near = near + share * self.exact["near"][corner]
            expected = expected + share * self.exact["expected"][corner]
        enough = expected.clamp(max=DENSITY_RULES.enough_in_pair)
        return (
            ((near + DENSITY_RULES.pseudo_count) / (enough + DENSITY_RULES.pseudo_count))
            .amin(1)
            .clamp(max=1)
            .log()
        )


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


class EstimatorModule(nn.Module):
    """A fitted estimator as a module, from raw columns to predictions, for export and for gradients.

    Input (rows, columns), numbers as they are. Output what `AtlasRegressor.predict` returns, or
    `AtlasClassifier.predict_proba`, in float64. What they refuse gives NaN here: a missing value if the
    estimator has missing="error", and a row outside the domain with extrapolation="error".

    With `coverage` or `support` the output is a tuple, named by `output_names`: the same as "y"; then for a
    regressor "low" and "high", the ends of `predict_interval`, and for a classifier "set", the truth values
    of `predict_set`; and "support".

    A model with memory="rows" has its rows in the module, in its checkpoints and in its exports: their
    coordinates are the centres of local terms. With memory="sums" there are none.

    Parameters
    ----------
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`; the module does not follow it if it learns more.
    coverage
        Of the intervals, or sets of classes; by default there are none.
    support
        Whether to compute the support of each row by the training data.

    Attributes
    ----------
    model
        The `AtlasModule` inside. Only its coefficients are in a checkpoint.
    columns
        Number of columns.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from atlas_splines import AtlasRegressor
    >>> X = 100 * np.random.default_rng(0).random((500, 2))
    >>> estimator = AtlasRegressor(terms=0, members=1, random_state=0).fit(X, X[:, 0] - X[:, 1])
    >>> module = EstimatorModule(estimator)
    >>> bool(abs(module(torch.tensor(X)).detach().numpy() - estimator.predict(X)).max() < 1e-3)
    True
    """

    left: Tensor
    first: Tensor
    units: Tensor
    slope: Tensor
    fill: Tensor
    indicators: Tensor
    ends: Tensor
    room: Tensor
    stretch: Tensor
    lengths: Tensor
    mean: Tensor
    spread: Tensor
    dispersion: Tensor
    least: Tensor

    def __init__(
        self,
        estimator: AtlasRegressor | AtlasClassifier,
        *,
        coverage: float | None = None,
        support: bool = False,
    ) -> None:
        from atlas_splines.estimators.classifier import AtlasClassifier  # needs scikit-learn
        from atlas_splines.estimators.footprints import SLOPE_STEPS
        from atlas_splines.estimators.predict import checked_coverages
        from atlas_splines.estimators.regressor import AtlasRegressor

        super().__init__()
        if not isinstance(estimator, AtlasRegressor | AtlasClassifier):
            raise TypeError(
                f"estimator is a {type(estimator).__name__}; give an AtlasRegressor or an AtlasClassifier"
            )
        if not hasattr(estimator, "model_"):
            raise ValueError("the estimator is not fitted; call its fit first")
        if estimator.loss == "quantile":
            raise ValueError(
                "quantiles are predicted by the estimator only; set loss='squared_error' for the mean"
            )
        estimator = estimator._now()
        self.model = AtlasModule.from_model(estimator.model_)
        self.columns = len(estimator.domain_.knots)
        levels = estimator.domain_.levels
        self.coded = sorted(levels)  # columns that hold codes of categories
        self.apart = [j for j in self.coded if levels[j].are_apart]  # whose other coordinates are beside them
        self.extrapolation = estimator.extrapolation
        self.learns_missing = estimator.missing == "learn"
        self.classifies = isinstance(estimator, AtlasClassifier)
        self.one_column = not self.classifies and estimator._one_column
        self.counts = not self.classifies and estimator._counts
        self.steps = SLOPE_STEPS
        self.has_ends, self.has_support = coverage is not None, support
        if coverage is not None:
            coverage = float(checked_coverages(coverage)[0])
        state = state_of(estimator.model_)
        self.uncertainty = Uncertainty(state, coverage, support) if self.has_ends or support else None
        self.constants = constants_of(estimator)
        self._derive()

    def _derive(self) -> None:
        """Set the constants, in float64 whatever the model's dtype, since columns may have any scale."""
        for name, values in self.constants.items():
            self.register_buffer(name, torch.tensor(values, device=self.model.scale.device), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> EstimatorModule:
        super()._apply(fn, recurse)
        self._derive()
        return self

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in their order."""
        ends = ["set"] if self.classifies else ["low", "high"]
        return ["y", *(ends if self.has_ends else []), *(["support"] if self.has_support else [])]

    def forward(self, X: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Predict the rows of X."""
        if X.ndim != 2 or X.shape[1] != self.columns:
            raise ValueError(f"X has shape {tuple(X.shape)}; expected (rows, {self.columns})")
        if not X.is_floating_point():
            raise TypeError(f"X has dtype {X.dtype}; give it as floating-point numbers")
        points = self.to_unit(X.to(torch.float64))
        inside = points.clamp(self.ends[0], self.ends[1])
        out = self.model(inside).to(torch.float64)
        if self.model.later is not None:
            out = out + self.model.later.continued(points, inside)
        if self.extrapolation == "linear":
            out = self._continued(out, points, inside)
        elif self.extrapolation == "error":
            out = torch.where((points == inside).all(1, keepdim=True), out, torch.nan)
        predicted = out.softmax(1) if self.classifies else self._in_units(out)
        if self.uncertainty is None:
            return predicted
        known = inside.to(self.model.scale.dtype)
        ends = self._ends(self.uncertainty, known, out) if self.has_ends else []
        if not self.has_support:
            return predicted, *ends
        support = self.uncertainty.support(self.model.charts, known, out)
        return predicted, *ends, torch.where((points == inside).all(1), support, 0)

    def _in_units(self, out: Tensor, is_mean: bool = True) -> Tensor:
        """Outputs in units of the targets: means, or ends of intervals."""
        out = out * self.spread + self.mean
        if self.counts:
            out = self._counts_of(out, is_mean)
        return out[:, 0] if self.one_column else out

    def _counts_of(self, roots: Tensor, is_mean: bool) -> Tensor:
        """Counts of variance-stabilised outputs, as in `estimators.targets`."""
        roots = roots.clamp(min=ROOT_OF_ZERO)
        counts = (roots**2 - ROOT_OF_ZERO**2) / 4
        if not is_mean:
            return counts
        ratio = ROOT_OF_ZERO / roots
        variance = 1 + ratio - 11 / 3 * ratio**2 + 5 / 3 * ratio**3
        return (counts + self.dispersion * variance / 4).maximum(self.least)

    def _ends(self, uncertainty: Uncertainty, known: Tensor, out: Tensor) -> list[Tensor]:
        """Low and high ends of intervals, or sets of classes."""
        if self.classifies:
            most = uncertainty.largest_surprisal(self.model.charts, known, out)
            is_likely = -out.log_softmax(1) <= most[:, None]
            return [is_likely | (out == out.amax(1, keepdim=True))]
        ends = uncertainty.ends(self.model.charts, known, out)  # (rows, outputs, 2)
        low, high = (self._in_units(out + ends[:, :, side], is_mean=False) for side in (0, 1))
        return [low, high.maximum(self._in_units(out))] if self.counts else [low, high]

    def to_unit(self, X: Tensor) -> Tensor:
        """Coordinates of rows, (rows, inputs), as by `ColumnMap.to_unit`."""
        missing, raw = X.isnan(), X
        if self.learns_missing:
            X = torch.where(missing, self.fill, X)
        piece = (X[..., None] >= self.left).sum(-1).sub(1).clamp(min=0)  # (rows, columns)
        at = piece + self.first
        points = self.units[piece] + (X - self.left.flatten()[at]) * self.slope[at]
        if self.coded:
            points = self._with_levels(points, raw)
        if not len(self.indicators):
            return points
        return torch.cat([points, missing[:, self.indicators].to(points.dtype)], dim=1)

    def _with_levels(self, points: Tensor, X: Tensor) -> Tensor:
        """Coordinates in which codes of categories have those of their levels, as in `LevelUnits`."""
        own = [points[:, j] for j in range(self.columns)]
        for j in self.coded:
            codes, known = X[:, j], getattr(self, f"levels_{j}")[1:]
            if j in self.apart:
                own[j] = ((own[j] * (2 * LEVEL_STEPS)).floor() + 0.5) / (2 * LEVEL_STEPS)
            if len(known):
                number = torch.where(codes < LATER, codes, 0.0).round().clamp(0, len(known) - 1)
                own[j] = torch.where(codes < LATER, known[number.to(torch.int64)], own[j])
            later = getattr(self, f"levels_{j}")[0] + (codes - LATER) / STEPS
            own[j] = torch.where(codes >= LATER, later, own[j])
        return torch.stack(own, dim=1)

    def _continued(self, out: Tensor, points: Tensor, inside: Tensor) -> Tensor:
        """Outputs beyond the domain, as `estimators.predict` continues them along each input."""
        beyond = points - inside
        high = beyond > 0  # (rows, inputs)
        outwards = beyond.sign()[:, None] * torch.eye(points.shape[1], device=points.device)
        slopes = []  # (rows, inputs, outputs)
        for k, step in enumerate(self.steps):
            inward = inside[:, None] - step * outwards.to(inside.dtype)
            length = torch.where(high, self.lengths[k, 1], self.lengths[k, 0])[..., None]
            slopes.append((out[:, None] - self.model(inward).to(out.dtype)) / length)
        agreed = slopes[0].minimum(slopes[1]).clamp(min=0) + slopes[0].maximum(slopes[1]).clamp(max=0)
        room = levelled(beyond.abs() * torch.where(high, self.stretch[1], self.stretch[0]))
        room = room * torch.where(high, self.room[1], self.room[0])
        return out + (agreed * room[..., None]).sum(1)


def constants_of(estimator: AtlasRegressor | AtlasClassifier) -> dict[str, NDArray[Any]]:
    """The preprocessing and postprocessing of an estimator, as arrays."""
    from atlas_splines.estimators.predict import Ends  # needs scikit-learn

    domain = estimator.domain_
    columns, pieces = domain.knots.shape  # a linear piece begins at each knot; the last one is unbounded
    units, widths = np.linspace(0, 1, pieces), np.diff(domain.knots)
    slope = np.divide(np.diff(units), widths, out=np.zeros_like(widths), where=widths > 0)
    beyond = Ends.of(state_of(estimator.model_), domain)
    mean, scale = (getattr(estimator, f"target_{part}_", np.ones(1)) for part in ("mean", "scale"))
    return {
        "left": domain.knots,
        "first": pieces * np.arange(columns),  # (columns,) place of the first piece among all
        "units": units,  # (pieces,) where they begin
        "slope": np.hstack([slope, slope[:, -1:]]).ravel(),  # (columns·pieces,)
        "fill": domain.fill,
        "indicators": domain.indicators,
        **{f"levels_{j}": np.append(units.later, units.known) for j, units in domain.levels.items()},
        "ends": estimator.model_.domain.T,  # (2, inputs)
        "room": beyond.room,  # (2, inputs)
        "stretch": beyond.stretch,  # (2, inputs)
        "lengths": beyond.lengths,  # (steps, 2, inputs)
        "mean": mean,
        "spread": scale,
        "dispersion": getattr(estimator, "dispersion_", np.ones(1)),
        "least": least_count(mean, scale),
    }
