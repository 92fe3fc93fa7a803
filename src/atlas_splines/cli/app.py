"""The `atlas` command. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from atlas_splines.cli.messages import fail, note, say, sentences, silent
from atlas_splines.cli.options import Force, Model, Wait
from atlas_splines.cli.version_commands import apply, diff, forget, merge, patch, replay, verify


class Optimizer(str, Enum):
    """Optimisers that the paper's experiments can be run with."""

    adam = "adam"
    lazy_adam = "lazy-adam"


class Loss(str, Enum):
    """What a regression makes small."""

    squared_error = "squared_error"
    absolute_error = "absolute_error"
    huber = "huber"
    poisson = "poisson"


class ClassWeights(str, Enum):
    """How much rows of a class weigh."""

    balanced = "balanced"


class Extrapolation(str, Enum):
    """What to predict outside the domain."""

    constant = "constant"
    linear = "linear"
    error = "error"


class Retention(str, Enum):
    """How an update keeps what was learned before."""

    auto = "auto"
    pool = "pool"
    chart = "chart"
    rehearsal = "rehearsal"
    both = "both"
    none = "none"


class Unknown(str, Enum):
    """What to do with a category that was not there in fit."""

    error = "error"
    missing = "missing"


# without rich, help answers in half the time
app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

SkipMissing = Annotated[bool, typer.Option("--skip-missing", help="Skip rows without a target.")]
UnknownOption = Annotated[Unknown, typer.Option(help="Categories that were not there in fit.")]
Separator = Annotated[
    str | None, typer.Option(help="Between the cells of a text file: a character, tab or blank.")
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a first row names columns, or 1, 2, ... do."),
]
Missing = Annotated[
    list[str] | None, typer.Option("--na", help="What stands for a missing value; repeat for several.")
]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of texts, . or a comma.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of everything random.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Processes that share the work on a large table; needs Dask.")
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers do that instead.")
]


def show_version(wanted: bool) -> None:
    """Print what is installed and end."""
    if wanted:
        from atlas_splines.cli.installed import installed_lines

        for line in installed_lines():
            typer.echo(line)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show what is installed.")
    ] = False,
) -> None:
    """Models that are updated all their life and do not forget.

    Tables are CSV or Parquet, by their ending, or lines of JSON or Excel, to read; a folder or a pattern
    such as 'data/*.csv' is all of its files; - is standard input or output.
    """


@app.command()
def fit(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Table with inputs and target, or -.")],
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path(
        "model.atlas"
    ),
    columns: Annotated[list[str] | None, typer.Option(help="Input columns: a,b,c.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Columns to leave out: a,b,c.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="Columns of numbers that are names: a,b,c.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column of groups that are held out whole; no input.")
    ] = None,
    increasing: Annotated[
        list[str] | None, typer.Option(help="Column that predictions never fall along; repeat for several.")
    ] = None,
    decreasing: Annotated[
        list[str] | None, typer.Option(help="Column that predictions never rise along; repeat for several.")
    ] = None,
    date: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[=PARTS]",
            help="Column of dates: hour,weekday,yearday,trend; day-first or month-first; repeat for several.",
        ),
    ] = None,
    classify: Annotated[bool, typer.Option("--classify", help="The target is a class.")] = False,
    regress: Annotated[bool, typer.Option("--regress", help="The target must be a number.")] = False,
    skip_missing: SkipMissing = False,
    separator: Separator = None,
    header: Header = None,
    na: Missing = None,
    decimal: Decimal = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that has been updated, or any other file.")
    ] = False,
    density: Annotated[int | None, typer.Option(min=0, max=20, help="Resolution; found by itself.")] = None,
    terms: Annotated[int | None, typer.Option(min=0, help="Pairs of exponentials; found by itself.")] = None,
    members: Annotated[int, typer.Option(min=1, help="Models to train and mix.")] = 2,
    loss: Annotated[
        Loss | None, typer.Option(help="What a regression makes small; poisson is for counts.")
    ] = None,
    class_weight: Annotated[
        ClassWeights | None, typer.Option(help="Let each class weigh as much as any other.")
    ] = None,
    extrapolation: Annotated[
        Extrapolation, typer.Option(help="Outside the domain.")
    ] = Extrapolation.constant,
    seed: Seed = 0,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print how training goes.")] = False,
) -> None:
    """Learn a table and save the model.

    Columns of texts are categories; dates become parts of the calendar. Empty cells and NA are missing
    values. A target of numbers makes a regression, a target of texts a classification.
    """
    if classify and regress:
        fail("--classify and --regress exclude each other; give one of them")
    with sentences():
        from atlas_splines.cli.fit import fit_table
        from atlas_splines.cli.workers import workers_of

        size = {"density": density, "terms": terms, "loss": loss and loss.value}
        size["class_weight"] = class_weight and class_weight.value
        fit_table(
            data,
            target,
            output,
            task="classify" if classify else "regress" if regress else "auto",
            columns=columns or (),
            ignore=ignore or (),
            category=category or (),
            groups=groups,
            increasing=increasing or (),
            decreasing=decreasing or (),
            dates=date or (),
            skip_missing=skip_missing,
            told={"separator": separator, "header": header, "missing": na or (), "decimal": decimal},
            force=force,
            seed=seed,
            workers=workers_of(jobs, scheduler),
            say=silent if quiet else say,
            members=members,
            extrapolation=extrapolation.value,
            verbose=int(verbose),
            **{name: value for name, value in size.items() if value is not None},
        )


