"""What is measured: an error for each task after each task, and what follows from it.

Errors are mean absolute errors of standardised targets, or shares of wrong classes. Lower is better, so the
signs are these: backward transfer is negative when old tasks got worse, forward transfer is positive when
earlier tasks helped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import Method
from atlas_splines.experiments.arena.tasks import Problem

__all__ = ["Diverged", "confidence", "evaluate", "scores"]

Array = NDArray[np.floating]


class Diverged(Exception):
    """Predictions are no longer finite."""


def evaluate(problem: Problem, method: Method) -> dict[str, Any]:
    """Put a method through the tasks of a problem.

    Returns
    -------
    dict with ``R`` and ``S`` (see `scores`), shapes (tasks, tasks); ``untrained``, the error of the constant
    zero on each task; ``changed``, the share of old predictions that each task changed; bytes and seconds of
    one core.
    """
    points = np.vstack([task.test_X for task in problem.tasks])
    seconds = {"train": 0.0, "predict": 0.0}
    outputs: list[Array] = []
    for task in problem.tasks:
        start = time.process_time()
        method.fit(task)
        middle = time.process_time()
        outputs.append(np.asarray(method.predict(points)))
        seconds["train"] += middle - start
        seconds["predict"] += time.process_time() - middle
        if not np.isfinite(outputs[-1]).all():
            raise Diverged(f"predictions are not finite after task {len(outputs)}")
    return {
        **error_matrices(problem, outputs),
        "changed": changed(problem, outputs),
        "bytes": method.bytes_kept,
        "train_seconds": seconds["train"],
        "predict_microseconds": 1e6 * seconds["predict"] / (len(points) * len(outputs)),
    }


def error(outputs: Array, y: Array, classes: int) -> float:
    """Mean error; NaN on no points.

    Examples
    --------
    >>> error(np.array([[1.0], [2.0]]), np.array([1.0, 4.0]), classes=0)
    1.0
    """
    if not len(y):
        return float("nan")
    return float((outputs.argmax(axis=1) != y).mean() if classes else np.abs(outputs[:, 0] - y).mean())


def error_matrices(problem: Problem, outputs: Sequence[Array]) -> dict[str, list[Any]]:
    """R, S and the errors of the constant zero, from the outputs at all test points after each task."""
    count = len(problem.tasks)
    R, S = np.full((2, count, count), np.nan)
    untrained = []
    for j, (part, task) in enumerate(zip(task_slices(problem), problem.tasks, strict=True)):
        lasting = still_true(problem, count - 1, j)
        untrained.append(error(np.zeros((len(task.test_y), problem.outputs)), task.test_y, problem.classes))
        for i in range(count):
            out, now = outputs[i][part], still_true(problem, i, j)
            R[i, j] = error(out[now], task.test_y[now], problem.classes)
            S[i, j] = error(out[lasting], task.test_y[lasting], problem.classes)
    return {"R": R.tolist(), "S": S.tolist(), "untrained": untrained}


def task_slices(problem: Problem) -> list[slice]:
    """Where each task's points are among all test points."""
    ends = np.cumsum([len(task.test_y) for task in problem.tasks]).tolist()
    return [slice(end - len(task.test_y), end) for end, task in zip(ends, problem.tasks, strict=True)]


def still_true(problem: Problem, now: int, j: int) -> NDArray[np.bool_]:
    """Which test points of task j no task after it has replaced, up to task `now`."""
    points = problem.tasks[j].test_X
    true = np.ones(len(points), np.bool_)
    for later in problem.tasks[j + 1 : now + 1]:
        true &= ~later.replaces(points)
    return true


def changed(problem: Problem, outputs: Sequence[Array]) -> list[float]:
    """For each task but the first: which share of predictions at old, still true points it changed at all."""
    shares = []
    for i in range(1, len(outputs)):
        differs = (outputs[i] != outputs[i - 1]).any(axis=1)
        old = [differs[part][still_true(problem, i, j)] for j, part in enumerate(task_slices(problem)[:i])]
        every = np.concatenate(old)
        shares.append(float(every.mean()) if len(every) else float("nan"))
    return shares


def scores(record: Mapping[str, Any]) -> dict[str, float]:
    """What follows from the matrices of a record.

    R[i, j] is the error on task j after task i, on points that are true then; S[i, j] is the same on points
    that are still true at the end, so that its rows can be compared. NaN means that there are no such points.

    Returns
    -------
    dict of floats
        ``final``: mean of R[last, j] over all tasks. ``inside`` and ``outside``: the last task, and the mean
        of the others. ``backward``: mean of S[j, j] − S[last, j], negative when old tasks got worse.
        ``forgetting``: mean of S[last, j] minus the least S[i, j] before it. ``forward``: mean of the error
        of the constant zero minus R[j − 1, j], positive when earlier tasks helped. ``changed``: mean share of
        old predictions that changed.

    Examples
    --------
    >>> R = [[0.1, 0.9], [0.4, 0.2]]
    >>> measured = scores({"R": R, "S": R, "untrained": [1.0, 1.0], "changed": [0.5]})
    >>> {name: round(value, 2) for name, value in measured.items()}
    {'final': 0.3, 'inside': 0.2, 'outside': 0.4, 'backward': -0.3, 'forgetting': 0.3, 'forward': 0.1,
    'changed': 0.5}
    """
    R, S = (np.array(record[name], np.float64) for name in ("R", "S"))
    last, before = len(R) - 1, range(len(R) - 1)
    return {
        "final": mean(R[last]),
        "inside": float(R[last, last]),
        "outside": mean(R[last, :last]),
        "backward": mean(S[j, j] - S[last, j] for j in before),
        "forgetting": mean(S[last, j] - S[j:last, j].min() for j in before),
        "forward": mean(record["untrained"][j] - R[j - 1, j] for j in range(1, last + 1)),
        "changed": mean(record["changed"]),
    }


def mean(values: Any) -> float:
    """Mean of the values that are there; NaN if none is."""
    there = [value for value in values if np.isfinite(value)]
    return float(np.mean(there)) if there else float("nan")


def confidence(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval by Student's distribution.

    Examples
    --------
    >>> centre, half = confidence([1.0, 2.0, 3.0])
    >>> round(centre, 2), round(half, 2)
    (2.0, 2.48)
    """
    from scipy.stats import t

    array = np.asarray(values, np.float64)
    if len(array) < 2:
        return mean(array), float("nan")
    half = t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / len(array) ** 0.5
    return float(array.mean()), float(half)
