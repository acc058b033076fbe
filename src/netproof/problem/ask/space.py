"""What variables stand for: the inputs and outputs of a network, or of several runs of one or more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
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
    """The network of each run; variables of different spaces do not mix."""

    sources: tuple[Any, ...]  # by run, what the user gave: a path, a module, or the network itself
    networks: tuple[Network, ...]  # by run
    outputs: tuple[str, ...] | None = None  # the tensors that were asked for by name

    @property
    def runs(self) -> int:
        return len(self.networks)

    def shape(self, kind: str, run: int = 0) -> tuple[int, ...]:
        """Return the shape of a run's inputs ("x") or outputs ("y"): the file's; of several tensors, the vector's."""
        network = self.networks[run]
        return network.input_shape if kind == "x" else network.output_shape

    def size(self, kind: str, run: int = 0) -> int:
        """Count the numbers of a run's inputs or outputs."""
        return math.prod(self.shape(kind, run))

    def infos(self, kind: str, run: int) -> tuple[TensorInfo, ...]:
        network = self.networks[run]
        return network.inputs if kind == "x" else network.outputs

    @cached_property
    def starts(self) -> dict[str, list[int]]:
        """Return where the numbers of each run begin, among those of all runs; and at last where they end."""
        return {
            kind: list(accumulate((self.size(kind, run) for run in range(self.runs)), initial=0)) for kind in ("x", "y")
        }

    def atom(self, variable: Variable, place: Sequence[int]) -> Atom:
        """Return where a variable stands among all inputs, of which `place` says the entry of x, or all outputs."""
        kind, run, entry = variable
        index = self.starts[kind][run] + entry
        return (kind, place[index]) if kind == "x" else (kind, index)

    def name(self, kind: str, run: int) -> str:
        """Return what a vector is called: x and y, or x1, y1, x2, y2, … of several runs."""
        return f"{kind}{run + 1}" if self.runs > 1 else kind

    def named(self, variable: Variable) -> str:
        """Return a variable as a user would write it, such as y[3]; axes of size 1 are left out."""
        kind, run, entry = variable
        where = np.unravel_index(entry, squeezed(self.shape(kind, run)))
        return f"{self.name(kind, run)}[{', '.join(map(str, where))}]"

    def same(self, other: Space) -> bool:
        """Say whether the runs of both are of the same networks with the same outputs."""
        return self is other or (self.runs == other.runs and all(map(_equal, self.networks, other.networks)))

    def check(self, run: int, model: Any, network: Network) -> None:
        """Refuse a network other than the variables'; a module may have been trained in the meantime."""
        mine = self.networks[run]
        trained = model is self.sources[run] and isinstance(model, torch.nn.Module)
        shapes = (mine.input_shape, mine.output_shape) == (network.input_shape, network.output_shape)
        if not (trained and shapes) and not _equal(mine, network):
            raise UsageError(
                f"the condition is about the variables of another network ({_about(mine)}, not {_about(network)})",
                remedy="make variables of this one: x, y = netproof.variables(network)",
            )

    @property
    def about(self) -> str:
        """Describe the networks in a few words."""
        runs = "" if self.runs == 1 else f", {self.runs} runs"
        return ", ".join(dict.fromkeys(map(_about, self.networks))) + runs

    def interface(self, place: Sequence[int]) -> Interface:
        """Declare the runs as a VNN-LIB 2.0 query would: a further one of a network is equal to the first."""
        names = ["f"] if self.runs == 1 else [f"f{run + 1}" for run in range(self.runs)]
        networks = []
        for run, name in enumerate(names):
            tensors = tuple(tensor for kind in "xy" for tensor in self._tensors(kind, run))
            first = names[next(k for k in range(run + 1) if self.networks[k] is self.networks[run])]
            networks.append(Declared(name, tensors, equal_to="" if first == name else first))
        return Interface(tuple(networks), tuple(place))

    def _tensors(self, kind: str, run: int) -> list[Tensor]:
        infos, name = self.infos(kind, run), self.name(kind, run).upper()
        what = "input" if kind == "x" else "output"
        names = [name] if len(infos) == 1 else [f"{name}_{k}" for k in range(len(infos))]
        return [Tensor(own, what, "real", info.shape) for own, info in zip(names, infos, strict=True)]


def _equal(a: Network, b: Network) -> bool:
    """Say whether two are read from the same bytes, with the same outputs."""
    names = [info.name for info in a.outputs] == [info.name for info in b.outputs]
    return a is b or (names and a.identity == b.identity)


def _about(network: Network) -> str:
    return f"{network.path}: {list(network.input_shape)} -> {list(network.output_shape)}"


def squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without its axes of size 1; of one number, (1,)."""
    return tuple(size for size in shape if size != 1) or (1,)


def joint(left: Space | None, right: Space | None) -> Space | None:
    """Return the space of an expression of two; UsageError where these are of different networks."""
    if left is None or right is None or left is right:
        return left or right
    if not left.same(right):
        raise UsageError(
            f"variables of different networks do not mix ({left.about}; {right.about})",
            remedy="use the variables of one call of netproof.variables or netproof.runs",
        )
    return left
