"""Models that are updated all their life and do not forget.

Public names are imported on first use, so `import atlas_splines` loads neither numba nor anything heavier.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from atlas_splines.analysis import (
        VarianceShares,
        expected_off_target,
        gradient_bound,
        gradient_norm,
        orthogonality_distance,
        overlap,
        sparsity,
        variance_shares,
    )
    from atlas_splines.analysis.polynomials import from_polynomial
    from atlas_splines.core.history import History, TrainingDiverged
    from atlas_splines.core.model import Atlas
    from atlas_splines.core.records import UpdateWarning
    from atlas_splines.core.training import Trainer, train
    from atlas_splines.estimators.classifier import AtlasClassifier
    from atlas_splines.estimators.column_footprint import ColumnFootprint
    from atlas_splines.estimators.regressor import AtlasRegressor
    from atlas_splines.estimators.table_model import TableModel
    from atlas_splines.files.errors import StorageError
    from atlas_splines.files.locks import lock
    from atlas_splines.memory.consolidation import consolidate
    from atlas_splines.memory.footprints import Footprint
    from atlas_splines.memory.log import Consolidation, Folded, Update
    from atlas_splines.memory.refusal import UpdateRefused
    from atlas_splines.memory.updates import footprint, update
    from atlas_splines.storage.log_export import export_log
    from atlas_splines.storage.saving import load, save

__all__ = [
    "Atlas",
    "AtlasClassifier",
    "AtlasRegressor",
    "ColumnFootprint",
    "Consolidation",
    "Folded",
    "Footprint",
    "History",
    "StorageError",
    "TableModel",
    "Trainer",
    "TrainingDiverged",
    "Update",
    "UpdateRefused",
    "UpdateWarning",
    "VarianceShares",
    "consolidate",
    "expected_off_target",
    "export_log",
    "footprint",
    "from_polynomial",
    "gradient_bound",
    "gradient_norm",
    "load",
    "lock",
    "orthogonality_distance",
    "overlap",
    "save",
    "sparsity",
    "train",
    "update",
    "variance_shares",
]

_MODULE_OF = {
    "Atlas": "core.model",
    "AtlasClassifier": "estimators.classifier",
    "AtlasRegressor": "estimators.regressor",
    "ColumnFootprint": "estimators.column_footprint",
    "Consolidation": "memory.log",
    "Folded": "memory.log",
    "Footprint": "memory.footprints",
    "History": "core.history",
    "StorageError": "files.errors",
    "TableModel": "estimators.table_model",
    "Trainer": "core.training",
    "TrainingDiverged": "core.history",
    "Update": "memory.log",
    "UpdateRefused": "memory.refusal",
    "UpdateWarning": "core.records",
    "VarianceShares": "analysis",
    "consolidate": "memory.consolidation",
    "expected_off_target": "analysis",
    "export_log": "storage.log_export",
    "footprint": "memory.updates",
    "from_polynomial": "analysis.polynomials",
    "gradient_bound": "analysis",
    "gradient_norm": "analysis",
    "load": "storage.saving",
    "lock": "files.locks",
    "orthogonality_distance": "analysis",
    "overlap": "analysis",
    "save": "storage.saving",
    "sparsity": "analysis",
    "train": "core.training",
    "update": "memory.updates",
    "variance_shares": "analysis",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'atlas_splines' has no attribute {name!r}")
    return getattr(import_module(f"atlas_splines.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
