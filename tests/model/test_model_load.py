"""What a loaded network says about itself, torch modules, and the rewriting of graphs."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx_models import Model, ints, small_net
from torch import nn

from netproof.errors import UsageError
from netproof.model.affine import Linear, Scale
from netproof.model.conv import Kernel
from netproof.model.describe import describe
from netproof.model.graph import Graph
from netproof.model.load import load_network
from netproof.model.moves import Reshape
from netproof.model.ops import Input


def check_form(graph: Graph) -> None:
    """The documented form: numbered in topological order, the input first and only there, the output last."""
    assert isinstance(graph.input.op, Input)
    assert len(graph.nodes) >= 2
    needed = graph.ancestors[-1]
    for position, node in enumerate(graph.nodes):
        assert node.index == position
        assert all(i < position for i in node.inputs)
        assert position == 0 or not isinstance(node.op, Input)
        assert position == 0 or position in needed


def test_gz_is_found_under_its_plain_name(tmp_path: Path) -> None:
    plain = load_network(small_net().save(tmp_path / "a.onnx"))
    (tmp_path / "b.onnx.gz").write_bytes(gzip.compress(small_net().proto().SerializeToString()))
    packed = load_network(tmp_path / "b.onnx")
    x = np.ones((1, 4), dtype=np.float32)
    assert np.array_equal(plain.replay(x), packed.replay(x))
    assert packed.path.endswith("b.onnx.gz")
    assert load_network(packed) is packed


@pytest.mark.parametrize("constant", [False, True])
def test_a_model_without_nodes_is_its_input_or_a_constant(constant: bool, tmp_path: Path) -> None:
    numbers = np.float32([[1, 2, 3]])
    x, w = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xw")
    kept = [onnx.numpy_helper.from_array(numbers, "w")] if constant else []
    graph = helper.make_graph([], "none", [x], [w if constant else x], kept)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    network = load_network(tmp_path / "m.onnx")
    check_form(network.graph)
    point = torch.full((1, 1, 3), 0.5, dtype=torch.float64)
    found = network.graph.forward(point).numpy().reshape(1, 3)
    assert np.array_equal(found, numbers if constant else np.full((1, 3), 0.5))
    assert np.array_equal(found, network.replay(np.full((1, 3), 0.5)))


def test_symbolic_batch_is_one_and_facts_are_kept(tmp_path: Path) -> None:
    model = small_net()
    model.shape = ("batch", 4)
    network = load_network(str(model.save(tmp_path / "a.onnx")))
    assert (network.input_shape, network.output_shape, network.opset) == ((1, 4), (1, 3), 13)
    assert network.weight_dtypes == ("float32",)
    assert network.notes == ()
    assert len(network.sha256) == 64
    assert network.replay(np.zeros(4)).dtype == np.float32


@pytest.mark.parametrize("name", ["float64", "float16"])
@pytest.mark.parametrize("inputs", [4, 2000])
def test_other_floats_are_read_exactly_and_said_to_be(tmp_path: Path, name: str, inputs: int) -> None:
    kind = TensorProto.DOUBLE if name == "float64" else TensorProto.FLOAT16
    model = Model((1, inputs), kind=kind)
    weight = (model.weights(inputs, 3) / 10).astype(name)
    model.add("MatMul", "x", weight, out="h").add("Relu", "h")
    network = load_network(model.save(tmp_path / "a.onnx"))
    assert network.weight_dtypes == (name,)
    assert f"{name} weights are read exactly" in network.notes
    assert network.replay(np.ones(inputs)).dtype == np.dtype(name)
    (op,) = [n.op for n in network.graph.nodes if isinstance(n.op, Linear)]
    assert np.array_equal(op.weight.numpy(), weight.T.astype(np.float64))


def test_initializers_listed_as_inputs_and_dead_parts_do_not_count(tmp_path: Path) -> None:
    model = small_net().add("Softmax", "r", out="dead").proto()
    model.graph.input.append(helper.make_tensor_value_info("c0", TensorProto.FLOAT, [4, 5]))
    path = tmp_path / "a.onnx"
    path.write_bytes(model.SerializeToString())
    check_form(load_network(path).graph)


def unused_inputs() -> dict[str, onnx.ValueInfoProto]:
    """Inputs of any type and shape, well declared or not."""
    text = helper.make_tensor_type_proto(TensorProto.STRING, [1])
    return {
        "float": helper.make_tensor_value_info("z", TensorProto.FLOAT, [7, 3]),
        "symbolic": helper.make_tensor_value_info("z", TensorProto.INT64, ["n", None]),
        "no shape": helper.make_tensor_value_info("z", TensorProto.FLOAT16, None),
        "string": helper.make_value_info("z", text),
        "sequence": helper.make_value_info("z", helper.make_sequence_type_proto(text)),
        "optional": helper.make_value_info("z", helper.make_optional_type_proto(text)),
        "no type": onnx.ValueInfoProto(name="z"),
    }


@pytest.mark.parametrize("name", unused_inputs())
@pytest.mark.parametrize("first", [True, False])
def test_an_input_that_plays_no_part_is_left_out(tmp_path: Path, name: str, first: bool) -> None:
    proto = small_net().proto()
    inputs = [unused_inputs()[name], *proto.graph.input]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs if first else reversed(inputs))
    path = _written(tmp_path, proto.SerializeToString())
    network = load_network(path)
    assert network.input_name == "x"
    plain = load_network(small_net().save(tmp_path / "plain.onnx"))
    x = np.ones((1, 4), dtype=np.float32)
    assert np.array_equal(network.replay(x), plain.replay(x))
    assert describe(path).output_shape == (1, 3)


def test_an_input_of_a_dead_part_is_left_out_with_it(tmp_path: Path) -> None:
    proto = small_net().add("MatMul", "z", "r", out="dead").proto()
    proto.graph.input.append(unused_inputs()["float"])
    proto.graph.input.append(helper.make_tensor_value_info("c0", TensorProto.FLOAT, [4, 5]))
    network = load_network(_written(tmp_path, proto.SerializeToString()))
    assert network.replay(np.zeros((1, 4))).shape == (1, 3)


def test_nodes_in_any_order(tmp_path: Path) -> None:
    model = small_net()
    model.nodes.reverse()
    proto = model.proto()
    check_form(load_network(_written(tmp_path, proto.SerializeToString())).graph)


def _written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    return path


def test_identities_go_and_reshapes_merge() -> None:
    model = Model((1, 2, 6)).add("Identity", "x", out="a").add("Reshape", "a", ints(1, 12), out="b")
    model.add("Dropout", "b", out="c").add("Reshape", "c", ints(3, 4), out="d").add("Reshape", "d", ints(4, 3))
    graph = model.network().graph
    check_form(graph)
    assert [type(n.op) for n in graph.nodes] == [Input, Reshape]
    assert graph.output.shape == (4, 3)


def test_a_bias_joins_its_matrix_only_when_nothing_else_uses_the_product() -> None:
    for shared in (False, True):
        model = Model((1, 3))
        model.add("MatMul", "x", model.weights(3, 3), out="a").add("Add", "a", model.weights(3), out="b")
        graph = (model.add("Sub", "b", "a") if shared else model.add("Relu", "b")).network().graph
        check_form(graph)
        assert any(isinstance(n.op, Scale) for n in graph.nodes) == shared


def test_an_identity_and_a_constant_network_keep_the_form() -> None:
    check_form(Model((2, 3)).add("Identity", "x").network().graph)
    model = Model((2, 3)).add("Shape", "x", out="s").add("ConstantOfShape", "s")
    network = model.network()
    check_form(network.graph)
    assert (network.graph.forward(torch.rand(2, 2, 3, dtype=torch.float64)) == 0).all()
    assert "the output does not depend on the input" in network.notes


def test_a_copy_elsewhere_is_made_once() -> None:
    graph = Model((1, 3)).add("Relu", "x", out="a").add("Add", "a", np.ones(3, np.float32)).network().graph
    single = graph.to("cpu", torch.float32)
    assert graph.to(torch.device("cpu"), torch.float32) is single
    assert graph.to("cpu", torch.float64) is not single
    x = torch.rand(2, 1, 3)
    assert single.forward(x).dtype == torch.float32
    assert torch.equal(single.forward(x), x.relu() + 1)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(x + self.second(x))
        return self.head(x.mean(dim=(2, 3)))


@pytest.mark.parametrize("shape", [(2, 8, 8), (1, 2, 8, 8)])
def test_torch_module_is_read_exactly_and_left_alone(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    module = Residual().train()
    module.head.eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = load_network(module, example_shape=shape)
    assert module.training
    assert module.norm.training
    assert not module.head.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert network.input_shape == (1, 2, 8, 8)
    kernels = [n.op.kernel for n in network.graph.nodes if hasattr(n.op, "kernel")]
    assert torch.equal(kernels[0].weight, module.first.weight.detach().double())
    x = torch.rand(5, 2, 8, 8)
    expected = module.eval()(x).detach().double()
    assert torch.allclose(network.graph.forward(x[:, None].double())[:, 0], expected, atol=1e-5)


def test_torch_module_needs_a_shape_that_fits() -> None:
    with pytest.raises(UsageError, match="example_shape"):
        load_network(nn.Linear(4, 2))
    with pytest.raises(
        UsageError, match=r"raised RuntimeError: mat1 and mat2.*\(5,\).*does not run on \(1, 5\) either"
    ):
        load_network(nn.Linear(4, 2), example_shape=(5,))
    with pytest.raises(UsageError, match="Expected more than 1 value per channel"):
        load_network(nn.BatchNorm1d(4, track_running_stats=False), example_shape=(1, 4))
    assert load_network(nn.Linear(4, 2), example_shape=(4,)).input_shape == (4,)
    assert load_network(nn.Linear(4, 2), example_shape=(1, 4)).input_shape == (1, 4)


def test_float64_convolutions_are_direct_and_equal_torch() -> None:
    x = torch.randn(7, 4, 9, 8, dtype=torch.float64)
    kernel = Kernel(torch.randn(6, 2, 3, 2, dtype=torch.float64), (2, 3), (1, 0), (1, 2), 2, (4, 9, 8))
    expected = nn.functional.conv2d(x, kernel.weight, None, (2, 3), (1, 0), (1, 2), 2)
    assert torch.allclose(kernel.correlate(x), expected, rtol=1e-13, atol=1e-13)
    y = torch.randn_like(expected)
    back = nn.grad.conv2d_input(x.shape, kernel.weight, y, (2, 3), (1, 0), (1, 2), 2)
    assert torch.allclose(kernel.transposed(y), back, rtol=1e-13, atol=1e-13)


def test_chunks_of_a_large_batch_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(7, 1, 5, 5, dtype=torch.float64)
    kernel = Kernel(torch.randn(2, 1, 3, 3, dtype=torch.float64), (1, 1), (0, 0), (1, 1), 1, (1, 5, 5))
    whole = kernel.correlate(x), kernel.transposed(kernel.correlate(x))
    monkeypatch.setattr("netproof.model.conv.UNFOLD_LIMIT", {"cpu": 200, "cuda": 200})
    assert torch.equal(kernel.correlate(x), whole[0])
    assert torch.equal(kernel.transposed(whole[0]), whole[1])


def test_describe(tmp_path: Path) -> None:
    facts = describe(small_net().save(tmp_path / "a.onnx"))
    assert facts.operators == {"Gemm": 2, "Relu": 1}
    assert (facts.input_shape, facts.output_shape) == ((1, 4), (1, 3))
    assert list(facts.neurons.values()) == [5]
    assert facts.parameters == 4 * 5 + 5 + 5 * 3 + 3
    assert not facts.unsupported
    broken = describe(Model((2, 3)).add("RandomNormalLike", "x").save(tmp_path / "b.onnx"))
    assert [(u.op, u.node) for u in broken.unsupported] == [("RandomNormalLike", "RandomNormalLike_0")]
    assert broken.output_shape is None
    assert broken.layers == ()


READABLE = [
    *("oval_base_easy", "oval_wide", "oval_deep", "oval21", "acasxu_2023", "sat_relu", "safenlp_2024"),
    *("cifar10_resnet", "collins_rul_cnn_2022", "malbeware", "cora_2024", "relusplitter", "mnist_fc"),
    *("sri_resnet_a", "rl_benchmarks", "cersyve", "tllverifybench_2023", "linearizenn_2024", "cgan_2023"),
    *("dist_shift_2023", "eran", "verivital", "lsnc_relu", "ml4acopf_2024", "vit_2023", "yolo_2023", "nn4sys"),
    "vnnlib_2.0",
]


@pytest.mark.benchmark
@pytest.mark.parametrize("name", READABLE)
def test_benchmark_networks_agree_with_onnxruntime(benchmarks: Path, name: str) -> None:
    if not (benchmarks / name).is_dir():
        pytest.skip(f"{name} is not in the folder of benchmarks")
    paths = sorted((benchmarks / name).rglob("*.onnx*"))
    assert paths
    for path in paths:
        check_form(load_network(path).graph)
