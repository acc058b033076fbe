"""Operations and waits of two versions (operations.py): what is counted, and what makes the versions differ."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


def test_a_search_asks_the_same_each_time(
    run: Run,
    script: Callable[[str], ModuleType],
    demo: dict[str, tuple[Path, Path, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In this process: the versions are one, and processes of their own are a test of versions.py."""
    model, spec, _ = next(iter(demo.values()))
    count = script("counted").count

    def measured(name: str, source: Path, question: dict[str, Any]) -> dict[str, Any]:
        return count({key: value for key, value in question.items() if key != "choices"})

    monkeypatch.setattr(script("operations"), "measured", measured)
    code, table, _, err = run("operations", str(model), str(spec), "--old", "src", "--certificate")
    assert code == 0
    assert ": equal" in err
    assert [row["version"] for row in table] == ["old", "new", "new, with a certificate"]
    assert table[0]["operations"] == table[1]["operations"]
    assert int(table[0]["operations"].replace(" ", "")) > int(table[0]["waits"].replace(" ", "")) > 0


def test_what_a_gpu_is_waited_for_is_counted(script: Callable[[str], ModuleType]) -> None:
    counts = script("counted").Counts()
    x = torch.arange(4.0)
    with pytest.MonkeyPatch.context() as patch, counts:
        patch.setattr(torch.Tensor, "tolist", counts.hearing("tolist"))
        x = x + x
        assert float(x.sum()) == 12.0
        assert x.tolist() == [0.0, 2.0, 4.0, 6.0]
        assert len(x[x > 2]) == 2
        assert bool((x > 2).any())
    waits = {"Tensor.tolist": 1, "aten._local_scalar_dense": 2, "aten.index": 1}
    assert {name: counts.waits[name] for name in waits} == waits
    assert counts.operations["aten.add"] == 1


def test_versions_differ_only_where_they_never_agree(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = script("operations")
    usual = {"verdict": "unsat", "domains": 3, "operations": {"aten.add": 5}, "waits": {"Tensor.cpu": 1}}
    slow, more = {**usual, "waits": {"Tensor.cpu": 2}}, {**usual, "operations": {"aten.add": 5, "aten.mul": 1}}
    said = {"old": [slow, usual], "new": [usual, slow]}
    monkeypatch.setattr(operations, "measured", lambda name, source, question: said[name].pop(0))
    given = argparse.Namespace(old=Path(), new=Path())
    assert operations.compared(given, {})[2] == []
    said = {"old": [usual] * operations.TRIES, "new": [more, slow] * operations.TRIES}
    monkeypatch.setattr(operations, "measured", lambda name, source, question: said[name].pop(0))
    assert operations.compared(given, {})[2] == ["aten.mul: 0 -> 1"]
    assert operations.differences(usual, {**usual, "domains": 4}) == ["domains: 3 -> 4"]
