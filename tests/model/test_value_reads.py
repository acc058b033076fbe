"""A module that looks at values of its input is refused, or answered as the module itself answers."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from torch import nn

import netproof
from model.value_reads import NAMES, made
from model.value_reads.net import HIGH, INSIDE, LOW
from netproof.errors import ModelError, UsageError

CALLS = 50  # of a module whose answer depends on the call


def answers(module: nn.Module, point: np.ndarray) -> np.ndarray:
    """Call the module again and again, until it answers another label than 0."""
    found = []
    with torch.no_grad():
        for _ in range(CALLS):
            found.append(module(torch.from_numpy(point.copy())).numpy().copy())
            if found[-1].argmax() != 0:
                break
    return np.concatenate(found)


def says_other(module: nn.Module, point: np.ndarray) -> bool:
    return bool(answers(module, point).argmax(1).any())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", NAMES)
def test_values_that_forward_looks_at(name: str) -> None:
    centre = np.array([INSIDE], np.float32)
    torch.manual_seed(0)
    assert says_other(made(name), centre)
    everywhere = netproof.box(np.full((1, 2), LOW), np.full((1, 2), HIGH))
    with contextlib.suppress(ModelError, UsageError):
        verdict = netproof.verify(made(name), everywhere, label=0, timeout=20, device="cpu", threads=1)
        assert verdict.status != "unsat"
        assert verdict.witness is None or says_other(made(name), verdict.witness.input)
    with contextlib.suppress(ModelError, UsageError):
        found = netproof.bounds(made(name), netproof.linf_ball(centre, 1e-6), timeout=20, device="cpu", threads=1)
        inside = answers(made(name), centre)
        assert ((found.lower - 0.1 <= inside) & (inside <= found.upper + 0.1)).all(1).any()
