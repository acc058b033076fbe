"""What `netproof inspect` shows, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from netproof.errors import UnsupportedOp
from netproof.model.conv import Kernel
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.model.onnx.file import read_file
from netproof.model.onnx.reader import declared_input_shape, declared_inputs, declared_output_shape, unsupported_nodes
from netproof.model.ops import Op
from netproof.model.origin.trace import TensorInfo


@dataclass(frozen=True)
class LayerInfo:
    index: int
    name: str
    op: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    parameters: int


@dataclass(frozen=True)
class Unsupported:
    node: str
    op: str
    line: str  # the whole message, hint included


@dataclass(frozen=True)
class Description:
    """A model file. Where a node is unsupported there is no graph, and what is read from it stays empty."""

    path: str
    sha256: str
    opset: int
    operators: Mapping[str, int]  # ONNX operators of the file, with counts
    input_shape: tuple[int, ...]  # of several inputs, of the vector of all
    output_shape: tuple[int, ...] | None  # None: the file does not declare it, and it could not be read
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    weight_dtypes: tuple[str, ...]
    layers: tuple[LayerInfo, ...]
    neurons: Mapping[str, int]  # entries of each nonlinear node, by the node's name
    parameters: int
    notes: tuple[str, ...]
    unsupported: tuple[Unsupported, ...]


def describe(path: str | Path, outputs: Sequence[str] | None = None) -> Description:
    """Read a file for inspection; unsupported nodes are listed, any other fault is an error."""
    file = read_file(path)
    refused = unsupported_nodes(file, outputs)
    network = None if refused else load_network(path, outputs=outputs)
    layers = () if network is None else _layers(network)
    neurons = {}
    if network is not None:
        graph = network.graph
        neurons = {f"{i}:{graph.nodes[i].name}": graph.nodes[i].size for i in graph.nonlinear}
    return Description(
        path=file.path,
        sha256=file.sha256,
        opset=file.opset,
        operators=dict(Counter(node.op_type for node in file.model.graph.node).most_common()),
        input_shape=declared_input_shape(file),
        output_shape=declared_output_shape(file, outputs) if network is None else network.output_shape,
        inputs=declared_inputs(file, outputs),
        outputs=() if network is None else network.outputs,
        weight_dtypes=() if network is None else network.weight_dtypes,
        layers=layers,
        neurons=neurons,
        parameters=sum(layer.parameters for layer in layers),
        notes=() if network is None else network.notes,
        unsupported=tuple(_unsupported(error) for error in refused),
    )


def _unsupported(error: UnsupportedOp) -> Unsupported:
    if error.remedy == error.SEE_ALL:  # which is being done
        error.remedy = None
    return Unsupported(error.node, error.op, str(error))


def _layers(network: Network) -> tuple[LayerInfo, ...]:
    return tuple(
        LayerInfo(n.index, n.name, type(n.op).__name__, n.inputs, n.shape, _parameters(n.op))
        for n in network.graph.nodes
    )


def _parameters(op: Op | Kernel) -> int:
    """Count the entries of the op's float tensors, without error radii."""
    total = 0
    for value in vars(op).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, torch.Tensor) and part.is_floating_point():
                total += part.numel()
            elif isinstance(part, Kernel):
                total += _parameters(part)
    return total
