"""Certificates of questions that did not come from two files: what was searched is written beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import netproof
from netproof.certificate.room import PREFIX, Room
from netproof.core.verdict import Verdict
from netproof.dataset import together
from netproof.dataset.cases import Case
from netproof.dataset.certificates import Certificates
from netproof.errors import UsageError
from netproof.problem.specs import output_constraint
from npcheck.check import check
from npcheck.errors import Refused

REGION = netproof.box([0, 0], [1, 1])


def module() -> torch.nn.Module:
    """Make a network whose output 0 is far above the others."""
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(2, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3)).eval()
    with torch.no_grad():
        made[2].bias[0] += 4
    return made


class Wave(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def accepted(verdict: Verdict) -> tuple[Path, Path]:
    """Check a certificate again, with the files that it names; return these."""
    state = verdict.certificate
    assert verdict.proved
    assert state is not None
    assert (state["written"], state["checked"], state["reason"]) == (True, True, "")
    model, spec = Path(state["model"]), Path(state["spec"])
    check(Path(state["path"]), model, spec)
    return model, spec


def test_a_module_and_a_condition_are_written_beside(tmp_path: Path) -> None:
    network = module()
    _, y = netproof.variables(network, REGION)
    path = tmp_path / "c.npcert"
    model, spec = accepted(netproof.verify(network, REGION, (y[0] <= 19) & (abs(y[1]) <= 9), certificate=path))
    assert (model, spec) == (tmp_path / "c.onnx", tmp_path / "c.vnnlib")
    assert names(tmp_path) == ["c.npcert", "c.onnx", "c.vnnlib"]
    points = torch.rand(64, 2)
    session = onnxruntime.InferenceSession(model)
    with torch.no_grad():
        for point, wanted in zip(points, network(points), strict=True):
            (found,) = session.run(None, {"input": point.numpy()})
            assert np.allclose(found, wanted, atol=1e-6)
    # The files are a question like any other, with the same answer.
    again = netproof.verify(model, spec)
    assert again.proved
    # What a run has written another one may replace.
    accepted(netproof.verify(network, REGION, y[0] <= 18, certificate=path))


def test_a_network_that_was_loaded_stands_for_its_file(tmp_path: Path) -> None:
    accepted(netproof.verify(module(), REGION, label=0, targets=[1], certificate=tmp_path / "first.npcert"))
    network = netproof.load_network(tmp_path / "first.onnx")
    question = {"label": 0, "targets": [1], "certificate": tmp_path / "c.npcert"}
    model, spec = accepted(netproof.verify(network, REGION, **question))
    assert (model, spec) == (tmp_path / "first.onnx", tmp_path / "c.vnnlib")
    model.write_bytes(model.read_bytes() + b"\x32\x00")  # the same network, but another file
    assert accepted(netproof.verify(network, REGION, **question))[0] == tmp_path / "c.onnx"


def test_inputs_and_outputs_become_one_vector_each(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Concat", ["r", "b"], ["both"], axis=1),
        helper.make_node("Neg", ["r"], ["minus"]),
    ]
    sides = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n]) for name, n in ends]
        for ends in ([("a", 3), ("unused", 2), ("b", 2)], [("both", 6), ("minus", 4)])
    ]
    graph = helper.make_graph(nodes, "g", *sides, [numpy_helper.from_array(weights, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx")
    text = "".join(f"(declare-const X_{i} Real)(assert (<= X_{i} 1))(assert (>= X_{i} 0))\n" for i in range(7))
    text += "".join(f"(declare-const Y_{i} Real)" for i in range(10))
    (tmp_path / "p.vnnlib").write_text(text + "(assert (or (<= Y_5 -0.5) (>= Y_6 0.25) (>= (+ Y_4 Y_7) 1.25)))")
    verdict = netproof.verify(tmp_path / "m.onnx", tmp_path / "p.vnnlib", certificate=tmp_path / "c.npcert")
    model, spec = accepted(verdict)
    assert (model, spec) == (tmp_path / "c.onnx", tmp_path / "p.vnnlib")
    onnx.checker.check_model(model)
    x = np.arange(7, dtype=np.float32) / 7
    (joined,) = onnxruntime.InferenceSession(model).run(None, {"netproof_inputs": x})
    fed = {"a": x[None, :3], "unused": x[None, 3:5], "b": x[None, 5:]}
    parts = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, fed)
    assert np.array_equal(joined, np.concatenate([part.reshape(-1) for part in parts]))
    # A tensor from inside is an output too, of the type that it has.
    inner = netproof.verify(
        tmp_path / "m.onnx",
        output_constraint(netproof.box(np.zeros(7), np.ones(7)), [[1, 0, 0, 0]], [-9]),
        outputs=["h"],
        certificate=tmp_path / "inner.npcert",
    )
    onnx.checker.check_model(accepted(inner)[0])


def test_weights_beside_a_model_are_in_the_one_that_is_written(tmp_path: Path) -> None:
    accepted(netproof.verify(module(), REGION, label=0, targets=[1], certificate=tmp_path / "first.npcert"))
    model = onnx.load_model(tmp_path / "first.onnx")
    save = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save_model(model, tmp_path / "m.onnx", **save)
    verdict = netproof.verify(tmp_path / "m.onnx", tmp_path / "first.vnnlib", certificate=tmp_path / "c.npcert")
    assert accepted(verdict) == (tmp_path / "c.onnx", tmp_path / "first.vnnlib")


Ask = Callable[[Path], Any]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda path: netproof.verify(
                module(), netproof.linear_image([0.5, 0.5], [[0.1, 0], [0, 0.1]]), label=0, certificate=path
            ),
            "about several networks or runs, or about the image of a box under a linear map",
        ),
        (
            lambda path: netproof.verify(module(), netproof.l1_ball([0.5, 0.5], 0.1), label=0, certificate=path),
            "an ℓ1 ball has no short form in VNN-LIB",
        ),
        (
            lambda path: netproof.verify(
                torch.nn.Sequential(torch.nn.Linear(2, 2), Wave()), REGION, label=0, certificate=path
            ),
            r"<torch module>: node .*Sin",
        ),
        (lambda path: netproof.verify(module(), REGION, label=0, certificate=3), "certificate cannot be 3"),
        (lambda path: netproof.verify(module(), REGION, label=0, certificate="/dev/null"), "it is no regular file"),
        (lambda path: netproof.verify(module(), REGION, label=0, certificate=path.parent), "it is no regular file"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_search(
    ask: Ask, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netproof.api.Run.decide", None)
    with pytest.raises(UsageError, match=said):
        ask(tmp_path / "c.npcert")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["c.onnx", "c.vnnlib"])
def test_a_file_of_someone_else_stays(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_bytes(b"mine")
    monkeypatch.setattr("netproof.api.Run.decide", None)
    with pytest.raises(UsageError, match=rf"{name}: the question would be written there"):
        netproof.verify(module(), REGION, label=0, certificate=tmp_path / "c.npcert")
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"mine"


def test_a_data_set_of_a_network_with_a_last_softmax(tmp_path: Path) -> None:
    """Asked before it, image by image."""
    network = torch.nn.Sequential(module(), torch.nn.Softmax(-1))
    found = netproof.certify(network, [[0.5, 0.5], [0.25, 0.5]], [0, 0], "0.1", certificates=tmp_path, timeout=60)
    assert [(image.certificate or {})["checked"] for image in found] == [True, True]


def test_another_reading_of_a_network_is_no_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both readings of the file differ, the certificate would say nothing of what was searched."""
    monkeypatch.setattr("netproof.api.Run.decide", None)
    monkeypatch.setattr("npcheck.network.Network.values", lambda self, points: [np.zeros((len(points), 3))])
    with pytest.raises(UsageError, match="npcheck reads another function"):
        netproof.verify(module(), REGION, label=0, certificate=tmp_path / "c.npcert")
    assert names(tmp_path) == []


