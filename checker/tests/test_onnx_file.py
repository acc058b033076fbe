"""ONNX files: every operator as onnxruntime computes it, damaged files, and what is refused by name."""

from __future__ import annotations

import gzip
import math
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from npcheck.errors import Refused
from npcheck.network import Affine, Network, Relu, Scale
from npcheck.onnx_file import read_network
from npcheck.onnx_operators import TRANSLATIONS

BENCHMARKS = os.environ.get("NETPROOF_BENCHMARKS", "")
RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int | str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 13,
    output: str = "y",
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Return a model with one input x and one output of any shape."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info(output, kind, None)],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(data: bytes, points: np.ndarray) -> np.ndarray:
    """Return the outputs of onnxruntime at flat points."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    (declared,) = session.get_inputs()
    shape = [axis if isinstance(axis, int) else 1 for axis in declared.shape]
    dtype = np.float64 if "double" in declared.type else np.float32
    results = [session.run(None, {declared.name: point.reshape(shape).astype(dtype)})[0] for point in points]
    return np.stack([result.reshape(-1) for result in results]).astype(np.float64)


def agree(proto: onnx.ModelProto, network: Network | None = None) -> Network:
    """Compare with onnxruntime at random points; return the network."""
    data = proto.SerializeToString()
    network = network or read_network(data)
    points = (2 * RNG.standard_normal((6, network.nodes[0].size))).astype(np.float32)
    expected = run(data, points)
    found = network.values(points.astype(np.float64))[-1]
    assert found.shape == expected.shape
    largest = max(1.0, float(np.abs(expected).max()))  # float32 rounds relative to what cancels
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * largest)
    return network


W = {"w": normal(4, 3), "b": normal(3)}
BATCH = {"s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3))}

CASES: dict[str, onnx.ModelProto] = {
    # sums and products
    "gemm": model([node("Gemm", ["x", "w", "b"])], [1, 4], W),
    "gemm all": model(
        [node("Gemm", ["x", "w", "b"], alpha=0.3, beta=-2.5, transA=1, transB=1)],
        [4, 2],
        {"w": normal(3, 4), "b": normal(2, 1)},
    ),
    "gemm left": model([node("Gemm", ["w", "x", "b"], transB=1)], [2, 3], {"w": normal(4, 3), "b": normal(1, 2)}),
    "gemm left transposed": model(
        [node("Gemm", ["w", "x", "b"], transA=1, alpha=2.0)], [3, 2], {"w": normal(3, 4), "b": normal(4, 1)}
    ),
    "gemm without bias": model([node("Gemm", ["x", "w"])], ["N", 4], W),
    "matmul": model([node("MatMul", ["x", "w"])], [1, 4], W),
    "matmul of images": model([node("MatMul", ["x", "w"])], [1, 2, 5, 4], W),
    "matmul of a vector": model([node("MatMul", ["x", "w"])], [4], W),
    "matmul with a vector": model([node("MatMul", ["x", "w"])], [1, 2, 4], {"w": normal(4)}),
    "matmul of vectors": model([node("MatMul", ["x", "w"])], [4], {"w": normal(4)}),
    "matmul left": model([node("MatMul", ["w", "x"])], [3, 2], {"w": normal(4, 3)}),
    "matmul left of images": model([node("MatMul", ["w", "x"])], [2, 2, 3, 2], {"w": normal(4, 3)}),
    "matmul left of a vector": model([node("MatMul", ["w", "x"])], [3], {"w": normal(4, 3)}),
    "matmul vector left": model([node("MatMul", ["w", "x"])], [2, 3, 2], {"w": normal(3)}),
    "matmul stacked constant": model([node("MatMul", ["x", "w"])], [2, 4], {"w": normal(1, 1, 4, 3)}),
    "add": model([node("Add", ["x", "b"])], [2, 3], W),
    "add grows": model([node("Add", ["b", "x"])], [1, 3], {"b": normal(2, 4, 1)}),
    "sub": model([node("Sub", ["x", "b"])], [2, 3], W),
    "sub from": model([node("Sub", ["b", "x"])], [2, 1], W),
    "add zeros": model([node("Add", ["x", "b"])], [1, 3], {"b": np.zeros((2, 1), np.float32)}),
    "mul": model([node("Mul", ["x", "b"])], [2, 3], W),
    "mul grows": model([node("Mul", ["b", "x"])], [2, 1], W),
    "div": model([node("Div", ["x", "b"])], [2, 3], W),
    "neg": model([node("Neg", ["x"])], [2, 3]),
    "add values": model([node("Relu", ["x"], ["z"]), node("Add", ["x", "z"])], [2, 3]),
    "add itself": model([node("Add", ["x", "x"])], [2, 3]),
    "sub values broadcast": model(
        [node("ReduceSum", ["x", "a"], ["z"], keepdims=1), node("Sub", ["z", "x"])], [2, 3], {"a": ints(1)}
    ),
    "double": model([node("MatMul", ["x", "w"])], [1, 3], {"w": RNG.standard_normal((3, 2))}, kind=TensorProto.DOUBLE),
    # convolutions and pools
    "conv": model(
        [node("Conv", ["x", "w", "b"], kernel_shape=[2, 3])], [1, 2, 5, 6], {"w": normal(3, 2, 2, 3), "b": normal(3)}
    ),
    "conv all": model(
        [node("Conv", ["x", "w"], pads=[0, 2, 1, 0], strides=[2, 1], dilations=[1, 2], group=2)],
        ["N", 4, 6, 7],
        {"w": normal(6, 2, 2, 3)},
    ),
    "conv depthwise": model([node("Conv", ["x", "w"], group=3)], [1, 3, 4, 4], {"w": normal(3, 1, 2, 2)}),
    "conv 1-d": model(
        [node("Conv", ["x", "w", "b"], pads=[1, 2], strides=[2], dilations=[2])],
        [1, 2, 9],
        {"w": normal(3, 2, 3), "b": normal(3)},
    ),
    "conv valid": model([node("Conv", ["x", "w"], auto_pad="VALID")], [1, 1, 4, 4], {"w": normal(1, 1, 2, 2)}),
    "conv same upper": model(
        [node("Conv", ["x", "w"], auto_pad="SAME_UPPER", strides=[2, 1])], [1, 1, 5, 4], {"w": normal(1, 1, 2, 4)}
    ),
    "conv same lower": model(
        [node("Conv", ["x", "w"], auto_pad="SAME_LOWER", strides=[1, 3])], [1, 1, 5, 4], {"w": normal(1, 1, 4, 2)}
    ),
    "average pool": model([node("AveragePool", ["x"], kernel_shape=[2, 3], strides=[2, 1])], [1, 2, 5, 5]),
    "average pool padded": model([node("AveragePool", ["x"], kernel_shape=[2, 2], pads=[1, 0, 0, 1])], [1, 2, 3, 3]),
    "average pool counting": model(
        [node("AveragePool", ["x"], kernel_shape=[3, 2], pads=[1, 1, 1, 0], count_include_pad=1)], [1, 2, 3, 3]
    ),
    "average pool 1-d": model([node("AveragePool", ["x"], kernel_shape=[2], pads=[1, 0])], [1, 2, 3]),
    "average pool same": model([node("AveragePool", ["x"], kernel_shape=[2, 2], auto_pad="SAME_UPPER")], [1, 1, 3, 3]),
    "global average pool": model([node("GlobalAveragePool", ["x"])], [1, 2, 3, 4]),
    "batch normalization": model(
        [node("BatchNormalization", ["x", "s", "b", "m", "v"], epsilon=0.01, momentum=0.8)], [1, 3, 2, 2], BATCH
    ),
    "batch normalization of rows": model([node("BatchNormalization", ["x", "s", "b", "m", "v"])], [2, 3], BATCH),
    # sums over axes
    "reduce sum": model([node("ReduceSum", ["x", "a"], keepdims=0)], [2, 3, 4], {"a": ints(-1, 0)}),
    "reduce sum all": model([node("ReduceSum", ["x"])], [2, 3]),
    "reduce sum nothing": model([node("ReduceSum", ["x"], noop_with_empty_axes=1)], [2, 3]),
    "reduce sum 11": model([node("ReduceSum", ["x"], axes=[1])], [2, 3], opset=11),
    "reduce mean": model([node("ReduceMean", ["x"], axes=[1], keepdims=0)], [2, 3, 2]),
    "reduce mean 18": model([node("ReduceMean", ["x", "a"])], [2, 3, 2], {"a": ints(0, 2)}, opset=18),
    # ReLU and what is written with it
    "relu": model([node("Relu", ["x"])], [2, 3]),
    "leaky relu": model([node("LeakyRelu", ["x"], alpha=0.2)], [2, 3]),
    "leaky relu default": model([node("LeakyRelu", ["x"])], [2, 3]),
    "leaky relu steep": model([node("LeakyRelu", ["x"], alpha=-1.5)], [2, 3]),
    "prelu": model([node("PRelu", ["x", "s"])], [1, 3, 2, 2], {"s": normal(3, 1, 1)}),
    "abs": model([node("Abs", ["x"])], [2, 3]),
    "clip": model([node("Clip", ["x", "lo", "hi"])], [2, 3], {"lo": np.float32(-0.5), "hi": np.float32(0.7)}),
    "clip at zero": model([node("Clip", ["x", "lo", "hi"])], [9], {"lo": np.float32(0), "hi": np.float32(6)}),
    "clip below": model([node("Clip", ["x", "lo"])], [2, 3], {"lo": np.float32(-0.5)}),
    "clip above": model([node("Clip", ["x", "", "hi"])], [2, 3], {"hi": np.float32(0.5)}),
    "clip not": model([node("Clip", ["x"], ["z"]), node("Neg", ["z"])], [2, 3]),
    "clip 6": model([node("Clip", ["x"], min=-0.25, max=0.5)], [2, 3], opset=10),
    "max": model([node("Relu", ["x"], ["z"]), node("Neg", ["x"], ["n"]), node("Max", ["x", "z", "n"])], [2, 3]),
    "max constant": model([node("Max", ["b", "x"])], [2, 1], W),
    "max constants": model([node("Max", ["b", "c", "x", "b"])], [3], {"b": normal(3), "c": normal(1)}),
    "min": model([node("Neg", ["x"], ["n"]), node("Min", ["x", "n"])], [2, 3]),
    "min constant": model([node("Min", ["x", "b"])], [2, 3], W),
    "max of one": model([node("Max", ["x"], ["z"]), node("Neg", ["z"])], [2]),
    "max pool": model([node("MaxPool", ["x"], kernel_shape=[2, 3], strides=[2, 2])], [1, 2, 5, 6]),
    "max pool padded": model(
        [node("MaxPool", ["x"], kernel_shape=[3, 2], pads=[1, 1, 2, 0], strides=[2, 1])], [1, 2, 4, 4]
    ),
    "max pool dilated": model([node("MaxPool", ["x"], kernel_shape=[2, 2], dilations=[2, 1])], [1, 1, 4, 4]),
    "max pool 1-d": model([node("MaxPool", ["x"], kernel_shape=[3], pads=[1, 1])], [1, 2, 4]),
    "max pool same": model([node("MaxPool", ["x"], kernel_shape=[2, 2], auto_pad="SAME_LOWER")], [1, 1, 3, 3]),
    # what moves entries
    "identity": model([node("Identity", ["x"], ["z"]), node("Neg", ["z"])], [2, 3]),
    "dropout": model([node("Dropout", ["x"], ["z", "mask"]), node("Neg", ["z"])], [2, 3]),
    "dropout 10": model([node("Dropout", ["x"], ["z"], ratio=0.5), node("Neg", ["z"])], [2, 3], opset=10),
    "cast": model([node("Cast", ["x"], ["z"], to=TensorProto.FLOAT), node("Neg", ["z"])], [2, 3]),
    "reshape": model(
        [node("Reshape", ["x", "n"], ["z"]), node("MatMul", ["z", "w"])], [1, 2, 6], W | {"n": ints(0, -1, 4)}
    ),
    "flatten": model([node("Flatten", ["x"], ["z"], axis=-1), node("MatMul", ["z", "w"])], [2, 2, 4], W),
    "transpose": model([node("Transpose", ["x"], perm=[1, 2, 0])], [2, 3, 4]),
    "transpose default": model([node("Transpose", ["x"])], [2, 3, 4]),
    "squeeze": model(
        [node("Squeeze", ["x", "a"], ["z"]), node("Add", ["z", "b"])], [1, 2, 1, 3], W | {"a": ints(0, -2)}
    ),
    "squeeze all": model([node("Squeeze", ["x"], ["z"]), node("Add", ["z", "b"])], [1, 2, 1, 3], W),
    "squeeze 11": model([node("Squeeze", ["x"], ["z"], axes=[1]), node("Add", ["z", "b"])], [2, 1, 3], W, opset=11),
    "unsqueeze": model([node("Unsqueeze", ["x", "a"], ["z"]), node("Add", ["z", "b"])], [4], W | {"a": ints(-1, 0)}),
    "unsqueeze 11": model([node("Unsqueeze", ["x"], ["z"], axes=[1, 3]), node("Add", ["z", "b"])], [4, 1], W, opset=11),
    "slice": model(
        [node("Slice", ["x", "s", "e", "a", "t"])],
        [3, 8],
        {"s": ints(-2, 7), "e": ints(2**62, -(2**62)), "a": ints(0, -1), "t": ints(1, -3)},
    ),
    "slice default": model([node("Slice", ["x", "s", "e"])], [3, 5], {"s": ints(1, 0), "e": ints(3, -1)}),
    "slice 9": model([node("Slice", ["x"], starts=[1], ends=[9], axes=[1])], [3, 5], opset=9),
    "gather": model([node("Gather", ["x", "i"], axis=1)], [2, 3], {"i": np.array([[0, -1], [2, 2]])}),
    "gather one": model([node("Gather", ["x", "i"])], [3, 2], {"i": np.array(1)}),
    "concat": model(
        [node("Neg", ["x"], ["n"]), node("Concat", ["x", "c", "n", "x"], axis=-1)], [2, 3], {"c": normal(2, 1)}
    ),
    "split": model([node("Split", ["x"], ["p", "q"], axis=1), node("Sub", ["q", "p"])], [2, 6]),
    "split sizes": model(
        [node("Split", ["x", "s"], ["p", "q"], axis=1), node("Sub", ["q", "p"])], [2, 4], {"s": ints(1, 3)}
    ),
    "split 11": model([node("Split", ["x"], ["p", "q"], split=[1, 3]), node("Sub", ["q", "p"])], [4, 2], opset=11),
    "split 18": model([node("Split", ["x"], ["p", "q"], num_outputs=2), node("Sub", ["p", "q"])], [3, 1], opset=18),
    "pad": model([node("Pad", ["x", "p"])], [2, 3], {"p": ints(1, 0, 0, 2)}),
    "pad with a number": model([node("Pad", ["x", "p", "c"])], [2, 3], {"p": ints(0, 1, 2, 0), "c": np.float32(1.5)}),
    "pad 10": model([node("Pad", ["x"], pads=[1, 0, 0, 2], value=-1.5)], [2, 3], opset=10),
    "pad 18": model([node("Pad", ["x", "p", "", "a"])], [2, 3], {"p": ints(1, 2), "a": ints(-1)}, opset=18),
    "expand": model([node("Expand", ["x", "n"])], [2, 1, 3], {"n": ints(4, 1, 5, 1)}),
    # constants
    "constant": model([node("Constant", [], ["c"], value_float=0.3), node("Mul", ["x", "c"])], [2]),
    "constant of shape": model(
        [
            node("ConstantOfShape", ["n"], ["c"], value=numpy_helper.from_array(np.array([2.5], np.float32))),
            node("Add", ["x", "c"]),
        ],
        [2, 3],
        {"n": ints(2, 1)},
    ),
    "computed shape": model(
        [
            node("Shape", ["x"], ["s"]),
            node("Constant", [], ["one"], value=numpy_helper.from_array(np.array(1))),
            node("Gather", ["s", "one"], ["n"]),
            node("Constant", [], ["two"], value_int=2),
            node("Mul", ["n", "two"], ["m"]),
            node("Div", ["m", "k"], ["d"]),
            node("Sub", ["d", "two"], ["e"]),
            node("Cast", ["e"], ["f"], to=TensorProto.INT32),
            node("Cast", ["f"], ["g"], to=TensorProto.INT64),
            node("Unsqueeze", ["g", "zero"], ["u"]),
            node("Concat", ["u", "minus"], ["t"], axis=0),
            node("Slice", ["t", "zero", "end"], ["v"]),
            node("Reshape", ["x", "v"], ["z"]),
            node("MatMul", ["z", "w"]),
        ],
        ["N", 12, 2],
        W | {"k": np.array(3), "zero": ints(0), "minus": ints(-1), "end": ints(2**62)},
    ),
    "torch's expand": model(
        [
            node("Shape", ["n"], ["r"]),
            node("ConstantOfShape", ["r"], ["ones"], value=numpy_helper.from_array(ints(1))),
            node("Mul", ["ones", "minus"], ["m"]),
            node("Equal", ["n", "m"], ["eq"]),
            node("Where", ["eq", "ones", "n"], ["shape"]),
            node("Expand", ["x", "shape"]),
        ],
        [1, 3],
        {"n": ints(2, -1), "minus": np.array(-1)},
    ),
    "computed floats": model(
        [node("Mul", ["a", "b"], ["c"]), node("Neg", ["c"], ["d"]), node("Add", ["x", "d"])],
        [3],
        {"a": np.array([0.5, 2.0, 3.0], np.float32), "b": np.float32(0.25)},
    ),
}


@pytest.mark.parametrize("proto", CASES.values(), ids=CASES)
def test_operators_are_those_of_onnxruntime(proto: onnx.ModelProto) -> None:
    network = agree(proto)
    for place in network.nodes:
        if isinstance(place.op, Affine):
            check_transpose(place.op)


def check_transpose(op: Affine) -> None:
    """Compare ⟨a, W·w⟩ with ⟨Wᵀ·a, w⟩, and both with |W|."""
    values = [RNG.standard_normal((2, size)) for size in op.sizes]
    coef = RNG.standard_normal((2, op.size))
    forward = (coef * op.forward(values)).sum(axis=1)
    back = sum((a * w).sum(axis=1) for a, w in zip(op.adjoint(coef), values, strict=True))
    most = (np.abs(coef) * op.magnitude([np.abs(value) for value in values])).sum(axis=1)
    np.testing.assert_allclose(forward, back, atol=1e-9)
    assert (np.abs(forward) <= most + 1e-9).all()


def test_all_operators_are_tried() -> None:
    assert {entry.op_type for proto in CASES.values() for entry in proto.graph.node} == set(TRANSLATIONS)


@pytest.mark.parametrize("seed", range(10))
def test_random_networks(seed: int) -> None:
    """Stack convolutions, pools and residual connections at random."""
    shuffle = random.Random(seed)
    nodes, constants, channels, name = [], {}, 2, "x"
    for i in range(5):
        width, stride = shuffle.choice([1, 2, 3]), shuffle.choice([1, 1, 1, 2])
        pads = [shuffle.randrange(width) for _ in range(4)]
        outs = shuffle.choice([2, 4])
        constants[f"w{i}"] = normal(outs, channels, width, width)
        nodes += [
            node("Conv", [name, f"w{i}"], [f"c{i}"], pads=pads, strides=[stride, 1]),
            node(shuffle.choice(["Relu", "Abs", "LeakyRelu"]), [f"c{i}"], [f"r{i}"]),
            node(shuffle.choice(["Add", "Sub", "Max", "Min"]), [f"r{i}", f"c{i}"], [f"s{i}"]),
        ]
        channels, name = outs, f"s{i}"
    nodes.append(node("AveragePool", [name], kernel_shape=[2, 2], pads=[1, 1, 1, 1]))
    proto = model(nodes, [1, 2, 9, 9], constants)
    agree(proto)


# --- what nodes are made ---


def test_nodes_without_effect_make_none() -> None:
    network = agree(
        model(
            [
                node("Flatten", ["x"], ["a"]),
                node("Identity", ["a"], ["b"]),
                node("Reshape", ["b", "n"], ["c"]),
                node("Transpose", ["c"], ["d"], perm=[0, 2, 1]),
                node("Relu", ["d"]),
            ],
            ["N", 2, 3],
            {"n": ints(0, 1, -1)},
        )
    )
    assert len(network.nodes) == 2


def test_what_the_output_does_not_need_is_left_out() -> None:
    network = agree(
        model([node("Relu", ["x"], ["unused"]), node("Neg", ["x"], ["z"]), node("Relu", ["z"])], [2]),
    )
    assert [type(entry.op).__name__ for entry in network.nodes] == ["Input", "Scale", "Relu"]
    assert network.relus == (2,)
    assert "node 2 (Relu)" in network.nodes[2].name


def test_max_pool_halves_the_height_of_its_windows_and_then_their_width() -> None:
    """Each ReLU node takes the differences of neighbours; the third pixel of a row is compared last."""
    network = read_network(model([node("MaxPool", ["x"], kernel_shape=[2, 3])], [1, 1, 2, 3]).SerializeToString())
    values = network.values(np.array([[4.0, 5.0, 9.0, 2.0, 7.0, 1.0]]))
    assert [values[place][0].tolist() for place in network.relus] == [[2.0, 0.0, 8.0], [0.0], [0.0]]
    assert [float(values[place][0, 0]) for place in network.extremes] == [4.0, 7.0, 9.0]


def test_expansions_are_the_documented_ones() -> None:
    cases = [
        (node("Clip", ["x", "lo", "hi"]), [2.5, 1.5]),  # x − lo, x − hi
        (node("Max", ["lo", "x"]), [2.5]),  # x − lo
        (node("Min", ["x", "hi"]), [0.0]),  # hi − x
        (node("Abs", ["x"]), [2.0]),
    ]
    constants = {"lo": np.float32(-0.5), "hi": np.float32(0.5)}
    for entry, expected in cases:
        network = read_network(model([entry], [1], constants).SerializeToString())
        values = network.values(np.array([[2.0]]))
        assert [float(values[place][0, 0]) for place in network.relus] == expected


def test_folded_constants_are_marked_and_close() -> None:
    exact = 1000.0
    constants = {"s": normal(1), "b": np.float32([exact]), "m": np.float32([exact]), "v": np.float32([1e-3])}
    proto = model([node("BatchNormalization", ["x", "s", "b", "m", "v"])], [1, 1], constants)
    op = read_network(proto.SerializeToString()).nodes[-1].op
    assert isinstance(op, Scale)
    assert op.folded
    assert op.spread is not None
    assert op.bias is not None
    assert op.bias_magnitude is op.spread
    assert op.spread[0] >= abs(op.bias[0])
    assert op.spread[0] > abs(exact * float(op.factor[0])) * 0.99
    for name in ("gemm", "conv", "add", "mul", "neg", "reduce sum", "concat", "clip", "max pool padded"):
        for entry in read_network(CASES[name].SerializeToString()).nodes:
            assert not isinstance(entry.op, Affine) or not entry.op.folded
    for name in ("gemm all", "div", "average pool", "reduce mean"):
        nodes = read_network(CASES[name].SerializeToString()).nodes
        assert any(isinstance(entry.op, Affine) and entry.op.folded for entry in nodes)


def test_slopes_are_exact_where_they_can_be() -> None:
    def folded(alpha: float) -> bool:
        nodes = read_network(model([node("LeakyRelu", ["x"], alpha=alpha)], [1]).SerializeToString()).nodes
        return any(isinstance(entry.op, Affine) and entry.op.folded for entry in nodes)

    assert not folded(0.01)
    assert folded(1e-12)


def test_dead_padding_of_a_pool_is_a_relu_of_zero() -> None:
    network = read_network(CASES["max pool padded"].SerializeToString())
    values = network.values(np.full((1, network.nodes[0].size), -3.0))
    assert (values[-1] == -3.0).all()
    assert all(isinstance(network.nodes[place].op, Relu) for place in network.relus)


# --- what is refused ---

X = [1, 1, 4, 4]
REFUSED: dict[str, tuple[onnx.ModelProto, str]] = {
    "sine": (model([node("Sin", ["x"])], [2]), r"node 0 \(Sin\): this operator is not supported"),
    "named": (model([node("Sign", ["x"], name="s")], [2]), r"node 0 \(Sign 's'\)"),
    "domain": (model([node("Relu", ["x"], domain="com.microsoft")], [2]), "com.microsoft"),
    "matmul of vectors": (model([node("MatMul", ["x", "x"])], [2]), "product of matrices of shapes"),
    "matmul that does not fit": (model([node("MatMul", ["x", "x"])], [2, 3]), "product of matrices of shapes"),
    "cube": (model([node("Pow", ["x", "p"])], [2], {"p": np.full(1, 3.0, np.float32)}), "exponent 3"),
    "powers": (model([node("Pow", ["x", "p"])], [2], {"p": np.full(2, 2.0, np.float32)}), "not one number"),
    "softmax of one": (model([node("Softmax", ["x"])], [2, 1]), "vector of one entry"),
    "divided by zero": (model([node("Div", ["x", "z"])], [3], {"z": np.zeros(1, np.float32)}), "divides by 0"),
    "attribute": (model([node("Relu", ["x"], slope=1.0)], [2]), "attribute 'slope' is not known"),
    "attribute type": (model([node("Flatten", ["x"], axis=1.0)], [2]), "'axis' is not of the type"),
    "flag": (model([node("ReduceSum", ["x"], keepdims=3)], [2]), "keepdims=3 is neither 0 nor 1"),
    "inputs": (model([node("Relu", ["x", "x"])], [2]), "2 inputs, more than 1"),
    "unknown name": (model([node("Relu", ["q"])], [2]), "'q', which no node before it makes"),
    "no input": (model([node("Relu", [""])], [2]), "input 0 is missing"),
    "twice": (model([node("Relu", ["x"], ["y"]), node("Neg", ["x"])], [2]), "there already"),
    "mask": (model([node("Dropout", ["x"], ["z", "m"]), node("Neg", ["m"])], [2]), "'m', which no node"),
    "constant output": (model([node("Neg", ["b"])], [2], W), "does not depend on the input"),
    "missing output": (model([node("Neg", ["x"], ["z"])], [2]), "does not depend on the input"),
    "open axis": (model([node("Relu", ["x"])], [1, "n"]), "other than the first is open"),
    "integers": (model([node("Relu", ["x"])], [1], kind=TensorProto.INT64), "type int64"),
    "old opset": (model([node("Relu", ["x"])], [1], opset=6), "version 6"),
    "new opset": (model([node("Relu", ["x"])], [1], opset=99), "version 99"),
    "ceil": (model([node("MaxPool", ["x"], kernel_shape=[3, 3], ceil_mode=1, strides=[2, 2])], X), "ceil_mode=1"),
    "ceil average": (model([node("AveragePool", ["x"], kernel_shape=[2, 2], ceil_mode=1)], X), "ceil_mode=1"),
    "kernel": (model([node("MaxPool", ["x"], kernel_shape=[5, 5])], X), "does not fit into an image"),
    "in the padding": (model([node("MaxPool", ["x"], kernel_shape=[1, 1], pads=[1, 1, 1, 1])], X), "altogether"),
    "batch": (model([node("MaxPool", ["x"], kernel_shape=[1, 1])], [2, 1, 4, 4]), "is not one image"),
    "3-d": (model([node("GlobalAveragePool", ["x"])], [1, 2]), "is not an image"),
    "conv value": (model([node("Conv", ["x", "x"])], X), "depends on the network's input"),
    "same dilated": (
        model([node("Conv", ["x", "w"], auto_pad="SAME_UPPER", dilations=[2, 2])], X, {"w": normal(1, 1, 2, 2)}),
        "runtimes differ",
    ),
    "same far apart": (
        model([node("Conv", ["x", "w"], auto_pad="SAME_UPPER", strides=[1, 4])], X, {"w": normal(1, 1, 1, 1)}),
        "runtimes differ",
    ),
    "auto pad": (model([node("MaxPool", ["x"], kernel_shape=[1, 1], auto_pad="BEST")], X), "'BEST' is not known"),
    "negative pads": (model([node("MaxPool", ["x"], kernel_shape=[2, 2], pads=[-1, 0, 0, 0])], X), "negative"),
    "reflect": (model([node("Pad", ["x", "p"], mode="reflect")], [3], {"p": ints(1, 1)}), "'reflect'"),
    "crop": (model([node("Pad", ["x", "p"])], [3], {"p": ints(-1, 1)}), "negative"),
    "clip crossed": (
        model([node("Clip", ["x", "l", "h"])], [3], {"l": np.float32(1), "h": np.float32(0)}),
        "above its upper bound",
    ),
    "training": (
        model([node("BatchNormalization", ["x", "s", "b", "m", "v"], training_mode=1)], [1, 3], BATCH, opset=14),
        "training_mode=1",
    ),
    "training by outputs": (
        model([node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "a", "c"])], [1, 3], BATCH, opset=9),
        "training mode",
    ),
    "variance": (
        model([node("BatchNormalization", ["x", "s", "b", "m", "v"])], [1, 3], BATCH | {"v": -np.ones(3, np.float32)}),
        "negative",
    ),
    "clip from infinity": (model([node("Clip", ["x"], min=np.inf, max=1.0)], [1], opset=10), "above its upper bound"),
    "clip nan": (model([node("Clip", ["x"], max=np.nan)], [1], opset=10), "not a finite number"),
    "split into nothing": (model([node("Split", ["x"], [])], [2]), "num_outputs"),
    "infinite": (model([node("Mul", ["x", "c"])], [1], {"c": np.float32([np.inf])}), "not a finite number"),
    "nan": (model([node("Conv", ["x", "w"])], X, {"w": np.full((1, 1, 1, 1), np.nan, np.float32)}), "not a finite"),
    "float16": (model([node("Cast", ["x"], to=TensorProto.FLOAT16)], [1]), "float16"),
    "half": (model([node("Mul", ["x", "c"])], [1], {"c": np.float16([1])}), "initializer 'c': .* float16"),
    "inexact": (
        model([node("Add", ["a", "s"], ["c"]), node("Add", ["x", "c"])], [1], BATCH | {"a": np.float32([1e20])}),
        "not exact in float64",
    ),
    "huge": (
        model([node("Expand", ["x", "n"])], [1], {"n": ints(2**20, 2**20)}),
        "more than [0-9]* entries",
    ),
    "huge pads": (model([node("MaxPool", ["x"], kernel_shape=[1, 1], pads=[0, 0, 2**40, 2**40])], X), "entries"),
    "huge window": (
        model([node("AveragePool", ["x"], kernel_shape=[300, 300], pads=[0, 0, 300, 300])], X),
        "more than [0-9]* pixels",
    ),
    "reshape": (model([node("Reshape", ["x", "n"])], [6], {"n": ints(4, -1)}), "cannot be brought to"),
    "broadcast": (model([node("Add", ["x", "b"])], [2], W), "do not fit together"),
    "gather": (model([node("Gather", ["x", "i"])], [2], {"i": ints(2)}), "outside of an axis"),
    "squeeze nothing": (model([node("Squeeze", ["x", "a"])], [1, 2], {"a": ints()}), "runtimes differ"),
    "wide softmax": (model([node("Softmax", ["x"])], [1, 2**20]), "more than [0-9]* entries"),
    "many axes": (  # numpy's take writes beyond its memory with more than 64
        model(
            [node("Gather", ["xabcdef"[i], "i"], ["abcdefy"[i]]) for i in range(7)],
            [1],
            {"i": np.zeros((1,) * 16, np.int64)},
        ),
        "more than 16 axes",
    ),
    "many axes of the input": (model([node("Relu", ["x"])], [1] * 70), "more than 16 axes"),
    "many new axes": (model([node("Unsqueeze", ["x", "a"])], [1], {"a": np.arange(10**6)}), "more than 16 axes"),
    "empty": (model([node("Slice", ["x", "s", "s"])], [2], {"s": ints(1)}), "without entries"),
}  # fmt: skip


@pytest.mark.parametrize(("proto", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_known_is_refused(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(Refused, match=message):
        read_network(proto.SerializeToString())


def changed(**fields: Any) -> onnx.ModelProto:
    """Return a good model with fields of its graph replaced."""
    proto = model([node("Gemm", ["x", "w", "b"])], [1, 4], W)
    for name, value in fields.items():
        getattr(proto.graph, name).extend(value)
    return proto


def test_one_input_and_one_output() -> None:
    extra = helper.make_tensor_value_info("extra", TensorProto.FLOAT, [1])
    for proto in (changed(input=[extra]), changed(output=[extra])):
        with pytest.raises(Refused, match=r"not one of each.*extra"):
            read_network(proto.SerializeToString())
    constant = helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 3])
    agree(changed(input=[constant]), read_network(changed().SerializeToString()))


def test_declared_outputs_must_fit() -> None:
    proto = model([node("Relu", ["x"])], [1, 4])
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5]))
    with pytest.raises(Refused, match="output 'y': it has the shape"):
        read_network(proto.SerializeToString())


def test_external_data_is_refused() -> None:
    proto = changed()
    proto.graph.initializer[0].data_location = TensorProto.EXTERNAL
    with pytest.raises(Refused, match="external data"):
        read_network(proto.SerializeToString())
    proto.graph.initializer[0].external_data.add(key="location", value="/etc/passwd")
    with pytest.raises(Refused, match="external data"):
        read_network(proto.SerializeToString())


def test_functions_and_sparse_constants_are_refused() -> None:
    proto = changed()
    proto.functions.add(name="Relu")
    with pytest.raises(Refused, match="functions"):
        read_network(proto.SerializeToString())
    with pytest.raises(Refused, match="sparse_initializer"):
        read_network(changed(sparse_initializer=[onnx.SparseTensorProto()]).SerializeToString())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32, np.bool_])
def test_tensors_are_read_from_both_kinds_of_data(dtype: type) -> None:
    """A constant of any type, stored raw and as a list, is that which onnx reads."""
    entries = np.array([[0, 1], [-3, 2**20]]).astype(dtype)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    raw = numpy_helper.from_array(entries, "c")
    listed = helper.make_tensor("c", number, entries.shape, entries.reshape(-1).tolist())
    for tensor in (raw, listed):
        proto = model([node("Cast", ["c"], ["f"], to=TensorProto.FLOAT), node("Add", ["x", "f"])], [2, 2])
        proto.graph.initializer.append(tensor)
        np.testing.assert_array_equal(
            read_network(proto.SerializeToString()).values(np.zeros((1, 4)))[-1][0], entries.astype(float).reshape(-1)
        )


# --- the wire ---


def tag(number: int, kind: int) -> bytes:
    return bytes([number << 3 | kind])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 graphs"),
        (b"not a model", "damaged"),
        (b"\x80" * 11, "more than 64 bits"),
        (b"\xff" * 9 + b"\x7f", "more than 64 bits"),
        (b"\x80", "ends within a number"),
        (tag(7, 2) + b"\x05abc", "longer than the file"),
        (tag(7, 2) + b"\xff" * 9 + b"\x01", "longer than the file"),
        (tag(7, 5) + b"abc", "longer than the file"),
        (tag(7, 3), "wire type 3"),
        (tag(7, 4), "wire type 4"),
        (tag(7, 6), "wire type 6"),
        (tag(7, 0) + b"\x01", "graph is stored as a varint"),
        (tag(7, 2) + b"\x00" + tag(7, 2) + b"\x00", "2 graphs"),
        (tag(9, 0) + b"\x01", "field 9 is not known"),
        (tag(0, 0) + b"\x01", "field 0 is not known"),
    ],
)
def test_the_wire_is_read_strictly(data: bytes, message: str) -> None:
    with pytest.raises(Refused, match=message):
        read_network(data)


def test_negative_dimensions_are_refused() -> None:
    proto = changed()
    proto.graph.initializer[0].dims[0] = -4
    with pytest.raises(Refused, match="cannot be"):
        read_network(proto.SerializeToString())
    proto.graph.initializer[0].dims[:] = [2**40, 2**40]
    with pytest.raises(Refused, match=r"more than [0-9]* entries"):
        read_network(proto.SerializeToString())


def test_a_field_twice_is_refused() -> None:
    """Protocol buffers take the last one, other readers may not: a file must not mean two things."""
    data = node("Relu", ["x"], name="a").SerializeToString()
    data += onnx.NodeProto(op_type="Neg").SerializeToString()
    graph = b"".join([tag(1, 2), bytes([len(data)]), data])
    proto = onnx.ModelProto(opset_import=[helper.make_opsetid("", 13)]).SerializeToString()
    with pytest.raises(Refused, match="op_type occurs 2 times"):
        read_network(proto + tag(7, 2) + bytes([len(graph)]) + graph)


@pytest.mark.parametrize(
    "name", ["computed shape", "conv all", "max pool padded", "batch normalization", "slice", "pad"]
)
def test_damaged_files_are_read_or_refused(name: str) -> None:
    good = CASES[name].SerializeToString()
    for end in range(len(good)):
        with suppress(Refused):
            read_network(good[:end])
    shuffle = random.Random(name)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(shuffle.randint(1, 3)):
            data[shuffle.randrange(len(data))] ^= 1 << shuffle.randrange(8)
        with suppress(Refused):
            read_network(bytes(data))


WILD = (0, 1, -1, 2, -2, 3, 5, 17, 2**24, 2**31, 2**40, 2**62, -(2**62), 2**63 - 1, -(2**63))


@pytest.mark.parametrize("name", CASES)
def test_wild_numbers_are_read_or_refused(name: str) -> None:
    """Put other numbers into attributes, constants and shapes, and leave out inputs or give other ones."""
    shuffle = random.Random(name)
    for _ in range(30):
        proto = onnx.ModelProto()
        proto.CopyFrom(CASES[name])
        entry = shuffle.choice(list(proto.graph.node))
        for attribute in entry.attribute:
            if shuffle.random() < 0.5:
                attribute.i = shuffle.choice(WILD) if attribute.type == attribute.INT else attribute.i
                attribute.f = shuffle.choice([0.0, -1.0, math.inf, math.nan, 1e-45, 1e38])
                if attribute.type == attribute.INTS:
                    attribute.ClearField("f")
                    count = max(0, len(attribute.ints) + shuffle.choice([0, 0, 0, 1, -1]))
                    attribute.ints[:] = [shuffle.choice(WILD) for _ in range(count)]
                elif attribute.type != attribute.FLOAT:
                    attribute.ClearField("f")
        for tensor in proto.graph.initializer:
            entries = np.array(numpy_helper.to_array(tensor))
            if entries.size and shuffle.random() < 0.5:
                wild = WILD if entries.dtype == np.int64 else (0.0, math.nan, math.inf, 1e-45, -1e38)
                entries.reshape(-1)[shuffle.randrange(entries.size)] = shuffle.choice(wild)
            if shuffle.random() < 0.3:
                entries = entries.reshape(shuffle.choice([(-1,), (1, -1), (-1, 1, 1), entries.shape]))
            tensor.CopyFrom(numpy_helper.from_array(entries, tensor.name))
        if shuffle.random() < 0.2 and entry.input:
            entry.input[shuffle.randrange(len(entry.input))] = shuffle.choice(["", "x"])
        if shuffle.random() < 0.2:
            dims = proto.graph.input[0].type.tensor_type.shape.dim
            dims[shuffle.randrange(len(dims))].dim_value = shuffle.choice([0, 1, 2, 5, 2**40])
        with suppress(Refused):
            read_network(proto.SerializeToString())


# --- real files ---

READ = (
    "acasxu_2023", "mnist_fc", "oval21", "oval_base_easy_unclipped", "cifar10_resnet", "sat_relu",
    "collins_rul_cnn_2022", "safenlp_2024", "linearizenn_2024", "tllverifybench_2023", "malbeware", "verivital",
    "cora_2024", "cersyve", "nn4sys", "rl_benchmarks", "sri_resnet_a", "relusplitter",
    "dist_shift_2023", "eran", "lsnc_relu", "vit_2023",
)  # fmt: skip


@pytest.mark.skipif(not BENCHMARKS, reason="needs NETPROOF_BENCHMARKS")
@pytest.mark.parametrize("family", READ)
def test_benchmarks_are_those_of_onnxruntime(family: str) -> None:
    files = sorted((Path(BENCHMARKS) / family / "onnx").iterdir())
    if not files:
        pytest.skip(f"no networks of {family}")
    for file in files[:4]:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        network = read_network(data)
        points = RNG.uniform(-1, 1, (3, network.nodes[0].size)).astype(np.float32)
        expected = run(data, points)
        found = network.values(points.astype(np.float64))[-1]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * max(1.0, math.ceil(np.abs(expected).max())))
