"""Several inputs and outputs: one vector of all, in the file's order, and onnxruntime is asked as the file wants it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import netproof
from model.misreadings import points, read, refused
from model.onnx_models import Model, small_net
from netproof.errors import ModelError, UnsupportedOp, UsageError
from netproof.model.load import load_network, read_network
from netproof.model.moves import Index
from netproof.model.onnx.rewrite.simplify import simplify
from netproof.model.origin.cross_check import cross_check
from netproof.model.origin.trace import TensorInfo

FLOAT, DOUBLE, HALF, INT = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64


def with_inputs(model: Model, *inputs: tuple[str, int, Sequence[int | str]], outputs: Sequence[str] = ("y",)) -> bytes:
    """The model with further inputs after "x"."""
    proto = model.proto(outputs)
    proto.graph.input.extend(helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs)
    return proto.SerializeToString()


def two_in_two_out(*, kind: int = FLOAT) -> bytes:
    """y = relu(x z): (2, 4), and s = the sums of x's rows: (2, 1)."""
    model = Model((2, 3), kind=kind)
    model.add("Concat", "x", "z", out="h", axis=0).add("MatMul", "h", model.weights(3, 4), out="m")
    model.add("Relu", "m", out="y").add("ReduceSum", "x", np.asarray([1]), out="s")
    return with_inputs(model, ("z", kind, [1, 3]), outputs=("s", "y"))


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    return path


def parse(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    return model


def test_vectors_of_all_inputs_and_all_outputs(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, two_in_two_out()))
    assert network.inputs == (TensorInfo("x", (2, 3), "float32"), TensorInfo("z", (1, 3), "float32"))
    assert network.outputs == (TensorInfo("s", (2, 1), "float32"), TensorInfo("y", (3, 4), "float32"))
    assert (network.input_shape, network.output_shape) == ((9,), (14,))
    x = np.arange(9, dtype=np.float32)
    answer = network.replay(x)
    assert answer[:2].tolist() == [3.0, 12.0]
    ours = network.graph.forward(torch.from_numpy(x.astype(np.float64))[None])[0].numpy()
    np.testing.assert_allclose(answer, ours, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("outputs", "shape"), [(["y"], (3, 4)), (["y", "s"], (14,)), (["m"], (3, 4)), (["h", "x"], (15,)), (["z"], (1, 3))]
)
def test_any_tensor_is_an_output_by_name(tmp_path: Path, outputs: list[str], shape: tuple[int, ...]) -> None:
    network = load_network(written(tmp_path, two_in_two_out()), outputs=outputs)
    assert [info.name for info in network.outputs] == outputs
    assert network.output_shape == shape
    assert network.input_shape == (9,), "what is asked for does not change what X_0, X_1, … are"
    x = np.random.default_rng(0).normal(size=9).astype(np.float32)
    ours = network.graph.forward(torch.from_numpy(x.astype(np.float64))[None])[0].numpy()
    np.testing.assert_allclose(network.replay(x), ours, rtol=1e-5, atol=1e-5)


def test_a_constant_among_outputs_and_outputs_that_are_all_constant(tmp_path: Path) -> None:
    model = small_net().add("Identity", np.asarray([1.5, -2.0], dtype=np.float32), out="k")
    path = model.save(tmp_path / "net.onnx", outputs=("k", "y"))
    network = load_network(path)
    assert network.replay(np.zeros(4))[:2].tolist() == [1.5, -2.0]
    assert network.graph.forward(torch.zeros(1, 1, 4, dtype=torch.float64))[0, :2].tolist() == [1.5, -2.0]
    assert load_network(path, outputs=["k"]).output_shape == (2,)


def test_an_input_without_a_part_counts_where_several_are_used(tmp_path: Path) -> None:
    model = Model((1, 3)).add("Sub", "x", "z")
    data = with_inputs(model, ("idle", INT, [2]), ("z", FLOAT, [1, 3]))
    network = load_network(written(tmp_path, data))
    assert [info.name for info in network.inputs] == ["x", "idle", "z"]
    assert network.inputs[1].dtype == "int64"
    x = np.asarray([5, 6, 7, 100.5, 200, 1, 2, 4])
    assert network.replay(x).tolist() == [[4.0, 4.0, 3.0]]
    assert network.graph.forward(torch.from_numpy(x)[None])[0].tolist() == [[4.0, 4.0, 3.0]]


def test_the_choice_of_outputs_does_not_renumber_the_inputs(tmp_path: Path) -> None:
    model = Model((1, 3)).add("Relu", "x", out="a").add("Relu", "z", out="b")
    path = written(tmp_path, with_inputs(model, ("z", FLOAT, [1, 2]), outputs=("a", "b")))
    network = load_network(path, outputs=["b"])
    assert network.input_shape == (5,)
    assert network.replay(np.asarray([9, 9, 9, 3, -4])).tolist() == [[3.0, 0.0]]


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (("z", DOUBLE, [1, 3]), "different types .float32, float64.*one float type"),
        (("z", HALF, [1, 3]), "different types .float16, float32"),
        (("z", INT, [1, 3]), "input 'z' has type INT64"),
        (("z", FLOAT, [1, "n"]), "axis 1 is symbolic"),
        (("z", FLOAT, [0, 3]), "size zero"),
        (("z", FLOAT, [1 << 20, 1 << 20]), "is larger than"),
    ],
)
def test_inputs_that_cannot_be_joined(tmp_path: Path, more: tuple[str, int, Sequence[int | str]], match: str) -> None:
    with pytest.raises(ModelError, match=match):
        load_network(written(tmp_path, with_inputs(Model((1, 3)).add("Sub", "x", "z"), more)))


