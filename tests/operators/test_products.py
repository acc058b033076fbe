"""Products of values that both depend on the input: Mul, MatMul, Gemm, asked both ways; their planes conform."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from model.onnx_models import Model
from netproof.errors import UnsupportedOp
from netproof.model.load import load_network
from netproof.model.nonlinear import Product
from netproof.model.origin.cross_check import cross_check
from netproof.relax.product import ProductRelaxation
from support.both_ways import decided_both_ways
from support.conformance import Conformance, usual_boxes


def saved(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], shape: tuple[int, ...], folder: Path) -> Path:
    """Write a model of these nodes from `x` of this shape to `y`."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def box(size: int, width: float = 1.0) -> tuple[Tensor, Tensor]:
    return torch.full((1, size), -width), torch.full((1, size), width)


@pytest.mark.parametrize("seed", range(4))
def test_its_planes_conform(seed: int) -> None:
    Conformance(ProductRelaxation(), lambda x, y: x * y, usual_boxes(seed, 2)).check()


def test_both_parameters_move_a_plane_each() -> None:
    h = Conformance(ProductRelaxation(), lambda x, y: x * y, [((-1.0, 2.0), (-3.0, 1.0))]).h
    family = ProductRelaxation().family(h, proof=False)
    at = [family.at(torch.tensor([[below], [above]], dtype=torch.float64)) for below, above in ((0, 0), (1, 0), (0, 1))]
    assert at[0].lower_slope.flatten().tolist() == [-3.0, -1.0]  # through the corner (−1, −3)
    assert at[1].lower_slope.flatten().tolist() == [1.0, 2.0]  # through (2, 1)
    assert torch.equal(at[0].upper_slope, at[1].upper_slope)
    assert at[0].upper_slope.flatten().tolist() == [-3.0, 2.0]
    assert at[2].upper_slope.flatten().tolist() == [1.0, -1.0]
    assert torch.equal(at[0].lower_slope, at[2].lower_slope)


def test_its_error_holds_for_rounded_operands() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(50, 2, 30, generator=random, dtype=torch.float64)
    e = 1e-3 * torch.rand(50, 2, 30, generator=random, dtype=torch.float64)
    near = (x + e * (2 * torch.rand(x.shape, generator=random, dtype=torch.float64) - 1)).float()
    e = e.maximum((near - x).abs())
    off = (Product().forward(near).double() - Product().forward(x)).abs()
    allowed = Product().error(x, e, torch.float32)
    assert bool((off <= allowed).all())
    assert bool((Product().error(x, torch.zeros_like(e), torch.float32) < 1e-6 * (1 + x.prod(1).abs())).all())


class Multiplied(nn.Module):
    """Two layers, multiplied with each other: (1, 3, 2) and (1, 1, 2), broadcast."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right, self.last = nn.Linear(2, 6), nn.Linear(2, 2), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        product = self.left(x).view(1, 3, 2) * torch.relu(self.right(x)).view(1, 1, 2)
        return self.last(product.flatten(1))


def test_mul_broadcasts_and_is_decided_both_ways(tmp_path: Path) -> None:
    network = decided_both_ways(Multiplied().eval(), *box(2), tmp_path)
    assert any(isinstance(node.op, Product) for node in network.graph.nodes)


class MatrixProduct(nn.Module):
    """A[2, 2, 3] @ B[3, 2], both of the input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.left, self.right, self.last = nn.Linear(2, 12), nn.Linear(2, 6), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        product = self.left(x).view(2, 2, 3) @ self.right(x).view(3, 2)
        return self.last(product.reshape(1, 8))


def test_matmul_of_two_variables_is_batched_and_decided_both_ways(tmp_path: Path) -> None:
    decided_both_ways(MatrixProduct().eval(), *box(2), tmp_path)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("addend", ["none", "constant", "variable"])
