"""Files that were made to do harm: one line, little memory, and nothing for a terminal to obey."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import npcheck.__main__ as command
from certificates import Case, chunks, dense, header, leaf, onnx_model, spec

MODEL = dense(([[1.0, 1.0]], [0.5]))
SPEC = spec([0, 0], [1, 1], 1, "(<= Y_0 0.25)")
MEGABYTES = 300
RUN = Path(__file__).with_name("hostile.py")


def asked(*texts: str) -> str:
    return spec([0, 0], [1, 1], 1) + "".join(texts)


def large(*shape: int) -> bytes:
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])]
    return onnx_model(nodes, 2, {"s": np.array(shape, dtype=np.int64)})


def padded() -> bytes:
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["i"]),
        helper.make_node("Conv", ["i", "w"], ["y"], pads=[1 << 30] * 4, strides=[1 << 30, 1 << 30]),
    ]
    weight, shape = np.ones((1, 1, 1, 1), dtype=np.float32), np.array([1, 1, 1, 2], dtype=np.int64)
    return onnx_model(nodes, 2, {"w": weight, "s": shape})


Files = tuple[bytes, str | bytes, bytes]  # the model, the specification, and the certificate behind its header

HOSTILE: dict[str, tuple[Callable[[], Files], str]] = {
    "parentheses": (lambda: (MODEL, asked("(assert " + "(and " * (1 << 18)), leaf()), "more than 131072 in each other"),
    "digits": (lambda: (MODEL, asked("(assert (<= Y_0 " + "9" * 10**6 + "))"), leaf()), "is a number out of range"),
    "exponents": (lambda: (MODEL, asked("(assert (<= Y_0 1e" + "9" * 900 + "))"), leaf()), "is a number out of range"),
    "products": (
        lambda: (MODEL, asked("(assert (and " + "(or (<= Y_0 1) (<= Y_0 2))" * 60 + "))"), leaf()),
        "alternat",
    ),
    "constants": (lambda: (large(1 << 31, 1 << 31), SPEC, leaf()), "more than 16777216 entries"),
    "pads": (lambda: (padded(), SPEC, leaf()), "more than 16777216 entries"),
    "splits": (lambda: (MODEL, SPEC, b"\x03" * (1 << 22)), "deeper than 65536"),
    "varint": (lambda: (MODEL, SPEC, b"\xff" * 100), "more than 5 bytes"),
}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("what", HOSTILE)
def test_it_ends_in_one_line_with_little_memory(what: str, tmp_path: Path) -> None:
    made, said = HOSTILE[what]
    model, text, body = made()
    text = text.encode() if isinstance(text, str) else text
    case = Case(tmp_path, model, text)
    case.certificate.write_bytes(header(model, text) + chunks(body))
    done = limited(case.certificate, case.model, case.spec)
    assert done.returncode in (1, 2)
    assert said in done.stdout + done.stderr
    assert (done.stdout + done.stderr).replace("invalid\n", "").count("\n") == 1


def limited(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(command.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    command_line = [sys.executable, str(RUN), str(MEGABYTES), *map(str, arguments)]
    return subprocess.run(command_line, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_what_unpacks_to_much_or_never_ends(tmp_path: Path) -> None:
    """No more is read than a specification may have."""
    case = Case(tmp_path, MODEL, SPEC)
    case.certificate.write_bytes(header(MODEL, SPEC.encode()) + chunks(leaf()))
    bomb = Path(f"{case.spec}.gz")
    bomb.write_bytes(gzip.compress(bytes(130 << 20), 1))
    for endless in (bomb, Path("/dev/zero")):
        done = limited(case.certificate, case.model, endless)
        assert (done.returncode, done.stdout) == (2, "")
        assert "more than 128 MiB" in done.stderr


def test_names_are_not_obeyed_by_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters and new lines of a file's names are spelled out, and long lines are cut."""
    wild = "\x1b[2J\nvalid\r\u202e" + "x" * 5000
    node = helper.make_node("Relu", ["x"], ["y"], name=wild)
    model = onnx_model([node], 2)
    text = spec([-1, -1], [1, 1], 2, "(<= Y_0 -1)")
    case = Case(tmp_path, model, text)
    case.certificate.write_bytes(header(model, text.encode()) + chunks(b""))
    files = [str(case.certificate), str(case.model), str(case.spec)]
    assert command.main(files) == 1
    unknown = onnx_model([helper.make_node("\x1b[2J\nvalid", ["x"], ["y"], name=wild)], 2)
    case.model.write_bytes(unknown)
    assert command.main(files) == 2
    streams = capsys.readouterr()
    for stream, lines in ((streams.out, 2), (streams.err, 1)):
        assert stream.count("\n") == lines
        assert stream.replace("\n", "").isprintable()
        assert len(stream) < 1200
    assert "\\x1b[2J\\nvalid" in streams.err


def test_progress_and_faults_are_one_clean_line(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 5.0])
    command.Progress(quiet=False, clock=lambda: next(now))(command.At("\x1b[2J\nvalid", 1, 0.5))
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line[:-1].isprintable()
    assert command.clean("a\tb\u2028c − ü") == "a\\tb\\u2028c − ü"
