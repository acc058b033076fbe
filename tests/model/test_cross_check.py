"""The comparison with onnxruntime refuses every wrong reading, and says where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from misreadings import points, read, refused, tampered
from onnx import helper
from onnx_models import Model, ints, small_net
from torch import Tensor

from netproof.model.affine import Linear
from netproof.model.conv import Conv
from netproof.model.graph import Graph, Node
from netproof.model.network import Network
from netproof.model.nonlinear.smooth import Log
from netproof.model.onnx import reader
from netproof.model.onnx.folding import fold
from netproof.model.onnx.rewrite import simplify as simplify_module
from netproof.model.ops import Op
from netproof.model.origin.constant import Constant
from netproof.model.origin.cross_check import cross_check

# --- wrong readings -----------------------------------------------------------------------------------------


def ten_layers() -> Model:
    """Eight convolutions and two matrices, with what else there is between them; nodes are named by their place."""
    m = Model((1, 4, 8, 8))

    def conv(source: str, out: str, inputs: int = 4, size: int = 3, **form: Any) -> None:
        m.add("Conv", source, m.weights(4, inputs, size, size) / 4, m.weights(4), out=out, **form)

    conv("x", "a1", inputs=2, group=2, pads=[1, 1, 1, 1])
    spread = np.abs(m.weights(4)) + np.float32(0.1)
    m.add("BatchNormalization", "a1", m.weights(4), m.weights(4), m.weights(4), spread, epsilon=0.001, out="a2")
    m.add("Relu", "a2", out="a3")
    conv("a3", "b1", dilations=[2, 1], pads=[2, 1, 2, 1])
    m.add("LeakyRelu", "b1", alpha=0.1, out="b2")
    conv("b2", "m1", pads=[1, 1, 1, 1])
    m.add("Relu", "m1", out="m2")
    conv("m2", "d1", size=2, auto_pad="SAME_UPPER")
    m.add("AveragePool", "d1", kernel_shape=[3, 3], pads=[1, 1, 1, 1], out="d2")
    m.add("Transpose", "d2", perm=[0, 1, 3, 2], out="d3")
    conv("d3", "e1", strides=[2, 2], pads=[1, 1, 0, 0])
    m.add("Relu", "e1", out="e2")
    conv("e2", "f1", pads=[1, 1, 1, 1])
    conv("e2", "f2", size=1)
    m.add("Concat", "f1", "f2", axis=1, out="f3").add("Slice", "f3", ints(0, 0), ints(8, 4), ints(1, 2), out="f4")
    conv("f4", "g1", inputs=8, pads=[1, 1, 1, 1])
    m.add("Relu", "g1", out="g2").add("Sub", "g2", "e2", out="g3")
    m.add("ReduceMean", "g3", axes=[2], keepdims=1, out="h1").add("Flatten", "h1", out="h2")
    m.add("Gemm", "h2", m.weights(16, 16), m.weights(16), alpha=0.5, beta=2.0, transB=1, out="h3")
    m.add("Relu", "h3", out="h4")
    return m.add("Gemm", "h4", m.weights(16, 3), m.weights(3))


ATTRIBUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "group": ("a1", {"group": 1}),
    "pads": ("m1", {"pads": [2, 1, 0, 1]}),
    "epsilon": ("a2", {"epsilon": 0.0011}),
    "epsilon-by-default": ("a2", {"epsilon": None}),
    "dilation": ("b1", {"dilations": [1, 2], "pads": [1, 2, 1, 2]}),
    "slope": ("b2", {"alpha": 0.1001}),
    "auto-pad-side": ("d1", {"auto_pad": "SAME_LOWER"}),
    "count-include-pad": ("d2", {"count_include_pad": 1}),
    "perm": ("d3", {"perm": [0, 1, 2, 3]}),
    "stride": ("e1", {"strides": [1, 1], "dilations": [2, 2], "pads": [0, 0, 0, 0]}),
    "axis-of-mean": ("h1", {"axes": [3]}),
    "keepdims": ("h1", {"keepdims": 0}),
    "mean-axes": ("h1", {"axes": [-2]}),
    "transB": ("h3", {"transB": 0}),
    "alpha": ("h3", {"alpha": 0.50001}),
    "beta": ("h3", {"beta": None}),
}


def changed(proto: onnx.ModelProto, tensor: str, attributes: dict[str, Any]) -> onnx.ModelProto:
    """The model with other attributes on the node that makes `tensor`; None leaves one out."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    (node,) = [node for node in copy.graph.node if tensor in node.output]
    kept = [a for a in node.attribute if a.name not in attributes]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items() if v is not None)
    return copy


