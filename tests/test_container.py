"""The container file, as far as it can be checked without an engine: what it copies is there, what it runs is ours."""

from __future__ import annotations

import re
import tomllib

from support.pages import ROOT

TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
LINES = [line for line in TEXT.splitlines() if line and not line.startswith("#")]


def test_what_is_copied_is_there_and_is_sent() -> None:
    """`.dockerignore` refuses everything but what it names."""
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert sent[0] == "*"
    copied = [
        word for line in LINES if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert set(copied) == {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "src"}
    assert all((ROOT / name).exists() and f"!{name}" in sent for name in copied)


def test_versions_are_the_tested_ones() -> None:
    installs = [line for line in LINES if "pip install" in line]
    assert len(installs) == 3
    assert all("--constraint constraints.txt" in line for line in installs)


def test_the_command_is_the_one_that_the_package_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(re.findall(r'ENTRYPOINT \["(\w+)"\]', TEXT)) == set(project["scripts"])
    (python,) = re.findall(r"ARG PYTHON=(\d+\.\d+)", TEXT)
    assert tuple(map(int, python.split("."))) >= (3, 11)
    assert "TORCH_INDEX" in (ROOT / "docs" / "howto" / "container.md").read_text(encoding="utf-8")
