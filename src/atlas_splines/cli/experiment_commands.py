"""Commands that show what the library does: their options. `app.py` has those of all others."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from atlas_splines.cli.options import AsJson, Force, Quiet, Verbose, model_files
from atlas_splines.cli.output import output_of

__all__ = ["arena", "demo", "paper", "play"]


class Optimizer(str, Enum):
    """Optimisers that the paper's experiments can be run with."""

    adam = "adam"
    lazy_adam = "lazy-adam"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the picture.")] = Path(
        "atlas-demo.png"
    ),
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Run the commands above on a small table, and draw what was forgotten."""
    with output_of("demo", quiet, verbose, as_json) as out:
        from atlas_splines.cli.experiments import demonstrate

        out.facts = demonstrate(output, run=run_or_stop, echo=out.echo, force=force, quiet=quiet or as_json)


def play(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="Model to show the life of.", autocompletion=model_files),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to serve; 0 is any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Watch models remember and forget: a playground in the browser, on this machine only.

    With a model file, the page of its life instead, as `atlas serve` has it.
    """
    with output_of("play", quiet, verbose, as_json, line=False) as out:
        if model is not None:
            from atlas_splines.cli.serve import serve_model

            serve_model(
                model,
                host="127.0.0.1",
                port=port,
                token_file=None,
                read_only=False,
                pending=0,
                allow_host=(),
                browser=browser,
                echo=out.echo,
                note=out.note,
                report=out.report,
            )
            return
        from atlas_splines.cli.experiments import play as serve

        serve(port, browser=browser, echo=out.echo, report=out.report)


def run_or_stop(arguments: list[str]) -> None:
    """Run another command; if it fails, this one ends as well."""
    from atlas_splines.cli.app import app  # which has this command too

    code = app(arguments, standalone_mode=False)
    if code:
        raise typer.Exit(code)


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
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Run every experiment of the paper, draw every figure, and write a report.

    A run that was stopped goes on where it was; a finished one only draws again.
    """
    with output_of("paper", quiet, verbose, as_json, line=False) as out:
        from atlas_splines.cli.experiments import reproduce_paper

        out.facts = reproduce_paper(
            output,
            1 if quick else trials,
            jobs=jobs,
            scheduler=scheduler,
            damping=damping,
            optimizer=optimizer.value,
            quiet=quiet,
            echo=out.echo,
        )


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
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Compare memory retention with every method one would use instead, and write a report.

    A run that was stopped goes on where it was; a finished one only draws again.
    """
    with output_of("arena", quiet, verbose, as_json, line=False) as out:
        from atlas_splines.cli.experiments import compare_methods

        out.facts = compare_methods(
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
            quiet=quiet,
            echo=out.echo,
        )
