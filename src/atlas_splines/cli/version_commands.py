"""Commands of version control: their options. `app.py` has those of all others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from atlas_splines.cli.options import AsJson, Force, Model, Quiet, Verbose, Wait
from atlas_splines.cli.output import fail, output_of

__all__ = ["apply", "diff", "forget", "merge", "patch", "replay", "verify"]

DataFolder = Annotated[Path | None, typer.Option("--data", help="Folder with the tables of the updates.")]
First = Annotated[Path | None, typer.Option("--first", help="The model as it was fitted.")]


def verify(
    model: Model,
    expect: Annotated[
        str | None, typer.Option(metavar="HASH", help="The version it should be, as it was kept elsewhere.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check every hash of a model file, and tell what was altered; the exit code is 1 if something was."""
    with output_of("verify", quiet, verbose, as_json) as out:
        from atlas_splines.cli.versions import verify_model

        out.facts = verify_model(model, expect, out.echo)
        if out.facts["problems"]:
            raise typer.Exit(1)


def diff(
    first: Model,
    second: Annotated[Path, typer.Argument(metavar="OTHER", help="The model to compare it with.")],
    rows: Annotated[str | None, typer.Option(help="Table to compare predictions on, or -.")] = None,
    why: Annotated[
        bool, typer.Option("--why", help="With --rows: which columns and updates moved each prediction.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw where predictions can differ.")] = None,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Tell how two models differ; the exit code is 0 if no prediction can, and 1 if some can."""
    with output_of("diff", quiet, verbose, as_json) as out:
        from atlas_splines.cli.diff import diff_models

        found, out.facts = diff_models(
            first, second, rows=rows, why=why, plot=plot, force=force, echo=out.echo
        )
        if found:
            raise typer.Exit(1)


def patch(
    old: Model,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A later version of it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Patch to write, such as fix.patch.")],
    portable: Annotated[
        bool, typer.Option("--portable", help="For machines whose linear algebra may find other bits.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Write a small file that turns an old version of a model into a new one."""
    with output_of("patch", quiet, verbose, as_json) as out:
        from atlas_splines.cli.versions import write_patch

        out.facts = write_patch(old, new, output, portable=portable, force=force, echo=out.echo)


def apply(
    model: Model,
    fix: Annotated[Path, typer.Argument(metavar="PATCH", help="What `atlas patch` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the model here, and leave the old one.")
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Also if the model has learned something else since.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With -o: replace a model that has been updated.")
    ] = False,
    wait: Wait = 600,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Turn a model into the version that a patch was made from, to the bit."""
    with output_of("apply", quiet, verbose, as_json) as out:
        from atlas_splines.cli.versions import apply_patch

        out.facts = apply_patch(
            model, fix, output=output, merge=merge, force=force, wait=wait, echo=out.echo, note=out.note
        )


def merge(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The version that both come from.")],
    ours: Annotated[Path, typer.Argument(metavar="OURS", help="One version.")],
    theirs: Annotated[Path, typer.Argument(metavar="THEIRS", help="The other version.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    prefer_ours: Annotated[bool, typer.Option("--ours", help="Where both have charts, ours count.")] = False,
    prefer_theirs: Annotated[
        bool, typer.Option("--theirs", help="Where both have charts, theirs count.")
    ] = False,
    rows: Annotated[
        str | None, typer.Option(help="Table to learn where both have charts, instead of these.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that has been updated, or any other file.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Bring the updates of two versions together; the exit code is 1 if charts of both overlap."""
    with output_of("merge", quiet, verbose, as_json) as out:
        if prefer_ours + prefer_theirs + (rows is not None) > 1:
            fail("--ours, --theirs and --rows exclude each other; give one of them")
        from atlas_splines.cli.versions import merge_models

        prefer: Literal["ours", "theirs"] | None = (
            "ours" if prefer_ours else "theirs" if prefer_theirs else None
        )
        out.facts = merge_models(
            base, ours, theirs, output, prefer=prefer, rows=rows, force=force, echo=out.echo
        )
        if out.facts["conflicts"]:
            raise typer.Exit(1)


def forget(
    model: Model,
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="Table with the rows, or -.")],
    data: DataFolder = None,
    first: First = None,
    receipt: Annotated[Path | None, typer.Option(help="File to write; MODEL.receipt.json.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the model here, and leave the old one.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a receipt, or with -o a model, that is there already.")
    ] = False,
    wait: Wait = 600,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Let a model be as if its updates had never seen some rows, and write a receipt."""
    with output_of("forget", quiet, verbose, as_json) as out:
        from atlas_splines.cli.versions import forget_rows

        out.facts = forget_rows(
            model,
            rows,
            data=data,
            first=first,
            receipt=receipt,
            output=output,
            force=force,
            wait=wait,
            echo=out.echo,
            note=out.note,
        )


def replay(
    model: Model,
    data: Annotated[Path, typer.Option("--data", help="Folder with the tables of the updates.")],
    first: First = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Build a model again from its first fit and its tables; the exit code is 1 if it differs."""
    with output_of("replay", quiet, verbose, as_json) as out:
        from atlas_splines.cli.versions import replay_model

        out.facts = replay_model(model, data, first, out.echo, out.note)
        if not out.facts["same"]:
            raise typer.Exit(1)
