"""`netproof certify`: data sets as files, answers that are kept as they come, and what a CI can rely on."""

from __future__ import annotations

import csv
import json
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from command import REAL, run, start
from PIL import Image

import netproof
from netproof.cli.certify.source import find_source
from netproof.dataset.result import ImageResult, ImageStatus
from netproof.dataset.store import Kept, Store, stands
from netproof.errors import UsageError
from support.api import module

FAILED = ("misread", "broken")
COUNT = 12


class Wide(torch.nn.Module):
    """The small network on images of 4x4."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.net = module(16, *widths, 3, seed=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x.flatten(1))


def export(net: torch.nn.Module, path: Path, shape: tuple[int, ...]) -> None:
    path.write_bytes(netproof.load_network(net, example_shape=shape).model)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A network, and twelve images of which the first has a wrong label; as arrays and as files."""
    net = Wide(24, 16)
    pixels = np.random.default_rng(0).integers(0, 256, (COUNT, 4, 4), dtype=np.uint8)
    X = (pixels / np.float32(255)).astype(np.float32).reshape(COUNT, 1, 4, 4)
    with torch.no_grad():
        y = net(torch.from_numpy(X)).argmax(1).numpy()
    y[0] = (y[0] + 1) % 3
    export(net, tmp_path / "m.onnx", (1, 1, 4, 4))
    np.savez(tmp_path / "d.npz", X=X, y=y)
    (tmp_path / "listed").mkdir()
    rows = []
    for i in range(COUNT):
        folder = tmp_path / "sorted" / str(y[i])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[i]).save(folder / f"{i:02}.png")
        Image.fromarray(pixels[i]).save(tmp_path / "listed" / f"{i:02}.png")
        rows.append((f"{i:02}.png", int(y[i])))
    text = "file,label\n" + "".join(f"{name},{label}\n" for name, label in rows)
    (tmp_path / "listed" / "labels.csv").write_text(text)
    return tmp_path


ASKED = ("certify", "m.onnx", "--eps", "0.05", "--clip", "0,1", "--device", "cpu", "--threads", "1")


def last(stdout: str) -> dict[str, float]:
    words = stdout.splitlines()[-1].split()
    return dict(zip(words[::2], map(float, words[1::2]), strict=True))


def test_the_last_line_has_the_accuracies(data: Path) -> None:
    done = run(*ASKED, "--data", "d.npz", engine=REAL, cwd=data)
    assert done.returncode == 0, done.stderr
    found = last(done.stdout)
    assert list(found) == ["clean", "attacked", "certified", "open", "images"]
    assert found["images"] == COUNT
    assert found["clean"] == pytest.approx(1 - 1 / COUNT, abs=1e-4)
    assert found["certified"] <= found["attacked"] <= found["clean"]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_folders_give_what_the_arrays_give(data: Path) -> None:
    """Pixels are k/255 exactly in a file, and their nearest float32 in the array: that moves no verdict here."""
    lines = {
        last(run(*ASKED, "--data", name, engine=REAL, cwd=data).stdout)["certified"]
        for name in ("d.npz", "listed", "sorted")
    }
    assert len(lines) == 1


def test_everything_is_kept_and_the_same_command_goes_on(data: Path) -> None:
    command = (*ASKED, "--data", "listed", "--out", "out")
    first = run(*command, "--first", "5", engine=REAL, cwd=data)
    assert first.returncode == 0, first.stderr
    with Store(data / "out" / "certify.sqlite") as store:
        before = store.answers()
    assert sorted(before) == list(range(5))
    done = run(*command, engine=REAL, cwd=data)
    assert "5 answers are kept in out and stand" in done.stderr
    with Store(data / "out" / "certify.sqlite") as store:
        after = store.answers()
    assert len(after) == COUNT
    assert all(after[i].result.seconds == before[i].result.seconds for i in range(5))
    rows = list(csv.DictReader((data / "out" / "results.csv").open()))
    assert [row["image"] for row in rows] == [str(i) for i in range(COUNT)]
    assert rows[0]["status"] == "misread"
    assert rows[0]["name"] == "00.png"
    page = (data / "out" / "index.html").read_text()
    assert page.count('"source":"data:image/svg+xml') == sum(row["status"] in FAILED for row in rows) > 0
    kept = {path.name for path in (data / "out" / "counterexamples").iterdir()}
    assert kept == {f"{int(row['image']):05d}.npy" for row in rows if row["status"] == "broken"}
    assert "<dt>Machine</dt>" in page
    assert (
        '"again":"netproof certify m.onnx --eps 0.05 --clip 0,1 --device cpu --threads 1 --data listed --only"' in page
    )
    again = run(*command, "--first", "5", "--only", "0,3", engine=REAL, cwd=data)
    assert last(again.stdout)["images"] == 2


