"""The table as text, and everything on one HTML page that needs no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from atlas_splines.experiments.arena.figures import DRAWINGS
from atlas_splines.experiments.arena.methods import METHODS
from atlas_splines.experiments.arena.protocols import PROTOCOLS
from atlas_splines.experiments.arena.ranking import Results, Row, table
from atlas_splines.experiments.arena.stream_figures import STREAM_DRAWINGS
from atlas_splines.experiments.arena.streams import aligned, shown, stream_cells, stream_table
from atlas_splines.experiments.drawings import Saved, save_all
from atlas_splines.experiments.page import Section, bullets, facts_html, figures_html, page_html, table_html
from atlas_splines.files.writer import write_whole

__all__ = ["findings", "markdown_table", "text_table", "write_report"]

MEASURES = {
    "final": "final error",
    "inside": "error on the newest task",
    "outside": "error on earlier tasks",
    "backward": "backward transfer",
    "forgetting": "forgetting",
    "forward": "forward transfer",
    "changed": "share of old predictions changed",
}
HEADING = "The arena: who forgets less, and at what cost?"
INTRODUCTION = """\
Every method learns tasks one after the other and sees each task's data once; what it keeps is counted.
Errors are mean absolute errors of standardised targets, or shares of wrong classes, on unseen points. The
final error is the mean over all tasks after the last one. The ratio is to retraining from scratch on all
data. Ranks are among methods that do not keep all data."""
STREAM_WORDS = """\
<p>Each batch of a stream is predicted before it is learned. Errors are in standard deviations of the target:
the mean over all batches, and over the last ones; at the end on all rows that were seen, and on those whose
neighbourhood the last quarter of the stream did not visit.</p>
"""
WIDE = """
body { max-width: 1240px; }
table { display: block; overflow-x: auto; font-size: 0.78em; }
td:nth-child(2) { text-align: right; }
th:first-child, td:first-child, td:last-child { text-align: left; white-space: nowrap; }
figure { max-width: 1000px; }
"""
COLUMNS = ["ratio", "worst", "changed", "kB", "train s", "µs/row"]


def text_table(results: Results) -> str:
    """The tables for the terminal: one of all tasks, and one of each stream, with a row for each method."""
    tables = [task_table(results)] if results.cells else []
    return "\n\n".join([*tables, stream_table(results.streams)] if results.streams else tables)


def task_table(results: Results) -> str:
    """The table of all tasks."""
    rows = table(results)
    notes = ["", *(row.note for row in rows)]
    return aligned([[*cells, note] for cells, note in zip(table_cells(rows), notes, strict=True)])


def table_cells(rows: Sequence[Row]) -> list[list[str]]:
    """The table as text, with its head first."""
    protocols = sorted(rows[0].by_protocol)
    head = ["method", "rank", *(f"P{p}" for p in protocols), *COLUMNS]
    return [head, *(cells_of(row, protocols) for row in rows)]


def cells_of(row: Row, protocols: Sequence[int]) -> list[str]:
    """A row of the table as text; methods that keep all data have no rank."""
    return [
        row.label,
        "all data" if row.keeps_all else shown(row.rank, ".1f"),
        *(shown(row.by_protocol[p], ".1f") for p in protocols),
        shown(row.ratio, ".2f"),
        shown(row.worst_ratio, ".2f"),
        "–" if np.isnan(row.changed) else f"{100 * row.changed:.0f} %",
        shown(row.kilobytes, ".1f" if row.kilobytes < 10 else ".0f"),
        shown(row.train_seconds, ".2f"),
        shown(row.predict_microseconds, ".2f"),
    ]


def markdown_table(results: Results) -> str:
    """The same tables for a README."""
    tables = [table_cells(table(results))] if results.cells else []
    return "\n\n".join(map(in_markdown, [*tables, *stream_cells(results.streams)]))


def in_markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table with its head first."""
    head, *rows = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


# --- findings --------------------------------------------------------------------------------------------


def findings(results: Results) -> list[str]:
    """What the table of tasks says, in sentences: what ATLAS wins, and then what it loses."""
    if not results.cells:
        return []
    rows = table(results)
    ranked = [row for row in rows if not row.keeps_all]
    ours = [row for row in ranked if row.method.startswith("atlas")]
    if not ours:
        return []
    best, place = ours[0], ranked.index(ours[0]) + 1
    sentences = [
        f"{best.label} is number {place} of {len(ranked)} by mean rank in protocols 1 to 5 "
        f"({shown(best.rank, '.1f')}); the first is {ranked[0].label} ({shown(ranked[0].rank, '.1f')}).",
        f"Its final error is {shown(best.ratio, '.2f')} times that of retraining from scratch on all data "
        f"(geometric mean), and {shown(best.worst_ratio, '.2f')} times in its worst cell.",
    ]
    return sentences + losses(results, best) + failures(rows)


