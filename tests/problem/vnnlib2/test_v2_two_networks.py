"""Two networks in one query: shared inputs are one, differences are bounded jointly, witnesses replay one by one."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper

import netproof
from netproof.errors import NetproofError
from netproof.model.combined import Member, Merged, merged_graph
from netproof.model.load import read_network
from netproof.problem.networks.bind import bind
from netproof.problem.vnnlib.reader import parse_property
from support.asking import gaussian
from support.queries import VERSION, Layers, differences, dyadic_layers, network, save_text, side_by_side

LOW, HIGH = Fraction(-1), Fraction(1)


def pair(inputs: int, relation: str = "") -> str:
    declared = network("f", {"X": f"[1,{inputs}]"}, {"Y": "[1,1]"})
    declared += network("g", {"U": f"[1,{inputs}]"}, {"W": "[1,1]"}, relation)
    box = "".join(f"(assert (and (>= X[0,{i}] -1.0) (<= X[0,{i}] 1.0)))\n" for i in range(inputs))
    same = "".join(f"(assert (== X[0,{i}] U[0,{i}]))\n" for i in range(inputs))
    return VERSION + declared + box + same


def apart(by: Fraction, inputs: int) -> str:
    """A query that |g − f| reaches `by` somewhere."""
    limit = f"{float(by):.12f}"
    assert Fraction(limit) == by
    return pair(inputs) + f"(assert (or (>= (- W[0,0] Y[0,0]) {limit}) (<= (- W[0,0] Y[0,0]) (- {limit}))))\n"


def known_pair(seed: int) -> tuple[list[Layers], list[Layers], Fraction]:
    """Two networks of two inputs, sums of two networks of one, and the exact largest |g − f| on the box."""
    f = [dyadic_layers(10 * seed + k, (1, 5, 4, 1)) for k in (0, 1)]
    g = [[(w, list(b)) for w, b in layers] for layers in f]
    other = [dyadic_layers(10 * seed + k, (1, 5, 4, 1)) for k in (2, 3)]
    for mine, theirs in zip(g, other, strict=True):
        mine[1] = theirs[1]  # the second layer is another one, the first is shared
    lows, highs = zip(*(differences(a, b, LOW, HIGH) for a, b in zip(f, g, strict=True)), strict=True)
    return f, g, max(sum(highs, Fraction(0)), -sum(lows, Fraction(0)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("reached", [False, True])
def test_the_largest_difference_is_known(seed: int, reached: bool, tmp_path: Path) -> None:
    f, g, largest = known_pair(seed)
    step = Fraction(1, 2**7)
    limit = (largest // step + (0 if reached else 1)) * step  # at most the largest, or above it
    assert limit > 0
    files = {name: side_by_side(parts).save(tmp_path / f"{name}.onnx") for name, parts in (("f", f), ("g", g))}
    spec = save_text(tmp_path, apart(limit, 2))
    verdict = netproof.verify(files, spec, timeout=100, device="cpu")
    assert verdict.status == ("sat" if reached else "unsat")
    if verdict.witness is not None:
        named = {tensor.name: tensor.array for tensor in verdict.witness.tensors}
        assert list(named) == ["X", "Y", "U", "W"]
        assert np.array_equal(named["X"], named["U"])
        for name, x, y in (("f", "X", "Y"), ("g", "U", "W")):
            session = onnxruntime.InferenceSession(str(files[name]), providers=["CPUExecutionProvider"])
            answer = session.run(None, {session.get_inputs()[0].name: named[x].reshape(session.get_inputs()[0].shape)})
            assert np.array_equal(np.asarray(answer[0]).reshape(-1), named[y].reshape(-1))
        assert abs(Fraction(float(named["W"][0, 0])) - Fraction(float(named["Y"][0, 0]))) >= limit


def test_the_merged_graph_computes_both(tmp_path: Path) -> None:
    paths = [gaussian(k, (3, 5, 2)).save(tmp_path / f"{k}.onnx") for k in (0, 1)]
    nets = [read_network(path) for path in paths]
    merged = Merged((Member("f", nets[0], (0, 1, 2)), Member("g", nets[1], (3, 1, 0))), 4)
    x = torch.randn(7, 4, dtype=torch.float64)
    parts = [net.graph.forward(inputs).flatten(1) for net, inputs in merged.parts(x)]
    assert torch.equal(merged.graph.forward(x), torch.cat(parts, 1))
    assert torch.equal(parts[1], nets[1].graph.forward(x[:, [3, 1, 0]].reshape(7, *nets[1].input_shape)).flatten(1))
    single = x[0].float().numpy()
    real = merged.graph.forward(torch.from_numpy(single)[None].double())[0]
    assert np.allclose(merged.replay(single), real, atol=1e-5)


@pytest.mark.parametrize("asked", ["(< Y[0,0] W[0,0])", "(> Y[0,0] W[0,0])", "(!= Y[0,0] W[0,0])"])
def test_networks_that_compute_the_same_never_differ(asked: str, tmp_path: Path) -> None:
    """Two files with the same weights: no bound tells a tie at every point from a difference."""
    files = {name: gaussian(0, (2, 6, 6, 1)).save(tmp_path / f"{name}.onnx") for name in "fg"}
    verdict = netproof.verify(files, save_text(tmp_path, pair(2) + f"(assert {asked})\n"), timeout=20, device="cpu")
    assert verdict.status == "unsat"
    assert "are equal" in verdict.reason


@pytest.mark.parametrize("asked", ["(<= Y[0,0] W[0,0])", "(< (- Y[0,0] 0.5) W[0,0])"])
def test_what_equal_outputs_satisfy_is_found(asked: str, tmp_path: Path) -> None:
    files = {name: gaussian(0, (2, 6, 6, 1)).save(tmp_path / f"{name}.onnx") for name in "fg"}
    verdict = netproof.verify(files, save_text(tmp_path, pair(2) + f"(assert {asked})\n"), timeout=20, device="cpu")
    assert verdict.status == "sat"


def test_networks_that_differ_in_one_weight_share_what_they_have_alike(tmp_path: Path) -> None:
    paths = [gaussian(0, (2, 6, 6, 1)).save(tmp_path / f"{name}.onnx") for name in "fg"]
    other = onnx.load(str(paths[1]))
    last = numpy_helper.to_array(other.graph.initializer[-1]).copy()
    last.flat[0] += 0.25
    other.graph.initializer[-1].CopyFrom(numpy_helper.from_array(last, other.graph.initializer[-1].name))
    onnx.save(other, str(paths[1]))
    nets = [read_network(path) for path in paths]
    merged = Merged((Member("f", nets[0], (0, 1)), Member("g", nets[1], (0, 1))), 2)
    assert len(merged.graph.nonlinear) == len(nets[0].graph.nonlinear) == 2
    assert merged.same_outputs == (0, 1)
    x = torch.randn(7, 2, dtype=torch.float64)
    parts = [net.graph.forward(inputs).flatten(1) for net, inputs in merged.parts(x)]
    assert torch.equal(merged.graph.forward(x), torch.cat(parts, 1))
    files = dict(zip("fg", paths, strict=True))
    spec = save_text(tmp_path, pair(2) + "(assert (!= Y[0,0] W[0,0]))\n")
    assert netproof.verify(files, spec, timeout=20, device="cpu").status == "sat"


def test_a_network_used_twice_on_one_input_is_there_once(tmp_path: Path) -> None:
    net = read_network(gaussian(0, (3, 5, 2)).save(tmp_path / "f.onnx"))
    twice = merged_graph((Member("f", net, (0, 1, 2)), Member("g", net, (0, 1, 2))), 3)
    other = merged_graph((Member("f", net, (0, 1, 2)), Member("g", net, (0, 2, 1))), 3)
    assert len(twice.nonlinear) == 1
    assert len(other.nonlinear) == 2


def test_a_network_equal_to_another_needs_no_model_and_never_differs(tmp_path: Path) -> None:
    path = gaussian(3, (2, 8, 8, 1)).save(tmp_path / "f.onnx")
    text = pair(2, "(equal-to f)") + "(assert (> W[0,0] (+ Y[0,0] 0.000001)))\n"
    verdict = netproof.verify(path, save_text(tmp_path, text), timeout=60, device="cpu")
    assert verdict.status == "unsat"


def test_monotonicity_by_one_network_on_two_inputs(tmp_path: Path) -> None:
    """f(x) = relu(x₀) − relu(x₁): rising x₀ never lowers it, rising x₁ may."""
    from support.asking import dense

    path = dense(([[1, 0], [0, 1]], [0, 0]), ([[1, -1]], [0])).save(tmp_path / "f.onnx")
    declared = network("f", {"X": "[1,2]"}, {"Y": "[1,1]"})
    declared += network("g", {"U": "[1,2]"}, {"W": "[1,1]"}, "(equal-to f)")
    box = "".join(f"(assert (and (>= {t}[0,{i}] -1.0) (<= {t}[0,{i}] 1.0)))\n" for t in "XU" for i in (0, 1))
    fall = "(assert (<= W[0,0] (- Y[0,0] 0.01)))\n"
    for rising, same, status in ((0, 1, "unsat"), (1, 0, "sat")):
        more = f"(assert (>= U[0,{rising}] X[0,{rising}]))\n(assert (== U[0,{same}] X[0,{same}]))\n"
        verdict = netproof.verify(path, save_text(tmp_path, VERSION + declared + box + more + fall), timeout=60)
        assert verdict.status == status


def test_inputs_bounded_by_those_of_the_other_network(tmp_path: Path) -> None:
    """|u − x| <= 0.25 bounds u, which has no bound of its own."""
    declared = network("f", {"X": "[1]"}, {"Y": "[1]"}) + network("g", {"U": "[1]"}, {"W": "[1]"}, "(equal-to f)")
    near = "(assert (and (<= (- U[0] X[0]) 0.25) (>= (- U[0] X[0]) -0.25)))\n"
    text = VERSION + declared + "(assert (and (>= X[0] 0.0) (<= X[0] 1.0)))\n" + near
    box = parse_property(text + "(assert (<= W[0] Y[0]))\n").disjuncts[0].box
    assert (tuple(box.lower), tuple(box.upper)) == ((0, Fraction(-1, 4)), (1, Fraction(5, 4)))


def test_equal_inputs_are_one_entry_through_chains_and_within_a_network() -> None:
    text = VERSION + network("f", {"X": "[3]"}, {"Y": "[1]"}) + network("g", {"U": "[3]"}, {"W": "[1]"})
    same = "(assert (== X[0] U[1]))\n(assert (and (<= U[1] U[2]) (>= U[1] U[2])))\n(assert (== (- X[2] U[0]) 0.0))\n"
    box = "".join(f"(assert (and (>= X[{i}] 0.0) (<= X[{i}] 1.0)))\n" for i in range(3))
    property = parse_property(text + same + box + "(assert (<= Y[0] W[0]))\n")
    assert property.interface is not None
    assert property.interface.place == (0, 1, 2, 2, 0, 0)
    assert property.inputs == 3
    assert [row.inputs for row in property.disjuncts[0].rows] == [{}]


def models(folder: Path, *shapes: tuple[int, ...]) -> list[Path]:
    return [gaussian(k, shape).save(folder / f"{k}.onnx") for k, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no model was given for network f"),
        ({"f": 0}, "no model was given for network g"),
        ({"f": 0, "g": 0, "h": 0}, "no model is needed for network h: the query declares f, g"),
        (0, "the query declares 2 networks with a model each: f, g"),
        ({"f": 0, "g": 2}, r"line 7: input U has shape \[1, 2\], in the model .* it has \[1, 3\]"),
        ({"f": 0, "g": 3}, r"line 8: output W has shape \[1, 1\], in the model .* it has \[1, 2\]"),
    ],
)
def test_models_that_do_not_fit(given: object, said: str, tmp_path: Path) -> None:
    paths = models(tmp_path, (2, 4, 1), (2, 4, 1), (3, 4, 1), (2, 4, 2))
    chosen = {name: paths[k] for name, k in given.items()} if isinstance(given, dict) else paths[0]
    spec = save_text(tmp_path, pair(2) + "(assert (<= Y[0,0] W[0,0]))\n")
    with pytest.raises(NetproofError, match=said):
        netproof.verify(chosen, spec)


def test_isomorphic_networks_have_the_same_operators(tmp_path: Path) -> None:
    paths = models(tmp_path, (2, 4, 1), (2, 5, 1), (2, 4, 4, 1))
    text = pair(2, "(isomorphic-to f)") + "(assert (<= Y[0,0] W[0,0]))\n"
    property = parse_property(text)
    assert property.interface is not None
    assert isinstance(bind(property.interface, {"f": paths[0], "g": paths[1]}), Merged)
    with pytest.raises(NetproofError, match="declared isomorphic-to f, but their models have other operators"):
        bind(property.interface, {"f": paths[0], "g": paths[2]})


def test_a_model_for_a_network_that_is_equal_to_another_is_refused(tmp_path: Path) -> None:
    (path,) = models(tmp_path, (2, 4, 1))
    spec = save_text(tmp_path, pair(2, "(equal-to f)") + "(assert (<= Y[0,0] W[0,0]))\n")
    with pytest.raises(NetproofError, match="no model is needed for network g: it is equal-to f"):
        netproof.verify({"f": path, "g": path}, spec)
