"""A task, and a problem: a sequence of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Problem", "Task", "split"]

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]
TEST_SHARE = 0.2


def nowhere(X: Array) -> Mask:
    """No point: the task adds to what was known and replaces nothing.

    Examples
    --------
    >>> nowhere(np.zeros((2, 3)))
    array([False, False])
    """
    return np.zeros(len(X), np.bool_)


@dataclass(frozen=True)
class Task:
    """One task: all inputs are in the unit cube.

    Attributes
    ----------
    X, y
        Training data, shapes (rows, inputs) and (rows,). The targets of a classification are class numbers.
    test_X, test_y
        Unseen points of the task, without noise where that can be known.
    replaces
        The points whose former target is no longer true.
    """

    X: Array
    y: Array
    test_X: Array
    test_y: Array
    replaces: Callable[[Array], Mask] = field(default=nowhere)


@dataclass(frozen=True)
class Problem:
    """A sequence of tasks; ``classes`` is 0 for a regression."""

    inputs: int
    tasks: list[Task]
    classes: int = 0

    @property
    def outputs(self) -> int:
        """Columns of a prediction."""
        return self.classes or 1


def split(X: Array, y: Array, random: np.random.Generator, most: int) -> Task:
    """A task from rows: a fifth of them, drawn at random, for the test, and at most so many to train on.

    Examples
    --------
    >>> task = split(np.zeros((10, 1)), np.arange(10.0), np.random.default_rng(0), most=5)
    >>> len(task.y), len(task.test_y)
    (5, 2)
    """
    order = random.permutation(len(y))
    tests = max(round(TEST_SHARE * len(y)), 1)
    test, train = order[:tests], order[tests : tests + most]
    return Task(X[train], y[train], X[test], y[test])
