"""The oracles and generators that other tests lean on agree with each other and with onnxruntime."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
import torch

from netproof.problem.property import Box, Disjunct, Row
from support.exact import decide, enumerate_minimum, milp_minimum, rows_of
from support.random_graphs import NetworkBuilder, random_question, seeded


@pytest.mark.parametrize("seed", range(12))
def test_enumeration_and_milp_agree_and_their_points_take_the_value(seed: int) -> None:
    question = random_question(seeded(seed))
    graph = question.graph
    for disjunct in question.property.disjuncts:
        coef, offset = rows_of(disjunct, graph.output.size)
        for found in (m(graph, *question.box, coef, offset) for m in (enumerate_minimum, milp_minimum)):
            x = torch.from_numpy(found.point).reshape(1, *graph.input.shape)
            y = graph.forward(x).reshape(-1).numpy()
            assert found.value == pytest.approx((coef @ y - offset).max(), abs=1e-6)
            assert found.value == pytest.approx(enumerate_minimum(graph, *question.box, coef, offset).value, abs=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_a_tiny_network_and_its_onnx_model_are_the_same_function(seed: int) -> None:
    network = random_question(seeded(seed)).network
    assert 1 <= network.neurons <= 10
    session = onnxruntime.InferenceSession(network.model.SerializeToString())
    x = np.random.default_rng(seed).normal(size=network.graph.input.shape).astype(np.float32)
    expected = network.graph.forward(torch.from_numpy(x).double()[None])[0].numpy()
    np.testing.assert_allclose(session.run(None, {"x0": x})[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rhs", "verdict"), [("-1/1000", "unsat"), ("1/1000", "sat"), ("0", "tie")])
def test_decide_knows_a_tie(rhs: str, verdict: str) -> None:
    build = NetworkBuilder(1)
    build.relu(0)
    box = Box((Fraction(-1),), (Fraction(1),))
    disjunct = Disjunct(box, (Row({0: Fraction(1)}, Fraction(rhs)),))
    assert decide(build.finish().graph, [disjunct]) == verdict
