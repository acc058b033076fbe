"""Random small graphs over all element types: casts, choices, comparisons, jumps, and arithmetic of every type.

Their numbers are quarters, their points lie off every quarter, and exact operators alone are in them: what a float
rounds does not take it across a jump, so that onnxruntime's answer is the real network's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOATS = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]
INTEGERS = [TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT32]
EVERY = [*FLOATS, *INTEGERS, TensorProto.BOOL]
SHAPE = (1, 3)
UNARY = ("Neg", "Abs", "Relu", "Floor", "Ceil", "Round", "Sign", "Identity", "Not", "ArgMax", "ArgMin", "ReduceMax")
BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min")
COMPARISONS = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")
LOGIC = ("And", "Or", "Xor")


class TypedGraph:
    """A graph with the type of each of its values, grown node by node."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.opset = int(self.random.choice([13, 15, 18, 21]))
        self.kind = int(self.random.choice(FLOATS))
        self.types = {"x": self.kind}
        self._names = ["x"]  # what depends on the input
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        for _ in range(int(self.random.integers(1, 7))):
            self._grow()

    def model(self) -> onnx.ModelProto:
        """The model; a last value that is no float is cast to one."""
        if self.types[self._names[-1]] not in FLOATS:
            self._emit("Cast", [self._names[-1]], TensorProto.FLOAT, to=TensorProto.FLOAT)
        last = self._names[-1]
        graph = helper.make_graph(
            self._nodes,
            "typed",
            [helper.make_tensor_value_info("x", self.kind, SHAPE)],
            [helper.make_tensor_value_info(last, self.types[last], None)],
            self._constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def points(self, count: int, radius: float) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """A box around a point off every quarter, lower and upper, and points of it."""
        dtype = helper.tensor_dtype_to_np_dtype(self.kind)
        centre = self.random.choice(np.arange(-10, 11), size=SHAPE) / 4 + 0.109375
        lower, upper = ((centre + side * radius).astype(dtype) for side in (-1, 1))
        inside = [(centre + radius * (2 * self.random.random(SHAPE) - 1)).astype(dtype) for _ in range(count)]
        return lower, upper, [lower, upper, *(np.clip(point, lower, upper) for point in inside)]

    def _pick(self, options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def _emit(self, op: str, inputs: list[str], kind: int, **attributes: Any) -> None:
        name = f"v{len(self.types)}"
        self._nodes.append(helper.make_node(op, inputs, [name], name=f"{op}_{name}", **attributes))
        self.types[name] = kind
        self._names.append(name)

    def _constant(self, kind: int) -> str:
        quarters = self.random.integers(-12, 13, size=() if self.random.random() < 0.4 else SHAPE)
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        if kind == TensorProto.BOOL:
            value = quarters > 0
        elif kind in FLOATS:
            value = quarters / 4
        else:
            value = np.abs(quarters) * (1 if np.iinfo(dtype).min == 0 else self._pick([1, -1]))
        name = f"v{len(self.types)}"
        self.types[name] = kind
        self._constants.append(numpy_helper.from_array(np.asarray(value).astype(dtype), name))
        return name

    def _some(self, kind: int) -> str:
        """A value of a type: one that is there, or a constant."""
        there = [name for name in self._names if self.types[name] == kind]
        return self._pick(there) if there and self.random.random() < 0.6 else self._constant(kind)

    def _grow(self) -> None:
        x = self._pick(self._names)
        kind = self.types[x]
        group = self._pick(("cast", "cast", "like", "where", "binary", "compare", "logic", "unary"))
        if group == "cast":
            target = int(self._pick(EVERY))
            self._emit("Cast", [x], target, to=target)
        elif group == "like" and self.opset >= 15:
            other = self._some(int(self._pick(EVERY)))
            self._emit("CastLike", [x, other], self.types[other])
        elif group == "where":
            self._emit("Where", [self._some(TensorProto.BOOL), x, self._some(kind)], kind)
        elif group == "binary":
            op = self._pick(BINARY)
            pair = [x, self._constant(kind) if op == "Pow" else self._some(kind)]
            fmod = {"fmod": 1} if op == "Mod" and kind in FLOATS else {}
            self._emit(op, pair, kind, **fmod)
        elif group == "compare":
            self._emit(self._pick(COMPARISONS), [x, self._some(kind)], TensorProto.BOOL)
        elif group == "logic":
            pair = [self._some(TensorProto.BOOL) for _ in range(2)]
            self._emit(self._pick(LOGIC), pair, TensorProto.BOOL)
        else:
            op = self._pick(UNARY)
            place = op in ("ArgMax", "ArgMin")
            self._emit(op, [x], TensorProto.INT64 if place else kind, **({"axis": 1} if place else {}))
