"""What the methods are put through: sequences of tasks, all in the unit cube.

A task may replace what was true before in its region: the boxes of the paper do, new classes do not.
Targets are standardised by the first task. Noise goes to training data only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.csv_data import DataFile, csv_tasks
from atlas_splines.experiments.arena.tasks import Problem, Task, split
from atlas_splines.experiments.boxes import WIDTHS, in_box, rbf_target

__all__ = ["PROTOCOLS", "Cell", "Size", "built_in_cells", "csv_cell", "make_problem"]

Array = NDArray[np.floating]

PROTOCOLS = {
    1: "the paper's two tasks",
    2: "ten boxes",
    3: "KAN's five peaks",
    4: "shared coordinates",
    5: "real data",
    6: "classification",
    7: "streams",
}
LINE_STEP = 1.0  # how far a shared-coordinate task moves its target, in standard deviations


@dataclass(frozen=True)
class Size:
    """How large the tasks are, and how long each may be trained on."""

    samples: int = 2000  # training rows of a task, at most
    tests: int = 500  # test rows of a task
    tasks: int = 11  # at most; the first is the whole domain in protocols 1, 2 and 4
    steps: int = 300  # gradient steps on a task, for methods that have no number of their own


class Cell(NamedTuple):
    """One column of the results: a protocol with its options."""

    protocol: int
    label: str
    kind: str
    inputs: int = 0
    data: DataFile | None = None

    @property
    def name(self) -> str:
        """Name for files."""
        end = self.data.digest if self.data else f"n{self.inputs}"
        return f"p{self.protocol}-{self.kind}-{end}"


def built_in_cells() -> list[Cell]:
    """All cells that need no file.

    Examples
    --------
    >>> [cell.name for cell in built_in_cells()][:3]
    ['p1-two-tasks-n1', 'p1-two-tasks-n2', 'p1-two-tasks-n8']
    """
    return [
        *(Cell(1, f"two tasks, n = {n}", "two-tasks", n) for n in (1, 2, 8)),
        *(Cell(2, f"ten boxes, n = {n}", "boxes", n) for n in (2, 8)),
        Cell(3, "five peaks", "peaks", 1),
        Cell(4, "line, n = 2", "line", 2),
        *(Cell(4, f"diagonal, n = {n}", "diagonal", n) for n in (2, 8)),
        Cell(6, "digits by class", "digits", 64),
        Cell(6, "digits permuted", "permuted", 64),
    ]


def csv_cell(data: DataFile) -> Cell:
    """The cell of a file."""
    return Cell(5, f"{data.path.stem} by {data.split}", "csv", data=data)


@lru_cache(maxsize=2)
def make_problem(cell: Cell, seed: int, size: Size) -> Problem:
    """Draw the tasks of a cell, the same for every method.

    Examples
    --------
    >>> problem = make_problem(Cell(1, "", "two-tasks", 2), 0, Size(samples=50))
    >>> [task.X.shape for task in problem.tasks]
    [(50, 2), (50, 2)]
    """
    random = np.random.default_rng([seed, *cell.name.encode()])
    problem = MAKERS[cell.kind](cell, random, seed, size)
    return standardised(replace(problem, tasks=problem.tasks[: size.tasks]))


def standardised(problem: Problem) -> Problem:
    """Regression targets with mean 0 and standard deviation 1 on the first task."""
    if problem.classes:
        return problem
    first = problem.tasks[0].y
    mean, scale = first.mean(), first.std() or 1.0
    tasks = [
        replace(task, y=(task.y - mean) / scale, test_y=(task.test_y - mean) / scale)
        for task in problem.tasks
    ]
    return replace(problem, tasks=tasks)


# --- boxes -----------------------------------------------------------------------------------------------


@dataclass
class Box:
    """Whether points are in a box; a class, since other processes must be able to read it."""

    corners: Array = field(default_factory=lambda: np.zeros((2, 0)))  # (2, inputs)

    def __call__(self, X: Array) -> NDArray[np.bool_]:
        return in_box(X, self.corners)


def box_sequence(random: np.random.Generator, inputs: int, width: float, boxes: int, size: Size) -> Problem:
    """The whole domain, then boxes anywhere in it that each have a new target, as in the paper."""
    noise = float(random.exponential())
    tasks = []
    for k in range(1 + boxes):
        extent = width if k else 1.0
        low = (1 - extent) * random.random(inputs)
        target = rbf_target(random, inputs)
        X, test_X = (low + extent * random.random((rows, inputs)) for rows in (size.samples, size.tests))
        y = target(X) + noise * random.normal(size=len(X))
        tasks.append(Task(X, y, test_X, target(test_X), Box(np.stack([low, low + extent]))))
    return Problem(inputs, tasks)


def two_tasks(cell: Cell, random: np.random.Generator, seed: int, size: Size) -> Problem:
    """The paper's tasks; the seeds go through the paper's widths."""
    return box_sequence(random, cell.inputs, WIDTHS[(4 + 2 * seed) % len(WIDTHS)], 1, size)


def ten_boxes(cell: Cell, random: np.random.Generator, seed: int, size: Size) -> Problem:
    """Ten boxes in sequence; in eight dimensions they are wider, or they would never meet."""
    return box_sequence(random, cell.inputs, 0.3 if cell.inputs == 2 else 0.7, 10, size)


# --- peaks, lines and diagonals --------------------------------------------------------------------------


def five_peaks(cell: Cell, random: np.random.Generator, seed: int, size: Size) -> Problem:
    """KAN's example of continual learning: one peak after the other, 100 points each."""
    centres = 0.1 + 0.2 * np.arange(5)

    def task(centre: float) -> Task:
        X, test_X = (centre - 0.1 + 0.2 * random.random((rows, 1)) for rows in (100, size.tests))
        y, test_y = (np.exp(-1200 * np.square(x[:, 0] - centre)) for x in (X, test_X))
        return Task(X, y, test_X, test_y)

    return Problem(1, [task(centre) for centre in centres])


