"""ONNX -> Graph: walk the nodes that the output depends on, fold constants, convert the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from netproof.core.limits import LARGEST, entries
from netproof.errors import ModelError, UnsupportedOp
from netproof.model.graph import Graph
from netproof.model.onnx import operators  # noqa: F401 (it registers the converters)
from netproof.model.onnx.context import CONVERTERS, Builder, Context, Ref, Value, is_known
from netproof.model.onnx.file import FLOATS, OnnxFile, read_file, read_tensor, type_name
from netproof.model.onnx.fold import constant_attribute, fold, foldable
from netproof.model.onnx.shapes import declared_shapes, fixed_shape, result_shapes
from netproof.model.onnx.simplify import constant_output, simplify
from netproof.model.onnx.twins import merge_twins
from netproof.model.origin.constant import Constant
from netproof.model.origin.trace import Step, Stored, Trace

HINTS = {
    "Sigmoid": "only ReLU and LeakyReLU networks are supported so far",
    "Tanh": "only ReLU and LeakyReLU networks are supported so far",
    "Softmax": "drop a final Softmax: it keeps the order of the outputs",
    "LogSoftmax": "drop a final LogSoftmax: it keeps the order of the outputs",
    "MaxPool": "train with AveragePool or strided convolutions",
    "Clip": "write ReLU6 as Relu and subtraction: relu(x) - relu(x - 6)",
    "PRelu": "use LeakyRelu",
    "Loop": "export without control flow",
    "If": "export without control flow",
    "Scan": "export without control flow",
}


@dataclass(frozen=True, eq=False)
class Reading:
    graph: Graph
    trace: Trace
    model: bytes  # for onnxruntime: the file, without inputs that the output does not depend on
    weight_dtypes: tuple[str, ...]
    notes: tuple[str, ...]
    input_name: str
    input_dtype: str  # "float32", "float16" or "float64"


def read_graph(file: OnnxFile) -> Reading:
    """Read the real-valued network that the file's weights define, float64."""
    return _Reader(file).read()


def unsupported_nodes(file: OnnxFile | str | Path) -> list[UnsupportedOp]:
    """Return every node that cannot be converted, also behind others of that kind."""
    return list(_Reader(file if isinstance(file, OnnxFile) else read_file(file)).unsupported())


def declared_input_shape(file: OnnxFile) -> tuple[int, ...]:
    """Return the file's input shape, a symbolic batch counted as 1."""
    return _Reader(file).input_shape()


def declared_output_shape(file: OnnxFile) -> tuple[int, ...] | None:
    """Return the file's output shape, a symbolic batch counted as 1; None where it is not fixed."""
    return fixed_shape(_Reader(file).output.type)


