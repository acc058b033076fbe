"""A job's key: the same question asked in the same way, wherever its files lie."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from netproof.campaign import jobs
from netproof.campaign.instances import read_folder
from netproof.campaign.jobs import Job
from netproof.errors import UsageError
from support.campaign import make_set


def job(folder: Path, **more: Any) -> Job:
    return Job(read_folder(folder)[0], **{"method": "lirpa", "timeout": 20.0, **more})


def test_key_is_of_contents(tmp_path: Path) -> None:
    here = make_set(tmp_path / "here", "unsat")
    shutil.copytree(here, tmp_path / "elsewhere")
    assert job(here).key == job(tmp_path / "elsewhere").key
    (tmp_path / "elsewhere" / "0-unsat.vnnlib").write_text("; another property\n")
    assert job(here).key != job(tmp_path / "elsewhere").key


@pytest.mark.parametrize(
    "other",
    [
        {"method": "lirpa-fixed"},
        {"options": (("steps", "11"),)},
        {"timeout": 21.0},
        {"timeout": None},
        {"device": "cuda"},
        {"threads": 3},
        {"seed": 1},
        {"attack": False},
    ],
)
def test_key_is_of_how_it_is_asked(tmp_path: Path, other: dict[str, Any]) -> None:
    folder = make_set(tmp_path, "unsat")
    assert job(folder).key != job(folder, **other).key


def test_a_default_that_is_given_is_the_default(tmp_path: Path) -> None:
    folder = make_set(tmp_path, "unsat")
    assert job(folder).key == job(folder, options=(("steps", "10"),)).key


def test_another_version_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = job(make_set(tmp_path, "unsat"))
    before = one.key
    monkeypatch.setattr(jobs, "__version__", "99")
    assert dataclasses.replace(one).key != before


def test_packed_and_missing_files(tmp_path: Path) -> None:
    folder = make_set(tmp_path, "unsat")
    (folder / "a.onnx").rename(folder / "a.onnx.gz")
    assert job(folder).hashes[0]
    (folder / "a.onnx.gz").unlink()
    assert job(folder).hashes[0] == ""


@pytest.mark.parametrize(
    "wrong", [{"method": "magic"}, {"options": (("magic", "1"),)}, {"options": (("steps", "x"),)}, {"device": "auto"}]
)
def test_what_cannot_be_obeyed_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        job(make_set(tmp_path, "unsat"), **wrong)