@app.command()
def update(
    model: Model,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Table with new rows, or -.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the model here, and leave the old one.")
    ] = None,
    retention: Annotated[Retention | None, typer.Option(help="How to learn; by default auto.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what could change.")] = False,
    skip_missing: SkipMissing = False,
    separator: Separator = None,
    header: Header = None,
    na: Missing = None,
    decimal: Decimal = None,
    unknown: Annotated[
        Unknown | None,
        typer.Option(help="Categories that were not there in fit; by default they are learned."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse categories and classes that were not there in fit.")
    ] = False,
    far: Annotated[bool, typer.Option("--far", help="Let the domain grow to rows far outside it.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With -o: replace a model that has been updated, or any other file."),
    ] = False,
    seed: Seed = 0,
    message: Annotated[str, typer.Option("--message", "-m", help="Why, for the log.")] = "",
    author: Annotated[str, typer.Option(help="Who, for the log.")] = "",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    wait: Wait = 600,
) -> None:
    """Teach a model new rows, and tell what can change and what cannot."""
    with sentences():
        from atlas_splines.cli.update import update_model
        from atlas_splines.cli.workers import workers_of

        update_model(
            model,
            data,
            output=output,
            retention=None if retention is None else retention.value,
            dry_run=dry_run,
            skip_missing=skip_missing,
            told={"separator": separator, "header": header, "missing": na or (), "decimal": decimal},
            unknown="learn" if unknown is None else unknown.value,
            strict=strict,
            far=far,
            force=force,
            seed=seed,
            message=message,
            author=author,
            workers=workers_of(jobs, scheduler),
            wait=wait,
            say=say,
            note=note,
        )


@app.command()
def predict(
    model: Model,
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="Table with inputs, or -.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Table to write, or -.")] = "-",
    probabilities: Annotated[bool, typer.Option("--probabilities", help="A column for each class.")] = False,
    separator: Separator = None,
    header: Header = None,
    na: Missing = None,
    decimal: Decimal = None,
    interval: Annotated[
        list[float] | None,
        typer.Option(help="Where so large a share of targets lies, such as 0.9; repeat for several."),
    ] = None,
    support: Annotated[
        bool, typer.Option("--support", help="How much evidence stands behind each row, from 0 to 1.")
    ] = False,
    unknown: UnknownOption = Unknown.error,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is no table of predictions.")
    ] = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
) -> None:
    """Write a table again with a column of predictions, and if wanted with how sure they are."""
    with sentences():
        from atlas_splines.cli.predict import predict_table
        from atlas_splines.cli.workers import workers_of

        predict_table(
            model,
            rows,
            output,
            probabilities=probabilities,
            told={"separator": separator, "header": header, "missing": na or (), "decimal": decimal},
            coverages=interval or (),
            support=support,
            refuse_unknown=unknown is Unknown.error,
            force=force,
            workers=workers_of(jobs, scheduler),
            note=note,
        )


@app.command()
def inspect(
    model: Model,
    plot: Annotated[
        Path | None, typer.Option(help="Draw what each input does, and the footprint of each update.")
    ] = None,
    force: Force = False,
) -> None:
    """Tell what a model file holds: configuration, size, domain, and the log of its updates."""
    with sentences():
        from atlas_splines.cli.inspect import inspect_model

        inspect_model(model, plot, typer.echo, force=force)


@app.command()
def log(
    model: Model,
    output: Annotated[str, typer.Option("--output", "-o", help="File to write, or -.")] = "-",
    after: Annotated[int, typer.Option(min=0, help="Only updates with a larger number.")] = 0,
    force: Force = False,
) -> None:
    """Write the log of a model as lines of JSON, before its oldest entries are folded into one."""
    with sentences():
        from atlas_splines.cli.log import write_log

        write_log(model, output, after=after, force=force, say=typer.echo)


