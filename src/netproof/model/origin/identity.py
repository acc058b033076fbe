"""Which torch module a network was made from: its class, a hash of its weights, and the shape of its call."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from netproof.core.about import ModuleIdentity
from netproof.model.canonical import Hasher

FORM = "netproof weights 1"


def module_identity(module: torch.nn.Module, shape: Sequence[int]) -> ModuleIdentity:
    """Describe a module as it is now: a hash of what it computes with later would be that of another."""
    hasher = Hasher()
    hasher.text(FORM)
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name, tensor in sorted(tensors, key=lambda named: named[0]):
        hasher.text(name)
        hasher.tensor(tensor)
    kind = type(module)
    return ModuleIdentity(f"{kind.__module__}.{kind.__qualname__}", hasher.hex(), tuple(shape))
