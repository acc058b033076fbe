"""Operators with jumps: asked both ways, sound at the jump, and their stairs conform."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hinge_nets import HINGES, JUMPS, Between, natively
from onnx import TensorProto

import netproof
from model.onnx_models import Model
from netproof.core.forms import Interval
from netproof.core.verdict import Status
from netproof.errors import UnsupportedOp
from netproof.model.evaluate import evaluate
from netproof.model.load import load_network
from netproof.model.nonlinear.product import Product
from netproof.model.nonlinear.steps import Floor, Round, Step
from netproof.model.ops import Nonlinear
from netproof.model.origin.cross_check import cross_check
from netproof.relax import relaxation_of
from netproof.relax.steps import WithinRelaxation
from support.both_ways import box_spec, decided_both_ways
from support.conformance import Conformance, usual_bounds


def f32(*values: float) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


STAIRS: dict[str, tuple[Nonlinear, Callable[[Fraction], Fraction]]] = {
    "step": (Step(), lambda x: Fraction(int(x >= 0))),
    "floor": (Floor(), lambda x: Fraction(math.floor(x))),
    "round": (Round(), lambda x: Fraction(round(x))),  # of a Fraction: ties to even
}


@pytest.mark.parametrize("name", STAIRS)
@pytest.mark.parametrize("around", [0.0, 0.5, -1.0, 7.5, 64.0])
def test_they_conform(name: str, around: float) -> None:
    op, function = STAIRS[name]
    hairs = [(around - 2**-20, around), (around, around + 2**-20), (around - 2**-20, around + 2**-20)]
    Conformance(relaxation_of(op), function, usual_bounds(3, around) + hairs).check()


@pytest.mark.parametrize("name", STAIRS)
def test_both_limits_at_a_jump_lie_between_the_lines(name: str) -> None:
    """Bounds that hold a jump hold points on either side of it, as near as one likes: both values are enclosed."""
    op, function = STAIRS[name]
    at = 0.5 if name == "round" else 0.0
    foot, head = (float(function(Fraction(at) + side * Fraction(1, 1000))) for side in (-1, 1))
    h = Interval(*(torch.tensor([at + side], dtype=torch.float64) for side in (-0.3, 0.8)))
    for t in (0.0, 0.3, 1.0):
        lines = relaxation_of(op).family(h, proof=True).at(torch.tensor([t], dtype=torch.float64))
        assert lines.lower_intercept is not None
        assert float(lines.lower_slope * at + lines.lower_intercept) <= foot
        assert float(lines.upper_slope * at + lines.upper_intercept) >= head


def test_a_hair_beside_a_jump_is_not_split_for_ever() -> None:
    """[l, 0] of a step is 0 but for its end: one split leaves a constant and a hair that is not split again."""
    relaxation = relaxation_of(Step())
    h = Interval(torch.tensor([-3.0]), torch.tensor([0.0]))
    point = relaxation.split_point(h)
    left, hair = Interval(h.lower, point), Interval(point, h.upper)
    assert bool(relaxation.splittable(h))
    assert bool(relaxation.linear_on(left))
    assert not bool(relaxation.linear_on(hair))
    assert not bool(relaxation.splittable(hair))


@pytest.mark.parametrize("name", JUMPS)
def test_asked_both_ways(name: str, tmp_path: Path) -> None:
    function, outputs = JUMPS[name]
    width = torch.ones(1, 2)
    module = Between(function, seed=1, outputs=outputs)
    known = natively(module, -width, width)
    decided_both_ways(module, -width, width, tmp_path, share=0.8, natively=known)


@pytest.mark.parametrize(
    ("op", "attributes"), [("ThresholdedRelu", {"alpha": 0.3}), ("Shrink", {"lambd": 0.4, "bias": 0.1})]
)
def test_what_torch_does_not_export_asked_both_ways(op: str, attributes: dict[str, float], tmp_path: Path) -> None:
    model, random = Model((1, 2)), np.random.default_rng(1)
    first, last = (random.normal(size=shape).astype(np.float32) for shape in ((2, 6), (6, 1)))
    model.add("Gemm", "x", first, out="h").add(op, "h", out="g", **attributes).add("Gemm", "g", last)
    width = torch.ones(1, 2)
    decided_both_ways(model.save(tmp_path / "net.onnx"), -width, width, tmp_path, share=0.8)


def test_every_name_is_among_what_is_asked() -> None:
    """What torch made of the modules that are asked both ways, here and in the tests of hinges."""
    found = set()
    for function, outputs in (HINGES | JUMPS).values():
        network = load_network(Between(function, outputs=outputs), example_shape=(1, 2))
        found |= {step.op for step in network.trace.steps}
    wanted = {"Max", "Min", "Clip", "HardSigmoid", "Abs", "PRelu", "LeakyRelu", "ReduceMax", "ReduceMin"}
    wanted |= {"Sign", "Floor", "Ceil", "Round", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"}
    wanted |= {"And", "Or", "Xor", "Not", "Where", "Cast"}
    assert wanted <= found, wanted - found


@pytest.mark.parametrize(("op", "at_zero"), [("GreaterOrEqual", 1.0), ("Greater", 0.0)])
def test_the_value_at_the_jump_itself_counts(op: str, at_zero: float, tmp_path: Path) -> None:
    """[x >= 0] on [−1, 0] is 1 at one point alone, and [x > 0] never: a proof must know the difference."""
    model = Model((1, 1)).add(op, "x", f32(0), out="b").add("Cast", "b", to=TensorProto.FLOAT)
    path = model.save(tmp_path / "net.onnx")
    spec = tmp_path / "spec.vnnlib"
    spec.write_text(box_spec(torch.tensor([-1.0]), torch.tensor([0.0]), 1, "(>= Y_0 0.5)"))
    verdict = netproof.verify(path, spec, timeout=30, device="cpu")
    assert verdict.status == (Status.SAT if at_zero else Status.UNSAT)


def cast(model: Model, name: str = "b") -> Model:
    return model.add("Cast", name, to=TensorProto.FLOAT)


def compared(op: str) -> dict[str, Callable[[], Model]]:
    return {
        f"{op}-constant": lambda: cast(Model((2, 3)).add(op, "x", f32(0.1, 0.5, 0.3), out="b")),
        f"{op}-left": lambda: cast(Model((2, 3)).add(op, f32(0.5), "x", out="b")),
        f"{op}-both": lambda: cast(Model((2, 3)).add("Neg", "x", out="m").add(op, "m", "x", out="b")),
    }


def logic(op: str) -> dict[str, Callable[[], Model]]:
    def both() -> Model:
        model = Model((2, 3)).add("Greater", "x", f32(0.1), out="p").add("Less", "x", f32(0.7), out="q")
        return cast(model.add(op, "p", "q", out="b"))

    def one() -> Model:
        model = Model((2, 3)).add("Greater", "x", f32(0.1), out="p")
        return cast(model.add(op, np.asarray([True, False, True]), "p", out="b"))

    return {f"{op}-both": both, f"{op}-constant": one}


def above(limit: float, op: str = "Greater") -> Model:
    return Model((2, 3)).add(op, "x", f32(limit), out="c")


def matrix() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)


CASES: dict[str, Callable[[], Model]] = {
    **{name: lambda op=name: Model((2, 3)).add(op, "x") for name in ("Sign", "Floor", "Ceil", "Round")},
    **{name: build for op in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")
       for name, build in compared(op).items()},
    **{name: build for op in ("And", "Or", "Xor") for name, build in logic(op).items()},
    "thresholded-relu": lambda: Model((2, 3)).add("ThresholdedRelu", "x"),
    "thresholded-relu-below": lambda: Model((2, 3)).add("ThresholdedRelu", "x", alpha=-0.5),
    "shrink": lambda: Model((2, 3)).add("Shrink", "x", lambd=0.5, bias=0.1),
    "shrink-soft": lambda: Model((2, 3)).add("Shrink", "x", lambd=0.5, bias=0.5),
    "not": lambda: cast(above(0.5).add("Not", "c", out="b")),
    "cast-to-bool": lambda: cast(Model((2, 3)).add("Relu", "x", out="r").add("Cast", "r", to=9, out="b")),
    "cast-by-integer": lambda: cast(above(0.5).add("Cast", "c", to=TensorProto.INT64, out="b")),
    "floor-equal": lambda: cast(Model((2, 3)).add("Floor", "x", out="f").add("Equal", "f", f32(0, 1, 0.5), out="b")),
    "floor-less": lambda: cast(Model((2, 3)).add("Floor", "x", out="f").add("Less", "f", f32(0.5, 1, -0.5), out="b")),
    "floor-above": lambda: cast(Model((2, 3)).add("Ceil", "x", out="f").add("Less", f32(0.5, 1, -0.5), "f", out="b")),
    "round-and-floor": lambda: cast(
        Model((2, 3)).add("Floor", "x", out="f").add("Round", "x", out="r").add("GreaterOrEqual", "f", "r", out="b")),
    "floor-to-bool": lambda: cast(Model((2, 3)).add("Floor", "x", out="f").add("Cast", "f", to=9, out="b")),
    "where-mask": lambda: Model((2, 3)).add("Where", np.asarray([True, False, True]), "x", f32(0.5)),
    "where-mask-both": lambda: Model((2, 3)).add("Neg", "x", out="m").add(
        "Where", np.asarray([[True], [False]]), "x", "m"),
    "where-leaky": lambda: above(0).add("Mul", "x", f32(0.1), out="s").add("Where", "c", "x", "s"),
    "where-clip": lambda: above(0.5, "Less").add("Where", "c", "x", f32(0.5)),
    "where-threshold": lambda: above(0.5, "Less").add("Where", "c", f32(0.1, 0.2, 0.3), "x"),
    "where-max": lambda: Model((2, 3)).add("Neg", "x", out="m").add("GreaterOrEqual", "m", "x", out="c").add(
        "Where", "c", "m", "x"),
    "where-constants": lambda: above(0.5).add("Where", "c", f32(3.0), f32(1, 2, 5)),
    "where-any": lambda: above(0.5).add("Gemm", "x", matrix(), out="g").add("Where", "c", "x", "g"),
    "where-any-constant": lambda: above(0.5).add("Gemm", "x", matrix(), out="g").add("Where", "c", "g", f32(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime_at_jumps_too(name: str) -> None:
    network = CASES[name]().network()
    random = torch.Generator().manual_seed(0)
    points = torch.cat([torch.randn(4, 6, generator=random), torch.randn(4, 6, generator=random).mul(2).round() / 2])
    points = torch.cat([points, torch.tensor([[0.5, 1.5, -0.5, 2.5, 0.0, -0.0]])]).double().view(-1, 2, 3)
    values, error = evaluate(network.graph, points)
    for point, value, off in zip(points, values, error, strict=True):
        answer = torch.from_numpy(network.replay(point.numpy()).astype(np.float64))
        assert answer.shape == value.shape
        assert bool(((answer - value).abs() <= off + 1e-6).all())
    cross_check(network, points)


@pytest.mark.parametrize("name", ["where-leaky", "where-clip", "where-max"])
def test_a_choice_without_a_jump_is_hinges_alone(name: str) -> None:
    assert not any(isinstance(node.op, Step | Product) for node in CASES[name]().network().graph.nodes)


def test_a_choice_with_a_jump_is_a_hinge_and_a_step() -> None:
    kinds = [type(node.op) for node in CASES["where-threshold"]().network().graph.nodes]
    assert Step in kinds
    assert Product not in kinds


def test_an_error_that_holds_a_jump_is_the_jump() -> None:
    x = torch.tensor([[0.2, 0.999, 1.0, -0.001]], dtype=torch.float64)
    e = torch.full_like(x, 0.01)
    assert Floor().error(x, e, torch.float32).tolist() == [[0.0, 1.0, 1.0, 1.0]]
    assert Floor().error(x, torch.zeros_like(x), torch.float32).tolist() == [[0.0, 0.0, 0.0, 0.0]]


REFUSED = {
    "cast-to-unsigned-64": lambda: cast(Model((2, 3)).add("Cast", "x", to=TensorProto.UINT64, out="b")),
    "shrink-negative": lambda: Model((2, 3)).add("Shrink", "x", lambd=-1.0),
}


@pytest.mark.parametrize("seed", range(3))
def test_what_lies_within_numbers_conforms(seed: int) -> None:
    Conformance(WithinRelaxation(-1e9, 1e9), lambda x: x, usual_bounds(seed)).check()


def test_nothing_is_known_beyond_the_numbers() -> None:
    relaxation = WithinRelaxation(-128.5, 127.5)
    h = Interval(torch.tensor([-128.5, -128.75, 0.0]), torch.tensor([127.5, 0.0, 200.0]))
    low, high = relaxation.range(h)
    assert low.tolist() == [-128.5, -math.inf, -math.inf]
    assert high.tolist() == [127.5, math.inf, math.inf]
    lines = relaxation.family(h, proof=True).at(relaxation.initial(h))
    assert lines.upper_intercept.tolist() == [0.0, 0.0, math.inf]  # a hair beyond is what rounding may make


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(UnsupportedOp):
        REFUSED[name]().network()
