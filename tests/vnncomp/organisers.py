"""What the organisers of VNN-COMP do with a tool: prepare, run, kill, read the result, replay the witness.

Written from their rules: prepare_instance.sh may refuse an instance by its exit code. run_instance.sh gets the timeout
as an argument and is killed, with all that it started, some time after it; its wall time counts from its first
instruction and an answer that took longer than the timeout is none. The first line of the results file is the result,
what follows `sat` the witness. Its outputs are computed again by onnxruntime on the CPU; its inputs may lie 1e-4
outside.
"""

from __future__ import annotations

import ast
import gzip
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

SCRIPTS = Path(__file__).resolve().parents[2] / "vnncomp"
TOLERANCE = 1e-4  # on inputs
GRACE = 5.0  # seconds beyond the timeout before a run is ended, and again before it is killed
RESULTS = ("unsat", "sat", "timeout", "timed-out", "unknown", "error")


@dataclass(frozen=True)
class Outcome:
    """What is entered for an instance, and how long the run took."""

    result: str
    seconds: float
    witness: str = ""
    messages: str = ""


def organise(
    network: str, spec: str, timeout: float | str, folder: Path, env: Mapping[str, str], grace: float = GRACE
) -> Outcome:
    """Prepare and run one instance as the organisers do."""
    prepared = subprocess.run(
        [SCRIPTS / "prepare_instance.sh", "v1", "test", network, spec],
        env=env, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if prepared.returncode:
        return Outcome(f"prepare_instance_error_{prepared.returncode}", 0.0, messages=prepared.stderr)
    return run(network, spec, timeout, folder, env, grace)


def run(network: str, spec: str, timeout: float | str, folder: Path, env: Mapping[str, str], grace: float) -> Outcome:
    """Run one instance and end it when it is late."""
    results = folder / "results.txt"
    results.write_text("left over from the last instance\n")
    command = [SCRIPTS / "run_instance.sh", "v1", "test", network, spec, str(results), str(timeout)]
    started = time.monotonic()
    with open(folder / "messages.txt", "w") as heard:
        process = subprocess.Popen(
            command, env=env, cwd=folder, stdout=heard, stderr=subprocess.STDOUT, start_new_session=True
        )
    killed = False
    for ending in (signal.SIGTERM, signal.SIGKILL):
        try:
            process.wait(float(timeout) + grace if ending == signal.SIGTERM else grace)
            break
        except subprocess.TimeoutExpired:
            killed = True
            os.killpg(process.pid, ending)
    process.wait()
    seconds, messages = time.monotonic() - started, (folder / "messages.txt").read_text()
    if killed:
        return Outcome("run_instance_timeout", seconds, messages=messages)
    if process.returncode:
        return Outcome(f"error_exit_code_{process.returncode}", seconds, messages=messages)
    return read_result(results, seconds, float(timeout), messages)


def read_result(results: Path, seconds: float, timeout: float, messages: str) -> Outcome:
    """Take the first line; an answer that came too late is a timeout."""
    lines = results.read_text().splitlines() if results.exists() else []
    if not lines or lines[0] not in RESULTS:
        return Outcome("no_result_in_file", seconds, messages=messages)
    if seconds > timeout:
        return Outcome("timeout", seconds, messages=messages)
    return Outcome(lines[0], seconds, "\n".join(lines[1:]), messages)


# --- the witness --------------------------------------------------------------------------------------------


def read_witness(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Read ((X_0 v) … (Y_0 v) …), every variable once and in order: the inputs and the outputs."""
    content = text.replace("\n", " ").strip()
    assert content.startswith("(")
    assert content.endswith(")")
    pairs = re.findall(r"\(\s*([XY])_(\d+)\s+([^\s()]+)\s*\)", content[1:-1])
    assert not re.sub(r"\(\s*[XY]_\d+\s+[^\s()]+\s*\)", "", content[1:-1]).strip(), "something else is in it"
    sides = {side: [(int(i), float(v)) for s, i, v in pairs if s == side] for side in "XY"}
    for entries in sides.values():
        assert [i for i, _ in entries] == list(range(len(entries)))
    x, y = (np.asarray([v for _, v in sides[side]]) for side in "XY")
    return x, y


def read_tensors(text: str, *names: str) -> list[np.ndarray]:
    """Read the witness of a VNN-LIB 2.0 query: of each tensor a head, NAME TYPE SHAPE, and its entries, one a line."""
    lines, found = iter(text.split("\n")), []
    for name in names:
        head = re.fullmatch(r"(\w+) (\w+) \[([\d,]*)\]", next(lines))
        assert head is not None
        assert head[1] == name
        sizes = [int(size) for size in head[3].split(",") if size]
        found.append(np.asarray([float(next(lines)) for _ in range(int(np.prod(sizes)))]))
    assert list(lines) == []
    return found


def opened(path: str | Path) -> bytes:
    """Read a file, or the one with .gz behind its name."""
    found = Path(path)
    return found.read_bytes() if found.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())


def replayed(network: str | Path, x: np.ndarray) -> np.ndarray:
    """Run the network at x by onnxruntime on the CPU: the flat output."""
    session = onnxruntime.InferenceSession(opened(network), providers=["CPUExecutionProvider"])
    (wanted,) = session.get_inputs()
    shape = [size if isinstance(size, int) else 1 for size in wanted.shape]
    answer = session.run(None, {wanted.name: x.astype(np.float32).reshape(shape)})[0]
    return np.asarray(answer, dtype=np.float64).reshape(-1)


def violates(spec: str | Path, x: np.ndarray, y: np.ndarray, tolerance: float = 0.0) -> bool:
    """Say whether inputs and outputs satisfy every assertion; bounds of one input up to a tolerance."""
    text = re.sub(r";.*", "", opened(spec).decode())
    values = {f"X_{i}": float(v) for i, v in enumerate(x)} | {f"Y_{i}": float(v) for i, v in enumerate(y)}
    tokens = re.findall(r"[()]|[^\s()]+", text)
    forms = ast.literal_eval("[" + "".join(t if t in "()" else repr(t) + "," for t in tokens).replace(")", "),") + "]")
    return all(_holds(form[1], values, tolerance) for form in forms if form[0] == "assert")


def _holds(form: tuple, values: Mapping[str, float], tolerance: float) -> bool:  # type: ignore[type-arg]
    head, *rest = form
    if head == "and":
        return all(_holds(part, values, tolerance) for part in rest)
    if head == "or":
        return any(_holds(part, values, tolerance) for part in rest)
    left, right = (_number(part, values) for part in rest)
    room = tolerance if any(str(part).startswith("X_") for part in rest) else 0.0
    return left <= right + room if head == "<=" else left >= right - room


def _number(form: str | tuple, values: Mapping[str, float]) -> float:  # type: ignore[type-arg]
    if isinstance(form, str):
        return values[form] if form in values else float(form)
    head, *rest = form
    numbers = [_number(part, values) for part in rest]
    if head == "+":
        return sum(numbers)
    if head == "*":
        return float(np.prod(numbers))
    assert head == "-"
    return -numbers[0] if len(numbers) == 1 else numbers[0] - sum(numbers[1:])
