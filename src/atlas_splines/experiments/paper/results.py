"""What figures and report read from the results of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines.analysis import expected_off_target
from atlas_splines.experiments.drawings import NotInThisRun
from atlas_splines.experiments.style import BLUE, GREEN, ORANGE, VERMILLION, LineStyle

__all__ = ["MODELS", "Fit", "TrialResults", "fit_off_target", "mean_errors"]

Table = Any  # a pandas DataFrame, with one row for each model of each trial
Array = NDArray[np.floating]
Pictures = Mapping[str, Array]

INPUTS = (1, 2, 8)
LETTERS = "ABCD"
MODELS = {
    "finest": LineStyle("with guaranteed distal orthogonality", BLUE, "-", "o"),
    "all": LineStyle("without the guarantee", ORANGE, "--", "s"),
    "rehearsal": LineStyle("rehearsal", GREEN, ":", "^"),
    "charts": LineStyle("charts", VERMILLION, "-.", "D"),
}


class TrialResults(NamedTuple):
    """The table of all trials, and images of those that are shown, by name."""

    table: Table
    pictures: Pictures


def need(pictures: Pictures, prefix: str, names: Sequence[str]) -> list[Array]:
    """Take images by name, or say that the run has not made them yet."""
    missing = [name for name in names if f"{prefix}/{name}" not in pictures]
    if missing:
        raise NotInThisRun(f"The trial for this picture ({prefix}) is not in this run.")
    return [np.asarray(pictures[f"{prefix}/{name}"], np.float64) for name in names]


def pick(results: Table, experiment: str, model: str, **where: float) -> Table:
    """Rows of one experiment and model; widths are compared as the decimals they stand for."""
    chosen = (results["experiment"] == experiment) & (results["model"] == model)
    for column, value in where.items():
        chosen &= np.isclose(results[column].astype(float), value)
    return results[chosen]


def stack(curves: Sequence[Sequence[float]]) -> Array:
    """Curves as rows (curves, epochs), without the empty ones; short ones end in NaN."""
    kept = [np.asarray(curve, np.float64) for curve in curves if curve is not None and len(curve)]
    if not kept:
        return np.empty((0, 0))
    rows = np.full((len(kept), max(map(len, kept))), np.nan)
    for row, curve in zip(rows, kept, strict=True):
        row[: len(curve)] = curve
    return rows


def outside(box: Array, size: int) -> NDArray[np.bool_]:
    """Which pixels of an image lie outside a box."""
    centres = (np.arange(size) + 0.5) / size
    within = [(low <= centres) & (centres <= high) for low, high in box]
    return ~np.logical_and.outer(*within)


def mean_errors(results: Table, column: str = "test_noisy") -> Table:
    """Mean over the trials of the main experiment: columns inputs, model, width, mean, sem, count."""
    main = results[results["experiment"] == "main"]
    if not len(main):
        raise NotInThisRun("No trial of the main experiment is in this run.")
    cells = main.assign(width=main["width"].astype(float).round(3)).groupby(["inputs", "model", "width"])
    return cells[column].agg(["mean", "sem", "count"]).fillna({"sem": 0.0}).reset_index()


def cells_where(means: Table, first: str, second: str) -> tuple[int, int]:
    """In how many cells, of those that have both, the first model's mean is lower."""
    pairs = means.pivot_table(index=["inputs", "width"], columns="model", values="mean")
    pairs = pairs.reindex(columns=[first, second]).dropna()
    return int((pairs[first] < pairs[second]).sum()), len(pairs)


class Fit(NamedTuple):
    """The curve a + b(δ − δⁿ), and how well it agrees; NaN where agreement has no meaning."""

    offset: float
    slope: float
    r2: float
    correlation: float

    def __call__(self, width: Array, inputs: int) -> Array:
        """Evaluate the curve."""
        return self.offset + self.slope * expected_off_target(width, inputs)


def fit_off_target(width: Array, error: Array, inputs: int) -> Fit:
    """Fit a + b(δ − δⁿ) to errors by least squares.

    For one input δ − δⁿ is zero at every width: the curve is a constant, and neither R² nor a correlation
    has a meaning. The same goes for fewer than three widths, through which a curve always passes.

    Examples
    --------
    >>> width = np.array([0.1, 0.5, 0.9])
    >>> fit = fit_off_target(width, 2 + 3 * (width - width**2), inputs=2)
    >>> round(fit.offset, 6), round(fit.slope, 6), round(fit.r2, 6)
    (2.0, 3.0, 1.0)
    >>> fit_off_target(width, np.array([1.0, 2.0, 3.0]), inputs=1)
    Fit(offset=2.0, slope=0.0, r2=nan, correlation=nan)
    """
    width, error = np.asarray(width, np.float64), np.asarray(error, np.float64)
    shape = expected_off_target(width, inputs)
    if width.size < 3 or np.ptp(shape) < 1e-9 or np.ptp(error) == 0:
        return Fit(float(error.mean()), 0.0, float("nan"), float("nan"))
    design = np.column_stack([np.ones_like(shape), shape])
    offset, slope = np.linalg.lstsq(design, error, rcond=None)[0]
    left = np.square(error - offset - slope * shape).sum() / np.square(error - error.mean()).sum()
    return Fit(float(offset), float(slope), float(1 - left), float(np.corrcoef(shape, error)[0, 1]))
