"""What the documentation shows works as shown."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import netproof

ROOT = Path(__file__).resolve().parents[1]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no {language} blocks"
    return found


def test_torch_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks("torch-export.md", "python")), encoding="utf-8")
    names = runpy.run_path(str(script))
    assert names["verdict"].status in ("unsat", "sat")


@pytest.mark.parametrize("text", blocks("properties.md", "vnnlib"))
def test_specifications_are_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.vnnlib"
    path.write_text(text, encoding="utf-8")
    assert netproof.load_property(path).disjuncts


def test_quickstart_proves_and_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert ": unsat" in said
    assert ": sat" in said