def test_of_another_question_a_certificate_proves_nothing(tmp_path: Path) -> None:
    network = module()
    verdict = netproof.verify(network, REGION, label=0, targets=[1], certificate=tmp_path / "c.npcert")
    _, spec = accepted(verdict)
    with torch.no_grad():
        network[2].bias[0] -= 100
    other = netproof.verify(network, REGION, label=0, targets=[1], certificate=tmp_path / "d.npcert")
    assert other.broken
    assert names(tmp_path) == ["c.npcert", "c.onnx", "c.vnnlib"]
    with pytest.raises(Refused):
        check(tmp_path / "c.npcert", tmp_path / "d.onnx", spec)


def test_what_a_killed_run_has_left_goes_with_the_next(tmp_path: Path) -> None:
    living = Room.within(tmp_path)
    (living.path / "hints").touch()
    dead = tmp_path / f"{PREFIX}dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "unfinished").touch()
    Room.within(tmp_path).close()
    assert names(tmp_path) == [living.path.name]
    assert (living.path / "hints").exists()
    living.close()
    assert names(tmp_path) == []


def hard() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """Make a network and images of which some need splits, together or alone."""
    torch.manual_seed(3)
    network = torch.nn.Sequential(
        torch.nn.Linear(120, 24), torch.nn.ReLU(), torch.nn.Linear(24, 24), torch.nn.ReLU(), torch.nn.Linear(24, 3)
    ).eval()
    images = torch.rand(6, 120)
    with torch.no_grad():
        return network, images, network(images).argmax(1)


