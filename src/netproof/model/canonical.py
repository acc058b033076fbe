"""The hash of a graph: the same in every process and on every machine that reads the same numbers.

Hashed with SHA-256, in this order: the words `netproof graph 1`; for each node in order the indices of the nodes that
it reads and its shape, its class, and the parts that its class declares, by name in the order of the declaration. Names
of nodes are no part of it. A text is hashed behind its length in bytes and a colon; whole numbers, truth values and
nothing at all are texts of their kind and value; a float is its 8 bytes, the least first; a tuple its parts behind
their number; a tensor its numbers in row-major order, the least byte of each first, behind its type and shape; a part
of several parts these behind its class and their number.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from netproof.model.graph import Node

FORM = "netproof graph 1"


class NoForm(Exception):
    """A part of an operator that has no canonical form, as a plug-in's may not."""


class Hasher:
    """Feeds values to SHA-256 so that no two different sequences of them are the same bytes."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def hex(self) -> str:
        return self._sha256.hexdigest()

    def text(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self._sha256.update(f"{len(data)}:".encode() + data)

    def tensor(self, tensor: Tensor) -> None:
        """Hash a tensor of any kind, wherever it is."""
        self.text(f"tensor {tensor.dtype} {list(tensor.shape)}")
        plain = tensor.detach()
        if plain.is_quantized:
            plain = plain.dequantize()
        if plain.layout != torch.strided:
            plain = plain.to_dense()
        plain = plain.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        numbers = plain.view(torch.uint8).numpy()
        if sys.byteorder == "big":
            numbers = numbers.reshape(-1, plain.element_size())[:, ::-1].copy()
        self._sha256.update(numbers.data)

    def value(self, value: Any) -> None:
        """Hash a part of an operator; NoForm where it has no canonical form."""
        if isinstance(value, Tensor):
            self.tensor(value)
        elif isinstance(value, float):
            self.text("float")
            self._sha256.update(struct.pack("<d", value))
        elif value is None or isinstance(value, bool | int | str):
            self.text(f"{type(value).__name__} {value}")
        elif isinstance(value, tuple | list):
            self.text(f"tuple {len(value)}")
            for part in value:
                self.value(part)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            declared = dataclasses.fields(value)
            self.text(f"{_name(value)} {len(declared)}")
            for field in declared:
                self.text(field.name)
                self.value(getattr(value, field.name))
        else:
            raise NoForm


def _name(value: object) -> str:
    """Return the name of a class, and for another package's the module that defines it: netproof's own may move."""
    kind = type(value)
    own = kind.__module__.partition(".")[0] == "netproof"
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"


def graph_hash(nodes: Iterable[Node]) -> str | None:
    """Return the hash of a graph; None where an operator of a plug-in has parts without a canonical form."""
    hasher = Hasher()
    hasher.text(FORM)
    try:
        for node in nodes:
            hasher.value((node.inputs, node.shape))
            declared = getattr(node.op, "__dataclass_fields__", None)
            if declared is None and vars(node.op):
                return None
            hasher.text(_name(node.op))
            for name in declared or ():
                hasher.text(name)
                hasher.value(getattr(node.op, name))
    except NoForm:
        return None
    return hasher.hex()
