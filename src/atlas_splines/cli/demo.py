"""`atlas demo`: the command itself on a small table, and a picture of what was forgotten."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.checks import check_absent, check_picture
from atlas_splines.cli.messages import Say
from atlas_splines.cli.model_files import load_table_model
from atlas_splines.cli.output import Facts
from atlas_splines.plots import save_maps
from atlas_splines.tables.encoding import frame
from atlas_splines.tables.writing import TableWriter

__all__ = ["demonstrate"]

Array = NDArray[np.float64]

# Where the function changes: (low, high) of each input.
BOX = ((0.55, 0.8), (0.3, 0.55))

# Points of the grid along each input.
SIDE = 200


def old_target(X: Array) -> Array:
    """What the first table says, everywhere."""
    return np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 1]


def new_target(X: Array) -> Array:
    """What the second table says, in the box."""
    return 2 * np.cos(12 * X.sum(axis=1))


def write_table(name: str, X: Array, y: Array) -> None:
    """Write inputs and target to a CSV file."""
    with TableWriter(name) as writer:
        writer.write(frame(["x1", "x2", "y"], [*X.T, y]))


def demonstrate(
    output: Path, run: Callable[[list[str]], None], say: Say, *, force: bool = False, quiet: bool = False
) -> Facts:
    """Fit a function on the unit square, update it with new values in one box, and draw what changed.

    Parameters
    ----------
    output
        The picture.
    run
        Runs the command with these arguments.
    say
        Prints a line.
    force
        Whether the picture may replace a file.
    quiet
        Whether the commands print nothing.
    """
    check_picture(output)
    if not force:
        check_absent(output)
    output, home = output.resolve(), Path.cwd()

    def show(line: str) -> None:
        say("")
        say(f"$ atlas {line}")
        run([*shlex.split(line), *(["--quiet"] if quiet else [])])

    with tempfile.TemporaryDirectory(prefix="atlas-demo-") as folder:
        os.chdir(folder)
        try:
            write_tables()
            say("Two tables: old.csv has 10,000 rows of a function of x1 and x2. new.csv has 2,000 rows from")
            say("one box, where the function has changed.")
            show("fit old.csv --target y --density 4 --terms 10 --members 1 -o model.atlas")
            show("update model.atlas new.csv -o after.atlas")
            show("predict after.atlas new.csv -o predicted.csv")
            show("inspect after.atlas")
            say("")
            say("The paper's plain training, for comparison:")
            show("update model.atlas new.csv --retention none -o plain.atlas")
            tell_and_draw(output, say)
        finally:
            os.chdir(home)
    say(f"The picture is {output}.")
    return {"output": output}


def write_tables() -> None:
    """The function everywhere, and its new values in the box."""
    random = np.random.default_rng(0)
    low, high = np.array(BOX).T
    X = random.random((10_000, 2))
    write_table("old.csv", X, old_target(X))
    X = low + (high - low) * random.random((2_000, 2))
    write_table("new.csv", X, new_target(X))


def tell_and_draw(output: Path, say: Say) -> None:
    """Compare the three models on a grid."""
    side = (np.arange(SIDE) + 0.5) / SIDE
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    low, high = np.array(BOX).T
    inside = ((grid >= low) & (grid <= high)).all(axis=1)
    table = frame(["x1", "x2"], list(grid.T))
    before, after, plain = (
        load_table_model(Path(f"{name}.atlas")).estimator.predict(table)
        for name in ("model", "after", "plain")
    )
    say("")
    say("On a grid of 40,000 points:")
    changes = {}
    for name, values in (("plain training", plain), ("a chart", after)):
        change = np.abs(values - before)
        wrong = np.abs(values - new_target(grid))[inside].mean()
        outside = change[~inside]
        say(f"  with {name}: mean error in the box {wrong:.3f}; outside it")
        say(f"    {(outside > 0).mean():.1%} of predictions changed, by {outside.mean():.3f} on average.")
        changes[f"changed by {name}"] = change.reshape(SIDE, SIDE)
    maps = {"before": before, "after, with a chart": after}
    save_maps(output, {name: image.reshape(SIDE, SIDE) for name, image in maps.items()}, changes, BOX)
