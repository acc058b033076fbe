"""The measuring scripts: each prints its table, and says in one line what is wrong with its arguments."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

import netproof
from netproof.bounds.base import Clock
from netproof.core.deadline import Deadline
from netproof.demo import Instance
from netproof.errors import UsageError
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.model.load import load_network
from netproof.paper.rivals.gnn.net import load_weights
from netproof.problem.reduce import reduce
from netproof.problem.specs import linf_ball, output_constraint
from netproof.problem.vnnlib.reader import load_property
from support.api import module

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = (
    "sets",
    "throughput",
    "float64",
    "compare",
    "certify",
    "report",
    "operators",
    "versions",
    "operations",
    "modules",
    "scaling",
    "large",
    "capture",
    "tree_size",
    "branching",
    "train_gnn",
    "mutate",
    "chart",
)
ENGINE = ("--device", "cpu", "--threads", "1")
SHORT = ("--domains", "8", "--repeats", "1", "--width", "8", "--depth", "2", *ENGINE)
Demo = dict[str, tuple[Path, Path, Instance]]
Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


# --- each script, on the bundled networks ---


def test_sets(run: Run, instances: Path) -> None:
    code, table, out, _ = run("sets", str(instances), "--warm-up", *ENGINE)
    assert code == 0
    (row,) = table
    assert (row["set"], row["method"]) == ("digits", "auto")
    assert (row["instances"], row["solved"], row["unsat"], row["sat"]) == ("2", "2", "1", "1")
    assert float(row["max s"]) >= float(row["median s"]) > 0
    assert float(row["max s"]) >= float(row["mean s"]) > 0
    assert int(row["domains"]) > 0
    assert out.count("start-up") == 1
    assert "contradictions: none" in out


def test_sets_sees_a_contradiction(run: Run, instances: Path) -> None:
    (instances / "known.csv").write_text("onnx,vnnlib,truth\ndigits-fc.onnx,fc-5-breaks.vnnlib,unsat\n")
    code, _, out, _ = run("sets", str(instances), *ENGINE)
    assert code == 1
    assert "unsat by known.csv, sat by auto" in out


def test_branching(run: Run, instances: Path, tmp_path: Path) -> None:
    rules = [word for rule in ("babsr", "gnn", "random") for word in ("--rule", rule)]
    options = ("--csv", str(tmp_path / "rows.csv"), "--set", "root_steps=0", "--set", "neuron_steps=0")
    code, table, _, err = run("branching", str(instances), *rules, *options, *ENGINE)
    assert code == 0
    assert [row["rule"] for row in table] == ["babsr", "gnn", "random"]
    assert {row["solved"] for row in table} == {"2 of 2"}
    assert table[0]["of babsr"] == "1.000"
    assert all(float(row["mean branches"]) > 0 for row in table)
    assert [row["followed"] for row in table][::2] == ["-", "-"]
    assert err.count("unsat") == err.count(": sat") == 3
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 7


def test_train_gnn_labels_trains_and_writes_weights(run: Run, instances: Path, tmp_path: Path) -> None:
    lines = (instances / "instances.csv").read_text()
    (instances / "instances.csv").write_text(lines * 2)  # one image in four is held out
    where = ("--exclude", str(instances), "--data", str(tmp_path / "data.pt"))
    how = ("--domains", "40", "--epochs", "3", "--width", "8", "--minutes", "2", "--batch", "4", *ENGINE)
    files = [tmp_path / "first.npz", tmp_path / "second.npz"]
    for file in files:  # the second time from the labels of the first
        code, _, _, err = run("train_gnn", str(instances), "--out", str(file), *where, *how)
        assert code == 0
        assert "3 epochs on" in err
    assert load_weights(files[0]).forwards.weight.shape == (8, 16)
    assert float(load_weights(files[1]).score[2].weight.detach().abs().max()) > 0, "it is not what it began as"


def test_images_of_excluded_sets_are_not_learnt_from(script: Callable[[str], ModuleType], instances: Path) -> None:
    data, sets = script("gnn_data"), script("instances")
    some = sets.read_folder(instances)
    renamed = [replace(one, vnnlib=Path(f"net-img{i}-eps0.1.vnnlib")) for i, one in enumerate(some)]
    assert data.numbers(renamed) == {"0", "1"}
    with pytest.raises(UsageError, match="no instances to learn from"):
        data.images(renamed, {"0", "1"}, 4)


def test_throughput(run: Run, demo: Demo) -> None:
    onnx, vnnlib, _ = demo["fc-4-needs-splits"]
    code, table, out, _ = run(
        "throughput", str(onnx), str(vnnlib), "--seconds", "5", "--batch", "4,8", "--reference", *ENGINE
    )
    assert code == 0
    assert [row["method"] for row in table] == ["auto", "beta, steps=20"] * 2
    assert [row["batch"] for row in table] == ["4", "4", "8", "8"]
    assert [row["no lower"] for row in table] == ["yes", "reference"] * 2
    for row in table:
        assert row["verdict"] == "unsat"
        assert all(number(row[name]) > 0 for name in ("unstable", "domains", "domains/s", "of all/s", "floor/s"))
        assert row["limit"] in ("flops", "bytes")
    assert number(table[1]["floor/s"]) < number(table[0]["floor/s"]), "twice the steps cost more"
    assert "TFLOP/s" in out


def test_float64_counts_both_ways(run: Run, demo: Demo) -> None:
    onnx, vnnlib, _ = demo["fc-4-needs-splits"]
    code, table, _, _ = run("float64", str(onnx), str(vnnlib), *ENGINE)
    assert code == 0
    assert [row["proofs"] for row in table] == ["float32 first", "float64"]
    assert [row["verdict"] for row in table] == ["unsat", "unsat"]
    assert number(table[0]["float64/sub-domain"]) < number(table[1]["float64/sub-domain"])
    assert number(table[0]["fewer"]) > 1
    assert run("float64", str(onnx), str(vnnlib), "--at-least", "1e9", *ENGINE)[0] == 1


def test_throughput_takes_rows_of_a_set(run: Run, instances: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETPROOF_BENCHMARKS", str(instances.parent))
    code, table, _, _ = run("throughput", "digits:1", "--seconds", "1", "--batch", "8", "--method", "lirpa", *ENGINE)
    assert code == 0
    (row,) = table
    assert row["instance"] == "digits:1"
    assert row["floor/s"] == "-", "lirpa does not condense the network"


def test_compare(run: Run, instances: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    rival = f"{sys.executable} -m netproof verify {{onnx}} {{vnnlib}} --timeout {{timeout}} --method lirpa --device cpu"
    code, table, out, _ = run(
        "compare", str(instances), "--first", "1", "--repeats", "1", "--rival", rival, "--baseline", "true", *ENGINE
    )
    assert code == 0
    row, total = table
    assert (row["netproof"], row["rival"], row["verdicts"]) == ("unsat", "unsat", "agree")
    assert float(row["rival/netproof"]) > 0
    assert float(row["above baseline s"]) > 0
    assert total["instance"] == "median of 1 decided by both"
    assert "baseline: " in out


@pytest.mark.parametrize("axis", ["unstable", "width", "depth", "eps", "cores"])
def test_scaling(run: Run, axis: str) -> None:
    values = "0.05,0.2" if axis == "eps" else "1" if axis == "cores" else "4,6" if axis == "width" else "2,6"
    code, table, _, _ = run("scaling", "--axis", axis, "--values", values, *SHORT)
    assert code == 0
    assert [row["asked" if axis == "unstable" else axis] for row in table] == values.split(",")
    for row in table:
        assert all(float(row[name]) > 0 for name in ("root s", "tighter root s", "s per 1000 domains"))
    if axis == "unstable":
        assert [row["unstable"] for row in table] == ["2", "6"]


def test_large(run: Run, tmp_path: Path) -> None:
    """A family of two tiny sides: numbers, the growth and its plot; then the same questions as files."""
    family = ("--family", "--sides", "4,8")
    code, table, out, _ = run("large", *family, "--device", "cpu", "--threads", "1", "--plot", str(tmp_path / "a.png"))
    assert code == 0
    assert [row["network"] for row in table] == ["side 4", "side 8"]
    assert [int(row["neurons"].replace(" ", "")) for row in table] == [112 * 16, 112 * 64]
    for row in table:
        assert row["targets"] == row["proved"] == "9"
        assert float(row["attack s"]) > 0
        assert float(row["root s"]) > 0
        assert 90 <= sum(int(row[f"{phase} %"]) for phase in ("intervals", "forward", "backward", "targets")) <= 110
    assert "to the power" in out
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert run("large", *family, "--write", str(tmp_path / "set"))[0] == 0
    network, property = tmp_path / "set/onnx/side_4.onnx", tmp_path / "set/vnnlib/side_4.vnnlib"
    assert (tmp_path / "set/instances.csv").read_text().splitlines()[0].startswith("onnx/side_4.onnx,vnnlib/side_4")
    assert netproof.verify(network, property, device="cpu", timeout=60).status == "unsat"


def test_certify_says_how_much_faster(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = ROOT / "benchmarks" / "certify.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--images", "6", "--eps", "0.02", *ENGINE])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(script), run_name="__main__")
    shown = capsys.readouterr().out
    assert left.value.code == 0, shown
    assert "contradictions 0, lost 0" in shown
    assert "all radii: certify" in shown


def number(text: str) -> float:
    return float(text.replace(" ", ""))


# --- what they say of wrong arguments ---


@pytest.mark.parametrize("name", SCRIPTS)
def test_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Run as the main module, as Python does with a script, but here, where torch is loaded already."""
    script = ROOT / "benchmarks" / f"{name}.py"
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(script), run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name}.py")