for command in (verify, diff, patch, apply, merge, forget, replay):
    app.command()(command)


@app.command()
def revert(
    model: Model,
    id: Annotated[
        int, typer.Argument(metavar="ID", help="Number of the update; `atlas inspect` lists them.")
    ],
    wait: Wait = 600,
) -> None:
    """Take back an update, exactly."""
    with sentences():
        from atlas_splines.cli.revert import revert_update

        revert_update(model, id, wait=wait, say=say, note=note)


@app.command()
def export(
    model: Model,
    output: Annotated[Path, typer.Argument(metavar="ONNX", help="File to write, such as model.onnx.")],
    interval: Annotated[
        float | None, typer.Option(help="With intervals that hold so large a share of targets, such as 0.9.")
    ] = None,
    support: Annotated[
        bool, typer.Option("--support", help="With how much evidence stands behind each row.")
    ] = False,
    force: Force = False,
) -> None:
    """Write a model as ONNX, to predict without this package.

    It takes numbers as they are; the output tells how categories become numbers.
    """
    with sentences():
        from atlas_splines.cli.export import export_model

        export_model(model, output, typer.echo, coverage=interval, support=support, force=force)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the picture.")] = Path(
        "atlas-demo.png"
    ),
    force: Force = False,
) -> None:
    """Run the commands above on a small table, and draw what was forgotten."""
    with sentences():
        from atlas_splines.cli.demo import demonstrate

        demonstrate(output, run=run_or_stop, say=typer.echo, force=force)


@app.command()
def play(
    file: Annotated[Path | None, typer.Option(help="Model file to open in the page.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to serve; 0 is any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Watch models remember and forget: a playground in the browser, on this machine only."""
    with sentences():
        from atlas_splines.cli.play import play as serve

        serve(port, file, browser=browser, say=typer.echo)


def run_or_stop(arguments: list[str]) -> None:
    """Run another command; if it fails, this one ends as well."""
    code = app(arguments, standalone_mode=False)
    if code:
        raise typer.Exit(code)


@app.command()
def paper(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results and report.")] = Path(
        "atlas-paper"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="One trial instead of thirty.")] = False,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each experiment.")] = 30,
    jobs: Annotated[int, typer.Option(min=1, help="Local processes.")] = 2,
    scheduler: Annotated[str | None, typer.Option(help="Dask scheduler, such as tcp://host:8786.")] = None,
    damping: Annotated[float, typer.Option(min=0, help="The paper's formula has 0, its authors ran 10.")] = 0,
    optimizer: Annotated[Optimizer, typer.Option(help="The paper's is adam.")] = Optimizer.adam,
) -> None:
    """Run every experiment of the paper, draw every figure, and write a report.

    A run that was stopped goes on where it was; a finished one only draws again.
    """
    from atlas_splines.cli.paper import reproduce_paper

    reproduce_paper(
        output,
        1 if quick else trials,
        jobs=jobs,
        scheduler=scheduler,
        damping=damping,
        optimizer=optimizer.value,
    )


@app.command()
def arena(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results and report.")] = Path(
        "atlas-arena"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Small tasks, one seed, no tuning.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions: 10, or one with --quick.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Local processes.")] = 2,
    scheduler: Annotated[str | None, typer.Option(help="Dask scheduler, such as tcp://host:8786.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    protocol: Annotated[list[int] | None, typer.Option(help="Only this protocol; may be repeated.")] = None,
    data: Annotated[list[Path] | None, typer.Option(help="Your table; may be repeated.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its target; by default the last column.")] = None,
    split_by: Annotated[
        list[str] | None, typer.Option(help="A column, 'region' or 'clusters'; one for all, or one a file.")
    ] = None,
    stream_by: Annotated[
        list[str] | None,
        typer.Option(help="Stream your table: by a column, 'random' or 'order'; one for all, or one a file."),
    ] = None,
    stream_first: Annotated[int | None, typer.Option(min=2, help="Rows that a stream begins with.")] = None,
    stream_batch: Annotated[int | None, typer.Option(min=1, help="Rows that it then brings at once.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column that is no input.")] = None,
) -> None:
    """Compare memory retention with every method one would use instead, and write a report.

    A run that was stopped goes on where it was; a finished one only draws again.
    """
    from atlas_splines.cli.arena import compare_methods

    compare_methods(
        output,
        quick=quick,
        seeds=seeds,
        jobs=jobs,
        scheduler=scheduler,
        methods=method or [],
        protocols=protocol or [],
        data=data or [],
        targets=target or [],
        split_by=split_by or [],
        stream_by=stream_by or [],
        stream_first=stream_first,
        stream_batch=stream_batch,
        drop=drop or [],
    )
