"""What the reader remembers of a file's own steps, so that each can be compared with onnxruntime by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netproof.model.graph import Node
from netproof.model.ops import Affine
from netproof.model.origin.constant import Constant

PART = 1 << 20  # numbers that are copied at a time

Link = tuple[str, int]  # a tensor of the file, and the node of the graph that stands for it


@dataclass(frozen=True)
class Step:
    """A node of the file that depends on the network's input, and the nodes of the graph made of it."""

    name: str
    op: str
    inputs: tuple[Link, ...]
    outputs: tuple[Link, ...]


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
    origin: tuple[
        int | None, ...
    ]  # for each node of the simplified graph, the node here that has the same value, if any
