"""Serialisation of memories: sufficient statistics, priors, expert weights, as docs/format.md describes.

Statistics are checked by the inequalities that sums of any data satisfy, such as Cauchy and Schwarz's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.io.bare_models import configuration_of, read_bare_model, table_tensors
from atlas_splines.io.error_model import (
    are_different_inputs,
    error_model_from_archive,
    error_model_header,
    error_model_tensors,
    read_residuals,
    residuals_header,
    residuals_tensors,
)
from atlas_splines.io.local_memory import memory_header, memory_tensors, read_memory
from atlas_splines.memory.batches import Batch, OutputMode, error_model_after
from atlas_splines.memory.candidates import recent_lives_of
from atlas_splines.memory.error_model import ErrorModel, Residuals
from atlas_splines.memory.expert_weights import FARTHEST, ClassWeights, ExpertWeights, LossForm
from atlas_splines.memory.features import COARSE, FINEST, Features, RadialBasis
from atlas_splines.memory.pool import RECENT, Pool
from atlas_splines.memory.posterior import Prior, Sums, sums_of
from atlas_splines.memory.random_effects import NO_LEVELS, LevelStatistics
from atlas_splines.memory.statistics import UNIT, Statistics
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.linear_algebra import triangle_rows, upper_triangle
from atlas_splines.model.losses import LOSSES
from atlas_splines.model.monotone import constrained, is_monotone
from atlas_splines.model.state import COORDINATE_BITS, Contribution, Monotonic, State, inputs_of
from atlas_splines.updates.incremental import ABSOLUTE, RELATIVE

__all__ = [
    "chart_memory",
    "has_decayed",
    "pool_from_archive",
    "pool_header",
    "pool_tensors",
    "read_decayed",
    "read_statistics",
    "square_size",
    "statistics_tensors",
    "sums_tensors",
]

Array = NDArray[np.float64]


def has_decayed(sums: Sums, older: Statistics) -> bool:
    """Whether decayed statistics differ from the cumulative ones, as they do after the first update."""
    same = sums_of(older)
    return not (
        sums.count == same.count
        and np.array_equal(sums.square, same.square)
        and np.array_equal(sums.moment, same.moment)
        and np.array_equal(sums.gram, same.gram)
        and sums.levels == same.levels
    )


def levels_tensors(levels: LevelStatistics, name: str) -> dict[str, NDArray[Any]]:
    """Arrays of sums by level; empty without levels."""
    parts = levels.to_arrays() if len(levels) else {}
    return {f"{name}.levels.{part}": array for part, array in parts.items()}


def statistics_tensors(statistics: Statistics, name: str) -> dict[str, NDArray[Any]]:
    """Arrays of exact sums, as integers."""
    return {f"{name}.{part}": array for part, array in statistics.to_arrays().items()}


def sums_tensors(sums: Sums, name: str) -> dict[str, NDArray[Any]]:
    """Arrays of sums in float64; only the upper triangle of the symmetric matrix."""
    return {
        f"{name}.gram": upper_triangle(sums.gram),
        f"{name}.moment": sums.moment,
        f"{name}.square": sums.square,
        f"{name}.count": np.array([sums.count], np.float64),
        **levels_tensors(sums.levels, name),
    }


def read_statistics(
    archive: Archive, shape: tuple[int, int], name: str, levels: Sequence[int] = ()
) -> Statistics:
    """Exact sums, checked; `levels` are the inputs with levels."""
    features, outputs = shape
    triangle = archive.tensor(f"{name}.gram", "int64", (features * (features + 1) // 2,))
    archive.reserve(square_size(features))
    arrays = {
        "gram": triangle,
        "moment": archive.tensor(f"{name}.moment", "int64", shape),
        "square": archive.tensor(f"{name}.square", "int64", (outputs, 2)),
        "count": archive.tensor(f"{name}.count", "int64", (2,)),
    }
    for part in ("square", "count"):
        if (arrays[part] < 0).any() or (arrays[part][..., 1] >= 2**62).any():
            raise ValueError(f"tensor '{name}.{part}' must be a number of at least 0 in two parts")
    scale = np.array([2.0**62, 1.0])
    square, count = arrays["square"] @ scale / UNIT**2, float(arrays["count"] @ scale) / UNIT**2
    check_sums(arrays["gram"] / UNIT**2, arrays["moment"] / UNIT**2, square, count, name)
    by_level = read_levels(archive, shape, "int64", name, levels)
    check_levels(by_level.as_floats(UNIT**2), square, count, name)
    parts = by_level.to_arrays() if len(by_level) else {}
    return Statistics.from_arrays(arrays | {f"levels.{part}": array for part, array in parts.items()})


def read_levels(
    archive: Archive, shape: tuple[int, int], dtype: str, name: str, inputs: Sequence[int]
) -> LevelStatistics:
    """Sums by level, checked; empty if the file has none."""
    name = f"{name}.levels"
    if not inputs or f"{name}.keys" not in archive.tensors:
        return NO_LEVELS
    features, outputs = shape
    keys = archive.tensor(f"{name}.keys", "int64", (None,))
    levels = len(keys)
    if not levels or (np.diff(keys) <= 0).any() or not {*inputs_of(keys)} <= {*inputs}:
        raise ValueError(f"tensor '{name}.keys' must be rising levels of the inputs that have some")
    archive.reserve(2 * 8 * levels * features)
    pairs = archive.tensor(f"{name}.pairs", "int64", (None, 2))
    within = len(pairs) and pairs.min() >= 0 and pairs.max() < levels and (pairs[:, 0] <= pairs[:, 1]).all()
    if not within or (np.diff(pairs[:, 0] * levels + pairs[:, 1]) <= 0).any():
        raise ValueError(f"tensor '{name}.pairs' must be rising pairs of levels")
    arrays = {
        "keys": keys,
        "pairs": pairs,
        "counts": archive.tensor(f"{name}.counts", dtype, (len(pairs),)),
        "moment": archive.tensor(f"{name}.moment", dtype, (levels, outputs)),
        "cross": archive.tensor(f"{name}.cross", dtype, (levels, features)),
    }
    return LevelStatistics.from_arrays(arrays)


def check_levels(levels: LevelStatistics, square: Array, count: float, name: str) -> None:
    """Refuse sums by level that no rows can have: each row has at most one level of an input."""
    if not len(levels):
        return
    rows, pairs = levels.rows, levels.counts.tocoo()
    inputs, own = levels.keys >> COORDINATE_BITS, pairs.row == pairs.col
    if (
        (pairs.data <= 0).any()
        or (rows <= 0).any()
        or (inputs[pairs.row[~own]] == inputs[pairs.col[~own]]).any()
        or exceeds(np.bincount(inputs, rows).astype(np.float64), count)
        or exceeds(pairs.data, np.minimum(rows[pairs.row], rows[pairs.col]))
        or exceeds(np.abs(levels.cross), rows[:, None])
        or exceeds(np.abs(levels.moment), np.sqrt(rows[:, None] * square))
    ):
        refuse_sums(f"{name}.levels")


def read_decayed(
    archive: Archive,
    fields: Fields,
    memories: int,
    older: Statistics,
    name: str,
    levels: Sequence[int] = (),
) -> tuple[Sums, ...]:
    """Exponentially weighted statistics; without decay they are the cumulative ones."""
    flags = fields.items("faded")
    if len(flags) != memories or any(type(flag) is not bool for flag in flags):
        raise ValueError(f"'faded' of {name} must be true or false for each of the half-lives")
    archive.reserve(memories * square_size(older.features))
    return tuple(
        read_sums(archive, older, f"{name}.faded.{k}", levels) if flag else sums_of(older)
        for k, flag in enumerate(flags)
    )


def square_size(features: int) -> int:
    """Bytes of the products of all pairs of features."""
    return 8 * features**2


def read_sums(archive: Archive, older: Statistics, name: str, levels: Sequence[int] = ()) -> Sums:
    """Decayed sums, checked against the cumulative ones."""
    features, outputs = older.features, older.outputs
    upper = archive.tensor(f"{name}.gram", "float64", (features * (features + 1) // 2,))
    moment = archive.tensor(f"{name}.moment", "float64", (features, outputs))
    square = archive.tensor(f"{name}.square", "float64", (outputs,))
    count = float(archive.tensor(f"{name}.count", "float64", (1,))[0])
    check_sums(upper, moment, square, count, name)
    if exceeds(count, older.count) or exceeds(square, older.square):
        raise ValueError(f"{name} is larger than the sums that it has decayed from")
    by_level = read_levels(archive, (features, outputs), "float64", name, levels)
    check_levels(by_level, square, count, name)
    return Sums.from_upper(upper, moment, square, count, by_level)


def check_sums(upper: Array, moment: Array, square: Array, count: float, name: str) -> None:
    """Refuse sums of no data: |φ| ≤ 1, the first feature is 1, and (Σab)² ≤ Σa²·Σb² for any two columns."""
    rows = triangle_rows(upper, len(moment))
    diagonal = np.array([row[0] for row in rows])
    if count < 0 or (diagonal < 0).any() or (square < 0).any():
        refuse_sums(name)
    root = np.sqrt(diagonal)
    if (
        exceeds(count, diagonal[0])
        or exceeds(diagonal, count)
        or any(exceeds(np.abs(row), root[k] * root[k:]) for k, row in enumerate(rows))
        or exceeds(np.abs(moment), root[:, None] * np.sqrt(square))
    ):
        refuse_sums(name)


def refuse_sums(name: str) -> NoReturn:
    raise ValueError(f"the sums of {name} are not those of any data")


def exceeds(value: Array | float, bound: Array | float) -> bool:
    """Whether any value exceeds its bound by more than rounding errors."""
    return bool((np.asarray(value) > np.asarray(bound) * (1 + RELATIVE) + ABSOLUTE).any())


POOL = (
    *("coarse", "fine", "bumps", "steps", "half_lives", "faded", "track", "recent"),
    *("base", "voice", "loss", "weight_unit"),
)
TRACK = ("errors", "rows")
PRODUCTS = "products"  # of errors; files up to version 7 have the squares alone
LOG_LOSS = "log_loss"  # of a pool or a batch of classes with expert weights; others lack it
GREW = "grew"  # of a batch that added radial basis functions; others lack it
BEFORE = "before"  # of a batch, the output mode before it; older files lack it
SIDES = "sides"  # of the radial basis functions of a monotone model; others lack it
SEEN = "seen"  # residuals of a batch; without an error model it lacks them
LINEAR = "linear"  # inputs of a pool with one linear function; others lack it
LEVELS = "levels"  # inputs of a pool whose coordinates are levels; others lack it
FEWEST = "fewest"  # of a pool that keeps no sums of fewer rows apart; others lack it
UNDO = "undo"  # updates that a pool keeps apart, if not the default
GROWN = "grown"  # of a pool to which updates have added radial basis functions; others lack it
MEMORY = "memory"  # of a pool that keeps rows; others lack it
SPREAD = "spread"  # error model of a pool, or of a chart without a pool
OUTPUT_MODES: dict[OutputMode, str] = {"ensemble": "mixture", "cumulative": "exact", "decayed": "fading"}
LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True)
class MemoryLimits:
    """Limits of values in a file.

    Attributes
    ----------
    memories
        Decayed statistics: each takes as much room as the cumulative ones.
    steps
        Steps of evidence maximisation for a prior: each costs time.
    shortest, longest
        Length scales of radial basis functions; the longest stands for infinity.
    centre, side
        Coordinates of centres, which are means of points of the unit cube, and of one-sided functions, which
        are steepest at their centre.
    form
        Coefficients of the quadratic form of the log loss: scores are at most 60, and rows decay.
    """

    memories: int = 16
    steps: int = 100
    shortest: float = 1e-9
    longest: float = 1e9
    centre: float = 2.0
    side: float = 4.0
    form: float = 1e12


LIMITS = MemoryLimits()


# --- taking apart -------------------------------------------------------------------------------------


def pool_header(pooled: Contribution | None) -> dict[str, Any] | None:
    """The scalars and lists of a pool as JSON; None for a model without memory."""
    if pooled is None:
        return None
    if isinstance(pooled, ErrorModel):
        return {SPREAD: error_model_header(pooled)}
    pool = _as_pool(pooled)
    watched = {} if pool.error_model is None else {SPREAD: error_model_header(pool.error_model)}
    return {
        "coarse": list(pool.features.coarse),
        "fine": [list(pair) for pair in pool.features.fine],
        "bumps": [len(group.centres) for group in pool.features.radial_bases],
        "steps": pool.prior.steps,
        "half_lives": list(map(float, pool.half_lives)),
        "faded": [has_decayed(sums, pool.checkpoint) for sums in pool.decayed],
        "track": {
            "errors": pool.expert_weights.errors.tolist(),
            PRODUCTS: pool.expert_weights.products.tolist(),
            "rows": float(pool.expert_weights.rows),
        },
        "recent": [
            {"update": batch.update, PRODUCTS: batch.products.tolist(), BEFORE: OUTPUT_MODES[batch.before]}
            | ({GREW: list(batch.grew)} if batch.grew else {})
            | ({} if batch.seen is None else {SEEN: residuals_header(batch.seen)})
            | ({} if batch.log_loss is None else {LOG_LOSS: _form_header(batch.log_loss)})
            for batch in pool.recent
        ],
        "base": None if pool.initial is None else configuration_of(model_in(pool.initial)),
        "voice": OUTPUT_MODES[pool.output_mode],
        "loss": pool.loss,
        "weight_unit": float(pool.weight_unit),
        **(
            {SIDES: [list(group.sides) for group in pool.features.radial_bases]}
            if pool.features.monotonic
            else {}
        ),
        **({LEVELS: list(pool.features.levels)} if pool.features.levels else {}),
        **({LINEAR: list(pool.features.linear)} if pool.features.linear else {}),
        **({FEWEST: pool.fewest} if pool.fewest > 1 else {}),
        **({UNDO: pool.undo} if pool.undo != RECENT else {}),
        **({GROWN: [list(updates) for updates in pool.grown]} if pool.grown else {}),
        **({} if pool.memory is None else {MEMORY: memory_header(pool.memory)}),
        **({} if pool.class_weights is None else {LOG_LOSS: _form_header(pool.class_weights.form)}),
    } | watched


def _form_header(form: LossForm) -> dict[str, Any]:
    return {"curvature": form.curvature.tolist(), "slope": form.slope.tolist()}


def pool_tensors(pooled: Contribution | None, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a pool; names of all tensors start with its name."""
    if pooled is None:
        return {}
    if isinstance(pooled, ErrorModel):
        return error_model_tensors(pooled, f"{name}.spread")
    pool = _as_pool(pooled)
    tensors = {f"{name}.precisions": pool.prior.precisions}
    for k, group in enumerate(pool.features.radial_bases):
        lengths = np.minimum(group.lengths, LIMITS.longest)
        tensors |= {f"{name}.bumps.{k}.centres": group.centres, f"{name}.bumps.{k}.lengths": lengths}
    tensors |= statistics_tensors(pool.checkpoint, f"{name}.older")
    for k, sums in enumerate(pool.decayed):
        if has_decayed(sums, pool.checkpoint):
            tensors |= sums_tensors(sums, f"{name}.faded.{k}")
    for k, batch in enumerate(pool.recent):
        tensors |= statistics_tensors(batch.statistics, f"{name}.recent.{k}")
        tensors |= {} if batch.seen is None else residuals_tensors(batch.seen, f"{name}.recent.{k}.seen")
    if pool.error_model is not None:
        tensors |= error_model_tensors(pool.error_model, f"{name}.spread")
    if pool.initial is not None:
        tensors |= table_tensors(model_in(pool.initial), f"{name}.base")
    if pool.memory is not None:
        tensors |= memory_tensors(pool.memory, f"{name}.{MEMORY}")
    return tensors


