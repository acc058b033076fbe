"""Modules as people write them: Python looks at shapes, constants, parameters and modes, never at values of the input.

Each is a function that builds the module, and the shape that it is called with.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import os
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

Forward = Callable[[Any, Tensor], Tensor]


class Net(nn.Module):
    """Two layers around a piece of Python, and what it may use."""

    def __init__(self, between: Forward) -> None:
        super().__init__()
        self.first, self.second, self.middle = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.positions = nn.Parameter(torch.rand(1, 4))
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("table", torch.arange(12.0).reshape(3, 4))
        self.register_buffer("once", torch.ones(4), persistent=False)
        self.register_buffer("nothing", None)
        self.weights = torch.linspace(0, 1, 4)
        self.flag, self.calls, self.kept, self.size = True, 0, {}, 4
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
        self.several = nn.ParameterList([nn.Parameter(torch.rand(4)) for _ in range(2)])
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.between(self, self.first(x))))


def by_shape(net: Net, x: Tensor) -> Tensor:
    if x.dim() == 2 and x.shape[-1] == 4 and x.size(0) >= 1 and len(x) == 1 and x.numel() > 3:
        return x.view(x.size(0), 2, -1).flip(1).flatten(1)
    raise ValueError("another shape")


def by_checks(net: Net, x: Tensor) -> Tensor:
    assert x.shape[1] == net.size, f"{x.shape}"
    torch._assert(x.shape[0] == 1, "one at a time")
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dtype != torch.float32 or x.device.type != "cpu":
        raise TypeError(type(x))
    return x if x.is_contiguous() and x.stride(1) == 1 else x.contiguous()


def by_mode(net: Net, x: Tensor) -> Tensor:
    if net.training:
        return x + torch.rand_like(x)
    return x


def by_loop(net: Net, x: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for i in range(x.shape[1]):
        total = total + x[:, i : i + 1] * (i + 1)
    while total.dim() < 4:
        total = total.unsqueeze(0)
    return total.reshape(x.shape)


def written_columns(net: Net, x: Tensor) -> Tensor:
    out = torch.zeros(x.shape[0], 4)
    out[:, 0] = x[:, 0]
    out[:, 1:3] = x[:, 2:] * 2
    return out


def written_columns_in_a_loop(net: Net, x: Tensor) -> Tensor:
    out = x.new_zeros(x.shape)
    for i in range(4):
        out[:, i] = x[:, 3 - i]
    return out


def in_place(net: Net, x: Tensor) -> Tensor:
    y = x.clone()
    y.mul_(2).add_(1)
    y[:, 0] += 1
    y[:, 1:].clamp_(min=0)
    return y


def in_place_mask(net: Net, x: Tensor) -> Tensor:
    return x.masked_fill(~net.mask, 0.0) + x.clone().masked_fill_(net.mask, 1.0)


def constant_mask(net: Net, x: Tensor) -> Tensor:
    mask = torch.ones(4, dtype=torch.bool)
    if mask.all() and mask.sum().item() == 4 and not torch.any(~mask):
        return x[:, mask]
    return x


def causal_mask(net: Net, x: Tensor) -> Tensor:
    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), diagonal=1)
    scores = x.transpose(0, 1) @ x
    return torch.softmax(scores.masked_fill(mask, -1e4), -1).sum(0, keepdim=True)


def cached_by_shape(net: Net, x: Tensor) -> Tensor:
    key = (x.shape[-1], x.dtype)
    if key not in net.kept:
        net.kept[key] = torch.arange(x.shape[-1], dtype=x.dtype)
    return x * net.kept[key]


@functools.lru_cache
def angles(size: int) -> Tensor:
    return torch.arange(size).float() / math.sqrt(size)


def rotated(net: Net, x: Tensor) -> Tensor:
    angle = torch.arange(2, device=x.device, dtype=x.dtype) / 2
    a, b = x.chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)


def numpy_constants(net: Net, x: Tensor) -> Tensor:
    grid = np.linspace(0, 1, x.shape[1], dtype=np.float32)
    return x * torch.from_numpy(grid) + torch.as_tensor(np.sqrt(2.0), dtype=x.dtype)


def steered_by_parameters(net: Net, x: Tensor) -> Tensor:
    if net.scale.item() > 0 and bool(net.table.max() > 3) and float(net.weights.sum()) > 0:
        x = x * net.scale
    return x * len(net.mask.nonzero()) + net.mask.sum().item()


def by_buffers(net: Net, x: Tensor) -> Tensor:
    if net.nothing is not None:
        return net.nothing
    return x + net.table[1] * net.once + dict(net.named_buffers())["table"][2]


def by_lists(net: Net, x: Tensor) -> Tensor:
    return x + torch.tensor(net.weights.tolist()) + torch.tensor([float(p.sum()) for p in net.several])[0]


def with_warning(net: Net, x: Tensor) -> Tensor:
    if x.shape[1] < 4:
        warnings.warn("narrow", stacklevel=1)
    return x


def with_try(net: Net, x: Tensor) -> Tensor:
    try:
        return x.view(2, 2).reshape(1, 4)
    except RuntimeError:
        return x.reshape(1, 4)


def with_a_shape_that_fails(net: Net, x: Tensor) -> Tensor:
    try:
        return x.view(3, -1)
    except RuntimeError:
        return x * 2


def counting(net: Net, x: Tensor) -> Tensor:
    net.calls += 1
    return x


def keeping(net: Net, x: Tensor) -> Tensor:
    """Activations are kept for whoever wants to see them."""
    net.kept["activation"] = x
    return x.relu()


def keeping_detached(net: Net, x: Tensor) -> Tensor:
    net.kept["activation"] = x.detach()
    return x.relu()


def checkpointed(net: Net, x: Tensor) -> Tensor:
    return checkpoint(net.middle, x, use_reentrant=False)


def functional_call(net: Net, x: Tensor) -> Tensor:
    weights = {name: 2 * value for name, value in net.middle.named_parameters()}
    return torch.func.functional_call(net.middle, weights, (x,))


def named_layers(net: Net, x: Tensor) -> Tensor:
    for name, layer in net.named.items():
        x = layer(x) if name in ("a", "b") else x
    return x


def skipped_layers(net: Net, x: Tensor) -> Tensor:
    for i, layer in enumerate(net.layers):
        x = x + layer(x) if i % 2 == 0 else layer(x)
    return x


def no_gradient(net: Net, x: Tensor) -> Tensor:
    with torch.no_grad():
        scale = net.scale.clone().clamp(min=0)
    with torch.autocast("cpu", enabled=False), contextlib.suppress(KeyError):
        x = x * scale
    return x


class Doubling(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


class Straight(torch.autograd.Function):
    """A step whose gradient is another one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


