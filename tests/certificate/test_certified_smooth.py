"""Networks with smooth operators, products and last maps, from a search to a certificate that npcheck accepts."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import netproof
from npcheck.check import check
from npcheck.errors import Invalid
from npcheck.onnx_file import read_network

INPUTS, WIDTH, OUTPUTS = 3, 8, 3
SWISH = "Swish"  # x·σ(x)


def network(activations: list[str], last: str, rng: np.random.Generator) -> bytes:
    """Return a perceptron with an activation behind each layer but the last, and perhaps a map of the outputs."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray[Any, Any]] = {}
    sizes = [INPUTS, *[WIDTH] * len(activations), OUTPUTS]

    def layer(k: int, made: str) -> None:
        weight = rng.standard_normal((sizes[k], sizes[k + 1])) / np.sqrt(sizes[k])
        constants[f"w{k}"] = weight.astype(np.float32)
        constants[f"b{k}"] = (0.3 * rng.standard_normal(sizes[k + 1])).astype(np.float32)
        nodes.append(helper.make_node("Gemm", [f"z{k - 1}" if k else "x", f"w{k}", f"b{k}"], [made]))

    for k, activation in enumerate(activations):
        layer(k, f"h{k}")
        if activation == SWISH:
            nodes.append(helper.make_node("Sigmoid", [f"h{k}"], [f"s{k}"]))
            nodes.append(helper.make_node("Mul", [f"h{k}", f"s{k}"], [f"z{k}"]))
        else:
            nodes.append(helper.make_node(activation, [f"h{k}"], [f"z{k}"]))
    layer(len(activations), "scores" if last else "y")
    if last:
        nodes.append(helper.make_node(last, ["scores"], ["y"], axis=1))
    kind, outputs = (TensorProto.INT64, 1) if last == "ArgMax" else (TensorProto.FLOAT, OUTPUTS)
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, INPUTS])],
        [helper.make_tensor_value_info("y", kind, [1, outputs])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(proto.SerializeToString())


def question(model: bytes, last: str, rng: np.random.Generator, wide: float = 0.03) -> str:
    """Ask whether another output may win than the one that does in the middle of a box."""
    middle = rng.standard_normal(INPUTS).round(3)
    values = read_network(model).values(middle[None])[-1][0]
    winner = int(values[0] if last == "ArgMax" else values.argmax())
    lines = [f"(declare-const X_{i} Real)" for i in range(INPUTS)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(len(values))]
    for i, x in enumerate(middle.tolist()):
        lines += [f"(assert (>= X_{i} {x - wide:.4f}))", f"(assert (<= X_{i} {x + wide:.4f}))"]
    others = " ".join(f"(and (<= Y_{winner} Y_{j}))" for j in range(OUTPUTS) if j != winner)
    places = f"(<= Y_0 {winner - 1}) (>= Y_0 {winner + 1})"
    return "\n".join([*lines, f"(assert (or {places if last == 'ArgMax' else others}))"]) + "\n"


MAPS = {"": (), "Softmax": ("softmax",), "LogSoftmax": ("log softmax",), "ArgMax": ("argmax",)}
CASES = {
    "sigmoid": (["Sigmoid", "Sigmoid"], "", ("sigmoid",)),
    "tanh and relu": (["Tanh", "Relu"], "", ("sigmoid",)),
    "swish": ([SWISH, "Relu"], "", ("product", "sigmoid")),
    "softplus and elu": (["Softplus", "Elu"], "", ("exp", "softplus")),
    "softmax": (["Relu"], "Softmax", ()),
    "log softmax": (["Tanh"], "LogSoftmax", ("sigmoid",)),
    "argmax": (["Relu", SWISH], "ArgMax", ("product", "sigmoid")),
}


@pytest.mark.parametrize(("activations", "last", "operators"), CASES.values(), ids=CASES)
def test_what_is_proved_is_certified(
    activations: list[str], last: str, operators: tuple[str, ...], tmp_path: Path
) -> None:
    """A certificate of one box is none of a larger one, where another output wins."""
    rng = np.random.default_rng(8)
    model, spec, proof = tmp_path / "m.onnx", tmp_path / "s.vnnlib", tmp_path / "p.npcert"
    model.write_bytes(network(activations, last, rng))
    state = rng.bit_generator.state
    spec.write_text(question(model.read_bytes(), last, rng))
    verdict = netproof.verify(str(model), str(spec), certificate=str(proof), device="cpu", threads=1)
    assert verdict.proved
    assert verdict.certificate is not None
    assert verdict.certificate["checked"], verdict.certificate["reason"]
    known = check(proof, model, spec, exact=2)
    assert known.operators == operators
    assert known.maps == MAPS[last]
    rng.bit_generator.state = state
    spec.write_text(question(model.read_bytes(), last, rng, 3.0))
    line, _, body = proof.read_bytes().partition(b"\n")
    proof.write_bytes(line.replace(known.spec.encode(), sha256(spec.read_bytes()).hexdigest().encode()) + b"\n" + body)
    with pytest.raises(Invalid, match=r"not shown|is split at"):
        check(proof, model, spec)
