"""Immutable values with cached properties, which can be copied and pickled while other threads read them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Recomputing", "Remembering"]


class Remembering:
    """Base of immutable values whose caches are copied and pickled with them.

    A cached property is one more entry of ``__dict__``, which another thread may add during a copy: so the
    dictionary is copied first, in one step.
    """

    def __getstate__(self) -> dict[str, Any]:
        return vars(self).copy()


@dataclass(frozen=True, eq=False)
class Recomputing(Remembering):
    """Base of immutable values whose pickles hold fields only; caches are computed again."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