def _as_pool(pooled: Contribution) -> Pool:
    if not isinstance(pooled, Pool):
        raise TypeError(f"a memory of type {type(pooled).__name__} has no place in a file")
    return pooled


# --- putting together ---------------------------------------------------------------------------------


def pool_from_archive(archive: Archive, value: object, model: Atlas, name: str) -> Pool | None:
    """The memory of a model; raise a ValueError if it is invalid."""
    if value is None:
        return None
    monotonic = state_of(model).monotonic
    known_keys = (SPREAD, LEVELS, LINEAR, FEWEST, UNDO, GROWN, MEMORY, LOG_LOSS)
    optional = [key for key in known_keys if _has(value, key)]
    more = (*([SIDES] if monotonic else []), *optional)
    fields = Fields(value, name, (*POOL, *more))
    features = _read_features(archive, fields, model.inputs, monotonic, name)
    shape = (len(features), model.outputs)
    half_lives = _read_half_lives(fields)
    base = None if fields.is_null("base") else _read_base(archive, fields.value["base"], model, name)
    loss, memory, sizes = fields.choice("loss", tuple(LOSSES)), None, (model.inputs, model.outputs)
    if MEMORY in fields.value:
        memory = read_memory(archive, fields.value[MEMORY], sizes, loss, f"{name}.{MEMORY}")
        if base is not None:
            raise ValueError(f"'base' of {name} has no place beside rows that are kept")
    has_base = base is not None or memory is not None
    known = 1 + len(half_lives) + has_base
    candidates = known + len(recent_lives_of(memory, loss)), known
    older = read_statistics(archive, shape, f"{name}.older", features.levels)
    error_model = None
    if SPREAD in fields.value:
        error_model = error_model_from_archive(archive, fields.value[SPREAD], sizes, loss, f"{name}.spread")
    recent = _read_recent(archive, fields, features, shape, candidates, name)
    recent = _with_residuals(archive, recent, fields.items("recent"), error_model, model, loss, name)
    pool = Pool(
        features=features,
        prior=_read_prior(archive, fields, features, name),
        half_lives=half_lives,
        checkpoint=older,
        decayed=read_decayed(archive, fields, len(half_lives), older, name, features.levels),
        expert_weights=_read_experts(fields.value["track"], candidates, name),
        recent=recent,
        initial=base,
        memory=memory,
        output_mode=_read_output_mode(fields, half_lives),
        loss=loss,
        dtype=model.dtype.name,
        weight_unit=_positive(fields, "weight_unit"),
        error_model=error_model,
        fewest=fields.whole(FEWEST, least=1) if FEWEST in fields.value else 1,
        undo=fields.whole(UNDO, least=1) if UNDO in fields.value else RECENT,
        grown=_read_grown(fields, recent, features, name),
        class_weights=_read_class_weights(fields, candidates[0]),
    )
    _check_total(pool, name)
    _check_log_loss(pool, name)
    return pool


