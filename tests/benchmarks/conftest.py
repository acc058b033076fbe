"""What the tests of the measuring scripts share: a script as a module, a run of it, and a set of two instances."""

from __future__ import annotations

import gzip
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from netproof.demo import Instance

ROOT = Path(__file__).resolve().parents[2]
Demo = dict[str, tuple[Path, Path, Instance]]
Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A script or what it shares with others, as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def run(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a script here, where torch is loaded already: exit code, the table's rows by column, stdout, stderr."""

    def call(name: str, *arguments: str) -> tuple[int, list[dict[str, str]], str, str]:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        threads = torch.get_num_threads()
        with pytest.raises(SystemExit) as left:
            script("options").run(script(name).main)
        torch.set_num_threads(threads)
        out, err = capsys.readouterr()
        code = left.value.code
        assert isinstance(code, int)
        return code, rows(out), out, err

    return call


def rows(out: str) -> list[dict[str, str]]:
    """Of the one table in `out`; columns with the same name keep the last."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line[:1] == "|"]
    if not lines:
        return []
    header, rule, *rest = lines
    assert all(set(cell) == {"-"} for cell in rule)
    assert [line for line in rest if set(line[0]) == {"-"}] == [], "more than one table"
    return [dict(zip(header, line, strict=True)) for line in rest]


@pytest.fixture
def instances(demo: Demo, tmp_path: Path) -> Path:
    """A set of two bundled instances, one that holds and one that breaks, the first property packed."""
    folder = tmp_path / "digits"
    folder.mkdir()
    lines = []
    for name in ("fc-4-needs-splits", "fc-5-breaks"):
        onnx, vnnlib, _ = demo[name]
        (folder / onnx.name).write_bytes(onnx.read_bytes())
        (folder / vnnlib.name).write_bytes(vnnlib.read_bytes())
        lines.append(f"{onnx.name},{vnnlib.name},20")
    packed = folder / "fc-4-needs-splits.vnnlib"
    packed.with_name(f"{packed.name}.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    (folder / "instances.csv").write_text("\n".join(lines) + "\n")
    return folder
