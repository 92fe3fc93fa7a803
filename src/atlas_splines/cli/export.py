"""`atlas export`: write a model as ONNX, and tell what goes in and what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from atlas_splines.cli.checks import check_absent, check_folder, check_there
from atlas_splines.cli.messages import Say, aligned
from atlas_splines.core.model import Atlas
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.storage.saving import load
from atlas_splines.tables.encoding import Encoding
from atlas_splines.tables.reading import TableError
from atlas_splines.tables.table_model import Estimator, TableModel
from atlas_splines.tables.wording import listed

__all__ = ["export_model"]


def export_model(path: Path, output: Path, say: Say, *, force: bool = False) -> None:
    """Write a model as ONNX, and say what goes in and what comes out."""
    check_there(path)
    check_folder(output)
    if output.suffix != ".onnx":
        raise TableError(f"{output} cannot be written: the name of an ONNX file ends in .onnx")
    if output.exists() and output.samefile(path):
        raise TableError(f"{output} is the model itself; choose another name for the ONNX file")
    if not force:
        check_absent(output)
    try:
        metadata, lines = write_onnx(path, output)
    except ModuleNotFoundError as missing:
        if missing.name not in ("torch", "onnx", "onnxscript"):
            raise
        needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
        raise TableError(needs) from None
    for line in lines:
        say(line)
    say(f"{output} has {output.stat().st_size:,} bytes; its metadata: {listed(metadata) or 'none'}.")


def write_onnx(path: Path, output: Path) -> tuple[dict[str, str], list[str]]:
    """Write the file; returns its metadata, and what to tell of it."""
    from atlas_splines.nn import AtlasModule, EstimatorModule, export_onnx

    loaded = load(path)
    if isinstance(loaded, Atlas):
        metadata, lines = {}, bare_lines(loaded)
        module: AtlasModule | EstimatorModule = AtlasModule.from_model(loaded)
    else:
        encoding = loaded.encoding if isinstance(loaded, TableModel) else None
        estimator = loaded.estimator if isinstance(loaded, TableModel) else loaded
        metadata, lines = onnx_metadata(estimator, encoding), estimator_lines(estimator, encoding)
        module = EstimatorModule(estimator)
    export_onnx(module, output, input_name="X", metadata=metadata)
    return metadata, lines


def onnx_metadata(estimator: Estimator, encoding: Encoding | None) -> dict[str, str]:
    """What an ONNX file tells of its inputs and outputs; all but the target in JSON."""
    values: dict[str, Any] = {"columns": list(estimator.column_names)}
    if isinstance(estimator, AtlasClassifier):
        values["classes"] = estimator.classes_.tolist()
    if encoding is not None:
        values["encoding"] = encoding.to_json()
    texts = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in values.items()}
    return texts if encoding is None else {**texts, "target": encoding.target}


def bare_lines(model: Atlas) -> list[str]:
    """Input and output of a bare model."""
    ends = [(f"X[:, {j}]", f"{low:g} to {high:g}") for j, (low, high) in enumerate(model.domain)]
    name = model.dtype.name
    head = f"Input X (rows, {model.inputs}), {name}; output y (rows, {model.outputs}), {name}."
    return [head, *aligned(ends), "Beyond these ends the nearest point counts."]


def estimator_lines(estimator: Estimator, encoding: Encoding | None) -> list[str]:
    """Input and output of an estimator, and how columns become inputs."""
    names = estimator.column_names
    head = f"Input X (rows, {len(names)}), float64; output y, float64: {output_text(estimator, encoding)}."
    if encoding is None:
        missing = "; NaN if missing" if estimator.missing == "learn" else ""
        meanings = [f"the number{missing}" for _ in names]
    else:
        meanings = [meaning for column in encoding.columns for meaning in column.meanings]
    rows = [(f"X[:, {j}]", name, meanings[j]) for j, name in enumerate(names)]
    lines = [head, *aligned(rows)]
    if estimator.extrapolation == "error":
        lines.append("Outside the domain y is NaN.")
    return lines


def output_text(estimator: Estimator, encoding: Encoding | None) -> str:
    """What the output of an ONNX file is, in words."""
    name = "target" if encoding is None else repr(encoding.target)
    if isinstance(estimator, AtlasRegressor):
        return f"the predicted {name}"
    classes = ", ".join(map(repr, estimator.classes_.tolist()))
    return f"for each class of {name} its probability, in the order {classes}"
