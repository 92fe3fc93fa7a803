"""Explanations: what each column adds to each prediction, in the units of the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Explanation", "ResidualScale", "text_of"]

Array = NDArray[np.float64]
ResidualScale = Literal["link", "response"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each column adds to each prediction, against a background: Shapley values.

    Attributes
    ----------
    values
        Shape (rows, columns), or (rows, columns, outputs) with several targets or more than two classes. Of
        interactions there is one more axis of columns.
    base_values
        Mean prediction over the background, for each row: shape (rows,) or (rows, outputs). That of a row
        carries the rounding of its prediction to float32, so that values add up to what `predict` returns.
    data
        The rows as they were given, shape (rows, columns).
    feature_names
        Names of the columns.
    output_names
        Names of the targets or classes, if there is more than one output.
    scale
        "link" (targets, log-odds, roots of counts) or "response" (probabilities, counts).
    unit
        What values are in, in words.
    background
        What columns are compared with, in words.
    is_exact
        Whether values are those of the definition, to rounding; if not they are estimates.

    Examples
    --------
    >>> found = Explanation(np.array([[1.0, 2.0]]), np.array([3.0]), np.array([[0.1, 0.2]]), ["a", "b"])
    >>> found.predictions
    array([6.])
    >>> found
    <Explanation of 1 row by 2 columns: target, against the background>
    """

    values: Array
    base_values: Array
    data: NDArray[Any]
    feature_names: list[str]
    output_names: tuple[str, ...] = ()
    scale: ResidualScale = "link"
    unit: str = "target"
    background: str = "the background"
    is_exact: bool = True

    @property
    def is_of_pairs(self) -> bool:
        """Whether values are interactions of pairs of columns."""
        return self.values.ndim - self.base_values.ndim == 2

    @property
    def predictions(self) -> Array:
        """What base values and values add up to: shape (rows,) or (rows, outputs)."""
        columns = (1, 2) if self.is_of_pairs else (1,)
        return np.asarray(self.base_values + self.values.sum(axis=columns))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: int | slice | Sequence[int] | NDArray[Any]) -> Explanation:
        """The explanation of some of the rows."""
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        parts = (self.values[chosen], self.base_values[chosen], self.data[chosen])
        return replace(self, values=parts[0], base_values=parts[1], data=parts[2])

    def of_output(self, output: int | str) -> Explanation:
        """The explanation of one of several outputs, by its number or name."""
        if not self.output_names:
            raise ValueError("this explanation has one output only; leave the output out")
        if isinstance(output, str) and output not in self.output_names:
            raise ValueError(f"there is no output {output!r}; these are {', '.join(self.output_names)}")
        number = self.output_names.index(output) if isinstance(output, str) else output
        if not 0 <= number < len(self.output_names):
            raise ValueError(f"there are outputs 0 to {len(self.output_names) - 1}, not {number}")
        parts = (self.values[..., number], self.base_values[..., number])
        unit = f"{self.unit} of {self.output_names[number]}"
        return replace(self, values=parts[0], base_values=parts[1], output_names=(), unit=unit)

    def of_alone(self) -> Explanation:
        """The Shapley values that interactions of pairs add up to."""
        return replace(self, values=self.values.sum(axis=2)) if self.is_of_pairs else self

    def lines(self, most: int = 10, first: int = 0) -> list[str]:
        """The explanation in words, row by row from a number on, the largest contributions first."""
        if self.output_names:
            parts = [self.of_output(k) for k in range(len(self.output_names))]
            return [line for part in parts for line in [f"{part.unit}:", *part.lines(most, first)]]
        found = []
        single = self.of_alone()
        for row in range(len(self)):
            values = single.values[row]
            total, base = single.predictions[row], single.base_values[row]
            found.append(f"row {row + first}: {total:.6g} = {base:.6g} on average")
            order = np.argsort(-np.abs(values), kind="stable")
            for j in order[:most].tolist():
                found.append(f"  {values[j]:+12.6g}  {self.feature_names[j]} = {text_of(self.data[row, j])}")
            if len(order) > most:
                found.append(f"  {values[order[most:]].sum():+12.6g}  {len(order) - most} other columns")
        return found

    def to_shap(self) -> Any:
        """The same as a `shap.Explanation`, for the plots of shap, which must be installed."""
        try:
            shap = import_module("shap")
        except ImportError:
            raise ImportError("to_shap needs the package shap; install it with pip install shap") from None
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data,
            feature_names=list(self.feature_names),
            output_names=list(self.output_names) or None,
        )

    def __repr__(self) -> str:
        rows, columns = len(self), len(self.feature_names)
        counts = f"{rows} row{'s' * (rows != 1)} by {columns} column{'s' * (columns != 1)}"
        estimated = "" if self.is_exact else ", estimated"
        return f"<Explanation of {counts}: {self.unit}, against {self.background}{estimated}>"


