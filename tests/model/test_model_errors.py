"""Everything that can be wrong with a model file: one line, with the file, the place and the remedy."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import Model, ints, small_net
from op_cases import CASES

from netproof.errors import ModelError, UnsupportedOp, UsageError
from netproof.model.load import load_network
from netproof.model.onnx.reader import unsupported_nodes


def fails(source: object, match: str, kind: type[Exception] = ModelError) -> str:
    with pytest.raises(kind, match=match) as caught:
        load_network(source)  # type: ignore[arg-type]
    line = str(caught.value)
    assert "\n" not in line
    assert line.endswith(")"), "a remedy ends the line"
    if isinstance(source, Path):
        assert source.name in line
    return line


def saved(tmp_path: Path, model: onnx.ModelProto) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_missing(tmp_path: Path) -> None:
    fails(tmp_path / "none.onnx", "no such file")


def test_directory(tmp_path: Path) -> None:
    fails(tmp_path, "is a directory")


def test_empty(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"")
    fails(path, "the file is empty")


@pytest.mark.parametrize("data", [b"hello, this is text\n", bytes(range(256)), b"\x00" * 50])
def test_not_onnx(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    fails(path, "not an ONNX model")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_cut_short(tmp_path: Path, part: float) -> None:
    data = small_net().proto().SerializeToString()
    path = tmp_path / "net.onnx"
    path.write_bytes(data[: int(part * len(data))])
    fails(path, "not an ONNX model, or one cut short|not an ONNX model")


def test_gzip_cut_short(tmp_path: Path) -> None:
    data = gzip.compress(small_net().proto().SerializeToString())
    path = tmp_path / "net.onnx.gz"
    path.write_bytes(data[: len(data) // 2])
    fails(path, "gzip file is damaged or cut short")


@pytest.mark.parametrize("opset", [6, 99])
def test_opset(tmp_path: Path, opset: int) -> None:
    model = small_net()
    model.opset = opset
    fails(model.save(tmp_path / "net.onnx"), f"opset {opset} is outside 7 to {onnx.defs.onnx_opset_version()}")


def test_unsupported_operator_names_itself_and_its_node(tmp_path: Path) -> None:
    path = Model((2, 3)).add("Relu", "x", out="h").add("RandomNormalLike", "h").save(tmp_path / "net.onnx")
    line = fails(path, "unsupported operator RandomNormalLike", UnsupportedOp)
    assert "'RandomNormalLike_1'" in line


def test_every_unsupported_node_is_listed(tmp_path: Path) -> None:
    model = Model((1, 2, 4, 4)).add("RandomNormalLike", "x", out="a").add("Relu", "a", out="b")
    model.add("RandomUniformLike", "b", out="c")
    model.add("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 2], auto_pad="SAME_UPPER", out="d")
    path = model.add("Add", "c", "d").save(tmp_path / "net.onnx")
    assert sorted((e.op, e.node) for e in unsupported_nodes(path)) == [
        ("MaxPool", "MaxPool_3"),
        ("RandomNormalLike", "RandomNormalLike_0"),
        ("RandomUniformLike", "RandomUniformLike_2"),
    ]


def test_what_lies_behind_an_unsupported_node_is_looked_at_too(tmp_path: Path) -> None:
    """Its shape comes from onnx, from what is known of its inputs; a Shape of it is still a constant."""
    model = Model(("batch", 2, 6)).add("RandomNormalLike", "x", out="a").add("Shape", "a", out="s")
    model.add("Reshape", "a", "s", out="b").add("MatMul", "b", model.weights(6, 2), out="c")
    path = model.add("RandomUniformLike", "c", out="d").add("Relu", "d").save(tmp_path / "n.onnx")
    assert [e.node for e in unsupported_nodes(path)] == ["RandomNormalLike_0", "RandomUniformLike_4"]


def test_a_constant_that_cannot_be_folded_is_not_taken_for_a_value(tmp_path: Path) -> None:
    """What it would decide is not known, so what needs it is judged by its operator alone."""
    model = Model((1, 4)).add("RandomNormalLike", np.ones(2, dtype=np.float32), out="a").add("Cast", "a", out="s", to=7)
    path = model.add("Reshape", "x", "s", out="r").add("RandomUniformLike", "r").save(tmp_path / "n.onnx")
    assert [e.op for e in unsupported_nodes(path)] == ["RandomNormalLike", "RandomUniformLike"]


def test_foreign_domain(tmp_path: Path) -> None:
    model = Model((2, 3)).add("Gelu", "x", domain="com.microsoft").proto()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    fails(saved(tmp_path, model), "com.microsoft.Gelu: its domain is not the standard one")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers(tmp_path: Path, bad: float) -> None:
    model = Model((1, 4))
    weight = model.weights(4, 3)
    weight[2, 1] = bad
    fails(
        model.add("MatMul", "x", weight).save(tmp_path / "net.onnx"),
        "initializer 'c0': holds NaN or infinity",
    )


def test_symbolic_axis_other_than_the_batch(tmp_path: Path) -> None:
    path = Model(("batch", 3, "height")).add("Relu", "x").save(tmp_path / "net.onnx")
    fails(path, r"input 'x': axis 2 is symbolic \(height\)")


def test_zero_size_input(tmp_path: Path) -> None:
    fails(Model((1, 0, 3)).add("Relu", "x").save(tmp_path / "net.onnx"), "has size zero")


def test_undeclared_input_shape(tmp_path: Path) -> None:
    model = Model((1, 3)).add("Relu", "x").proto()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    fails(saved(tmp_path, model), "its shape is not declared")


def test_integer_input(tmp_path: Path) -> None:
    model = Model((1, 3), kind=TensorProto.INT64).add("Relu", "x")
    fails(model.save(tmp_path / "net.onnx"), "input 'x' has type INT64")


def test_undefined_value(tmp_path: Path) -> None:
    fails(Model((1, 3)).add("Add", "x", "ghost").save(tmp_path / "net.onnx"), "value 'ghost' is not defined")


def test_cycle(tmp_path: Path) -> None:
    model = Model((1, 3)).add("Add", "x", "b", out="a").add("Relu", "a", out="b").add("Neg", "b")
    fails(model.save(tmp_path / "net.onnx"), "depends on itself")


def test_data_that_do_not_fit_their_shape(tmp_path: Path) -> None:
    model = small_net().proto()
    model.graph.initializer[0].dims[0] = 7
    fails(saved(tmp_path, model), "its data do not fit its shape")


def test_weights_of_an_unsupported_type(tmp_path: Path) -> None:
    model = small_net().proto()
    model.graph.initializer[0].CopyFrom(helper.make_tensor("c0", TensorProto.BFLOAT16, [4, 5], np.zeros(20).tolist()))
    fails(saved(tmp_path, model), "type BFLOAT16 is not supported")


@pytest.mark.parametrize("kind", [np.uint32, np.int64, np.bool_])
def test_integer_weights_of_a_convolution(tmp_path: Path, kind: type) -> None:
    model = Model((1, 1, 3)).add("Conv", "x", np.ones((1, 1, 2), kind))
    fails(model.save(tmp_path / "net.onnx"), "its input W may not be of type (UINT32|INT64|BOOL)")


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    model = Model((1, 4))
    fails(model.add("MatMul", "x", model.weights(5, 3)).save(tmp_path / "net.onnx"), "does not fit an input")


def test_not_a_network() -> None:
    fails(3, "cannot be made from int", UsageError)


REFUSED = {
    "divide-by-zero": lambda: Model((2, 3)).add("Div", "x", np.float32(0.0)),
    "conv-weights": lambda: Model((1, 1, 3, 3)).add("Conv", "x", "x"),
    "cast": lambda: Model((2, 3)).add("Cast", "x", to=13, out="i").add("Cast", "i", to=1),
    "empty-slice": lambda: Model((2, 3)).add("Slice", "x", ints(1), ints(1), ints(0)),
    "stride": lambda: Model((1, 1, 3, 3)).add("Conv", "x", np.ones((1, 1, 2, 2), np.float32), strides=[0, 0]),
    "bias": lambda: Model((1, 3)).add("Gemm", "x", np.ones((3, 2), np.float32), np.ones((5, 2), np.float32)),
    "conv-bias": lambda: Model((1, 1, 3)).add("Conv", "x", np.ones((1, 1, 2), np.float32), np.ones(5, np.float32)),
    "auto-pad": lambda: Model((1, 1, 8)).add("AveragePool", "x", kernel_shape=[2], auto_pad="SAME_UPPER", strides=[4]),
    "conv4d": lambda: Model((1, 1, 3, 3, 3, 3)).add("Conv", "x", np.ones((1, 1, 2, 2, 2, 2), np.float32)),
    "window": lambda: Model((1, 1, 3, 3)).add("Conv", "x", np.ones((1, 1, 4, 4), np.float32)),
    "training": lambda: Model((2, 3), 13).add("Dropout", "x", np.float32(0.5), np.asarray(True)),
    "log-of-constant": lambda: Model((2, 3)).add("Log", np.zeros(3, np.float32), out="e").add("Add", "x", "e"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_forms(tmp_path: Path, name: str) -> None:
    line = fails(REFUSED[name]().save(tmp_path / "net.onnx"), "unsupported operator", UnsupportedOp)
    assert "node '" in line


@pytest.mark.parametrize("name", CASES)
def test_damaged_files_end_in_one_line_or_a_network(tmp_path: Path, name: str) -> None:
    """Bytes of each model are overwritten; whatever comes of it, onnxruntime's word on it too, is no traceback."""
    data = CASES[name]().proto().SerializeToString()
    path = tmp_path / "net.onnx"
    random = Random(name)
    for _ in range(20):
        damaged = bytearray(data)
        for _ in range(random.randint(1, 3)):
            damaged[random.randrange(len(data))] = random.randrange(256)
        try:
            path.write_bytes(damaged)
            network = load_network(path)
        except ModelError as error:
            assert "\n" not in str(error)  # noqa: PT017 (most damage is refused, some is harmless)
        else:
            assert network.graph.output.size > 0


def test_an_initializer_of_integers_is_exact(tmp_path: Path) -> None:
    model = Model((1, 3)).add("Mul", "x", np.float32([2, 3, 4]))
    tensor = numpy_helper.from_array(np.asarray([1, 2, 3], dtype=np.int64), "unused")
    proto = model.proto()
    proto.graph.initializer.append(tensor)
    assert load_network(saved(tmp_path, proto)).weight_dtypes == ("float32",)