def on_a_line(random: np.random.Generator, rows: int, inputs: int) -> Array:
    """Points with x₁ = ½."""
    X = random.random((rows, inputs))
    X[:, 0] = 0.5
    return X


def on_the_diagonal(random: np.random.Generator, rows: int, inputs: int) -> Array:
    """Points whose coordinates are all the same."""
    return np.repeat(random.random((rows, 1)), inputs, axis=1)


def shared_coordinates(cell: Cell, random: np.random.Generator, seed: int, size: Size) -> Problem:
    """New data on a set without volume that shares a coordinate with every point of the domain."""
    draw = on_a_line if cell.kind == "line" else on_the_diagonal
    target, tasks = rbf_target(random, cell.inputs), []
    noise = 0.1 * target(random.random((1000, cell.inputs))).std()
    for k in range(2):
        rows = (size.samples, size.tests)
        X, test_X = (draw(random, n, cell.inputs) if k else random.random((n, cell.inputs)) for n in rows)
        y, test_y = target(X) + 10 * k * LINE_STEP * noise, target(test_X) + 10 * k * LINE_STEP * noise
        tasks.append(Task(X, y + noise * random.normal(size=len(y)), test_X, test_y))
    return Problem(cell.inputs, tasks)


# --- classification --------------------------------------------------------------------------------------


def digits_by_class(cell: Cell, random: np.random.Generator, seed: int, size: Size) -> Problem:
    """Two classes of scikit-learn's digits after the other, in an order that the seed draws."""
    X, y = digits()
    order = random.permutation(10)
    chosen = (np.isin(y, order[k : k + 2]) for k in range(0, 10, 2))
    return Problem(64, [split(X[rows], y[rows], random, size.samples) for rows in chosen], classes=10)


def permuted_digits(cell: Cell, random: np.random.Generator, seed: int, size: Size) -> Problem:
    """All digits, five times, each time with the pixels in another order."""
    X, y = digits()
    orders = [random.permutation(64) if k else np.arange(64) for k in range(5)]
    return Problem(64, [split(X[:, order], y, random, size.samples) for order in orders], classes=10)


def digits() -> tuple[Array, Array]:
    """Images as rows of 64 pixels from 0 to 1, and their classes."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    return images / 16, classes.astype(np.float64)


def real_data(cell: Cell, random: np.random.Generator, seed: int, size: Size) -> Problem:
    """The rows of a file, split into tasks."""
    if cell.data is None:
        raise ValueError("a cell of real data needs a file")
    return csv_tasks(cell.data, random, size.samples)


MAKERS: dict[str, Callable[[Cell, np.random.Generator, int, Size], Problem]] = {
    "two-tasks": two_tasks,
    "boxes": ten_boxes,
    "peaks": five_peaks,
    "line": shared_coordinates,
    "diagonal": shared_coordinates,
    "csv": real_data,
    "digits": digits_by_class,
    "permuted": permuted_digits,
}
