"""A fitted estimator as a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from atlas_splines.core.model import state_of
from atlas_splines.core.offsets import LEVEL_STEPS
from atlas_splines.estimators.counts import ROOT_OF_ZERO, least_count
from atlas_splines.evidence.random_effects import LATER, STEPS
from atlas_splines.nn.doubt import Doubt
from atlas_splines.nn.later import levelled
from atlas_splines.nn.module import AtlasModule

if TYPE_CHECKING:
    from atlas_splines.estimators.classifier import AtlasClassifier
    from atlas_splines.estimators.regressor import AtlasRegressor

__all__ = ["EstimatorModule"]


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
        Whether to tell how much evidence stands behind each row.

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
        from atlas_splines.estimators.column_footprint import SLOPE_STEPS
        from atlas_splines.estimators.regressor import AtlasRegressor
        from atlas_splines.estimators.uncertainty import checked_coverages

        super().__init__()
        if not isinstance(estimator, AtlasRegressor | AtlasClassifier):
            raise TypeError(
                f"estimator is a {type(estimator).__name__}; give an AtlasRegressor or an AtlasClassifier"
            )
        if not hasattr(estimator, "model_"):
            raise ValueError("the estimator is not fitted; call its fit first")
        if estimator.loss == "quantile":
            raise ValueError(
                "a quantile is predicted by the estimator alone; set loss='squared_error' for the mean"
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
        self.doubt = Doubt(state, coverage, support) if self.has_ends or support else None
        self.constants = constants_of(estimator)
        self._derive()

    def _derive(self) -> None:
        """Set the constants; in float64 whatever the model's dtype is, for columns may have any scale."""
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
        if self.doubt is None:
            return predicted
        known = inside.to(self.model.scale.dtype)
        ends = self._ends(self.doubt, known, out) if self.has_ends else []
        if not self.has_support:
            return predicted, *ends
        support = self.doubt.support(self.model.charts, known, out)
        return predicted, *ends, torch.where((points == inside).all(1), support, 0)

    def _in_units(self, out: Tensor, is_mean: bool = True) -> Tensor:
        """Outputs in units of the targets: means, or ends of intervals."""
        out = out * self.spread + self.mean
        if self.counts:
            out = self._counts_of(out, is_mean)
        return out[:, 0] if self.one_column else out

    def _counts_of(self, roots: Tensor, is_mean: bool) -> Tensor:
        """Counts of roots, as `estimators.counts` has them."""
        roots = roots.clamp(min=ROOT_OF_ZERO)
        counts = (roots**2 - ROOT_OF_ZERO**2) / 4
        if not is_mean:
            return counts
        ratio = ROOT_OF_ZERO / roots
        variance = 1 + ratio - 11 / 3 * ratio**2 + 5 / 3 * ratio**3
        return (counts + self.dispersion * variance / 4).maximum(self.least)

    def _ends(self, doubt: Doubt, known: Tensor, out: Tensor) -> list[Tensor]:
        """Low and high ends of intervals, or sets of classes."""
        if self.classifies:
            most = doubt.most_surprise(self.model.charts, known, out)
            is_likely = -out.log_softmax(1) <= most[:, None]
            return [is_likely | (out == out.amax(1, keepdim=True))]
        ends = doubt.ends(self.model.charts, known, out)  # (rows, outputs, 2)
        low, high = (self._in_units(out + ends[:, :, side], is_mean=False) for side in (0, 1))
        return [low, high.maximum(self._in_units(out))] if self.counts else [low, high]

    def to_unit(self, X: Tensor) -> Tensor:
        """Coordinates of rows, (rows, inputs), as `Domain.to_unit` has them."""
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
        """Coordinates in which codes of categories have those of their levels, as `LevelUnits` has them."""
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
        """Outputs beyond the domain, as `estimators.extrapolating` continues them along each input."""
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
    """Everything in an estimator but the model, as arrays."""
    from atlas_splines.estimators.extrapolating import Ends  # needs scikit-learn

    domain = estimator.domain_
    columns, pieces = domain.knots.shape  # a piece begins at each knot, and the last one goes on for ever
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