@pytest.mark.parametrize(
    ("outputs", "match"),
    [(["nowhere"], "no tensor 'nowhere'.*'s', 'y'"), (["y", "y"], "once each"), ([], "cannot be"), ("y", "cannot be")],
)
def test_outputs_that_are_not_there(tmp_path: Path, outputs: list[str], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        load_network(written(tmp_path, two_in_two_out()), outputs=outputs)


def test_a_loaded_network_keeps_its_outputs(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, two_in_two_out()), outputs=["y"])
    assert read_network(network, outputs=["y"]) is network
    with pytest.raises(UsageError, match="has its outputs"):
        load_network(network, outputs=["s"])


def test_a_question_about_two_inputs_and_one_of_two_outputs(tmp_path: Path) -> None:
    path, spec = written(tmp_path, two_in_two_out()), tmp_path / "spec.vnnlib"
    lines = [f"(declare-const X_{i} Real)" for i in range(9)] + [f"(declare-const Y_{i} Real)" for i in range(2)]
    lines += [f"(assert (>= X_{i} {i}))\n(assert (<= X_{i} {i}.5))" for i in range(9)]
    for limit, expected in ((13.6, "unsat"), (13.4, "sat")):
        spec.write_text("\n".join([*lines, f"(assert (>= Y_1 {limit}))"]))
        verdict = netproof.verify(path, spec, outputs=["s"], device="cpu", timeout=60)
        assert str(verdict.status) == expected
    assert netproof.bounds(path, spec, outputs=["s"], device="cpu").lower.shape == (2, 1)


def test_a_module_with_several_outputs() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.relu(x), x.sum(1)

    ones = torch.ones(1, 1, 3, dtype=torch.float64)
    network = load_network(Two(), example_shape=(1, 3))
    assert network.output_shape == (4,)
    assert network.reference is not None
    assert network.reference.outputs(network.reference.answers(ones)).tolist() == [[1.0, 1.0, 1.0, 3.0]]
    one = load_network(Two(), example_shape=(1, 3), outputs=[network.outputs[1].name])
    assert one.output_shape == (1,)
    assert one.reference is not None
    assert one.reference.outputs(one.reference.answers(ones)).tolist() == [[3.0]]


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x - 2).sum(1)


def test_an_output_inside_a_module_is_the_result_of_its_operation() -> None:
    network = load_network(Inner(), example_shape=(1, 3), outputs=["result of relu"])
    region = netproof.box(torch.zeros(1, 3), torch.full((1, 3), 3.0))
    found = netproof.bounds(network, region, method="exact", device="cpu")
    assert found.lower.flatten().tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert found.upper.flatten().tolist() == pytest.approx([1, 1, 1], abs=1e-6)
    moved = load_network(Inner(), example_shape=(1, 3), outputs=["result of relu"])
    assert moved.reference is not None
    moved.reference.module.forward = lambda x: torch.relu(x - 2.5).sum(1)  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="inside the module cannot be compared"):
        netproof.bounds(moved, region, device="cpu")


def test_an_output_of_a_module_that_is_no_result_of_an_operation() -> None:
    mean = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU())
    inside = {name for step in load_network(mean, example_shape=(1, 3)).trace.steps for name, _ in step.outputs}
    unnamed = sorted(name for name in inside if name.startswith("/"))
    assert unnamed  # tensors of the file that no recorded operation has as its result
    for name in (unnamed[0], "nothing"):
        with pytest.raises(UsageError, match=re.escape(name)):
            load_network(mean, example_shape=(1, 3), outputs=[name])


def test_inputs_or_outputs_that_are_exchanged_are_seen() -> None:
    network = read(parse(two_in_two_out()))
    cross_check(network, points(network))
    trace = network.trace
    swapped = replace(trace, inputs=tuple(zip(("x", "z"), (i for _, i in reversed(trace.inputs)), strict=True)))
    assert "input 'x'" in refused(replace(network, trace=swapped))
    swapped = replace(trace, outputs=tuple(zip(("s", "y"), (i for _, i in reversed(trace.outputs)), strict=True)))
    assert "output 's'" in refused(replace(network, trace=swapped))
    assert "output 'y'" in refused(replace(network, outputs=network.outputs[::-1]))


def test_a_wrong_part_of_the_input_is_seen() -> None:
    network = read(parse(two_in_two_out()))
    part = network.trace.nodes[dict(network.trace.inputs)["x"]].inputs[0]
    moved = Index(0, torch.arange(3, 9), 9)
    nodes = [replace(node, op=moved) if node.index == part else node for node in network.trace.nodes]
    graph, origin = simplify(nodes, network.trace.output)
    trace = replace(network.trace, nodes=tuple(nodes), origin=origin)
    assert "input 'x'" in refused(replace(network, graph=graph, trace=trace))


def test_outputs_that_can_be_read_are_named_where_another_cannot(tmp_path: Path) -> None:
    model = Model((1, 2))
    model.add("Gemm", "x", model.weights(2, 3), out="y").add("Relu", "y", out="r")
    model.add("Multinomial", "x", out="z", sample_size=1, dtype=INT)
    path = model.save(tmp_path / "m.onnx", ("y", "z", "r"))
    with pytest.raises(UnsupportedOp, match=r"operator Multinomial: .* \(ask for .*: --output y --output r\)$"):
        load_network(path)
    assert load_network(path, outputs=["y", "r"]).output_shape == (6,)