def test_gemm_of_two_variables_is_decided_both_ways(transposed: bool, addend: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    sizes = {"a": 6, "b": 6, "c": 2}
    constants = {f"w{k}": rng.normal(size=(2, n)).astype(np.float32) for k, n in sizes.items()}
    shapes = {"a": (3, 2) if transposed else (2, 3), "b": (2, 3) if transposed else (3, 2), "c": (1, 2)}
    constants |= {f"s{k}": np.array(shape, dtype=np.int64) for k, shape in shapes.items()}
    constants |= {"flat": np.array((1, 4), dtype=np.int64), "mix": rng.normal(size=(4, 1)).astype(np.float32)}
    constants["fixed"] = rng.normal(size=2).astype(np.float32)
    nodes = []
    for k in sizes:
        nodes += [helper.make_node("MatMul", ["x", f"w{k}"], [f"h{k}"])]
        nodes += [helper.make_node("Reshape", [f"h{k}", f"s{k}"], [k])]
    inputs = ["a", "b", *{"none": [], "constant": ["fixed"], "variable": ["c"]}[addend]]
    turned = int(transposed)
    nodes += [
        helper.make_node("Gemm", inputs, ["p"], alpha=0.3, beta=-1.7, transA=turned, transB=turned),
        helper.make_node("Reshape", ["p", "flat"], ["q"]),
        helper.make_node("MatMul", ["q", "mix"], ["y"]),
    ]
    decided_both_ways(saved(nodes, constants, (1, 2), tmp_path), *box(2), tmp_path)


@pytest.mark.parametrize(("left", "right"), [((4,), (4,)), ((4,), (4, 2)), ((2, 4), (4,)), ((3, 1, 2, 4), (2, 4, 5))])
def test_matmul_has_the_shapes_of_numpy(left: tuple[int, ...], right: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    constants: dict[str, np.ndarray] = {}
    nodes = []
    for k, shape in (("a", left), ("b", right)):
        constants |= {f"w{k}": rng.normal(size=(3, int(np.prod(shape)))).astype(np.float32)}
        constants |= {f"s{k}": np.array(shape, dtype=np.int64)}
        nodes += [helper.make_node("MatMul", ["x", f"w{k}"], [f"h{k}"])]
        nodes += [helper.make_node("Reshape", [f"h{k}", f"s{k}"], [k])]
    nodes += [helper.make_node("MatMul", ["a", "b"], ["y"])]
    network = load_network(saved(nodes, constants, (1, 3), tmp_path))  # compared with onnxruntime there
    shape = np.matmul(np.zeros(left), np.zeros(right)).shape
    assert network.outputs[0].shape == shape
    assert network.output_shape == (shape or (1,))  # a number without axes is a vector of one


def test_a_matrix_product_too_large_is_refused(tmp_path: Path) -> None:
    shape = np.array((2**14, 1), dtype=np.int64)
    nodes = [
        helper.make_node("Reshape", ["x", "tall"], ["a"]),
        helper.make_node("Reshape", ["x", "wide"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]
    path = saved(nodes, {"tall": shape, "wide": shape[::-1].copy()}, (1, 2**14), tmp_path)
    with pytest.raises(UnsupportedOp, match="too large"):
        load_network(path)


def test_a_chain_of_folded_constants_keeps_its_rounding(tmp_path: Path) -> None:
    """A network applied to a constant, as controllers have for their goal: MatMul, Add and Relu of constants."""
    rng = np.random.default_rng(4)
    constants = {
        "goal": rng.normal(size=(1, 3)).astype(np.float32),
        "w": rng.normal(size=(3, 4)).astype(np.float32),
        "b": rng.normal(size=4).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["goal", "w"], ["g1"]),
        helper.make_node("Add", ["g1", "b"], ["g2"]),
        helper.make_node("Relu", ["g2"], ["g3"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Sub", ["h", "g3"], ["y"]),
    ]
    network = load_network(saved(nodes, constants, (1, 3), tmp_path))
    ops = [node.op for node in network.graph.nodes]
    radius = next(op.radius for op in ops if getattr(op, "radius", None) is not None)
    exact = np.maximum(constants["goal"].astype(np.longdouble) @ constants["w"] + constants["b"], 0)
    offset = radius.offset()
    mine = next(op for op in ops if getattr(op, "radius", None) is radius).offset()
    assert bool((np.abs(-mine.numpy().astype(np.longdouble) - exact) <= offset.numpy()).all())
    assert float(offset.max()) < 1e-14


def test_a_divisor_that_is_zero_at_a_point_is_no_disagreement() -> None:
    """x / x has no number at the origin, where networks are compared too; elsewhere it is compared."""
    network = Model((2, 3)).add("Div", "x", "x").network()
    cross_check(network, torch.stack([torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)]))
