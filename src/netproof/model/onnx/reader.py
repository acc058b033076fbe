"""ONNX -> Graph: walk the nodes that the output depends on, fold constants, convert the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import torch

from netproof.core.limits import LARGEST
from netproof.errors import ModelError, UnsupportedOp
from netproof.model.graph import Graph
from netproof.model.onnx import operators  # noqa: F401 (it registers the converters)
from netproof.model.onnx.bodies import Body, body, branch, has_body, reads
from netproof.model.onnx.context import Builder, Context, Ref, Value, element_of, is_known
from netproof.model.onnx.elements import is_real
from netproof.model.onnx.file import FLOATS, OnnxFile, dtype_name, read_file, read_tensor
from netproof.model.onnx.folding.by_converter import fold_by_converter
from netproof.model.onnx.folding.fold import constant_attribute, fold, foldable
from netproof.model.onnx.interface import Interface, join_outputs
from netproof.model.onnx.rewrite.simplify import constant_output, simplify
from netproof.model.onnx.rewrite.twins import merge_twins
from netproof.model.onnx.schema import ERRORS, STANDARD
from netproof.model.onnx.shapes import declared_forms, result_forms
from netproof.model.onnx.typed import converted, refuse_integers
from netproof.model.onnx.unbounded import no_bounds
from netproof.model.origin.constant import Constant
from netproof.model.origin.trace import Link, Step, Stored, TensorInfo, Trace, together

_TREES = "replace it in the file by standard operators: splits by Gemm and Greater, leaves by Gemm and Relu"
HINTS = {
    "Loop": "export without control flow",
    "Scan": "export without control flow",
    "LinearClassifier": "replace it in the file by a Gemm and what follows the sum",
    "LinearRegressor": "replace it in the file by a Gemm and what follows the sum",
    "Scaler": "replace it in the file by a Sub and a Mul",
    "TreeEnsemble": _TREES,
    "TreeEnsembleClassifier": _TREES,
    "TreeEnsembleRegressor": _TREES,
}


@dataclass(frozen=True, eq=False)
class Reading:
    graph: Graph
    trace: Trace
    model: bytes  # for onnxruntime: the file, without inputs that the output does not depend on
    weight_dtypes: tuple[str, ...]
    notes: tuple[str, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    input_dtype: str  # "float32", "float16" or "float64"


def read_graph(file: OnnxFile, outputs: Sequence[str] | None = None) -> Reading:
    """Read the real-valued network that the file's weights define, float64: all its outputs, or tensors by name."""
    try:
        return _Reader(file, outputs).read()
    except UnsupportedOp as error:
        failed = error.with_traceback(None)  # so that nothing keeps what was read so far
    several = [value.name for value in file.model.graph.output] if outputs is None else []
    fine = [name for name in several if len(several) > 1 and _can_read(file, name)]
    if fine:
        named = " ".join(f"--output {name}" for name in fine)
        failed.remedy = f"ask for the outputs that it has bounds for: {named}"
    raise failed


def _can_read(file: OnnxFile, output: str) -> bool:
    """Say whether one output of a file can be read without the others."""
    try:
        _Reader(file, [output]).read()
    except ModelError:
        return False
    return True


def unsupported_nodes(file: OnnxFile | str | Path, outputs: Sequence[str] | None = None) -> list[UnsupportedOp]:
    """Return every node that cannot be converted, also behind others of that kind."""
    return list(_Reader(file if isinstance(file, OnnxFile) else read_file(file), outputs).unsupported())


def declared_input_shape(file: OnnxFile) -> tuple[int, ...]:
    """Return the shape of the network's input, a symbolic batch counted as 1; of several inputs, that of all joined."""
    return Interface(file, None).input_shape()


def declared_inputs(file: OnnxFile, outputs: Sequence[str] | None = None) -> tuple[TensorInfo, ...]:
    """Return the inputs that make up the network's, in the file's order."""
    return Interface(file, outputs).input_infos()


