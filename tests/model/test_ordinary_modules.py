"""Modules whose Python never looks at values of the input are not refused for it, and are answered as they answer."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

import netproof
from model.ordinary_modules import MODULES, UNREAD
from netproof.errors import ModelError

RADIUS, POINTS = 1e-3, 3
NOISE = {torch.float16: 2e-2, torch.float32: 1e-4, torch.float64: 1e-6}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_answered_as_it_answers(name: str) -> None:
    torch.manual_seed(0)
    module, shape = MODULES[name].build().eval(), MODULES[name].shape
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    try:
        network = netproof.load_network(module, example_shape=shape)
    except ModelError as error:
        if name not in UNREAD or re.search("(looks at|reads|holds) values", error.message):
            raise
        return
    for x in torch.rand(POINTS, *shape, generator=torch.Generator().manual_seed(1)) * 2 - 1:
        found = netproof.bounds(network, netproof.linf_ball(x.numpy(), RADIUS), timeout=20, device="cpu", threads=1)
        with torch.no_grad():
            leaves = [t for t in tree_leaves(module(x.to(dtype))) if isinstance(t, torch.Tensor)]
        answer = torch.cat([t.flatten() for t in leaves]).double().numpy()
        lower, upper = found.lower.reshape(-1), found.upper.reshape(-1)
        slack = NOISE[dtype] * (1 + np.abs(answer))
        assert (lower - slack <= answer).all()
        assert (answer <= upper + slack).all()
        assert (upper - lower < 1).all()
