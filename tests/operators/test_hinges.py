"""Operators that are written with ReLUs: asked both ways, in every form that differs, and with the same function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hinge_nets import HINGES, Between, natively

from model.onnx_models import Model
from netproof.errors import ModelError, UnsupportedOp
from netproof.model.evaluate import evaluate
from netproof.model.load import from_file, load_network
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.onnx.file import parse
from netproof.model.onnx.reader import unsupported_nodes
from netproof.model.origin.cross_check import cross_check
from netproof.relax import without_lp_form
from support.both_ways import decided_both_ways


def f32(*values: float) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


class Clamped(torch.nn.Module):
    """torch.clamp, whose bounds are exported as constants behind a Cast."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(2.0 * x, self.low, self.high)


def infinite_clips(low: float, second: str = "Clip") -> Model:
    """One infinite constant, made by a node, that two nodes read."""
    model = Model((2, 3)).add("Constant", out="low", value_float=low)
    return model.add("Clip", "x", "low", np.float32(0.5), out="a").add(second, "a", "low")


def infinite_cast(reader: str) -> Model:
    """Infinity that is cast once, for a node that computes with it."""
    model = Model((2, 3)).add("Constant", out="high", value_float=np.inf).add("Cast", "high", to=1, out="cast")
    return model.add("Clip", "x", None, "cast", out="a").add(reader, "a", "cast")


@pytest.mark.parametrize("name", HINGES)
def test_asked_both_ways(name: str, tmp_path: Path) -> None:
    function, outputs = HINGES[name]
    width = torch.ones(1, 2)
    module = Between(function, outputs=outputs)
    known = natively(module, -width, width)
    network = decided_both_ways(module, -width, width, tmp_path, share=0.75, natively=known)
    assert without_lp_form(network.graph) is None


