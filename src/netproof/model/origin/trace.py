"""What the reader remembers of a file's own steps, so that each can be compared with onnxruntime by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from netproof.model.graph import Node
from netproof.model.ops import Affine
from netproof.model.origin.constant import Constant

PART = 1 << 20  # numbers that are copied at a time


@dataclass(frozen=True)
class TensorInfo:
    """An input or an output of the file."""

    name: str
    shape: tuple[int, ...]  # a symbolic batch counted as 1
    dtype: str  # "float32", "float16" or "float64"; of an input that plays no part, any


def together(names: Iterable[str]) -> str:
    """Write several names as one; protobuf gives bytes where a name is damaged."""
    return ", ".join(str(name) for name in names)


Link = tuple[str, int]  # a tensor of the file, and the node of the graph that stands for it


@dataclass(frozen=True)
class Step:
    """A node of the file that depends on the network's input, and the nodes of the graph made of it."""

    name: str
    op: str
    inputs: tuple[Link, ...]
    outputs: tuple[Link, ...]
    fused: bool = False  # it stands for a pattern that ends with this node, so it makes no sense at inputs of its own


@dataclass(frozen=True, eq=False)
class Stored:
    """A constant of the file as it was read or folded.

    One that a runtime must hold bit for bit is kept as a digest: the graph has its numbers already.
    """

    tensor: str
    place: str  # where the file has it, for messages
    shape: tuple[int, ...]
    digest: bytes | None
    constant: Constant | None

    @staticmethod
    def of(tensor: str, place: str, value: Constant) -> Stored:
        if value.is_float and value.slack is None:
            return Stored(tensor, place, value.shape, digest(value.value), None)
        return Stored(tensor, place, value.shape, None, value)


def digest(value: np.ndarray) -> bytes:
    """Hash the numbers as float64, in parts since they may be many; the sign of a zero does not count."""
    flat, state = value.reshape(-1), hashlib.blake2b()
    for start in range(0, flat.size, PART):
        state.update((flat[start : start + PART].astype(np.float64) + 0.0).data)
    return state.digest()


@dataclass(frozen=True, eq=False)
class Trace:
    """The graph before it was simplified, with the steps that it was made from, in order."""

    nodes: tuple[Node, ...]
    output: int
    steps: tuple[Step, ...]
    constants: tuple[Stored, ...]
    slack: Mapping[int, Affine]  # see netproof.model.onnx.context.Builder
    origin: tuple[int | None, ...]  # for each node of the simplified graph, the node here with the same value, if any
    inputs: tuple[Link, ...] = ()  # the file's inputs
    outputs: tuple[Link, ...] = ()  # the outputs that were asked for, without those that are constants
    # Nodes that are softmax along the last axis of another node, and whether it is its logarithm.
    softmax: Mapping[int, tuple[int, bool]] = field(default_factory=dict)
    # Nodes that are the place of the largest entry along the last axis of another; whether the last of several wins.
    argmax: Mapping[int, tuple[int, bool]] = field(default_factory=dict)
