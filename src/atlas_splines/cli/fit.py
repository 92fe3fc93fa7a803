"""`atlas fit`: learn a table, and save the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import (
    Estimator,
    alone_with,
    check_folder,
    check_other,
    check_replaceable,
    kept_rows,
    kept_text,
)
from atlas_splines.cli.metrics import Score, has_answer
from atlas_splines.cli.output import Facts, Progress, Say
from atlas_splines.cli.rows import Labels, RowReader, note_placeholders, sample_size
from atlas_splines.cli.scan import Summing, Workers, survey_table
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.fit import group_folds
from atlas_splines.estimators.out_of_core import RowsToSum, SummedRows
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.io.save_load import save
from atlas_splines.memory.kept_rows import NewestRows
from atlas_splines.model.atlas import state_of
from atlas_splines.tables.cells import Cells, as_narrow
from atlas_splines.tables.dates import DateChoice
from atlas_splines.tables.dialects import PLAIN
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import UNKNOWN, Encoding
from atlas_splines.tables.inference import TableSurvey, Task
from atlas_splines.tables.sample import Sample, random_numbers
from atlas_splines.tables.source import Piece, Source, TableError, opened
from atlas_splines.tables.wording import byte_size, counted
from atlas_splines.updates.initial_memory import add_first_rows
from atlas_splines.updates.partial_sums import RowSums, Summer, add_first_sums
from atlas_splines.updates.routing import memory_of

__all__ = ["fit_table"]

# Share of the sample of a larger table that is kept aside to judge by.
TEST_SHARE = 0.1

# Seconds to wait for another process that changes the same model file.
WAIT = 600


def fit_table(
    data: str,
    target: str,
    output: Path,
    *,
    task: Task = "auto",
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    category: Sequence[str] = (),
    groups: str | None = None,
    increasing: Sequence[str] = (),
    decreasing: Sequence[str] = (),
    dates: Sequence[str] = (),
    skip_missing: bool = False,
    told: Mapping[str, Any] = MappingProxyType({}),
    force: bool = False,
    seed: int = 0,
    workers: Workers,
    echo: Say,
    note: Say,
    progress: Progress,
    **parameters: Any,
) -> Facts:
    """Learn a table, and save the model; `told` is what is said of its dialect."""
    check_folder(output)
    check_other(data, output)
    if not force:
        check_replaceable(output)
    if groups == target:
        raise TableError(f"--groups and --target both name {target!r}; give another column to one of them")
    with workers, opened(data, PLAIN.told(**told)) as source:
        if source.looks_headless:
            echo(f"{source.name}: the first row, taken as names, looks like data; if it is, add --no-header.")
        ways = column_directions_of(named(source, increasing), named(source, decreasing))
        columns, ignore, category = (named(source, given) for given in (columns, ignore, category))
        beside = () if groups is None else (groups,)
        names = input_names(source, target, columns, (*ignore, *beside), category)
        choices = date_choices(source, dates, category)
        if target in category:
            if task == "regress":
                raise TableError(f"--category {target} and --regress exclude each other; give one of them")
            task = "classify"
        survey = TableSurvey(
            names,
            target,
            task=task,
            category=category,
            stored=source.categories,
            skip_missing=skip_missing,
            dates=choices,
        )
        with progress.step(f"reading {source.name}"):
            encoding, sample = survey_table(source, survey, beside, sample_size(len(names)), seed, workers)
        used = {*encoding.names, target, *source.index}
        encoding = replace(encoding, left_out=tuple(name for name in source.columns if name not in used))
        refuse_directions(ways, encoding, source)
        maker = AtlasRegressor if encoding.classes is None else AtlasClassifier
        estimator = maker(random_state=seed, monotonic_cst=ways or None, **parameters)
        echo(f"{source.name}: {counted(sample.seen, 'row')}, target {target!r}, {described(encoding)}.")
        report_dates(encoding, echo)
        note_placeholders(source, encoding.texts, note)
        if sample.is_whole:
            newest = learn_small(estimator, encoding, source, sample, echo, progress, groups)
        else:
            row_reader = RowReader(encoding, skip_missing, UNKNOWN)
            newest = learn_large(estimator, row_reader, source, sample, seed, echo, progress, groups, workers)
    if isinstance(estimator, AtlasClassifier):
        estimator.classes_ = as_narrow(estimator.classes_, sample.rows, target)
    with alone_with(output, WAIT, echo):
        if not force:
            check_replaceable(output)  # it may have been updated meanwhile
        save(estimator, output)
    size = Path(output).stat().st_size
    kept = kept_text(estimator, newest)
    coefficients = counted(estimator.model_.n_parameters, "coefficient")
    echo(f"The model is {output}, {byte_size(size)}, with {coefficients}; it {kept}.")
    return {
        "output": output,
        "data": source.name,
        "rows": sample.seen,
        "target": target,
        "classes": encoding.classes,
        "inputs": list(encoding.inputs),
        "coefficients": estimator.model_.n_parameters,
        "bytes": size,
        "kept_rows": kept_rows(estimator),
        "fit": asdict(estimator.fit_record_) if estimator.fit_record_ else None,
    }


def column_directions_of(increasing: Sequence[str], decreasing: Sequence[str]) -> dict[str, int]:
    """Which way predictions have to go along columns, as `monotonic_cst` of the estimators."""
    both = set(increasing) & set(decreasing)
    if both:
        raise TableError(f"--increasing and --decreasing both name {min(both)!r}; give one of them")
    return dict.fromkeys(increasing, 1) | dict.fromkeys(decreasing, -1)


def refuse_directions(ways: dict[str, int], encoding: Encoding, source: Source) -> None:
    """Refuse ways along what is no column of numbers."""
    if ways and encoding.classes is not None and len(encoding.classes) != 2:
        raise TableError(
            f"--increasing and --decreasing are for numbers or two classes, and {encoding.target!r} has "
            f"{len(encoding.classes)} classes; leave them out"
        )
    columns = {column.name: column for column in encoding.parts}
    for name in ways:
        if name not in columns:
            raise TableError(f"{source.name} has no input column {name!r} to go along; check its name")
        if columns[name].categories is not None:
            raise TableError(
                f"column {name!r} of {source.name} has categories, which have no order; "
                "--increasing and --decreasing are for columns of numbers"
            )


def named(source: Source, given: Sequence[str]) -> list[str]:
    """Names of columns, some of which may be given as one text with commas between them."""
    parts = [[text] if text in source.columns else text.split(",") for text in given]
    return [name.strip() for part in parts for name in part if name.strip()]


def input_names(
    source: Source, target: str, columns: Sequence[str], ignore: Sequence[str], category: Sequence[str]
) -> list[str]:
    """Columns of a table that are inputs."""
    source.need([target, *columns, *ignore, *category])
    every = [name for name in source.columns if name not in source.index]
    names = [name for name in dict.fromkeys(columns or every) if name not in (target, *ignore)]
    if not names:
        raise TableError(f"{source.name} has no column left to predict {target!r} from; name some")
    return names


def date_choices(source: Source, dates: Sequence[str], category: Sequence[str]) -> dict[str, DateChoice]:
    """What is said of columns of dates, as COLUMN or COLUMN=WORDS."""
    choices = {}
    for text in dates:
        name, _, words = (text, "", "") if text in source.columns else text.rpartition("=")
        source.need([name or text])
        if name in category:
            raise TableError(f"--date {name} and --category {name} exclude each other; give one of them")
        choices[name] = DateChoice.of(words)
    return choices


def described(encoding: Encoding) -> str:
    """What is learned from what, in a few words."""
    texts = sum(column.categories is not None for column in encoding.columns)
    dates = sum(column.calendar is not None for column in encoding.columns)
    parts = [
        counted(len(encoding.columns) - texts - dates, "column") + " of numbers",
        f"{texts} of categories",
    ]
    if dates:
        parts.append(f"{dates} of dates")
    kind = "numbers" if encoding.classes is None else f"{len(encoding.classes)} classes"
    return f"{kind}, from {', '.join(parts[:-1])} and {parts[-1]}"


def report_dates(encoding: Encoding, echo: Say) -> None:
    """Say which parts of dates are inputs, and how to choose others."""
    for column in encoding.columns:
        if column.calendar is not None:
            parts = ", ".join(column.calendar.parts)
            echo(f"{column.name}: a date, read as {parts}; --date {column.name}=PARTS chooses others.")


def learn(
    estimator: Estimator, encoding: Encoding, X: EncodedRows, y: Labels, groups: Labels | None = None
) -> None:
    """Fit; a classifier must know all classes of the table, also those that are not in the sample."""
    if isinstance(estimator, AtlasClassifier):
        estimator._fit_announced(X, y, np.array(encoding.classes), groups=groups, encoding=encoding)
    else:
        estimator._fit(X, y, None, groups, encoding=encoding)


def learn_small(
    estimator: Estimator,
    encoding: Encoding,
    source: Source,
    sample: Sample,
    echo: Say,
    progress: Progress,
    groups: str | None = None,
) -> bool:
    """Learn all rows at once; the newest are kept."""
    X, y = sampled_rows(encoding, source, sample)
    with progress.step("fitting"):
        learn(estimator, encoding, X, y, sampled_groups(source, sample, groups))
    echo(f"{estimator.fit_record_}.")
    return True


def sampled_rows(encoding: Encoding, source: Source, sample: Sample) -> tuple[EncodedRows, Labels]:
    """Inputs and targets of the sample; its cells were checked when they were read."""
    rows = Piece(source, 1, sample.rows)
    return encoding.encode(rows), encoding.targets(rows, skip=True)[0]


def sampled_groups(source: Source, sample: Sample, name: str | None) -> Labels | None:
    """The group of each row of the sample, if a column names them."""
    if name is None:
        return None
    cells = Cells.of(Piece(source, 1, sample.rows), name)  # rows of a sample: their numbers are beside it
    categories = tuple(cells.spellings())
    codes = cells.codes(categories, None)
    if (codes < 0).any():
        raise TableError(
            f"{source.name}, row {sample.numbers[codes < 0][0]:,}, column {name!r}: the group is missing; "
            "fill it in"
        )
    if len(categories) < 2:
        raise TableError(f"{source.name}, column {name!r}: there is one group only; two are needed")
    return codes


def held_out_rows(rows: int, groups: Labels | None, random: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of the rows of a sample that are kept aside to judge by: whole groups, if there are any."""
    return random.random(rows) < TEST_SHARE if groups is None else group_folds(groups, TEST_SHARE, random)[0]


