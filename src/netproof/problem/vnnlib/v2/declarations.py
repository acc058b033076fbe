"""The networks that a query declares, and where each entry of their tensors stands."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from netproof.errors import SpecError
from netproof.problem.derived import Atom
from netproof.problem.networks.interface import Declared, Tensor
from netproof.problem.vnnlib.sexpr import Source
from netproof.problem.vnnlib.v2.package import visible

TYPES = {"Real": "real", "F16": "float16", "F32": "float32", "F64": "float64"}  # by the package's name
MAX_ENTRIES = 50_000_000  # of one tensor

_DECLARATION = re.compile(
    r"\(\s*declare-(network|input|hidden|output)[ \t\n]+([A-Za-z]\w*)(?:[ \t\n]+([A-Za-z]\w*)[ \t\n]*\[)?"
)


class Declarations:
    """The networks of a query, and by name each tensor's first entry among all inputs ("x") or all values ("y")."""

    def __init__(self, source: Source, query: Any) -> None:
        self._source = source
        self._at: dict[tuple[str, str], re.Match[str]] = {}
        for match in _DECLARATION.finditer(visible(source.text)):
            self._at.setdefault(("network" if match[1] == "network" else "tensor", match[2]), match)
        self.networks = tuple(self._network(network) for network in query.networks)
        self._refuse_twice()
        self._first: dict[str, tuple[str, int, tuple[int, ...]]] = {}
        inputs = outputs = 0
        for network in self.networks:
            for tensor in network.of("input"):
                self._first[tensor.name] = ("x", inputs, tensor.shape)
                inputs += tensor.size
            for tensor in network.given:
                self._first[tensor.name] = ("y", outputs, tensor.shape)
                outputs += tensor.size
        self.inputs, self.outputs = inputs, outputs

    def atom(self, name: str, indices: list[int]) -> Atom:
        """Return the entry X[i, j, ...] of a declared tensor."""
        kind, first, shape = self._first[name]
        return (kind, first + (int(np.ravel_multi_index(indices, shape)) if shape else 0))

    def error(self, message: str, tensor: str, remedy: str) -> SpecError:
        """Make an error at a tensor's declaration."""
        return self._wrong(("tensor", tensor), message, remedy)

    def _network(self, network: Any) -> Declared:
        groups = (("input", network.inputs), ("hidden", network.hidden), ("output", network.outputs))
        tensors = tuple(self._tensor(one, kind) for kind, some in groups for one in some)
        line = self._line(("network", network.name))
        return Declared(network.name, tensors, network.equal_to, network.isometric_to, line)

    def _tensor(self, one: Any, kind: str) -> Tensor:
        key, shape = ("tensor", one.name), tuple(int(size) for size in one.shape)
        dtype = TYPES.get(one.dtype.name)
        if dtype is None:
            written = self._at[key][3] if key in self._at else one.dtype.name
            remedy = "use real, float16, float32 or float64" + ("; it is written small" if written == "Real" else "")
            raise self._wrong(key, f"{one.name} has type {written}, which is not supported", remedy)
        tensor = Tensor(one.name, kind, dtype, shape, (one.onnx_name or "").strip('"'), self._line(key))
        if kind == "hidden" and not tensor.node.strip():
            remedy = 'name a tensor as `netproof inspect` lists them, as in "relu_1"'
            raise self._wrong(key, f"hidden {one.name} does not say which tensor of the network it is", remedy)
        if tensor.size > MAX_ENTRIES:
            raise self._wrong(key, f"{one.name} has {tensor.size} entries", f"at most {MAX_ENTRIES} are supported")
        return tensor

    def _refuse_twice(self) -> None:
        seen: set[str] = set()
        for network in self.networks:
            if network.name in seen:
                raise self._wrong(("network", network.name), f"network {network.name} is declared twice", "rename one")
            seen.add(network.name)
            if network.equal_to and network.isomorphic_to:
                both = f"network {network.name} is both equal-to and isomorphic-to another"
                raise self._wrong(("network", network.name), both, "keep one of them")

    def _line(self, key: tuple[str, str]) -> int | None:
        match = self._at.get(key)
        return None if match is None else self._source.place(match.start())[0]

    def _wrong(self, key: tuple[str, str], message: str, remedy: str) -> SpecError:
        match = self._at.get(key)
        if match is None:
            return SpecError(message, file=self._source.file or None, remedy=remedy)
        return self._source.error(message, match.start(2), remedy)
