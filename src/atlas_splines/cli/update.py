"""`atlas update`: teach a saved model new rows, and tell what can change and what cannot."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.diff import known_rows_text, share_of_domain
from atlas_splines.cli.files import (
    Estimator,
    alone_with,
    check_folder,
    check_other,
    check_replaceable,
    check_there,
    load_estimator,
    table_of,
)
from atlas_splines.cli.metrics import Score
from atlas_splines.cli.output import Facts, Failed, Progress, Say
from atlas_splines.cli.rows import Labels, RowReader, note_placeholders, note_unused_columns, sample_size
from atlas_splines.cli.scan import NewRows, Workers, news_of
from atlas_splines.estimators.audit import EstimatorUpdate
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.fit import held_out_text
from atlas_splines.estimators.footprints import footprint_lines
from atlas_splines.estimators.input_space import MARGIN
from atlas_splines.estimators.reaching import FarRowError
from atlas_splines.io.models import held_out_to_json
from atlas_splines.io.save_load import save
from atlas_splines.memory.random_effects import LATER
from atlas_splines.model.atlas import state_of
from atlas_splines.model.log import TRAINED, Record, UpdateWarning, next_id
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import UNKNOWN, Column, Encoding
from atlas_splines.tables.inference import News, TableSurvey, checked_columns
from atlas_splines.tables.new_columns import new_columns as come_columns
from atlas_splines.tables.sample import Sample
from atlas_splines.tables.source import Located, Piece, Source, TableError, pieces_joined
from atlas_splines.tables.wording import counted, listed
from atlas_splines.updates.assess import known_text
from atlas_splines.updates.footprint import BoxFootprint, RestFootprint
from atlas_splines.updates.incremental import TOO_FEW
from atlas_splines.updates.intervals import error_model_of
from atlas_splines.updates.log import Update, learned_before
from atlas_splines.updates.metrics import HeldOut
from atlas_splines.updates.partial_sums import Summer, add_to_newest_update
from atlas_splines.updates.plan import BY_EVIDENCE, Retention
from atlas_splines.updates.refusal import UpdateRefused

__all__ = ["update_model"]

# What becomes of categories that were not there in fit.
Unknown = Literal["learn", "missing", "error"]

# What a share of the domain says when it is all of it.
EVERYTHING = "100.00%"

# Ends of a column of the fit, in the units of the model.
UNIT_INTERVAL = np.array([0.0, 1.0])

WEEK = 7  # days

# How the command ends if rows are faulty as a whole.
REFUSED = "nothing was learned: correct the table, or learn it all the same with --accept"
REFUSED_CODE = 3

# Rows whose support is looked at: that takes as long as to learn them.
MOST_JUDGED = 10_000


def update_model(
    path: Path,
    data: str,
    *,
    output: Path | None = None,
    retention: Retention | None = None,
    dry_run: bool = False,
    skip_missing: bool = False,
    told: Mapping[str, Any] = MappingProxyType({}),
    unknown: Unknown = "learn",
    strict: bool = False,
    far: bool = False,
    accept: bool = False,
    new_columns: bool = False,
    ignore: Sequence[str] = (),
    force: bool = False,
    seed: int = 0,
    message: str = "",
    author: str = "",
    workers: Workers,
    wait: float = 600,
    echo: Say,
    note: Say,
    progress: Progress,
) -> Facts:
    """Teach a saved model new rows; say what can change and what cannot, and how well it did.

    `told` is what is said of the dialect of the table; for the rest it is as in fit. Categories that are new
    are learned, read as missing, or refused; new classes are learned. With `strict` both are refused. New
    columns, but for those to `ignore`, are learned only with `new_columns`, and rows that are faulty as a
    whole, or known, only with `accept`.
    """
    check_there(path)
    output = output or path
    replaces = force or is_same_file(output, path)
    if not dry_run:
        check_folder(output)
    check_other(data, output)
    if not (dry_run or replaces):
        check_replaceable(output)
    with (
        workers,
        Located(data) as located,
        contextlib.nullcontext() if dry_run else alone_with(output, wait, note),
    ):
        model, source = open_both(path, located, told, None if strict else unknown, workers, echo, note)
        came = columns_to_come(model, source, new_columns, ignore, skip_missing)
        note_unused_columns(source, model.encoding_, note, [column.name for column in came])
        note_columns_gone(source, model.encoding_, note)
        advice = None if unknown == "missing" and not strict else UNKNOWN
        there = tuple(name for name in model.encoding_.names if name in source.columns)
        row_reader = RowReader(table_of(model), skip_missing, advice, there)
        rows = NewRows(model, source, row_reader, workers)
        with progress.step(f"reading {source.name}"):
            plan = plan_learning(rows, retention or model.retention, far, seed)
        if came:
            report_columns(source, plan, came, dry_run, echo)
        else:
            report_plan(model, source, plan, dry_run, echo, note)
        if dry_run:
            echo(f"Error on these rows: {plan.before}. Nothing was written.")
            return facts_of(None, plan, None, None)
        old_domain, new_id = model.model_.domain.copy(), next_id(model.model_.updates)
        with progress.step("learning"):
            if came:
                model, rows = learn_columns(rows, plan, came, seed, accept, message, author)
                done = model.update_log_[-1]
            else:
                done = learn(rows, plan, seed, accept, message, author)
        if done.id != new_id:
            return report_known(model, path, output, plan, done, echo)
        report_reason(done, echo)
        if not came:
            report_extension(model, model.encoding_, old_domain, echo)
        with progress.step("looking at the errors"):
            after = rows.score() if held_out_of(done) is None else None
        report_errors(done, plan.before, after, echo)
        if not replaces:
            check_replaceable(output)  # it may have come meanwhile
        save(model, output)
    report_id(model, done, output, echo)
    return facts_of(output, plan, done, after)


@dataclass(frozen=True)
class Plan:
    """What is learned of new rows, and how.

    `X` and `y` are inputs and targets of a sample of the rows. `learned` is how many rows are learned, of so
    many `rows`: evidence needs no more than a piece at a time, whatever trains needs a sample.
    """

    retention: Retention
    far: bool
    before: Score
    rows: int
    learned: int
    sample: Sample
    X: EncodedRows
    y: Labels

    @property
    def learns_more(self) -> bool:
        """Whether more than the sample is learned."""
        return len(self.y) < self.learned


def open_both(
    path: Path,
    located: Located,
    told: Mapping[str, Any],
    unknown: Unknown | None,
    workers: Workers,
    echo: Say,
    note: Say,
) -> tuple[Estimator, Source]:
    """The model and the table; the model gets room for what is new there, except if `unknown` is None."""
    model = load_estimator(path)
    source = located.read(model.encoding_.dialect.told(**told))
    known = [name for name in model.encoding_.names if name in source.columns]
    if model.missing != "learn" or not known:
        source.need(model.encoding_.names)
    source.need([model.encoding_.target])
    if unknown is None:
        return model, source
    news = news_of(source, table_of(model), workers)
    if unknown != "learn":
        news = replace(news, categories={})
    refuse_classes_beside_charts(model, source, news)
    note_placeholders(source, {**news.categories, model.encoding_.target: news.classes}, note)
    return with_news(model, news, echo), source


def columns_to_come(
    model: Estimator, source: Source, new_columns: bool, ignore: Sequence[str], skip_missing: bool
) -> tuple[Column, ...]:
    """How columns of the table that the model has not seen become inputs; refused unless asked for."""
    encoding = model.encoding_
    ignored = [name for part in ignore for name in ([part] if part in source.columns else part.split(","))]
    source.need(ignored)
    used = {*encoding.names, encoding.target, *encoding.left_out, *source.index, *ignored}
    new = [name for name in source.columns if name not in used]
    if not new:
        return ()
    if not new_columns:
        what, them = ("column", "it") if len(new) == 1 else ("columns", "them")
        raise TableError(
            f"{source.name} has the {what} {listed(new)}, which the model has not seen; learn {them} with "
            f"--new-columns, or leave {them} out with --ignore {','.join(new)}"
        )
    survey = TableSurvey(new, encoding.target, stored=source.categories, skip_missing=skip_missing)
    pieces = list(source.pieces([*new, encoding.target]))
    for piece in pieces:
        survey.add(piece)
    found = tuple(seen.column(name) for name, seen in survey.columns.items() if not seen.is_blank)
    whole = pieces_joined(pieces)
    checked = checked_columns(Encoding(found, encoding.target), whole, whole.table.num_rows)
    columns = come_columns(checked, whole, encoding)
    try:
        if columns:
            model._refuse_columns(columns)
    except ValueError as error:
        raise TableError(f"{source.name}: {error}") from None
    return columns


def note_columns_gone(source: Source, encoding: Encoding, note: Say) -> None:
    """Tell which columns of the model a table lacks."""
    gone = [name for name in encoding.names if name not in source.columns]
    if gone:
        note(f"{source.name}: not there, and counted as missing: {listed(gone)}")


def report_columns(source: Source, plan: Plan, columns: Sequence[Column], dry_run: bool, echo: Say) -> None:
    """Say which columns come, and what that can change; refuse more rows than are learned at once."""
    if plan.learns_more or len(plan.y) < plan.rows:
        raise TableError(
            f"{source.name} has {plan.rows:,} rows, more than can be learned at once with new columns; fit "
            "all data again"
        )
    echo(f"{source.name}: {counted(plan.rows, 'row')}, {learned_from(plan.learned, plan.rows, dry_run)}.")
    names = listed([column.name for column in columns])
    echo(f"New: {'column' if len(columns) == 1 else 'columns'} {names}; older rows count as missing there.")
    echo("Can change: every prediction, since all rows are fitted again.")


def learn_columns(
    rows: NewRows,
    plan: Plan,
    columns: Sequence[Column],
    seed: int,
    accept: bool,
    message: str,
    author: str,
) -> tuple[Estimator, NewRows]:
    """Learn rows with new columns; the model that knows these, and the rows as it reads them."""
    old = rows.row_reader
    encoding = replace(old.encoding, columns=(*old.encoding.columns, *columns))
    names = [column.name for column in columns]
    row_reader = replace(old, encoding=encoding, there_are=(*old.columns[:-1], *names))
    pieces = [row_reader(piece) for piece in rows.source.pieces(row_reader.columns)]
    X = np.vstack([each.X.values for each in pieces])
    y = np.concatenate([each.y for each in pieces])
    try:
        rows.estimator._update_with(
            columns,
            X,
            y,
            np.ones(len(y), np.float32),
            retention=plan.retention,
            random_state=seed,
            far=plan.far,
            message=message,
            author=author,
            accept=accept,
        )
    except UpdateRefused as refused:
        raise Failed(f"{rows.source.name}: {refused.what}; {REFUSED}", REFUSED_CODE) from None
    except FarRowError as error:
        raise TableError(
            f"{rows.source.name}: {error.what}; correct it or leave it out, or let the domain grow that far "
            "with --far"
        ) from None
    except ValueError as error:
        raise TableError(f"{rows.source.name}: {error}") from None
    return rows.estimator, replace(rows, row_reader=row_reader)


def refuse_classes_beside_charts(model: Estimator, source: Source, news: News) -> None:
    """Refuse new classes where charts stand, which know no such output."""
    if news.classes and state_of(model.model_).charts:
        what = f"{source.name}, column {model.encoding_.target!r}: {listed(news.classes, 6)}"
        raise TableError(
            f"{what} was not there in fit, and cannot be learned where charts stand; "
            "take these back with atlas revert, or fit again with all rows"
        )


def plan_learning(rows: NewRows, retention: Retention, far: bool, seed: int) -> Plan:
    """Read the table, to see how much of it is learned."""
    before, sample = rows.score_and_sample(sample_size(len(rows.row_reader.encoding.inputs)), seed)
    chosen = rows.row_reader(Piece(rows.source, 1, sample.rows))
    count = before.rows + before.outside
    by_evidence = retention in BY_EVIDENCE and state_of(rows.estimator.model_).pooled is not None
    learned = count if by_evidence else len(chosen.y)
    return Plan(retention, far, before, count, learned, sample, chosen.X, chosen.y)


def report_plan(model: Estimator, source: Source, plan: Plan, dry_run: bool, echo: Say, note: Say) -> None:
    """Say how much is learned, and what that can change."""
    name = source.name
    echo(f"{name}: {counted(plan.rows, 'row')}, {learned_from(plan.learned, plan.rows, dry_run)}.")
    try:
        report_footprint(model, plan.X, plan.retention, plan.far, plan.learns_more, echo)
    except FarRowError as error:
        raise TableError(
            f"{name}: {error.what}; correct it or leave it out, or let the domain grow that far with --far"
        ) from None
    note_nothing_known(model, plan.X, plan.rows, note)


def learn(rows: NewRows, plan: Plan, seed: int, accept: bool, message: str, author: str) -> Record:
    """Learn as planned; the entry of the log, or that of the earlier update with these rows."""
    estimator = rows.estimator
    checked = estimator._checked(plan.X, plan.y, None)
    digest = estimator._digest_of(*checked)
    known = learned_before(estimator.model_.updates, estimator.model_.fingerprint(), digest)
    if known is not None and not (accept or plan.learns_more):
        return known
    options: dict[str, Any] = {"retention": plan.retention, "random_state": seed, "far": plan.far}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpdateWarning)  # the command has a line of its own
        try:
            estimator._update(*checked, message=message, author=author, accept=accept, **options)
        except UpdateRefused as refused:
            raise Failed(f"{rows.source.name}: {refused.what}; {REFUSED}", REFUSED_CODE) from None
    if plan.learns_more:
        others, data = rows.others(plan.sample, digest.hashes)
        learned = estimator._rows(*checked)
        newest = others.newest + Summer(state_of(estimator.model_)).newest(learned, plan.sample.numbers)
        known = add_to_newest_update(
            estimator.model_, learned, others.sums, estimator._loss, data, accept, newest.rows
        )
        if known is not None:
            return known
    return estimator.update_log_[-1]


def report_known(model: Estimator, path: Path, output: Path, plan: Plan, known: Record, echo: Say) -> Facts:
    """Say that rows were learned before; another file is that of the model that has learned them."""
    text = known_text(known)
    echo(f"{text[0].upper()}{text[1:]}; --accept learns them twice.")
    if is_same_file(output, path):
        return {**facts_of(None, plan, None, None), "known": known.id}
    save(load_estimator(path), output)
    return {**facts_of(output, plan, None, None), "known": known.id}


def facts_of(output: Path | None, plan: Plan, done: Record | None, after: Score | None) -> Facts:
    """What an update has done, or would learn."""
    return {
        "output": output,
        "rows": plan.rows,
        "learned": plan.learned,
        "retention": plan.retention,
        "update": done and done.id,
        "kind": done and done.kind,
        "reason": done.reason if isinstance(done, Update) else None,
        "before": plan.before.facts,
        "after": after.facts if after else held_out_to_json(held_out_of(done)),
        "caution": done.caution if isinstance(done, Update) else None,
        "known_rows": done.footprint.known_rows if isinstance(done, Update) else None,
        "known": None,
    }


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two names are of the same file."""
    return one.exists() and one.samefile(other)


