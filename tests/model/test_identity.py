"""What an answer is about: hashes of graphs and of modules, the same in every process, another for every change."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx_models import Model, small_net
from op_cases import CASES

import netproof
from netproof.core.about import About, ModuleIdentity, Subject
from netproof.dataset.store import Store
from netproof.model.affine import Linear
from netproof.model.canonical import graph_hash
from netproof.model.graph import Graph, Node
from netproof.model.load import load_network
from netproof.model.ops import Affine, Input
from netproof.model.origin.identity import module_identity
from netproof.run.case import save_case

SOURCE = str(Path(netproof.__file__).parents[1])


def linear(weight: torch.Tensor, bias: torch.Tensor | None = None, name: str = "y") -> Graph:
    op = Linear(weight, bias)
    return Graph((Node(0, Input(), (), (2,), "x"), Node(1, op, (0,), (len(weight),), name)))


WEIGHT = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)


def test_the_hash_of_a_graph_is_as_it_is_defined() -> None:
    """Certificates rest on it: another value here means another definition, which needs another name."""
    first = ["netproof graph 1", "tuple 2", "tuple 0", "tuple 1", "int 2", "Input"]
    second = ["tuple 2", "tuple 1", "int 0", "tuple 1", "int 2", "Linear", "weight", "tensor torch.float64 [2, 2]"]
    told = b"".join(f"{len(text)}:{text}".encode() for text in first + second)
    numbers = np.array([1.0, 2.0, 3.0, 4.0], "<f8").tobytes()
    rest = b"4:bias" + b"13:NoneType None" + b"6:radius" + b"13:NoneType None"
    assert linear(WEIGHT).sha256 == hashlib.sha256(told + numbers + rest).hexdigest()


def test_names_and_layout_in_memory_are_no_part_of_it() -> None:
    turned = WEIGHT.T.contiguous().T
    assert not turned.is_contiguous()
    assert linear(WEIGHT, name="another").sha256 == linear(turned).sha256 == linear(WEIGHT.clone()).sha256


def test_every_change_is_seen() -> None:
    bias = torch.zeros(2, dtype=torch.float64)
    nudged = WEIGHT.clone()
    nudged[1, 1] = np.nextafter(4.0, 5.0)
    graphs = [linear(WEIGHT), linear(nudged), linear(WEIGHT.T.clone()), linear(WEIGHT, bias), linear(WEIGHT.float())]
    nodes = linear(WEIGHT).nodes
    graphs.append(Graph((*nodes, dataclasses.replace(nodes[1], index=2, inputs=(0,)))))
    graphs.append(Graph((*nodes, dataclasses.replace(nodes[1], index=2, inputs=(1,)))))
    assert len({graph.sha256 for graph in graphs}) == len(graphs)


def test_an_operator_without_a_canonical_form_has_no_hash() -> None:
    class Odd(Affine):
        def __init__(self) -> None:
            self.what = object()

        def forward(self, *xs: torch.Tensor) -> torch.Tensor:
            return xs[0]

        def adjoint(self, coef: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return (coef,)

    assert graph_hash([Node(0, Odd(), (), (2,), "odd")]) is None


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_operator_of_netproof_has_one(name: str) -> None:
    first, again = (CASES[name]().network().graph for _ in range(2))
    assert first.sha256 is not None
    assert first.sha256 == again.sha256


def test_another_process_says_the_same(tmp_path: Path) -> None:
    path = small_net().save(tmp_path / "net.onnx")
    code = f"from netproof import load_network; print(load_network({str(path)!r}).graph.sha256)"
    environment = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == load_network(path).graph.sha256


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).eval()


def test_a_module_is_known_by_its_class_weights_and_shape() -> None:
    one, same, other, moved = module(), module(), module(), module()
    with torch.no_grad():
        other[2].bias[0] += 1e-6  # type: ignore[operator]
        moved[1].running_mean[1] = 0.5  # type: ignore[index]
    known = module_identity(one, (1, 3))
    assert known == module_identity(same, (1, 3))
    assert known.name == "torch.nn.modules.container.Sequential"
    hashes = {module_identity(m, (1, 3)).weights for m in (one, other, moved, module().double(), torch.nn.Linear(3, 4))}
    assert len(hashes) == 5
    assert module_identity(one, (2, 3)).shape == (2, 3)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.complex64])
def test_weights_of_any_type_are_hashed(kind: torch.dtype) -> None:
    holder = torch.nn.Module()
    holder.register_buffer("a", torch.tensor([[0, 1], [1, 0]]).to(kind))
    holder.register_buffer("b", torch.tensor(1).to(kind), persistent=False)
    assert len(module_identity(holder, (1,)).weights) == 64


def test_a_verdict_says_what_it_is_about(tmp_path: Path) -> None:
    path = small_net().save(tmp_path / "net.onnx")
    x = np.zeros((1, 4), np.float32)
    network = load_network(path)
    of_file = netproof.verify(path, netproof.linf_ball(x, 0.1), label=0)
    assert of_file.about is not None
    assert of_file.about.graph == network.graph.sha256
    assert [(one.file, one.module) for one in of_file.about.networks] == [(network.sha256, None)]
    own = module()
    of_module = netproof.verify(own, netproof.linf_ball(np.zeros((1, 3)), 0.1), label=0)
    (subject,) = of_module.to_dict()["about"]["networks"]
    assert subject["file"] is None
    assert subject["module"] == {
        **dataclasses.asdict(module_identity(own, subject["module"]["shape"])), "shape": subject["module"]["shape"]
    }  # fmt: skip
    json.dumps(of_module.to_dict())


def test_two_runs_are_about_one_graph_of_both(tmp_path: Path) -> None:
    path = small_net().save(tmp_path / "net.onnx")
    (_, first), (_, second) = netproof.runs([path, path])
    region = netproof.linf_ball(np.zeros((1, 4), np.float32), 0.1)
    found = netproof.verify([path, path], [region, region], first[0, 0] - second[0, 0] <= 100)
    assert found.about is not None
    assert len(found.about.networks) == 2
    assert found.about.graph not in (None, load_network(path).graph.sha256)


def test_weights_beside_the_model_are_named(tmp_path: Path) -> None:
    model = Model((1, 4))
    proto = model.add("MatMul", "x", model.weights(4, 3)).proto()
    onnx.save(proto, tmp_path / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    found = netproof.verify(tmp_path / "net.onnx", netproof.linf_ball(np.zeros((1, 4)), 0.1), label=0)
    assert found.about is not None
    assert len(found.about.networks[0].external) == 1


def test_a_saved_case_says_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    about = About("ab", ())
    wrong = netproof.Verdict(netproof.Status.UNKNOWN, "contradiction", details={"contradiction": {}}, about=about)
    saved = save_case(wrong, small_net().network(), netproof.Property((), 4, 3), "auto", {}, 0)
    document = json.loads(Path(saved.details["contradiction"]["saved"], "case.json").read_text(encoding="utf-8"))
    assert document["about"] == {"graph": "ab", "networks": []}
    assert saved.about == about


def test_a_data_set_says_it_too(tmp_path: Path) -> None:
    path = small_net().save(tmp_path / "net.onnx")
    found = netproof.certify(path, np.zeros((1, 1, 4)), [0], 0.1)
    assert found.to_dict()["about"]["graph"] == load_network(path).graph.sha256


def test_the_store_of_a_data_set_keeps_it(tmp_path: Path) -> None:
    """The last run's, beside answers of runs before."""
    module = Subject("model", None, (), ModuleIdentity("a.Net", "12", (1, 3)))
    with Store(tmp_path / "certify.sqlite") as store:
        assert store.about() is None
        for graph in ("ab", "cd"):
            store.note(About(graph, (module, Subject("g", "34", ("56",)))))
    with Store(tmp_path / "certify.sqlite") as store:
        assert store.about() == About("cd", (module, Subject("g", "34", ("56",))))


def test_bounds_and_a_radius_say_it_too() -> None:
    region = netproof.box([[0.0] * 3], [[1.0] * 3])
    found = netproof.bounds(module(), region, device="cpu")
    radius = netproof.largest_eps(module(), np.zeros((1, 3)), device="cpu", timeout=5)
    assert found.about == radius.about
    assert found.about is not None
    assert radius.to_dict()["about"] == found.about.to_dict()
