"""ReLUs of multiples of one argument are merged, and the function stays the same to the last bit of its weights."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import netproof
from netproof.core.verdict import Status
from netproof.errors import ModelError
from netproof.model.graph import Graph
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.model.nonlinear import Relu
from netproof.model.onnx.rewrite import twins


def relus(graph: Graph) -> int:
    return sum(node.size for node in graph.nodes if isinstance(node.op, Relu))


def planted(rng: np.random.Generator, shape: tuple[int, ...], scales: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Rows with their biases; each scale adds a multiple of the first row, in a place of its own."""
    rows = rng.normal(size=shape).astype(np.float32)
    bias = rng.normal(size=shape[0]).astype(np.float32)
    more = np.stack([rows[0] * np.float32(s) for s in scales]) if scales else rows[:0]
    every = np.concatenate([rows, more])
    biases = np.concatenate([bias, [bias[0] * np.float32(s) for s in scales]]).astype(np.float32)
    order = rng.permutation(len(every))
    return every[order], biases[order]


def model(path: Path, shape: tuple[int, ...], layers: list[tuple[str, np.ndarray, np.ndarray | None]]) -> Path:
    """Layers with a ReLU between each two: Gemm (out, in), or Conv (out, in, k, k) with padding."""
    nodes, weights, last = [], [], "x"
    for place, (kind, weight, bias) in enumerate(layers):
        names = [f"w{place}"] + ([f"b{place}"] if bias is not None else [])
        weights += [numpy_helper.from_array(t, n) for t, n in zip((weight, bias), names, strict=False) if t is not None]
        attributes = {"transB": 1} if kind == "Gemm" else {"pads": [weight.shape[2] // 2] * 4}
        nodes.append(helper.make_node(kind, [last, *names], [f"h{place}"], **attributes))
        last = f"h{place}"
        if place < len(layers) - 1:
            nodes.append(helper.make_node("Relu", [last], [f"z{place}"]))
            last = f"z{place}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), (last, None))]
    graph = helper.make_graph(nodes, "twins", ends[:1], ends[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


def same_function(network: Network) -> None:
    """The graph agrees with the one that was read, in float64, at many points."""
    x = torch.randn(200, *network.input_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values: list[torch.Tensor] = []
    for node in network.trace.nodes:
        values.append(x if not node.inputs else node.op.forward(*(values[i] for i in node.inputs)))
    assert torch.allclose(network.graph.forward(x), values[network.trace.output], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("scales", "left"), [([-1.0], 4), ([1.0], 4), ([2.0, -0.5], 4), ([-4.0, -1.0, 8.0], 4), ([1.5], 5), ([], 4)]
)
def test_rows_of_a_matrix(seed: int, scales: list[float], left: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = planted(rng, (4, 3), scales)
    readers = rng.integers(-8, 8, size=(2, len(weight))).astype(np.float32)
    network = load_network(model(tmp_path / "m.onnx", (1, 3), [("Gemm", weight, bias), ("Gemm", readers, None)]))
    assert relus(network.graph) == left
    same_function(network)


@pytest.mark.parametrize("seed", range(3))
def test_channels_of_a_convolution(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = planted(rng, (3, 2, 3, 3), [-1.0, 2.0])
    readers = rng.integers(-8, 8, size=(2, 5, 3, 3)).astype(np.float32)
    layers = [("Conv", weight, bias), ("Conv", readers, np.ones(2, np.float32))]
    network = load_network(model(tmp_path / "m.onnx", (1, 2, 5, 5), layers))
    assert relus(network.graph) == 3 * 25
    same_function(network)


def test_a_split_relu_is_whole_again(tmp_path: Path) -> None:
    """relu(h) − relu(−h) is h: the layer that splits it has no ReLU left."""
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    twice = np.stack([weight, -weight], 1).reshape(6, 4), np.stack([bias, -bias], 1).reshape(6)
    join = np.kron(np.eye(3, dtype=np.float32), np.float32([[1, -1]]))
    out = rng.normal(size=(1, 3)).astype(np.float32)
    layers = [("Gemm", *twice), ("Gemm", join, np.zeros(3, np.float32)), ("Gemm", out, None)]
    network = load_network(model(tmp_path / "m.onnx", (1, 4), layers))
    assert relus(network.graph) == 3
    same_function(network)


def test_twins_behind_twins(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    first, second = planted(rng, (3, 4), [-1.0]), planted(rng, (3, 4), [-2.0, 1.0])
    layers = [("Gemm", *first), ("Gemm", *second), ("Gemm", np.ones((1, 5), np.float32), None)]
    network = load_network(model(tmp_path / "m.onnx", (1, 4), layers))
    assert relus(network.graph) == 6
    same_function(network)


def test_weights_that_do_not_add_exactly_are_left_alone(tmp_path: Path) -> None:
    weight, bias = planted(np.random.default_rng(2), (1, 3), [-1.0])
    readers = np.float32([[1.0, 2.0**-60]])
    network = load_network(model(tmp_path / "m.onnx", (1, 3), [("Gemm", weight, bias), ("Gemm", readers, None)]))
    assert relus(network.graph) == 2


def test_the_relu_that_is_the_output_stays(tmp_path: Path) -> None:
    weight, bias = planted(np.random.default_rng(3), (2, 3), [-1.0])
    path = model(tmp_path / "m.onnx", (1, 3), [("Gemm", weight, bias), ("Gemm", np.eye(3, dtype=np.float32), None)])
    import onnx

    proto = onnx.load(path)
    del proto.graph.node[-1]
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("z0", TensorProto.FLOAT, None))
    onnx.save(proto, path)
    assert relus(load_network(path).graph) == 3


def test_dead_and_constant_rows_are_nobodys_twins(tmp_path: Path) -> None:
    weight = np.float32([[0, 0], [0, 0], [1, 2], [-1, -2]])
    bias = np.float32([1, -1, 0.5, -0.5])
    readers = np.float32([[1, 2, 3, 4]])
    network = load_network(model(tmp_path / "m.onnx", (1, 2), [("Gemm", weight, bias), ("Gemm", readers, None)]))
    assert relus(network.graph) == 3
    same_function(network)


def test_weights_at_the_ends_of_float64_are_compared_without_a_word() -> None:
    """2^1023 and below the normal numbers: their scales overflow or vanish, which makes them nobody's twins."""
    rows = np.array([[2.0**1023, 1.0], [-(2.0**1023), -1.0], [5e-324, 0.0], [1e-323, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert twins._twins(rows) == [twins.Twins([2, 3], [1.0, 2.0])]


def test_a_wrong_merge_does_not_pass_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, bias = planted(np.random.default_rng(4), (3, 3), [-1.0])
    path = model(tmp_path / "m.onnx", (1, 3), [("Gemm", weight, bias), ("Gemm", np.ones((1, 4), np.float32), None)])
    genuine = twins._taken

    def wrong(op: twins.Layer, groups: list[twins.Twins]) -> tuple[torch.Tensor, torch.Tensor]:
        bent, straight = genuine(op, groups)
        return bent, -straight

    monkeypatch.setattr(twins, "_taken", wrong)
    with pytest.raises(ModelError, match="disagree"):
        load_network(path)


def test_the_verdict_is_that_of_the_plain_network(tmp_path: Path) -> None:
    """One ReLU, split in two: the property needs no split any more, where the file's own network has two ReLUs."""
    weight, bias = np.float32([[1.0], [-1.0]]), np.float32([0.25, -0.25])
    path = model(tmp_path / "m.onnx", (1, 1), [("Gemm", weight, bias), ("Gemm", np.float32([[1, -1]]), None)])
    spec = tmp_path / "p.vnnlib"
    head = "(declare-const X_0 Real)\n(declare-const Y_0 Real)\n(assert (>= X_0 -1))\n(assert (<= X_0 1))\n"
    for value, status in (("1.2501", Status.UNSAT), ("1.2499", Status.SAT)):
        spec.write_text(f"{head}(assert (>= Y_0 {value}))\n")
        verdict = netproof.verify(path, spec, timeout=20)
        assert verdict.status == status
        assert verdict.stats.domains == 0


def test_sums_are_checked_as_they_are_added(tmp_path: Path) -> None:
    """Prefixes over all twins are exact here, the sum over the negative ones alone is not."""
    weight = np.float32([[1.0], [-1.0], [-1.0], [-1.0]])
    bias = np.zeros(4, np.float32)
    readers = np.float32([[-1.0, 1.0, 2.0**-54, 2.0**-54]])
    network = load_network(model(tmp_path / "m.onnx", (1, 1), [("Gemm", weight, bias), ("Gemm", readers, None)]))
    assert relus(network.graph) == 4
