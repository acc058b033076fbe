"""Small ONNX models for the tests of the model layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from netproof.model.load import from_file
from netproof.model.network import Network
from netproof.model.onnx.file import parse

Shape = Sequence[int | str | None]


@dataclass
class Model:
    """Nodes from the value "x" to the value "y", written in order with `add`."""

    shape: Shape
    opset: int = 13
    kind: int = TensorProto.FLOAT
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def weights(self, *shape: int) -> np.ndarray:
        return self.random.normal(size=shape).astype(np.float32)

    def add(self, op: str, *inputs: Any, out: str | Sequence[str] = "y", **attributes: Any) -> Model:
        """Inputs are names, arrays (which become initializers) or None; "" and None are left out."""
        names = []
        for value in inputs:
            if isinstance(value, np.ndarray | np.generic):
                name = f"c{len(self.constants)}"
                self.constants[name] = np.asarray(value)
                names.append(name)
            else:
                names.append(value or "")
        outputs = [out] if isinstance(out, str) else list(out)
        label = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, outputs, name=label, **attributes))
        return self

    def proto(self, outputs: Sequence[str] = ("y",)) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "test",
            [helper.make_tensor_value_info("x", self.kind, list(self.shape))],
            [helper.make_tensor_value_info(name, self.kind, None) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def network(self) -> Network:
        data = self.proto().SerializeToString()
        return from_file(parse(data, "test.onnx", "0"))

    def save(self, path: Path, outputs: Sequence[str] = ("y",)) -> Path:
        path.write_bytes(self.proto(outputs).SerializeToString())
        return path


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def small_net() -> Model:
    """(1, 4) -> (1, 3) with one hidden layer."""
    model = Model((1, 4))
    model.add("Gemm", "x", model.weights(4, 5), model.weights(5), out="h").add("Relu", "h", out="r")
    return model.add("Gemm", "r", model.weights(5, 3), model.weights(3))
