"""Export to ONNX: the operations of a module, recorded and written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from atlas_splines.files.writer import replace_file
from atlas_splines.nn.estimator import EstimatorModule
from atlas_splines.nn.module import AtlasModule, AtlasNet

if TYPE_CHECKING:
    from atlas_splines.tables.encoding import Encoding

__all__ = ["export_onnx", "recorded"]

OPSET, IR_VERSION = 18, 8  # supported by onnxruntime since 1.14

TYPES = {
    torch.float64: TensorProto.DOUBLE,
    torch.float32: TensorProto.FLOAT,
    torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16,
    torch.int64: TensorProto.INT64,
    torch.int32: TensorProto.INT32,
    torch.bool: TensorProto.BOOL,
}


def recorded(module: nn.Module, example: Tensor, input_name: str, output_names: Sequence[str]) -> Any:
    """The ONNX model of a module, a `ModelProto`: input (rows, …) like the example, for any number of rows.

    The first dimension of whatever the module computes must be the one of the rows, or of rows times a
    constant, wherever it changes shapes.
    """
    recorder = Recorder(example, input_name)
    with torch.no_grad(), recorder:
        found = module(example)
    results = list(found) if isinstance(found, tuple) else [found]
    graph = recorder.graph
    for result, name in zip(results, output_names, strict=True):
        graph.nodes.append(helper.make_node("Identity", [recorder.name(result, result.dtype)], [name]))
    ends = [(input_name, example), *zip(output_names, results, strict=True)]
    infos = [
        helper.make_tensor_value_info(name, TYPES[tensor.dtype], ["rows", *tensor.shape[1:]])
        for name, tensor in ends
    ]
    made = helper.make_graph(graph.nodes, "atlas", infos[:1], infos[1:], graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="atlas-splines")


class Graph:
    """Nodes and constants of a graph, with common subexpressions merged."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[Any, list[str]] = {}

    def nodes_of(self, operation: str, inputs: Sequence[str], outputs: int = 1, **settings: Any) -> list[str]:
        """Names of the outputs of a node."""
        key = operation, *inputs, outputs, str(settings)
        if key not in self._known:
            names = [f"v{len(self._known)}_{k}" for k in range(outputs)]
            self.nodes.append(helper.make_node(operation, list(inputs), names, **settings))
            self._known[key] = names
        return self._known[key]

    def node(self, operation: str, *inputs: str, **settings: Any) -> str:
        """Name of the one output of a node."""
        return self.nodes_of(operation, inputs, **settings)[0]

    def constant(self, values: Tensor) -> str:
        """Name of a constant."""
        flat = values.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
        data = flat.view(torch.uint8).numpy().tobytes()
        key = "constant", values.dtype, tuple(values.shape), hashlib.sha256(data).digest()
        if key not in self._known:
            name = f"c{len(self._known)}"
            kind = TYPES[values.dtype]
            tensor = onnx.TensorProto(name=name, data_type=kind, dims=values.shape, raw_data=data)
            self.constants.append(tensor)
            self._known[key] = [name]
        return self._known[key][0]

    def numbers(self, *values: int) -> str:
        """Name of a constant of whole numbers, such as axes and shapes are."""
        return self.constant(torch.tensor(values, dtype=torch.int64))


