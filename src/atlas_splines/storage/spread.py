"""What a model knows about its errors, and where its rows are, as the parts of an archive, and back.

docs/format.md describes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.features import Features
from atlas_splines.evidence.presence import MOST_PAIRED, QUANTILES, Presence, Visits
from atlas_splines.evidence.scale import DENSITY, Scale
from atlas_splines.evidence.scores import BINS, LADDER, Scores, Tally
from atlas_splines.evidence.spread import Seen, Spread
from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields

__all__ = [
    "read_seen",
    "seen_header",
    "seen_tensors",
    "spread_from_archive",
    "spread_header",
    "spread_tensors",
]

Array = NDArray[np.float64]

SPREAD, PRESENCE = ("scales", "presence"), ("inputs",)
SEEN = ("visits",)
LARGEST_LOG = 1e6  # weight of a feature in the logarithm of a scale
MOST_SIDE = 64  # corners of a side of a pair


# --- taking apart -------------------------------------------------------------------------------------


def spread_header(spread: Spread) -> dict[str, Any]:
    """Everything of a spread that is short, as JSON."""
    presence = spread.presence
    return {
        "scales": [list(scale.features.coarse[:-1]) for scale in spread.scales],
        "presence": None if presence is None else {"inputs": list(presence.inputs)},
    }


def spread_tensors(spread: Spread, name: str) -> dict[str, NDArray[Any]]:
    """Everything of a spread that is long; the names of all tensors start with its name."""
    tensors: dict[str, NDArray[Any]] = {}
    for k, scale in enumerate(spread.scales):
        tensors |= {f"{name}.scales.{k}.knots": scale.knots, f"{name}.scales.{k}.weights": scale.weights}
    for k, scores in enumerate(spread.scores):
        parts = {
            "centres": scores.centres,
            "counts": scores.counts,
            "shift": scores.shift,
            "sizes": scores.sizes,
            "watched": scores.watched,
        }
        tensors |= {f"{name}.scores.{k}.{part}": array for part, array in parts.items()}
    if spread.presence is not None:
        tensors |= visits_tensors(spread.presence.visits, f"{name}.presence")
        tensors[f"{name}.presence.usual"] = spread.presence.usual
    return tensors


def visits_tensors(visits: Visits, name: str) -> dict[str, NDArray[Any]]:
    return {f"{name}.alone": visits.alone, f"{name}.paired": visits.paired}


def seen_header(seen: Seen | Spread) -> dict[str, Any]:
    """What the rows of an update add to a spread, or the spread that begins with them, as JSON."""
    if isinstance(seen, Spread):
        return spread_header(seen)
    return {"visits": seen.visits is not None}


def seen_tensors(seen: Seen | Spread, name: str) -> dict[str, NDArray[Any]]:
    """The long parts of the same."""
    if isinstance(seen, Spread):
        return spread_tensors(seen, name)
    tensors: dict[str, NDArray[Any]] = {}
    for k, tally in enumerate(seen.tallies):
        tensors |= {f"{name}.tallies.{k}.counts": tally.counts, f"{name}.tallies.{k}.covered": tally.covered}
    return tensors | ({} if seen.visits is None else visits_tensors(seen.visits, name))


# --- putting together ---------------------------------------------------------------------------------


def spread_from_archive(
    archive: Archive, value: object, shape: tuple[int, int], loss: str | None, name: str
) -> Spread:
    """Put a spread together again, or raise a ValueError that says what is wrong with it.

    `shape` has the number of inputs and of outputs; without a loss both numbers and classes will do.
    """
    fields = Fields(value, name, SPREAD)
    (inputs, outputs), chosen = shape, fields.items("scales")
    is_classes = not chosen
    if len(chosen) not in (0, outputs) or (loss is not None and is_classes != (loss == "cross-entropy")):
        raise ValueError(f"'scales' of {name} must be one for each output, and none for classes")
    scales = [_read_scale(archive, each, inputs, f"{name}.scales.{k}") for k, each in enumerate(chosen)]
    scores = [_read_scores(archive, is_classes, f"{name}.scores.{k}") for k in range(len(chosen) or 1)]
    presence = None
    if not fields.is_null("presence"):
        presence = _read_presence(archive, fields.value["presence"], inputs, f"{name}.presence")
    return Spread(tuple(scales), tuple(scores), presence)


def _read_scale(archive: Archive, chosen: object, inputs: int, name: str) -> Scale:
    if not isinstance(chosen, list) or not _are_different_inputs(chosen, inputs):
        raise ValueError(f"{name} must be different inputs")
    features = Features(inputs + 1, (*chosen, inputs), ((inputs, DENSITY),), ())
    knots = archive.tensor(f"{name}.knots", "float64", (None,))
    if len(knots) < 2 or (np.diff(knots) <= 0).any():
        raise ValueError(f"tensor '{name}.knots' must be rising")
    weights = archive.tensor(f"{name}.weights", "float64", (len(features),))
    if (np.abs(weights) > LARGEST_LOG).any():
        raise ValueError(f"tensor '{name}.weights' must be at most {LARGEST_LOG:g} in size")
    return Scale(features, knots, weights)


def _read_scores(archive: Archive, is_one_sided: bool, name: str) -> Scores:
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
    return Scores(centres, counts, shift, sizes, is_one_sided, _read_watched(archive, f"{name}.watched"))


def _read_watched(archive: Archive, name: str) -> Array:
    if name not in archive.tensors:  # of a version that did not watch
        return np.zeros((2, 1 + len(LADDER)))
    watched = archive.tensor(name, "float64", (2, 1 + len(LADDER)))
    if (watched < 0).any() or (watched[:, 1:] > watched[:, :1] * (1 + 1e-9)).any():
        raise ValueError(f"tensor {name!r} must be weights of rows, and of some of these")
    return watched


def _read_presence(archive: Archive, value: object, inputs: int, name: str) -> Presence:
    fields = Fields(value, name, PRESENCE)
    chosen = fields.items("inputs")
    if not _are_different_inputs(chosen, inputs) or chosen != sorted(chosen) or len(chosen) > MOST_PAIRED:
        raise ValueError(f"'inputs' of {name} must be at most {MOST_PAIRED} rising inputs")
    pairs = len(chosen) * (len(chosen) - 1) // 2
    visits = _read_visits(archive, (inputs, pairs), (None, None), name)
    usual = archive.tensor(f"{name}.usual", "float64", (None, QUANTILES))
    if len(usual) not in (2, 3) or (np.diff(usual, axis=1) < 0).any():
        raise ValueError(f"tensor '{name}.usual' must be two or three rows of rising quantiles")
    return Presence(tuple(chosen), visits, usual)


def _read_visits(
    archive: Archive, sizes: tuple[int, int], shape: tuple[int | None, int | None], name: str
) -> Visits:
    """Counts for so many inputs and pairs; `shape` has the cells and the side, if they are known."""
    (inputs, pairs), (cells, side) = sizes, shape
    alone = archive.tensor(f"{name}.alone", "float64", (inputs, cells))
    if alone.shape[1] < 1:
        raise ValueError(f"tensor '{name}.alone' has no cells")
    paired = archive.tensor(f"{name}.paired", "float64", (pairs, side, side))
    if not 3 <= paired.shape[1] == paired.shape[2] <= MOST_SIDE:
        raise ValueError(f"tensor '{name}.paired' must have sides of 3 to {MOST_SIDE}")
    if (alone < 0).any() or (paired < 0).any():
        raise ValueError(f"the counts of {name} must be at least 0")
    return Visits(alone, paired)


def read_seen(
    archive: Archive, value: object, spread: Spread | None, shape: tuple[int, int], loss: str, name: str
) -> Seen | Spread:
    """What the rows of an update add to a spread that is there, or the spread that begins with them.

    `shape` has the number of inputs and of outputs.
    """
    if spread is None:
        return spread_from_archive(archive, value, shape, loss, name)
    fields = Fields(value, name, SEEN)
    tallies = [
        _read_tally(archive, scores.counts.shape[0], f"{name}.tallies.{k}")
        for k, scores in enumerate(spread.scores)
    ]
    presence = spread.presence
    if fields.flag("visits") != (presence is not None):
        raise ValueError(
            f"'visits' of {name} must be true where the presence of rows is counted, and false elsewhere"
        )
    visits = None
    if presence is not None:
        sizes = (shape[0], len(presence.pairs))
        visits = _read_visits(archive, sizes, (presence.cells, presence.side + 2), name)
    return Seen(tuple(tallies), visits)


def _read_tally(archive: Archive, regions: int, name: str) -> Tally:
    counts = archive.tensor(f"{name}.counts", "float64", (regions, BINS))
    covered = archive.tensor(f"{name}.covered", "float64", (len(LADDER),))
    if (counts < 0).any() or (covered < 0).any() or (covered > 1 + 1e-9).any():
        raise ValueError(f"the tally {name} must be of counts of at least 0 and shares from 0 to 1")
    return Tally(counts, covered)


def _are_different_inputs(numbers: list[Any], inputs: int) -> bool:
    known = all(type(j) is int and 0 <= j < inputs for j in numbers)
    return known and len(set(numbers)) == len(numbers)
