"""Operators that are written with several others: softmax, normalisations, reductions, attention."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mpmath import MPContext
from torch import Tensor, nn

import netproof
from model.onnx_models import Model, ints
from netproof.core.verdict import Status
from netproof.errors import UnsupportedOp
from netproof.model.load import load_network
from netproof.model.nonlinear import Product, SoftmaxEntry
from netproof.relax.softmax import SoftmaxRelaxation
from support.both_ways import box_spec, decided_both_ways
from support.conformance import Conformance, usual_boxes

mp = MPContext()  # of its own: its precision is nobody else's
mp.dps = 50


def box(size: int, width: float = 0.5, around: float = 0.3) -> tuple[Tensor, Tensor]:
    return torch.full((1, size), around - width), torch.full((1, size), around + width)


class Between(nn.Module):
    """Two inputs, a linear layer of n, something of (1, n), and a linear output."""

    def __init__(self, middle: nn.Module, size: int = 4, seed: int = 0, outputs: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.middle, self.last = nn.Linear(2, size), middle, nn.Linear(outputs or size, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self.first(x)).flatten(1))


class Does(nn.Module):
    """A function as a module, on what is reshaped first."""

    def __init__(self, function: object, *shape: int) -> None:
        super().__init__()
        self.function, self.shape = function, shape

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x.view(*self.shape) if self.shape else x).reshape(1, -1)  # type: ignore[operator]


def plain_layer_norm(x: Tensor) -> Tensor:
    """As older exports of torch decompose it."""
    away = x - x.mean(-1, keepdim=True)
    return away / torch.sqrt(away.pow(2.0).mean(-1, keepdim=True) + 1e-5)


TORCH = {
    "Softmax": (Does(lambda x: torch.softmax(x, -1)), 4),
    "Softmax, axis 1 of 3": (Does(lambda x: torch.softmax(x, 1), 1, 2, 3), 6),
    "LogSoftmax": (Does(lambda x: torch.log_softmax(x, -1)), 4),
    "LayerNormalization": (nn.LayerNorm(4), 4),
    "LayerNormalization of two axes": (Does(nn.LayerNorm((2, 2), bias=False), 1, 2, 2), 4),
    "LayerNormalization, decomposed": (Does(plain_layer_norm), 4),
    "InstanceNormalization": (Does(nn.InstanceNorm1d(2, affine=True), 1, 2, 3), 6),
    "GroupNormalization, as torch exports it": (Does(nn.GroupNorm(2, 4), 1, 4, 2), 8),
    "ReduceL2, as F.normalize has it": (Does(lambda x: F.normalize(x + 3.0)), 4),
    "ReduceLogSumExp": (Does(lambda x: torch.logsumexp(x, -1), 1, 2, 2), 4),
    "ReduceProd": (Does(lambda x: torch.prod(x, -1), 1, 2, 3), 6),
    "Div": (Does(lambda x: x[..., :2] / (1.5 + torch.sigmoid(x[..., 2:]))), 4),
    "Div of a constant": (Does(lambda x: 2.0 / (1.5 + torch.sigmoid(x))), 2),
    "F.scaled_dot_product_attention": (Does(lambda x: F.scaled_dot_product_attention(*x.unbind(0)), 3, 1, 1, 2, 2), 12),
}
OUTPUTS = {"ReduceLogSumExp": 2, "ReduceProd": 2, "Div": 2, "F.scaled_dot_product_attention": 4}


@pytest.mark.parametrize("name", TORCH)
def test_what_torch_exports_is_decided_both_ways(name: str, tmp_path: Path) -> None:
    middle, size = TORCH[name]
    width = 0.1 if "Norm" in name else 0.5
    decided_both_ways(Between(middle, size, outputs=OUTPUTS.get(name)).eval(), *box(2, width), tmp_path)


class Attention(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.inner, self.last = nn.Linear(2, 8), inner, nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).view(1, 2, 4)
        h = self.inner(h, h, h)[0] if isinstance(self.inner, nn.MultiheadAttention) else self.inner(h)
        return self.last(h.reshape(1, 8))


@pytest.mark.parametrize("kind", ["attention", "encoder", "encoder, norms first"])
def test_attention_as_torch_has_it_is_decided_both_ways(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    inner: nn.Module = nn.MultiheadAttention(4, 2, batch_first=True)
    if kind != "attention":
        inner = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True, norm_first="first" in kind)
    module = Attention(inner).eval()
    fast = torch.backends.mha.get_fastpath_enabled()
    network = decided_both_ways(module, *box(2, 0.2 if kind == "encoder" else 0.5), tmp_path)
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert sum(isinstance(node.op, Product) for node in network.graph.nodes) >= 2


# --- what torch does not export ------------------------------------------------------------------------------


def with_node(
    op: str, shape: tuple[int, ...], *more: np.ndarray, opset: int = 13, seed: int = 0, **attributes: object
) -> Model:
    """A linear layer of two inputs in this shape, one node of that kind, and a linear output."""
    model, size = Model((1, 2), opset=opset), int(np.prod(shape))
    model.add("Gemm", "x", model.weights(2, size), model.weights(size), out="h")
    model.add("Reshape", "h", ints(*shape), out="r").add(op, "r", *more, out="n", **attributes)
    model.add("Reshape", "n", ints(1, -1), out="f")
    count = size
    if op.startswith("Reduce"):
        axes = attributes.get("axes", list(range(len(shape)))) if not more else more[0].tolist()
        count = size // int(np.prod([shape[axis] for axis in axes]))  # type: ignore[union-attr]
    return model.add("MatMul", "f", model.weights(count, 1))


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


NODES = {
    "GroupNormalization, opset 18": with_node(
        "GroupNormalization", (1, 4, 2), weights(2), weights(2), opset=18, num_groups=2
    ),
    "GroupNormalization, opset 21": with_node(
        "GroupNormalization", (1, 4, 2), weights(4), weights(4), opset=21, num_groups=2
    ),
    "InstanceNormalization": with_node("InstanceNormalization", (1, 2, 3), weights(2), weights(2)),
    "MeanVarianceNormalization": with_node("MeanVarianceNormalization", (1, 2, 2, 2)),
    "MeanVarianceNormalization, axes": with_node("MeanVarianceNormalization", (1, 1, 2, 2), axes=[2, 3]),
    "RMSNormalization": with_node("RMSNormalization", (1, 4), weights(4), opset=23),
    "LpNormalization, 1": with_node("LpNormalization", (1, 4), p=1),
    "LpNormalization, 2": with_node("LpNormalization", (2, 3), p=2, axis=1),
    "ReduceL1": with_node("ReduceL1", (2, 3), axes=[1]),
    "ReduceL2": with_node("ReduceL2", (2, 3), axes=[1], keepdims=0),
    "ReduceL2, opset 18": with_node("ReduceL2", (2, 3), ints(0), opset=18),
    "ReduceSumSquare": with_node("ReduceSumSquare", (2, 3), axes=[0]),
    "ReduceLogSumExp": with_node("ReduceLogSumExp", (2, 3), axes=[1], keepdims=0),
    "ReduceProd": with_node("ReduceProd", (2, 2, 3), axes=[2]),
    "Softmax, opset 11": with_node("Softmax", (2, 2, 2), opset=11),
    "Softmax, opset 11, axis 2": with_node("Softmax", (2, 2, 2), opset=11, axis=2),
    "LogSoftmax, opset 11": with_node("LogSoftmax", (2, 1, 2), opset=11, axis=-2),
    "LogSoftmax, axis 0": with_node("LogSoftmax", (3, 2), axis=0),
}


@pytest.mark.parametrize("name", NODES)
def test_what_onnx_has_is_decided_both_ways(name: str, tmp_path: Path) -> None:
    width = 0.05 if "Norm" in name else 0.3
    decided_both_ways(NODES[name].save(tmp_path / "net.onnx"), *box(2, width), tmp_path)


def test_the_logarithm_of_a_sum_needs_one_that_is_positive(tmp_path: Path) -> None:
    model = Model((1, 2))
    model.add("Gemm", "x", model.weights(2, 4), model.weights(4), out="h").add("Exp", "h", out="e")
    model.add("ReduceLogSum", "e", axes=[1], keepdims=1)
    decided_both_ways(model.save(tmp_path / "net.onnx"), *box(2), tmp_path)


def test_two_axes_of_a_product_and_an_odd_number_of_factors() -> None:
    model = with_node("ReduceProd", (2, 3, 5), axes=[0, 2], keepdims=0)
    network = model.network()
    x = torch.randn(6, 1, 2, dtype=torch.float64)
    hidden = x @ torch.from_numpy(model.constants["c0"]).double() + torch.from_numpy(model.constants["c1"]).double()
    expected = hidden.view(6, 2, 3, 5).prod(3).prod(1) @ torch.from_numpy(model.constants["c4"]).double()
    assert torch.allclose(network.graph.forward(x).flatten(), expected.flatten(), rtol=1e-12)


def test_a_row_of_one_is_one() -> None:
    network = with_node("Softmax", (4, 1)).network()
    x = torch.randn(3, 1, 2, dtype=torch.float64)
    y = network.graph.forward(x)
    assert torch.equal(y, network.graph.forward(torch.zeros_like(x)))
    assert bool(y.isfinite().all())


@pytest.mark.parametrize("seed", range(3))
def test_softmax_is_exact_to_many_digits(seed: int) -> None:
    """The graph, evaluated in float64, against 50 digits; also where one entry is far above the others."""
    random = np.random.default_rng(seed)
    model = Model((1, 6), seed=seed).add("Softmax", "x", axis=-1)
    network = model.network()
    for size in (0.1, 5.0, 60.0):
        x = size * random.normal(size=6)
        found = network.graph.forward(torch.from_numpy(x)[None, None])[0, 0].tolist()
        terms = [mp.exp(mp.mpf(float(v))) for v in x]
        assert all(
            abs(mp.mpf(p) - t / sum(terms)) <= mp.mpf(1e-13) * t / sum(terms) for p, t in zip(found, terms, strict=True)
        )


@pytest.mark.parametrize("mean", [0.0, 30.0, 1000.0])
def test_a_layer_norm_far_from_zero_agrees_with_onnxruntime(mean: float) -> None:
    """A variance computed as E[x²] − E[x]² in float32 would not; onnxruntime's is not."""
    model = Model((1, 4), opset=17)
    model.add("Add", "x", np.float32(mean), out="h").add("LayerNormalization", "h", weights(4), weights(4))
    network = model.network()
    points = 0.1 * torch.randn(20, 1, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    from netproof.model.origin.cross_check import cross_check

    cross_check(network, points)


def test_an_epsilon_of_zero_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="epsilon"):
        with_node("LayerNormalization", (1, 4), weights(4), opset=17, epsilon=0.0).network()