def with_news(model: Estimator, news: News, echo: Say) -> Estimator:
    """The model with room for new categories and classes; says what becomes of them."""
    encoding = news.added_to(model.encoding_)
    for column in encoding.columns:
        if column.name in news.categories:
            new = listed(news.categories[column.name], 6)
            echo(
                f"New in column {column.name!r}: {new}, known as the mean of all until its rows are learned."
            )
    model.encoding_ = replace(encoding, classes=None)
    if not news.classes:
        return model
    assert isinstance(model, AtlasClassifier)
    echo(f"New in column {encoding.target!r}: {listed(news.classes, 6)}, learned as classes.")
    return model.add_classes(list(news.classes))


def learned_from(learned: int, rows: int, dry_run: bool) -> str:
    """How much of a table is learned, or would be."""
    which = "all of them" if learned == rows else f"a random sample of {learned:,} of them"
    verb = "would be learned" if dry_run else "learned"
    return verb if rows == 1 else f"{which} {verb}"


def report_footprint(
    model: Estimator, X: EncodedRows, retention: Retention, far: bool, is_part: bool, echo: Say
) -> None:
    """Say what an update with these inputs, or with more than these, can change, and what it cannot."""
    area = model._footprint(X, retention=retention, far=far)
    if retention in ("rehearsal", "both"):
        echo(f"Can change: every prediction, a little; that is how {retention!r} learns.")
        return
    share = share_of_domain(area, model.encoding_)
    if isinstance(area.area, RestFootprint):
        spares = area.area.windows and not is_part  # others may fall into any chart
        where = " outside the charts that these rows are not in" if spares else ""
        echo(f"Can change: every prediction{where}; --retention chart confines it to boxes around the rows.")
        return
    if share == EVERYTHING:
        echo("Can change: every prediction.")
        return
    which = "one" if retention == "none" else "all"
    boxes = len(area.area.windows) if isinstance(area.area, BoxFootprint) else 1
    several = f" (in {boxes} boxes)" if boxes > 1 else ""
    known = "" if area.known_rows is None else f"{known_rows_text(area.known_rows)} of the known rows, "
    echo(f"Can change: rows with {which} of these{several}, {known}{share} of the domain:")
    is_linear = model.extrapolation == "linear"
    for line in footprint_lines(area, model.encoding_, is_linear):
        echo(line)
    where = "" if model.in_domain(X).all() else " in the domain it had"
    echo(f"Cannot change: every other prediction{where}; it stays the same to the bit.")


