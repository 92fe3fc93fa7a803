"""The `atlas` command. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
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
    run_demo(output)


def run_demo(output: Path) -> None:
    """Two tasks in sequence: a smooth function on the unit square, then new values in one box of it."""
    import numpy as np

    from atlas_splines.model import Atlas
    from atlas_splines.plots import save_maps
    from atlas_splines.training import train

    box = ((0.55, 0.8), (0.3, 0.55))
    low, high = np.array(box).T
    random = np.random.default_rng(0)

    def target(X: np.ndarray, changed: bool) -> np.ndarray:
        inside = ((low <= X) & (high >= X)).all(axis=1) & changed
        smooth = np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 1]
        return np.where(inside, 2 * np.cos(12 * X.sum(axis=1)), smooth)

    model = Atlas(inputs=2)
    X = random.random((10_000, 2))
    first = train(model, X, target(X, False), epochs=50, random_state=0)
    side = (np.arange(200) + 0.5) / 200
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = ((grid >= low) & (grid <= high)).all(axis=1)
    before = model(grid)[:, 0]
    X = low + (high - low) * random.random((10_000, 2))
    second = train(model, X, target(X, True), epochs=50, random_state=0)
    after = model(grid)[:, 0]

    change = np.abs(after - before)
    wrong_before = np.abs(before - target(grid, True))[inside].mean()
    wrong_after = np.abs(after - target(grid, True))[inside].mean()
    typer.echo(f"Learned 10,000 samples of a function of two inputs in {first.seconds:.2f} s.")
    typer.echo(f"Learned 10,000 samples of a changed box of it in {second.seconds:.2f} s.")
    typer.echo(f"Mean error inside the box: {wrong_before:.3f} before, {wrong_after:.3f} after.")
    typer.echo(f"Outside the box {(change[~inside] == 0).mean():.1%} of predictions kept every bit;")
    typer.echo(f"the rest, in a cross around the box, moved by {change[~inside & (change > 0)].mean():.3f}.")
    maps = {"after task 1": before, "task 2": target(grid, True), "after task 2": after}
    image = {name: values.reshape(200, 200) for name, values in maps.items()}
    save_maps(output, image, {"what changed": change.reshape(200, 200)}, box)
    typer.echo(f"The picture is {output}.")


def fail(message: str) -> None:
    """End the command with one line on standard error."""
    typer.echo(f"atlas: {message}", err=True)
    raise typer.Exit(2)
