"""The way of one question, as the page on how it works tells it, against the functions that a run enters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "netproof"
DATA = PACKAGE / "demo" / "data"
HEADING = "## The way of one question\n"

# Writes every function of the package as it is first entered: by this process and, where it forks, by its children.
TRACED = """
import os, sys
import netproof.api, netproof.cli.app
from netproof.cli.main import main

package, log = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
seen = set()

def enter(frame, event, argument):
    code = frame.f_code
    if event == "call" and code not in seen:
        seen.add(code)
        if code.co_filename.startswith(package):
            os.write(log, f"{code.co_filename[len(package) + 1:]}:{code.co_qualname}\\n".encode())

sys.setprofile(enter)
main(sys.argv[3:])
"""


def told() -> list[str]:
    """The functions that the page names, `file.py:function`, in its order."""
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    return re.findall(r"`([\w/]+\.py:[\w.]+)`", section)


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The functions that one `verify` enters, in the order of their first time."""
    log = tmp_path_factory.mktemp("way") / "entered.txt"
    files = DATA / "onnx" / "digits-fc.onnx", DATA / "vnnlib" / "fc-4-needs-splits.vnnlib"
    command = [sys.executable, "-c", TRACED, str(PACKAGE), str(log), "verify", *map(str, files)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    options = ["--device", "cpu", "--threads", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stdout) == (0, "unsat\n"), done.stderr
    return list(dict.fromkeys(log.read_text(encoding="utf-8").splitlines()))


def out_of_order(named: list[str], entered: list[str]) -> list[str]:
    """What is named and not entered, or entered before what is named ahead of it."""
    place = {name: at for at, name in enumerate(entered)}
    wrong, last = [], -1
    for name in named:
        if place.get(name, -1) <= last:
            wrong.append(name)
        last = max(last, place.get(name, -1))
    return wrong


def test_the_page_names_functions_of_the_package() -> None:
    names = told()
    assert len(names) == len(set(names)) >= 30
    assert [name for name in names if not (PACKAGE / name.partition(":")[0]).is_file()] == []


def test_a_question_goes_the_way_that_the_page_tells(entered: list[str]) -> None:
    assert out_of_order(told(), entered) == []


def test_a_wrong_way_is_noticed(entered: list[str]) -> None:
    names = told()
    for at in range(len(names) - 1):
        swapped = [*names[:at], names[at + 1], names[at], *names[at + 2 :]]
        assert out_of_order(swapped, entered) == [names[at]]
    assert out_of_order([*names, "search/loop.py:Search.gone"], entered) == ["search/loop.py:Search.gone"]
