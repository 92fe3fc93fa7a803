"""Models that are updated all their life and do not forget.

Public names are imported on first use, so `import atlas_splines` loads neither numba nor anything heavier.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from atlas_splines.estimators.classifier import AtlasClassifier
    from atlas_splines.estimators.footprints import ColumnFootprint
    from atlas_splines.estimators.regressor import AtlasRegressor
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
    "Trainer",
    "TrainingDiverged",
    "Update",
    "UpdateRefused",
    "UpdateWarning",
    "consolidate",
    "export_log",
    "footprint",
    "load",
    "lock",
    "save",
    "train",
    "update",
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
    "Trainer": "model.train",
    "TrainingDiverged": "model.train",
    "Update": "updates.log",
    "UpdateRefused": "updates.refusal",
    "UpdateWarning": "model.log",
    "consolidate": "updates.consolidate",
    "export_log": "io.log_export",
    "footprint": "updates.update",
    "load": "io.save_load",
    "lock": "files.locks",
    "save": "io.save_load",
    "train": "model.train",
    "update": "updates.update",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'atlas_splines' has no attribute {name!r}")
    return getattr(import_module(f"atlas_splines.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
