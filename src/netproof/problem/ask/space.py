"""What variables stand for: the inputs and outputs of a network, in one run of it or in several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from netproof.errors import UsageError
from netproof.model.network import Network
from netproof.model.origin.trace import TensorInfo
from netproof.problem.derived import Atom
from netproof.problem.networks.interface import Declared, Interface, Tensor

Variable = tuple[str, int, int]  # "x" or "y", the run, and the entry of that run's flattened inputs or outputs


@dataclass(frozen=True, eq=False)
class Space:
    """One network, as often as it is run; variables of different spaces do not mix."""

    source: Any  # what the user gave: a path, a module, or the network itself
    network: Network
    runs: int = 1
    outputs: tuple[str, ...] | None = None  # the tensors that were asked for by name

    @property
    def sizes(self) -> dict[str, int]:
        """Return how many numbers one run has of each kind."""
        return {"x": math.prod(self.network.input_shape), "y": math.prod(self.network.output_shape)}

    def shape(self, kind: str) -> tuple[int, ...]:
        """Return the shape of the inputs ("x") or outputs ("y"): the file's; of several tensors, the vector's."""
        return self.network.input_shape if kind == "x" else self.network.output_shape

    def infos(self, kind: str) -> tuple[TensorInfo, ...]:
        return self.network.inputs if kind == "x" else self.network.outputs

    def atom(self, variable: Variable, place: Sequence[int]) -> Atom:
        """Return where a variable stands among all inputs, of which `place` says the entry of x, or all outputs."""
        kind, run, entry = variable
        index = run * self.sizes[kind] + entry
        return (kind, place[index]) if kind == "x" else (kind, index)

    def name(self, kind: str, run: int) -> str:
        """Return what a vector is called: x and y, or x1, y1, x2, y2, … of several runs."""
        return f"{kind}{run + 1}" if self.runs > 1 else kind

    def named(self, variable: Variable) -> str:
        """Return a variable as a user would write it, such as y[3]; axes of size 1 are left out."""
        kind, run, entry = variable
        where = np.unravel_index(entry, squeezed(self.shape(kind)))
        return f"{self.name(kind, run)}[{', '.join(map(str, where))}]"

    def same(self, other: Space) -> bool:
        """Say whether both are of the same network with the same outputs, run as often."""
        return self is other or (self.runs == other.runs and self._same_network(other.network))

    def _same_network(self, network: Network) -> bool:
        mine = self.network
        names = [info.name for info in mine.outputs] == [info.name for info in network.outputs]
        return mine is network or (names and mine.identity == network.identity)

    def check(self, model: Any, network: Network) -> None:
        """Refuse a network other than the variables'; a module may have been trained in the meantime."""
        trained = model is self.source and isinstance(model, torch.nn.Module)
        if trained and all(self.shape(kind) == Space(model, network).shape(kind) for kind in "xy"):
            return
        if not self._same_network(network):
            here = Space(model, network).about
            raise UsageError(
                f"the condition is about the variables of another network ({self.about}, not {here})",
                remedy="make variables of this one: x, y = netproof.variables(network)",
            )

    @property
    def about(self) -> str:
        """Describe the network in a few words."""
        x, y = (list(self.shape(kind)) for kind in "xy")
        return f"{self.network.path}: {x} -> {y}"

    def interface(self, place: Sequence[int]) -> Interface:
        """Declare the runs as a VNN-LIB 2.0 query would: each after the first is equal to it."""
        first = "f" if self.runs == 1 else "f1"
        networks = []
        for run in range(self.runs):
            tensors = tuple(tensor for kind in "xy" for tensor in self._tensors(kind, run))
            name = first if run == 0 else f"f{run + 1}"
            networks.append(Declared(name, tensors, equal_to="" if run == 0 else first))
        return Interface(tuple(networks), tuple(place))

    def _tensors(self, kind: str, run: int) -> list[Tensor]:
        infos, name = self.infos(kind), self.name(kind, run).upper()
        what = "input" if kind == "x" else "output"
        names = [name] if len(infos) == 1 else [f"{name}_{k}" for k in range(len(infos))]
        return [Tensor(own, what, "real", info.shape) for own, info in zip(names, infos, strict=True)]


def squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without its axes of size 1; of one number, (1,)."""
    return tuple(size for size in shape if size != 1) or (1,)


def joint(left: Space | None, right: Space | None) -> Space | None:
    """Return the space of an expression of two; UsageError where these are of different networks."""
    if left is None or right is None or left is right:
        return left or right
    if not left.same(right):
        why = "" if left.runs == right.runs else f", {left.runs} and {right.runs} runs"
        raise UsageError(
            f"variables of different networks do not mix ({left.about}; {right.about}{why})",
            remedy="use the variables of one call of netproof.variables or netproof.runs",
        )
    return left
