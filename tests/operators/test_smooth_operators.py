"""Every smooth operator of one variable, in a network proved and refuted; exported patterns are one function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.onnx_models import Model
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
    "Log of Sigmoid": (F.logsigmoid, 0.0, smooth.LogSigmoid),
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


def two_layers(op: str, opset: int, **attributes: object) -> Model:
    """A model of two layers with the operator behind each."""
    model = Model((1, 2), opset=opset, seed=3)
    model.add("Gemm", "x", model.weights(WIDTH, 2), model.weights(WIDTH), out="a", transB=1)
    model.add(op, "a", out="b", **attributes)
    model.add("Gemm", "b", model.weights(WIDTH, WIDTH), model.weights(WIDTH), out="c", transB=1)
    model.add(op, "c", out="d", **attributes)
    return model.add("Gemm", "d", model.weights(1, WIDTH), model.weights(1), out="y", transB=1)


NODES: dict[str, tuple[str, int, dict[str, object]]] = {
    "Gelu": ("Gelu", 20, {}),
    "Gelu, tanh": ("Gelu", 20, {"approximate": "tanh"}),
    "Swish": ("Swish", 24, {"alpha": 1.5}),
    "Mish": ("Mish", 18, {}),
    "HardSwish": ("HardSwish", 14, {}),
    "Softsign": ("Softsign", 13, {}),
    "Selu": ("Selu", 13, {"alpha": 1.2, "gamma": 0.9}),
    "Celu": ("Celu", 13, {"alpha": 0.7}),
    "Elu": ("Elu", 13, {"alpha": 2.0}),
    "Sinh": ("Sinh", 13, {}),
    "Cosh": ("Cosh", 13, {}),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes_are_decided(name: str, tmp_path: Path) -> None:
    op, opset, attributes = NODES[name]
    path = tmp_path / "net.onnx"
    path.write_bytes(two_layers(op, opset, **attributes).proto().SerializeToString())
    half = torch.full((1, 2), 0.5, dtype=torch.float64)
    decided_both_ways(path, -half, half, tmp_path)
