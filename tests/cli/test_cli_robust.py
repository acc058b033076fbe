"""`netproof robust`: the question that reaches the engine is exactly the one that was typed."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import REAL, run
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from netproof.cli.app import run as obey
from netproof.cli.process.supervisor import Ending, Outcome
from netproof.problem.property import Property


def classifier(path: Path, shape: tuple[int, ...], weight: np.ndarray) -> None:
    """scores = weight · flatten(x); weight: (output, input)."""
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["flat"], axis=1),
            helper.make_node("Gemm", ["flat", "w"], ["y"], transB=1),
        ],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, len(weight)))],
        [numpy_helper.from_array(weight.astype(np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)


@pytest.fixture
def grey(tmp_path: Path) -> Path:
    """A 2x2 image that the network reads as 1, with the network."""
    weight = np.zeros((3, 4))
    weight[1] = 1.0
    classifier(tmp_path / "m.onnx", (1, 1, 2, 2), weight)
    pixels = np.array([[0, 255], [51, 100]], dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    np.save(tmp_path / "x.npy", (pixels / np.float32(255)).reshape(1, 2, 2))
    return tmp_path


def asked(folder: Path, *arguments: str, image: str = "x.png", eps: str = "2/255") -> Property:
    """The property that the engine was given for the last target."""
    robust = ("robust", "m.onnx", "--image", image, "--label", "1", "--eps", eps, *arguments)
    done = run(*robust, cwd=folder, FAKE_SPEC=str(folder / "spec"))
    assert done.returncode == 0, done.stderr
    found = pickle.loads((folder / "spec").read_bytes())
    assert isinstance(found, Property)
    return found


def fractions(*texts: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(text) for text in texts)


def test_a_png_is_clipped_in_pixel_space(grey: Path) -> None:
    box = asked(grey).disjuncts[0].box
    assert box.lower == fractions("0", "253/255", "49/255", "98/255")
    assert box.upper == fractions("2/255", "1", "53/255", "102/255")


def test_a_png_is_normalised_after_clipping(grey: Path) -> None:
    box = asked(grey, "--mean", "0.1307", "--std", "0.3081").disjuncts[0].box
    mean, std = fractions("0.1307", "0.3081")
    assert box.lower[0] == (0 - mean) / std
    assert box.upper[1] == (1 - mean) / std
    assert box.upper[2] == (Fraction(53, 255) - mean) / std


def test_an_array_is_the_networks_own_input(grey: Path) -> None:
    box = asked(grey, image="x.npy", eps="0.25").disjuncts[0].box
    centre = [Fraction(float(value)) for value in np.load(grey / "x.npy").reshape(-1)]
    assert box.lower == tuple(value - Fraction(1, 4) for value in centre)
    assert box.upper == tuple(value + Fraction(1, 4) for value in centre)


def test_an_array_is_clipped_where_asked(grey: Path) -> None:
    box = asked(grey, "--clip", "-0.1,1", image="x.npy", eps="0.25").disjuncts[0].box
    assert (box.lower[0], box.upper[1]) == (Fraction("-0.1"), 1)


@pytest.mark.parametrize("norm", ["1", "2"])
def test_a_ball_is_scaled_by_the_one_std(grey: Path, norm: str) -> None:
    disjunct = asked(grey, "--norm", norm, "--mean", "0.5", "--std", "0.25", eps="0.1").disjuncts[0]
    ball = disjunct.ball
    assert ball is not None
    assert (ball.p, ball.radius) == (int(norm), Fraction("0.4"))
    assert ball.centre == fractions("-2", "2", "-1.2", f"{(Fraction(100, 255) - Fraction(1, 2)) * 4}")
    assert (disjunct.box.lower[0], disjunct.box.upper[1]) == (-2, 2)  # pixels stay in [0, 1]


def test_the_label_is_compared_with_one_target(grey: Path) -> None:
    (disjunct,) = asked(grey, "--targets", "2").disjuncts
    (row,) = disjunct.rows
    assert (dict(row.coefs), row.rhs, row.strict) == ({1: 1, 2: -1}, 0, False)


@pytest.mark.parametrize(("shape", "first"), [((1, 3, 2, 2), True), ((1, 2, 2, 3), False)])
def test_colours_go_where_the_network_has_its_channels(tmp_path: Path, shape: tuple[int, ...], first: bool) -> None:
    classifier(tmp_path / "m.onnx", shape, np.eye(3, 12))
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20
    Image.fromarray(pixels).save(tmp_path / "x.png")
    means = fractions("0.1", "0.2", "0.3")
    box = asked(tmp_path, "--mean", "0.1,0.2,0.3", "--std", "1,1,2", eps="0").disjuncts[0].box
    scaled = [
        (Fraction(int(value), 255) - means[channel]) / (2 if channel == 2 else 1)
        for value, channel in zip(pixels.reshape(-1), [0, 1, 2] * 4, strict=True)
    ]
    order = np.arange(12).reshape(2, 2, 3)
    order = order.transpose(2, 0, 1) if first else order
    assert box.lower == tuple(scaled[i] for i in order.reshape(-1))


def test_a_table_by_target_and_one_verdict(grey: Path) -> None:
    robust = ("robust", "m.onnx", "--image", "x.png", "--label", "1", "--eps", "0.1", "--json", "j.json")
    done = run(*robust, "--every-target", engine="target 2", cwd=grey)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "sat"
    assert "(X_0 0.5)" in done.stdout
    rows = [line.split()[:2] for line in done.stderr.splitlines() if line.strip()[:1].isdigit()]
    assert rows[:2] == [["0", "proved"], ["2", "broken"]]
    found = json.loads((grey / "j.json").read_text())
    assert [(row["target"], row["verdict"]) for row in found["robustness"]["targets"]] == [
        (0, "unsat"),
        (2, "sat"),
    ]
    assert found["verdict"] == "sat"
    assert found["lower_bound"] is None  # of one target it is not known
    assert found["domains"] == 80


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        (("--label", "1"), [(2, "sat")]),  # an attack on all targets finds it before anything is proved
        (("--label", "1", "--no-attack"), [(0, "unsat"), (2, "sat")]),
        (("--label", "1", "--no-attack", "--targets", "2,0"), [(2, "sat")]),
        (("--label", "1", "--every-target", "--targets", "2,0"), [(2, "sat"), (0, "unsat")]),
    ],
)
def test_one_broken_target_is_the_answer(options: tuple[str, ...], answers: list[object], grey: Path) -> None:
    robust = ("robust", "m.onnx", "--image", "x.png", "--eps", "0.1", "--json", "j.json")
    done = run(*robust, *options, engine="target 2", cwd=grey)
    assert done.stdout.startswith("sat\n")
    found = json.loads((grey / "j.json").read_text())["robustness"]["targets"]
    assert [(row["target"], row["verdict"]) for row in found] == answers


@pytest.mark.parametrize("more", [(), ("--every-target",), ("--largest",)])
def test_the_value_found_is_that_of_the_target(more: tuple[str, ...], grey: Path) -> None:
    """The witness breaks 0 and 2, and is read as 2: each row has its own difference, a radius has the least."""
    weight = np.zeros((3, 4))
    weight[1], weight[0, 0], weight[2, 0] = 1.0, 8.0, 12.0
    classifier(grey / "m.onnx", (1, 1, 2, 2), weight)
    robust = ("robust", "m.onnx", "--image", "x.npy", "--label", "1", "--eps", "0.5", "--device", "cpu")
    done = run(*robust, *more, "--json", "j.json", "--witness", "w.npy", engine=REAL, cwd=grey)
    assert done.returncode == 0, done.stderr
    scores = weight @ np.load(grey / "w.npy").reshape(-1)
    found = json.loads((grey / "j.json").read_text())["robustness"]
    broken = {row["target"]: row["upper_bound"] for row in found["targets"] if row["verdict"] == "sat"}
    if "--largest" in more:
        probes = {Fraction(row["eps"]): row for row in found["probes"] if row["verdict"] == "sat"}
        broken = {2: probes[min(probes)]["upper_bound"]}
    assert list(broken) == ([0, 2] if "--every-target" in more else [2])
    first = min(broken)  # whose witness is kept
    assert broken[first] == pytest.approx(scores[1] - scores[first], abs=1e-5)


def test_all_targets_proved_is_a_proof(grey: Path) -> None:
    done = run("robust", "m.onnx", "--image", "x.png", "--label", "1", "--eps", "0.1", cwd=grey)
    assert (done.returncode, done.stdout) == (0, "unsat\n")


def test_a_wrong_label_is_said(grey: Path) -> None:
    done = run("robust", "m.onnx", "--image", "x.png", "--label", "0", "--eps", "0", engine="sat", cwd=grey)
    assert "reads x.png as 1, not 0" in done.stderr


@pytest.mark.parametrize("start", ["0.5", "0.01"])
def test_the_largest_radius_is_bracketed(grey: Path, start: str) -> None:
    robust = ("robust", "m.onnx", "--image", "x.npy", "--label", "1", "--eps", start, "--largest")
    done = run(*robust, engine="upto:0.07", cwd=grey)
    verdict, certified, broken = done.stdout.splitlines()
    assert verdict == "unsat"  # at the radius that is certified, wherever it began
    low, high = (float(line.split()[1]) for line in (certified, broken))
    assert certified.startswith("certified ")
    assert broken.startswith("broken ")
    assert low <= 0.07 < high <= low * 1.011


def test_the_largest_radius_may_stay_open_by_a_share(grey: Path) -> None:
    robust = ("robust", "m.onnx", "--image", "x.npy", "--label", "1", "--eps", "0.01", "--largest", "--within", "0.5")
    done = run(*robust, engine="upto:0.07", cwd=grey)
    low, high = (float(line.split()[1]) for line in done.stdout.splitlines()[1:])
    assert high / 2 <= low < 0.07 < high < 0.071
    assert low < 0.9 * high


def test_the_largest_radius_of_a_wrong_label_is_none(grey: Path) -> None:
    robust = ("robust", "m.onnx", "--image", "x.npy", "--label", "0", "--eps", "0.1", "--largest")
    done = run(*robust, engine="sat", cwd=grey)
    assert done.stdout == "sat\ncertified none\nbroken 0\n"
    assert "reads the image itself as 1" in done.stderr


def test_a_wrong_label_breaks_nothing_that_was_not_asked(grey: Path) -> None:
    """The network reads it as 1; whether 0 beats 2 is another question, and the engine answers it."""
    robust = ("robust", "m.onnx", "--image", "x.npy", "--label", "0", "--targets", "2", "--eps", "0.1", "--largest")
    done = run(*robust, engine="upto:0.07", cwd=grey)
    assert done.stdout.splitlines()[0] == "unsat"
    assert float(done.stdout.splitlines()[1].split()[1]) > 0.06
    assert float(done.stdout.splitlines()[2].split()[1]) > 0.07


@pytest.mark.parametrize("largest", [(), ("--largest",)])
def test_a_contradiction_of_one_target_is_that_of_all(grey: Path, largest: tuple[str, ...]) -> None:
    robust = ("robust", "m.onnx", "--image", "x.npy", "--label", "1", "--eps", "0.1", *largest)
    done = run(*robust, engine="contradiction", cwd=grey)
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "unknown")
    assert "CONTRADICTION: everything is proved" in done.stderr


def test_a_timeout_keeps_the_rows_that_are_there(grey: Path) -> None:
    robust = ("robust", "m.onnx", "--image", "x.npy", "--label", "1", "--eps", "0.1", "--json", "j.json")
    done = run(*robust, "--timeout", "2", engine="slow", cwd=grey)
    assert (done.returncode, done.stdout) == (0, "timeout\n")
    found = json.loads((grey / "j.json").read_text())
    assert found["verdict"] == "timeout"
    assert all(row["verdict"] == "timeout" for row in found["robustness"]["targets"])


BAD = {
    "label beyond the outputs": ((), {"--label": "3"}, "--label"),
    "target beyond the outputs": (("--targets", "7"), {}, "--targets"),
    "target is the label": (("--targets", "1"), {}, "--targets"),
    "too many means": (("--mean", "1,2,3"), {}, "--mean"),
    "not a picture": ((), {"--image": "bad.png"}, "bad.png: not a readable picture"),
    "of another kind": ((), {"--image": "deep.png"}, "deep.png: colour mode F is not supported"),
    "of another size": ((), {"--image": "big.png"}, "big.png: a grey image of 3x3"),
    "in colour and of another size": ((), {"--image": "rgb.png"}, "rgb.png: an RGB image"),
    "not an array": ((), {"--image": "bad.npy"}, "bad.npy: not a readable .npy"),
    "array of another shape": ((), {"--image": "big.npy"}, "big.npy: has shape [3, 3]"),
    "array with NaN": ((), {"--image": "nan.npy"}, "nan.npy: holds NaN"),
    "array of text": ((), {"--image": "text.npy"}, "text.npy"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_does_not_fit_the_network(kind: str, grey: Path) -> None:
    for name, mode in (("big", "L"), ("rgb", "RGB")):
        Image.new(mode, (3, 3)).save(grey / f"{name}.png")
    Image.new("F", (2, 2)).save(grey / "deep.png", format="TIFF")
    (grey / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (grey / "bad.npy").write_bytes(b"nonsense")
    np.save(grey / "big.npy", np.zeros((3, 3)))
    np.save(grey / "nan.npy", np.full((2, 2), np.nan))
    np.save(grey / "text.npy", np.array([["a", "b"], ["c", "d"]]))
    more, changed, named = BAD[kind]
    typed = {"--image": "x.png", "--label": "1", "--eps": "0.1", **changed}
    flat = [word for pair in typed.items() for word in pair]
    done = run("robust", "m.onnx", *flat, *more, cwd=grey)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("netproof: error: ")
    assert named in done.stderr


@pytest.mark.parametrize("norm", ["1", "2"])
def test_an_image_is_decided_in_each_norm(tmp_path: Path, norm: str) -> None:
    """The label's lead of 1 falls by √2·ε in ℓ2 and by ε in ℓ1, the clipping of pixels apart; so at 0.6 and at 2."""
    weight = np.zeros((2, 192))
    weight[0, 0], weight[1, 100] = 1.0, 1.0
    classifier(tmp_path / "m.onnx", (1, 3, 8, 8), weight)
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    pixels[0, 0, 0] = 255
    Image.fromarray(pixels).save(tmp_path / "x.png")
    robust = ("robust", "m.onnx", "--image", "x.png", "--label", "0", "--norm", norm, "--device", "cpu")
    for eps, verdict in (("0.6", "unsat"), ("2", "sat")):
        done = run(*robust, "--eps", eps, engine=REAL, cwd=tmp_path)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, verdict), done.stderr
    done = run(*robust, "--eps", "0.1", "--largest", "--json", "j.json", engine=REAL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    certified = json.loads((tmp_path / "j.json").read_text())["robustness"]["certified"]
    true = 2**-0.5 if norm == "2" else 1.0
    assert 0.97 * true <= certified < true


def test_a_ball_under_different_std_is_refused(tmp_path: Path) -> None:
    classifier(tmp_path / "m.onnx", (1, 3, 2, 2), np.eye(3, 12))
    Image.new("RGB", (2, 2)).save(tmp_path / "x.png")
    robust = ("robust", "m.onnx", "--image", "x.png", "--label", "1", "--eps", "0.1")
    done = run(*robust, "--norm", "2", "--std", "1,1,2", cwd=tmp_path)
    assert done.returncode == 2
    assert "different --std" in done.stderr


@pytest.mark.parametrize("more", [("--no-attack",), ("--largest",), ("--label", "0", "--every-target")])
def test_one_output_has_no_other_class(tmp_path: Path, more: tuple[str, ...]) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "x.npy", np.ones(1, dtype=np.float32))
    done = run("robust", "m.onnx", "--image", "x.npy", "--eps", "0.1", *more, engine=REAL, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "m.onnx: the network has one output, so no other class could be larger (ask `netproof verify`" in done.stderr


# --- the time is up before the engine has looked at the image ---


def save_unread(folder: Path) -> dict[str, str]:
    """Write images that are no input of the network `grey` by name, each beside what is to be said of it."""
    good = np.load(folder / "x.npy")
    np.save(folder / "nan.npy", np.full_like(good, np.nan))
    np.save(folder / "shape.npy", np.zeros((1, 3, 2), dtype=np.float32))
    np.save(folder / "wide.npy", good.astype(np.complex64))
    for name, size in (("cut.npy", -4), ("header.npy", 40)):
        (folder / name).write_bytes((folder / "x.npy").read_bytes()[:size])
    Image.fromarray(np.zeros((5, 4), dtype=np.uint8)).save(folder / "large.png")
    (folder / "cut.png").write_bytes((folder / "x.png").read_bytes()[:30])
    return {
        "nan.npy": "NaN",
        "shape.npy": "has shape [1, 3, 2]",
        "wide.npy": "real numbers",
        "cut.npy": "not a readable .npy",
        "header.npy": "not a readable .npy",
        "large.png": "does not fit",
        "cut.png": "not a readable picture",
    }


@pytest.mark.parametrize("command", ["robust", "bounds"])
def test_an_unread_image_is_refused_where_start_up_takes_all_of_the_time(
    grey: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    too_late = Outcome(Ending.TIMEOUT, reason="too late")
    monkeypatch.setattr("netproof.cli.robust.limit.supervise", lambda *args, **kwargs: too_late)
    monkeypatch.chdir(grey)
    for name, said in save_unread(grey).items():
        assert obey((command, "m.onnx", "--image", name, "--eps", "0.1", "--timeout", "1")) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"{name}: " in err
        assert said in err
        assert err.count("\n") == 1
    for name in ("x.npy", "x.png"):
        assert obey((command, "m.onnx", "--image", name, "--eps", "0.1", "--timeout", "1")) == 0
        assert capsys.readouterr().out == "timeout\n"
