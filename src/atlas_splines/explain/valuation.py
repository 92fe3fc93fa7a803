"""Valuation: what each update did for the error on given rows, as leave-one-out and as Shapley value.

Data Shapley (Ghorbani and Zou 2019) with updates for players, and without sampling: models without some
updates are derived, as `revert` derives them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.explain.shapley import coalitions_of, shapley_of_table

__all__ = ["MOST_SOURCES", "UpdateValues", "values_of"]

MOST_SOURCES = 10  # updates of which all 2^k subsets are derived


@dataclass(frozen=True, eq=False)
class UpdateValues:
    """What updates did for the error on some rows: a positive value is by how much it has lowered the error.

    Attributes
    ----------
    updates
        Numbers of the updates.
    leave_one_out
        Error without each update less the error with all, shape (updates,).
    shapley
        Shapley values, which add up to the error without any of them less that with all, shape (updates,).
    error
        Error with all updates.
    error_without
        Error without any of them.
    measure
        What the error is.
    """

    updates: tuple[int, ...]
    leave_one_out: NDArray[np.float64]
    shapley: NDArray[np.float64]
    error: float
    error_without: float
    measure: str

    def lines(self) -> list[str]:
        """The values in words."""
        found = [f"{self.measure} {self.error:.6g}, and {self.error_without:.6g} without these updates"]
        for number, alone, fair in zip(self.updates, self.leave_one_out, self.shapley, strict=True):
            found.append(f"  update {number}: {alone:+.6g} if it alone were gone, {fair:+.6g} as its share")
        return found

    def __repr__(self) -> str:
        return "\n".join(["<UpdateValues: " + self.lines()[0], *self.lines()[1:]]) + ">"


def values_of(
    updates: Sequence[int], errors: Callable[[], NDArray[np.float64]], measure: str
) -> UpdateValues:
    """Values of updates from the errors with all subsets of them.

    Parameters
    ----------
    updates
        Their numbers.
    errors
        Gives the error with each subset, in the order of `coalitions_of`.
    measure
        What the error is.

    Examples
    --------
    >>> found = values_of([3, 4], lambda: np.array([9.0, 4.0, 6.0, 1.0]), "error")
    >>> found.shapley, found.leave_one_out
    (array([5., 3.]), array([5., 3.]))
    """
    if not updates:
        raise ValueError("there is no update to value; call partial_fit first")
    if len(updates) > MOST_SOURCES:
        raise ValueError(
            f"{len(updates)} updates are more than the {MOST_SOURCES} whose subsets are derived; name up to "
            f"{MOST_SOURCES} of them with updates=[...]"
        )
    table = errors()
    masks, whole = coalitions_of(len(updates)), len(table) - 1
    without = np.array([table[whole - 2**k] for k in range(len(updates))])
    fair = -shapley_of_table(table[:, None])[:, 0]
    assert len(masks) == len(table)
    return UpdateValues(tuple(updates), without - table[-1], fair, float(table[-1]), float(table[0]), measure)