class Recorder(TorchFunctionMode):
    """A dispatch mode that executes each operation and, if it depends on the input, records it in a graph."""

    def __init__(self, example: Tensor, input_name: str) -> None:
        super().__init__()
        self.graph = Graph()
        self._names = {id(example): input_name}
        self._kept = [example]  # or else another tensor could get its id

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if isinstance(result, Tensor | tuple | list) and any(map(self.depends, tensors_in(args, kwargs))):
            results = list(tensors_in([result], {}))
            if any(not self.depends(tensor) for tensor in results):  # some return what they were given
                self._record(function, result, results, args, kwargs)
        return result

    def _record(
        self, function: Any, result: Any, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        operation = OPERATIONS.get(function.__name__)
        if operation is None:
            raise NotImplementedError(f"an ONNX file cannot be written yet with torch's {function.__name__}")
        found = operation(self, result, *args, **kwargs)
        for tensor, name in zip(results, [found] if isinstance(found, str) else found, strict=True):
            self._names[id(tensor)] = name
            self._kept.append(tensor)

    def depends(self, value: Any) -> bool:
        """Whether a value depends on the input."""
        return id(value) in self._names

    def name(self, value: Any, dtype: torch.dtype) -> str:
        """Name of a tensor or a number, in a dtype."""
        if not self.depends(value):
            return self.graph.constant(torch.as_tensor(value).to(dtype))
        name = self._names[id(value)]
        return name if value.dtype == dtype else self.graph.node("Cast", name, to=TYPES[dtype])

    def known(self, value: Tensor) -> str:
        """Name of a tensor as it is."""
        return self.name(value, value.dtype)


def tensors_in(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """Tensors among arguments, and in lists and tuples of them."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value, {})


# --- operations: each returns the name of its result, or the names of its results -----------------------


def elementwise(operation: str) -> Callable[..., str]:
    """An operation on tensors and numbers in the dtype of the result."""

    def record(recorder: Recorder, result: Tensor, *values: Any) -> str:
        return recorder.graph.node(operation, *(recorder.name(value, result.dtype) for value in values))

    return record


def unary(operation: str) -> Callable[..., str]:
    """An operation on a tensor in the dtype that it has."""

    def record(recorder: Recorder, result: Tensor, x: Tensor) -> str:
        return recorder.graph.node(operation, recorder.known(x))

    return record


def comparison(operation: str) -> Callable[..., str]:
    """An operation on two tensors, or a number, in the dtype that both can have."""

    def record(recorder: Recorder, result: Tensor, x: Any, y: Any) -> str:
        dtype = torch.result_type(x, y)
        return recorder.graph.node(operation, recorder.name(x, dtype), recorder.name(y, dtype))

    return record


def reduction(operation: str) -> Callable[..., str]:
    """An operation along dimensions, in the dtype of the result."""

    def record(recorder: Recorder, result: Tensor, x: Tensor, dim: Any, keepdim: bool = False) -> str:
        axes = recorder.graph.numbers(*(dim if isinstance(dim, tuple) else (dim,)))
        return recorder.graph.node(operation, recorder.name(x, result.dtype), axes, keepdims=int(keepdim))

    return record


def every(recorder: Recorder, result: Tensor, x: Tensor, dim: int, keepdim: bool = False) -> str:
    graph = recorder.graph
    axes = graph.numbers(dim)
    least = graph.node("ReduceMin", recorder.name(x, torch.int32), axes, keepdims=int(keepdim))
    return graph.node("Cast", least, to=TensorProto.BOOL)


def product(recorder: Recorder, result: Tensor, x: Tensor, dim: int) -> str:
    names = unbind(recorder, result, x, dim)
    total = names[0]
    for name in names[1:]:
        total = recorder.graph.node("Mul", total, name)
    return total


def along(operation: str) -> Callable[..., str]:
    """An operation that has one axis."""

    def record(recorder: Recorder, result: Tensor, x: Tensor, dim: int) -> str:
        return recorder.graph.node(operation, recorder.known(x), axis=dim)

    return record


def swapped(operation: str) -> Callable[..., str]:
    """An operation on a number and a tensor with its arguments swapped."""

    def record(recorder: Recorder, result: Tensor, x: Tensor, y: Any) -> str:
        return elementwise(operation)(recorder, result, y, x)

    return record


def square(recorder: Recorder, result: Tensor, x: Tensor) -> str:
    return elementwise("Mul")(recorder, result, x, x)


def convert(recorder: Recorder, result: Tensor, x: Tensor, *_: Any) -> str:
    return recorder.name(x, result.dtype)


def clamp(recorder: Recorder, result: Tensor, x: Tensor, min: Any = None, max: Any = None) -> str:
    name = recorder.name(x, result.dtype)
    for operation, end in (("Max", min), ("Min", max)):
        if end is not None:
            name = recorder.graph.node(operation, name, recorder.name(end, result.dtype))
    return name


def choose(recorder: Recorder, result: Tensor, condition: Tensor, x: Any, y: Any) -> str:
    parts = (recorder.name(value, result.dtype) for value in (x, y))
    return recorder.graph.node("Where", recorder.known(condition), *parts)


def reshape(recorder: Recorder, result: Tensor, x: Tensor, *_: Any, **__: Any) -> str:
    rows = 0 if result.shape[0] == x.shape[0] else -1  # as many as before, or as many as it takes
    shape = recorder.graph.numbers(rows, *result.shape[1:])
    return recorder.graph.node("Reshape", recorder.known(x), shape)


def transpose(recorder: Recorder, result: Tensor, x: Tensor, first: int, second: int) -> str:
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return recorder.graph.node("Transpose", recorder.known(x), perm=order)


def concatenate(recorder: Recorder, result: Tensor, parts: Sequence[Tensor], dim: int = 0) -> str:
    names = [recorder.name(part, result.dtype) for part in parts]
    return recorder.graph.node("Concat", *names, axis=dim)


def stack(recorder: Recorder, result: Tensor, parts: Sequence[Tensor], dim: int = 0) -> str:
    graph = recorder.graph
    axes = graph.numbers(dim)
    names = [graph.node("Unsqueeze", recorder.name(part, result.dtype), axes) for part in parts]
    return graph.node("Concat", *names, axis=dim)


def split(recorder: Recorder, result: Any, x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[str]:
    inputs = recorder.known(x), recorder.graph.numbers(*sizes)
    return recorder.graph.nodes_of("Split", inputs, len(sizes), axis=dim)


def unbind(recorder: Recorder, result: Any, x: Tensor, dim: int = 0) -> list[str]:
    graph, name = recorder.graph, recorder.known(x)
    places = [graph.constant(torch.tensor(k)) for k in range(x.shape[dim])]
    return [graph.node("Gather", name, place, axis=dim) for place in places]


def pad(recorder: Recorder, result: Tensor, x: Tensor, ends: Sequence[int], **_: Any) -> str:
    before, after = ends  # of the last dimension, with zeros
    zeros = [0] * (x.ndim - 1)
    graph = recorder.graph
    return graph.node("Pad", recorder.known(x), graph.numbers(*zeros, before, *zeros, after))


def like(value: float | None) -> Callable[..., str]:
    """A constant in the shape of a tensor; it is an argument of the operation if `value` is None."""

    def record(recorder: Recorder, result: Tensor, x: Tensor, number: Any = value) -> str:
        graph = recorder.graph
        shape = graph.node("Shape", recorder.known(x))
        return graph.node("Expand", recorder.name(number, result.dtype), shape)

    return record


def gather(recorder: Recorder, result: Tensor, x: Tensor, dim: int, index: Tensor) -> str:
    return recorder.graph.node("GatherElements", recorder.known(x), recorder.known(index), axis=dim)


def embedding_bag(
    recorder: Recorder, result: Tensor, rows: Tensor, table: Tensor, *, per_sample_weights: Tensor, **_: Any
) -> str:
    """Sums of rows of a table, (points, channels), with weights, (points, 4·inputs), as a product."""
    graph, second = recorder.graph, recorder.graph.numbers(1)
    found = graph.node("Gather", recorder.known(table), recorder.known(rows), axis=0)
    weights = graph.node("Unsqueeze", recorder.known(per_sample_weights), second)
    return graph.node("Squeeze", graph.node("MatMul", weights, found), second)


def take(recorder: Recorder, result: Tensor, x: Tensor, index: Any) -> str:
    """`x[index]`, with slices, numbers, None, an ellipsis, or one tensor of whole numbers."""
    graph, name, axis = recorder.graph, recorder.known(x), 0
    index = index if isinstance(index, tuple) else (index,)
    for k, part in enumerate(index):
        if part is None:
            name = graph.node("Unsqueeze", name, graph.numbers(axis))
        elif part is Ellipsis:
            axis = x.ndim - sum(other is not None for other in index[k + 1 :])
            continue
        elif isinstance(part, int):
            name = graph.node("Gather", name, graph.constant(torch.tensor(part)), axis=axis)
            continue
        elif isinstance(part, Tensor):
            name = graph.node("Gather", name, recorder.known(part), axis=axis)
        elif part != slice(None):
            ends = (graph.numbers(number) for number in (part.start or 0, part.stop, axis))
            name = graph.node("Slice", name, *ends)
        axis += part.ndim if isinstance(part, Tensor) else 1
    return name


OPERATIONS: dict[str, Callable[..., str | list[str]]] = {
    "__and__": elementwise("And"),
    "__eq__": comparison("Equal"),
    "__getitem__": take,
    "__or__": elementwise("Or"),
    "__rdiv__": swapped("Div"),
    "__rsub__": swapped("Sub"),
    "abs": unary("Abs"),
    "add": elementwise("Add"),
    "all": every,
    "amax": reduction("ReduceMax"),
    "amin": reduction("ReduceMin"),
    "cat": concatenate,
    "ceil": unary("Ceil"),
    "clamp": clamp,
    "contiguous": convert,
    "detach": convert,
    "div": elementwise("Div"),
    "embedding_bag": embedding_bag,
    "exp": unary("Exp"),
    "flatten": reshape,
    "floor": unary("Floor"),
    "full_like": like(None),
    "gather": gather,
    "ge": comparison("GreaterOrEqual"),
    "gt": comparison("Greater"),
    "isnan": unary("IsNaN"),
    "le": comparison("LessOrEqual"),
    "log": unary("Log"),
    "log_softmax": along("LogSoftmax"),
    "lt": comparison("Less"),
    "matmul": elementwise("MatMul"),
    "maximum": elementwise("Max"),
    "minimum": elementwise("Min"),
    "mul": elementwise("Mul"),
    "neg": unary("Neg"),
    "ones_like": like(1),
    "pad": pad,
    "pow": elementwise("Pow"),
    "prod": product,
    "reshape": reshape,
    "round": unary("Round"),
    "sigmoid": unary("Sigmoid"),
    "sign": unary("Sign"),
    "softmax": along("Softmax"),
    "split": split,
    "square": square,
    "squeeze": reshape,
    "stack": stack,
    "sub": elementwise("Sub"),
    "sum": reduction("ReduceSum"),
    "to": convert,
    "transpose": transpose,
    "unbind": unbind,
    "unflatten": reshape,
    "where": choose,
    "zeros_like": like(0),
}


MAX_BYTES = 2**31 - 2**20  # of coefficients in an ONNX file


def export_onnx(
    module: AtlasModule | AtlasNet | EstimatorModule,
    path: str | PathLike[str],
    *,
    input_name: str = "x",
    metadata: Mapping[str, str] | None = None,
    encoding: Encoding | None = None,
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
    encoding
        Of the table that an estimator was fitted to: then the file has an input for each of its columns,
        shape (rows, 1), of strings for categories and of float64 for numbers and for parts of dates.
    """
    if find_spec("onnx") is None:
        needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
        raise ModuleNotFoundError(needs, name="onnx")
    size = sum(tensor.nbytes for tensor in module.state_dict().values())
    if size > MAX_BYTES:
        raise ValueError(f"the module has {size / 2**30:.1f} GiB, but an ONNX file holds at most 2")
    pass

    names = module.output_names if isinstance(module, EstimatorModule) else ["y"]
    model = recorded(module, example_rows(module), input_name, names)
    if encoding is not None:
        from atlas_splines.nn.table_inputs import with_table_inputs

        model = with_table_inputs(model, encoding)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    replace_file(path, model.SerializeToString())


def example_rows(module: AtlasModule | AtlasNet | EstimatorModule) -> Tensor:
    """Any rows of the shape and dtype that a module takes."""
    if isinstance(module, EstimatorModule):
        return torch.zeros_like(module.fill).repeat(3, 1)
    first = cast(AtlasModule, module.layers[0]) if isinstance(module, AtlasNet) else module
    return torch.rand(3, first.inputs, device=first.scale.device, dtype=first.scale.dtype)
