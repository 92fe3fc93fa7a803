"""Commands that explain predictions and bound them: their options."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from atlas_splines.cli.options import AsJson, Force, Model, Quiet, Verbose
from atlas_splines.cli.output import output_of

__all__ = ["blame", "contract", "explain"]

Rows = Annotated[str, typer.Argument(metavar="ROWS", help="Table with inputs, or -.")]
Separator = Annotated[
    str | None, typer.Option(help="Between the cells of a text file: a character, tab or blank.")
]
Missing = Annotated[
    list[str] | None, typer.Option("--na", help="What stands for a missing value; repeat for several.")
]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of texts, . or a comma.")]


class ResidualScale(str, Enum):
    """What is explained."""

    link = "link"
    response = "response"


def explain(
    model: Model,
    rows: Rows,
    scale: Annotated[
        ResidualScale, typer.Option(help="Log-odds and roots of counts, or probabilities and counts.")
    ] = ResidualScale.link,
    plot: Annotated[Path | None, typer.Option(help="Draw it: one row, or all of them.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page about one row.")] = None,
    row: Annotated[int, typer.Option(min=1, help="With --html: the number of the row, from 1.")] = 1,
    separator: Separator = None,
    na: Missing = None,
    decimal: Decimal = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Tell what each column adds to each prediction: exact Shapley values."""
    with output_of("explain", quiet, verbose, as_json) as out:
        from atlas_splines.cli.explain import explain_table

        out.facts = explain_table(
            model,
            rows,
            scale=scale.value,
            plot=plot,
            html=html,
            row=row,
            told={"separator": separator, "header": None, "missing": na or (), "decimal": decimal},
            force=force,
            echo=out.echo,
            note=out.note,
        )


def blame(
    model: Model,
    rows: Rows,
    separator: Separator = None,
    na: Missing = None,
    decimal: Decimal = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Tell what the fit and each update, and which rows, add to each prediction."""
    with output_of("blame", quiet, verbose, as_json) as out:
        from atlas_splines.cli.explain import blame_table

        told = {"separator": separator, "header": None, "missing": na or (), "decimal": decimal}
        out.facts = blame_table(model, rows, told=told, echo=out.echo, note=out.note)


def contract(
    model: Model,
    rules: Annotated[Path, typer.Argument(metavar="RULES", help="File of rules, such as rules.toml.")],
    before: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="An older version, for rules on updates.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Tell whether a model keeps rules; the exit code is 3 if one is broken."""
    with output_of("contract", quiet, verbose, as_json) as out:
        from atlas_splines.cli.contract import BROKEN_CODE, contract_of_model

        is_broken, out.facts = contract_of_model(model, rules, before=before, echo=out.echo)
        if is_broken:
            raise typer.Exit(BROKEN_CODE)
