"""Groups: rows that belong together, such as those of one patient, are held out together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d

__all__ = ["Groups", "group_folds", "numbered_groups"]

Groups = NDArray[np.intp]  # number of each row's group, (rows,)


def numbered_groups(
    groups: ArrayLike | None, weights: NDArray[np.floating], validation: str
) -> Groups | None:
    """Number of the group of each row that has a weight, or None without groups.

    Examples
    --------
    >>> numbered_groups(["b", "a", "b", "c"], np.array([1.0, 1.0, 1.0, 0.0]), "auto")
    array([1, 0, 1])
    """
    if groups is None:
        if validation == "groups":
            raise ValueError("validation='groups' needs the group of each row: call fit(X, y, groups=...)")
        return None
    if validation not in ("auto", "groups"):
        raise ValueError(
            f"groups do not go with validation={validation!r}; leave them out, or set it to 'groups'"
        )
    labels = column_or_1d(check_array(groups, ensure_2d=False, dtype=None, input_name="groups"))
    check_consistent_length(weights, labels)
    numbers = np.unique(labels[weights > 0], return_inverse=True)[1]
    if not numbers.any():
        raise ValueError("groups has one group only; two or more are needed, for some are held out")
    return np.asarray(numbers, np.intp)


def group_folds(groups: Groups, share: float, random: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Masks of whole groups, each group in one of them, those nearest to a share of the rows first.

    There are two of them at least, if there are two groups.

    Examples
    --------
    >>> folds = group_folds(np.array([0, 0, 1, 1, 2, 2, 2, 3]), 0.25, np.random.default_rng(0))
    >>> np.array(folds).astype(int)
    array([[1, 1, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 1, 1, 1, 0],
           [0, 0, 1, 1, 0, 0, 0, 1]])
    """
    sizes = np.bincount(groups) / len(groups)
    order = random.permutation(len(sizes))
    middle = np.empty(len(sizes))  # of each group, where all stand in line
    middle[order] = np.cumsum(sizes[order]) - sizes[order] / 2
    fold = np.floor(middle * max(round(1 / share), 2))[groups]
    masks = [fold == k for k in np.unique(fold)]
    return sorted(masks, key=lambda mask: abs(mask.mean() - share))
