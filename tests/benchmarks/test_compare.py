"""The comparison with another tool: its command, its verdicts, and verdicts that contradict ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("unsat\n", "unsat"),
        ("sat\n((X_0 0.5)\n (Y_0 1.0))\n", "sat"),
        ("reading unsat_v5.vnnlib\nResult: timeout in 20 s\n", "timeout"),
        ("timeout is 20\nHOLDS\n", "unsat"),
        ("saturated, unsatisfied\n", ""),
    ],
)
def test_verdicts_are_read(script: Callable[[str], ModuleType], said: str, verdict: str) -> None:
    assert script("compare").verdict_in(said) == verdict


def rival(script: Callable[[str], ModuleType], code: str, result: str = "") -> object:
    values = {"onnx": "a b.onnx", "vnnlib": "p.vnnlib", "timeout": "20"}
    _, verdict = script("compare").Command("rival", f'{sys.executable} -c "{code}" {{onnx}}', result).run(values, 20.0)
    return verdict


def test_rival_commands(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    """A name with a blank is one argument; a verdict may be in a file; a failure is no verdict."""
    assert rival(script, "import sys; print('sat' if sys.argv[1:] == ['a b.onnx'] else {})") == "sat"
    file = tmp_path / "result-20.txt"
    code = f"open('{file}', 'w').write('violated'); print('unsat')"
    assert rival(script, code, str(tmp_path / "result-{timeout}.txt")) == "sat"
    assert rival(script, "pass", str(file)) == "", "an old file is no verdict"
    assert rival(script, "raise SystemExit(3)") == "exit code 3"


def test_contradicting_verdicts_are_seen(
    run: Run, script: Callable[[str], ModuleType], instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script("compare"), "netproof_command", lambda given: "echo unsat")
    code, table, _, _ = run("compare", str(instances), "--rival", "echo sat", "--repeats", "2")
    assert code == 1
    assert [row["verdicts"] for row in table] == ["CONTRADICT", "CONTRADICT", ""]
