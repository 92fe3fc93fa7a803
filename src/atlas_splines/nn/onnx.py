"""Modules as ONNX files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from os import PathLike
from typing import cast

import torch
from torch import Tensor

from atlas_splines.files.writer import replace_file
from atlas_splines.nn.estimator import EstimatorModule
from atlas_splines.nn.module import AtlasModule
from atlas_splines.nn.net import AtlasNet

__all__ = ["export_onnx"]

MAX_BYTES = 2**31 - 2**20  # of coefficients in an ONNX file


def export_onnx(
    module: AtlasModule | AtlasNet | EstimatorModule,
    path: str | PathLike[str],
    *,
    input_name: str = "x",
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a module to one ONNX file, all at once: input of shape (rows, inputs), any number of rows.

    The output is named "y"; an `EstimatorModule` may have more, its `output_names`. The input of an
    `EstimatorModule` is float64, of others what the module has. Needs ``pip install 'atlas-splines[onnx]'``.

    A model with memory="rows" has its rows in the file: their coordinates are the centres of its local terms,
    with weights that depend on their targets. A runtime then needs memory for some arrays of (rows, terms of
    a box) numbers, at most 1,000 terms for most tables: give it some thousand rows at a time.

    Parameters
    ----------
    module
        An `AtlasModule`, with or without charts, an `AtlasNet` or an `EstimatorModule`.
    path
        The file to write.
    input_name
        Name of the input.
    metadata
        Written into the file, as the model's ``metadata_props``.
    """
    if find_spec("onnx") is None:
        needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
        raise ModuleNotFoundError(needs, name="onnx")
    size = sum(tensor.nbytes for tensor in module.state_dict().values())
    if size > MAX_BYTES:
        raise ValueError(f"the module has {size / 2**30:.1f} GiB, but an ONNX file holds at most 2")
    from atlas_splines.nn.recording import recorded

    names = module.output_names if isinstance(module, EstimatorModule) else ["y"]
    model = recorded(module, example_rows(module), input_name, names)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    replace_file(path, model.SerializeToString())


def example_rows(module: AtlasModule | AtlasNet | EstimatorModule) -> Tensor:
    """Any rows of the shape and dtype that a module takes."""
    if isinstance(module, EstimatorModule):
        return torch.zeros_like(module.fill).repeat(3, 1)
    first = cast(AtlasModule, module.layers[0]) if isinstance(module, AtlasNet) else module
    return torch.rand(3, first.inputs, device=first.scale.device, dtype=first.scale.dtype)
