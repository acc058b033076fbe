"""What newcomers run into: names that are empty or too long, full disks, closed pipes, Ctrl-C at a bad moment."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import environment, run

from netproof.campaign.store import Store
from netproof.cli.commands.campaign_view import View
from netproof.core.files import is_of_path, is_special
from netproof.dataset.result import ImageResult, ImageStatus
from netproof.dataset.store import Kept
from netproof.dataset.store import Store as Answers
from netproof.demo import copy_data
from netproof.errors import UsageError
from support.campaign import a_result, make_set
from support.processes import HANG

LONG = "x" * 300
VERIFY = ("verify", "m.onnx", "p.vnnlib")
OUT = ("--out", "")


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Obey a line of the shell in which `netproof` is the program."""
    line = f'netproof() {{ "{sys.executable}" -m netproof "$@"; }}; set -o pipefail; {command}'
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=HANG, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*VERIFY, "--json", LONG), "--json cannot be written: File name too long"),
        ((*VERIFY, "--json", ""), "--json names a directory"),
        (("bench", LONG, "--out", "o"), "File name too long (check the path"),
        (("report", LONG), "File name too long (check the path"),
        (("certify", "m.onnx", "--data", f"{LONG}.npz", "--eps", "1"), "File name too long (check the path"),
        (("bench", "set", *OUT), "--out: the name is empty (give a folder; . is the present one)"),
        (("certify", "m.onnx", "--data", "x", "--eps", "1", *OUT), "--out: the name is empty"),
        (("demo", *OUT), "--out: the name is empty"),
        (("reproduce", "example", *OUT), "--out: the name is empty"),
        (("report", ""), "DIR: the name is empty"),
        (("bench", "", "--out", "o"), "no such folder"),
        (("bench", "set", "--out", "o", "--rival", "r=/dev/null"), "/dev/null: --rival: it has no results"),
    ],
    ids=lambda value: " ".join(value).replace(LONG, "LONG") if isinstance(value, tuple) else "",
)
def test_names_that_cannot_be(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    make_set(folder / "set", "unsat")
    before = sorted(folder.iterdir())
    done = run(*arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("netproof: error: ")
    assert said in line
    assert sorted(folder.iterdir()) == before


def test_help_on_a_full_disk_or_read_in_part(folder: Path) -> None:
    full = shell("netproof robust --help > /dev/full", folder)
    assert full.returncode == 2
    assert full.stderr.startswith("netproof: error: No space left on device (")
    part = shell("netproof --help | true", folder)
    assert (part.returncode, part.stderr) == (0, "")


def ended(body: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run netproof where obeying is what `body` says."""
    lines = [
        *("import os, signal", "signal.signal(signal.SIGINT, signal.default_int_handler)"),  # a job behind & has none
        *("from netproof.cli import app, main", "def obey(arguments):"),
        *(f"    {line}" for line in body.splitlines()),
        *("app.run = obey", "main.main([])"),
    ]
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )


def test_a_bug_is_one_line_whichever_process_has_it(tmp_path: Path) -> None:
    done = ended("raise ValueError('odd\\n thing')", tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("netproof: internal error: ValueError: odd thing (this is a bug in netproof")


def test_an_interrupt_that_a_library_swallows_is_one(tmp_path: Path) -> None:
    body = "try: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: pass\nraise AttributeError('half')"
    done = ended(body, tmp_path)
    assert (done.returncode, done.stderr) == (130, "netproof: interrupted\n")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EACCES, "denied", "a"), True),
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.ENOENT, "gone", "a"), False),  # it may be a file of netproof itself
        (OSError(errno.EACCES, "denied"), False),
        (ValueError("x"), False),
    ],
)
def test_what_a_user_can_mend(error: Exception, expected: bool) -> None:
    assert is_of_path(error) is expected


def test_a_name_that_is_too_long_is_no_device() -> None:
    assert not is_special(Path(LONG))
    assert is_special(Path(os.devnull))


def test_text_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Colons and brackets too, which rich takes for pictures and colours."""
    view = View(total=1, methods=["auto"], quiet=False)
    view.note("root:x:0 [bold] :smile:")
    assert "root:x:0 [bold] :smile:" in capsys.readouterr().err


def test_demo_replaces_no_file_of_another(tmp_path: Path) -> None:
    (tmp_path / "instances.csv").write_text("mine\n")
    with pytest.raises(UsageError, match=r"instances\.csv: another file is there \(give another folder"):
        copy_data(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["instances.csv"]
    (tmp_path / "instances.csv").unlink()
    assert copy_data(tmp_path) == copy_data(tmp_path), "what is there already is its own"


def test_a_damaged_row_is_one_line(tmp_path: Path) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        store.add(a_result())
        store._connection.execute("UPDATE runs SET options = '{bad'")
        with pytest.raises(UsageError, match="cannot be read or kept"):
            store.results()
    with Answers(tmp_path / "certify.sqlite") as answers:
        answers.add(Kept(ImageResult(0, 1, 1, ImageStatus.PROVED, 0.5), "a"))
        answers._connection.execute("UPDATE images SET status = 'odd'")
        with pytest.raises(UsageError, match="cannot be read or kept"):
            answers.answers()
