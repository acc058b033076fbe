"""What the documentation shows works as shown."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import netproof
from netproof.demo import copy_data
from netproof.methods.registry import METHODS

ROOT = Path(__file__).resolve().parents[1]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no {language} blocks"
    return found


def test_torch_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks("torch-export.md", "python")), encoding="utf-8")
    names = runpy.run_path(str(script))
    assert names["verdict"].proved
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if "0.3 " in line] == ["sat"]


def test_python_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each verdict that its comments show is the one that is printed, up to numbers."""
    text = "\n".join(blocks("python.md", "python"))
    script = tmp_path / "page.py"
    script.write_text(text, encoding="utf-8")
    names = runpy.run_path(str(script))
    said = capsys.readouterr().out
    shown = re.findall(r"# (Verdict\(\w+)", text)
    assert shown == ["Verdict(proved", "Verdict(broken", "Verdict(proved"]
    assert re.findall(r"Verdict\(\w+", said) == shown
    assert "netproof.between" in said
    spec = tmp_path / "spec.vnnlib"
    spec.write_text(names["brakes"].vnnlib(names["region"]), encoding="utf-8")
    assert netproof.verify(netproof.load_network(names["model"], example_shape=(1, 2)), spec).proved


@pytest.mark.parametrize("text", blocks("properties.md", "vnnlib"))
def test_specifications_are_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.vnnlib"
    path.write_text(text, encoding="utf-8")
    assert netproof.load_property(path).disjuncts


def test_benchmarking_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands give the table that it shows, up to seconds, and its script runs on what they leave."""
    monkeypatch.chdir(tmp_path)
    copy_data(tmp_path / "digits")  # as the demo does, which has its own tests
    commands = [line for block in blocks("benchmarking.md", "sh") for line in block.splitlines()]
    assert commands.pop(0) == "netproof demo --out digits"
    tables = []
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        if "bench" in words:
            words += ["--device", "cpu", "--threads", "1"]
        else:  # another verifier's results, for its report
            shutil.copy(tmp_path / "campaign" / "results-lirpa.csv", tmp_path / "abcrown.csv")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if "report" in words:
            assert "abcrown: 9 of its 9 results" in Path("campaign/report/index.html").read_text(encoding="utf-8")
        tables.append([line.split()[:10] for line in done.stdout.splitlines()])
    (shown,) = blocks("benchmarking.md", "text")
    assert tables[0] == [line.split()[:10] for line in shown.splitlines()]
    page = (tmp_path / "campaign" / "report" / "index.html").read_text(encoding="utf-8")
    assert "lirpa (steps=5, seed=1, attack=True)" in page
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks("benchmarking.md", "python")), encoding="utf-8")
    names = runpy.run_path(str(script))
    assert len(names["results"]) == 20
    assert names["slowest"].verdict in ("unsat", "sat")
    assert "(X_0 " in next(result.witness for result in names["results"] if result.verdict == "sat")


def options() -> list[str]:
    """Return the rows of a table of all options: defaults by method, help, and by method every other help."""
    defaults: dict[str, dict[str, list[str]]] = {}
    helps: dict[str, dict[str, list[str]]] = {}
    for method in METHODS.values():
        for field in method.fields:
            default = "none" if field.default is None else str(field.default).lower()
            defaults.setdefault(field.name, {}).setdefault(default, []).append(f"`{method.name}`")
            helps.setdefault(field.name, {}).setdefault(field.help, []).append(f"`{method.name}`")
    rows = []
    for name in defaults:
        values = "; ".join(f"{value}: {', '.join(methods)}" for value, methods in defaults[name].items())
        first, *others = helps[name]
        texts = "; ".join([first, *(f"{', '.join(helps[name][text])}: {text}" for text in others)])
        rows.append(f"| `{name}` | {values} | {texts} |")
    return rows


def test_options_page_lists_every_option_with_its_defaults() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `")] == options()


def test_quickstart_proves_and_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert ": unsat" in said
    assert ": sat" in said
