"""Proofs in float32, with some of what they charge only."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from netproof.bounds.condensed import single
from netproof.bounds.condensed.single import Single, single_copy
from netproof.bounds.net import Pulled
from netproof.bounds.neurons.root import Root
from netproof.bounds.packed import Lagrangian, Packed

DOUBLE = torch.float64


def float32_first(*devices: str) -> AbstractContextManager[Any]:
    """Let float32 be asked first on a CPU too, or on these devices only."""
    return mock.patch.object(single, "FIRST_ON", devices or ("cpu", "cuda"))


def single_of(root: Root) -> Single:
    """Return the network to prove with in float32, wherever it is used."""
    found = single_copy(root.net64, root.net32)
    assert found is not None
    return found


def only(net: Single, *names: str) -> Single:
    """Return the same with all charges in float32 gone but these."""
    every = ("before", "after", "split", "seed", "trunk", "input", "lost")
    gone = {n: torch.zeros_like(getattr(net.charges, n)) for n in every if n not in names}
    return replace(net, charges=replace(net.charges, **gone))


def pull(net: Single, seed: Tensor, lines: Packed, slopes: Tensor, signed: Tensor | None = None) -> Tensor:
    """Bound forms (domain, 1 + Y + U) over the condensed network's columns: (domain,)."""
    counted = net.with_rows(seed[:, None], torch.zeros(len(seed), 1, dtype=DOUBLE))
    found: Pulled = net.backward(counted.rows[:, 0], Lagrangian(lines.at(slopes), signed))
    return found.value - counted.error[:, 0]
