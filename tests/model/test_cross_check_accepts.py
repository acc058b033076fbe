"""The comparison with onnxruntime accepts every right reading, however steep, large or small its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from misreadings import points, read, refused, tampered
from onnx import TensorProto
from onnx_models import Model, ints
from random_models import random_model, tent

from netproof.model.affine import Linear
from netproof.model.ops import Op
from netproof.model.origin import constant
from netproof.model.origin.constant import Constant
from netproof.model.origin.cross_check import cross_check
from support.awkward import awkward_numbers
from support.random_graphs import random_network, seeded


@pytest.mark.parametrize("seed", range(60))
def test_random_models_are_accepted(seed: int) -> None:
    network = random_model(seed).network()
    for scale in (1.0, 1e-5, 1e5):
        cross_check(network, points(network, scale, seed))


@pytest.mark.parametrize("seed", range(20))
def test_small_and_awkward_networks_are_accepted(seed: int) -> None:
    """Residual sums, concatenations and slices; and thirds, 1e8 beside −1e8, and 1e-12."""
    network = read(random_network(seeded(seed)).model)
    cross_check(network, points(network, 3.0, seed))
    numbers = awkward_numbers(np.random.default_rng(seed))
    model = Model((1, 3))
    model.add("Gemm", "x", numbers(4, 3).astype(np.float32), numbers(4).astype(np.float32), transB=1, out="a")
    model.add("LeakyRelu", "a", alpha=0.1, out="h").add("Mul", "h", numbers(1, 4).astype(np.float32), out="s")
    model.add("Gemm", "s", numbers(4, 4).astype(np.float32), out="b").add("Relu", "b", out="r")
    network = model.add("Sub", "r", "h").network()
    cross_check(network, points(network, 3.0, seed))


def test_float16_that_is_rounded_only_where_it_is_told_is_accepted() -> None:
    """onnxruntime multiplies by x + c as float32 has it, and tells of it what float16 has."""
    rng = np.random.default_rng(0)
    for seed in range(12):
        model = Model((1, 3), opset=18, kind=TensorProto.FLOAT16)
        model.add("Add", "x", (rng.integers(-12, 13, 3) / 4).astype(np.float16), out="a")
        network = model.add("Mul", "a", "x").network()
        cross_check(network, points(network, 1.0, seed))


def test_a_wrong_number_of_float16_is_refused_still() -> None:
    """By three roundings of float16, of which one is the product's and one that of what it is of."""
    model = Model((1, 3), opset=18, kind=TensorProto.FLOAT16)
    model.add("Add", "x", np.float16([0.25, 0.5, 0.75]), out="a").add("Mul", "a", np.float16([2.0, 3.0, 5.0]), out="m")
    network = model.add("Mul", "m", "x").network()
    cross_check(network, points(network))
    refused(tampered(network, "m", lambda op: replace(op, mult=op.mult * (1.0 + 6 * 2.0**-11))))


@pytest.mark.parametrize("slope", [1.0, 4096.0, 1e7])
def test_steep_tents_are_accepted(slope: float) -> None:
    for seed in range(20):
        network = tent(seed, slope).network()
        cross_check(network, points(network, 10.0, seed))


def test_the_allowance_is_of_the_order_of_one_step_however_deep_the_network() -> None:
    """A constant added in the last of thirty layers is found, where the whole network's bound exceeds its outputs."""
    model = Model((1, 20))
    name = "x"
    for layer in range(30):
        model.add("Gemm", name, model.weights(20, 20), model.weights(20), out=f"a{layer}")
        model.add("Relu", f"a{layer}", out=f"r{layer}")
        name = f"r{layer}"
    network = model.add("Gemm", name, model.weights(20, 2), model.weights(2)).network()
    cross_check(network, points(network))

    def off(op: Op) -> Op:
        assert isinstance(op, Linear)
        return replace(op, weight=op.weight * (1.0 + 1e-5))

    assert "node 'Gemm_60' (Gemm)" in refused(tampered(network, "y", off))


def test_constants_in_a_movement_may_be_rounded_by_the_runtime() -> None:
    """The product is exact in float64 and not in float32; Concat and Pad place it."""
    model = Model((1, 3))
    model.add("Mul", model.weights(1, 2), np.float32(0.1), out="k").add("Concat", "x", "k", axis=1, out="a")
    model.add("Mul", np.float32(0.1), np.float32(0.3), out="f").add("Pad", "a", ints(0, 1, 0, 1), "f")
    network = model.network()
    assert np.any(
        network.replay(np.ones(3)).astype(np.float64) != network.graph.forward(torch.ones(1, 1, 3).double()).numpy()
    )
    cross_check(network, points(network))
    index = dict(network.trace.steps[0].outputs)["a"]
    parts = network.trace.nodes[index].op.parts
    wrong = tuple(None if part is None else part * (1.0 + 1e-6) for part in parts)
    refused(tampered(network, "a", lambda op: replace(op, parts=wrong)))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_a_runtimes_folding_is_within_the_slack(name: str, kind: str) -> None:
    """Two operations in a row, rounded to the file's type after each."""
    rng = np.random.default_rng(0)
    numpy = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}[name]
    a, b, c = (rng.normal(size=500).astype(kind) for _ in range(3))
    b, c = (np.where(np.abs(k) < 0.1, np.asarray(0.1, kind), k) for k in (b, c))
    dtype = getattr(torch, kind)
    held = [Constant(k.astype(np.float64), dtype=dtype) for k in (a, b, c)]
    operation = getattr(constant, name)
    found = operation(operation(held[0], held[1]), held[2])
    theirs = numpy(numpy(a, b), c)
    assert theirs.dtype == kind
    gap = np.abs(theirs.astype(np.float64) - found.value)
    assert (gap <= found.slack).all()
    assert gap.max() > 0.05 * found.slack.max() or kind == "float64"
    assert found.dtype == dtype
