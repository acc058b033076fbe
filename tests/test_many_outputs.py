"""Questions about many outputs, classes or constraints: what grows with their square goes some at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import netproof
from netproof import api
from netproof.dataset import engine
from netproof.errors import OutOfMemory
from netproof.problem.property import Property
from netproof.problem.reduce import Parts, reduce
from netproof.problem.specs import classification
from netproof.run import ranges

METHODS = ranges.RANGE_METHODS


class Largest(TorchDispatchMode):
    """Notes the numbers of the largest memory that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        sizes = [tensor.untyped_storage().nbytes() // max(1, tensor.element_size()) for tensor in tensors]
        self.numbers = max(self.numbers, *sizes, 0)
        return result


def saved(path: Path, nodes: list[onnx.NodeProto], shape: tuple[int, ...], **constants: np.ndarray) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def classifier(path: Path, outputs: int, inputs: int = 6, lead: float = 0.0) -> Path:
    """One hidden layer; the first output has a lead over all others."""
    random = np.random.default_rng(0)
    bias = np.zeros(outputs, np.float32)
    bias[0] = lead
    nodes = [
        helper.make_node("Gemm", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "b", "c"], ["y"]),
    ]
    weights = {"a": random.normal(size=(inputs, 5)), "b": random.normal(size=(5, outputs))}
    return saved(path, nodes, (1, inputs), c=bias, **{k: v.astype(np.float32) for k, v in weights.items()})


def middle(inputs: int = 6) -> np.ndarray:
    return np.random.default_rng(1).random((1, inputs)).astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
def test_what_only_moves_its_inputs_is_bounded_by_them(tmp_path: Path, method: str) -> None:
    x = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    repeats = np.int64([7, 6, 4, 3])
    tile = saved(tmp_path / "tile.onnx", [helper.make_node("Tile", ["x", "r"], ["y"])], x.shape, r=repeats)
    with Largest() as largest:
        found = netproof.bounds(tile, netproof.box(x, x + np.float32(0.5)), method=method)
    low, high = np.tile(x, repeats), np.tile(x + np.float32(0.5), repeats)
    assert ((found.lower <= low) & (found.upper >= high)).all()
    assert np.allclose(found.lower, low, atol=1e-6)
    assert np.allclose(found.upper, high, atol=1e-6)
    assert found.exact == (method == "exact")
    assert largest.numbers < 40 * low.size  # rows for all outputs have 2 · 60480 times as many


@pytest.mark.parametrize("method", ["ibp", "crown", "alpha"])
def test_bounds_of_many_outputs_take_no_square_of_them(tmp_path: Path, method: str) -> None:
    wide = classifier(tmp_path / "wide.onnx", 5000)
    with Largest() as largest:
        found = netproof.bounds(wide, netproof.linf_ball(middle(), 0.1), method=method)
    assert np.isfinite(found.lower).all()
    assert largest.numbers <= 1 << 22  # 25 million are the square