def test_a_divisor_that_may_be_zero_is_said(tmp_path: Path) -> None:
    module = Between(Does(lambda x: x[..., :2] / x[..., 2:]), 4, outputs=2).eval()
    network = load_network(module, example_shape=(1, 2))
    spec = tmp_path / "p.vnnlib"
    spec.write_text(box_spec(*box(2, 20.0), 1, "(>= Y_0 1000000)"))
    verdict = netproof.verify(network, spec, timeout=20, device="cpu")
    assert verdict.status == Status.UNKNOWN
    assert "may be 0" in verdict.reason


def exact_softmax(*x: Fraction) -> Fraction:
    """p_0 to 50 digits."""
    terms = [mp.exp(mp.mpf(v.numerator) / mp.mpf(v.denominator)) for v in x]
    value = terms[0] / sum(terms)
    return Fraction(int(value.man)) * Fraction(2) ** int(value.exp)


@pytest.mark.parametrize(("arity", "seed"), [(2, 0), (3, 1)])
def test_planes_of_a_softmax_conform(arity: int, seed: int) -> None:
    Conformance(SoftmaxRelaxation(arity), exact_softmax, usual_boxes(seed, arity)).check()


def test_planes_of_a_softmax_conform_where_entries_are_far_apart() -> None:
    boxes = [((-300.0, -299.0), (0.0, 1.0)), ((-1.0, 500.0), (0.0, 0.5)), ((1e6, 1e6 + 1), (1e6, 1e6 + 2))]
    boxes += [((-40.0, 40.0), (-40.0, 40.0)), ((0.0, 1e-9), (0.0, 1e-9)), ((0.0, 0.0), (-1.0, 1.0))]
    Conformance(SoftmaxRelaxation(2), exact_softmax, boxes).check()