def _check_log_loss(pool: Pool, name: str) -> None:
    """Numbers have no log loss."""
    known = pool.class_weights is not None or any(batch.log_loss is not None for batch in pool.recent)
    if known and pool.loss != "cross-entropy":
        raise ValueError(f"{LOG_LOSS!r} of {name} has no place beside targets that are numbers")


def _check_total(pool: Pool, name: str) -> None:
    """Each part may fit into 64 bits, and all of them together not."""
    try:
        pool.total  # noqa: B018
    except OverflowError:
        raise ValueError(f"the sums of {name} do not fit into 64 bits") from None


def chart_memory(
    archive: Archive, value: object, model: Atlas, loss: str | None, name: str
) -> Contribution | None:
    """The memory of a chart: a pool, or the error model of a trained one."""
    if _has(value, SPREAD) and not _has(value, "coarse"):
        fields = Fields(value, name, (SPREAD,))
        sizes = (model.inputs, model.outputs)
        return error_model_from_archive(archive, fields.value[SPREAD], sizes, loss, f"{name}.spread")
    return pool_from_archive(archive, value, model, name)


def _has(value: object, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _with_residuals(
    archive: Archive,
    batches: Sequence[Batch],
    items: Sequence[Any],
    error_model: ErrorModel | None,
    model: Atlas,
    loss: str,
    name: str,
) -> tuple[Batch, ...]:
    """The latest updates with the residuals that they add to the error model, in order."""
    found = []
    for k, (batch, item) in enumerate(zip(batches, items, strict=True)):
        seen: Residuals | ErrorModel | None = None
        if SEEN in item:
            place, shape = f"{name}.recent.{k}.seen", (model.inputs, model.outputs)
            seen = read_residuals(archive, item[SEEN], error_model, shape, loss, place)
        error_model = error_model_after(error_model, seen)
        found.append(replace(batch, seen=seen))
    return tuple(found)


def _positive(fields: Fields, key: str) -> float:
    number = fields.number(key, least=0)
    if number == 0:
        raise ValueError(f"{key!r} of {fields.name} must be more than 0")
    return number


def _read_half_lives(fields: Fields) -> tuple[float, ...]:
    lives = fields.items("half_lives")
    if any(type(life) not in (int, float) or not 0 < life <= LARGEST for life in lives):
        raise ValueError(f"'half_lives' of {fields.name} must be positive numbers")
    if len(lives) > LIMITS.memories:
        raise ValueError(
            f"'half_lives' of {fields.name} are {len(lives)}, and at most {LIMITS.memories} are allowed"
        )
    return tuple(map(float, lives))


def _read_output_mode(fields: Fields, half_lives: Sequence[float], key: str = "voice") -> OutputMode:
    name = fields.choice(key, OUTPUT_MODES.values())
    if name == OUTPUT_MODES["decayed"] and not half_lives:
        raise ValueError(f"{key!r} of {fields.name} is {name!r}, but there are no half-lives")
    return next(output_mode for output_mode, own in OUTPUT_MODES.items() if own == name)


def _read_before(fields: Fields, pool: Fields, is_first: bool) -> OutputMode:
    """The output mode before an update; in older files the present one, or at first that of the ensemble."""
    half_lives = pool.items("half_lives")
    if BEFORE in fields.value:
        return _read_output_mode(fields, half_lives, BEFORE)
    output_mode = _read_output_mode(pool, half_lives)
    track = pool.value["track"]
    more = (PRODUCTS,) if _has(track, PRODUCTS) else ()
    is_new = is_first and Fields(track, f"the track of {pool.name}", (*TRACK, *more)).number("rows") == 0
    return "ensemble" if output_mode == "cumulative" and is_new else output_mode


def _read_base(archive: Archive, value: object, model: Atlas, name: str) -> State:
    """The initial model, on the unit cube, of the sizes of the present one."""
    base = read_bare_model(archive, value, f"{name}.base", f"'base' of {name}")
    if (base.inputs, base.outputs, base.dtype) != (model.inputs, model.outputs, model.dtype):
        raise ValueError(f"'base' of {name} has other inputs, outputs or another dtype than the model")
    if base.is_extended:
        raise ValueError(f"'base' of {name} reaches beyond the unit cube")
    state = state_of(constrained(base, state_of(model).monotonic))
    if not is_monotone(state):
        raise ValueError(f"'base' of {name} does not follow the monotone directions of its model")
    return state


# --- features and their prior -------------------------------------------------------------------------


def _read_features(
    archive: Archive, fields: Fields, inputs: int, monotonic: Monotonic, name: str
) -> Features:
    coarse, fine, radial_bases = fields.items("coarse"), fields.items("fine"), fields.items("bumps")
    if not are_different_inputs(coarse, inputs):
        raise ValueError(f"'coarse' of {name} must be different inputs")
    if any(not isinstance(pair, list) or len(pair) != 2 for pair in fine):
        raise ValueError(f"'fine' of {name} must be pairs of an input and a density")
    if not are_different_inputs([pair[0] for pair in fine], inputs):
        raise ValueError(f"'fine' of {name} must be of different inputs")
    if any(type(density) is not int or not COARSE < density <= FINEST for _, density in fine):
        raise ValueError(f"'fine' of {name} needs densities from {COARSE + 1} to {FINEST}")
    if any(type(count) is not int or count < 1 for count in radial_bases):
        raise ValueError(f"'bumps' of {name} must be whole numbers of at least 1")
    sides = _read_sides(fields, len(radial_bases), monotonic) if monotonic else [()] * len(radial_bases)
    groups = [
        _read_bases(archive, count, inputs, side, f"{name}.bumps.{k}")
        for k, (count, side) in enumerate(zip(radial_bases, sides, strict=True))
    ]
    if any(not _follow(group, monotonic) for group in groups if monotonic):
        raise ValueError(f"'bumps' of {name} do not follow the monotone directions of its model")
    levels = fields.items(LEVELS) if LEVELS in fields.value else []
    if not are_different_inputs(levels, inputs):
        raise ValueError(f"'levels' of {name} must be different inputs")
    linear = fields.items(LINEAR) if LINEAR in fields.value else []
    if not are_different_inputs([*coarse, *linear], inputs):
        raise ValueError(f"'coarse' and 'linear' of {name} must be different inputs")
    pairs = tuple((j, density) for j, density in fine)
    return Features(inputs, tuple(coarse), pairs, tuple(groups), monotonic, tuple(levels), tuple(linear))


def _read_sides(fields: Fields, groups: int, monotonic: Monotonic) -> list[tuple[int, ...]]:
    """Sides of each group of radial basis functions."""
    sides = fields.items(SIDES)
    shaped = len(sides) == groups and all(
        isinstance(each, list) and len(each) == len(monotonic[0]) for each in sides
    )
    if not shaped or any(type(side) is not int or abs(side) > 1 for each in sides for side in each):
        raise ValueError(
            f"{SIDES!r} of {fields.name} must be -1, 0 or 1 for each input of each group of functions"
        )
    return [tuple(each) for each in sides]


def _follow(group: RadialBasis, monotonic: Monotonic) -> bool:
    """Whether functions are monotone with an output along its monotone inputs, against it, or constant."""
    relative = np.array(group.sides) * monotonic[0]
    both = (np.array(monotonic[0]) != 0) & (relative == 0) & np.isfinite(group.lengths)
    follows = (relative == np.array(group.sides) ** 2).all() or (
        relative == -(np.array(group.sides) ** 2)
    ).all()
    return bool(follows and not both.any())


def _read_bases(archive: Archive, count: int, inputs: int, sides: tuple[int, ...], name: str) -> RadialBasis:
    centres = archive.tensor(f"{name}.centres", "float64", (count, inputs))
    if (np.abs(centres) > (LIMITS.side if any(sides) else LIMITS.centre)).any():
        raise ValueError(f"tensor '{name}.centres' leaves the unit cube")
    lengths = archive.tensor(f"{name}.lengths", "float64", (inputs,))
    if (lengths < LIMITS.shortest).any() or (lengths > LIMITS.longest).any():
        raise ValueError(f"tensor '{name}.lengths' must be from {LIMITS.shortest:g} to {LIMITS.longest:g}")
    return RadialBasis(centres, np.where(lengths == LIMITS.longest, np.inf, lengths), sides)


def _read_prior(archive: Archive, fields: Fields, features: Features, name: str) -> Prior:
    precisions = archive.tensor(f"{name}.precisions", "float64", (len(features.sizes),))
    if (precisions <= 0).any():
        raise ValueError(f"tensor '{name}.precisions' must be positive")
    return Prior(features.sizes, precisions, fields.whole("steps", most=LIMITS.steps), features.cone)


# --- expert weights -------------------------------------------------------------------


def _read_experts(value: object, counts: tuple[int, int], name: str) -> ExpertWeights:
    more = (PRODUCTS,) if _has(value, PRODUCTS) else ()
    fields = Fields(value, f"the track of {name}", (*TRACK, *more))
    errors, rows = _read_errors(fields, counts), fields.number("rows", least=0)
    products = _read_products(fields, counts) if more else rows * _correlated(errors)
    return ExpertWeights(errors, products, rows)


def _read_errors(fields: Fields, counts: tuple[int, int]) -> Array:
    """Squared errors of candidates; those that overflowed are large.

    The first count is that of all candidates, the second of those in files up to version 7; others get the
    value of the last of these.
    """
    errors, candidates = fields.items("errors"), counts[0]
    if len(errors) not in counts or not all(map(_is_error, errors)):
        raise ValueError(f"'errors' of {fields.name} must be {candidates} numbers of at least 0")
    squares = np.minimum(np.array([float(error) for error in errors]), FARTHEST**2)
    return squares[np.minimum(np.arange(candidates), len(errors) - 1)]


def _read_products(fields: Fields, counts: tuple[int, int]) -> Array:
    """Products of the errors of candidates; for files with squares alone, those of perfect correlation."""
    if PRODUCTS not in fields.value:
        return _correlated(_read_errors(fields, counts))
    rows, candidates = fields.items(PRODUCTS), counts[0]
    is_square = len(rows) in counts and all(isinstance(row, list) and len(row) == len(rows) for row in rows)
    numbers = [each for row in rows for each in row] if is_square else [None]
    products = np.array(rows, np.float64) if all(type(each) in (int, float) for each in numbers) else None
    if products is None or not np.array_equal(products, products.T) or (np.diagonal(products) < 0).any():
        raise ValueError(f"{PRODUCTS!r} of {fields.name} must be those of errors of {candidates} candidates")
    # files of classes may lack recent local regressions, which get the values of the last candidate
    places = np.minimum(np.arange(candidates), len(rows) - 1)
    return products[np.ix_(places, places)]


def _read_class_weights(fields: Fields, candidates: int) -> ClassWeights | None:
    form = _read_form(fields, candidates)
    return None if form is None else ClassWeights(form)


def _read_form(fields: Fields, candidates: int) -> LossForm | None:
    """The quadratic form of the log loss of candidates for classes; None if a file lacks it."""
    if LOG_LOSS not in fields.value:
        return None
    own = Fields(fields.value[LOG_LOSS], f"{LOG_LOSS!r} of {fields.name}", ("curvature", "slope"))
    rows, slope = own.items("curvature"), own.items("slope")
    is_square = all(isinstance(row, list) and len(row) == candidates for row in [rows, slope, *rows])
    numbers: list[Any] = [each for row in [slope, *rows] for each in row] if is_square else [None]
    known = all(type(each) in (int, float) and abs(each) <= LIMITS.form for each in numbers)
    form = LossForm(np.array(rows, np.float64), np.array(slope, np.float64)) if known else None
    if form is None or not _is_convex(form.curvature):
        raise ValueError(f"{LOG_LOSS!r} of {fields.name} must be a convex form of {candidates} candidates")
    return form


def _is_convex(curvature: Array) -> bool:
    """Whether a matrix is symmetric and positive semidefinite, up to rounding."""
    if not np.array_equal(curvature, curvature.T):
        return False
    values = np.linalg.eigvalsh(curvature)
    return bool(values[0] >= -1e-9 * max(float(values[-1]), 1.0))


def _correlated(squares: Array) -> Array:
    """Products of errors of given squares with perfect correlation."""
    root = np.sqrt(squares)
    return np.outer(root, root)


def _is_error(value: object) -> bool:
    if type(value) not in (int, float):
        return bool(value == "inf")
    return bool(0 <= cast(float, value) <= LARGEST)


def _read_recent(
    archive: Archive,
    pool: Fields,
    features: Features,
    shape: tuple[int, int],
    candidates: tuple[int, int],
    name: str,
) -> tuple[Batch, ...]:
    """The latest updates; the reader of the model checks them against the log."""
    batches: list[Batch] = []
    for k, item in enumerate(pool.items("recent")):
        more = tuple(key for key in (GREW, SEEN, BEFORE, LOG_LOSS) if _has(item, key))
        errors = PRODUCTS if _has(item, PRODUCTS) else "errors"
        fields = Fields(item, f"{name}.recent.{k}", ("update", errors, *more))
        update, products = fields.whole("update", least=1), _read_products(fields, candidates)
        grew = tuple(fields.items(GREW)) if GREW in more else ()
        before = _read_before(fields, pool, is_first=k == 0)
        sums = read_statistics(archive, shape, fields.name, features.levels)
        form = _read_form(fields, candidates[0])
        batches.append(Batch(update, sums, products, grew, before=before, log_loss=form))
    _check_growth(batches, features, name)
    if any(late.update <= early.update for early, late in pairwise(batches)):
        raise ValueError(f"'recent' of {name} must be rising updates")
    return tuple(batches)


def _read_grown(
    fields: Fields, recent: Sequence[Batch], features: Features, name: str
) -> tuple[tuple[int, ...], ...]:
    """Updates that added radial basis functions; older files have those of recent updates."""
    if GROWN not in fields.value:
        grown = [batch for batch in recent if batch.grew]
        groups = range(len(features.radial_bases) if grown else 0)
        return tuple(tuple(b.update for b in grown for _ in range(b.grew[k])) for k in groups)
    given, sizes = fields.items(GROWN), [len(group.centres) for group in features.radial_bases]
    known = len(given) == len(sizes) and all(isinstance(updates, list) for updates in given)
    whole = known and all(type(update) is int and update >= 0 for updates in given for update in updates)
    if not whole or any(len(updates) > size for updates, size in zip(given, sizes, strict=True)):
        raise ValueError(f"{GROWN!r} of {name} must be the updates of the last functions of each group")
    return tuple(tuple(updates) for updates in given)


def _check_growth(batches: Sequence[Batch], features: Features, name: str) -> None:
    """Refuse recent updates that have added all functions of a group."""
    grown = [batch.grew for batch in batches if batch.grew]
    sizes = [len(group.centres) for group in features.radial_bases]
    known = all(len(grew) == len(sizes) and all(type(k) is int and k >= 0 for k in grew) for grew in grown)
    if not known or any(sum(counts) >= size for *counts, size in zip(*grown, sizes, strict=True)):
        raise ValueError(
            f"'grew' of a recent update of {name} must count functions of each group, not all of them"
        )
