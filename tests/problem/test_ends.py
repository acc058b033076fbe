"""Strict questions beyond an end that an operator has: answered by what it is, not by bounds that end a hair before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import netproof
from model.onnx_models import Model, ints
from netproof.core.reasons import BEYOND
from netproof.problem.last.ends import within_ends
from support.both_ways import box_spec

BOX = torch.full((2,), -4.0), torch.full((2,), 4.0)


def layer() -> Model:
    model = Model((1, 2))
    return model.add("Gemm", "x", model.weights(2, 3), model.weights(3), out="h")


NETS: dict[str, tuple[Callable[[], Model], str]] = {
    "Relu": (lambda: layer().add("Relu", "h"), "(< Y_1 0)"),
    "Sigmoid": (lambda: layer().add("Sigmoid", "h"), "(> Y_1 1)"),
    "Tanh": (lambda: layer().add("Tanh", "h"), "(< Y_2 -1)"),
    "Exp": (lambda: layer().add("Exp", "h"), "(< Y_2 0)"),
    "Softmax": (lambda: layer().add("Softmax", "h", axis=-1), "(> Y_0 1)"),
    "a sum of two": (lambda: layer().add("Relu", "h"), "(< (+ Y_0 (* 2 Y_1)) 0)"),
    "moved": (
        lambda: layer().add("Relu", "h", out="r").add("Transpose", "r", perm=[1, 0], out="t").add(
            "Reshape", "t", ints(3)
        ),
        "(< Y_2 0)",
    ),
    "one of several": (
        lambda: layer().add("Relu", "h", out="r").add("Concat", "h", "r", axis=1), "(< Y_4 0)"
    ),
    "padded": (lambda: layer().add("Sigmoid", "h", out="s").add("Pad", "s", ints(0, 1, 0, 0)), "(< Y_0 0)"),
}  # fmt: skip


def asked(model: Model, violation: str, folder: Path, timeout: float = 20.0) -> netproof.Verdict:
    path = model.save(folder / "net.onnx")
    network = netproof.load_network(path)
    spec = folder / "spec.vnnlib"
    spec.write_text(box_spec(*BOX, network.graph.output.size, violation))
    return netproof.verify(network, spec, timeout=timeout, device="cpu")


@pytest.mark.parametrize("name", NETS)
def test_nothing_lies_beyond(name: str, tmp_path: Path) -> None:
    build, violation = NETS[name]
    verdict = asked(build(), violation, tmp_path)
    assert verdict.status == "unsat"
    assert verdict.reason == BEYOND


@pytest.mark.parametrize(
    ("name", "violation"),
    [
        ("Relu", "(<= Y_1 0)"),  # reached
        ("Relu", "(> Y_1 0)"),  # the other side has no end
        ("one of several", "(< Y_1 0)"),  # an entry that no ReLU made
        ("a sum of two", "(< (- Y_0 Y_1) 0)"),  # the ends of a difference are infinite
    ],
)
def test_what_can_be_is_found(name: str, violation: str, tmp_path: Path) -> None:
    assert asked(NETS[name][0](), violation, tmp_path).status == "sat"


def test_several_at_once(tmp_path: Path) -> None:
    verdict = asked(NETS["Sigmoid"][0](), "(or (< Y_0 0) (> Y_1 1))", tmp_path)
    assert (verdict.status, verdict.reason) == ("unsat", BEYOND)


def test_among_others_it_stays(tmp_path: Path) -> None:
    """How near the others come is not how near the property comes, which is what `lower_bound` says."""
    model = NETS["Relu"][0]()
    assert asked(model, "(or (< Y_0 0) (> Y_1 0.01))", tmp_path).status == "sat"
    network = netproof.load_network(model.save(tmp_path / "net.onnx"))
    spec = tmp_path / "spec.vnnlib"
    spec.write_text(box_spec(*BOX, 3, "(or (< Y_0 0) (> Y_1 100))"))
    property = netproof.load_property(spec)
    assert within_ends(network, property) is property


def test_a_number_in_the_place_of_nan_may_lie_beyond(tmp_path: Path) -> None:
    """onnxruntime gives −5 where x < 0, which is not what bounds of a square root speak of."""
    model = Model((1, 2)).add("Sqrt", "x", out="s").add("IsNaN", "s", out="n")
    model = model.add("Where", "n", np.full((1, 2), -5.0, np.float32), "s")
    verdict = asked(model, "(< Y_0 0)", tmp_path)
    assert verdict.status == "unknown"
    assert "negative" in verdict.reason


def test_a_condition_in_python() -> None:
    """y >= 0 of a ReLU: its violation is strict."""
    network = layer().add("Relu", "h").network()
    _, y = netproof.variables(network)
    region = netproof.box(np.full((1, 2), -1.0), np.full((1, 2), 1.0))
    assert netproof.verify(network, region, y[0, 1] >= 0, timeout=20, device="cpu").status == "unsat"
