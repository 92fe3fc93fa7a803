"""Serialisation of error models and data densities, as docs/format.md describes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.memory.conformal import BINS, LADDER, ConformalScores, ScoreHistogram
from atlas_splines.memory.data_density import DENSITY_RULES, CellCounts, DataDensity
from atlas_splines.memory.error_model import SCALE_RULES, ErrorModel, Residuals, ResidualScale
from atlas_splines.memory.features import Features

__all__ = [
    "are_different_inputs",
    "error_model_from_archive",
    "error_model_header",
    "error_model_tensors",
    "read_residuals",
    "residuals_header",
    "residuals_tensors",
]

Array = NDArray[np.float64]

SPREAD, PRESENCE = ("scales", "presence"), ("inputs",)
SEEN = ("visits",)
LARGEST_LOG = 1e6  # limit of a weight in the logarithm of a scale
MOST_SIDE = 64  # limit of the corners of a side of a pair


# --- taking apart -------------------------------------------------------------------------------------


def error_model_header(error_model: ErrorModel) -> dict[str, Any]:
    """The scalars and lists of an error model as JSON."""
    data_density = error_model.data_density
    return {
        "scales": [list(scale.features.coarse[:-1]) for scale in error_model.scales],
        "presence": None if data_density is None else {"inputs": list(data_density.inputs)},
    }


def error_model_tensors(error_model: ErrorModel, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of an error model; names of all tensors start with its name."""
    tensors: dict[str, NDArray[Any]] = {}
    for k, scale in enumerate(error_model.scales):
        tensors |= {f"{name}.scales.{k}.knots": scale.knots, f"{name}.scales.{k}.weights": scale.weights}
    for k, scores in enumerate(error_model.scores):
        parts = {
            "centres": scores.centres,
            "counts": scores.counts,
            "shift": scores.shift,
            "sizes": scores.sizes,
            "watched": scores.coverage_weights,
        }
        tensors |= {f"{name}.scores.{k}.{part}": array for part, array in parts.items()}
    if error_model.data_density is not None:
        tensors |= cell_counts_tensors(error_model.data_density.cell_counts, f"{name}.presence")
        tensors[f"{name}.presence.usual"] = error_model.data_density.usual
    return tensors


def cell_counts_tensors(cell_counts: CellCounts, name: str) -> dict[str, NDArray[Any]]:
    return {f"{name}.alone": cell_counts.alone, f"{name}.paired": cell_counts.paired}


def residuals_header(seen: Residuals | ErrorModel) -> dict[str, Any]:
    """Residuals that an update adds to an error model, or the error model that starts with them, as JSON."""
    if isinstance(seen, ErrorModel):
        return error_model_header(seen)
    return {"visits": seen.cell_counts is not None}