@torch.jit.script
def scripted(x: Tensor) -> Tensor:
    for _ in range(2):
        x = torch.relu(x) - 0.1
    return x


@torch.jit.script
def scripted_by_shape(x: Tensor) -> Tensor:
    if x.size(1) > 2:
        return x * 2
    return x


@functools.cache
def compiled() -> Callable[[Tensor], Tensor]:
    return torch.compile(lambda x: torch.relu(x) * 2, backend="eager")


BETWEEN: dict[str, Forward] = {
    # Shapes, types and modes
    "shape": by_shape,
    "checks": by_checks,
    "mode": by_mode,
    "loop": by_loop,
    "rows": lambda net, x: torch.stack(list(x)),
    "unbind": lambda net, x: torch.stack([c * i for i, c in enumerate(x.unbind(1))], 1),
    "zip-over-columns": lambda net, x: torch.stack([a + b for a, b in zip(x.T, net.weights, strict=True)], 1),
    "type-name": lambda net, x: x.to(dtype=net.first.weight.dtype, device=next(net.parameters()).device),
    "compiling": lambda net, x: x if torch.compiler.is_compiling() else x * 1.0,
    "grad-enabled": lambda net, x: x * (1 if torch.is_grad_enabled() or not net.training else 2),
    "environment": lambda net, x: x * (2 if os.environ.get("OWN_SETTING") else 1),
    "default-type": lambda net, x: x.to(torch.get_default_dtype()),
    "warning": with_warning,
    "try": with_try,
    "try-a-shape": with_a_shape_that_fails,
    # Constants
    "arange": lambda net, x: x + torch.arange(x.shape[1]),
    "tensor": lambda net, x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + x.new_tensor(0.5),
    "full": lambda net, x: torch.where(x > torch.full_like(x, 0.25), x, torch.zeros(())),
    "eye": lambda net, x: x @ torch.eye(4).flip(0),
    "linspace": lambda net, x: x * torch.linspace(0, 1, 4) + torch.logspace(0, 1, 4),
    "fixed-order": lambda net, x: x[:, [2, 0, 1, 3]],
    "index-tensor": lambda net, x: x[:, torch.tensor([3, 1, 0, 2])],
    "index-select": lambda net, x: x.index_select(1, torch.randperm(4, generator=torch.Generator().manual_seed(0))),
    "gather": lambda net, x: x.gather(1, torch.tensor([[1, 0, 3, 2]])),
    "constant-mask": constant_mask,
    "buffer-mask": lambda net, x: F.pad(x[:, net.mask], (0, 1)),
    "causal-mask": causal_mask,
    "cached-by-shape": cached_by_shape,
    "cached-function": lambda net, x: x + angles(x.shape[1]),
    "rotated": rotated,
    "numpy": numpy_constants,
    "parameters-steer": steered_by_parameters,
    "parameter-list": by_lists,
    "parameter-data": lambda net, x: F.linear(x, net.middle.weight.data, net.middle.bias.detach()),
    "parameter-text": lambda net, x: x * (1 if "0.5" in str(net.scale) else 2),
    "parameter-array": lambda net, x: x * float(net.positions.detach().numpy().max()),
    "parameter-unique": lambda net, x: x + net.table.unique().numel(),
    "buffers": by_buffers,
    "attribute": lambda net, x: x * net.weights if net.flag else x,
    "embedding": lambda net, x: x + F.embedding(torch.arange(1), net.table),
    "one-hot": lambda net, x: x + F.one_hot(torch.tensor([1]), 4),
    "deepcopy-of-a-layer": lambda net, x: copy.deepcopy(net.middle)(x),
    # Operations
    "written-columns": written_columns,
    "written-in-a-loop": written_columns_in_a_loop,
    "in-place": in_place,
    "in-place-mask": in_place_mask,
    "in-place-relu": lambda net, x: F.relu(x + 1, inplace=True).sub_(1),
    "pad": lambda net, x: F.pad(x, (1, 1), value=1.0)[:, 1:-1] + F.pad(x[:, :3], (1, 0)),
    "einsum": lambda net, x: torch.einsum("bi,ji->bj", x, net.middle.weight),
    "halves": lambda net, x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "split": lambda net, x: torch.cat(torch.split(x, [1, 3], 1)[::-1], 1),
    "tensor-split": lambda net, x: torch.cat(torch.tensor_split(x, 3, 1)[::-1], 1),
    "views": lambda net, x: x.view(2, 2).t().contiguous().view(1, 4),
    "strided": lambda net, x: x.as_strided((1, 4), (4, 1)) * 2,
    "expand": lambda net, x: x[:, None].expand(-1, 3, -1).mean(1),
    "roll": lambda net, x: x.roll(1, 1) + x.flip(1),
    "norm": lambda net, x: net.norm(x),
    "normalize": lambda net, x: F.normalize(x + 3, dim=1),
    "layer-norm": lambda net, x: F.layer_norm(x, x.shape[1:]),
    "where": lambda net, x: torch.where(x > 0, x, 0.1 * x),
    "clamp": lambda net, x: x.clamp(-0.5, 0.5).abs().sqrt(),
    "maximum": lambda net, x: torch.maximum(x, net.weights) + x.amax(1, keepdim=True),
    "softmax": lambda net, x: F.softmax(x, dim=-1) + F.gelu(x),
    "half-way": lambda net, x: x.double().float(),
    "dropout": lambda net, x: F.dropout(x, 0.5, net.training),
    "detach": lambda net, x: x + x.detach(),
    "straight-through": lambda net, x: x + (x.clamp(0, 1) - x).detach(),
    "interpolate": lambda net, x: F.interpolate(x[:, None], scale_factor=2, mode="nearest")[:, 0, ::2],
    "function": lambda net, x: Straight.apply(x),
    "vmap": lambda net, x: torch.func.vmap(lambda row: row * 2)(x),
    # The module itself
    "counting": counting,
    "keeping": keeping,
    "keeping-detached": keeping_detached,
    "checkpoint": checkpointed,
    "functional-call": functional_call,
    "named-layers": named_layers,
    "skipped-layers": skipped_layers,
    "shared-weights": lambda net, x: F.linear(net.middle(net.middle(x)), net.middle.weight.t()),
    "no-gradient": no_gradient,
    "script": lambda net, x: scripted(x),
    "script-by-shape": lambda net, x: scripted_by_shape(x),
    "compiled": lambda net, x: compiled()(x),
    "mode-of-python": lambda net, x: x * sum(isinstance(m, nn.Linear) for m in net.modules()),
}


