"""Paths whose bytes are no UTF-8, and streams that cannot take every character: an answer as for any other."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from command import run_cold

from netproof.campaign.store import Store
from netproof.cli.main import _take_all_characters
from netproof.core.files import well_formed
from netproof.dataset.store import Store as Answers
from support.campaign import a_result, environment, make_set

ODD = os.fsdecode(b"o\xff")


def test_a_campaign_and_its_report(tmp_path: Path) -> None:
    make_set(tmp_path / ODD, "unsat", "sat")
    command = ("bench", ODD, "--out", f"{ODD}/done", "--device", "cpu", "--threads", "1", "--workers", "1")
    done = run_cold(*command, cwd=tmp_path, **environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "o\\udcff" in done.stdout
    with Store(tmp_path / ODD / "done" / "results.sqlite") as store:
        assert {result.benchmark for result in store.results()} == {"o\\udcff"}
    assert "o\\udcff" in (tmp_path / ODD / "done" / "report" / "index.html").read_text(encoding="utf-8")
    again = run_cold(*command, cwd=tmp_path, **environment(tmp_path))
    assert "2 of 2 were there already" in again.stderr


def test_stores_hold_such_text(tmp_path: Path) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        store.add(a_result(benchmark=ODD))
        assert [result.benchmark for result in store.results()] == [well_formed(ODD)]
    with Answers(tmp_path / "certify.sqlite") as answers:
        answers.belong_to("key", f"m.onnx on {ODD}")


@pytest.mark.parametrize(("encoding", "written"), [("ascii", rb"o\udcff\u2026"), ("utf-8", b"o\xff\xe2\x80\xa6")])
def test_streams_of_any_encoding(encoding: str, written: bytes) -> None:
    """A path goes to stdout as it is where that can be; help has characters that few encodings have."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    _take_all_characters(stream)
    stream.write(f"{ODD}…")
    stream.flush()
    assert stream.buffer.getvalue() == written  # type: ignore[attr-defined]


def test_help_in_ascii(tmp_path: Path) -> None:
    done = run_cold("robust", "--help", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
