"""Fields of valid models that say something else: only an error that names the file comes of it, or a network.

Damaged bytes seldom get past protobuf. Here the message stays whole, and what it says is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from op_cases import CASES

from netproof.errors import NetproofError
from netproof.model.describe import describe
from netproof.model.load import load_network

OPERATORS = sorted({(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas()})
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training", "nowhere")
VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2**40, 1.5, float("nan"), "SAME", "ä", [0], [1, 2, 3], [-5], [1.0], ["a"], [2**62] * 3),
    *(numpy_helper.from_array(np.float32([1, 2])), numpy_helper.from_array(np.int64(3))),
)
ROUNDS = 6


def operator(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    node.domain, node.op_type = random.choice(OPERATORS)
    if node.domain and random.random() < 0.8:
        model.opset_import.append(helper.make_opsetid(node.domain, random.randint(1, 6)))


def domain(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    node.domain = random.choice(DOMAINS)
    if random.random() < 0.7:
        model.opset_import.append(helper.make_opsetid(node.domain, random.choice([1, 3, 5, 0, -1, 2**40])))


def opset(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    model.opset_import[0].version = random.randint(0, 30)


def imported(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    model.opset_import[0].domain = random.choice(DOMAINS)


def attribute(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    found = random.choice(node.attribute) if node.attribute else node.attribute.add(name="axis")
    what = random.randrange(4)
    if what == 0:
        found.type = random.choice(AttributeProto.AttributeType.values())
    elif what == 1:
        found.ref_attr_name = "outside"
    elif what == 2:
        node.attribute.remove(found)
    else:
        found.CopyFrom(helper.make_attribute(found.name, random.choice(VALUES)))


def inputs(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    names = [*node.input] or [""]
    at = random.randrange(len(names))
    del node.input[:]
    node.input.extend(random.choice([names[:at] + names[at + 1 :], [*names[:at], "", *names[at + 1 :]], names * 2]))


def results(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    node.output.append("another")
    if random.random() < 0.3:
        node.output[0] = ""


def element(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    value = random.choice([*model.graph.input, *model.graph.output])
    value.type.tensor_type.elem_type = random.choice(TensorProto.DataType.values())


def weights(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    if not model.graph.initializer:
        return
    tensor = random.choice(model.graph.initializer)
    if random.random() < 0.5:
        tensor.data_type = random.choice([*TensorProto.DataType.values(), 99])
    else:
        tensor.dims[:] = [random.choice([0, -1, 2, 2**40]), *tensor.dims[1:]]


def folded(model: onnx.ModelProto, node: onnx.NodeProto, random: Random) -> None:
    """Give an initializer as a Constant node, whose value may be anything."""
    if model.graph.initializer:
        tensor = random.choice(model.graph.initializer)
        made = helper.make_node("Constant", [], [tensor.name], value=tensor)
        if random.random() < 0.5:
            attribute(model, made, random)
        model.graph.node.insert(0, made)
        model.graph.initializer.remove(tensor)


FAULTS: tuple[Callable[[onnx.ModelProto, onnx.NodeProto, Random], None], ...] = (
    operator, domain, opset, imported, attribute, inputs, results, element, weights, folded,
)  # fmt: skip


def ends_well(path: Path, read: Callable[[Path], object]) -> None:
    try:
        read(path)
    except NetproofError as error:
        assert "\n" not in str(error)  # noqa: PT017 (most faults are refused, some are harmless)
        assert path.name in str(error)  # noqa: PT017


@pytest.mark.parametrize("name", sorted(CASES)[::3])
def test_whatever_a_field_says_ends_in_one_line_or_a_network(tmp_path: Path, name: str) -> None:
    path, random = tmp_path / "net.onnx", Random(f"fields of {name}")
    for _ in range(ROUNDS):
        model = CASES[name]().proto()
        for _ in range(random.choice([1, 1, 2])):
            random.choice(FAULTS)(model, random.choice(model.graph.node), random)
        try:
            path.write_bytes(model.SerializeToString())
        except EncodeError:
            continue
        ends_well(path, load_network)
        ends_well(path, describe)
