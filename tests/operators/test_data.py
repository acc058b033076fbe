"""Operators that move numbers or take fixed sums of them, in networks that are proved and refuted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from torch import Tensor, nn

from model.onnx_models import Model, ints
from netproof.errors import ModelError, UnsupportedOp
from netproof.model.load import load_network
from netproof.model.network import Network
from support.both_ways import decided_both_ways


class Around(nn.Module):
    """A linear map and ReLU on (1, 4), an operator on `shape`, and a linear map to two outputs."""

    def __init__(self, shape: tuple[int, ...], operator: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.shape, self.operator = shape, operator
        self.first = nn.Linear(4, int(np.prod(shape)))
        if isinstance(operator, nn.Module):
            self.inner = operator
        size = operator(torch.zeros(1, *shape)).numel()
        self.last = nn.Linear(size, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x)).reshape(1, *self.shape)
        return self.last(torch.relu(self.operator(hidden).reshape(1, -1) - 0.1))


MASK = torch.tensor([[True, False, True], [False, True, True]])
MATRICES = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))


def updated(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, :, 1:3] = x[:, :, :2] * 2.0
    return y


torch.manual_seed(1)  # of the modules' own weights: by the luck of the draw intervals may be exact
EXPORTED: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "Resize, nearest": ((1, 2, 3), lambda x: F.interpolate(x, scale_factor=2, mode="nearest")),
    "Resize, linear": ((1, 2, 3), lambda x: F.interpolate(x, size=(4, 6), mode="bilinear", align_corners=False)),
    "Resize, corners": ((1, 2, 3), lambda x: F.interpolate(x, size=(3, 5), mode="bilinear", align_corners=True)),
    "Resize, cubic": ((1, 2, 3), lambda x: F.interpolate(x, size=(3, 5), mode="bicubic", align_corners=False)),
    "Expand": ((3, 1, 2), lambda x: x.expand(1, 3, 2, 2)),
    "Where": ((2, 3), lambda x: torch.where(MASK, x, torch.tensor(0.5))),
    "Where, two": ((2, 3), lambda x: torch.where(MASK, x, x.flip(2))),
    "ScatterND": ((2, 3), updated),
    "Tile": ((2, 3), lambda x: x.repeat(1, 2, 1)),
    "DepthToSpace": ((4, 1, 2), lambda x: F.pixel_shuffle(x, 2)),
    "SpaceToDepth": ((1, 2, 4), lambda x: F.pixel_unshuffle(x, 2)),
    "Pad, reflect": ((2, 3), lambda x: F.pad(x, (1, 2), mode="reflect")),
    "Pad, edge": ((2, 3), lambda x: F.pad(x, (1, 2), mode="replicate")),
    "CumSum": ((2, 3), lambda x: torch.cumsum(x, 1)),
    "Trilu": ((3, 3), torch.tril),
    "Einsum": ((2, 3), lambda x: torch.einsum("bij,ijk->bk", x, MATRICES)),
    "MatMul, batched": ((2, 2, 3), lambda x: torch.matmul(x, MATRICES)),
    "MatMul, batched from the left": ((2, 4, 2), lambda x: torch.matmul(MATRICES, x)),
    "GatherElements": ((2, 3), lambda x: torch.gather(x, 2, torch.tensor([[[2, 0], [1, 1]]]))),
    "Conv, 3-D": ((1, 2, 3, 3), nn.Conv3d(1, 2, 2, stride=(1, 2, 1), padding=(1, 0, 1))),
    "ConvTranspose, 3-D": ((1, 2, 2, 2), nn.ConvTranspose3d(1, 2, 2, stride=2)),
    "AveragePool, 3-D": ((1, 2, 3, 3), nn.AvgPool3d(2, stride=1, ceil_mode=True)),
    "AveragePool, ceil_mode": ((1, 5, 5), nn.AvgPool2d(2, stride=2, ceil_mode=True)),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_what_torch_exports_is_decided_both_ways(name: str, tmp_path: Path) -> None:
    shape, operator = EXPORTED[name]
    decided_both_ways(Around(shape, operator), torch.full((1, 4), -1.0), torch.ones(1, 4), tmp_path, share=0.8)


def around(opset: int, shape: tuple[int, ...], size: int, op: str, *inputs: object, **attributes: object) -> Model:
    """The same network around a node that torch has no exporter for; size: entries of its result."""
    model = Model((1, 4), opset)
    model.add("MatMul", "x", model.weights(4, int(np.prod(shape))), out="g").add("Relu", "g", out="r")
    model.add("Reshape", "r", ints(*shape), out="h").add(op, "h", *inputs, out="o", **attributes)
    model.add("Reshape", "o", ints(1, size), out="f").add("MatMul", "f", model.weights(size, 3), out="k")
    return model.add("Relu", "k", out="l").add("MatMul", "l", model.weights(3, 2))


HALVES = np.float32([1, 1, 2, 1.5])
WRITTEN: dict[str, Callable[[], Model]] = {
    "Upsample-7": lambda: around(7, (1, 1, 2, 4), 24, "Upsample", scales=[1.0, 1.0, 2.0, 1.5]),
    "Upsample-9": lambda: around(9, (1, 1, 2, 4), 24, "Upsample", HALVES, mode="linear"),
    "Resize-10": lambda: around(10, (1, 1, 2, 4), 24, "Resize", HALVES),
    "Resize-10, smaller": lambda: around(10, (1, 1, 2, 5), 6, "Resize", np.float32([1, 1, 1, 0.6])),
    "ScatterElements": lambda: around(16, (2, 3), 6, "ScatterElements", ints(2, 0)[None], np.float32([[5, 7]]), axis=1),
    "GatherND": lambda: around(13, (2, 3), 4, "GatherND", np.asarray([[0, 2], [1, 0], [1, 1], [0, 0]])),
    "Compress": lambda: around(11, (2, 3), 4, "Compress", np.asarray([True, False, True]), axis=1),
    "ReverseSequence": lambda: around(10, (3, 2), 6, "ReverseSequence", ints(3, 2), time_axis=0, batch_axis=1),
    "Pad, wrap": lambda: around(19, (2, 3), 10, "Pad", ints(0, 1, 0, 1), mode="wrap"),
    "Mean": lambda: around(13, (2, 3), 6, "Mean", np.float32([1, 2, 3]), "h"),
    "SAME with dilation": lambda: around(
        13, (1, 1, 6), 6, "Conv", np.float32([[[1, -2, 1]]]), auto_pad="SAME_UPPER", dilations=[2]
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_onnx_writes_is_decided_both_ways(name: str, tmp_path: Path) -> None:
    path = WRITTEN[name]().save(tmp_path / "net.onnx")
    decided_both_ways(path, torch.full((1, 4), -1.0), torch.ones(1, 4), tmp_path, share=0.8)


# --- what is refused, by name ------------------------------------------------------------------------------


def read(model: Model, tmp_path: Path) -> Network:
    return load_network(model.save(tmp_path / "net.onnx"))


REFUSED: dict[str, tuple[Callable[[], Model], str]] = {
    "antialias": (
        lambda: Model((1, 1, 4, 4), 18).add("Resize", "x", None, None, ints(1, 1, 2, 2), mode="linear", antialias=1),
        "antialias",
    ),
    "rounding": (
        lambda: Model((1, 1, 1, 3), 13).add(
            "Resize", "x", None, np.float32([1, 1, 1, 1.6666666]), coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        "float32 gives another size",
    ),
    "nearest": (
        lambda: Model((1, 1, 1, 10), 13).add(
            "Resize", "x", None, np.float32([1, 1, 1, 0.6]), coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        "float32 takes another entry",
    ),
    "corners": (
        lambda: Model((1, 1, 1, 5), 13).add(
            "Resize", "x", None, np.float32([1, 1, 1, 0.7]), coordinate_transformation_mode="align_corners"
        ),
        "onnx and onnxruntime differ on align_corners",
    ),
    "twice": (
        lambda: Model((4,), 16).add("ScatterND", "x", np.asarray([[1], [1]]), np.float32([5, 6])),
        "onnx leaves open which one stays",
    ),
    "reduction": (
        lambda: Model((4,), 16).add("ScatterND", "x", np.asarray([[1]]), np.float32([5]), reduction="mul"),
        "its reduction 'mul'",
    ),
    "integers from the input": (
        lambda: Model((4,), 13).add("Cast", "x", to=TensorProto.INT64, out="i").add("GatherElements", "x", "i"),
        "GatherElements: it computes with integers that depend on the network's input",
    ),
    "einsum of three": (
        lambda: Model((2, 2), 13).add("Einsum", "x", "x", "x", equation="ij,jk,kl->il"),
        "3 operands",
    ),
    "tile of too many": (lambda: Model((1, 4), 13).add("Tile", "x", ints(1 << 20, 1 << 10)), "too large"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str, tmp_path: Path) -> None:
    make, match = REFUSED[name]
    with pytest.raises(UnsupportedOp, match=match) as caught:
        read(make(), tmp_path)
    assert "\n" not in str(caught.value)


# --- what stands for others --------------------------------------------------------------------------------


def test_functions_of_the_model_are_written_out(tmp_path: Path) -> None:
    body = [
        helper.make_node("Mul", ["a", "b"], ["m"]),
        helper.make_node("Relu", ["m"], ["c"]),
    ]
    function = helper.make_function("own", "Gate", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)])
    graph = helper.make_graph(
        [helper.make_node("Gate", ["x", "k"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("k", TensorProto.FLOAT, [2], [2.0, -1.0])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    network = load_network(path)
    assert network.replay(np.float32([[3, 4]])).tolist() == [[6.0, 0.0]]
    assert network.graph.forward(torch.tensor([[[3.0, 4.0]]], dtype=torch.float64)).tolist() == [[[6.0, 0.0]]]


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_by_a_constant(condition: bool, tmp_path: Path) -> None:
    def branch(op: str) -> object:
        out = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["h"], ["b"])], op, [], [out])

    model = Model((1, 3), 13).add("Add", "x", np.float32([1, 2, 3]), out="h")
    model.add("If", np.asarray(condition), then_branch=branch("Relu"), else_branch=branch("Neg"))
    network = read(model, tmp_path)
    expected = [[[0.0, 0.0, 1.0]]] if condition else [[[1.0, 1.0, -1.0]]]
    assert network.graph.forward(torch.tensor([[[-2.0, -3.0, -2.0]]], dtype=torch.float64)).tolist() == expected


def test_a_branch_by_the_input_is_refused(tmp_path: Path) -> None:
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    same = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "g", [], [out])
    model = Model((1, 1), 13).add("Greater", "x", np.float32([[0]]), out="c")
    with pytest.raises(UnsupportedOp, match="its condition depends on the network's input"):
        read(model.add("If", "c", then_branch=same, else_branch=same), tmp_path)


def test_a_newer_file_is_given_as_an_older_one(tmp_path: Path) -> None:
    model = Model((1, 3), 28).add("Relu", "x", out="r").add("Reshape", "r", ints(3, 1)).proto()
    model.ir_version = 13
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    assert load_network(path).replay(np.float32([[-1, 2, 3]])).tolist() == [[0.0], [2.0], [3.0]]


def test_an_operator_of_the_newest_opset_alone_is_refused_with_what_onnxruntime_says(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="onnxruntime cannot run it"):
        read(Model((1, 1, 4, 4), 28).add("SpaceToDepth", "x", blocksize=2), tmp_path)
