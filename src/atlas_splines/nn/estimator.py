"""A fitted estimator as a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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

    Parameters
    ----------
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`; the module does not follow it if it learns more.

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
    mean: Tensor
    spread: Tensor

    def __init__(self, estimator: AtlasRegressor | AtlasClassifier) -> None:
        from atlas_splines.estimators.classifier import AtlasClassifier  # needs scikit-learn
        from atlas_splines.estimators.column_footprint import SLOPE_STEP
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
                "a quantile is predicted by the estimator alone; set loss='squared_error' for the mean"
            )
        estimator = estimator._now()
        self.model = AtlasModule.from_model(estimator.model_)
        self.columns = len(estimator.domain_.knots)
        self.extrapolation = estimator.extrapolation
        self.learns_missing = estimator.missing == "learn"
        self.classifies = isinstance(estimator, AtlasClassifier)
        self.one_column = not self.classifies and estimator._one_column
        self.step = SLOPE_STEP
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

    def forward(self, X: Tensor) -> Tensor:
        """Predict the rows of X."""
        if X.ndim != 2 or X.shape[1] != self.columns:
            raise ValueError(f"X has shape {tuple(X.shape)}; expected (rows, {self.columns})")
        if not X.is_floating_point():
            raise TypeError(f"X has dtype {X.dtype}; give it as floating-point numbers")
        points = self.to_unit(X.to(torch.float64))
        inside = points.clamp(self.ends[0], self.ends[1])
        out = self.model(inside).to(torch.float64)
        if self.extrapolation == "linear":
            out = self._continued(out, points, inside)
        elif self.extrapolation == "error":
            out = torch.where((points == inside).all(1, keepdim=True), out, torch.nan)
        if self.classifies:
            return out.softmax(1)
        out = out * self.spread + self.mean
        return out[:, 0] if self.one_column else out

    def to_unit(self, X: Tensor) -> Tensor:
        """Coordinates of rows, (rows, inputs), as `Domain.to_unit` has them."""
        missing = X.isnan()
        if self.learns_missing:
            X = torch.where(missing, self.fill, X)
        piece = (X[..., None] >= self.left).sum(-1).sub(1).clamp(min=0)  # (rows, columns)
        at = piece + self.first
        points = self.units[piece] + (X - self.left.flatten()[at]) * self.slope[at]
        if not len(self.indicators):
            return points
        return torch.cat([points, missing[:, self.indicators].to(points.dtype)], dim=1)

    def _continued(self, out: Tensor, points: Tensor, inside: Tensor) -> Tensor:
        """Outputs continued beyond the domain, along each input with the slope over a step inward."""
        beyond = points - inside
        steps = self.step * beyond.sign()[:, None] * torch.eye(points.shape[1], device=points.device)
        inward = self.model(inside[:, None] - steps.to(inside.dtype)).to(out.dtype)  # (rows, inputs, outputs)
        return out + ((out[:, None] - inward) * (beyond.abs() / self.step)[..., None]).sum(1)


def constants_of(estimator: AtlasRegressor | AtlasClassifier) -> dict[str, NDArray[Any]]:
    """Everything in an estimator but the model, as arrays."""
    domain = estimator.domain_
    columns, pieces = domain.knots.shape  # a piece begins at each knot, and the last one goes on for ever
    units, widths = np.linspace(0, 1, pieces), np.diff(domain.knots)
    slope = np.divide(np.diff(units), widths, out=np.zeros_like(widths), where=widths > 0)
    return {
        "left": domain.knots,
        "first": pieces * np.arange(columns),  # (columns,) place of the first piece among all
        "units": units,  # (pieces,) where they begin
        "slope": np.hstack([slope, slope[:, -1:]]).ravel(),  # (columns·pieces,)
        "fill": domain.fill,
        "indicators": domain.indicators,
        "ends": estimator.model_.domain.T,  # (2, inputs)
        "mean": getattr(estimator, "target_mean_", np.zeros(1)),
        "spread": getattr(estimator, "target_scale_", np.ones(1)),
    }
