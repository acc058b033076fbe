"""The errors that `evaluate` and its parts give really bound."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import Model, small_net

from netproof.model.affine import Linear, Scale
from netproof.model.evaluate import Arithmetic, evaluate, evaluate_part, float_error
from netproof.model.graph import Graph, Node
from netproof.model.nonlinear import LeakyRelu, Relu
from netproof.model.ops import Input, Op


def exactly(graph: Graph, x: list[Fraction]) -> list[Fraction]:
    """A chain of Linear, Relu and LeakyRelu in rational arithmetic."""
    for node in graph.nodes[1:]:
        op = node.op
        if isinstance(op, Linear):
            assert op.bias is not None
            x = [
                sum((Fraction(w) * v for w, v in zip(row, x, strict=True)), Fraction(b))
                for row, b in zip(op.weight.tolist(), op.bias.tolist(), strict=True)
            ]
        elif isinstance(op, Relu):
            x = [max(v, Fraction(0)) for v in x]
        else:
            assert isinstance(op, LeakyRelu)
            x = [v if v >= 0 else v * Fraction(op.alpha) for v in x]
    return x


def chain(seed: int, scale: float) -> Model:
    model = Model((1, 4), seed=seed)
    wide = np.float32(scale)
    model.add("Gemm", "x", wide * model.weights(4, 6), model.weights(6), out="a").add("Relu", "a", out="b")
    model.add("Gemm", "b", model.weights(6, 5), wide * model.weights(5), out="c")
    model.add("LeakyRelu", "c", alpha=0.1, out="d")
    return model.add("Gemm", "d", model.weights(5, 3), model.weights(3))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1.0, 1e-6, 1e6]))
def test_errors_bound_the_distance_to_exact_arithmetic(seed: int, scale: float) -> None:
    network = chain(seed, scale).network()
    points = np.random.default_rng(seed).normal(size=(3, 1, 4)).astype(np.float32)
    x = torch.from_numpy(points).double()
    values, errors = evaluate(network.graph, x)
    single = float_error(network.graph, x, torch.float32)
    for i, point in enumerate(points):
        exact = exactly(network.graph, [Fraction(float(v)) for v in point.flat])
        answer = network.tensors(point, ["y"])[0]
        for j, truth in enumerate(exact):
            assert abs(Fraction(float(values[i, 0, j])) - truth) <= Fraction(float(errors[i, 0, j]))
            assert abs(Fraction(float(answer[0, j])) - truth) <= Fraction(float(single[i, 0, j]))


def only_op(*ops: Op) -> Graph:
    """The ops one after the other, on a vector."""
    nodes = [Node(0, Input(), (), (40,), "x")]
    nodes += [Node(i, op, (i - 1,), (40,), f"op{i}") for i, op in enumerate(ops, 1)]
    return Graph(tuple(nodes))


def random_vector(low: float, high: float) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).uniform(low, high, (1, 40)))


def test_adding_a_large_offset_is_in_the_error() -> None:
    """x + 1e16 is off by up to 1, where the product is exact."""
    x = random_vector(0.0, 2.0)
    value, error = evaluate(only_op(Scale(None, torch.tensor(1e16, dtype=torch.float64))), x)
    for v, e, p in zip(value[0].tolist(), error[0].tolist(), x[0].tolist(), strict=True):
        assert abs(Fraction(v) - Fraction(p) - Fraction(1e16)) <= Fraction(e)
    weight = Linear(torch.eye(40, dtype=torch.float64), torch.full((40,), 1e16, dtype=torch.float64))
    value, error = evaluate(only_op(weight), x)
    for v, e, p in zip(value[0].tolist(), error[0].tolist(), x[0].tolist(), strict=True):
        assert abs(Fraction(v) - Fraction(p) - Fraction(1e16)) <= Fraction(e)


def test_the_product_of_a_leaky_relu_is_in_the_error() -> None:
    x = random_vector(-1.0, 0.0)
    value, error = evaluate(only_op(LeakyRelu(0.1)), x)
    for v, e, p in zip(value[0].tolist(), error[0].tolist(), x[0].tolist(), strict=True):
        assert abs(Fraction(v) - Fraction(0.1) * Fraction(p)) <= Fraction(e)


@pytest.mark.parametrize("leak", [0.0, 0.1, 3.0])
def test_a_hinge_is_off_by_no_more_than_its_argument_makes_it(leak: float) -> None:
    x = torch.tensor([-1.0, -0.625, -0.25, -1e-9, 0.0, 1e-9, 0.25, 0.625, 1.0], dtype=torch.float64)
    off = torch.full_like(x, 0.5)
    op = Relu() if leak == 0.0 else LeakyRelu(leak)
    error = op.error(x, off, torch.float64)

    def exact(value: float) -> Fraction:
        return Fraction(value) * (1 if value > 0 else Fraction(leak))

    for value, e in zip(x.tolist(), error.tolist(), strict=True):
        worst = max(abs(exact(value + d) - exact(value)) for d in (-0.5, -0.25, 0.25, 0.5))
        assert worst <= Fraction(e)
        assert e <= 1.001 * float(worst) or abs(value) < 0.5
    assert leak != 0.0 or error[0] == 0.0  # off for certain


def halfway() -> Scale:
    """x itself, where the true factor may be anything in [1/2, 3/2]."""
    return Scale(torch.ones((), dtype=torch.float64), None, Scale(torch.full((), 0.5, dtype=torch.float64)))


def test_folded_constants_are_in_the_error_and_compound() -> None:
    x = torch.full((1, 40), -1.0, dtype=torch.float64)
    _, once = evaluate(only_op(halfway()), x)
    _, twice = evaluate(only_op(halfway(), halfway()), x)
    _, steep = evaluate(only_op(halfway(), LeakyRelu(3.0)), x)
    assert float(once.min()) >= 0.5
    assert float(twice.min()) >= 1.25  # 3/2 · 3/2 − 1
    assert float(steep.min()) >= 1.5


def test_where_values_overflow_there_is_no_bound() -> None:
    large = Scale(torch.full((), 1e308, dtype=torch.float64))
    _, error = evaluate(only_op(large, large, large), torch.ones(1, 40, dtype=torch.float64))
    assert bool((error == torch.inf).all())


def test_errors_are_small_and_grow_with_the_unit() -> None:
    network = small_net().network()
    x = torch.randn(2, 1, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, errors = evaluate(network.graph, x)
    assert (errors > 0).all()
    assert (errors < 1e-13).all()
    single = float_error(network.graph, x, torch.float32)
    assert (single > 1e6 * errors).all()
    assert (single < 1e-4).all()
    assert (float_error(network.graph, x, torch.float16) > 1e3 * single).all()


def test_data_movements_round_nothing() -> None:
    network = Model((2, 3)).add("Transpose", "x", out="t").add("Flatten", "t").network()
    _, errors = evaluate(network.graph, torch.randn(2, 2, 3, dtype=torch.float64))
    assert (errors == 0).all()


def test_a_part_is_evaluated_from_what_is_given() -> None:
    network = small_net().network()
    x = torch.randn(2, 1, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = network.graph.values(x)
    exact = Arithmetic(torch.float64, lambda node: None)
    value, error = evaluate_part(network.graph.nodes, {1: values[1]}, 3, exact)
    assert torch.equal(value, values[3])
    whole = evaluate_part(network.graph.nodes, {0: x}, 3, exact)[1]
    assert (error < whole).all()  # what is given is taken as exact
    value, error = evaluate_part(network.graph.nodes, {2: values[2]}, 2, exact)
    assert torch.equal(value, values[2])
    assert (error == 0).all()
    with pytest.raises(KeyError):
        evaluate_part(network.graph.nodes, {3: values[3]}, 2, exact)


def test_long_sums_in_half_precision_have_a_bound() -> None:
    model = Model((1, 3000))
    network = model.add("MatMul", "x", model.weights(3000, 2)).network()
    x = torch.ones(1, 1, 3000, dtype=torch.float64)
    half = float_error(network.graph, x, torch.float16)
    assert half.isfinite().all()
    assert (half > 1e3 * float_error(network.graph, x, torch.float32)).all()


def test_threads_that_ask_for_a_copy_at_once_get_the_same_one() -> None:
    together = threading.Barrier(4)

    class Slow(Relu):
        """Is copied by none before all have found that there is no copy."""

        def to(self, device: torch.device, dtype: torch.dtype) -> Relu:
            together.wait(60)
            return self

    graph = Graph((Node(0, Input(), (), (1, 2), "x"), Node(1, Slow(), (0,), (1, 2), "y")))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: graph.to("cpu", torch.float32), range(4)))
    assert len(set(map(id, found))) == 1