def declared_output_shape(file: OnnxFile, outputs: Sequence[str] | None = None) -> tuple[int, ...] | None:
    """Return the shape of the network's output, a symbolic batch counted as 1; None where it is not fixed."""
    return Interface(file, outputs).declared_output_shape()


def _nothing(name: str) -> None:
    """Answer for a body that takes nothing from around it."""


def _info(name: str, value: Value) -> TensorInfo:
    return TensorInfo(name, value.shape, dtype_name(element_of(value)))


class _Reader:
    def __init__(self, file: OnnxFile, outputs: Sequence[str] | None = None) -> None:
        self.file = file
        self.interface = Interface(file, outputs)
        self.initializers = self.interface.initializers
        self.order = self.interface.order
        self.unread = no_bounds(self.order, self.initializers, self.interface.outputs)
        self.error = self.interface.error
        self.values: dict[str, Value] = {}
        self.steps: list[Step] = []
        self.constants: list[Stored] = []
        self.notes = list(file.notes)
        self.dtypes: set[str] = set()
        self.links: tuple[Link, ...] = ()
        self.hidden: Mapping[int, np.ndarray] = {}  # these two: see `Builder`
        self.is_nan: Mapping[int, int] = {}
        self.tensors: dict[int, str] = {}  # by node of the graph, the file's tensor that it is
        self.assumed: set[str] = set()  # tensors that cannot be read, or lie behind one

    # --- conversion ---

    def read(self) -> Reading:
        builder = self._builder()
        for node in self.order:
            self._convert(node, builder)
        values = [self._output(name) for name in self.interface.outputs]
        outputs = tuple(map(_info, self.interface.outputs, values))
        result = self._joined(builder, values)
        kinds = sorted(self.dtypes)
        self.notes += [f"{kind} weights are read exactly" for kind in kinds if kind != "float32"]
        graph, origin = merge_twins(*simplify(builder.nodes, result.index))
        trace = Trace(
            tuple(builder.nodes),
            result.index,
            tuple(self.steps),
            tuple(self.constants),
            builder.slack,
            origin,
            self.links,
            tuple(
                (name, value.index)
                for name, value in zip(self.interface.outputs, values, strict=True)
                if isinstance(value, Ref)
            ),
            builder.softmax,
            builder.argmax,
        )
        inputs = self.interface.input_infos()
        runnable = self.interface.runnable(builder.rewritten)
        return Reading(
            graph, trace, runnable, tuple(kinds), tuple(self.notes), inputs, outputs, FLOATS[self.interface.element()]
        )

    def _output(self, name: str) -> Value:
        value = self._value(name, self._name(self.order[-1]) if self.order else "")
        if isinstance(value, Ref) and (value.index in self.hidden or value.index in self.is_nan):
            what = "is masked with -inf" if value.index in self.hidden else "says whether a value is NaN"
            raise self.error(f"the output {name!r} {what}", remedy="ask for what is computed from it")
        exact = isinstance(value, Constant) and value.is_float and value.radius is None and 0 not in value.shape
        if isinstance(value, Constant) and not (exact and np.isfinite(value.value).all()):
            raise self.error(
                f"the output {name!r} is a constant that is not made of exact floats",
                remedy="export the model with outputs that depend on the input",
            )
        return value

    def _joined(self, builder: Builder, values: Sequence[Value]) -> Ref:
        """Return one node for all outputs: the output itself, or the vector of several."""
        name = together(self.interface.outputs)
        if any(isinstance(value, Ref) for value in values):
            only = values[0]
            whole = len(values) == 1 and isinstance(only, Ref) and only.shape != ()
            return only if whole and isinstance(only, Ref) else join_outputs(builder, values, name)
        self.notes.append("the output does not depend on the input")
        tensors = [value.tensor() for value in values if isinstance(value, Constant)]
        alone = len(tensors) == 1 and tensors[0].dim() > 0
        vector = tensors[0] if alone else torch.cat([tensor.flatten() for tensor in tensors])
        return constant_output(builder, vector, name)

    def _builder(self) -> Builder:
        """Begin a graph with its input, and the file's inputs as parts of it."""
        infos, element = self.interface.input_infos(), self.interface.element()
        name = together(info.name for info in infos)
        builder = Builder(self.interface.input_shape(), name, element, LARGEST + len(self.file.data))
        self.links = self.interface.enter(builder)
        self.hidden, self.is_nan = builder.hidden, builder.is_nan
        for (tensor, index), info in zip(self.links, infos, strict=True):
            self.values[tensor] = Ref(index, info.shape, element)
            self.tensors[index] = tensor
        return builder

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
        if self.unread.intersection(node.output):
            return
        inputs = [self._value(i, name) if i and i not in self.unread else None for i in node.input]
        context = Context(node, inputs, builder, self.file, name)
        try:
            results = self._results(context, lambda outer: self._value(outer, name))
        except ERRORS as error:
            context.refuse(f"onnx cannot take it: {error}", "check it with onnx.checker")
        self.notes += context.notes
        for output, value in zip(node.output, results, strict=False):
            if 0 in value.shape and isinstance(value, Ref):
                context.refuse("its result has size zero", "zero-size tensors cannot be verified")
            self.values[output] = value
        self._remember(context, [v for o, v in zip(node.output, results, strict=False) if o])

    def _remember(self, c: Context, results: list[Value]) -> None:
        node, name, inputs = c.proto, c.name, c.inputs
        named = [output for output in node.output if output]
        read = {i: self.values.get(i) for i in reads(node)[len(inputs) :]}  # by graphs within the node
        read |= dict(zip(node.input, inputs, strict=True))
        taken = tuple((i, v.index) for i, v in read.items() if isinstance(v, Ref) and v.index not in self.hidden)
        made = tuple((o, v.index) for o, v in zip(named, results, strict=False) if isinstance(v, Ref))
        if any(index in self.hidden for _, index in made):  # what onnxruntime has there is no number
            return
        if made:
            behind = self._behind(c, [index for _, index in made], [index for _, index in taken])
            self.steps.append(Step(name, node.op_type, (*taken, *behind), made, c.fused or bool(behind)))
            self.tensors.update({index: tensor for tensor, index in made if index not in self.tensors})
        for output, value in zip(named, results, strict=False):
            if isinstance(value, Constant):
                self.constants.append(Stored.of(output, f"node {name!r}", value))

    def _behind(self, c: Context, made: list[int], taken: list[int]) -> list[Link]:
        """Return what a step reads past its inputs, where it stands for a pattern of several nodes."""
        held, seen, links = set(taken), set[int](), []
        stack = list(made)
        while stack:
            index = stack.pop()
            if index in held or index in seen:
                continue
            seen.add(index)
            if index in self.tensors:
                links.append((self.tensors[index], index))
            else:
                stack.extend(c.made(index).inputs)
        return links

    def _results(self, c: Context, around: Callable[[str], Value | None]) -> list[Value]:
        """Convert or fold one node. around: what a graph within the node may take from outside, by name."""
        if c.op == "Constant":
            value = constant_attribute(c)
            if value.is_float:  # the forms without a tensor are float32
                self.dtypes.add(FLOATS.get(c.proto.attribute[0].t.data_type, "float32"))
            return [value]
        if c.op in ("Shape", "Size"):
            return [self._shape(c)]
        if c.op == "If":
            return self._inside(c, branch(c), around)
        constant = all(value is None or isinstance(value, Constant) for value in c.inputs)
        if constant and foldable(c.op):
            return fold(c)
        if is_known(c.op):
            return fold_by_converter(c) if constant and c.inputs else converted(c)
        refuse_integers(c, set())
        if (inside := body(c)) is not None:
            return self._inside(c, inside, _nothing)
        kind = (
            "its constant inputs cannot be folded" if constant else "it is folded only where its inputs are constants"
        )
        c.refuse(kind, HINTS.get(c.op))

    def _inside(self, c: Context, inside: Body, around: Callable[[str], Value | None]) -> list[Value]:
        """Convert the nodes that a node stands for; return its results."""
        values = dict(inside.given)
        for tensor in inside.initializers:
            values[tensor.name] = read_tensor(tensor, tensor.name, self.file)
        file = replace(self.file, opset=inside.opset, model=onnx.ModelProto())  # names inside are not the file's

        def known(name: str) -> Value | None:
            return values[name] if name in values else around(name)

        for node in inside.nodes:
            inputs = [known(i) if i else None for i in node.input]
            if node.domain not in STANDARD or not self._can(node.op_type, inside.opset):
                c.refuse(f"it holds {node.op_type}, for which netproof has no bounds", HINTS.get(node.op_type))
            try:
                results = self._results(Context(node, inputs, c.builder, file, c.name), known)
            except UnsupportedOp as error:
                why = error.message.partition(": ")[2]
                c.refuse(f"in its {node.op_type}, {why}" if c.op != node.op_type else why, error.remedy)
            values.update(zip(node.output, results, strict=False))
        found = [known(name) for name, _ in zip(inside.results, c.proto.output, strict=False)]
        return [value if value is not None else c.refuse("a result is missing") for value in found]

    def _shape(self, c: Context) -> Constant:
        shape = np.asarray(c.value(0).shape, dtype=np.int64)
        if c.op == "Size":
            return Constant(shape.prod())
        return Constant(shape[slice(c.attr("start", 0), c.attr("end"))])

    # --- what cannot be converted ---

    def _check_known(self, node: onnx.NodeProto) -> None:
        name = self._name(node)
        if node.domain not in STANDARD:
            raise UnsupportedOp(
                f"{node.domain}.{node.op_type}",
                node=name,
                why="its domain is not the standard one",
                file=self.file.path,
                remedy=self._instead(node),
            )
        if not self._can(node.op_type, self.file.opset):
            raise UnsupportedOp(
                node.op_type,
                node=name,
                why="netproof has no bounds for it",
                file=self.file.path,
                remedy=HINTS.get(node.op_type),
            )

    def _instead(self, node: onnx.NodeProto) -> str:
        """Say what a user who has only the file can do about a node of another domain."""
        if before := self._computed_before(node):
            return f"ask for what is computed before it: --output {before}"
        how = HINTS.get(node.op_type) if node.domain == "ai.onnx.ml" else None
        return how or "replace it in the file by standard operators, as onnx.helper makes them"

    def _computed_before(self, node: onnx.NodeProto) -> str | None:
        """Return the nearest tensor before a node that has bounds; None where there is none."""
        names = reads(node)
        for name in names:  # it grows
            value = self.values.get(name)
            if name not in self.interface.producers:
                continue
            if isinstance(value, Ref) and is_real(value.element) and name not in self.assumed:
                return name
            names += [other for other in reads(self.interface.producers[name]) if other not in names]
        return None

    def _can(self, operator: str, opset: int) -> bool:
        return operator == "If" or foldable(operator) or is_known(operator) or has_body(operator, opset)

    def unsupported(self) -> Iterator[UnsupportedOp]:
        """Convert what can be. Behind a node that failed, its result is taken to be anything of its shape;

        where that is not known, or where it would be a constant, what needs it is judged by its operator alone.
        """
        builder = self._builder()
        declared = declared_forms(self.file.model.graph)
        versions = {entry.domain: entry.version for entry in self.file.model.opset_import}
        versions |= dict.fromkeys(STANDARD, self.file.opset)
        for node in self.order:
            taken = [i for i in reads(node) if i and i not in self.unread]
            known = all(i in self.values or i in self.initializers for i in taken)
            if not self.assumed.isdisjoint(taken):
                self.assumed.update(node.output)
            try:
                self._check_known(node)
                if known:
                    self._convert(node, builder)
                    continue
            except UnsupportedOp as error:
                yield error
            if known and any(isinstance(self.values.get(i), Ref) for i in node.input):
                values = {i: self._value(i, self._name(node)) for i in node.input if i and i not in self.unread}
                forms = {**declared, **result_forms(node, values, versions.get(node.domain, 0))}
                for output in node.output:
                    if output in forms:
                        self.values[output] = builder.anything(output, *forms[output])
            self.assumed.update(node.output)