def test_the_error_of_a_softmax_holds_in_float32() -> None:
    random = torch.Generator().manual_seed(0)
    for size in (0.1, 3.0, 40.0):
        x = size * torch.randn(200, 5, 7, generator=random, dtype=torch.float64)
        e = 1e-3 * torch.rand(x.shape, generator=random, dtype=torch.float64)
        near = (x + e * (2 * torch.rand(x.shape, generator=random, dtype=torch.float64) - 1)).float()
        e = e.maximum((near - x).abs())
        op = SoftmaxEntry(5)
        off = (op.forward(near).double() - op.forward(x)).abs()
        assert bool((off <= op.error(x, e, torch.float32)).all())


def test_the_attention_operator_of_onnx_is_decided_both_ways(tmp_path: Path) -> None:
    model = Model((1, 2), opset=23)
    for name in ("q", "k", "v"):
        model.add("Gemm", "x", model.weights(2, 8), model.weights(8), out=f"{name}f")
        model.add("Reshape", f"{name}f", ints(1, 2, 2, 2), out=name)
    model.add("Attention", "q", "k", "v", out="a").add("Reshape", "a", ints(1, 8), out="f")
    model.add("MatMul", "f", model.weights(8, 1))
    decided_both_ways(model.save(tmp_path / "net.onnx"), *box(2, 0.2), tmp_path)


def test_attention_of_flat_tokens_with_shared_keys_and_a_mask_agrees_with_onnxruntime() -> None:
    model = Model((1, 3, 8), opset=23)
    for name, width in (("q", 8), ("k", 4), ("v", 4)):
        model.add("MatMul", "x", model.weights(8, width), out=name)
    mask = model.weights(1, 1, 3, 3)
    model.add("Attention", "q", "k", "v", mask, q_num_heads=4, kv_num_heads=2, scale=0.3)
    network = model.network()
    for x in np.random.default_rng(0).normal(size=(5, 1, 3, 8)).astype(np.float32):
        ours = network.graph.forward(torch.from_numpy(x)[None].double())[0].numpy()
        assert np.abs(ours - network.replay(x)).max() < 1e-5


def test_what_attention_does_not_have_is_refused() -> None:
    model = Model((1, 1, 2, 2), opset=23).add("Attention", "x", "x", "x", softcap=2.0)
    with pytest.raises(UnsupportedOp, match="caps its scores"):
        model.network()