def text_of(value: Any) -> str:
    """A value of a row in words.

    Examples
    --------
    >>> [text_of(value) for value in (0.30000000001, "Cadiz", None, float("nan"))]
    ['0.3', 'Cadiz', 'missing', 'missing']
    """
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return "missing"
    if isinstance(value, Enum):
        value = value.value if isinstance(value.value, str) else value.name
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


@dataclass(frozen=True, eq=False)
class Blame:
    """Predictions as exact sums over what was learned.

    Attributes
    ----------
    values
        What each contribution adds to each prediction, shape (rows, contributions), or (rows, contributions,
        outputs).
    base_values
        The constant that predictions start from, shape (rows,) or (rows, outputs): the mean of the targets of
        the fit, or 0 for scores of classes.
    rest
        What is not attributed, of the same shape: rows that are no longer kept, and rounding.
    updates
        Number of the update of each contribution; 0 for the fit.
    names
        Names of the contributions.
    row_values
        Contributions of single rows, shape (rows, found): those that raise the prediction most and
        those that lower it most, from the most positive to the most negative. None where no rows are kept, or
        there are several outputs.
    row_updates, row_numbers
        Which rows these are: the update, and the number of the row in it, counted from 0. Numbers are −1
        where there is no ledger. Of the same shape.
    unit
        What values are in, in words.

    Examples
    --------
    >>> parts = (np.array([[1.0, 2.0]]), np.array([3.0]), np.array([0.5]))
    >>> Blame(*parts, (0, 1), ("fit", "update 1")).predictions
    array([6.5])
    """

    values: Array
    base_values: Array
    rest: Array
    updates: tuple[int, ...]
    names: tuple[str, ...]
    row_values: Array | None = None
    row_updates: NDArray[np.intp] | None = None
    row_numbers: NDArray[np.intp] | None = None
    unit: str = "target"

    @property
    def predictions(self) -> Array:
        """What everything adds up to: the predictions, on the scale of the link."""
        return np.asarray(self.base_values + self.values.sum(axis=1) + self.rest)

    def __len__(self) -> int:
        return len(self.values)

    def lines(self, most: int = 10, first: int = 0) -> list[str]:
        """The blame in words, row by row, which are counted from a number on."""
        found = []
        for row in range(len(self)):
            total, base = self.predictions[row], self.base_values[row]
            if np.ndim(total):
                found += [f"row {row + first}:"]
                for name, values in zip(self.names, self.values[row], strict=True):
                    found.append(f"  {' '.join(f'{value:+.6g}' for value in values)}  {name}")
                continue
            found.append(f"row {row + first}: {total:.6g} = {base:.6g} to start from")
            order = np.argsort(-np.abs(self.values[row]), kind="stable")
            for k in order[:most].tolist():
                found.append(f"  {self.values[row, k]:+12.6g}  {self.names[k]}")
            others = self.values[row, order[most:]].sum()
            if len(order) > most:
                found.append(f"  {others:+12.6g}  {len(order) - most} other updates")
            found.append(f"  {self.rest[row]:+12.6g}  not attributed")
            if self.row_values is not None and self.row_updates is not None and self.row_numbers is not None:
                triples = zip(self.row_values[row], self.row_updates[row], self.row_numbers[row], strict=True)
                found += [
                    f"    {value:+10.6g}  {_row_text(int(update), int(number), first)}"
                    for value, update, number in triples
                ]
        return found

    def __repr__(self) -> str:
        rows = f"{len(self)} row{'s' * (len(self) != 1)}"
        return f"<Blame of {rows} by {', '.join(self.names)}: {self.unit}>"


def _row_text(update: int, number: int, first: int) -> str:
    """Which row it is, in words."""
    whole = f"update {update}" if update else "the fit"
    return f"row {number + first} of {whole}" if number >= 0 else f"a row of {whole}"
