"""A network as a list of layers with float32 constants, which an ONNX file is written from. No code of netproof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]

# The operator that a kind of layer is written as.
OPERATORS = {
    "gemm": "Gemm",
    "conv": "Conv",
    "pool": "AveragePool",
    "norm": "BatchNormalization",
    "relu": "Relu",
    "leaky": "LeakyRelu",
    "abs": "Abs",
    "clip": "Clip",
    "peak": "MaxPool",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "add": "Add",
    "sub": "Sub",
    "concat": "Concat",
    "reshape": "Reshape",
}
HINGES = ("relu", "leaky")
BENDS = (*HINGES, "abs", "clip", "peak")  # what is not affine, but piecewise
SMOOTH = ("sigmoid", "tanh")


@dataclass(frozen=True, eq=False)
class Layer:
    """One operator: `inputs` are places in the network, `constants` float32 arrays in the operator's order."""

    kind: str  # "input", or a key of OPERATORS
    inputs: tuple[int, ...]
    shape: Shape
    constants: tuple[np.ndarray, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


Network = tuple[Layer, ...]  # in topological order: the first is the input, the last the output


def to_onnx(network: Network) -> onnx.ModelProto:
    """The model whose tensor v3 is layer 3."""
    nodes, constants = [], []
    for place, layer in enumerate(network[1:], start=1):
        names = [f"v{i}" for i in layer.inputs]
        arrays = layer.constants if layer.kind != "reshape" else (np.array(layer.shape, dtype=np.int64),)
        for array in arrays:
            names.append(f"c{len(constants)}")
            constants.append(numpy_helper.from_array(array, names[-1]))
        nodes.append(helper.make_node(OPERATORS[layer.kind], names, [f"v{place}"], **layer.attributes))
    ends = [
        helper.make_tensor_value_info(f"v{place}", TensorProto.FLOAT, network[place].shape)
        for place in (0, len(network) - 1)
    ]
    graph = helper.make_graph(nodes, "hunted", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model


class Builder:
    """Appends layers; every method returns the place of the layer it made."""

    def __init__(self, *shape: int) -> None:
        self.layers = [Layer("input", (), shape)]

    def finish(self) -> Network:
        return tuple(self.layers)

    def size(self, place: int) -> int:
        return self.layers[place].size

    def gemm(self, place: int, weight: np.ndarray, bias: np.ndarray) -> int:
        """weight (out, in), bias (out,); what is read is flattened first."""
        place = self.flat(place)
        return self._add("gemm", (place,), (1, len(bias)), (single(weight), single(bias)), transB=1)

    def conv(
        self, place: int, weight: np.ndarray, bias: np.ndarray, *, pad: int = 0, stride: int = 1, group: int = 1
    ) -> int:
        """weight (out, in / group, *kernel) over an image (1, in, *side)."""
        sides, kernel = self.layers[place].shape[2:], weight.shape[2:]
        out = tuple((s + 2 * pad - k) // stride + 1 for s, k in zip(sides, kernel, strict=True))
        spread = {"pads": [pad] * (2 * len(sides)), "strides": [stride] * len(sides), "group": group}
        return self._add("conv", (place,), (1, len(bias), *out), (single(weight), single(bias)), **spread)

    def pool(self, place: int, kernel: int) -> int:
        """The mean of blocks that do not overlap."""
        batch, channels, *sides = self.layers[place].shape
        spread = {"kernel_shape": [kernel] * len(sides), "strides": [kernel] * len(sides)}
        return self._add("pool", (place,), (batch, channels, *(s // kernel for s in sides)), **spread)

    def norm(self, place: int, constants: tuple[np.ndarray, ...], epsilon: float) -> int:
        """scale, bias, mean and variance (channel,) of an image."""
        return self._add("norm", (place,), self.layers[place].shape, tuple(map(single, constants)), epsilon=epsilon)

    def relu(self, place: int) -> int:
        return self._add("relu", (place,), self.layers[place].shape)

    def leaky(self, place: int, alpha: float) -> int:
        return self._add("leaky", (place,), self.layers[place].shape, alpha=alpha)

    def abs(self, place: int) -> int:
        return self._add("abs", (place,), self.layers[place].shape)

    def smooth(self, place: int, kind: str) -> int:
        return self._add(kind, (place,), self.layers[place].shape)

    def clip(self, place: int, low: float, high: float) -> int:
        ends = single(np.array(low)), single(np.array(high))
        return self._add("clip", (place,), self.layers[place].shape, ends)

    def peak(self, place: int, kernel: int, stride: int, pad: int = 0) -> int:
        """The greatest of each window of an image, whose padding does not count."""
        batch, channels, *sides = self.layers[place].shape
        out = ((side + 2 * pad - kernel) // stride + 1 for side in sides)
        spread = {
            "kernel_shape": [kernel] * len(sides),
            "strides": [stride] * len(sides),
            "pads": [pad] * 2 * len(sides),
        }
        return self._add("peak", (place,), (batch, channels, *out), **spread)

    def add(self, left: int, right: int, kind: str = "add") -> int:
        return self._add(kind, (left, right), self.layers[left].shape)

    def concat(self, left: int, right: int) -> int:
        (batch, a, *rest), b = self.layers[left].shape, self.layers[right].shape[1]
        return self._add("concat", (left, right), (batch, a + b, *rest), axis=1)

    def reshape(self, place: int, shape: Shape) -> int:
        return self._add("reshape", (place,), shape)

    def flat(self, place: int) -> int:
        return place if len(self.layers[place].shape) == 2 else self.reshape(place, (1, self.size(place)))

    def _add(
        self,
        kind: str,
        inputs: tuple[int, ...],
        shape: Shape,
        constants: tuple[np.ndarray, ...] = (),
        **attributes: Any,
    ) -> int:
        self.layers.append(Layer(kind, inputs, shape, constants, attributes))
        return len(self.layers) - 1


def single(values: np.ndarray) -> np.ndarray:
    """As the file holds them."""
    return np.asarray(values).astype(np.float32)
