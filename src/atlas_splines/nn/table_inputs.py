"""ONNX files that take the columns of a table: texts and numbers as they are, instead of coded inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from atlas_splines.tables.encoding import Column, Encoding

__all__ = ["with_table_inputs"]

ML_DOMAIN, ML_OPSET = "ai.onnx.ml", 3  # has LabelEncoder; known to onnxruntime 1.14 and to all later ones
OWN = "atlas:"  # what names of nodes that are added here begin with


def with_table_inputs(model: Any, encoding: Encoding) -> Any:
    """A `ModelProto` whose input is split into the columns of a table, each of shape (rows, 1).

    A column of numbers is float64, with NaN where one is missing. A column of categories is strings, in the
    spelling of the fit: an empty one, and any that was not there, is missing. Each part of a date stays a
    number, as the encoding names it.

    Parameters
    ----------
    model
        What `recorded` has made; it is changed.
    encoding
        How the columns become its one input.
    """
    graph = model.graph
    whole = graph.input[0].name
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken |= {each.name for each in graph.initializer}
    inputs, nodes, parts = [], [], []
    for number, column in enumerate(encoding.parts):
        if column.name in taken or column.name.startswith(OWN):
            raise ValueError(
                f"column {column.name!r} has the name of something else in the ONNX file; rename it"
            )
        if column.categories is None:
            inputs.append(helper.make_tensor_value_info(column.name, TensorProto.DOUBLE, ["rows", 1]))
            parts.append(column.name)
            continue
        inputs.append(helper.make_tensor_value_info(column.name, TensorProto.STRING, ["rows", 1]))
        found, constants = _coded(column, f"{OWN}{number}")
        nodes += found
        graph.initializer.extend(constants)
        parts.append(found[-1].output[0])
    nodes.append(helper.make_node("Concat", parts, [whole], axis=1))
    rest = list(graph.node)
    del graph.node[:], graph.input[:]
    graph.node.extend([*nodes, *rest])
    graph.input.extend(inputs)
    model.opset_import.append(helper.make_opsetid(ML_DOMAIN, ML_OPSET))
    return model


def _coded(column: Column, name: str) -> tuple[list[Any], list[Any]]:
    """Nodes and constants that make inputs, shape (rows, inputs), of the categories of a column."""
    categories = (*(column.categories or ()), *column.others)
    # (1 + categories, inputs): the first row is that of a missing category
    values = np.column_stack(column.inputs_of(np.arange(-1, len(categories)))).astype(np.float64)
    table = numpy_helper.from_array(values, f"{name} inputs")
    shape = numpy_helper.from_array(np.array([-1, values.shape[1]]), f"{name} shape")
    code = helper.make_node(
        "LabelEncoder",
        [column.name],
        [f"{name} code"],
        domain=ML_DOMAIN,
        keys_strings=list(categories),
        values_int64s=list(range(1, len(categories) + 1)),
        default_int64=0,
    )
    inputs = helper.make_node("Gather", [f"{name} inputs", f"{name} code"], [f"{name} rows"], axis=0)
    flat = helper.make_node("Reshape", [f"{name} rows", f"{name} shape"], [f"{name} flat"])
    return [code, inputs, flat], [table, shape]
