"""The `atlas` command. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from atlas_splines import __version__


class Optimizer(str, Enum):
    """Optimisers that the paper's experiments can be run with."""

    adam = "adam"
    lazy_adam = "lazy-adam"


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(f"atlas-splines {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Models that are updated all their life and do not forget."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the picture.")] = Path(
        "atlas-demo.png"
    ),
) -> None:
    """Learn a 2-D function, then a changed box of it, and show what was forgotten."""
    if not output.parent.is_dir():
        fail(f"cannot write {output}: the folder {output.parent} does not exist")
    if output.suffix not in (".png", ".svg", ".pdf"):
        fail(f"cannot write {output}: a picture ends in .png, .svg or .pdf")
    run_demo(output)


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
    try:
        import pandas  # noqa: F401
    except ImportError:
        fail("this command needs more packages: pip install 'atlas-splines[paper]'")
    from atlas_splines.jobs import RunError
    from atlas_splines.paper.reproduction import reproduce
    from atlas_splines.paper.trials import Settings

    settings = Settings(damping=damping, optimizer=optimizer.value)
    try:
        report = reproduce(output, 1 if quick else trials, settings, jobs=jobs, scheduler=scheduler)
    except RunError as error:
        fail(str(error))
    typer.echo(f"The report is {report}.")


@app.command()
def arena(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results and report.")] = Path(
        "atlas-arena"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Small tasks, one seed, no tuning.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Local processes.")] = 2,
    scheduler: Annotated[str | None, typer.Option(help="Dask scheduler, such as tcp://host:8786.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    protocol: Annotated[list[int] | None, typer.Option(help="Only this protocol; may be repeated.")] = None,
    data: Annotated[list[Path] | None, typer.Option(help="Your table; may be repeated.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Its target; by default the last column.")] = None,
    split_by: Annotated[
        list[str] | None, typer.Option(help="A column, 'region' or 'clusters'; one for all, or one a file.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column that is no input.")] = None,
) -> None:
    """Compare memory retention with every method one would use instead, and write a report.

    A run that was stopped goes on where it was; a finished one only draws again.
    """
    from atlas_splines.arena.competition import compete, make_plan
    from atlas_splines.arena.report import findings, text_table
    from atlas_splines.jobs import RunError

    try:
        plan = make_plan(quick, seeds, method or [], protocol or [])
        plan = plan.with_data(data or [], target or [], split_by or [], drop or [])
        results = compete(output, plan, jobs=jobs, scheduler=scheduler)
    except (RunError, ValueError) as error:
        fail(str(error))
    typer.echo(text_table(results))
    typer.echo("\n".join(["", *findings(results), f"The report is {output / 'report.html'}."]))


def run_demo(output: Path) -> None:
    """Two tasks in sequence: a smooth function on the unit square, then new values in one box of it."""
    import numpy as np

    from atlas_splines.memory import Memory, update
    from atlas_splines.model import Atlas
    from atlas_splines.plots import save_maps
    from atlas_splines.training import train

    box = ((0.55, 0.8), (0.3, 0.55))
    low, high = np.array(box).T
    random = np.random.default_rng(0)
    side = (np.arange(200) + 0.5) / 200
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = ((grid >= low) & (grid <= high)).all(axis=1)

    def old_target(X: np.ndarray) -> np.ndarray:
        return np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 1]

    def new_target(X: np.ndarray) -> np.ndarray:
        return 2 * np.cos(12 * X.sum(axis=1))

    model = Atlas(inputs=2)
    X = random.random((10_000, 2))
    seconds = train(model, X, old_target(X), random_state=0).seconds
    typer.echo(f"Learned 10,000 samples of a function of two inputs in {seconds:.2f} s.")
    before = model(grid)[:, 0]

    X = low + (high - low) * random.random((10_000, 2))
    y = new_target(X)
    typer.echo("Now its values in one box change. Learned 10,000 samples from that box,")
    kinds: dict[str, Memory] = {"plain training": "none", "a chart": "chart"}
    changes = {}
    for name, memory in kinds.items():
        twin = model.copy()
        done = update(twin, X, y, memory=memory, random_state=0)
        after = twin(grid)[:, 0]
        change = np.abs(after - before)
        wrong = np.abs(after - new_target(grid))[inside].mean()
        outside = change[~inside]
        typer.echo(f"  with {name}, in {done.seconds:.2f} s: mean error in the box {wrong:.3f}; outside it")
        typer.echo(
            f"    {(outside > 0).mean():.1%} of predictions changed, by {outside.mean():.3f} on average."
        )
        changes[f"changed by {name}"] = change.reshape(200, 200)
    values = {"before": before, "after, with a chart": after}
    save_maps(output, {name: image.reshape(200, 200) for name, image in values.items()}, changes, box)
    typer.echo(f"The picture is {output}.")


def fail(message: str) -> NoReturn:
    """End the command with one line on standard error."""
    typer.echo(f"atlas: {message}", err=True)
    raise typer.Exit(2)
