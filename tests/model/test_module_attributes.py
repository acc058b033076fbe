"""Attributes other than the defaults: a graph has the values of its module, near 0 and far from it.

torch's exporter drops some attributes, which may show for large numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netproof.errors import ModelError, UnsupportedOp
from netproof.model.load import load_network

Forward = Callable[[Tensor], Tensor]

# Of x, (1, 4, 6).
READ: dict[str, Forward] = {
    "softplus-threshold": lambda x: F.softplus(x, 2.0, 3.0),
    "softplus-beta": lambda x: F.softplus(x, 0.5, 30.0),
    "elu": lambda x: F.elu(x, 0.3),
    "celu": lambda x: F.celu(x, 2.0),
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardshrink": lambda x: F.hardshrink(x, 0.7),
    "softshrink": lambda x: F.softshrink(x, 0.3),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 2.0),
    "rrelu": lambda x: F.rrelu(x, 0.1, 0.4),
    "leaky-relu-steep": lambda x: F.leaky_relu(x, 1.5),
    "leaky-relu-falling": lambda x: F.leaky_relu(x, -0.5),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.1, 2.0, -1.0, 0.5])),
    "glu": lambda x: F.glu(x, 1),
    "clamp-above": lambda x: x.clamp(max=0.3),
    "layer-norm": lambda x: F.layer_norm(x, (6,), torch.arange(6.0), eps=0.5),
    "group-norm": lambda x: F.group_norm(x, 2, eps=0.1),
    "instance-norm": lambda x: F.instance_norm(x, torch.zeros(4), torch.full((4,), 0.3), use_input_stats=False),
    "normalize": lambda x: F.normalize(x, dim=1, eps=3.0),
    "local-response-norm": lambda x: F.local_response_norm(x, 3, alpha=1.0, beta=0.75, k=2.0),
    "softmax-over-channels": lambda x: F.softmax(x, 1),
    "log-softmax": lambda x: F.log_softmax(x, 1),
    "softmin": lambda x: F.softmin(x, -1),
    "round-decimals": lambda x: x.round(decimals=1),
    "remainder": lambda x: torch.remainder(x, -0.7),
    "floor-division": lambda x: torch.div(x, -0.3, rounding_mode="floor"),
    "truncated-division": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "variance": lambda x: x.var(-1, correction=2),
    "logit": lambda x: torch.logit(x.sigmoid(), eps=0.2),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "baddbmm": lambda x: torch.baddbmm(x[:, :, :4], x, x.transpose(1, 2), beta=0.5, alpha=2.0),
    "sub-alpha": lambda x: torch.sub(x, x.flip(-1), alpha=3),
    "average-pool-ceil": lambda x: F.avg_pool1d(x, 4, 3, 1, ceil_mode=True, count_include_pad=False),
    "average-pool-padding-counts": lambda x: F.avg_pool1d(x, 4, 3, 2, ceil_mode=False, count_include_pad=True),
    "max-pool-dilated": lambda x: F.max_pool1d(x, 2, 1, 1, 2, ceil_mode=True),
    "adaptive-pool": lambda x: F.adaptive_avg_pool1d(x, 3),
    "pad-reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "pad-circular": lambda x: F.pad(x, (2, 1), mode="circular"),
    "pad-replicate": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "pad-value": lambda x: F.pad(x, (-1, 2), value=0.3),
    "interpolate-linear": lambda x: F.interpolate(x, 9, mode="linear", align_corners=True),
    "interpolate-half-pixel": lambda x: F.interpolate(x, scale_factor=1.5, mode="linear", align_corners=False),
    "interpolate-nearest": lambda x: F.interpolate(x, 9),
    "interpolate-bicubic": lambda x: F.interpolate(x[None], (5, 9), mode="bicubic", align_corners=False),
    "interpolate-bilinear": lambda x: F.interpolate(x[None], (5, 4), mode="bilinear", align_corners=True),
    "convolution-dilated": lambda x: F.conv1d(x, torch.linspace(-1, 1, 12).reshape(4, 1, 3), None, 2, 2, 2, 4),
    "convolution-same": lambda x: F.conv1d(x, torch.linspace(-1, 1, 32).reshape(2, 4, 4), padding="same"),
    "convolution-transposed": lambda x: F.conv_transpose1d(
        x, torch.linspace(-1, 1, 24).reshape(4, 2, 3), None, 3, 1, 2, 2, 1
    ),
    "pixel-shuffle": lambda x: F.pixel_shuffle(x[..., None], 2),
    "pixel-unshuffle": lambda x: F.pixel_unshuffle(x[None], 2),
    "unfold": lambda x: F.unfold(x[None], 2, dilation=1, padding=1, stride=2),
    "norm-1": lambda x: x.norm(p=1, dim=1),
    "norm-infinite": lambda x: torch.linalg.vector_norm(x, torch.inf, dim=-1, keepdim=True),
    "cumsum": lambda x: torch.cumsum(x, 1),
    "tril": lambda x: torch.tril(x, 1),
    "roll": lambda x: torch.roll(x, (1, -2), (1, 2)),
    "amax": lambda x: torch.amax(x, (1, 2), keepdim=True),
    "attention-causal": lambda x: F.scaled_dot_product_attention(x, x, x.flip(1), is_causal=True),
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x.flip(1)),
    "where-scalar": lambda x: torch.where(x > 0.25, 2.0, x),
    "threshold": lambda x: torch.where(x > 0.2, x, -1.0),
}

STEPS = {
    *("round-decimals", "remainder", "floor-division", "truncated-division"),
    *("hardshrink", "where-scalar", "threshold"),
}

# torch's exporter has no form of these, or one of another meaning.
REFUSED: dict[str, Forward] = {
    "cosine-eps": lambda x: F.cosine_similarity(x, x.flip(-1) + 0.5, dim=-1, eps=2.0),
    "threshold": lambda x: F.threshold(x, 0.2, -1.0),
    "fmod": lambda x: torch.fmod(x, 0.7),
    "nearest-exact": lambda x: F.interpolate(x, 9, mode="nearest-exact"),
    "antialias": lambda x: F.interpolate(x[None], (3, 3), mode="bilinear", antialias=True),
    "average-pool-divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
    "attention-scale": lambda x: F.scaled_dot_product_attention(x, x, x.flip(1), scale=0.3),
    "heaviside": lambda x: torch.heaviside(x, torch.tensor(0.5)),
}


class Operation(nn.Module):
    def __init__(self, forward: Forward, factor: float) -> None:
        super().__init__()
        self.compute, self.factor = forward, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x * self.factor)


@pytest.mark.parametrize("factor", [1.0, 30.0])
@pytest.mark.parametrize("name", READ)
def test_the_graph_has_the_modules_values(name: str, factor: float) -> None:
    module = Operation(READ[name], factor)
    network = load_network(module, example_shape=(1, 4, 6))
    points = 2.0 * torch.rand(100, 1, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1.0
    points = points.float().double()
    ours = network.graph.forward(points)
    with torch.no_grad():
        theirs = torch.stack([module(point.float()).double() for point in points]).reshape(ours.shape)
    far = (ours - theirs).abs() > 1e-4 * (1.0 + theirs.abs().amax())
    assert int(far.sum()) <= (2 if name in STEPS else 0)  # a jump may lie between both


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_is_refused(name: str) -> None:
    with pytest.raises((ModelError, UnsupportedOp)):
        load_network(Operation(REFUSED[name], 1.0), example_shape=(1, 4, 6))
