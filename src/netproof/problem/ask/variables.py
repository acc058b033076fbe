"""The variables of a network: symbolic vectors of its inputs and outputs, in one run or in several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from netproof.arguments import shown, whole, whole_numbers
from netproof.core.torch_state import engine_state
from netproof.errors import UsageError
from netproof.model.load import read_network
from netproof.model.network import Network
from netproof.problem.ask.space import Space
from netproof.problem.ask.vectors import Vector
from netproof.problem.specs import InputRegion

MOST_RUNS = 100

Pair = tuple[Vector, Vector]


def variables(network: Any, shape: Any = None, *, outputs: Sequence[str] | None = None) -> Pair:
    """Return symbolic vectors x of a network's inputs and y of its outputs.

    network: what `verify` takes. shape: of one input to a torch module, or an input region that has it.
    outputs: as in `verify`, which then need not be told again.
    """
    (pair,) = _runs([network], shape, outputs)
    return pair


def runs(networks: Any, count: int = 2, shape: Any = None, *, outputs: Sequence[str] | None = None) -> tuple[Pair, ...]:
    """Return the variables (x, y) of several runs of one network, or of one run of each of a list of networks.

    Each run has an input of its own. The other arguments are those of `variables`.
    """
    several = isinstance(networks, list | tuple)
    if several and not networks:
        raise UsageError("no networks were given", remedy="give one, or a list of them")
    return _runs(networks if several else [networks] * whole(count, "count", 1, MOST_RUNS), shape, outputs)


@engine_state()
def _runs(given: Sequence[Any], shape: Any, outputs: Sequence[str] | None) -> tuple[Pair, ...]:
    known: dict[int, Network] = {}  # by id: a network that is run again is read once
    for one in given:
        if isinstance(one, torch.nn.Module) and shape is None:
            raise UsageError(
                "a torch module does not say what its input looks like",
                remedy="give the shape of one input or the region, as in netproof.variables(module, (1, 28, 28))",
            )
        if id(one) not in known:
            known[id(one)] = read_network(one, _shape(shape), outputs)
    networks = tuple(known[id(one)] for one in given)
    space = Space(tuple(given), networks, None if outputs is None else tuple(outputs))
    return tuple((Vector.variables(space, "x", run), Vector.variables(space, "y", run)) for run in range(len(given)))


def _shape(shape: Any) -> tuple[int, ...] | None:
    if isinstance(shape, InputRegion):
        return shape.shape
    if shape is None:
        return None
    if isinstance(shape, str | bytes):
        raise UsageError(f"shape cannot be {shown(shape)}", remedy="give a shape such as (1, 28, 28)")
    return tuple(whole_numbers(shape, "shape", 1))
