"""Files for the command line to be given."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model and a spec by name; the stand-in engine does not read them."""
    (tmp_path / "m.onnx").write_bytes(b"model")
    (tmp_path / "p.vnnlib").write_text("; spec")
    return tmp_path
