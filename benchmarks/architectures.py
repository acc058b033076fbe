"""Ten torch modules as people write them, each with the shape that it is called with, for modules.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """A recurrent layer, read at its last step."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(layer.hidden_size, 4)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(x)
        return self.head(states[:, -1])  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Two encoder layers and a mean over the sequence."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean(1))  # type: ignore[no-any-return]


class Patches(nn.Module):
    """A vision transformer of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Conv2d(3, 24, 4, 4), nn.Parameter(torch.rand(1, 16, 24))
        self.norm, self.attention = nn.LayerNorm(24), nn.MultiheadAttention(24, 3, batch_first=True)
        self.mlp = Residual(nn.LayerNorm(24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2) + self.places
        read = self.norm(tokens)
        tokens = self.mlp(tokens + self.attention(read, read, read, need_weights=False)[0])
        return self.head(tokens.mean(1))  # type: ignore[no-any-return]


class UNet(nn.Module):
    """One level down and up again, with the skip."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        high = torch.relu(self.first(x))
        low = torch.relu(self.down(high))
        return self.last(torch.cat([high, self.up(low)], 1))  # type: ignore[no-any-return]


def _classifier(*body: nn.Module, features: int) -> nn.Module:
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, 10))


def _block(channels: int) -> list[nn.Module]:
    inner = [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)]
    return [Residual(*inner, nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)), nn.ReLU()]


def _separable(channels: int) -> list[nn.Module]:
    depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
    return [depthwise, nn.BatchNorm2d(channels), nn.Hardswish(), nn.Conv2d(channels, channels, 1), nn.ReLU6()]


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def _cnn() -> nn.Module:
    body = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(16 * 11 * 11, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10))


def _resnet() -> nn.Module:
    stem = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    return _classifier(*stem, *(part for _ in range(6) for part in _block(16)), features=16)


def _mobile() -> nn.Module:
    stem = [nn.Conv2d(3, 16, 3, stride=2, padding=1)]
    return _classifier(*stem, *(part for _ in range(4) for part in _separable(16)), features=16)


def _physics() -> nn.Module:
    layers = [part for _ in range(3) for part in (nn.Linear(32, 32), nn.Tanh())]
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), *layers, nn.Linear(32, 1))


Built = tuple[Callable[[], nn.Module], tuple[int, ...]]

ARCHITECTURES: dict[str, Built] = {
    "mlp": (_mlp, (1, 8)),
    "cnn": (_cnn, (1, 1, 28, 28)),
    "resnet": (_resnet, (1, 3, 32, 32)),
    "mobile": (_mobile, (1, 3, 32, 32)),
    "unet": (UNet, (1, 1, 16, 16)),
    "lstm": (lambda: Recurrent(nn.LSTM(8, 16, batch_first=True)), (1, 6, 8)),
    "gru": (lambda: Recurrent(nn.GRU(8, 16, batch_first=True)), (1, 6, 8)),
    "transformer": (Transformer, (1, 6, 16)),
    "patches": (Patches, (1, 3, 16, 16)),
    "physics": (_physics, (1, 2)),
}


def build(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """Return the module of this name with seeded weights, and the shape that it is called with."""
    make, shape = ARCHITECTURES[name]
    torch.manual_seed(0)
    return make().eval(), shape
