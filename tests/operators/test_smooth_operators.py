"""Every smooth operator of one variable, in a network that is proved and refuted; exported patterns are one function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from netproof.model.nonlinear import smooth
from netproof.model.nonlinear.smooth import Smooth
from support.both_ways import decided_both_ways

WIDTH = 6


class Applied(torch.nn.Module):
    """A linear layer, the function, and the same again; with an offset where the function needs a positive argument."""

    def __init__(self, function: Callable[[Tensor], Tensor], offset: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, WIDTH), torch.nn.Linear(WIDTH, WIDTH)])
        self.last = torch.nn.Linear(WIDTH, 1)
        self.function, self.offset = function, offset

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
            x = self.function(torch.sigmoid(x) + self.offset if self.offset else x)
        return self.last(x)


TORCH: dict[str, tuple[Callable[[Tensor], Tensor], float, type[Smooth] | None]] = {
    "Sigmoid": (torch.sigmoid, 0.0, smooth.Sigmoid),
    "Tanh": (torch.tanh, 0.0, smooth.Tanh),
    "Erf": (torch.erf, 0.0, smooth.Erf),
    "Atan": (torch.atan, 0.0, smooth.Atan),
    "Softsign, with Abs and Div": (F.softsign, 0.0, smooth.Softsign),
    "Softplus": (F.softplus, 0.0, smooth.Softplus),
    "Softplus, beta 2": (lambda x: F.softplus(x, beta=2.0), 0.0, smooth.Softplus),
    "Exp": (lambda x: torch.exp(0.5 * x), 0.0, smooth.Exp),
    "Log": (torch.log, 0.25, smooth.Log),
    "Log of Sigmoid": (F.logsigmoid, 0.0, smooth.Softplus),
    "Sqrt": (torch.sqrt, 0.25, smooth.Sqrt),
    "Reciprocal": (torch.reciprocal, 0.5, smooth.Reciprocal),
    "Div of a constant": (lambda x: 2.0 / x, 0.5, smooth.Reciprocal),
    "Div by Sqrt": (torch.rsqrt, 0.5, smooth.InverseRoot),
    "Pow 2": (lambda x: x**2, 0.0, smooth.Square),
    "Mul with itself": (torch.square, 0.0, smooth.Square),
    "Pow 3": (lambda x: x**3, 0.0, smooth.Power),
    "Pow -2": (lambda x: x**-2, 0.5, smooth.Power),
    "Pow 2.5": (lambda x: x**2.5, 0.25, smooth.RealPower),
    "Pow 0.3": (lambda x: x**0.3, 0.25, smooth.RealPower),
    "Sin": (lambda x: torch.sin(3.0 * x), 0.0, smooth.Sin),
    "Cos": (lambda x: torch.cos(3.0 * x), 0.0, smooth.Cos),
    "Elu": (F.elu, 0.0, smooth.Elu),
    "Elu, alpha 0.5": (lambda x: F.elu(x, 0.5), 0.0, smooth.Elu),
    "Selu": (F.selu, 0.0, smooth.Elu),
    "Celu": (lambda x: F.celu(x, 1.3), 0.0, smooth.Elu),
    "Gelu, with Erf": (F.gelu, 0.0, smooth.ErfGate),
    "Gelu, with Tanh": (lambda x: F.gelu(x, approximate="tanh"), 0.0, smooth.TanhGate),
    "Swish, with Sigmoid": (F.silu, 0.0, smooth.Silu),
    "Swish, x·sigmoid(1.702x)": (lambda x: x * torch.sigmoid(1.702 * x), 0.0, smooth.Silu),
    "Mish, with Softplus": (F.mish, 0.0, smooth.Mish),
    "HardSwish": (lambda x: F.hardswish(4.0 * x), 0.0, smooth.HardSwish),
}


def functions(network: object) -> set[type]:
    """The kinds of smooth functions in a network."""
    return {type(node.op) for node in network.graph.nodes if isinstance(node.op, Smooth)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TORCH)
def test_torch_modules_are_decided(name: str, tmp_path: Path) -> None:
    function, offset, kind = TORCH[name]
    ones = torch.ones(1, 2, dtype=torch.float64)
    network = decided_both_ways(Applied(function, offset), -ones, ones, tmp_path)
    expected = {kind} | ({smooth.Sigmoid} if offset else set())
    assert functions(network) == expected
