"""`atlas contract`: whether a model keeps the rules of a file, and the same for an update."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from atlas_splines.cli.files import check_there, load_table_model
from atlas_splines.cli.output import Facts, Failed, Say
from atlas_splines.estimators.contracts import Rule, Verdict, check_contract, read_contract
from atlas_splines.estimators.table_model import TableModel

__all__ = ["BROKEN_CODE", "contract_of_model", "keep_contract"]

BROKEN_CODE = 3  # how a command ends if a rule is broken, as if rows had been faulty


def contract_of_model(path: Path, rules: Path, *, before: Path | None, echo: Say) -> tuple[bool, Facts]:
    """Say whether a model keeps rules; whether it breaks one, and all verdicts."""
    check_there(path)
    if before is not None:
        check_there(before)
    wanted = read_contract(rules)
    model = load_table_model(path).for_frames()
    old = None if before is None else load_table_model(before).for_frames()
    verdicts = check_contract(model, wanted, old)
    for verdict in verdicts:
        echo(verdict.line)
    return any(each.status == "broken" for each in verdicts), facts_of(verdicts)


def keep_contract(model: TableModel, before: TableModel, rules: Sequence[Rule], echo: Say) -> None:
    """End the command if a model that has learned an update breaks a rule; tell what is not proved."""
    verdicts = check_contract(model.for_frames(), rules, before.for_frames())
    broken = [each for each in verdicts if each.status == "broken"]
    if broken:
        raise Failed(f"nothing was learned: {'; '.join(each.line for each in broken)}", BROKEN_CODE)
    for verdict in verdicts:
        echo(f"Contract {verdict.line}.")


def facts_of(verdicts: Sequence[Verdict]) -> Facts:
    """Verdicts as JSON."""
    return {
        "rules": [
            {
                "rule": each.rule.name,
                "status": each.status,
                "why": each.why,
                "counterexample": dict(each.counterexample),
            }
            for each in verdicts
        ]
    }
