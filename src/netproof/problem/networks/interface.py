"""What a VNN-LIB 2.0 query says of its networks: their names, their tensors, and which inputs are one and the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netproof.core.verdict import TensorValue


@dataclass(frozen=True)
class Tensor:
    name: str
    kind: str  # "input", "hidden" or "output"
    dtype: str  # as written: "real", "float32", ...
    shape: tuple[int, ...]
    node: str = ""  # the name in the file of the network; given for every hidden tensor
    line: int | None = None  # of its declaration

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Declared:
    """One network of a query."""

    name: str
    tensors: tuple[Tensor, ...]  # as declared: inputs, hidden tensors, outputs
    equal_to: str = ""  # the network that it is another use of
    isomorphic_to: str = ""
    line: int | None = None

    def of(self, kind: str) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.kind == kind)

    @property
    def given(self) -> tuple[Tensor, ...]:
        """Return its outputs and then its hidden tensors: the order in which they stand in y."""
        return self.of("output") + self.of("hidden")

    @property
    def inputs(self) -> int:
        return sum(tensor.size for tensor in self.of("input"))

    @property
    def outputs(self) -> int:
        return sum(tensor.size for tensor in self.given)


@dataclass(frozen=True)
class Interface:
    """The networks of a query, in its order.

    x has one entry for every input that is not equal to an earlier one: `place` says, for the entries of all inputs one
    after the other, which entry of x each is. y holds the outputs and hidden tensors of all networks.
    """

    networks: tuple[Declared, ...]
    place: tuple[int, ...]

    @property
    def plain(self) -> bool:
        """Say whether x and y are those of one network, one entry each."""
        return len(self.networks) == 1 and self.place == tuple(range(len(self.place)))

    def reads(self) -> Iterator[tuple[Declared, tuple[int, ...]]]:
        """Yield each network and the entries of x that its inputs are."""
        start = 0
        for network in self.networks:
            yield network, self.place[start : start + network.inputs]
            start += network.inputs

    def values(self, x: NDArray[Any], y: Sequence[float] | NDArray[Any]) -> Iterator[TensorValue]:
        """Yield the tensors in the order of their declaration, from x (n,) and y (m,)."""
        point, answer = np.asarray(x).reshape(-1), np.asarray(y).reshape(-1)
        after = 0
        for network, reads in self.reads():
            arrays: dict[str, NDArray[Any]] = {}
            mine = answer[after : after + network.outputs]
            after += network.outputs
            for flat, tensors in ((point[list(reads)], network.of("input")), (mine, network.given)):
                start = 0
                for tensor in tensors:
                    arrays[tensor.name] = flat[start : start + tensor.size].reshape(tensor.shape)
                    start += tensor.size
            yield from (TensorValue(tensor.name, tensor.dtype, arrays[tensor.name]) for tensor in network.tensors)

    def name(self, entry: int) -> str:
        """Return the first name of an entry of x, such as X[0,2]."""
        joint = self.place.index(entry)
        for tensor in chain.from_iterable(network.of("input") for network in self.networks):
            if joint < tensor.size:
                where = ",".join(str(i) for i in np.unravel_index(joint, tensor.shape)) if tensor.shape else ""
                return f"{tensor.name}[{where}]" if where else tensor.name
            joint -= tensor.size
        raise IndexError(entry)