def misread(model: Model, tensor: str, attributes: dict[str, Any]) -> Network:
    """What a reader that gets these attributes wrong would make of the model."""
    proto = model.proto()
    wrong = changed(proto, tensor, attributes)
    if tensor == "a1":  # the weights must fit
        weight = next(t for t in wrong.graph.initializer if t.name == "c0")
        value = onnx.numpy_helper.to_array(weight)
        weight.CopyFrom(onnx.numpy_helper.from_array(np.concatenate([value, value], axis=1), "c0"))
    return replace(read(wrong), model=proto.SerializeToString())


def test_the_ten_layers_agree() -> None:
    network = ten_layers().network()
    cross_check(network, points(network))
    cross_check(network, points(network, 1e-3))
    cross_check(network, points(network, 1e4))


@pytest.mark.parametrize("name", [name for name in ATTRIBUTES if name != "mean-axes"])
def test_a_misread_attribute_is_refused_and_its_node_named(name: str) -> None:
    tensor, attributes = ATTRIBUTES[name]
    network = misread(ten_layers(), tensor, attributes)
    line = refused(network)
    (node,) = [node.name for node in ten_layers().nodes if tensor in node.output]
    assert f"node '{node}'" in line or name == "group"  # where the constant is wrong, that is named


def test_another_spelling_of_the_same_attribute_is_no_mismatch() -> None:
    network = misread(ten_layers(), *ATTRIBUTES["mean-axes"])
    cross_check(network, points(network))


def test_a_result_of_the_wrong_shape_is_refused() -> None:
    model = Model((1, 2, 8, 8))
    model.add("Conv", "x", model.weights(3, 2, 3, 3), out="a").add("GlobalAveragePool", "a")
    line = refused(misread(model, "a", {"strides": [2, 2]}), "on its shape")
    assert "node 'Conv_0' (Conv)" in line


def groups_swapped(weight: torch.Tensor, channel: int) -> torch.Tensor:
    return weight.roll(2, 0)


def one_weight(share: float) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """The largest weight on the channel off by this share of itself."""

    def apply(weight: torch.Tensor, channel: int) -> torch.Tensor:
        part = weight[:, channel].clone()
        part.view(-1)[part.abs().argmax()] *= 1.0 + share
        wrong = weight.clone()
        wrong[:, channel] = part
        return wrong

    return apply


def loudest_channel(network: Network, tensor: str, channels: int) -> int:
    """Of the input of the node that makes `tensor`: a weight on a channel that is dead at all points has no effect."""
    (name,) = [name for node in ten_layers().nodes if tensor in node.output for name in node.input[:1]]
    seen = [np.abs(network.tensors(point.numpy(), [name])[0]).sum((0, 2, 3)) for point in points(network)]
    return int(np.sum(seen, axis=0)[:channels].argmax())


@pytest.mark.parametrize("tensor", ["a1", "b1", "m1", "d1", "e1", "f1", "f2", "g1"])
@pytest.mark.parametrize("change", [groups_swapped, one_weight(1e-3), one_weight(-2.0)])
def test_a_wrong_convolution_is_refused_in_any_layer(
    tensor: str, change: Callable[[torch.Tensor, int], torch.Tensor]
) -> None:
    network = ten_layers().network()

    def wrong(op: Op) -> Op:
        assert isinstance(op, Conv)
        weight = op.kernel.weight
        channel = loudest_channel(network, tensor, int(weight.shape[1]))
        return replace(op, kernel=replace(op.kernel, weight=change(weight, channel)))

    assert "(Conv)" in refused(tampered(network, tensor, wrong))


