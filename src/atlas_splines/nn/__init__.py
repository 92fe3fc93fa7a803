"""ATLAS in PyTorch: differentiable modules of models and estimators, and their export to ONNX.

May import `model` to `estimators`. The only folder that imports torch, besides the opponents in the arena.
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
