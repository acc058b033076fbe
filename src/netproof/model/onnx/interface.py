"""What a file takes and gives: its inputs and outputs, their shapes, and the vectors that several of them make.

One input is the graph's input as it is. Several are one vector: each flattened, joined in the file's order, as VNN-COMP
counts X_0, X_1, …; each of them is then a part of it. Several outputs are one vector in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
import torch

from netproof.core.limits import LARGEST, entries
from netproof.errors import ModelError, UsageError
from netproof.model.moves import Concat, Index, Reshape
from netproof.model.onnx.bodies import reads
from netproof.model.onnx.context import Builder, Ref
from netproof.model.onnx.declared import Shape, fixed_shape
from netproof.model.onnx.file import FLOATS, OnnxFile, dtype_name, type_name
from netproof.model.onnx.opsets import IR_VERSION, oldest_alike
from netproof.model.onnx.schema import STANDARD
from netproof.model.origin.constant import Constant
from netproof.model.origin.trace import Link, TensorInfo


class Interface:
    """The inputs that count, and the outputs that were asked for: all, or tensors of the graph by name."""

    def __init__(self, file: OnnxFile, outputs: Sequence[str] | None) -> None:
        graph = file.model.graph
        self._file = file
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self._declared = [value for value in graph.input if value.name not in self.initializers]
        self.outputs = self._asked(outputs)
        self.order = self.needed(self.outputs)
        self.inputs = self._counted()
        self.used = {name for node in self.order for name in reads(node)} | set(self.outputs)

    def error(self, message: str, *, place: str | None = None, remedy: str | None = None) -> ModelError:
        return ModelError(message, file=self._file.path, place=place, remedy=remedy)

    def _asked(self, outputs: Sequence[str] | None) -> tuple[str, ...]:
        declared = [value.name for value in self._file.model.graph.output]
        if not declared:
            raise self.error("it has no outputs", remedy="export the model again")
        if outputs is None:
            return tuple(dict.fromkeys(declared))
        known = {*self.producers, *(value.name for value in self._declared)}
        for name in outputs:
            if name not in known:
                shown = ", ".join(repr(other) for other in declared[:8])
                raise UsageError(
                    f"it has no tensor {name!r}",
                    file=self._file.path,
                    remedy=f"name an output ({shown}) or a value inside, as `netproof inspect` lists them",
                )
        if not outputs or len(set(outputs)) != len(outputs):
            raise UsageError("outputs are named once each, at least one of them", file=self._file.path)
        return tuple(outputs)

    def _counted(self) -> list[onnx.ValueInfoProto]:
        """Return the inputs that make up X_0, X_1, …

        Where the file's outputs depend on one input alone, the others are left out, whatever they are. Where they
        depend on several, all inputs count, also those that play no part, so that the numbers are the file's.
        """
        inputs = self._declared
        if len(inputs) > 1:
            every = dict.fromkeys([*(value.name for value in self._file.model.graph.output), *self.outputs])
            taken = {name for node in self.needed(every) for name in reads(node)} | set(every)
            used = [value for value in inputs if value.name in taken]
            inputs = used if len(used) == 1 else inputs
        if not inputs:
            raise self.error("it has no inputs", remedy="export a model whose output depends on an input")
        return inputs

    def needed(self, outputs: Iterable[str]) -> list[onnx.NodeProto]:
        """Return the nodes that outputs depend on, in an order in which they can be evaluated."""
        order: list[onnx.NodeProto] = []
        done: set[str] = set()
        stack: list[tuple[str, bool]] = [(name, False) for name in reversed(list(outputs))]
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
            stack.extend((parent, False) for parent in reversed(reads(node)) if parent not in done)
        return order

    # --- inputs ---

    def input_infos(self) -> tuple[TensorInfo, ...]:
        """Return the inputs that count, in the file's order."""
        infos = tuple(TensorInfo(v.name, self._shape(v), self._kind(v)) for v in self.inputs)
        kinds = {info.dtype for info in infos if info.name in self.used}
        if len(kinds) > 1:
            raise self.error(
                f"its inputs are of different types ({', '.join(sorted(kinds))})",
                remedy="export a model whose inputs have one float type",
            )
        if sum(entries(info.shape) for info in infos) > LARGEST:
            raise self.error(f"its inputs have more than {LARGEST} numbers", remedy="export smaller inputs")
        return infos

    def element(self) -> int:
        """Return the float type of the inputs that play a part; of all others any number may stand there."""
        used = [value for value in self.inputs if value.name in self.used]
        return int((used or self.inputs)[0].type.tensor_type.elem_type)

    def input_shape(self) -> Shape:
        """Return the shape of the graph's input: the file's own, or that of the vector of all inputs."""
        infos = self.input_infos()
        return infos[0].shape if _is_itself(infos) else (sum(math.prod(info.shape) for info in infos),)

    def _kind(self, value: onnx.ValueInfoProto) -> str:
        kind = value.type.tensor_type.elem_type
        unused = value.name not in self.used and len(self.inputs) > 1
        if kind in FLOATS or unused:  # where it plays no part any number may stand there
            return dtype_name(kind)
        raise self.error(
            f"input {value.name!r} has type {type_name(kind)}", remedy="export a model with float32 inputs only"
        )

    def _shape(self, value: onnx.ValueInfoProto) -> Shape:
        shape: list[int] = []
        place = f"input {value.name!r}"
        if not value.type.tensor_type.HasField("shape"):
            raise self.error("its shape is not declared", place=place, remedy="export with a fixed shape")
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
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

    def enter(self, builder: Builder) -> tuple[Link, ...]:
        """Add a part of the graph's input for each of the file's; return the node of each."""
        infos = self.input_infos()
        if _is_itself(infos):
            return ((infos[0].name, 0),)
        whole = Ref(0, builder.nodes[0].shape, self.element())
        size, start = whole.shape[0], 0
        links: list[Link] = []
        for info in infos:
            count = math.prod(info.shape)
            index = torch.arange(start, start + count)
            part = builder.add(Index(0, index, size), [whole], info.name)
            part = builder.add(Reshape((count,), info.shape), [part], info.name)
            links.append((info.name, part.index))
            start += count
        return tuple(links)

    # --- outputs ---

    def declared_output_shape(self) -> Shape | None:
        """Return the shape of what was asked for as the file declares it; None where it is not fixed."""
        values = {v.name: v for v in (*self._file.model.graph.value_info, *self._file.model.graph.output)}
        shapes = [fixed_shape(values[name].type) if name in values else None for name in self.outputs]
        if len(shapes) == 1 and shapes[0] != ():
            return shapes[0]
        sizes = [math.prod(shape) for shape in shapes if shape is not None]
        return (sum(sizes),) if len(sizes) == len(shapes) else None

    def runnable(self, rewritten: Mapping[str, onnx.NodeProto]) -> bytes:
        """Return the file for onnxruntime: without inputs and nodes that play no part, with the outputs asked for.

        rewritten: nodes to give it in place of the file's own, by their first output.
        """
        model, declared = self._file.model, [value.name for value in self._file.model.graph.output]
        every_input = len(self._declared) == len(self.inputs) == sum(v.name in self.used for v in self.inputs)
        whole = every_input and len(self.order) == len(model.graph.node) and list(self.outputs) == declared
        older = oldest_alike(model, self._file.opset)
        if whole and not rewritten and older == self._file.opset and model.ir_version <= IR_VERSION:
            return self._file.data
        smaller = onnx.ModelProto()
        smaller.CopyFrom(model)
        graph = smaller.graph
        del graph.node[:], graph.input[:], graph.value_info[:], graph.output[:]
        graph.node.extend(rewritten.get(node.output[0], node) for node in self.order)
        graph.input.extend(v for v in self.inputs if v.name in self.used or len(self.inputs) == 1)
        given = {value.name: value for value in model.graph.output}
        graph.output.extend(given.get(name, onnx.ValueInfoProto(name=name)) for name in self.outputs)
        smaller.ir_version = min(model.ir_version, IR_VERSION)
        for entry in smaller.opset_import:
            if entry.domain in STANDARD:
                entry.version = older
        return bytes(smaller.SerializeToString())


def _is_itself(infos: Sequence[TensorInfo]) -> bool:
    """Say whether the graph's input is the file's one: of several, or of a number without axes, it is a vector."""
    return len(infos) == 1 and infos[0].shape != ()


def join_outputs(builder: Builder, values: Sequence[Ref | Constant], name: str) -> Ref:
    """Add the vector of all outputs, each flattened; at least one of them depends on the input."""
    branches: list[Ref] = []
    parts: list[torch.Tensor | None] = []
    for value in values:
        size = math.prod(value.shape)
        if isinstance(value, Ref):
            branches.append(builder.add(Reshape(value.shape, (size,)), [value], name))
            parts.append(None)
        else:
            parts.append(torch.from_numpy(np.array(value.value, dtype=np.float64).reshape(size)))
    sizes = tuple(math.prod(value.shape) for value in values)
    return builder.add(Concat(0, sizes, tuple(parts)), branches, name)
