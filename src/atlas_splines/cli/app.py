"""The command `atlas` and its subcommands."""

from __future__ import annotations

import platform
import sys
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from atlas_splines import __version__
from atlas_splines.cli.experiment_commands import arena, demo, paper, play
from atlas_splines.cli.explain_commands import blame, contract, explain
from atlas_splines.cli.options import AsJson, Force, Model, Quiet, Verbose, Wait
from atlas_splines.cli.output import aligned, fail, output_of
from atlas_splines.cli.version_commands import apply, diff, forget, merge, patch, replay, verify

__all__ = ["installed_lines"]

NEEDED = ("numpy", "numba", "scipy", "scikit-learn", "pyarrow")
EXTRAS = ("torch", "onnx", "onnxruntime", "dask", "pandas", "openpyxl", "river")


def installed_lines() -> list[str]:
    """The package itself, Python, and packages that matter here, each with its version."""
    packages = [(name, version_of(name)) for name in (*NEEDED, *EXTRAS)]
    return aligned([("atlas-splines", __version__), ("Python", platform.python_version()), *packages])


def version_of(package: str) -> str:
    """Version of a package, or that it is not installed.

    Examples
    --------
    >>> version_of("no-such-package")
    'not installed'
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


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


class Memory(str, Enum):
    """What a model keeps of its rows."""

    rows = "rows"
    sums = "sums"


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
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

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
        pass

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
    memory: Annotated[
        Memory, typer.Option(help="What the file keeps: rows, which predicts best, or sums of rows alone.")
    ] = Memory.rows,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows that it keeps at most: the newest.")] = 100_000,
    seed: Seed = 0,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Learn a table and save the model.

    Columns of texts are categories; dates become parts of the calendar. Empty cells and NA are missing
    values. A target of numbers makes a regression, a target of texts a classification.
    """
    with output_of("fit", quiet, verbose, as_json) as out:
        if classify and regress:
            fail("--classify and --regress exclude each other; give one of them")
        from atlas_splines.cli.fit import fit_table
        from atlas_splines.cli.scan import Workers

        size = {"density": density, "terms": terms, "loss": loss and loss.value}
        size["class_weight"] = class_weight and class_weight.value
        out.facts = fit_table(
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
            workers=Workers(jobs, scheduler, out.progress),
            echo=out.echo,
            note=out.note,
            progress=out.progress,
            members=members,
            extrapolation=extrapolation.value,
            memory=memory.value,
            max_rows=max_rows,
            verbose=int(verbose and not quiet),
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
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Learn rows that seem faulty as a whole, or were learned before."),
    ] = False,
    new_columns: Annotated[
        bool, typer.Option("--new-columns", help="Learn columns that the model has not seen.")
    ] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Columns that it has not seen, to leave out: a,b,c.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="With -o: replace a model that has been updated, or any other file."),
    ] = False,
    seed: Seed = 0,
    message: Annotated[str, typer.Option("--message", "-m", help="Why, for the log.")] = "",
    author: Annotated[str, typer.Option(help="Who, for the log.")] = "",
    contract: Annotated[
        Path | None, typer.Option(metavar="RULES", help="Rules that the model keeps, or nothing is learned.")
    ] = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    wait: Wait = 600,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Teach a model new rows, and tell what can change and what cannot."""
    with output_of("update", quiet, verbose, as_json) as out:
        from atlas_splines.cli.scan import Workers
        from atlas_splines.cli.update import update_model

        out.facts = update_model(
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
            accept=accept,
            new_columns=new_columns,
            ignore=ignore or (),
            force=force,
            seed=seed,
            message=message,
            author=author,
            contract=contract,
            workers=Workers(jobs, scheduler, out.progress),
            wait=wait,
            echo=out.echo,
            note=out.note,
            progress=out.progress,
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
    explain: Annotated[
        bool, typer.Option("--explain", help="What each column adds to the prediction, a column each.")
    ] = False,
    unknown: UnknownOption = Unknown.error,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is no table of predictions.")
    ] = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Write a table again with a column of predictions, and if wanted with how sure they are.

    With --json, and - for both tables, each line of JSON is a row, and is answered before the next is read.
    """
    to_terminal = output == "-" and sys.stdout.isatty()
    with output_of("predict", quiet, verbose, as_json, line=not to_terminal) as out:
        from atlas_splines.cli.predict import predict_lines, predict_table
        from atlas_splines.cli.scan import Workers

        if as_json and rows == output == "-":
            predict_lines(
                model,
                sys.stdin,
                out.stdout,
                probabilities=probabilities,
                coverages=interval or (),
                support=support,
                refuse_unknown=unknown is Unknown.error,
                note=out.note,
            )
            return
        out.need_file(output)
        out.facts = predict_table(
            model,
            rows,
            output,
            probabilities=probabilities,
            told={"separator": separator, "header": header, "missing": na or (), "decimal": decimal},
            coverages=interval or (),
            support=support,
            explain=explain,
            refuse_unknown=unknown is Unknown.error,
            force=force,
            workers=Workers(jobs, scheduler, out.progress),
            note=out.note,
        )


