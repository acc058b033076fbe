"""One torch module for each operator that is piecewise linear or jumps, between two affine layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Function = Callable[[Tensor], Tensor]


class Between(nn.Module):
    """A function of six numbers between two affine layers, with weights that the seed gives."""

    def __init__(self, function: Function | nn.Module, seed: int = 0, outputs: int = 6, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(2, 6), nn.Linear(outputs, 2)
        with torch.no_grad():
            for layer in (self.first, self.last):
                layer.weight.copy_(torch.randn_like(layer.weight) * scale)
                layer.bias.copy_(torch.randn_like(layer.bias) * 0.3)
        self.function = function

    @property
    def affine(self) -> nn.Module:
        return self.first

    def after(self, h: Tensor) -> Tensor:
        return self.function(h)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)).flatten(1))


def natively(module: Between | Pooled, lower: Tensor, upper: Tensor) -> float:
    """What intervals prove of the first output at most, the function taken as one.

    Its own intervals are no narrower than the values that it takes on the box of what it reads, here at corners and
    random points.
    """
    with torch.no_grad():
        low, high = _through(module.affine, lower, upper)
        random = torch.Generator().manual_seed(0)
        share = torch.rand(4000, *low.shape[1:], generator=random)
        share = torch.cat([share, share.round(), torch.zeros_like(share[:1]), torch.ones_like(share[:1])])
        values = module.after((low + share * (high - low)).to(torch.float32)).flatten(1)
        low, high = values.amin(0, keepdim=True), values.amax(0, keepdim=True)
        return float(_through(module.last, low, high)[1].flatten()[0])


def _through(layer: nn.Module, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """The bounds of an affine layer on a box."""
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor)
    sides = []
    for first, second in ((lower, upper), (upper, lower)):
        with torch.no_grad():
            layer.weight, layer.bias = nn.Parameter(weight.clamp(min=0)), bias
            total = layer(first)
            layer.weight, layer.bias = nn.Parameter(weight.clamp(max=0)), None
            sides.append(total + layer(second))
            layer.weight, layer.bias = weight, bias
    return sides[0], sides[1]


class Pooled(nn.Module):
    """A convolution of a small image, a pool, an affine layer."""

    def __init__(self, pool: nn.Module, entries: int, axes: int = 2, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        conv = {1: nn.Conv1d, 2: nn.Conv2d}[axes]
        self.conv, self.pool, self.last = conv(1, 2, 2), pool, nn.Linear(entries, 2)

    @property
    def affine(self) -> nn.Module:
        return self.conv

    def after(self, h: Tensor) -> Tensor:
        return self.pool(torch.relu(h))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.after(self.conv(x)).flatten(1))


def slopes(*numbers: float) -> nn.PReLU:
    """PReLU with these slopes, one for each channel."""
    found = nn.PReLU(len(numbers))
    with torch.no_grad():
        found.weight.copy_(torch.tensor(numbers))
    return found


HINGES: dict[str, tuple[Function | nn.Module, int]] = {  # and how many numbers the function gives for six
    "max": (lambda h: torch.maximum(h[:, :3], h[:, 3:]), 3),
    "max-constant": (lambda h: torch.maximum(h, torch.tensor([0.1, -0.2, 0.3, 0.0, 0.5, -0.4])), 6),
    "min": (lambda h: torch.minimum(h[:, :3], h[:, 3:]), 3),
    "min-constant": (lambda h: torch.minimum(h, torch.tensor(0.25)), 6),
    "clip": (lambda h: h.clamp(-0.5, 0.4), 6),
    "clip-below": (lambda h: h.clamp(min=-0.5), 6),
    "clip-above": (lambda h: h.clamp(max=0.4), 6),
    "relu6": (lambda h: F.relu6(4 * h), 6),
    "hardtanh": (nn.Hardtanh(), 6),
    "hardsigmoid": (lambda h: F.hardsigmoid(3 * h), 6),
    "abs": (torch.abs, 6),
    "prelu": (slopes(0.1, 0.25, 1.5, -0.5, 1.0, 0.0), 6),
    "prelu-one": (slopes(0.25), 6),
    "leaky-negative": (lambda h: F.leaky_relu(h, -0.5), 6),
    "leaky-steep": (lambda h: F.leaky_relu(h, 1.5), 6),
    "reduce-max": (lambda h: h.view(-1, 2, 3).amax(2), 2),
    "reduce-min": (lambda h: h.view(-1, 2, 3).amin((1, 2), keepdim=True), 1),
    "global-max-pool": (lambda h: F.adaptive_max_pool1d(h.view(-1, 2, 3), 1), 2),
    "where-leaky": (lambda h: torch.where(h > 0, h, 0.1 * h), 6),
}

JUMPS: dict[str, tuple[Function | nn.Module, int]] = {
    "sign": (torch.sign, 6),
    "floor": (lambda h: torch.floor(2 * h), 6),
    "ceil": (lambda h: torch.ceil(2 * h), 6),
    "round": (lambda h: torch.round(2 * h), 6),
    "threshold": (lambda h: torch.where(h > 0.2, h, -0.5), 6),
    "greater": (lambda h: (h > 0.1).float(), 6),
    "less": (lambda h: (h < 0.1).float(), 6),
    "greater-or-equal": (lambda h: (h >= 0.5 * h.flip(1)).float(), 6),
    "less-or-equal": (lambda h: (h <= 0.1).float(), 6),
    "equal": (lambda h: (torch.floor(2 * h) == 0).float(), 6),
    "and": (lambda h: ((h > -0.2) & (h < 0.4)).float(), 6),
    "or": (lambda h: ((h < -0.2) | (h.flip(1) > 0.4)).float(), 6),
    "xor": (lambda h: ((h < -0.2) ^ (h.flip(1) > -0.6)).float(), 6),
    "not": (lambda h: (~(h > 0.1)).float(), 6),
    "where": (lambda h: torch.where(h > 0.1, 1.5, -0.5), 6),
    "where-values": (lambda h: torch.where(h[:, :3] > 0.1, h[:, 3:], h[:, :3]), 3),
    "softshrink": (lambda h: F.softshrink(h, 0.25), 6),
    "hardshrink": (lambda h: F.hardshrink(h, 0.25), 6),
}