def note_nothing_known(model: Estimator, X: EncodedRows, rows: int, note: Say) -> None:
    """Warn of rows without support, of a sample of a table with so many rows.

    That time goes on is no news: rows later than those of the fit count as if they came in its last week.
    """
    encoding = model.encoding_
    error_model = error_model_of(state_of(model.model_))
    if error_model is None or error_model.data_density is None:
        return
    chosen = np.linspace(0, len(X) - 1, min(len(X), MOST_JUDGED)).astype(np.int64)
    some = at_known_times(model, X[chosen])
    nothing = model.support(some) == 0
    if nothing.any():
        sample = "" if len(chosen) == rows else "a random sample of "
        lie = "lies" if nothing.sum() == 1 else "lie"
        beyond = [
            name
            for j, name in enumerate(encoding.inputs)
            if is_outside(some.values[nothing, j], model.domain_.to_raw(j, UNIT_INTERVAL)).any()
        ]
        where = f", beyond the fit in {listed(beyond, 6)}" if beyond else ""
        of_rows = f"{nothing.sum():,} of {sample}{counted(len(chosen), 'row')}"
        note(f"{of_rows} {lie} where nothing was known{where}.")


def at_known_times(model: Estimator, X: EncodedRows) -> EncodedRows:
    """Inputs in which trends of dates that go on beyond the fit are put back, by weeks, into its last one."""
    mapping, values = model.domain_, X.values.copy()
    for column in model.encoding_.columns:
        for name in column.trends:
            j = model.encoding_.inputs.index(name)
            low, high = mapping.to_raw(j, UNIT_INTERVAL)
            margin = MARGIN * (high - low) / (1 + 2 * MARGIN)
            first, last = low + margin, high - margin
            days = values[:, j]
            days = np.where(days > last, last - (last - days) % WEEK, days)
            values[:, j] = np.where(days < first, first + (days - first) % WEEK, days).clip(first, last)
    return EncodedRows(values)


