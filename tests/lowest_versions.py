"""Print the lowest versions that pyproject.toml allows of what the library needs, as constraints for pip.

python tests/lowest_versions.py > constraints.txt
"""

import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def lowest_versions() -> list[str]:
    """One line ``name==version`` for each dependency of the core."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[$(.*?)^\]$", text, re.MULTILINE | re.DOTALL)
    return [lowest(Requirement(line)) for line in re.findall(r'"([^"]+)"', listed)]


def lowest(requirement: Requirement) -> str:
    (bound,) = (each.version for each in requirement.specifier if each.operator == ">=")
    return f"{requirement.name}=={bound}"


if __name__ == "__main__":
    print("\n".join(lowest_versions()))