@app.command()
def inspect(
    model: Model,
    plot: Annotated[
        Path | None, typer.Option(help="Draw what each input does, and the footprint of each update.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Draw over the rows of this table; else over points like those learned."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Tell what a model file holds: configuration, size, domain, and the log of its updates."""
    with output_of("inspect", quiet, verbose, as_json) as out:
        from atlas_splines.cli.inspect import inspect_model

        out.facts = inspect_model(model, plot, out.echo, out.progress, data=data, force=force)


@app.command()
def evaluate(
    model: Model,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Table with inputs and target, or -.")],
    by: Annotated[str | None, typer.Option(help="Also for each value of this column.")] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Also for this model, to compare.")
    ] = None,
    skip_missing: SkipMissing = False,
    separator: Separator = None,
    header: Header = None,
    na: Missing = None,
    decimal: Decimal = None,
    unknown: UnknownOption = Unknown.error,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Tell the error of a model, or of two, on any table, beside that of the mean or of class frequencies."""
    with output_of("evaluate", quiet, verbose, as_json) as out:
        from atlas_splines.cli.evaluate import evaluate_model

        out.facts = evaluate_model(
            model,
            data,
            by=by,
            against=against,
            skip_missing=skip_missing,
            told={"separator": separator, "header": header, "missing": na or (), "decimal": decimal},
            refuse_unknown=unknown is Unknown.error,
            echo=out.echo,
            progress=out.progress,
        )


@app.command()
def log(
    model: Model,
    output: Annotated[str, typer.Option("--output", "-o", help="File to write, or -.")] = "-",
    after: Annotated[int, typer.Option(min=0, help="Only updates with a larger number.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Write the log of a model as lines of JSON, before its oldest entries are folded into one."""
    with output_of("log", quiet, verbose, as_json) as out:
        from atlas_splines.cli.inspect import write_log

        out.facts = write_log(model, output, after=after, force=force, as_json=as_json)


for command in (explain, blame, contract, verify, diff, patch, apply, merge, forget, replay):
    app.command()(command)


@app.command()
def revert(
    model: Model,
    id: Annotated[
        int, typer.Argument(metavar="ID", help="Number of the update; `atlas inspect` lists them.")
    ],
    wait: Wait = 600,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Take back an update, exactly."""
    with output_of("revert", quiet, verbose, as_json) as out:
        from atlas_splines.cli.versions import revert_update

        out.facts = revert_update(model, id, wait=wait, echo=out.echo, note=out.note)


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
    strings: Annotated[
        bool, typer.Option("--strings", help="With an input for each column, of strings for categories.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as ONNX, to predict without this package.

    It takes numbers as they are; the output tells how categories become numbers. With --strings it takes the
    columns of the table.
    """
    with output_of("export", quiet, verbose, as_json) as out:
        from atlas_splines.cli.export import export_model

        out.facts = export_model(
            model,
            output,
            out.echo,
            out.progress,
            coverage=interval,
            support=support,
            strings=strings,
            force=force,
        )


@app.command()
def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to listen at; any but the loopback needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 is any free port.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that changes of the model need.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only follow the file.")] = False,
    pending: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Predictions that may wait for their targets.")
    ] = 0,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Name by which it may be asked; repeat for several.")
    ] = None,
    contract: Annotated[
        Path | None, typer.Option(metavar="RULES", help="Rules that every update keeps, or it is refused.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Serve a model over HTTP: it answers, learns, and takes updates back, until it is told to end."""
    with output_of("serve", quiet, verbose, as_json, line=False) as out:
        from atlas_splines.cli.serve import serve_model

        serve_model(
            model,
            host=host,
            port=port,
            token_file=token_file,
            read_only=read_only,
            pending=pending,
            allow_host=allow_host or (),
            contract=contract,
            echo=out.echo,
            note=out.note,
            report=out.report,
        )


for experiment in (demo, play, paper, arena):
    app.command()(experiment)
