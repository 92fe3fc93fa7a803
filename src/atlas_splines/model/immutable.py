"""Values that never change, but remember what was computed from them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Recomputing", "Remembering"]


class Remembering:
    """Base of such values: they can be copied and pickled while another thread reads them.

    A cached property is one more entry of the dictionary that a copy is made of, and may come at any time.
    """

    def __getstate__(self) -> dict[str, Any]:
        return vars(self).copy()


@dataclass(frozen=True, eq=False)
class Recomputing(Remembering):
    """Base of those whose pickles hold fields only: what follows from these is found again when asked for."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
