"""A job's key: the same question asked in the same way, wherever its files lie."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from netproof.campaign import jobs
from netproof.campaign.instances import read_folder
from netproof.campaign.jobs import Job, model_hash
from netproof.campaign.worker import Loaded
from netproof.core.machine import versions
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
    assert job(folder).key == job(folder, options=(("steps", "20"),)).key


def test_another_version_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = job(make_set(tmp_path, "unsat"))
    before = one.key
    monkeypatch.setattr(jobs, "build", lambda: "99")
    assert dataclasses.replace(one).key != before


def test_other_sources_of_the_same_version_are_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pages look like is no part of an answer."""
    one = job(make_set(tmp_path / "set", "unsat"))
    for name in ("search/loop.py", "report/page.py"):
        file = tmp_path / "netproof" / name
        file.parent.mkdir(parents=True)
        file.write_text("a = 1\n")
    monkeypatch.setattr(versions, "PACKAGE", tmp_path / "netproof")
    keys = []
    for name in ("", "report/page.py", "search/loop.py"):
        versions.code.cache_clear()
        if name:
            (tmp_path / "netproof" / name).write_text("a = 2\n")
        keys.append(dataclasses.replace(one).key)
    monkeypatch.undo()
    versions.code.cache_clear()
    assert keys[0] == keys[1] != keys[2]


def test_packed_and_missing_files(tmp_path: Path) -> None:
    folder = make_set(tmp_path, "unsat")
    (folder / "a.onnx").rename(folder / "a.onnx.gz")
    assert job(folder).hashes[0]
    (folder / "a.onnx.gz").unlink()
    assert job(folder).hashes[0] == ""


def beside(folder: Path, weight: float) -> Path:
    """Make the set's model x + w, with w in a file beside it."""
    tensor = TensorProto(name="w", dims=[1], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "a.onnx").write_bytes(model.SerializeToString())
    (folder / "w.bin").write_bytes(np.float32(weight).tobytes())
    return folder


def test_external_weights_are_part_of_the_question(tmp_path: Path) -> None:
    sets = [beside(make_set(tmp_path / str(i), "unsat"), weight) for i, weight in enumerate((0.0, 1.0, 0.0))]
    first, second, third = (job(folder).key for folder in sets)
    assert first == third
    assert first != second
    beside(sets[0], 1.0)
    assert job(sets[0]).key == second
    (sets[0] / "w.bin").unlink()
    assert job(sets[0]).hashes[0], "the worker says what is missing"


def test_a_worker_keeps_a_network_only_while_all_its_files_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    loaded = Loaded()
    found = []
    for weight in (0.0, 0.0, 1.0):
        beside(tmp_path, weight)
        found.append(loaded.network(str(path), model_hash(path)))
    assert found[0] is found[1]
    assert [float(network.replay(np.zeros(1))[0]) for network in found] == [0.0, 0.0, 1.0]
    asked = model_hash(path)
    beside(tmp_path, 2.0)
    with pytest.raises(UsageError, match="changed while the campaign ran"):
        Loaded().network(str(path), asked)


@pytest.mark.parametrize(
    "wrong", [{"method": "magic"}, {"options": (("magic", "1"),)}, {"options": (("steps", "x"),)}, {"device": "auto"}]
)
def test_what_cannot_be_obeyed_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        job(make_set(tmp_path, "unsat"), **wrong)


def test_caps_on_memory_are_part_of_the_question(tmp_path: Path) -> None:
    instance = read_folder(make_set(tmp_path / "set", "unsat"))[0]
    free, capped = Job(instance, "auto"), Job(instance, "auto", memory="8G")
    assert free.key != capped.key
    assert "memory" not in free.asked  # keys of earlier results stay as they are
    assert capped.asked["memory"] == "8G"
    with pytest.raises(UsageError, match="not a size of memory"):
        Job(instance, "auto", memory="much")
