"""Methods and commands from other packages: registered by entry points, as the paper's own are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

SOURCE = Path(__file__).resolve().parents[1] / "src"
PLUG_IN = """
from dataclasses import replace

import typer

from netproof.methods.declared import BETA
from netproof.methods.registry import MethodInfo

METHODS = [MethodInfo("{name}", "beta, a few sub-domains at a time", BETA, "plugged:build")]
app = typer.Typer()


@app.command()
def hello() -> int:
    print("hello from outside")
    return 0


def build(options, device):
    from netproof.methods.build import beta

    return replace(beta(options, device), batch=2, most=None, fill=1)
"""


@pytest.fixture
def plug_in(tmp_path: Path) -> Path:
    """A folder to put a package's code and its entry points in."""
    metadata = tmp_path / "plugged-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    points = "[netproof.methods]\nplugged = plugged:METHODS\n[netproof.commands]\nplugged = plugged:app\n"
    (metadata / "entry_points.txt").write_text(points)
    (tmp_path / "plugged.py").write_text(PLUG_IN.format(name="careful"))
    return tmp_path


def netproof(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(SOURCE)])}
    command = [sys.executable, "-m", "netproof", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_a_method_from_outside_is_listed_and_answers(plug_in: Path, demo: dict[str, tuple[Path, Path, object]]) -> None:
    listed = netproof(plug_in, "methods")
    assert "careful beta, a few sub-domains at a time" in " ".join(listed.stdout.split())
    model, spec, _ = demo["fc-4-needs-splits"]
    answered = netproof(plug_in, "verify", str(model), str(spec), "--method", "careful", "--set", "steps=3")
    assert (answered.returncode, answered.stdout) == (0, "unsat\n"), answered.stderr


def test_a_command_from_outside_runs(plug_in: Path) -> None:
    assert netproof(plug_in, "plugged", "hello").stdout == "hello from outside\n"


def test_a_name_that_is_taken_is_refused(plug_in: Path) -> None:
    (plug_in / "plugged.py").write_text(PLUG_IN.format(name="beta"))
    listed = netproof(plug_in, "methods")
    assert (listed.returncode, listed.stdout) == (2, "")
    assert "'beta' is registered twice, the second time by plugged:METHODS" in listed.stderr


@pytest.mark.parametrize(
    ("code", "said"), [("import nowhere\n", "No module named 'nowhere'"), ("METHODS = [7]\n", "which is no MethodInfo")]
)
def test_a_broken_package_is_named_and_does_no_harm(
    plug_in: Path, code: str, said: str, demo: dict[str, tuple[Path, Path, object]]
) -> None:
    (plug_in / "plugged.py").write_text(code)
    listed = netproof(plug_in, "methods")
    assert (listed.returncode, listed.stdout, listed.stderr.count("\n")) == (2, "", 1)
    assert said in listed.stderr
    assert "plugged:METHODS" in listed.stderr
    called = netproof(plug_in, "plugged")
    assert (called.returncode, called.stdout, called.stderr.count("\n")) == (2, "", 1)
    assert "plugged:app" in called.stderr
    model, spec, _ = demo["fc-3-holds"]
    answered = netproof(plug_in, "verify", str(model), str(spec))
    assert (answered.returncode, answered.stdout) == (0, "unsat\n"), answered.stderr


def test_the_core_works_without_the_paper(demo: dict[str, tuple[Path, Path, object]]) -> None:
    """Nothing of `netproof.paper` is loaded for a question to a method of netproof's own."""
    model, spec, _ = demo["fc-3-holds"]
    code = (
        "import sys; sys.modules['netproof.paper'] = None; import netproof;"
        f"print(netproof.verify({str(model)!r}, {str(spec)!r}).status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "unsat\n", done.stderr


DETERMINANT = """
from netproof.model.moves import Reshape
from netproof.model.onnx.context import converts

@converts("Det")
def determinant(c):
    x = c.node(0)
    if x.shape[-2:] != (1, 1):
        c.refuse("its matrices are not of one number")
    return c.emit(Reshape(x.shape, x.shape[:-2]), x)
"""


def test_an_operator_from_outside_is_read(plug_in: Path, tmp_path: Path) -> None:
    """A module that nobody imports: its entry point is asked once an operator is not known."""
    points = plug_in / "plugged-1.0.dist-info" / "entry_points.txt"
    points.write_text("[netproof.operators]\ndet = det\n")
    (plug_in / "det.py").write_text(DETERMINANT)
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 1))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1,))],
    )
    model, spec = tmp_path / "net.onnx", tmp_path / "spec.vnnlib"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    spec.write_text(
        "(declare-const X_0 Real)\n(declare-const Y_0 Real)\n"
        "(assert (>= X_0 -0.5))\n(assert (<= X_0 1))\n(assert (<= Y_0 -0.51))\n"
    )
    answered = netproof(plug_in, "verify", str(model), str(spec))
    assert (answered.returncode, answered.stdout) == (0, "unsat\n"), answered.stderr
    points.write_text("")
    refused = netproof(plug_in, "verify", str(model), str(spec))
    assert (refused.returncode, "Det" in refused.stderr) == (2, True)
