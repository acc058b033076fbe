"""Float types other than float32, and casts between them: exact, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto
from onnx_models import Model

from netproof.errors import ModelError, UnsupportedOp
from netproof.model.load import load_network

HALF, SINGLE, DOUBLE, BFLOAT = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16


def through(*kinds: int) -> Model:
    """x, cast to one type after the other, plus itself."""
    model = Model((1, 3))
    names = ["x", *(f"t{i}" for i in range(len(kinds)))]
    for source, out, kind in zip(names, names[1:], kinds, strict=False):
        model.add("Cast", source, to=kind, out=out)
    return model.add("Add", names[-1], "x")


ROUNDED: dict[str, Callable[[], Model]] = {
    "half": lambda: through(HALF, SINGLE),
    "after-a-wider-type": lambda: through(DOUBLE, HALF, SINGLE),
    "bfloat16": lambda: through(BFLOAT, SINGLE),
    "double-in-a-double-model": lambda: (
        Model((1, 3), kind=DOUBLE).add("Cast", "x", to=SINGLE, out="s").add("Cast", "s", to=DOUBLE)
    ),
    "computed-in-double": lambda: (
        Model((1, 3))
        .add("Cast", "x", to=DOUBLE, out="d")
        .add("Mul", "d", np.asarray([0.1, 0.2, 0.3]), out="m")
        .add("Cast", "m", to=SINGLE)
    ),
    "half-behind-a-relu": lambda: Model((1, 3)).add("Relu", "x", out="r").add("Cast", "r", to=HALF, out="y"),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_cast_that_rounds_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedOp,
        match=r"node 'Cast_\d': unsupported operator Cast: its? .*(rounds|may not hold it|has type BFLOAT16)",
    ) as e:
        load_network(ROUNDED[name]().save(tmp_path / "net.onnx"))
    assert "\n" not in str(e.value)


EXACT: dict[str, Callable[[], Model]] = {
    "wider": lambda: through(DOUBLE, SINGLE),
    "the-same": lambda: through(SINGLE),
    "moved-and-cut-off": lambda: (
        Model((1, 3))
        .add("Cast", "x", to=DOUBLE, out="d")
        .add("Relu", "d", out="r")
        .add("Transpose", "r", out="t")
        .add("Cast", "t", to=SINGLE)
    ),
    "half-input": lambda: (
        Model((1, 3), kind=HALF).add("Cast", "x", to=SINGLE, out="s").add("Mul", "s", np.float32([0.1, 0.2, 0.3]))
    ),
    "half-weights": lambda: (
        Model((1, 3))
        .add("Cast", np.float16([0.1, 0.2, 0.3]), to=SINGLE, out="k")
        .add("Sqrt", "k", out="s")
        .add("Mul", "x", "s")
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_cast_that_holds_every_value_is_the_identity(name: str, tmp_path: Path) -> None:
    model = EXACT[name]()
    proto = model.proto()
    proto.graph.output[0].type.tensor_type.elem_type = SINGLE
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    network = load_network(path)
    assert not any("Cast" in note for note in network.notes)


def test_a_constant_is_rounded_as_the_file_says(tmp_path: Path) -> None:
    value = np.float32([0.1, 1000.3, 1e-6])
    model = Model((1, 3)).add("Cast", value, to=HALF, out="h").add("Cast", "h", to=SINGLE, out="k")
    network = load_network(model.add("Add", "x", "k").save(tmp_path / "net.onnx"))
    rounded = value.astype(np.float16).astype(np.float64)
    assert np.array_equal(network.graph.forward(torch.zeros(1, 1, 3).double())[0, 0].numpy(), rounded)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Model((1, 3)).add("Cast", np.float32([1e6, 1, 1]), to=HALF, out="h"), "overflows float16"),
        (Model((1, 3)).add("Sqrt", np.float32([2, 3, 5]), out="s").add("Cast", "s", to=HALF, out="h"), "rounded again"),
    ],
)
def test_a_constant_that_cannot_be_rounded_is_refused(model: Model, why: str, tmp_path: Path) -> None:
    model.add("Cast", "h", to=SINGLE, out="k").add("Add", "x", "k")
    with pytest.raises(UnsupportedOp, match=why):
        load_network(model.save(tmp_path / "net.onnx"))


@pytest.mark.parametrize("kind", [HALF, DOUBLE])
def test_a_wrong_constant_in_another_type_is_refused(
    kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch normalisation, pooling and a convolution as onnxruntime computes them in that type."""
    model = Model((1, 2, 4), kind=kind)
    floats = np.float16 if kind == HALF else np.float64
    parameters = [np.abs(model.weights(2)).astype(floats) + floats(0.5) for _ in range(4)]
    model.add("BatchNormalization", "x", *parameters, out="b")
    if kind == HALF:
        model.add("AveragePool", "b", kernel_shape=[2], out="p").add("Conv", "p", model.weights(2, 2, 2).astype(floats))
    else:
        model.add("Relu", "b")
    load_network(model.save(tmp_path / "net.onnx"))
    monkeypatch.setattr("netproof.model.onnx.operators.arithmetic.constant.square_root", lambda a: a)
    with pytest.raises(ModelError, match=r"disagree .*"):
        load_network(model.save(tmp_path / "another.onnx"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_attributes_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    gemm = Model((1, 3)).add("Gemm", "x", np.ones((3, 2), np.float32), alpha=value)
    node = Model((1, 3)).add("Constant", out="k", value_float=value).add("Mul", "x", "k")
    for model in (gemm, node):
        with pytest.raises(ModelError, match="holds NaN or infinity"):
            load_network(model.save(tmp_path / "net.onnx"))