@pytest.mark.parametrize(("only", "words"), [("4,x", "--only: '4,x' are not numbers"), ("0,12", "is no image 12")])
def test_numbers_that_no_image_has(data: Path, only: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_source(str(data / "d.npz"), None, only).check(COUNT)


def test_a_kill_loses_nothing(data: Path) -> None:
    """Killed once the first answers are there, it keeps them, and goes on with the others."""
    np.savez(data / "many.npz", **_hard(data, 40))
    command = ("certify", "hard.onnx", "--data", "many.npz", "--eps", "0.15", "--device", "cpu", "--threads", "1")
    with start(*command, "--timeout", "5", "--out", "out", engine=REAL, cwd=data) as process:
        store, kept = data / "out" / "certify.sqlite", 0
        end = time.monotonic() + 60
        while kept == 0 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
            if store.exists():
                try:
                    kept = sqlite3.connect(store).execute("SELECT count(*) FROM images").fetchone()[0]
                except sqlite3.OperationalError:
                    continue  # not made yet
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
    assert kept > 0
    with Store(store) as opened:
        before = opened.answers()
    assert 0 < len(before) < 40
    done = run(*command, "--timeout", "0.05", "--out", "out", engine=REAL, cwd=data)
    assert done.returncode == 0, done.stderr
    assert f"{len(before)} answers are kept" in done.stderr
    assert last(done.stdout)["images"] == 40


def _hard(data: Path, count: int) -> dict[str, np.ndarray]:
    net = Wide(64, 64, 64)
    export(net, data / "hard.onnx", (1, 1, 4, 4))
    X = np.random.default_rng(1).uniform(0, 1, (count, 1, 4, 4)).astype(np.float32)
    with torch.no_grad():
        return {"X": X, "y": net(torch.from_numpy(X)).argmax(1).numpy()}


def test_an_interrupt_says_how_to_go_on(data: Path) -> None:
    np.savez(data / "many.npz", **_hard(data, 200))
    command = ("certify", "hard.onnx", "--data", "many.npz", "--eps", "0.3", "--timeout", "5", "--out", "out")
    with start(*command, "--device", "cpu", "--threads", "1", engine=REAL, cwd=data) as process:
        end = time.monotonic() + 60
        while not (data / "out" / "certify.sqlite-wal").exists() and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command goes on" in err
    with Store(data / "out" / "certify.sqlite") as store:  # what was cut short is not kept as open
        assert all(kept.result.reason != "interrupted" for kept in store.answers().values())
    assert out.splitlines()[-1].startswith("clean ")


@pytest.mark.parametrize(("share", "code"), [("0", 0), ("0.999", 3), ("1/1000", 0)])
def test_a_ci_fails_below_a_share(share: str, code: int, data: Path) -> None:
    done = run(*ASKED, "--data", "d.npz", "--at-least", share, engine=REAL, cwd=data)
    assert done.returncode == code, done.stderr
    assert ("below the 99.9 % wanted" in done.stderr) == (code == 3)


def test_json_has_every_image(data: Path) -> None:
    done = run(*ASKED, "--data", "d.npz", "--json", "-", engine=REAL, cwd=data)
    found = json.loads(done.stdout)
    assert found["complete"]
    assert len(found["results"]) == found["images"] == COUNT
    assert found["results"][0]["status"] == "misread"


BAD = {
    "no data": (("--data", "gone.npz"), "gone.npz: no such file"),
    "not by its name": (("--data", "m.onnx"), "m.onnx: not a data set"),
    "no arrays": (("--data", "none.npz"), "none.npz: it has no array X and no array y"),
    "no labels": (("--data", "half.npz"), "half.npz: it has no array y"),
    "not an npz": (("--data", "bad.npz"), "bad.npz: not a readable .npz"),
    "of objects": (("--data", "object.npz"), "object.npz: not a readable .npz"),
    "another shape": (("--data", "shape.npz"), "an image has shape [5, 5]"),
    "labels beyond the outputs": (("--data", "labels.npz"), "image 1 has the label 9"),
    "an empty folder": (("--data", "empty"), "empty: no images with labels there"),
    "a bad line": (("--data", "line"), "line 2 is not FILE,LABEL"),
    "a file that is not there": (("--data", "missing"), "names gone.png, which is not there"),
    "means of arrays": (("--data", "d.npz", "--mean", "0.5"), "--std and --resize are for picture files only"),
    "no share": (("--data", "d.npz", "--at-least", "80"), "--at-least: 80 is not a share"),
    "no images": (("--data", "d.npz", "--first", "0"), "--first: 0"),
    "outside of the range": (("--data", "wide.npz"), "outside of clip"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_gets_one_line(kind: str, data: Path) -> None:
    X = np.zeros((2, 1, 4, 4), dtype=np.float32)
    np.savez(data / "none.npz")
    np.savez(data / "half.npz", X=X)
    (data / "bad.npz").write_bytes(b"nonsense")
    np.savez(data / "object.npz", X=np.array([{}, {}]), y=[0, 1])
    np.savez(data / "shape.npz", X=np.zeros((2, 5, 5)), y=[0, 1])
    np.savez(data / "labels.npz", X=X, y=[0, 9])
    np.savez(data / "wide.npz", X=X + 5, y=[0, 1])
    for name in ("empty", "line", "missing"):
        (data / name).mkdir()
    (data / "line" / "labels.csv").write_text("file,label\nx.png\n")
    (data / "missing" / "labels.csv").write_text("gone.png,1\n")
    more, words = BAD[kind]
    done = run(*ASKED, *more, engine=REAL, cwd=data)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("netproof: error: ")
    assert words in done.stderr


def test_a_folder_holds_one_question(data: Path) -> None:
    command = (*ASKED, "--data", "d.npz", "--out", "out")
    assert run(*command, engine=REAL, cwd=data).returncode == 0
    done = run("certify", "m.onnx", "--eps", "0.06", "--data", "d.npz", "--out", "out", engine=REAL, cwd=data)
    assert done.returncode == 2
    assert "another question: m.onnx on d.npz, eps 1/20, norm inf" in done.stderr


def test_other_files_are_not_taken_for_a_store(data: Path) -> None:
    (data / "out").mkdir()
    sqlite3.connect(data / "out" / "certify.sqlite").execute("CREATE TABLE other (x)").connection.close()
    done = run(*ASKED, "--data", "d.npz", "--out", "out", engine=REAL, cwd=data)
    assert done.returncode == 2
    assert "not results of this version" in done.stderr


@pytest.mark.parametrize(
    ("status", "given", "timeout", "expected"),
    [
        ("proved", 1.0, 9.0, True),
        ("broken", 1.0, None, True),
        ("open", 1.0, 1.0, True),
        ("open", 1.0, 9.0, False),
        ("open", 1.0, None, False),
        ("open", None, 9.0, True),
    ],
)
def test_what_is_open_is_asked_again_with_more_time(
    status: str, given: float | None, timeout: float | None, expected: bool
) -> None:
    assert stands(Kept(ImageResult(0, 1, 1, ImageStatus(status)), "0", given), timeout) == expected


def test_pictures_undo_the_preprocessing(data: Path) -> None:
    done = run(*ASKED, "--data", "listed", "--mean", "0.5", "--std", "0.5", "--out", "out", engine=REAL, cwd=data)
    assert done.returncode == 0, done.stderr
    assert '"source":"data:image/svg+xml' in (data / "out" / "index.html").read_text()


def test_pictures_outside_of_clip_are_refused(data: Path) -> None:
    for source in ("listed", "d.npz"):
        done = run("certify", "m.onnx", "--data", source, "--eps", "0.3", "--clip", "0,0.9", engine=REAL, cwd=data)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "outside of" in done.stderr


def test_arrays_beside_pictures_are_not_normalised_in_silence(data: Path) -> None:
    """An .npy is the network's own input, and a radius of pixels is none of such inputs."""
    np.save(data / "listed" / "own.npy", np.zeros((1, 1, 4, 4), dtype=np.float32))
    with (data / "listed" / "labels.csv").open("a") as file:
        file.write("own.npy,0\n")
    done = run("certify", "m.onnx", "--data", "listed", "--eps", "0.01", "--preprocess", "mnist", cwd=data)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "own.npy: --preprocess, --mean, --std and --resize are for picture files only" in line