@pytest.mark.parametrize("budget", [None, 8], ids=["together", "alone"])
def test_each_proof_of_a_data_set_has_one(budget: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if budget is not None:  # nearly nothing is decided together
        monkeypatch.setitem(together.BUDGET, "cpu", budget)
    network, images, labels = hard()
    labels[0] = (labels[0] + 1) % 3  # this one is misread
    hinted = []
    plain = Certificates._hints

    def spied(self: Certificates, case: Case) -> Any:
        found = plain(self, case)
        hinted.append((found.alone is not None, sum(found.count(d) for d in range(2))))
        return found

    monkeypatch.setattr(Certificates, "_hints", spied)
    found = netproof.certify(network, images, labels, "0.06", certificates=tmp_path / "certs", timeout=60)
    proofs = [image for image in found if image.status == "proved"]
    assert len(proofs) >= 3
    for image in proofs:
        state = image.certificate
        assert state is not None
        assert (state["written"], state["checked"], state["reason"]) == (True, True, "")
        assert f"{image.index:05d}-label-{image.label}" in state["path"]
        check(Path(state["path"]), tmp_path / "certs" / "model.onnx", Path(state["spec"]))
    assert all(image.certificate is None for image in found if image.status != "proved")
    assert len(names(tmp_path / "certs")) == 2 * len(proofs) + 1
    assert any(alone == (budget is not None) and count > 0 for alone, count in hinted)


def test_the_largest_radius_has_one(tmp_path: Path) -> None:
    found = netproof.largest_eps(module(), [0.5, 0.5], clip=(0, 1), certificate=tmp_path / "c.npcert", within="1/2")
    state = found.certificate
    assert state is not None
    assert state["checked"]
    check(tmp_path / "c.npcert", tmp_path / "c.onnx", tmp_path / "c.vnnlib")
    box = netproof.load_property(tmp_path / "c.vnnlib").disjuncts[0].box
    assert float(box.upper[0] - box.lower[0]) == pytest.approx(min(1.0, 2 * (found.certified or 0.0)))
    assert names(tmp_path) == ["c.npcert", "c.onnx", "c.vnnlib"]
