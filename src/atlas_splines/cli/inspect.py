"""`atlas inspect` and `atlas log`."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import typer

from atlas_splines.cli.diff import known_rows_text
from atlas_splines.cli.files import (
    Estimator,
    Loaded,
    check_absent,
    check_folder,
    check_picture,
    check_there,
    kept_rows,
    learned_rows,
    model_of,
)
from atlas_splines.cli.output import Facts, Progress, Say, aligned
from atlas_splines.estimators.audit import EstimatorUpdate
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.files.writer import replace_file
from atlas_splines.io.log_export import export_log, log_lines
from atlas_splines.io.save_load import load
from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.log import Folded, Record
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import Column
from atlas_splines.tables.sample import Reservoir
from atlas_splines.tables.source import Piece, TableError, opened
from atlas_splines.tables.wording import counted, listed
from atlas_splines.updates.intervals import (
    Coverage,
    coverage_before_learning,
    coverage_of_charts,
    recent_coverage,
)
from atlas_splines.updates.log import Consolidation, Update
from atlas_splines.updates.routing import memory_of

__all__ = ["inspect_model", "write_log"]

COVERAGE = 0.9  # of the intervals that are told of
DRAWN_ROWS = 5000  # of a table, at most
UNDOING = "and older ones stay until the latest updates can no longer be taken back"


def inspect_model(
    path: Path,
    plot: Path | None,
    echo: Say,
    progress: Progress,
    *,
    data: str | None = None,
    force: bool = False,
) -> Facts:
    """Say what a file holds: configuration, size, domain and log; draw it over the rows of a table."""
    check_there(path)
    if data is not None and plot is None:
        raise TableError("--data is for a picture; name one with --plot, or leave it out")
    if plot is not None and not force:
        check_absent(plot)
    loaded = load(path)
    model = model_of(loaded)
    echo(f"{path}: {type(loaded).__name__}, {path.stat().st_size:,} bytes")
    ends = f"{counted(model.inputs, 'input')}, {counted(model.outputs, 'output')}"
    size = f"density {model.density}, {counted(model.n_parameters, 'coefficient')}"
    charts = counted(len(model.charts), "chart")
    echo(f"model: {ends}, {counted(model.terms, 'term')}, {size}, {charts}")
    if not isinstance(loaded, Atlas):
        report_fit(loaded, echo)
        report_rows(loaded, echo)
        report_options(loaded, echo)
        report_columns(loaded, echo)
        report_intervals(loaded, echo)
    report_log(loaded, echo)
    if plot is not None:
        if isinstance(loaded, Atlas):
            raise TableError(f"{path} is a bare model; only a regressor or a classifier can be drawn")
        with progress.step(f"drawing {plot}"):
            draw(loaded, plot, data)
        echo(f"The picture is {plot}.")
    return facts_of(path, loaded, plot)


def facts_of(path: Path, loaded: Loaded, plot: Path | None) -> Facts:
    """The same by name; what a bare model does not know is null."""
    model, estimator = model_of(loaded), None if isinstance(loaded, Atlas) else loaded
    encoding = estimator and estimator._table
    return {
        "model": path,
        "kind": type(loaded).__name__,
        "bytes": path.stat().st_size,
        "inputs": list(estimator._input_names) if estimator else model.inputs,
        "outputs": model.outputs,
        "terms": model.terms,
        "density": model.density,
        "coefficients": model.n_parameters,
        "charts": len(model.charts),
        "learned_rows": learned_rows(loaded),
        "kept_rows": kept_rows(loaded),
        "fit": asdict(estimator.fit_record_) if estimator and estimator.fit_record_ else None,
        "target": encoding and encoding.target,
        "classes": encoding and encoding.classes,
        "updates": [json.loads(line) for line in log_lines(loaded)],
        "plot": plot,
    }


def report_fit(estimator: Estimator, echo: Say) -> None:
    """When the model was fitted, to how many rows, and how well; files of older versions do not say it."""
    record = estimator.fit_record_
    if record is not None:
        echo(f"fit: {record.date}, {counted(record.rows, 'row')}. {record}.")


def report_rows(loaded: Loaded, echo: Say) -> None:
    """How many of its rows the model keeps, and which leave first."""
    kept, learned, memory = kept_rows(loaded), learned_rows(loaded), memory_of(state_of(model_of(loaded)))
    if memory is None and kept:
        echo(f"rows: all {kept:,} are kept, to derive the model again from; it predicts from sums of them")
    elif memory is None:
        echo("rows: none are kept" + (", only sums of them" if learned else ""))
    elif kept == learned <= memory.budget:
        echo(f"rows: all {kept:,} are kept; of more than {memory.budget:,} the oldest leave")
    elif kept > memory.budget:
        echo(f"rows: {kept:,} of {learned:,} are kept; the newest {memory.budget:,} predict, {UNDOING}")
    else:
        which = "the oldest have left, and are" if kept == memory.budget else "the others are"
        echo(f"rows: {kept:,} of {learned:,} are kept; {which} in its sums")


def report_options(estimator: Estimator, echo: Say) -> None:
    """Parameters that are not the usual ones."""
    usual = type(estimator)().get_params()
    changed = [f"{k}={v!r}" for k, v in estimator.get_params().items() if v != usual[k] and k != "n_jobs"]
    echo(f"options: {', '.join(changed) or 'the usual ones'}")


def report_columns(estimator: Estimator, echo: Say) -> None:
    """The target if it is known, and the domain of each column."""
    encoding = estimator._table
    if encoding is not None:
        classes = f", one of {listed(encoding.classes)}" if encoding.classes else ", a number"
        echo(f"target: {encoding.target}{classes}")
        rows = [(column.name, *kind_and_domain(estimator, column)) for column in encoding.parts]
    else:
        names = estimator._input_names
        rows = [(name, "number", domain_text(estimator, j)) for j, name in enumerate(names)]
    for line in aligned([("column", "kind", "domain"), *rows]):
        echo(line)


def kind_and_domain(estimator: Estimator, column: Column) -> tuple[str, str]:
    """Kind and domain of a column of a table."""
    if column.categories is not None:
        return "category", f"{len(column.categories)}: {listed(column.categories, 6)}"
    return "number", domain_text(estimator, estimator._input_names.index(column.name))


def domain_text(estimator: Estimator, j: int) -> str:
    """Domain of an input that is a number."""
    missing = ", or missing" if j in estimator.domain_.indicators else ""
    return f"{estimator._domain_text(j)}{missing}"


def report_intervals(estimator: Estimator, echo: Say) -> None:
    """How rows that were not learned yet lay in intervals: held-out ones, those of charts, and the latest."""
    state = state_of(estimator.model_)
    out_of_sample, updates = (
        coverage_before_learning(state, COVERAGE, of_updates=of_updates) for of_updates in (False, True)
    )
    charts, latest = coverage_of_charts(state, COVERAGE), recent_coverage(state, COVERAGE)
    what = "sets" if isinstance(estimator, AtlasClassifier) else "intervals"
    for k, held in enumerate(out_of_sample):
        of_target = f" of target {k}" if len(out_of_sample) > 1 else ""
        echo(f"{what} of {COVERAGE:.0%}{of_target}: {held_text(estimator, held, k, 'held-out rows')}")
        if charts:
            echo(f"  charts: {held_text(estimator, charts[k], k, 'their held-out rows')}")
        for when, found in (("updates", updates), ("lately", latest)):
            if found and found[k].rows:
                rows = counted(round(found[k].rows), "row")
                echo(f"  {when}: {held_text(estimator, found[k], k, f'{rows}, before learning,')}")


def held_text(estimator: Estimator, held: Coverage, k: int, rows: str) -> str:
    """Coverage, and for numbers the mean width in units of the target."""
    if np.isnan(held.share):
        return "not watched by the version that wrote the file"
    if isinstance(estimator, AtlasClassifier):  # a set has the most probable class in any case
        return f"at least {held.share:.1%} of {rows} have their class inside"
    of_what = " of roots 2√(y + 3/8)" if estimator._counts else ""
    width = f"{held.width * estimator.target_scale_[k]:.4g}{of_what}"
    return f"{held.share:.1%} of {rows} lie inside, mean width {width}"


def report_log(loaded: Loaded, echo: Say) -> None:
    """The log as a table."""
    records = loaded.updates if isinstance(loaded, Atlas) else loaded.update_log_
    if not records:
        echo("updates: none")
        return
    head = (
        "id",
        "time (UTC)",
        "kind",
        "rows",
        "before",
        "after, held out",
        "of known rows",
        "of the domain",
        "",
    )
    for line in aligned([head, *(log_row(loaded, record) for record in records)]):
        echo(line)
    for record in records:
        if isinstance(record, Update) and record.caution and not record.reverted:
            echo(f"update {record.id}: {record.caution}")


def log_row(loaded: Loaded, record: Record) -> tuple[str, ...]:
    """Cells of one entry of the log."""
    before = after = known = share = ""
    number = str(record.id)
    if isinstance(record, Folded):
        number, before = f"1-{record.last}", f"since {record.since:%Y-%m-%d}"
    elif isinstance(record, Update):
        measure = record.measure if isinstance(record, EstimatorUpdate) else "loss"
        before = f"{measure} {record.error_before:.4g}"
        after = after_text(record, measure)
        known, share = known_rows_text(record.footprint.known_rows), share_of_update(loaded, record)
    elif isinstance(record, Consolidation):
        after = f"changed {record.error:.3g}"
    gone = f"reverted {record.reverted:%Y-%m-%d %H:%M}" if record.reverted else ""
    entry = number, f"{record.time:%Y-%m-%d %H:%M}", record.kind, f"{record.rows:,}"
    return *entry, before, after, known, share, gone


def after_text(record: Update, measure: str) -> str:
    """The error after an update on rows that were not learned, or if it is not known on those that were."""
    if record.held_out is None:
        return f"{measure} {record.error_after:.4g}, learned"
    return f"{measure} {record.held_out.error:.4g}"


def share_of_update(loaded: Loaded, record: Update) -> str:
    """Share of the domain of then that an update could change."""
    area = record.footprint
    return area.share.percent()


def draw(model: Estimator, plot: Path, data: str | None) -> None:
    """Draw what each input does, and the footprint of each update."""
    check_picture(plot)
    from atlas_splines.plots import save_inspection

    X = None if data is None else rows_of(model, data)
    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        draft = Path(folder) / plot.name
        save_inspection(draft, model, X=X)
        replace_file(plot, draft.read_bytes())


def rows_of(model: Estimator, data: str) -> EncodedRows:
    """Inputs of a sample of a table; categories that are not known are missing."""
    if not hasattr(model, "encoding_"):
        raise TableError("the model does not know the columns of a table; leave --data out")
    sample = Reservoir(DRAWN_ROWS, seed=0)
    with opened(data, model.encoding_.dialect) as source:
        source.need(model.encoding_.names)
        for piece in source.pieces(model.encoding_.names):
            sample.add(piece.table, piece.row_numbers)
        if not sample.seen:
            raise TableError(f"{source.name} has no rows below its header; check the file")
    X, _ = sample.sample()
    return model.encoding_.encode(Piece(source, 1, X), None)


def write_log(
    path: Path, output: str, *, after: int = 0, force: bool = False, as_json: bool = False
) -> Facts:
    """Write the log of a model as lines of JSON, to a file or to standard output if that is free."""
    check_there(path)
    if output != "-":
        check_folder(Path(output))
        if not force:
            check_absent(Path(output))
    model = load(path)
    if output != "-":
        export_log(model, output, after=after)
    lines = list(log_lines(model, after))
    if output == "-" and not as_json:
        for line in lines:
            typer.echo(line)
    return {"output": None if output == "-" else output, "entries": [json.loads(line) for line in lines]}
