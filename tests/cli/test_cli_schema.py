"""What `--json` writes is what its schema says, key by key, in the order that is described."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command import REAL, run
from PIL import Image
from test_cli_robust import classifier

from netproof.run.schema import VERSION, schemas
from support.json_schema import problems

CPU = ("--device", "cpu", "--threads", "1", "--json", "-")
IMAGE = ("--image", "x.png", "--eps", "0.1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with one picture, a data set, a property that is broken and one that holds."""
    made = tmp_path_factory.mktemp("schema")
    classifier(made / "m.onnx", (1, 1, 2, 2), np.array([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]]))
    Image.fromarray(np.array([[200, 100], [200, 100]], dtype=np.uint8)).save(made / "x.png")
    np.savez(made / "d.npz", X=np.random.default_rng(0).random((4, 1, 2, 2), dtype=np.float32), y=[0, 1, 0, 1])
    declared = "".join(f"(declare-const {v} Real)" for v in ("X_0", "X_1", "X_2", "X_3", "Y_0", "Y_1"))
    box = "".join(f"(assert (>= X_{i} 0))(assert (<= X_{i} 1))" for i in range(4))
    (made / "sat.vnnlib").write_text(f"{declared}{box}(assert (>= Y_0 1))")
    (made / "unsat.vnnlib").write_text(f"{declared}{box}(assert (>= Y_0 3))")
    return made


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "m.onnx", "sat.vnnlib"),
        ("verify", "m.onnx", "unsat.vnnlib"),
        ("robust", "m.onnx", *IMAGE),
        ("robust", "m.onnx", *IMAGE, "--largest"),
        ("certify", "m.onnx", "--data", "d.npz", "--eps", "0.05"),
        ("bounds", "m.onnx", "sat.vnnlib"),
        ("bounds", "m.onnx", *IMAGE),
        ("inspect", "m.onnx"),
    ],
    ids=" ".join,
)
def test_a_document_is_as_it_is_described(arguments: tuple[str, ...], folder: Path) -> None:
    more = ("--json", "-") if arguments[0] == "inspect" else CPU
    done = run(*arguments, *more, engine=REAL, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    schema = schemas()[arguments[0]]
    assert problems(found, schema) == []
    assert found["schema"] == VERSION
    described = [key for key in schema["properties"] if key in found]
    assert list(found) == described
    if arguments[0] == "bounds":
        np.testing.assert_array_less(found["lower"], found["upper"])


def test_what_is_not_described_is_noticed() -> None:
    schema = schemas()["bounds"]
    lines = problems({"schema": VERSION + 1, "lower": ["a"], "more": 1, "exact": 1}, schema)
    for words in (
        "$.schema is 2",
        "$.lower[0] is str",
        "$.more is not described",
        "$.exact is int",
        "upper is missing",
    ):
        assert any(words in line for line in lines), lines


def test_a_document_without_an_answer_is_described_too(folder: Path) -> None:
    done = run("verify", "m.onnx", "sat.vnnlib", "--json", "-", "--timeout", "0.5", engine="slow", cwd=folder)
    assert json.loads(done.stdout)["verdict"] == "timeout"
    assert problems(json.loads(done.stdout), schemas()["verify"]) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m.onnx", "sat.vnnlib", *IMAGE), "both --image and sat.vnnlib"),
        (("m.onnx", "--image", "x.png"), "--eps is missing"),
        (("m.onnx", "--eps", "0.1"), "--image is missing"),
        (("m.onnx",), "no spec was given (add a .vnnlib file, or --image and --eps)"),
    ],
)
def test_bounds_are_of_a_spec_or_of_an_image(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    done = run("bounds", *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