def losses(results: Results, best: Row) -> list[str]:
    """Each cell where a method that does not keep all data has a lower mean error than our best."""
    sentences = []
    for cell in results.cells:
        own = results.interval(best.method, cell)[0]
        rivals = [
            results.methods[k] for k in results.competitors() if not results.methods[k].startswith("atlas")
        ]
        errors = {name: results.interval(name, cell)[0] for name in rivals}
        better = sorted((error, name) for name, error in errors.items() if error < own)
        if better:
            error, name = better[0]
            sentences.append(
                f"It loses on {cell}: error {own:.3g}, against {error:.3g} of {METHODS[name].label}"
                + (f" and {len(better) - 1} more that are better." if len(better) > 1 else ".")
            )
    return sentences or ["No method without all data has a lower mean error in any cell."]


def failures(rows: Sequence[Row]) -> list[str]:
    """What did not run."""
    return [f"{row.label}: {row.note}." for row in rows if row.note]


# --- page ------------------------------------------------------------------------------------------------


def write_report(output: Path, results: Results, facts: Mapping[str, str]) -> Path:
    """Draw every picture into figures/ and write report.html and table.md; return the page's path."""
    folder = output / "figures"
    saved = save_all(DRAWINGS, results, folder) if results.cells else {}
    if results.streams:
        saved |= save_all(STREAM_DRAWINGS, results.streams, folder)
    write_whole(output / "table.md", (markdown_table(results) + "\n").encode())
    path = output / "report.html"
    write_whole(path, page(results, facts, saved).encode())
    return path


def page(results: Results, facts: Mapping[str, str], saved: Mapping[str, Saved]) -> str:
    """Put the page together."""
    sections = [
        *(task_sections(results, saved) if results.cells else []),
        *([stream_section(results, saved)] if results.streams else []),
        Section("run", "The run", facts_html(facts)),
    ]
    return page_html("The arena: memory retention", HEADING, INTRODUCTION, sections, WIDE)


def task_sections(results: Results, saved: Mapping[str, Saved]) -> list[Section]:
    """What came out of the tasks of protocols 1 to 6."""
    return [
        Section("summary", "Summary", bullets(findings(results)) + summary_html(results)),
        Section("pictures", "Pictures", figures_html(DRAWINGS, saved, "pictures", links=False)),
        Section("errors", "Final errors", errors_html(results)),
        Section("measures", "All measures", measures_html(results)),
    ]


def stream_section(results: Results, saved: Mapping[str, Saved]) -> Section:
    """What came out of the streams of protocol 7."""
    tables = [
        table_html(f"Stream: {head[0]}", ["method", *head[1:]], [[*map(escape, row)] for row in rows])
        for head, *rows in stream_cells(results.streams)
    ]
    content = STREAM_WORDS + figures_html(STREAM_DRAWINGS, saved, "streams", links=False) + "".join(tables)
    return Section("streams", "Streams", content)


def summary_html(results: Results) -> str:
    """The table of all methods."""
    rows = table(results)
    protocols = sorted(rows[0].by_protocol)
    head = [
        "method", "rank", *(f"P{p}" for p in protocols), "ratio to retraining", "its worst cell",
        "old predictions changed", "kB kept", "training, s", "prediction, µs a row", "what went wrong",
    ]  # fmt: skip
    lines = [[*map(escape, cells_of(row, protocols)), escape(row.note)] for row in rows]
    names = "; ".join(f"P{p} {PROTOCOLS[p]}" for p in protocols)
    return table_html(f"Mean ranks by protocol ({names}), and what it costs", head, lines)


def errors_html(results: Results) -> str:
    """Mean final error and 95 % interval for each method and cell; the least without all data is bold."""
    rows = table(results)
    means = {(row.method, cell): results.interval(row.method, cell) for row in rows for cell in results.cells}
    least = {
        cell: min(
            (means[row.method, cell][0] for row in rows if not row.keeps_all), default=np.nan, key=nan_last
        )
        for cell in results.cells
    }
    lines = [
        [escape(row.label), *(bold_if(means[row.method, c], least[c]) for c in results.cells)] for row in rows
    ]
    caption = f"Mean final error over {len(results.seeds)} seeds, with its 95 % interval"
    return table_html(caption, ["method", *map(escape, results.cells)], lines)


def measures_html(results: Results) -> str:
    """Mean and 95 % interval of every measure for each method."""
    lines = [
        [escape(row.label), *(interval_html(results.mean_interval(row.method, name)) for name in MEASURES)]
        for row in table(results)
    ]
    caption = (
        "Means over the cells of protocols 1 to 5, with 95 % intervals over seeds. Backward transfer is "
        "negative where old tasks got worse. Forgetting is how much worse than at its best an old task is in "
        "the end. Forward transfer is positive where earlier tasks helped before a task was learned."
    )
    return table_html(caption, ["method", *MEASURES.values()], lines)


def nan_last(value: float) -> float:
    """Order numbers, and what is none behind them."""
    return np.inf if np.isnan(value) else value


def bold_if(interval: tuple[float, float], least: float) -> str:
    """A mean and its interval, bold if it is the least."""
    text = interval_html(interval)
    return f"<b>{text}</b>" if interval[0] == least else text


def interval_html(interval: tuple[float, float]) -> str:
    """A mean and its interval."""
    centre, half = interval
    if np.isnan(centre):
        return "–"
    return f"{centre:.3f}" + ("" if np.isnan(half) else f" ± {half:.3f}")