def is_outside(values: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are below the first end or above the last; missing ones and new categories are not."""
    return (values < ends[0]) | ((values > ends[-1]) & (values < LATER))


def report_reason(record: Record, echo: Say) -> None:
    """Say what was done and why, if the data decided that."""
    if isinstance(record, Update) and record.reason:
        echo(f"Done: {record.reason}.")


def held_out_of(record: Record | None) -> HeldOut | None:
    """How well rows of an update are predicted that it has not learned, if that was found."""
    return record.held_out if isinstance(record, Update) else None


def report_errors(record: Record, before: Score, after: Score | None, echo: Say) -> None:
    """Say how well rows were predicted before, and after by what has not learned them; and what is odd.

    `after` is the error on the rows that were learned, if nothing else is known.
    """
    echo(f"Error on these rows before: {before}")
    if isinstance(record, EstimatorUpdate) and record.held_out is not None:
        echo(f"{held_out_text(record.held_out, record.measure)} on these rows after.")
    else:
        echo(f"Error on these rows after, which were learned: {after}")
    if isinstance(record, Update) and record.caution:
        echo(f"Look: {record.caution}.")


def report_extension(estimator: Estimator, encoding: Encoding, old: NDArray[np.float64], echo: Say) -> None:
    """Say how far the domain reaches now, where that is new."""
    new = estimator.model_.domain
    for j, name in enumerate(encoding.inputs):
        if (new[j] != old[j]).any():
            is_now, was = (estimator._domain_text(j, domain) for domain in (new, old))
            echo(f"Domain: {name} is now {is_now}; it was {was}.")


def report_id(model: Estimator, record: Record, output: Path, echo: Say) -> None:
    """Say which update it was, and how to take it back."""
    way_back = f"atlas revert {output} {record.id} takes it back"
    if record.kind in TRAINED and model.ledger_ is None:
        way_back = "it cannot be taken back, since it trained the coefficients themselves and no copy is kept"
    elif isinstance(record, Update) and TOO_FEW in record.reason:
        way_back = TOO_FEW
    echo(f"This is update {record.id} of {output}; {way_back}.")
