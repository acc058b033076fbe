"""Values of every element type: what is read is what onnxruntime computes, and all else is refused by name."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from typed_graphs import FLOATS, TypedGraph

from model.onnx_models import Model, ints
from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.errors import ModelError, NetproofError, UnsupportedOp
from netproof.model.load import check, from_file, probes
from netproof.model.network import Network
from netproof.model.onnx.elements import PLACES, TRUTHS, Held, all_held, result_elements, spanned
from netproof.model.onnx.file import parse
from netproof.problem.problem import InputSet

BATCH = 60
CPU = torch.device("cpu")
NEAR = {TensorProto.FLOAT: 1e-5, TensorProto.DOUBLE: 1e-11, TensorProto.FLOAT16: 1e-2}


def enclosed(network: Network, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the output on a box, flat."""
    ends = (torch.from_numpy(end.astype(np.float64)).reshape(network.input_shape) for end in (lower, upper))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = interval_bounds(network.graph, Region.of(InputSet(*ends), CPU, torch.float64)).of
    last = found[len(network.graph.nodes) - 1]
    return last.lower.numpy().reshape(-1), last.upper.numpy().reshape(-1)


def outcome(seed: int) -> str:
    """Read one graph and bound it on a small box: what became of it."""
    graph = TypedGraph(seed)
    data = graph.model().SerializeToString()
    try:
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    except Exception:  # no kernel, or types that do not fit: onnxruntime raises classes of its own
        return "not run"
    lower, upper, points = graph.points(6, float(graph.random.choice([0.0, 2.0**-10])))
    try:
        answers = [np.asarray(session.run(None, {"x": x})[0]).astype(np.float64).reshape(-1) for x in points]
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:  # a division by the integer 0
        return "not run"
    try:
        network = from_file(parse(data, "typed.onnx", "0"))
    except UnsupportedOp:
        return "refused"
    except ModelError as error:
        return "refused" if "is a constant that is not made of exact floats" in str(error) else f"wrong: {error}"
    try:
        low, high = enclosed(network, lower, upper)
        check(network, probes(network))
    except NetproofError as error:
        return f"wrong: {error}" if "disagree" in str(error) else "without bounds"
    near = max(NEAR[kind] for kind in set(graph.types.values()) if kind in FLOATS)
    for answer in answers:
        if np.isfinite(answer).all():
            slack = near * (1.0 + np.abs(answer))
            if not ((low - slack <= answer) & (answer <= high + slack)).all():
                return f"wrong: seed {seed}: {answer} is not between {low} and {high}"
    return "right"


@pytest.mark.parametrize("batch", range(6))
def test_graphs_of_every_type(batch: int) -> None:
    found = Counter(outcome(seed) for seed in range(batch * BATCH, (batch + 1) * BATCH))
    assert [text for text in found if text.startswith("wrong")] == []
    assert found["right"] >= BATCH // 6, found
    assert found["refused"] >= BATCH // 30, found


# --- ONNX's rules of types -----------------------------------------------------------------------------------

FLOAT, DOUBLE, HALF = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16
INT64, BOOL, BFLOAT16 = TensorProto.INT64, TensorProto.BOOL, TensorProto.BFLOAT16

RULES = {
    "the same": (helper.make_node("Add", ["a", "b"], ["y"]), [DOUBLE, DOUBLE], [DOUBLE]),
    "of what is chosen": (helper.make_node("Where", ["c", "a", "b"], ["y"]), [BOOL, HALF, HALF], [HALF]),
    "truth": (helper.make_node("Less", ["a", "b"], ["y"]), [INT64, INT64], [BOOL]),
    "place": (helper.make_node("ArgMax", ["a"], ["y"]), [FLOAT], [INT64]),
    "cast": (helper.make_node("Cast", ["a"], ["y"], to=BFLOAT16), [FLOAT], [BFLOAT16]),
    "cast like": (helper.make_node("CastLike", ["a", "b"], ["y"]), [FLOAT, INT64], [INT64]),
    "power": (helper.make_node("Pow", ["a", "b"], ["y"]), [HALF, INT64], [HALF]),
    "mask": (helper.make_node("Dropout", ["a"], ["y", "m"]), [DOUBLE], [DOUBLE, BOOL]),
    "left out": (helper.make_node("Clip", ["a", "", "b"], ["y"]), [DOUBLE, None, DOUBLE], [DOUBLE]),
    "stash": (helper.make_node("LayerNormalization", ["a", "b"], ["y", "m"]), [HALF, HALF], [HALF, FLOAT]),
    "open": (helper.make_node("NoSuchOperator", ["a"], ["y"]), [FLOAT], [None]),
}


