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
    from atlas_splines.estimators.classifier import AtlasClassifier
    from atlas_splines.estimators.footprints import ColumnFootprint
    from atlas_splines.estimators.regressor import AtlasRegressor
    from atlas_splines.estimators.table_model import TableModel
    from atlas_splines.files.locks import lock
    from atlas_splines.files.writer import StorageError
    from atlas_splines.io.log_export import export_log
    from atlas_splines.io.save_load import load, save
    from atlas_splines.model.atlas import Atlas
    from atlas_splines.model.log import UpdateWarning
    from atlas_splines.model.train import History, Trainer, TrainingDiverged, train
    from atlas_splines.updates.consolidate import consolidate
    from atlas_splines.updates.footprint import Footprint
    from atlas_splines.updates.log import Consolidation, Folded, Update
    from atlas_splines.updates.refusal import UpdateRefused
    from atlas_splines.updates.update import footprint, update

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
    "Atlas": "model.atlas",
    "AtlasClassifier": "estimators.classifier",
    "AtlasRegressor": "estimators.regressor",
    "ColumnFootprint": "estimators.footprints",
    "Consolidation": "updates.log",
    "Folded": "updates.log",
    "Footprint": "updates.footprint",
    "History": "model.train",
    "StorageError": "files.writer",
    "TableModel": "estimators.table_model",
    "Trainer": "model.train",
    "TrainingDiverged": "model.train",
    "Update": "updates.log",
    "UpdateRefused": "updates.refusal",
    "UpdateWarning": "model.log",
    "VarianceShares": "analysis",
    "consolidate": "updates.consolidate",
    "expected_off_target": "analysis",
    "export_log": "io.log_export",
    "footprint": "updates.update",
    "from_polynomial": "analysis.polynomials",
    "gradient_bound": "analysis",
    "gradient_norm": "analysis",
    "load": "io.save_load",
    "lock": "files.locks",
    "orthogonality_distance": "analysis",
    "overlap": "analysis",
    "save": "io.save_load",
    "sparsity": "analysis",
    "train": "model.train",
    "update": "updates.update",
    "variance_shares": "analysis",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'atlas_splines' has no attribute {name!r}")
    return getattr(import_module(f"atlas_splines.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
