"""What was found reaches somebody, whatever becomes of the files it should go to; and the forms it can have."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import run, start
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from support.processes import HANG, wait_for

VERIFY = ("verify", "m.onnx", "p.vnnlib")
WITNESS = "((X_0 0.5)\n (X_1 -inf)\n (Y_0 1.5))\n"
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def model(path: Path, shape: tuple[int, ...], *nodes: onnx.NodeProto, outputs: int = 3) -> None:
    """Nodes from `x` to `y`, by default scores of the flat input of which the second is the greatest."""
    weight = np.zeros((outputs, int(np.prod(shape))), dtype=np.float32)
    weight[1] = 1.0
    scores = (
        helper.make_node("Flatten", ["x"], ["flat"], axis=1),
        helper.make_node("Gemm", ["flat", "w"], ["y"], transB=1),
    )
    graph = helper.make_graph(
        list(nodes or scores),
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None if nodes else (1, outputs))],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


# --- files that cannot be written ---


@needs_full
def test_a_full_disk_does_not_swallow_the_verdict(folder: Path) -> None:
    files = ("--json", "/dev/full", "--results-file", "/dev/full", "--witness", "w.txt")
    done = run(*VERIFY, *files, "--quiet", engine="sat", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "sat\n" + WITNESS)
    assert (folder / "w.txt").read_text() == WITNESS, "every file is tried"
    lines = done.stderr.splitlines()
    assert [line.partition(": No")[0] for line in lines] == [
        "netproof: error: /dev/full: cannot write --results-file",
        "netproof: error: /dev/full: cannot write --json",
    ]


def test_a_folder_that_has_gone_does_not_either(folder: Path) -> None:
    (folder / "out").mkdir()
    files = ("--json", "out/j.json", "--witness", "out/w.npy")
    process = start(*VERIFY, *files, engine="slow", cwd=folder, FAKE_PIDS=str(folder / "pids"))
    wait_for(lambda: (folder / "pids").exists())
    shutil.rmtree(folder / "out")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (2, "unknown\n")
    assert "netproof: error: out/j.json: cannot write --json: No such file or directory" in err


@needs_full
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("bounds", "m.onnx", "p.vnnlib"), "Y_0 -1.0 2.0\n"),
        (("inspect", "m.onnx"), "file       m.onnx\n"),
        (("robust", "m.onnx", "--image", "x.npy", "--label", "1", "--eps", "0.5/255"), "unsat\n"),
    ],
)
def test_nor_that_of_other_commands(command: tuple[str, ...], said: str, folder: Path) -> None:
    model(folder / "m.onnx", (1, 1, 2, 2))
    np.save(folder / "x.npy", np.ones((2, 2), dtype=np.float32))
    done = run(*command, "--json", "/dev/full", cwd=folder)
    assert done.returncode == 2
    assert done.stdout.startswith(said)
    assert done.stderr.count("netproof: error: /dev/full: cannot write --json") == 1


# --- JSON on stdout ---


def test_json_on_stdout_is_alone_there(folder: Path) -> None:
    done = run(*VERIFY, "--json", "-", engine="sat", cwd=folder)
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"] == "sat"
    assert "BROKEN" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["m.onnx", "p.vnnlib"]


def test_bounds_as_json_on_stdout(folder: Path) -> None:
    assert json.loads(run("bounds", *VERIFY[1:], "--json", "-", cwd=folder).stdout)["upper"] == [2.0, 0.3 + 4e-17]


# --- pictures ---


def test_a_witness_as_a_picture(tmp_path: Path) -> None:
    """Pixels are shown as they were in the image, before they were normalised."""
    from netproof.cli.options import numbers
    from netproof.cli.robust.image import read_centre
    from netproof.cli.robust.question import Question
    from netproof.cli.show.witness_file import Saver

    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20
    Image.fromarray(pixels).save(tmp_path / "x.png")
    scale = {"mean": numbers("--mean", "0.1,0.2,0.3"), "std": numbers("--std", "0.5,0.25,2")}
    for shape in ((1, 3, 2, 2), (1, 2, 2, 3)):
        centre = read_centre(Question(str(tmp_path / "x.png"), numbers("--eps", "0")[0], "inf", **scale), shape)
        content, note = Saver("png", centre.layout, centre.pixels).content(centre.as_input())
        assert content is not None
        (tmp_path / "w.png").write_bytes(content)
        with Image.open(tmp_path / "w.png") as picture:
            np.testing.assert_array_equal(np.asarray(picture), pixels)
            assert note in picture.text["Description"]  # type: ignore[attr-defined]


def test_values_beyond_pixels_are_stretched() -> None:
    import io

    from netproof.cli.show.witness_file import Saver
    from netproof.core.shown.picture import layout_of

    content, note = Saver("png", layout_of((1, 1, 2, 2))).content(np.array([[[[-1.0, 1.0], [0.0, 3.0]]]]))
    assert content is not None
    with Image.open(io.BytesIO(content)) as picture:
        assert np.asarray(picture).tolist() == [[0, 128], [64, 255]]
    assert "-1 is black and 3 white" in note


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1, 3, 4, 5), (4, 5, 3, True)),
        ((1, 4, 5, 3), (4, 5, 3, False)),
        ((1, 1, 4, 5), (4, 5, 1, True)),
        ((4, 5, 1), (4, 5, 1, False)),
        ((4, 5), (4, 5, 1, True)),
        ((1, 784), None),
        ((1, 1, 1, 5), None),
        ((1, 2, 4, 5), None),
        ((2, 3, 4, 5), None),
        ((5,), None),
    ],
)
def test_which_inputs_are_images(shape: tuple[int, ...], layout: tuple[int, int, int, bool] | None) -> None:
    from netproof.core.shown.picture import Layout, layout_of

    assert layout_of(shape) == (None if layout is None else Layout(*layout))


def test_a_picture_of_what_is_no_image_is_refused_before_the_work(folder: Path) -> None:
    model(folder / "m.onnx", (1, 2))
    done = run(*VERIFY, "--witness", "w.png", engine="raise", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    expected = "m.onnx: its input [1, 2] is not an image, so --witness cannot draw it (use .npy or .txt)"
    assert done.stderr == f"netproof: error: {expected}\n"


def test_robust_saves_a_picture(folder: Path) -> None:
    model(folder / "m.onnx", (1, 1, 1, 2))
    Image.fromarray(np.array([[10, 20]], dtype=np.uint8)).save(folder / "x.png")
    asked = ("robust", "m.onnx", "--image", "x.png", "--label", "1", "--eps", "0.5/255", "--witness", "w.png")
    done = run(*asked, engine="finite", cwd=folder)
    assert done.returncode == 0, done.stderr
    with Image.open(folder / "w.png") as picture:
        assert np.asarray(picture).tolist() == [[128, 0]]
    assert "counterexample saved to w.png" in done.stderr
    assert "0 is black and 1 white" in done.stderr


# --- inspect ---


def test_inspect_names_what_lies_behind_an_unsupported_node_too(folder: Path) -> None:
    nodes = (
        helper.make_node("Hardmax", ["x"], ["s"], name="first"),
        helper.make_node("Asinh", ["s"], ["p"], name="second"),
        helper.make_node("Relu", ["p"], ["r"], name="fine"),
        helper.make_node("Hardmax", ["r"], ["y"], name="third"),
    )
    model(folder / "m.onnx", (1, 4), *nodes)
    done = run("inspect", "m.onnx", "--json", "j.json", cwd=folder)
    assert done.returncode == 2
    assert "NOT SUPPORTED: 3 of its nodes" in done.stdout
    assert "netproof inspect" not in done.stdout
    found = json.loads((folder / "j.json").read_text())
    assert found["supported"] is False
    assert [node["node"] for node in found["unsupported"]] == ["first", "second", "third"]


def test_inspect_of_what_can_be_verified_succeeds(folder: Path) -> None:
    model(folder / "m.onnx", (1, 4))
    done = run("inspect", "m.onnx", "--json", "-", cwd=folder)
    found = json.loads(done.stdout)
    assert (done.returncode, found["supported"], found["unsupported"]) == (0, True, [])
    assert (found["input_shape"], found["output_shape"]) == ([1, 4], [1, 3])


def test_reproduce_alone_shows_what_it_can_do(tmp_path: Path) -> None:
    done = run("reproduce", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert "table1" in done.stdout