def test_a_weight_is_wrong_for_certain_beyond_twice_the_rounding_of_its_sum() -> None:
    """One product moves by more than twice what the step may round; then no value of the runtime agrees with both."""
    model = Model((1, 20))
    network = model.add("Gemm", "x", model.weights(20, 6), model.weights(6)).network()
    x = points(network)
    op = network.graph.output.op
    assert isinstance(op, Linear)
    sums = (x[:, 0, :, None].abs() * op.weight.T.abs()).sum(1) + op.bias.abs()
    share = 2.1 * 23 * 2.0**-24 * sums[:, 0] / (x[:, 0, 0] * op.weight[0, 0]).abs()
    weight = op.weight.clone()
    weight[0, 0] *= 1.0 + float(share.min())
    assert float(share.min()) < 1e-3
    refused(tampered(network, "y", lambda op: replace(op, weight=weight)))


@pytest.mark.parametrize("seed", range(20))
def test_a_misread_constant_is_refused_however_small_the_difference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry of one initializer, by one float32 step."""
    model = ten_layers()
    floats = [name for name, value in model.constants.items() if value.dtype == np.float32]
    wrong = floats[int(np.random.default_rng(seed).integers(len(floats)))]

    def off(value: np.ndarray) -> np.ndarray:
        single = value.astype(np.float32)
        single.flat[-1] = np.nextafter(single.flat[-1], np.float32(np.inf))
        return single.astype(np.float64)

    misreading(monkeypatch, wrong, off)
    assert f"initializer '{wrong}'" in refused(model.network())


def misreading(monkeypatch: pytest.MonkeyPatch, wrong: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    genuine = reader.read_tensor

    def read_tensor(tensor: onnx.TensorProto, name: str, file: Any) -> Constant:
        found = genuine(tensor, name, file)
        return replace(found, value=change(found.value)) if name == wrong else found

    monkeypatch.setattr(reader, "read_tensor", read_tensor)


def test_misread_indices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model((2, 3)).add("Gather", "x", ints(2, 0, 1), axis=1)
    cross_check(model.network(), points(model.network()))
    misreading(monkeypatch, "c0", lambda value: value[::-1])
    assert "initializer 'c0'" in refused(model.network())


@pytest.mark.parametrize("wrong", ["Div", "Sqrt", "Mul", "Sub"])
def test_wrong_folding_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> Network:
        m = Model((2, 3))
        m.add("Sub", np.abs(m.weights(3)) + 2, np.float32([0.001]), out="v").add("Sqrt", "v", out="s")
        m.add("Div", m.weights(3), "s", out="k").add("Mul", "k", m.weights(3), out="t")
        return m.add("Mul", "x", "t").network()

    cross_check(build(), points(build()))
    genuine = fold.ARITHMETIC[wrong]

    def off(*operands: Constant) -> Constant:
        found = genuine(*operands)
        return replace(found, value=found.value * (1.0 + 1e-5))

    monkeypatch.setitem(fold.ARITHMETIC, wrong, off)
    assert f"node '{wrong}_" in refused(build())


def test_a_wrong_simplification_is_refused_and_its_node_named() -> None:
    """To float64's precision: the graph is compared with the reading, not with onnxruntime's float32."""
    network = small_net().network()
    cross_check(network, points(network))
    node = network.graph.output
    assert isinstance(node.op, Linear)
    for op in (
        replace(node.op, weight=node.op.weight * (1.0 + 2.0**-40)),
        replace(node.op, bias=None),
        replace(node.op, weight=node.op.weight.flip(1)),
    ):
        wrong = Graph((*network.graph.nodes[:-1], replace(node, op=op)))
        assert "node 'Gemm_2'" in refused(replace(network, graph=wrong))
    first = network.graph.nodes[1]
    assert "node 'Relu_1'" in refused(replace(network, graph=Graph((*network.graph.nodes[:2], *reordered(network)))))
    assert first.name == "Gemm_0"


def reordered(network: Network) -> list[Node]:
    """The ReLU takes the input where it should take the product."""
    rest = list(network.graph.nodes[2:])
    return [replace(rest[0], inputs=(0,)), *rest[1:]]


def test_a_simplification_that_joins_wrongly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model((1, 3))
    model.add("MatMul", "x", model.weights(3, 3), out="a").add("Add", "a", model.weights(3), out="b").add("Relu", "b")
    cross_check(model.network(), points(model.network()))
    genuine = simplify_module._joined

    def doubled(node: Node, merged: list[Node], *, only_use: bool) -> Node:
        joined = genuine(node, merged, only_use=only_use)
        return joined if joined is node else replace(joined, op=replace(joined.op, bias=2.0 * joined.op.bias))

    monkeypatch.setattr(simplify_module, "_joined", doubled)
    assert "node 'Add_1'" in refused(model.network())


def moved_root(op: str) -> Model:
    """A function of positive numbers behind a movement that the simplified graph does without."""
    model = Model((1, 6)).add("Relu", "x", out="r").add("Add", "r", np.full((1, 6), 0.25, np.float32), out="s")
    return model.add("Transpose", "s", perm=[0, 1], out="t").add(op, "t")


@pytest.mark.parametrize("op", ["Log", "Sqrt"])
def test_where_neither_is_a_number_other_points_tell(op: str) -> None:
    network = moved_root(op).network()
    cross_check(network, points(network))


@dataclass(frozen=True)
class Undefined(Log):
    """A logarithm that some or all arguments have none of."""

    below: float

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().both(torch.where(x.abs() < self.below, -1.0, x))


def test_where_only_one_is_no_number_they_disagree() -> None:
    network = moved_root("Log").network()
    last = network.graph.output
    wrong = Graph((*network.graph.nodes[:-1], replace(last, op=Undefined(0.5))))
    assert "node 'Log_3'" in refused(replace(network, graph=wrong), "nan against -")


def test_where_no_point_tells_nothing_is_trusted() -> None:
    network = moved_root("Log").network()
    never, last = Undefined(1e9), network.graph.output
    nodes = tuple(replace(node, op=never) if isinstance(node.op, Log) else node for node in network.trace.nodes)
    graph = Graph((*network.graph.nodes[:-1], replace(last, op=never)))
    wrong = replace(network, graph=graph, trace=replace(network.trace, nodes=nodes))
    assert "node 'Log_3'" in refused(wrong, "no number there whatever its input")


def test_a_step_that_takes_the_wrong_tensor_is_refused() -> None:
    model = Model((1, 3)).add("Relu", "x", out="a").add("Neg", "x", out="b").add("Sub", "a", "b", out="c")
    network = model.add("Neg", "c").network()
    cross_check(network, points(network))
    steps = list(network.trace.steps)
    (a, ia), (b, ib) = steps[2].inputs
    steps[2] = replace(steps[2], inputs=((a, ib), (b, ia)))
    line = refused(replace(network, trace=replace(network.trace, steps=tuple(steps))), "where its input 'a' comes from")
    assert "node 'Sub_2'" in line


# --- overflow -----------------------------------------------------------------------------------------------


def large(factor: float, layers: int = 2) -> Model:
    model = Model((1, 4))
    for layer in range(layers):
        source = "x" if layer == 0 else f"h{layer - 1}"
        model.add("Gemm", source, factor * model.weights(4, 4), out=f"h{layer}")
    return model.add("Relu", f"h{layers - 1}")


@pytest.mark.parametrize("layers", [2, 6])
def test_what_overflow_hides_is_compared_alone(layers: int) -> None:
    network = large(1e30, layers).network()
    assert not np.isfinite(network.replay(np.ones((1, 4)))).all()
    cross_check(network, points(network))
    last = f"h{layers - 1}"
    wrong = tampered(network, last, lambda op: replace(op, weight=op.weight * (1.0 + 1e-5)))
    assert f"node 'Gemm_{layers - 1}' (Gemm)" in refused(wrong)


def test_a_node_whose_own_constants_overflow_is_refused_as_that() -> None:
    """scale / sqrt(variance) is 1e45, which no float32 is: onnxruntime has no number there at any input."""
    model = Model((1, 2, 2))
    scale, tiny = np.full(2, 1e30, np.float32), np.full(2, 1e-30, np.float32)
    model.add("BatchNormalization", "x", scale, tiny, tiny, tiny, epsilon=0.0)
    assert "node 'BatchNormalization_0'" in refused(model.network(), "onnxruntime overflows there whatever its input")


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_infinity_where_nothing_overflows_is_a_mismatch(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_net().network()
    genuine = Network.tensors

    def broken(self: Network, x: np.ndarray, names: list[str]) -> list[np.ndarray]:
        return [
            np.where(a > 0, wrong, a) if n == "h" else a for n, a in zip(names, genuine(self, x, names), strict=True)
        ]

    monkeypatch.setattr(Network, "tensors", broken)
    assert f"against {wrong}" in refused(network)
