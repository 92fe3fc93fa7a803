"""The contract of a service: rules that every update keeps, as `atlas update --contract` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from atlas_splines.estimators.contracts import Rule, Verdict, check_contract, read_contract
from atlas_splines.serve.snapshot import Snapshot

__all__ = ["Contract", "ContractBroken"]


class ContractBroken(ValueError):
    """An update would break a rule; the sentence has the counterexample."""


@dataclass(frozen=True)
class Contract:
    """Rules that every update keeps.

    Attributes
    ----------
    rules
        The rules.
    """

    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, path: Path) -> Contract:
        """The contract in a file, or one sentence on what is wrong with it."""
        return cls(tuple(read_contract(path)))

    def check(self, before: Snapshot, after: Snapshot) -> list[dict[str, str]]:
        """Verdicts on an update, as JSON has them.

        Raises
        ------
        ContractBroken
            The version after it breaks a rule.
        """
        verdicts = check_contract(after.estimator, self.rules, before.estimator)
        broken = _broken(verdicts)
        if broken:
            raise ContractBroken(f"the contract would be broken; nothing was learned: {'; '.join(broken)}")
        return [{"rule": each.rule.name, "status": each.status, "why": each.why} for each in verdicts]

    def broken_by(self, snapshot: Snapshot) -> list[str]:
        """Rules that a version breaks already, as far as that is found without a proof.

        Rules that name what the model does not have are refused, so that a service does not start with them.
        """
        quick: Sequence[Rule] = [replace(rule, seconds=0.0) for rule in self.rules]
        return _broken(check_contract(snapshot.estimator, quick))


def _broken(verdicts: Sequence[Verdict]) -> list[str]:
    return [each.line for each in verdicts if each.status == "broken"]