@pytest.mark.parametrize("name", RULES)
def test_the_type_of_a_result(name: str) -> None:
    node, inputs, results = RULES[name]
    assert result_elements(node, inputs, 18) == results


@pytest.mark.parametrize(
    ("node", "inputs", "said"),
    [
        (helper.make_node("Add", ["a", "b"], ["y"]), [FLOAT, DOUBLE], "of types FLOAT and DOUBLE"),
        (helper.make_node("And", ["a", "b"], ["y"]), [BOOL, FLOAT], "B may not be of type FLOAT"),
        (helper.make_node("Sqrt", ["a"], ["y"]), [INT64], "X may not be of type INT64"),
    ],
)
def test_types_that_no_runtime_takes(node: onnx.NodeProto, inputs: list[int], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        result_elements(node, inputs, 18)


def test_which_values_a_type_holds() -> None:
    assert spanned(-(2**24), 2**24) == Held(FLOAT, whole=True, span=(-(2**24), 2**24))
    assert spanned(0, 2**53 + 1) is None
    fits = {
        kind: [held.fits(kind) for held in (TRUTHS, PLACES, Held(HALF), Held(FLOAT), Held(DOUBLE))]
        for kind in (BOOL, TensorProto.UINT8, TensorProto.INT8, INT64, HALF, FLOAT, DOUBLE)
    }
    assert fits == {
        BOOL: [True, False, False, False, False],
        TensorProto.UINT8: [True, True, False, False, False],
        TensorProto.INT8: [True, False, False, False, False],
        INT64: [True, True, False, False, False],
        HALF: [True, True, True, False, False],
        FLOAT: [True, True, True, True, False],
        DOUBLE: [True, True, True, True, True],
    }
    assert all_held([TRUTHS, Held(FLOAT, whole=True)]) == Held(FLOAT, whole=True)
    assert all_held([PLACES, Held(FLOAT)]) == Held(FLOAT)
    assert all_held([TRUTHS, PLACES]) == PLACES


@pytest.mark.parametrize("filled", ["relu", "pad"])
def test_zeros_that_a_node_fills_with_count(filled: str) -> None:
    """A truth less 7 is −7 or −6; what a ReLU or a Pad makes of it is 0 too, and 0 + 2^31 − 1 is the last that fits."""
    model = Model((1, 3), opset=18).add("Greater", "x", np.float32(0.5), out="b")
    model = model.add("Cast", "b", to=TensorProto.INT32, out="i").add("Sub", "i", np.array(7, np.int32), out="j")
    model = model.add("Cast", "j", to=FLOAT, out="f")
    more = (ints(0, 1, 0, 0),) if filled == "pad" else ()
    model = model.add("Pad" if more else "Relu", "f", *more, out="p").add("Cast", "p", to=TensorProto.INT32, out="q")
    model = (
        model.add("Add", "q", np.array(2**31 - 1, np.int32), out="t")
        .add("Add", "t", np.array(1, np.int32), out="s")
        .add("Cast", "s", to=FLOAT)
    )
    with pytest.raises(UnsupportedOp, match="may wrap"):
        model.network()


def test_outputs_have_the_types_of_the_file() -> None:
    model = Model((1, 3)).add("ArgMax", "x", axis=1, out="a").add("Greater", "x", np.float32(0.5), out="y")
    proto = model.proto(("a", "y"))
    for value, kind in zip(proto.graph.output, (INT64, BOOL), strict=True):
        value.type.tensor_type.elem_type = kind
    network = from_file(parse(proto.SerializeToString(), "types.onnx", "0"))
    assert [info.dtype for info in network.outputs] == ["int64", "bool"]
