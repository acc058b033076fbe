"""Readings that are wrong on purpose, and what the comparison with onnxruntime says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import onnx
import pytest
import torch

from netproof.errors import ModelError
from netproof.model.load import from_file
from netproof.model.network import Network
from netproof.model.onnx.file import parse
from netproof.model.onnx.rewrite.simplify import simplify
from netproof.model.ops import Op
from netproof.model.origin.cross_check import cross_check


def points(network: Network, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return scale * torch.randn(3, *network.input_shape, generator=random, dtype=torch.float64)


def read(proto: onnx.ModelProto) -> Network:
    return from_file(parse(proto.SerializeToString(), "test.onnx", "0"))


def refused(network: Network, text: str = "netproof and onnxruntime disagree") -> str:
    with pytest.raises(ModelError, match=text) as caught:
        cross_check(network, points(network))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def tampered(network: Network, tensor: str, change: Callable[[Op], Op]) -> Network:
    """The reading with other ops where it has `tensor`, before it was simplified and after."""
    step = next(step for step in network.trace.steps if tensor in dict(step.outputs))
    index = dict(step.outputs)[tensor]
    nodes = [replace(n, op=change(n.op)) if n.index == index else n for n in network.trace.nodes]
    graph, origin = simplify(nodes, network.trace.output)
    return replace(network, graph=graph, trace=replace(network.trace, nodes=tuple(nodes), origin=origin))
