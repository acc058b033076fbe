"""A module that looks at values of its input is refused, or answered as the module itself answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import netproof
from model import value_reads
from netproof.errors import ModelError, UsageError

CALLS = 50  # of a module whose answer depends on the call


def says_other(module: nn.Module, point: np.ndarray) -> bool:
    """Say whether the module answers another label than 0 in some call."""
    x = torch.from_numpy(point)
    with torch.no_grad():
        return any(int(module(x.clone()).argmax()) != 0 for _ in range(CALLS))


@pytest.mark.parametrize("name", value_reads.NAMES)
def test_values_that_forward_looks_at(name: str) -> None:
    centre = np.array([value_reads.INSIDE], np.float32)
    torch.manual_seed(0)
    assert says_other(value_reads.made(name), centre)
    region = netproof.box(np.full((1, 2), value_reads.LOW), np.full((1, 2), value_reads.HIGH))
    try:
        verdict = netproof.verify(value_reads.made(name), region, label=0, timeout=20, device="cpu", threads=1)
    except (ModelError, UsageError):
        return
    assert verdict.status != "unsat"
    if verdict.witness is not None:
        assert says_other(value_reads.made(name), verdict.witness.input)