class Ordinary(NamedTuple):
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]


def _installed(install: Callable[[Net], Any]) -> nn.Module:
    net = Net(lambda net, x: net.middle(x))
    install(net)
    return net


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        answer, _ = self.inner(x, x, x, need_weights=False)
        return answer.mean(1)


class Fused(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(3, 3).tril().bool()
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask) + F.scaled_dot_product_attention(
            x, x, x, is_causal=True
        )


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.inner, self.last = kind(2, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(x)[0][:, -1])


class Cells(nn.Module):
    """A recurrence that is written out."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.cell, self.last = kind(2, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return self.last(state[0] if isinstance(state, tuple) else state)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1, groups=2)
        self.norm, self.last = nn.BatchNorm2d(2), nn.Linear(2, 3)
        self.shortcut: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.norm(self.first(x)), inplace=True))
        y += x if self.shortcut is None else self.shortcut(x)
        y = F.relu_(y)
        if y.shape[-2:] != x.shape[-2:]:
            y = F.interpolate(y, size=x.shape[-2:])
        return self.last(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.token = nn.Conv2d(1, 4, 2, stride=2), nn.Parameter(torch.rand(1, 1, 4))
        self.places = nn.Parameter(torch.rand(1, 5, 4))
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, 0.1, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        torch._assert(height == width, "a square")
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(batch, -1, -1), tokens], 1)
        return self.head(self.encoder(tokens + self.places[:, : tokens.shape[1]])[:, 0])


class Several(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"sum": x.sum(1, keepdim=True), "double": 2 * x}


class Single(nn.Module):
    """Answers in float32 whatever the layers are of."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.double()).float()


