"""From the bytes of an ONNX file to a network of affine nodes, ReLUs and other nonlinear operators.

Every node of the file is translated by one function of onnx_operators.py or onnx_smooth.py, in the order of the file,
and what has no such function is refused. Nodes that the output does not depend on are left out of the network in the
end, ReLUs too.
"""

from __future__ import annotations

from collections.abc import Sequence

from npcheck.errors import Refused
from npcheck.network import Input, Network
from npcheck.onnx_call import Builder, Call, Value, Variable
from npcheck.onnx_messages import DOUBLE, FLOAT, MOST_AXES, TYPES, Declared, FileNode, read_graph
from npcheck.onnx_operators import TRANSLATIONS
from npcheck.onnx_smooth import SMOOTH

OPSETS = range(7, 26)  # the versions of ONNX's operators whose differences are known here

MOVES = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def read_network(data: bytes) -> Network:
    """Read the bytes of an ONNX file; `Refused` says what in it is not known here."""
    graph = read_graph(data)
    if graph.opset not in OPSETS:
        raise Refused(f"version {graph.opset} of ONNX's operators is not supported, only {OPSETS[0]} to {OPSETS[-1]}")
    # In old files the constants are listed as inputs, too: these may not be changed here.
    inputs = [declared for declared in graph.inputs if declared.name not in graph.constants]
    if len(inputs) != 1 or len(graph.outputs) != 1:
        names = [declared.name for declared in (*inputs, *graph.outputs)]
        raise Refused(f"it has {len(inputs)} inputs and {len(graph.outputs)} outputs, not one of each: {names}")
    builder = Builder()
    known: dict[str, Value] = dict(graph.constants)
    shape, name = _input_shape(inputs[0]), f"input {inputs[0].name!r}"
    known[inputs[0].name] = builder.add(Input(inputs[0].type == DOUBLE), [], shape, name)
    for node in graph.nodes:
        try:
            _translate(node, graph.opset, known, builder)
        except Refused as error:
            raise Refused(f"{node.where}: {error}") from None
    output = known.get(graph.outputs[0].name)
    if not isinstance(output, Variable):
        raise Refused(f"the output {graph.outputs[0].name!r} does not depend on the input")
    _check_output(output, graph.outputs[0])
    return Network(tuple(builder.nodes), builder.maps, frozenset(builder.uncut)).ending_at(output.place)


def _translate(node: FileNode, opset: int, known: dict[str, Value], builder: Builder) -> None:
    """Translate one node of the file: its outputs become known."""
    translation = TRANSLATIONS.get(node.op) or SMOOTH.get(node.op)
    if translation is None:
        raise Refused("this operator is not supported")
    inputs: list[Value | None] = []
    for name in node.inputs:
        if name and name not in known:
            raise Refused(f"it reads {name!r}, which no node before it makes")
        inputs.append(known[name] if name else None)
    whole = any(isinstance(value, Variable) and value.place in builder.whole for value in inputs)
    if whole and node.op not in MOVES:
        raise Refused("it computes with integers that depend on the input")
    call = Call(node, opset, inputs, builder)
    result = translation(call)
    call.finish()
    results = result if isinstance(result, list) else [result]
    for value in results:
        _require_few_axes(value.shape)
    if whole:
        builder.whole.update(value.place for value in results if isinstance(value, Variable))
    # Further outputs (the mask of a Dropout, say) are not made: a node that reads one of them will be refused.
    for name, value in zip(node.outputs, results, strict=False):
        if name in known:
            raise Refused(f"it makes {name!r}, which is there already")
        if name:
            known[name] = value


def _require_few_axes(shape: Sequence[int | None]) -> None:
    """Refuse values with many axes: an operator makes twice as many, and numpy knows 64, or crashes beyond."""
    if len(shape) > MOST_AXES:
        raise Refused(f"a value has more than {MOST_AXES} axes")


def _input_shape(declared: Declared) -> tuple[int, ...]:
    """Return the shape of the input: its first axis may be open, and is then 1."""
    where = f"input {declared.name!r}"
    if declared.type not in (FLOAT, DOUBLE):
        raise Refused(f"{where}: inputs of type {TYPES.get(declared.type, declared.type)} are not supported")
    if declared.shape is None or None in declared.shape[1:]:
        raise Refused(f"{where}: its shape is not given, or an axis other than the first is open")
    _require_few_axes(declared.shape)
    return tuple(1 if axis is None else axis for axis in declared.shape)


def _check_output(output: Variable, declared: Declared) -> None:
    """Refuse an output that is not as the file declares it: something was then read wrongly."""
    if declared.shape is None:
        return
    fits = len(declared.shape) == len(output.shape)
    if not fits or any(axis not in (None, n) for axis, n in zip(declared.shape, output.shape, strict=True)):
        raise Refused(f"output {declared.name!r}: it has the shape {output.shape}, but is declared {declared.shape}")
