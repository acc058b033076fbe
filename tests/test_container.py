"""The container file, as far as that can be checked without an engine: what it copies is there, and is sent."""

from __future__ import annotations

from support.pages import ROOT


def test_what_is_copied_is_there_and_is_sent() -> None:
    """`.dockerignore` refuses everything but what it names."""
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert sent[0] == "*"
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = [word for words in copies for word in words]
    assert "src" in copied
    assert [name for name in copied if not (ROOT / name).exists() or f"!{name}" not in sent] == []
