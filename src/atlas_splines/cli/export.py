"""`atlas export`: write a model as ONNX, and tell what goes in and what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from atlas_splines.cli.files import (
    Estimator,
    check_absent,
    check_coverages,
    check_folder,
    check_has_intervals,
    check_there,
)
from atlas_splines.cli.output import Facts, Progress, Say, aligned
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.io.save_load import load
from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.state import State
from atlas_splines.tables.encoding import Encoding
from atlas_splines.tables.source import TableError
from atlas_splines.tables.wording import listed

__all__ = ["export_model"]


def export_model(
    path: Path,
    output: Path,
    echo: Say,
    progress: Progress,
    *,
    coverage: float | None = None,
    support: bool = False,
    force: bool = False,
) -> Facts:
    """Write a model as ONNX, and say what goes in and what comes out."""
    check_coverages([] if coverage is None else [coverage])
    check_there(path)
    check_folder(output)
    if output.suffix != ".onnx":
        raise TableError(f"{output} cannot be written: the name of an ONNX file ends in .onnx")
    if output.exists() and output.samefile(path):
        raise TableError(f"{output} is the model itself; choose another name for the ONNX file")
    if not force:
        check_absent(output)
    try:
        with progress.step(f"writing {output}"):
            metadata, outputs, lines = write_onnx(path, output, coverage, support)
    except ModuleNotFoundError as missing:
        if missing.name not in ("torch", "onnx"):
            raise
        needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
        raise TableError(needs) from None
    for line in lines:
        echo(line)
    echo(f"{output} has {output.stat().st_size:,} bytes; its metadata: {listed(metadata) or 'none'}.")
    return {"output": output, "bytes": output.stat().st_size, "outputs": outputs, "metadata": metadata}


def write_onnx(
    path: Path, output: Path, coverage: float | None, support: bool
) -> tuple[dict[str, str], list[str], list[str]]:
    """Write the file; returns its metadata, its outputs, and what to tell of it."""
    from atlas_splines.nn import AtlasModule, EstimatorModule, export_onnx

    loaded = load(path)
    wants_doubt = coverage is not None or support
    if isinstance(loaded, Atlas):
        if wants_doubt:
            raise TableError(f"{path} is a bare model; only a regressor or a classifier knows how sure it is")
        model, metadata, lines = loaded, {}, bare_lines(loaded)
        module: AtlasModule | EstimatorModule = AtlasModule.from_model(loaded)
    else:
        estimator, encoding = loaded, loaded._table
        if wants_doubt:
            check_has_intervals(path, estimator, support)
        metadata, lines = onnx_metadata(estimator, encoding), estimator_lines(estimator, encoding)
        lines += uncertainty_lines(estimator, coverage, support)
        model = estimator.model_
        module = EstimatorModule(estimator, coverage=coverage, support=support)
    export_onnx(module, output, input_name="X", metadata=metadata)
    outputs = module.output_names if isinstance(module, EstimatorModule) else ["y"]
    return metadata, outputs, lines + held_lines(model)


def held_lines(model: Atlas) -> list[str]:
    """That a file has rows of the training data in it, if the model predicts by local memory."""
    points = held_points(state_of(model))
    if not points:
        return []
    return [
        f"Training data is in the file: {points:,} points, which are rows as they go into X, mapped to the "
        "unit cube, and weights that depend on their targets. A model fitted with memory='sums' has none."
    ]


def held_points(state: State) -> int:
    """Number of different points among the rows in the local terms of a state and its charts."""
    beyond = () if state.later is None else state.later.state.local
    own = max((len(terms.centres) for terms in (*state.local, *beyond)), default=0)
    return own + sum(held_points(state_of(chart.content)) for chart in state.charts)


def onnx_metadata(estimator: Estimator, encoding: Encoding | None) -> dict[str, str]:
    """What an ONNX file tells of its inputs and outputs; all but the target in JSON."""
    values: dict[str, Any] = {"columns": list(estimator._input_names)}
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
    names = estimator._input_names
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


def uncertainty_lines(estimator: Estimator, coverage: float | None, support: bool) -> list[str]:
    """Further outputs of an estimator, that say how sure it is."""
    lines, share = [], f"{100 * (coverage or 0):g}% of rows"
    if coverage is not None and isinstance(estimator, AtlasRegressor):
        lines.append(f"Outputs low and high, float64: between them lies the target of {share}.")
    elif coverage is not None:
        lines.append(f"Output set, truth values: among these classes is that of {share}.")
    if support:
        lines.append("Output support, float64: how much evidence stands behind each row, from 0 to 1.")
    return lines


def output_text(estimator: Estimator, encoding: Encoding | None) -> str:
    """What the output of an ONNX file is, in words."""
    name = "target" if encoding is None else repr(encoding.target)
    if isinstance(estimator, AtlasRegressor):
        return f"the predicted {name}"
    classes = ", ".join(map(repr, estimator.classes_.tolist()))
    return f"for each class of {name} its probability, in the order {classes}"
