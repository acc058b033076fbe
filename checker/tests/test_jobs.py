"""Bounds computed by other processes: the same answer, the same first fault, and clean ends."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import npcheck.__main__ as command
from certificates import Case, chunk, chunks, dense, header, leaf, spec, split
from npcheck.bound import Ranges
from npcheck.errors import Invalid, Refused
from npcheck.jobs import AHEAD, Pool
from npcheck.network import Input, Network, Node
from npcheck.stream import Stream
from pieces import Bound, dies, fails, has_no_memory, late, long, which
from test_exact import LAYERS, SPEC, body

DATA = Path(__file__).parent / "data"
NETWORK = Network((Node(Input(), (), 1, "x"),))
WIDE = spec([0, 0], [1, 1], 1, "(<= Y_0 0.25)")
LINE = dense(([[1.0, 1.0]], [0.5]))


@pytest.mark.parametrize("name", ["neurons", "boxes"])
def test_the_same_answer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(DATA / f"{name}.{kind}") for kind in ("npcert", "onnx", "vnnlib")]
    said = []
    for jobs in ("1", "2"):
        assert command.main([*files, "--jobs", jobs]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_the_same_first_fault(tmp_path: Path) -> None:
    """Every byte that is read wrongly, or leaf that does not hold, is said as by one process."""
    case = Case(tmp_path, dense(*LAYERS), SPEC)
    whole = body()
    rng = np.random.default_rng(4)
    places = sorted(rng.choice(len(whole), 3, replace=False).tolist())
    for place in places:
        changed = whole[:place] + bytes((whole[place] ^ 0x41,)) + whole[place + 1 :]
        said = []
        for jobs in (1, 2):
            try:
                said.append(str(case.check(changed, jobs=jobs).leaves))
            except Invalid as fault:
                said.append(str(fault))
        assert said[0] == said[1]


def test_a_leaf_that_fails_comes_before_a_later_byte_that_is_wrong(tmp_path: Path) -> None:
    """A batch that fails was dealt to another process when the wrong byte behind it is read."""
    parts = "(or " + " ".join(f"(<= Y_0 {limit})" for limit in (0.25, 0.25, 0.75, 0.25, 0.75)) + ")"
    case = Case(tmp_path, LINE, spec([0, 0], [1, 1], 1, parts))
    with pytest.raises(Invalid, match="disjunct 2: leaf 0 is not shown"):
        case.check(leaf() * 3 + bytes((2,)), jobs=2)
    with pytest.raises(Invalid, match="tree code 2 is not known"):
        case.check(leaf() * 2 + bytes((2,)), jobs=2)


def test_bounds_come_back_in_order_and_rest_on_what_was_known() -> None:
    heard: list[list[float]] = []
    with Pool(NETWORK, lambda what, leaves: None, 2) as pool:
        for round_ in (5.0, 7.0):
            pool.know(Ranges([np.array([round_])], [np.array([round_])]))
            for number in range(4 * AHEAD):
                pool.do(Bound(which, number), lambda bounds: heard.append(bounds.tolist()))
            assert len(heard) >= (round_ == 7.0) * 4 * AHEAD + 2 * AHEAD  # no more than these wait
            pool.wait()
        for number in range(4 * AHEAD):
            pool.do(Bound(late, number), lambda bounds: heard.append(bounds.tolist()))
        pool.wait()
    assert heard[: 8 * AHEAD] == [[number, round_] for round_ in (5.0, 7.0) for number in range(4 * AHEAD)]
    assert heard[8 * AHEAD :] == [[number] for number in range(4 * AHEAD)]
    assert not multiprocessing.active_children()


def test_neither_side_waits_for_the_other() -> None:
    """Pieces and answers are far longer than what a pipe holds."""
    heard: list[float] = []
    with Pool(NETWORK, lambda what, leaves: None, 2) as pool:
        pool.know(Ranges([np.zeros((1, 10**6))], [np.zeros((1, 10**6))]))
        for number in range(20):
            pool.do(partial(long, np.full(10**6, float(number))), lambda bounds: heard.append(bounds[-1]))
        pool.wait()
    assert heard == list(range(20))


def test_what_goes_wrong_in_a_worker_is_told() -> None:
    with Pool(NETWORK, lambda what, leaves: None, 2) as pool:
        pool.know(Ranges([], []))
        for piece, error, said in (
            (fails, RuntimeError, "a strange fault"),
            (has_no_memory, MemoryError, ""),
            (dies, Refused, "a worker ended before its work was done"),
        ):
            pool.do(piece, lambda bounds: None)
            with pytest.raises(error) as raised:
                pool.wait()
            assert said in str(raised.value)
            pool.wait()  # nothing is left to be told
    assert not multiprocessing.active_children()


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def runs(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    try:
        return state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    """The certificate is a pipe that does not end: the check waits for more of it."""
    case = Case(tmp_path, LINE, WIDE)
    os.mkfifo(case.certificate)
    arguments = [sys.executable, "-m", "npcheck", "--jobs", "2", case.certificate, case.model, case.spec]
    environment = {**os.environ, "PYTHONPATH": str(Path(command.__file__).parents[1])}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell has run aside would ignore it
    npcheck = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    signal.signal(signal.SIGINT, before)
    with open(os.open(case.certificate, os.O_RDWR), "wb") as pipe:  # which waits for no reader
        pipe.write(header(LINE, WIDE.encode()) + chunk((split(0, 0.5) + leaf()) * 50))
        pipe.flush()
        while len(children(npcheck.pid)) < 2:
            assert npcheck.poll() is None, npcheck.communicate()
            time.sleep(0.01)
        workers = children(npcheck.pid)
        os.killpg(npcheck.pid, signal.SIGINT)
        out, err = npcheck.communicate(timeout=60)
    assert (npcheck.returncode, out) == (130, "")
    assert err == "npcheck: interrupted: nothing was decided\n"
    deadline = time.monotonic() + 60
    while any(runs(worker) for worker in workers):  # they see that their pipes have ended
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_exact_arithmetic_needs_the_process_that_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path, LINE, WIDE)
    with pytest.raises(Refused, match="leave out the number of jobs"):
        case.check(leaf(), jobs=2, exact=1)
    for wrong in (["--jobs", "2", "--exact", "1"], ["--jobs", "0"], ["--jobs", "x"]):
        with pytest.raises(SystemExit) as stopped:
            command.main([str(case.certificate), str(case.model), str(case.spec), *wrong])
        assert stopped.value.code == 2


def test_progress_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shares of the file grow, within a chunk too, and a line is printed at most every two seconds."""
    case = Case(tmp_path, LINE, WIDE)
    tree = b"".join(split(0, 1.0 - 0.5**k) + leaf() for k in range(1, 40)) + leaf()
    case.certificate.write_bytes(header(LINE, WIDE.encode()) + chunks(tree))
    shares: list[float] = []
    walked = command.check(case.certificate, case.model, case.spec, lambda at: shares.append(at.share))
    assert walked.leaves == 40
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    now = [0.0]
    told = command.Progress(quiet=False, clock=lambda: now[0])
    for step in range(100):
        now[0] = 0.5 * step
        told(command.At("disjunct 3", 10, step / 100))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 24
    assert lines[4] == "npcheck: 20% of the certificate, disjunct 3, 210 leaves, 10 s, about 40 s left"
    command.Progress(quiet=True, clock=lambda: 100.0)(command.At("x", 1, 0.5))
    assert not capsys.readouterr().err


def test_the_share_is_that_of_the_file() -> None:
    data = chunks(bytes(range(200)) * 10, 500)
    stream = Stream(io.BytesIO(data))
    seen = []
    for _ in range(20):
        stream.take(100)
        seen.append(stream.read_of_file)
    assert seen == sorted(seen)
    assert seen[-1] == len(data)
    assert abs(seen[9] - len(data) / 2) < len(data) / 20