def test_help_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "sets.py"), "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: sets.py")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("sets", ["nowhere"], "nowhere: no such folder"),
        ("sets", [], "no folder of instances"),
        ("sets", ["{set}", "--method", "magic"], "no method 'magic'"),
        ("sets", ["{set}", "--set", "magic=1"], "no such field"),
        ("sets", ["{set}", "--csv", "no/such/folder/rows.csv"], "--csv"),
        ("throughput", ["nowhere:1"], "nowhere: no such folder"),
        ("throughput", ["{set}:3"], "rows 1 to 2"),
        ("throughput", ["no.onnx", "no.vnnlib"], "no such file"),
        ("throughput", ["{set}:1", "--batch", "8,0"], "--batch"),
        ("compare", ["nowhere", "--rival", "true"], "nowhere: no such folder"),
        ("compare", ["{set}"], "--rival"),
        ("compare", ["{set}", "--rival", "no-such-program"], "cannot run no-such-program"),
        ("compare", ["{set}", "--rival", "true", "--baseline", "false", "--repeats", "1"], "the baseline ended with"),
        ("scaling", ["--axis", "unstable", "--values", "99", *SHORT], "99 unstable neurons of 16"),
        ("scaling", ["--axis", "depth", "--values", "2.5", *SHORT], "whole numbers"),
        ("scaling", ["--axis", "magic"], "--axis"),
        ("large", ["--networks", "huge"], "'huge' are not among small, resnet18, tiny64"),
        ("large", ["--family", "--sides", "7"], "sides are even"),
    ],
)
def test_errors_are_one_line(
    run: Run,
    script: Callable[[str], ModuleType],
    instances: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.delenv("NETPROOF_BENCHMARKS", raising=False)
    if name == "compare":  # netproof itself has no part in these
        monkeypatch.setattr(script("compare"), "netproof_command", lambda given: "true")
    code, _, out, err = run(name, *(word.replace("{set}", str(instances)) for word in arguments))
    assert code == 2
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"{name}.py: ")
    assert said in line


