"""ATLAS in PyTorch: modules that compose, train on any device, export and scale out.

Imports `core`, `memory`, `estimators` and `files`. The only folder that imports torch, besides the opponents
in the arena.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        "atlas_splines.nn needs PyTorch; install it with: pip install 'atlas-splines[torch]'", name="torch"
    ) from None

from atlas_splines.nn.estimator import EstimatorModule
from atlas_splines.nn.module import AtlasModule, AtlasNet
from atlas_splines.nn.onnx import export_onnx
from atlas_splines.nn.terms import AtlasChart

__all__ = ["AtlasChart", "AtlasModule", "AtlasNet", "EstimatorModule", "export_onnx"]
