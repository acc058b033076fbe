"""What docs/certify.md shows works as shown."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from netproof.cli.app import app
from netproof.demo import copy_data
from support.pages import typed
from test_docs import ROOT, blocks


def options_of_certify() -> set[str]:
    """Every option of the command, as it is typed."""
    import typer

    command = typer.main.get_command(app).commands["certify"]  # type: ignore[attr-defined]
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")}


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy_data(tmp_path / "digits")  # as the demo does, which has its own tests
    first, *others = blocks("certify.md", "python")
    (tmp_path / "data.py").write_text(first, encoding="utf-8")
    runpy.run_path("data.py")
    (command,) = (words for block in blocks("certify.md", "sh") for words in typed(block))
    words = [sys.executable, "-m", *command, "--device", "cpu", "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (shown,) = blocks("certify.md", "text")
    assert done.stdout == shown
    assert (tmp_path / "certified" / "index.html").exists()
    (tmp_path / "page.py").write_text("\n".join([first, *others]), encoding="utf-8")
    names = runpy.run_path("page.py")
    (said,) = (line.partition("#")[2].strip() for line in "\n".join(others).splitlines() if "print(found)" in line)
    assert repr(names["found"]) == said


def test_the_table_has_options_that_exist() -> None:
    text = (ROOT / "docs" / "certify.md").read_text(encoding="utf-8")
    named = {word.strip("`,").split()[0] for word in text.split() if word.startswith("`--") and word != "`--largest`"}
    assert named <= options_of_certify()
