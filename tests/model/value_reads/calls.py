"""Modules whose answer depends on the calls before, or on nothing that is given."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.value_reads.net import SWING


def counted(first: int, period: int) -> Callable[[Any, Tensor], Tensor]:
    def body(net: Any, x: Tensor) -> Tensor:
        net.calls += 1
        return net.linear(x).flip(-1) if net.calls >= first and net.calls % period == 0 else net.linear(x)

    return body


def counted_in_a_buffer(net: Any, x: Tensor) -> Tensor:
    net.seen.add_(1)
    return net.linear(x) + SWING * (net.seen % 2)


def counted_in_a_closure() -> Callable[[Any, Tensor], Tensor]:
    turns = itertools.count()
    return lambda net, x: net.linear(x).flip(-1) if next(turns) % 2 else net.linear(x)


def learning(net: Any, x: Tensor) -> Tensor:
    net.linear.weight.data.mul_(-1)
    return net.linear(x)


def remembered(net: Any, x: Tensor) -> Tensor:
    """Kept by the identity of the input, which is another one each time."""
    net.kept[id(x)] = x
    return net.linear(x).flip(-1) if len(net.kept) > 1 else net.linear(x)


CALLS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "counter": counted(1, 2),
    "counter-from-the-second": counted(2, 1),
    "counter-buffer": counted_in_a_buffer,
    "learning": learning,
    "remembered": remembered,
    "random": lambda net, x: net.linear(x) + SWING * (torch.rand(1, 2) > 0.5),
    "random-like": lambda net, x: net.linear(x) + SWING * torch.rand_like(x).round(),
    "random-normal": lambda net, x: net.linear(x) + torch.randn(1, 2) * 100,
    "random-permutation": lambda net, x: net.linear(x)[:, torch.randperm(2)],
    "random-of-python": lambda net, x: net.linear(x).flip(-1) if random.random() > 0.5 else net.linear(x),
    "random-of-numpy": lambda net, x: net.linear(x).flip(-1) if np.random.random() > 0.5 else net.linear(x),
    "random-in-place": lambda net, x: net.linear(x) + SWING * torch.zeros(1, 2).bernoulli_(0.5),
    "dropout": lambda net, x: F.dropout(net.linear(x), 0.5, training=True),
    "dropout-that-trains": lambda net, x: nn.Dropout(0.5)(net.linear(x)),
    "uninitialized": lambda net, x: net.linear(x) + SWING * torch.empty(1, 2).uniform_(0, 1),
    "clock": lambda net, x: net.linear(x).flip(-1) if time.perf_counter_ns() // 1000 % 2 else net.linear(x),
}