class _Reader:
    def __init__(self, file: OnnxFile) -> None:
        self.file = file
        self.proto = file.model.graph
        self.initializers = {tensor.name: tensor for tensor in self.proto.initializer}
        self.producers = {name: node for node in self.proto.node for name in node.output if name}
        self.output = self._one_output()
        self.order = self._needed()
        self.input = self._one_input()
        self.values: dict[str, Value] = {}
        self.steps: list[Step] = []
        self.constants: list[Stored] = []
        self.notes = list(file.notes)
        self.dtypes: set[str] = set()

    def error(self, message: str, *, place: str | None = None, remedy: str | None = None) -> ModelError:
        return ModelError(message, file=self.file.path, place=place, remedy=remedy)

    # --- what the file declares ---

    def _one_output(self) -> onnx.ValueInfoProto:
        outputs = list(self.proto.output)
        if len(outputs) != 1:
            names = ", ".join(repr(output.name) for output in outputs) or "none"
            raise self.error(
                f"it has {len(outputs)} outputs ({names})",
                remedy="export the model with the one output that the property speaks of",
            )
        return outputs[0]

    def _one_input(self) -> onnx.ValueInfoProto:
        inputs = self._inputs()
        if len(inputs) > 1:
            used = {name for node in self.order for name in node.input}
            inputs = [value for value in inputs if value.name in used] or inputs
        if len(inputs) != 1:
            names = ", ".join(repr(value.name) for value in inputs) or "none"
            raise self.error(f"it has {len(inputs)} inputs ({names})", remedy="export a model with exactly one input")
        kind = inputs[0].type.tensor_type.elem_type
        if kind not in FLOATS:
            raise self.error(
                f"input {inputs[0].name!r} has type {type_name(kind)}",
                remedy="export a model with a float32 input",
            )
        return inputs[0]

    def _inputs(self) -> list[onnx.ValueInfoProto]:
        return [value for value in self.proto.input if value.name not in self.initializers]

    def _runnable(self) -> bytes:
        """Return the file without inputs and nodes that play no part: onnxruntime would run them all."""
        if len(self._inputs()) == 1 and len(self.order) == len(self.proto.node):
            return self.file.data
        model = onnx.ModelProto()
        model.CopyFrom(self.file.model)
        del model.graph.node[:], model.graph.input[:], model.graph.value_info[:]
        model.graph.node.extend(self.order)
        model.graph.input.extend([self.input])
        return bytes(model.SerializeToString())

    def input_shape(self) -> tuple[int, ...]:
        shape: list[int] = []
        place = f"input {self.input.name!r}"
        if not self.input.type.tensor_type.HasField("shape"):
            raise self.error("its shape is not declared", place=place, remedy="export with a fixed shape")
        for axis, dim in enumerate(self.input.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                shape.append(dim.dim_value)
            elif axis == 0:
                shape.append(1)
            else:
                symbol = dim.dim_param or "?"
                raise self.error(
                    f"axis {axis} is symbolic ({symbol})",
                    place=place,
                    remedy="export with a fixed shape; only the leading batch axis may be symbolic",
                )
        if entries(shape) > LARGEST:
            raise self.error(
                f"its shape {shape} is larger than {LARGEST} numbers", place=place, remedy="export a smaller input"
            )
        if 0 in shape:
            raise self.error(f"it has size zero: {shape}", place=place, remedy="export with the real input shape")
        return tuple(shape)

    def _needed(self) -> list[onnx.NodeProto]:
        """Return the nodes that the output depends on, in an order in which they can be evaluated."""
        order: list[onnx.NodeProto] = []
        done: set[str] = set()
        stack: list[tuple[str, bool]] = [(self.output.name, False)]
        open_: set[str] = set()
        while stack:
            name, ready = stack.pop()
            node = self.producers.get(name)
            if node is None or name in done:
                continue
            if ready:
                order.append(node)
                done.update(node.output)
                continue
            if name in open_:
                raise self.error(f"value {name!r} depends on itself", remedy="export the model again")
            open_.add(name)
            stack.append((name, True))
            stack.extend((parent, False) for parent in reversed(node.input) if parent not in done)
        return order

    # --- conversion ---

    def read(self) -> Reading:
        shape = self.input_shape()
        builder = self._builder(shape)
        for node in self.order:
            self._convert(node, builder)
        result = self._value(self.output.name, self._name(self.order[-1]) if self.order else "")
        if isinstance(result, Constant):
            if result.radius is not None or not result.is_float or 0 in result.shape:
                raise self.error(
                    "the output is a constant that is not made of exact floats",
                    remedy="export the model with the output that depends on the input",
                )
            self.notes.append("the output does not depend on the input")
            result = constant_output(builder, result.tensor(), self.output.name)
        kinds = sorted(self.dtypes)
        self.notes += [f"{kind} weights are read exactly" for kind in kinds if kind != "float32"]
        graph, origin = merge_twins(*simplify(builder.nodes, result.index))
        steps, constants = tuple(self.steps), tuple(self.constants)
        trace = Trace(tuple(builder.nodes), result.index, steps, constants, builder.slack, origin)
        return Reading(
            graph, trace, self._runnable(), tuple(kinds), tuple(self.notes), self.input.name, builder.kinds[0]
        )

    def _builder(self, shape: tuple[int, ...]) -> Builder:
        kind = FLOATS[self.input.type.tensor_type.elem_type]
        self.values[self.input.name] = Ref(0, shape, kind)
        return Builder(shape, self.input.name, kind, LARGEST + len(self.file.data))

    def _name(self, node: onnx.NodeProto) -> str:
        return str(node.name or next((name for name in node.output if name), node.op_type))

    def _value(self, name: str, node: str) -> Value:
        if name not in self.values:
            tensor = self.initializers.get(name)
            if tensor is None:
                raise self.error(
                    f"value {name!r} is not defined", place=f"node {node!r}", remedy="export the model again"
                )
            value = read_tensor(tensor, name, self.file)
            self.values[name] = value
            self.constants.append(Stored.of(name, f"initializer {name!r}", value))
            if tensor.data_type in FLOATS:
                self.dtypes.add(FLOATS[tensor.data_type])
        return self.values[name]

    def _convert(self, node: onnx.NodeProto, builder: Builder) -> None:
        name = self._name(node)
        self._check_known(node)
        inputs = [self._value(i, name) if i else None for i in node.input]
        context = Context(node, inputs, builder, self.file, name)
        results = self._results(context)
        self.notes += context.notes
        for output, value in zip(node.output, results, strict=False):
            if 0 in value.shape and isinstance(value, Ref):
                context.refuse("its result has size zero", "zero-size tensors cannot be verified")
            self.values[output] = value
        self._remember(node, name, inputs, [v for o, v in zip(node.output, results, strict=False) if o])

    def _remember(self, node: onnx.NodeProto, name: str, inputs: list[Value | None], results: list[Value]) -> None:
        named = [output for output in node.output if output]
        taken = tuple((i, value.index) for i, value in zip(node.input, inputs, strict=True) if isinstance(value, Ref))
        made = tuple((o, value.index) for o, value in zip(named, results, strict=False) if isinstance(value, Ref))
        if made:
            self.steps.append(Step(name, node.op_type, taken, made))
        for output, value in zip(named, results, strict=False):
            if isinstance(value, Constant):
                self.constants.append(Stored.of(output, f"node {name!r}", value))

    def _results(self, c: Context) -> list[Value]:
        if c.op == "Constant":
            value = constant_attribute(c)
            if value.is_float:  # the forms without a tensor are float32
                self.dtypes.add(FLOATS.get(c.proto.attribute[0].t.data_type, "float32"))
            return [value]
        if c.op in ("Shape", "Size"):
            return [self._shape(c)]
        if all(value is None or isinstance(value, Constant) for value in c.inputs):
            return fold(c)
        if not is_known(c.op):
            c.refuse("it is folded only where its inputs are constants", HINTS.get(c.op))
        found = CONVERTERS[c.op](c)
        return [found] if isinstance(found, Constant | Ref) else list(found)

    def _shape(self, c: Context) -> Constant:
        shape = np.asarray(c.value(0).shape, dtype=np.int64)
        if c.op == "Size":
            return Constant(shape.prod())
        return Constant(shape[slice(c.attr("start", 0), c.attr("end"))])

    # --- what cannot be converted ---

    def _check_known(self, node: onnx.NodeProto) -> None:
        name = self._name(node)
        if node.domain not in ("", "ai.onnx"):
            raise UnsupportedOp(
                f"{node.domain}.{node.op_type}",
                node=name,
                why="its domain is not the standard one",
                file=self.file.path,
                remedy="export with standard ONNX operators only",
            )
        if not foldable(node.op_type) and not is_known(node.op_type):
            raise UnsupportedOp(
                node.op_type,
                node=name,
                why="netproof has no bounds for it",
                file=self.file.path,
                remedy=HINTS.get(node.op_type),
            )

    def unsupported(self) -> Iterator[UnsupportedOp]:
        """Convert what can be. Behind a node that failed, its result is taken to be anything of its shape;

        where that is not known, or where it would be a constant, what needs it is judged by its operator alone.
        """
        builder = self._builder(self.input_shape())
        declared = declared_shapes(self.proto)
        for node in self.order:
            known = all(not i or i in self.values or i in self.initializers for i in node.input)
            try:
                self._check_known(node)
                if known:
                    self._convert(node, builder)
                    continue
            except UnsupportedOp as error:
                yield error
            if known and any(isinstance(self.values.get(i), Ref) for i in node.input):
                values = {i: self._value(i, self._name(node)) for i in node.input if i}
                inputs = {i: value.shape if isinstance(value, Ref) else value for i, value in values.items()}
                shapes = {**declared, **result_shapes(node, inputs, self.file.opset)}
                for output in node.output:
                    if output in shapes:
                        self.values[output] = builder.anything(shapes[output], output)
