"""ONNX's own backend suite, which the onnx package ships, asked of netproof.

A case counts when it has a float input with finite numbers and a float output. The first such input is kept; the others
become constants. It is right when the network is read, agrees with onnxruntime, and its output, bounded at the case's
point, encloses the numbers of the case within the case's own tolerance and no more than that.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from netproof.bounds.linear.interval import interval_bounds
from netproof.bounds.linear.region import Region
from netproof.errors import NetproofError
from netproof.model.load import check, from_file, probes
from netproof.model.network import Network
from netproof.model.nonlinear.steps import Stairs
from netproof.model.onnx.file import parse
from netproof.problem.problem import InputSet

FLOATS = {"float16", "float32", "float64"}
WIDTH = 1e-3  # relative and absolute width of the bounds at one point: more would enclose anything
KINDS = ("simple", "pytorch-operator", "pytorch-converted")  # whose models and data are files; the others are code


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    model: onnx.ModelProto
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    rtol: float
    atol: float

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(sorted({node.op_type for node in self.model.graph.node}))


@dataclass(frozen=True)
class Result:
    case: str
    operators: tuple[str, ...]
    status: str  # "right", "refused", "wrong" or "crashed"
    text: str = ""


@cache
def cases() -> list[Case]:
    """Return the cases that count, in the suite's order."""
    return [case for case in _every() if _kept(case) is not None and _floats(case)]


def _every() -> Iterator[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite divides by zero on purpose
        from onnx.backend.test.case.node import collect_testcases
        from onnx.backend.test.loader import load_model_tests

        found = collect_testcases(None)
    for case in found:
        if case.model is not None and case.data_sets:
            inputs, outputs = case.data_sets[0]
            if _arrays(inputs) and _arrays(outputs):
                yield Case(case.name, case.model, list(inputs), list(outputs), case.rtol, case.atol)
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            yield from _from_files(case)


def _arrays(values: Any) -> bool:
    return all(isinstance(value, np.ndarray | np.generic) for value in values)


def _from_files(case: Any) -> Iterator[Case]:
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = sorted(folder.glob("test_data_set_*"))
    if not data:
        return
    found = []
    for kind in ("input", "output"):
        tensors = []
        for path in sorted(data[0].glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1])):
            tensor = onnx.TensorProto()
            tensor.ParseFromString(path.read_bytes())
            tensors.append(numpy_helper.to_array(tensor))
        found.append(tensors)
    yield Case(case.name, model, found[0], found[1], case.rtol, case.atol)


def _kept(case: Case) -> int | None:
    """Return the position of the input that stays an input."""
    for position, value in enumerate(case.inputs):
        if value.dtype.name in FLOATS and value.size and np.isfinite(value).all():
            return position
    return None


def _floats(case: Case) -> bool:
    return any(np.asarray(value).dtype.name in FLOATS for value in case.outputs)


def asked(case: Case) -> tuple[onnx.ModelProto, np.ndarray, dict[str, np.ndarray]]:
    """Return the model with one input, that input's value, and the float outputs by name."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph, kept = model.graph, _kept(case)
    assert kept is not None
    held = {tensor.name for tensor in graph.initializer}
    named = [value.name for value in graph.input if value.name not in held]
    del graph.input[:]
    for position, (name, value) in enumerate(zip(named, case.inputs, strict=False)):
        if position == kept:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
        else:
            graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    outputs = {
        value.name: np.asarray(found)
        for value, found in zip(graph.output, case.outputs, strict=False)
        if np.asarray(found).dtype.name in FLOATS
    }
    return model, np.asarray(case.inputs[kept]), outputs


def judge(case: Case) -> Result:
    """Read one case and bound its output at its point."""

    def result(status: str, text: str = "") -> Result:
        return Result(case.name, case.operators, status, " ".join(text.split()))

    try:
        model, x, outputs = asked(case)
        network = from_file(parse(model.SerializeToString(), "case.onnx", "0"), list(outputs))
        point = torch.from_numpy(np.asarray(x, dtype=np.float64)).reshape(1, *network.input_shape)
        check(network, torch.cat([probes(network)[:1], point]))
        expected = np.concatenate([value.astype(np.float64).reshape(-1) for value in outputs.values()])
        fault = _fault(case, network, point, expected)
    except NetproofError as error:
        return result("wrong" if "disagree" in str(error) else "refused", str(error))
    except Exception as error:
        return result("crashed", f"{type(error).__name__}: {error}")
    return result("wrong", fault) if fault else result("right")


def _fault(case: Case, network: Network, point: torch.Tensor, expected: np.ndarray) -> str:
    """Say what is wrong with the bounds at one point (1, *input); empty where nothing is."""
    inputs = InputSet(point[0], point[0])
    found = interval_bounds(network.graph, Region.of(inputs, torch.device("cpu"), torch.float64)).of
    last = found[len(network.graph.nodes) - 1]
    lower, upper = (side.detach().numpy().reshape(-1) for side in (last.lower, last.upper))
    if lower.shape != expected.shape:
        return f"its output has {lower.size} numbers, not {expected.size}"
    if not np.isfinite(expected).all():
        return "the case's own output is not finite, ours is"
    near = case.atol + case.rtol * np.abs(expected)
    if not ((lower - near <= expected) & (expected <= upper + near)).all():
        worst = int(np.argmax(np.maximum(lower - expected, expected - upper) - near))
        return f"entry {worst} is between {lower[worst]} and {upper[worst]}, not {expected[worst]}"
    wide = upper - lower > WIDTH * (1.0 + np.abs(expected))
    jumps = any(isinstance(node.op, Stairs) for node in network.graph.nodes)  # at one, any value between is possible
    return f"entry {int(np.argmax(wide))} is bounded loosely" if wide.any() and not jumps else ""