def residuals_tensors(seen: Residuals | ErrorModel, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of the same."""
    if isinstance(seen, ErrorModel):
        return error_model_tensors(seen, name)
    tensors: dict[str, NDArray[Any]] = {}
    for k, histogram in enumerate(seen.histograms):
        tensors |= {
            f"{name}.tallies.{k}.counts": histogram.counts,
            f"{name}.tallies.{k}.covered": histogram.covered,
        }
    return tensors | ({} if seen.cell_counts is None else cell_counts_tensors(seen.cell_counts, name))


# --- putting together ---------------------------------------------------------------------------------


def error_model_from_archive(
    archive: Archive, value: object, shape: tuple[int, int], loss: str | None, name: str
) -> ErrorModel:
    """The error model of an archive; raise a ValueError if it is invalid.

    `shape` has the number of inputs and of outputs; without a loss both numbers and classes are valid.
    """
    fields = Fields(value, name, SPREAD)
    (inputs, outputs), chosen = shape, fields.items("scales")
    is_classes = not chosen
    if len(chosen) not in (0, outputs) or (loss is not None and is_classes != (loss == "cross-entropy")):
        raise ValueError(f"'scales' of {name} must be one for each output, and none for classes")
    scales = [_read_scale(archive, each, inputs, f"{name}.scales.{k}") for k, each in enumerate(chosen)]
    scores = [_read_scores(archive, is_classes, f"{name}.scores.{k}") for k in range(len(chosen) or 1)]
    data_density = None
    if not fields.is_null("presence"):
        data_density = _read_density(archive, fields.value["presence"], inputs, f"{name}.presence")
    return ErrorModel(tuple(scales), tuple(scores), data_density)


def _read_scale(archive: Archive, chosen: object, inputs: int, name: str) -> ResidualScale:
    if not isinstance(chosen, list) or not are_different_inputs(chosen, inputs):
        raise ValueError(f"{name} must be different inputs")
    features = Features(inputs + 1, (*chosen, inputs), ((inputs, SCALE_RULES.density),), ())
    knots = archive.tensor(f"{name}.knots", "float64", (None,))
    if len(knots) < 2 or (np.diff(knots) <= 0).any():
        raise ValueError(f"tensor '{name}.knots' must be rising")
    weights = archive.tensor(f"{name}.weights", "float64", (len(features),))
    if (np.abs(weights) > LARGEST_LOG).any():
        raise ValueError(f"tensor '{name}.weights' must be at most {LARGEST_LOG:g} in size")
    return ResidualScale(features, knots, weights)


def _read_scores(archive: Archive, is_one_sided: bool, name: str) -> ConformalScores:
    centres = archive.tensor(f"{name}.centres", "float64", (None,))
    counts = archive.tensor(f"{name}.counts", "float64", (len(centres), BINS))
    shift = archive.tensor(f"{name}.shift", "float64", (len(LADDER),))
    sizes = archive.tensor(f"{name}.sizes", "float64", (len(centres),))
    if not len(centres) or (np.diff(centres) <= 0).any():
        raise ValueError(f"tensor '{name}.centres' must be rising")
    if (counts < 0).any() or (counts.sum(axis=1) <= 0).any():
        raise ValueError(f"tensor '{name}.counts' must be at least 0, and more for each centre")
    if (np.abs(shift) > 1).any():
        raise ValueError(f"tensor '{name}.shift' must be from -1 to 1")
    if (sizes <= 0).any():
        raise ValueError(f"tensor '{name}.sizes' must be more than 0")
    return ConformalScores(
        centres, counts, shift, sizes, is_one_sided, _read_watched(archive, f"{name}.watched")
    )


def _read_watched(archive: Archive, name: str) -> Array:
    if name not in archive.tensors:  # of a version without these counts
        return np.zeros((2, 1 + len(LADDER)))
    watched = archive.tensor(name, "float64", (2, 1 + len(LADDER)))
    if (watched < 0).any() or (watched[:, 1:] > watched[:, :1] * (1 + 1e-9)).any():
        raise ValueError(f"tensor {name!r} must be weights of rows, and of some of these")
    return watched


def _read_density(archive: Archive, value: object, inputs: int, name: str) -> DataDensity:
    fields = Fields(value, name, PRESENCE)
    chosen = fields.items("inputs")
    if (
        not are_different_inputs(chosen, inputs)
        or chosen != sorted(chosen)
        or len(chosen) > DENSITY_RULES.most_paired
    ):
        raise ValueError(f"'inputs' of {name} must be at most {DENSITY_RULES.most_paired} rising inputs")
    pairs = len(chosen) * (len(chosen) - 1) // 2
    cell_counts = _read_cell_counts(archive, (inputs, pairs), (None, None), name)
    usual = archive.tensor(f"{name}.usual", "float64", (None, DENSITY_RULES.quantiles))
    if len(usual) not in (2, 3) or (np.diff(usual, axis=1) < 0).any():
        raise ValueError(f"tensor '{name}.usual' must be two or three rows of rising quantiles")
    return DataDensity(tuple(chosen), cell_counts, usual)


def _read_cell_counts(
    archive: Archive, sizes: tuple[int, int], shape: tuple[int | None, int | None], name: str
) -> CellCounts:
    """Counts of inputs and pairs; `shape` has the cells and the side, if they are known."""
    (inputs, pairs), (cells, side) = sizes, shape
    alone = archive.tensor(f"{name}.alone", "float64", (inputs, cells))
    if alone.shape[1] < 1:
        raise ValueError(f"tensor '{name}.alone' has no cells")
    paired = archive.tensor(f"{name}.paired", "float64", (pairs, side, side))
    if not 3 <= paired.shape[1] == paired.shape[2] <= MOST_SIDE:
        raise ValueError(f"tensor '{name}.paired' must have sides of 3 to {MOST_SIDE}")
    if (alone < 0).any() or (paired < 0).any():
        raise ValueError(f"the counts of {name} must be at least 0")
    return CellCounts(alone, paired)


def read_residuals(
    archive: Archive,
    value: object,
    error_model: ErrorModel | None,
    shape: tuple[int, int],
    loss: str,
    name: str,
) -> Residuals | ErrorModel:
    """Residuals that an update adds to an error model, or the error model that starts with them.

    `shape` has the number of inputs and of outputs.
    """
    if error_model is None:
        return error_model_from_archive(archive, value, shape, loss, name)
    fields = Fields(value, name, SEEN)
    tallies = [
        _read_histogram(archive, scores.counts.shape[0], f"{name}.tallies.{k}")
        for k, scores in enumerate(error_model.scores)
    ]
    data_density = error_model.data_density
    if fields.flag("visits") != (data_density is not None):
        raise ValueError(
            f"'visits' of {name} must be true where the density of rows is counted, and false elsewhere"
        )
    cell_counts = None
    if data_density is not None:
        sizes = (shape[0], len(data_density.pairs))
        cell_counts = _read_cell_counts(archive, sizes, (data_density.cells, data_density.side + 2), name)
    return Residuals(tuple(tallies), cell_counts)


def _read_histogram(archive: Archive, regions: int, name: str) -> ScoreHistogram:
    counts = archive.tensor(f"{name}.counts", "float64", (regions, BINS))
    covered = archive.tensor(f"{name}.covered", "float64", (len(LADDER),))
    if (counts < 0).any() or (covered < 0).any() or (covered > 1 + 1e-9).any():
        raise ValueError(f"the tally {name} must be of counts of at least 0 and shares from 0 to 1")
    return ScoreHistogram(counts, covered)


def are_different_inputs(numbers: list[Any], inputs: int) -> bool:
    """Whether a list of a file has distinct numbers of inputs."""
    known = all(type(j) is int and 0 <= j < inputs for j in numbers)
    return known and len(set(numbers)) == len(numbers)
