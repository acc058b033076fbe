"""Conditions get the verdicts that are known of them, on every kind of network and region."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import netproof
from netproof.problem.ask.compile import violations
from netproof.problem.specs import classification
from support.api import ask, module
from support.asking import dense
from support.conditions import network, same_violations

Margin = Callable[[dict[str, np.ndarray]], np.ndarray]  # over many points: how far the condition is from failing

GAP = 0.02


class Margins:
    """Draws conditions with how far they are from failing: the least of all for `and`, the largest for `or`."""

    def __init__(self, seed: int, x: Any, y: Any) -> None:
        self.rng, self.x, self.y = random.Random(seed), x, y

    def expression(self) -> tuple[Any, Margin]:
        k, c = self.rng.randrange(3), round(self.rng.uniform(-1, 1), 3)
        kind = self.rng.choice(["weights", "abs", "input", "product", "largest"])
        y, x = self.y, self.x
        if kind == "weights":
            w = np.array([round(self.rng.uniform(-1, 1), 2) for _ in range(3)])
            return w @ y + c, lambda at: at["y"] @ w + c
        if kind == "abs":
            return abs(y[k] - c), lambda at: abs(at["y"][:, k] - c)
        if kind == "input":
            return y[k] + c * x[0], lambda at: at["y"][:, k] + c * at["x"][:, 0]
        if kind == "product":
            return (y[k] - c) ** 2, lambda at: (at["y"][:, k] - c) ** 2
        return netproof.maximum(y) - y[k], lambda at: at["y"].max(1) - at["y"][:, k]

    def condition(self, depth: int, at: dict[str, np.ndarray]) -> tuple[Any, np.ndarray]:
        """A condition and its margin at every point."""
        if depth == 0:
            e, f = self.expression()
            limit = round(
                float(np.quantile(f(at), self.rng.choice([0, 0, 1, 1, 0.5]))) + self.rng.uniform(-0.3, 0.3), 3
            )
            if self.rng.random() < 0.5:
                return e < limit, limit - f(at)
            return e >= limit, f(at) - limit
        (a, f), (b, g) = self.condition(depth - 1, at), self.condition(depth - 1, at)
        kind = self.rng.choice(["and", "or", "when"])
        if kind == "and":
            return a & b, np.minimum(f, g)
        return (a | b, np.maximum(f, g)) if kind == "or" else (netproof.when(a, b), np.maximum(-f, g))


@pytest.mark.parametrize("seed", range(40))
def test_random_conditions_on_random_networks(seed: int) -> None:
    """With one input, points so dense that what lies between them cannot matter beyond a gap."""
    net = module(1, 5, 4, 3, seed=seed)
    x, y = netproof.variables(net, (1, 1))
    points = torch.linspace(-1, 1, 8001).reshape(-1, 1)
    with torch.no_grad():
        at = {"x": points.double().numpy(), "y": net.double()(points.double()).numpy()}
    net.float()
    condition, margin = Margins(seed, x, y).condition(seed % 3, at)
    if abs(margin.min()) < GAP:
        pytest.skip("too close to tell by points")
    verdict = ask(net, netproof.box([[-1]], [[1]]), holds=condition, timeout=60)
    assert verdict.status == ("unsat" if margin.min() > 0 else "sat"), (condition, margin.min())


def test_argmax_is_the_question_about_a_label() -> None:
    net, region = network(3, 4), netproof.linf_ball([[0.1, 0.2, 0.3]], 0.05)
    _, y = netproof.variables(net)
    for label in range(4):
        assert same_violations(violations(y.argmax() == label, region), classification(region, label, 4))
        assert ask(net, region, holds=y.argmax() == label).status == ask(net, region, label=label).status


def test_a_tie_is_neither_the_largest_nor_another() -> None:
    x = [0]
    net = torch.nn.Linear(1, 2)
    torch.nn.init.zeros_(net.weight), torch.nn.init.zeros_(net.bias)
    region = netproof.box([x], [x])
    _, y = netproof.variables(net, region)
    assert ask(net, region, holds=y.argmax() == 0).broken
    assert ask(net, region, holds=y.argmax() != 0).broken
    assert not ask(net, region, holds=~(y.argmax() == 0)).broken
    assert not ask(net, region, holds=y[0] >= y[1]).broken
    assert ask(net, region, holds=y[0] > y[1]).broken


@pytest.mark.parametrize(("sign", "proved"), [(1.0, True), (-1.0, False)])
def test_monotonicity_by_two_runs(sign: float, proved: bool, tmp_path: Path) -> None:
    """y = relu(x0 + x1) − relu(sign·…): growing in x0 or not."""
    path = dense(([[1.0, 1.0], [-1.0, 0.5]], [0.0, 0.0]), ([[sign, -0.5]], [0.0])).save(tmp_path / "f.onnx")
    (x1, y1), (x2, y2) = netproof.runs(path)
    grows = netproof.when((x1[0] <= x2[0]) & (x1[1] == x2[1]), y1[0] <= y2[0] + 0.01)
    region = netproof.box([[-1, -1]], [[1, 1]])
    verdict = ask(path, region, holds=grows, timeout=60)
    assert verdict.proved == proved
    assert verdict.broken != proved
    if verdict.witness is not None:
        at = {tensor.name: tensor.array.reshape(-1) for tensor in verdict.witness.tensors}
        assert at["X1"][0] <= at["X2"][0]
        assert at["X1"][1] == at["X2"][1]
        assert at["Y1"][0] > at["Y2"][0] + 0.01
    spec = tmp_path / "q.vnnlib"
    spec.write_text(grows.vnnlib(region), encoding="utf-8")
    assert ask(path, spec, timeout=60).proved == proved


@pytest.mark.parametrize(("constant", "proved"), [(3, True), (2.9, False)])
def test_a_lipschitz_constant_by_two_runs(constant: float, proved: bool) -> None:
    """y = relu(3 x) has the constant 3."""
    net = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.ReLU())
    with torch.no_grad():
        net[0].weight.fill_(3.0)
    region = netproof.box([[-1]], [[1]])
    (x1, y1), (x2, y2) = netproof.runs(net, 2, region)
    slack = 1e-6
    verdict = ask(net, region, holds=abs(y1[0] - y2[0]) <= constant * abs(x1[0] - x2[0]) + slack, timeout=60)
    assert verdict.broken != proved
    assert verdict.proved == proved


def test_two_networks_on_the_same_inputs(tmp_path: Path) -> None:
    """y = relu(x0 + x1) − 1 beside (0.9 x0 + 1.1 x1, x1): numbers of outputs differ, inputs are shared."""
    teacher = dense(([[1.0, 1.0]], [0.0]), ([[1.0]], [-1.0])).save(tmp_path / "teacher.onnx")
    student = dense(([[0.9, 1.1], [0.0, 1.0]], [-1.0, 0.0])).save(tmp_path / "student.onnx")
    (x1, y1), (x2, y2) = netproof.runs([teacher, student])
    same = netproof.every(a == b for a, b in zip(x1, x2, strict=True))
    region = netproof.box([[0, 0]], [[1, 1]])
    assert repr(y2[1] - x2[1]) == "y2[1] - x2[1]"
    for limit, proved in ((0.11, True), (0.09, False)):
        near = netproof.when(same, abs(y1[0] - y2[0]) <= limit)
        verdict = ask([teacher, student], region, holds=near, timeout=60)
        assert (verdict.proved, verdict.broken) == (proved, not proved)
        spec = tmp_path / "q.vnnlib"
        spec.write_text(near.vnnlib(region), encoding="utf-8")
        assert ask({"f1": teacher, "f2": student}, spec, timeout=60).status == verdict.status
    assert ask([teacher, student], region, holds=abs(y2[1] - x2[1]) <= 1e-6).proved
    with pytest.raises(netproof.UsageError, match="another network"):
        ask([student, teacher], region, holds=y1[0] <= y2[0])
    with pytest.raises(netproof.UsageError, match="another network"):
        ask(teacher, region, holds=y1[0] <= y2[0])


@pytest.mark.parametrize("make", [netproof.linf_ball, netproof.l1_ball, netproof.l2_ball])
def test_regions_of_every_kind(make: Any) -> None:
    """y = x0 + x1 on a ball of radius 0.5 around (1, 1): at least 1, 1.5 or 2 − 0.5·√2."""
    net = torch.nn.Linear(2, 1)
    torch.nn.init.ones_(net.weight), torch.nn.init.zeros_(net.bias)
    region = make([[1.0, 1.0]], 0.5)
    least = {netproof.linf_ball: 1.0, netproof.l1_ball: 1.5, netproof.l2_ball: 2 - 0.5 * 2**0.5}[make]
    x, y = netproof.variables(net, region)
    assert ask(net, region, holds=y[0] > least - 1e-3, timeout=60).proved
    assert ask(net, region, holds=y[0] > least + 1e-3, timeout=60).broken
    assert ask(net, region, holds=netproof.when(x[0] >= 1, y[0] > least + 1e-3), timeout=60).status in ("sat", "unsat")
    assert ask(net, region, holds=netproof.when(x[0] == x[1], y[0] == 2 * x[1]), timeout=60).status != "sat"


def test_a_linear_image() -> None:
    net = torch.nn.Linear(2, 1)
    torch.nn.init.ones_(net.weight), torch.nn.init.zeros_(net.bias)
    region = netproof.linear_image([[1.0, 2.0]], [[[0.5, -0.5]], [[0.1, 0.1]]])
    x, y = netproof.variables(net, region)
    assert ask(net, region, holds=netproof.between(y, 2.7, 3.3)).proved
    assert ask(net, region, holds=y[0] < 3.1).broken
    with pytest.raises(netproof.UsageError, match=r"linear image.*x\[0\]"):
        ask(net, region, holds=y[0] < x[0])
    with pytest.raises(netproof.UsageError, match="cannot say a linear image"):
        (y[0] < 1).vnnlib(region)


def test_conditions_that_say_too_much_or_too_little() -> None:
    net, region = network(2, 3), netproof.box([[0, 0]], [[1, 1]])
    x, y = netproof.variables(net)
    assert ask(net, region, holds=y[0] <= y[0]).proved
    assert ask(net, region, holds=y[0] < y[0]).broken
    empty = ask(net, region, holds=netproof.when(x[0] > 2, y[0] > 100))
    assert empty.proved
    assert empty.reason == "input set is empty"


def two_by_two(tmp_path: Path) -> Path:
    """Inputs a (1, 2) and b (1, 1), outputs p = a + b (1, 2) and q = −b (1, 1)."""
    shapes = {"a": [1, 2], "b": [1, 1], "p": [1, 2], "q": [1, 1]}
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    nodes = [helper.make_node("Add", ["a", "b"], ["p"]), helper.make_node("Neg", ["b"], ["q"])]
    graph = helper.make_graph(nodes, "g", [infos["a"], infos["b"]], [infos["p"], infos["q"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "two.onnx"))
    return tmp_path / "two.onnx"


def test_several_inputs_and_outputs_are_one_vector_each(tmp_path: Path) -> None:
    path = two_by_two(tmp_path)
    x, y = netproof.variables(path)
    assert (len(x), len(y)) == (3, 3)
    region = netproof.box([-1, -1, -1], [1, 1, 1])

    def equal(a: Any, b: Any) -> Any:
        return abs(a - b) <= 1e-6

    same = equal(y[0], x[0] + x[2]) & equal(y[1], x[1] + x[2]) & equal(y[2], -x[2])
    assert ask(path, region, holds=same).proved
    named = equal(y["p"][0], x["a"][0] + x["b"][0]) & equal(y["p"][0, 1], x["a"][1] + x["b"][0])
    assert ask(path, region, holds=named & equal(y["q"][0], -x[2])).proved
    assert ask(path, region, holds=equal(y["q"][0], x["b"][0])).broken
    (x1, y1), (x2, y2) = netproof.runs(path)
    assert ask(path, region, holds=netproof.when(x1[2] <= x2[2], y1[2] >= y2[2] - 1e-6)).proved
    _, q = netproof.variables(path, outputs=["q"])
    assert ask(path, region, holds=q[0] <= 1.001).proved
    with pytest.raises(netproof.UsageError, match="another network"):
        ask(path, region, holds=q[0] <= 1, outputs=["p"])


def test_a_module_may_be_trained_after_its_variables_were_made() -> None:
    net = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(net.weight), torch.nn.init.zeros_(net.bias)
    region = netproof.box([[0]], [[1]])
    _, y = netproof.variables(net, region)
    assert ask(net, region, holds=y[0] <= 1.5).proved
    torch.nn.init.ones_(net.bias)
    assert ask(net, region, holds=y[0] <= 1.5).broken


def test_large_inputs_and_outputs_do_not_take_long() -> None:
    """Expressions of thousands of elements, and a region of many inputs."""
    net = torch.nn.Linear(3000, 200)
    region = netproof.linf_ball(np.full((1, 3000), 0.5), 1e-4)
    x, y = netproof.variables(net, region)
    mean = x.sum() / 3000
    assert ask(net, region, holds=netproof.between(mean, 0.49, 0.51) & (sum(y) < 1e6), timeout=60).proved
    assert "declare-const X_2999 Real" in (y.argmax() == 3).vnnlib(region)
