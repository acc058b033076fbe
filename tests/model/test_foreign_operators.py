"""Operators of other domains, and those that ONNX gave up: refused by name, whatever onnx's own code raises of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import netproof
from netproof.errors import ModelError, UnsupportedOp
from netproof.model.describe import describe
from netproof.model.load import load_network

ML = "ai.onnx.ml"
BOTH = (("", 13), (ML, 3))
TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def classifier() -> onnx.NodeProto:
    return helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "p"],
        domain=ML,
        class_treeids=[0, 0],
        class_nodeids=[1, 2],
        class_ids=[0, 1],
        class_weights=[1.0, 1.0],
        classlabels_int64s=[0, 1],
        **TREE,
    )


def regressor() -> onnx.NodeProto:
    return helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
        **TREE,
    )


def ensemble() -> onnx.NodeProto:
    """Make what follows both of them from opset 5 on."""
    floats = numpy_helper.from_array(np.float32([0.5]))
    return helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[0],
        nodes_modes=numpy_helper.from_array(np.uint8([0])),
        nodes_splits=floats,
        nodes_truenodeids=[0],
        nodes_trueleafs=[1],
        nodes_falsenodeids=[0],
        nodes_falseleafs=[1],
        leaf_targetids=[0],
        leaf_weights=floats,
    )


def scaler(name: str = "x") -> onnx.NodeProto:
    return helper.make_node("Scaler", [name], ["y"], domain=ML, offset=[0.0], scale=[1.0])


def foo() -> onnx.NodeProto:
    return helper.make_node("Foo", ["x"], ["y"], domain="my.own")


def model(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str] = ("y",),
    opsets: Sequence[tuple[str, int]] = BOTH,
    shape: Sequence[int] = (1, 4),
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    declared = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name == "label" else TensorProto.FLOAT, None)
        for name in outputs
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [x], declared, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in opsets], ir_version=8)


def refused_in_every_way(path: Path) -> str:
    """Return the one line that loading ends in; `verify` ends in the same, and `inspect` lists a node."""
    with pytest.raises(UnsupportedOp) as loading:
        load_network(path)
    with pytest.raises(UnsupportedOp) as verifying:
        netproof.verify(path, netproof.box(np.zeros((1, 4)), np.ones((1, 4))), label=0)
    line = str(loading.value)
    assert str(verifying.value) == line
    assert "\n" not in line
    assert line.startswith(f"{path}: node '")
    assert [found.op for found in describe(path).unsupported][:1] == [loading.value.op]
    return line


FOREIGN: dict[str, Callable[[], onnx.ModelProto]] = {
    f"{ML}.TreeEnsembleClassifier-1": lambda: model([classifier()], ["label", "p"], (("", 13), (ML, 1))),
    f"{ML}.TreeEnsembleClassifier-3": lambda: model([classifier()], ["label", "p"]),
    f"{ML}.TreeEnsembleClassifier-given-up": lambda: model([classifier()], ["label", "p"], (("", 21), (ML, 5))),
    f"{ML}.TreeEnsembleClassifier-not-imported": lambda: model([classifier()], ["label", "p"], (("", 13),)),
    f"{ML}.TreeEnsembleClassifier-alone": lambda: model([classifier()], ["label", "p"], ((ML, 1),)),
    f"{ML}.TreeEnsembleRegressor-3": lambda: model([regressor()]),
    f"{ML}.TreeEnsembleRegressor-alone": lambda: model([regressor()], opsets=((ML, 3),)),
    f"{ML}.TreeEnsemble-5": lambda: model([ensemble()], opsets=(("", 21), (ML, 5))),
    f"{ML}.Scaler-3": lambda: model([scaler()]),
    f"{ML}.Scaler-damaged-version": lambda: model([scaler()], opsets=(("", 13), (ML, 2**40))),
    "my.own.Foo-1": lambda: model([foo()], opsets=(("", 13), ("my.own", 1))),
    "my.own.Foo-alone": lambda: model([foo()], opsets=(("my.own", 1),)),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_an_operator_of_another_domain_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(FOREIGN[name](), path)
    line = refused_in_every_way(path)
    assert f"unsupported operator {name.partition('-')[0]}: its domain is not the standard one (replace it " in line


def labelled() -> onnx.ModelProto:
    """Make what scikit-learn's converter does: a label looked up among the classes, and scores in a map."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
        helper.make_node("ArrayFeatureExtractor", ["classes", "best"], ["label"], domain=ML),
        helper.make_node("ZipMap", ["scores"], ["p"], domain=ML, classlabels_int64s=[3, 5]),
    ]
    constants = [
        numpy_helper.from_array(np.ones((4, 2), np.float32), "w"),
        numpy_helper.from_array(np.int64([3, 5]), "classes"),
    ]
    return model(nodes, ["label", "p"], constants=constants)


def test_what_is_computed_before_is_named_and_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(labelled(), path)
    assert refused_in_every_way(path).endswith("(ask for what is computed before it: --output scores)")
    lines = [found.line for found in describe(path).unsupported]
    assert len(lines) == 2
    assert all(line.endswith("--output scores)") for line in lines)
    assert load_network(path, outputs=["scores"]).output_shape == (1, 2)


def test_what_lies_behind_a_node_that_is_refused_is_not_named(tmp_path: Path) -> None:
    """It has no bounds either."""
    nodes = [regressor(), helper.make_node("Relu", ["y"], ["r"]), scaler("r")]
    nodes[-1].output[0] = "z"
    onnx.save(model(nodes, ["z"]), tmp_path / "net.onnx")
    found = describe(tmp_path / "net.onnx").unsupported
    assert [one.op for one in found] == [f"{ML}.TreeEnsembleRegressor", f"{ML}.Scaler"]
    assert not any("--output" in one.line for one in found)


def test_nodes_of_the_standard_need_its_opset(tmp_path: Path) -> None:
    onnx.save(model([helper.make_node("Relu", ["x"], ["y"])], opsets=((ML, 3),)), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="imports no standard opset"):
        load_network(tmp_path / "net.onnx")


@pytest.mark.parametrize("opset", [10, 11, 13, 18, 21])
@pytest.mark.parametrize("operator", ["Upsample", "Scatter", "Foo"])
def test_operators_that_an_opset_does_not_have(tmp_path: Path, operator: str, opset: int) -> None:
    """Also where another that is refused stands before them, so that onnx is asked for their shapes."""
    path = tmp_path / "net.onnx"
    refused = helper.make_node("RandomNormalLike", ["x"], ["n"])
    node = helper.make_node(operator, ["n", "k"], ["y"])
    last = helper.make_node("RandomUniformLike", ["y"], ["z"])
    constants = [numpy_helper.from_array(np.float32([1, 1, 2, 2]), "k")]
    onnx.save(model([refused, node, last], ["z"], [("", opset)], (1, 1, 2, 2), constants), path)
    with pytest.raises(ModelError):
        load_network(path)
    assert describe(path).unsupported[0].op == "RandomNormalLike"