CASES: dict[str, Callable[[], Model]] = {
    "max-of-four": lambda: Model((2, 3)).add("Neg", "x", out="m").add("Max", "x", f32(0.2), "m", f32(0.1, -0.3, 0.5)),
    "max-of-one": lambda: Model((2, 3)).add("Max", "x"),
    "max-twice-itself": lambda: Model((2, 3)).add("Max", "x", "x", f32(0.25)),
    "max-broadcast": lambda: Model((3,)).add("Reshape", "x", np.asarray([3, 1]), out="r").add("Max", "x", "r"),
    "max-larger-constant": lambda: Model((3,)).add("Max", "x", f32(0.1, 0.2)[:, None]),
    "max-with-zeros": lambda: Model((3,)).add("Max", np.zeros((2, 1), np.float32), "x"),
    "min-of-three": lambda: Model((2, 3)).add("Neg", "x", out="m").add("Min", "m", f32(0.2), "x"),
    "min-with-zero": lambda: Model((2, 3)).add("Min", f32(0), "x"),
    "clip-6": lambda: Model((2, 3), 8).add("Clip", "x", min=-0.5, max=0.5),
    "clip-6-none": lambda: Model((2, 3), 8).add("Clip", "x"),
    "clip-6-largest": lambda: Model((2, 3), 8).add("Clip", "x", min=-3.4028234663852886e38, max=0.5),
    "clip-11": lambda: Model((2, 3), 11).add("Clip", "x", np.float32(-0.5), np.float32(0.5)),
    "clip-missing": lambda: Model((2, 3)).add("Clip", "x", None, np.float32(0.5)),
    "clip-largest": lambda: Model((2, 3)).add("Clip", "x", np.float32(0), np.float32(3.4028234663852886e38)),
    "clip-6-infinite": lambda: Model((2, 3), 8).add("Clip", "x", min=-np.inf, max=0.5),
    "clip-infinite": lambda: Model((2, 3)).add("Clip", "x", np.float32(-np.inf), np.float32(0.5)),
    "clip-infinite-above": lambda: Model((2, 3)).add("Clip", "x", f32(-0.25), np.float32(np.inf)),
    "clip-infinite-twice": lambda: infinite_clips(-np.inf),
    "clip-crossed": lambda: Model((2, 3)).add("Clip", "x", np.float32(0.5), np.float32(-0.5)),
    "clip-varying": lambda: Model((2, 3)).add("ReduceMean", "x", keepdims=0, out="m").add("Clip", "x", "m"),
    "hard-sigmoid": lambda: Model((2, 3)).add("HardSigmoid", "x"),
    "hard-sigmoid-sixth": lambda: Model((2, 3)).add("HardSigmoid", "x", alpha=1 / 6, beta=0.3),
    "hard-sigmoid-falling": lambda: Model((2, 3)).add("HardSigmoid", "x", alpha=-0.7),
    "abs": lambda: Model((2, 3)).add("Abs", "x"),
    "prelu-channels": lambda: Model((1, 3, 2)).add("PRelu", "x", f32(0.1, -0.4, 1.7)[:, None]),
    "prelu-one": lambda: Model((1, 3)).add("PRelu", "x", f32(0.3)),
    "prelu-tiny": lambda: Model((1, 3)).add("PRelu", "x", f32(1e-30, 0.2, 0.7)),
    "leaky-above": lambda: Model((2, 3)).add("LeakyRelu", "x", alpha=2.5),
    "leaky-negative": lambda: Model((2, 3)).add("LeakyRelu", "x", alpha=-0.5),
    "reduce-max": lambda: Model((2, 5, 3)).add("ReduceMax", "x", axes=[1]),
    "reduce-max-all": lambda: Model((2, 5)).add("ReduceMax", "x", keepdims=0),
    "reduce-max-18": lambda: Model((2, 5, 3), 18).add("ReduceMax", "x", np.asarray([0, -1]), keepdims=0),
    "reduce-min": lambda: Model((2, 7)).add("ReduceMin", "x", axes=[-1]),
    "reduce-noop": lambda: Model((2, 7), 18).add("ReduceMin", "x", noop_with_empty_axes=1),
    "global-max-pool": lambda: Model((1, 2, 3, 5)).add("GlobalMaxPool", "x"),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str) -> None:
    network = CASES[name]().network()
    points = torch.randn(6, *network.input_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = points.float().double()
    values, error = evaluate(network.graph, points)
    for point, value, off in zip(points, values, error, strict=True):
        answer = torch.from_numpy(network.replay(point.numpy()).astype(np.float64))
        assert answer.shape == value.shape
        assert bool(((answer - value).abs() <= off + 1e-6 * (1 + value.abs())).all())
    cross_check(network, points)


def test_a_uniform_slope_stays_one_hinge() -> None:
    kinds = [type(node.op) for node in CASES["prelu-one"]().network().graph.nodes[1:]]
    assert kinds == [LeakyRelu]


def test_a_maximum_with_zero_is_a_relu() -> None:
    nodes = CASES["max-with-zeros"]().network().graph.nodes[1:]
    assert type(nodes[-1].op) is Relu


def test_a_bound_that_no_float_passes_adds_nothing() -> None:
    assert len(CASES["clip-6-none"]().network().graph.nodes) == 2  # an identity, so that output and input differ
    relus = [node for node in CASES["clip-largest"]().network().graph.nodes if isinstance(node.op, Relu)]
    assert len(relus) == 1


@pytest.mark.parametrize("name", ["clip-6-infinite", "clip-infinite", "clip-infinite-above", "clip-infinite-twice"])
def test_a_bound_at_infinity_is_none(name: str) -> None:
    model = CASES[name]()
    network = model.network()
    assert sum(isinstance(node.op, Relu) for node in network.graph.nodes) == 1
    assert unsupported_nodes(parse(model.proto().SerializeToString(), "net.onnx", "")) == []
    assert network.model == model.proto().SerializeToString()


@pytest.mark.parametrize(("low", "high", "relus"), [(-np.inf, 0.5, 1), (-0.5, np.inf, 1), (-np.inf, np.inf, 0)])
def test_torch_clamps_at_infinity(low: float, high: float, relus: int) -> None:
    network = load_network(Clamped(low, high), example_shape=(1, 3))
    assert sum(isinstance(node.op, Relu) for node in network.graph.nodes) == relus


INFINITE = {
    "cast-for-another-node": lambda: infinite_cast("Max"),
    "cast-for-the-other-side": lambda: infinite_cast("Clip"),
    "on-the-other-side": lambda: infinite_clips(np.inf),
    "not-a-number": lambda: infinite_clips(np.nan),
    "read-by-another-node": lambda: infinite_clips(-np.inf, "Max"),
    "one-of-several": lambda: Model((2, 3)).add("Clip", "x", f32(-np.inf, 0)),
    "attribute-not-a-number": lambda: Model((2, 3), 8).add("Clip", "x", max=np.nan),
}


@pytest.mark.parametrize("name", INFINITE)
def test_infinity_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match="holds NaN or infinity"):
        INFINITE[name]().network()


def test_an_infinite_bound_that_is_an_output_is_refused() -> None:
    proto = infinite_clips(-np.inf).proto(("y", "low"))
    with pytest.raises(ModelError, match="holds NaN or infinity"):
        from_file(parse(proto.SerializeToString(), "net.onnx", ""))


def test_slopes_that_one_less_cannot_hold_carry_their_rounding() -> None:
    """1 − 1e-30 is no float: the factor that stands for it is off by up to its radius, and says so."""
    graph = CASES["prelu-tiny"]().network().graph
    radii = [node.op.radius for node in graph.nodes[1:] if getattr(node.op, "radius", None) is not None]
    assert len(radii) == 1
    assert float(radii[0].mult[0]) >= 1e-30


REFUSED = {
    "prelu-varying": lambda: Model((1, 3)).add("PRelu", "x", "x"),
    "prelu-shape": lambda: Model((1, 3)).add("PRelu", "x", f32(0.1, 0.2, 0.3, 0.4)[:, None]),
    "clip-bounds": lambda: Model((2, 3)).add("Clip", "x", f32(0, 0, 0)),
    "clip-6-infinite-below": lambda: Model((2, 3), 8).add("Clip", "x", max=-np.inf),
    "max-shapes": lambda: Model((2, 3)).add("Max", "x", f32(0, 0)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(UnsupportedOp) as caught:
        REFUSED[name]().network()
    assert "\n" not in str(caught.value)
