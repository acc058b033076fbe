"""A campaign in this process, with the stand-in for the engine in its workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.campaign import environment


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the stand-in writes what it was asked."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path