def several_groups(groups: Labels | None, learned: NDArray[np.bool_]) -> Labels | None:
    """Groups of the rows to learn, or None if only one is left, whose rows are then held out one by one."""
    left = None if groups is None else groups[learned]
    return None if left is None or len(np.unique(left)) < 2 else left


def learn_large(
    estimator: Estimator,
    row_reader: RowReader,
    source: Source,
    sample: Sample,
    seed: int,
    echo: Say,
    progress: Progress,
    groups: str | None,
    workers: Workers,
) -> bool:
    """Learn a sample of the rows, then add all others; whether the newest rows are kept, if rows are."""
    X, y = sampled_rows(row_reader.encoding, source, sample)
    random = random_numbers(seed, 1)
    numbers = sampled_groups(source, sample, groups)
    aside = held_out_rows(len(y), numbers, random)
    learned_X, learned_y = X[~aside], y[~aside]
    with progress.step("fitting a sample"):
        learn(estimator, row_reader.encoding, learned_X, learned_y, several_groups(numbers, ~aside))
    others = HeldOutRows(X[aside], y[aside], sample.numbers[aside]).answered_by(estimator)
    before = others.score(estimator)
    echo(f"Learned a sample of {len(learned_y):,} rows; on {before.rows:,} others: {before}.")
    summing = Summing(RowsToSum(estimator), row_reader, sample.numbers)
    rest = workers.summed(summing, source, row_reader.columns, sample.before)
    if memory_of(state_of(estimator.model_)) is None:
        newest = True
        learn_sums(estimator, rest.sums, others, before, echo)
    else:
        newest = learn_rows(estimator, rest, sample.numbers[~aside], others, echo)
    echo(f"{estimator.fit_record_}.")
    return newest


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows of a sample that a fit has not learned, to judge it by, with their numbers in the table."""

    X: EncodedRows
    y: Labels
    numbers: NDArray[np.int64]

    def answered_by(self, estimator: Estimator) -> HeldOutRows:
        """Those for which the estimator has a prediction."""
        inside = has_answer(estimator, self.X)
        return HeldOutRows(self.X[inside], self.y[inside], self.numbers[inside])

    def score(self, estimator: Estimator) -> Score:
        """How well the estimator predicts them."""
        return Score().add(estimator, self.X, self.y)


def learn_sums(estimator: Estimator, sums: RowSums, others: HeldOutRows, before: Score, echo: Say) -> None:
    """Add the sums of all rows beyond a sample to a model that keeps no rows; they speak if that helps."""
    state = add_first_sums(state_of(estimator.model_), sums)
    estimator._take_first(state, sum(sums.rows.values()))
    after = others.score(estimator)
    if after.badness > before.badness:
        estimator._use_initial_model()
        estimator._assess_by(others.X, others.y)
        echo(f"The evidence of all rows would not predict better ({after}); it is kept for updates.")
    else:
        estimator._assess_by(others.X, others.y)
        estimator.fit_more(others.X, others.y)
        echo(f"With the evidence of all rows: {after}.")


def learn_rows(
    estimator: Estimator,
    rest: SummedRows,
    learned: NDArray[np.int64],
    others: HeldOutRows,
    echo: Say,
) -> bool:
    """Derive a model from the newest rows of a table and from the sums of all, with kernels of the sample.

    If not all rows can be kept, and those of the sample predict others better, as in a table that is sorted
    by what matters, these are kept, and the answer is no. `learned` are their numbers in the table.
    """
    fitted = state_of(estimator.model_)
    memory = memory_of(fitted)
    assert memory is not None
    sampled = NewestRows(memory.rows, learned[-len(memory.rows) :], memory.budget)
    newest, more = sampled + rest.newest, sum(rest.sums.rows.values())

    def kept_as(rows: NewestRows) -> Score:
        estimator._take_state(add_first_sums(fitted, rest.sums, rows.rows))
        return others.score(estimator)

    leaves_some = len(newest.numbers) < len(learned) + more
    by_sample = kept_as(sampled) if leaves_some else None
    by_newest = kept_as(newest)
    is_newest = by_sample is None or by_newest.badness <= by_sample.badness
    if is_newest:
        echo(f"With all rows: {by_newest}.")
    else:
        echo(f"With all rows: {kept_as(sampled)}; the newest would not predict better ({by_newest}).")
    estimator._assess_by(others.X, others.y)
    assessed = estimator._rows(*estimator._checked(others.X, others.y, None))
    kept = (newest if is_newest else sampled) + Summer(fitted).newest(assessed, others.numbers)
    state = add_first_rows(state_of(estimator.model_), [assessed], kept.rows)
    estimator._take_first(state, more + len(assessed))
    return is_newest