def encoder(layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    return nn.Sequential(
        nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Flatten(), nn.Linear(12, 2)
    )


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.3), nn.BatchNorm1d(6), nn.Linear(6, 2))


def tied() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    return net


def frozen() -> nn.Module:
    net = perceptron()
    for weight in net.parameters():
        weight.requires_grad_(False)
    return net


def pruned() -> nn.Module:
    from torch.nn.utils import prune

    net = nn.Linear(4, 3)
    prune.random_unstructured(net, "weight", amount=0.5)
    return net


def lazy() -> nn.Module:
    net = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    net(torch.zeros(1, 4))
    return net


def convolutional() -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(1, 2, 3, padding=1), act=nn.ReLU(inplace=True), pool=nn.MaxPool2d(2), flat=nn.Flatten(),
            last=nn.Linear(8, 2),
        )
    )  # fmt: skip


MODULES: dict[str, Ordinary] = {
    **{name: Ordinary(functools.partial(Net, between), (1, 4)) for name, between in BETWEEN.items()},
    "perceptron": Ordinary(perceptron, (1, 4)),
    "perceptron-float64": Ordinary(lambda: perceptron().double(), (1, 4)),
    "perceptron-float16": Ordinary(lambda: perceptron().half(), (1, 4)),
    "perceptron-frozen": Ordinary(frozen, (1, 4)),
    "perceptron-scripted": Ordinary(lambda: torch.jit.script(perceptron().eval()), (1, 4)),
    "perceptron-traced": Ordinary(lambda: torch.jit.trace(perceptron().eval(), torch.rand(1, 4)), (1, 4)),
    "perceptron-compiled": Ordinary(lambda: torch.compile(perceptron(), backend="eager"), (1, 4)),
    "perceptron-symbolic": Ordinary(lambda: torch.fx.symbolic_trace(perceptron().eval()), (1, 4)),
    "mixed-types": Ordinary(Single, (1, 4)),
    "tied": Ordinary(tied, (1, 4)),
    "pruned": Ordinary(pruned, (1, 4)),
    "lazy": Ordinary(lazy, (1, 4)),
    "several-outputs": Ordinary(Several, (1, 4)),
    "identity": Ordinary(nn.Identity, (1, 4)),
    "softmax-last": Ordinary(lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), (1, 4)),
    "bilinear": Ordinary(lambda: nn.Sequential(nn.Linear(4, 4), nn.GLU()), (1, 4)),
    "weight-norm": Ordinary(lambda: parametrizations.weight_norm(nn.Linear(4, 3)), (1, 4)),
    "weight-norm-of-old": Ordinary(lambda: nn.utils.weight_norm(nn.Linear(4, 3)), (1, 4)),
    "spectral-norm": Ordinary(lambda: parametrizations.spectral_norm(nn.Linear(4, 3)), (1, 4)),
    "spectral-norm-of-old": Ordinary(lambda: nn.utils.spectral_norm(nn.Linear(4, 3)), (1, 4)),
    "orthogonal": Ordinary(lambda: parametrizations.orthogonal(nn.Linear(4, 4)), (1, 4)),
    "parametrization": Ordinary(
        lambda: _installed(lambda net: parametrize.register_parametrization(net.middle, "weight", Doubling())), (1, 4)
    ),
    "forward-hook": Ordinary(
        lambda: _installed(lambda net: net.middle.register_forward_hook(lambda module, given, answer: answer * 2)),
        (1, 4),
    ),
    "forward-pre-hook": Ordinary(
        lambda: _installed(lambda net: net.register_forward_pre_hook(lambda module, given: (given[0] + 1,))), (1, 4)
    ),
    "forward-hook-of-the-whole": Ordinary(
        lambda: _installed(lambda net: net.register_forward_hook(lambda module, given, answer: answer.exp())),
        (1, 4),
    ),
    "hook-that-keeps": Ordinary(
        lambda: _installed(
            lambda net: net.middle.register_forward_hook(
                lambda module, given, answer: net.kept.update(seen=answer.detach())
            )
        ),
        (1, 4),
    ),
    "convolutions": Ordinary(convolutional, (1, 1, 4, 4)),
    "convolutions-channels-last": Ordinary(lambda: convolutional().to(memory_format=torch.channels_last), (1, 1, 4, 4)),
    "residual": Ordinary(Residual, (1, 2, 4, 4)),
    "group-norm": Ordinary(lambda: nn.Sequential(nn.Conv2d(2, 4, 1), nn.GroupNorm(2, 4), nn.Flatten()), (1, 2, 2, 2)),
    "instance-norm": Ordinary(lambda: nn.Sequential(nn.InstanceNorm2d(2), nn.Flatten()), (1, 2, 3, 3)),
    "upsampled": Ordinary(
        lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(1, 1, 2), nn.Flatten()), (1, 1, 2, 2)
    ),
    "transposed": Ordinary(lambda: nn.Sequential(nn.ConvTranspose2d(1, 2, 2, stride=2), nn.Flatten()), (1, 1, 2, 2)),
    "patches": Ordinary(Patches, (1, 1, 4, 4)),
    "attention": Ordinary(Attention, (1, 3, 4)),
    "attention-fused": Ordinary(Fused, (1, 1, 3, 4)),
    "encoder": Ordinary(lambda: encoder(2), (1, 3, 4)),
    "lstm": Ordinary(lambda: Recurrent(nn.LSTM), (1, 3, 2)),
    "gru": Ordinary(lambda: Recurrent(nn.GRU), (1, 3, 2)),
    "rnn": Ordinary(lambda: Recurrent(nn.RNN), (1, 3, 2)),
    "lstm-cells": Ordinary(lambda: Cells(nn.LSTMCell), (1, 3, 2)),
    "gru-cells": Ordinary(lambda: Cells(nn.GRUCell), (1, 3, 2)),
}

# What netproof may refuse, but for an operator, never for a value that is read.
UNREAD = frozenset(("index-select", "tensor-split", "mixed-types", "orthogonal", "deepcopy-of-a-layer", "vmap"))