def test_sets_are_found_by_name(
    script: Callable[[str], ModuleType], instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETPROOF_BENCHMARKS", str(instances.parent))
    monkeypatch.chdir(ROOT)
    find = script("instances").find_sets
    assert find(["digits"]) == find([]) == find([str(instances.parent)]) == find([str(instances)]) == [instances]


# --- what they count and read ---


def test_flops_are_those_of_the_products(script: Callable[[str], ModuleType]) -> None:
    """Three layers, every neuron unstable: the count is the products' of `backward` and `forward` written out."""
    floor, device = script("floor"), torch.device("cpu")
    network = module(4, 3, 5, 6, 1)
    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.zeros_(layer.bias)  # so every neuron is 0 in the middle
    property = output_constraint(linf_ball(torch.zeros(1, 4), 1.0), [[1.0]], [0.0])
    (problem,) = reduce(load_network(network, example_shape=(1, 4)), property)
    bounder = build_method("beta", method_info("beta").options(), device).bounder
    found = bounder.root(problem, torch.zeros(1, dtype=torch.float64), device, Deadline(), Clock())
    assert found is not None
    net = found[0].condensed32
    assert [layer.count for layer in net.layers] == [3, 5, 6]
    trunk = 3 * 4
    backward = 2 * (6 * 5 + (6 + 5) * 3 + (6 + 5) * (1 + 3) + trunk)  # a of layers 2 and 1, then 1 and y, then x
    forward = 2 * (trunk + 5 * (1 + 3 + 3) + 6 * (1 + 3 + 3 + 5))
    work = floor.work_of(net, steps=10, probes=4, batch=64)
    assert work.single == 10 * (backward + forward) + backward + 4 * backward
    assert work.double == backward
    assert floor.work_of(net, steps=10, probes=4, batch=1).bytes > work.bytes, "matrices are shared by a batch"


def test_the_slower_of_computing_and_moving_is_the_floor(script: Callable[[str], ModuleType]) -> None:
    floor = script("floor")
    peak = floor.Peak(single=100.0, double=10.0, bytes=50.0)
    assert peak.seconds(floor.Work(100.0, 20.0, 100.0)) == (3.0, "flops")
    assert peak.seconds(floor.Work(100.0, 0.0, 100.0)) == (2.0, "bytes")


# --- capture ---


def test_capture_says_that_it_needs_a_gpu(run: Run) -> None:
    code, _, out, err = run("capture", "anything:1", *ENGINE)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "needs a CUDA device" in err


# --- tree_size ---


def test_the_size_of_a_tree_is_estimated_without_bias(script: Callable[[str], ModuleType], demo: Demo) -> None:
    """Against the tree itself, walked to its end with the same bounds and splits."""
    measured = script("tree_size")
    model, spec, _ = demo["fc-4-needs-splits"]
    (problem, *_) = reduce(load_network(model), load_property(spec))
    options = method_info("beta").options({"probes": "0", "steps": "1", "planes": "0"})  # planes prove it at once
    tree = measured.Tree.of(problem, build_method("beta", options, torch.device("cpu")), torch.device("cpu"))
    here, size = tree.ranked(tree.whole.select(tree.open_targets)), 0
    while len(here):
        bounds, open_ = tree.children(here)
        size += len(bounds.domains)
        here = tree.ranked(bounds.select(open_.flatten()))
    assert size > 20
    found, depth = measured.estimate(tree, 2000, 0)
    assert abs(found - size) < 0.1 * size
    assert depth > 2
    assert measured.estimate(tree, 2000, 0) == (found, depth)


def test_tree_size_prints_a_row_for_each_instance(run: Run, instances: Path) -> None:
    code, table, _, _ = run("tree_size", f"{instances}:1", "--descents", "4", "--repeats", "2", *ENGINE)
    assert code == 0
    assert len(table) == 1
    assert float(table[0]["sub-domains"]) >= 0