@pytest.mark.parametrize("method", METHODS)
def test_some_outputs_at_a_time_have_the_bounds_of_all_at_once(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, region = classifier(tmp_path / "wide.onnx", 11), netproof.linf_ball(middle(), 0.3)
    whole = netproof.bounds(wide, region, method=method)
    monkeypatch.setattr(ranges, "targets_that_fit", lambda *_: 6)
    parts = netproof.bounds(wide, region, method=method)
    assert parts.exact == whole.exact == (method == "exact")
    tolerance = 1e-2 if method == "alpha" else 1e-5  # each is climbed on its own
    assert np.allclose(parts.lower, whole.lower, atol=tolerance)
    assert np.allclose(parts.upper, whole.upper, atol=tolerance)
    network, points = netproof.load_network(wide), np.random.default_rng(2).uniform(-0.3, 0.3, (200, 1, 6))
    for point in points:
        y = network.replay((middle() + point).astype(np.float32))
        assert ((parts.lower <= y + 1e-5) & (y <= parts.upper + 1e-5)).all()


def test_outputs_that_time_does_not_reach_have_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide, region = classifier(tmp_path / "wide.onnx", 11), netproof.linf_ball(middle(), 0.3)
    deadline = netproof.Deadline()
    told = ranges._minima

    def once(*given: Any) -> Any:
        found = told(*given)
        deadline.cancel()
        return found

    monkeypatch.setattr(ranges, "targets_that_fit", lambda *_: 6)
    monkeypatch.setattr(ranges, "_minima", once)
    found = netproof.bounds(wide, region, method="exact", deadline=deadline)
    plain = netproof.bounds(wide, region, method="ibp")
    assert not found.exact
    assert found.reason
    assert (found.lower[0, :3] > plain.lower[0, :3]).any()
    assert (found.lower[0, 3:] == plain.lower[0, 3:]).all()


def question(tmp_path: Path, classes: int, eps: float, lead: float) -> tuple[Path, netproof.InputRegion]:
    return classifier(tmp_path / "wide.onnx", classes, lead=lead), netproof.linf_ball(middle(), eps)


@pytest.mark.parametrize("lead", [0.0, 30.0])
@pytest.mark.parametrize("method", ["auto", "beta", "lirpa", "input-split"])
def test_a_question_in_parts_has_the_answer_of_the_whole(
    tmp_path: Path, lead: float, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, region = question(tmp_path, 12, 0.2, lead)
    whole = netproof.verify(model, region, label=0, method=method)
    monkeypatch.setattr(api, "numbers_in_rows", lambda device: 5 * 12)
    told: list[netproof.Progress] = []
    parts = netproof.verify(model, region, label=0, method=method, progress=told.append)
    assert parts.status == whole.status == ("unsat" if lead else "sat")
    searched = [one for one in told if one.phase not in ("load", "attack")]
    assert not lead or {one.problems for one in searched} == {3}  # else a part's bound were taken for that of the whole


def test_parts_hold_every_case_once_and_no_more_numbers_than_they_may(tmp_path: Path) -> None:
    model, region = question(tmp_path, 12, 0.2, 0.0)
    network = netproof.load_network(model)
    property = classification(region, 0, 12)
    other = classification(netproof.linf_ball(middle() + 1, 0.1), 3, 12)
    both = Property((*property.disjuncts, *other.disjuncts), 6, 12)
    for numbers in (3, 12, 60, 11 * 12, 13 * 12, 22 * 12, 1000):
        parts = Parts(network, both, numbers)
        made = [problem for problems in parts for problem in problems]
        assert sorted(i for problem in made for i in problem.disjuncts) == list(range(22))
        for problems in parts:
            assert sum(problem.rows.coef.numel() for problem in problems) <= max(12, numbers)
        assert len(parts.input_sets(4)) == 2
    assert len(Parts(network, both, 22 * 12)) == 1
    assert [problem.disjuncts for problem in reduce(network, both)] == [tuple(range(11)), tuple(range(11, 22))]


def test_a_case_with_more_constraints_than_fit_is_refused(tmp_path: Path) -> None:
    network = netproof.load_network(classifier(tmp_path / "wide.onnx", 12))
    property = classification(netproof.linf_ball(middle(), 0.2), 0, 12)
    rows = tuple(row for disjunct in property.disjuncts for row in disjunct.rows)
    conjunction = Property((type(property.disjuncts[0])(property.disjuncts[0].box, rows),), 6, 12)
    assert len(Parts(network, conjunction, 11 * 12)) == 1
    with pytest.raises(OutOfMemory, match="one case of a violation has 11 constraints over 12 values"):
        Parts(network, conjunction, 12)


@pytest.mark.parametrize("lead", [0.0, 30.0])
def test_images_of_many_classes_are_certified_in_parts(
    tmp_path: Path, lead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = question(tmp_path, 12, 0.2, lead)
    label = int(netproof.load_network(model).replay(middle()).argmax())
    asked = model, np.repeat(middle(), 3, 0), np.full(3, label), 0.2
    whole = netproof.certify(*asked)
    monkeypatch.setattr(engine, "numbers_in_rows", lambda device: 5 * 12)
    parts = netproof.certify(*asked)
    assert [one.status for one in parts.images] == [one.status for one in whole.images]


def test_a_label_against_many_classes_takes_no_square_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, region = question(tmp_path, 4000, 0.001, 30.0)
    monkeypatch.setattr(api, "numbers_in_rows", lambda device: 1 << 20)
    with Largest() as largest:
        verdict = netproof.verify(model, region, label=0, attack=False)
    assert verdict.proved
    assert largest.numbers <= 1 << 22  # 16 million are the square


def test_sets_without_rows_are_there_once(tmp_path: Path) -> None:
    property = classification(netproof.linf_ball(middle(), 0.2), 0, 12)
    assert len(property.disjuncts) == 11
    assert len(property.without_rows().disjuncts) == 1
