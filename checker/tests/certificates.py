"""A few lines that write certificates, models and specifications for tests: nothing of netproof is used."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from npcheck.check import Checked, check

LEAF, CLIP, AGAIN, INPUT, NEURON = 0, 1, 3, 4, 8  # codes of a tree
MULTIPLIERS, DUALS, WEIGHTS, RAY = 4, 8, 16, 32  # flags of a leaf


def varint(value: int) -> bytes:
    """Return a whole number, 7 bits a byte."""
    found = b""
    while value >= 0x80:
        found += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return found + bytes((value,))


def split(dimension: int, point: float) -> bytes:
    """Return the head of a split of an input."""
    return bytes((INPUT,)) + varint(dimension) + struct.pack("<d", point)


def floats(kind: str, *values: float) -> bytes:
    """Return numbers in binary: kind e, f or d."""
    return struct.pack(f"<{len(values)}{kind}", *values)


def leaf(flags: int = 0, data: bytes = b"") -> bytes:
    """Return a leaf."""
    return bytes((LEAF, flags)) + data


def bounds(size: int, packed: Sequence[int] = (), codes: Sequence[int] | None = None) -> bytes:
    """Return what stands before claims and slopes, of a node with `size` entries."""
    bitmap = np.zeros(size, dtype=np.uint8)
    bitmap[list(packed)] = 1
    return np.packbits(bitmap, bitorder="little").tobytes() + bytes(codes if codes is not None else [0] * size)


def chunk(raw: bytes, *, length: int | None = None, says: int | None = None) -> bytes:
    """Return one chunk; its head may lie."""
    packed = zlib.compress(raw)
    return struct.pack("<II", len(packed) if length is None else length, len(raw) if says is None else says) + packed


def chunks(body: bytes, size: int = 1 << 20) -> bytes:
    """Return a body in chunks."""
    return b"".join(chunk(body[begin : begin + size]) for begin in range(0, len(body), size))


def header(model: bytes, spec: bytes, /, **fields: Any) -> bytes:
    """Return the first line; fields that are None are left out."""
    line: dict[str, Any] = {"npcert": 1, "claim": "unsat", "producer": "a test"}
    line |= {"model": hashlib.sha256(model).hexdigest(), "spec": hashlib.sha256(spec).hexdigest()} | fields
    return json.dumps({key: value for key, value in line.items() if value is not None}).encode() + b"\n"


class Case:
    """Three files in a folder."""

    def __init__(self, folder: Path, model: bytes, spec: str | bytes) -> None:
        spec = spec.encode() if isinstance(spec, str) else spec
        self.model, self.spec, self.certificate = folder / "m.onnx", folder / "s.vnnlib", folder / "c.npcert"
        self.model.write_bytes(model)
        self.spec.write_bytes(spec)
        self._header = header(model, spec)

    def check(self, body: bytes, **options: Any) -> Checked:
        """Check a body."""
        return self.offer(self._header + chunks(body), **options)

    def offer(self, data: bytes, **options: Any) -> Checked:
        """Check a whole certificate."""
        self.certificate.write_bytes(data)
        return check(self.certificate, self.model, self.spec, **options)


def onnx_model(nodes: Sequence[onnx.NodeProto], inputs: int, constants: dict[str, np.ndarray] | None = None) -> bytes:
    """Return a model with the input x and the output y; it is of float64 if its constants are."""
    constants = constants or {}
    double = any(value.dtype == np.float64 for value in constants.values())
    kind = TensorProto.DOUBLE if double else TensorProto.FLOAT
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info("x", kind, [1, inputs])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(proto.SerializeToString())


def dense(*layers: tuple[Any, Any], dtype: Any = np.float32) -> bytes:
    """Return a model of matrices (m, n) and biases with ReLUs between."""
    nodes, constants, value = [], {}, "x"
    for place, (weight, bias) in enumerate(layers):
        last = place == len(layers) - 1
        constants[f"w{place}"], constants[f"b{place}"] = np.array(weight, dtype), np.array(bias, dtype)
        made = "y" if last else f"h{place}"
        nodes.append(helper.make_node("Gemm", [value, f"w{place}", f"b{place}"], [made], transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [made], [f"z{place}"]))
        value = f"z{place}"
    return onnx_model(nodes, np.shape(layers[0][0])[1], constants)


def spec(lower: Sequence[Any], upper: Sequence[Any], outputs: int, *violations: str) -> str:
    """Return a specification with a box and assertions."""
    lines = [f"(declare-const X_{i} Real)" for i in range(len(lower))]
    lines += [f"(declare-const Y_{i} Real)" for i in range(outputs)]
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        lines += [f"(assert (>= X_{i} {low}))", f"(assert (<= X_{i} {high}))"]
    return "\n".join([*lines, *(f"(assert {violation})" for violation in violations)]) + "\n"
