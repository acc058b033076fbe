"""Two small sets in the place of the paper's."""

from __future__ import annotations

from pathlib import Path

import pytest

from netproof.paper.sets import PaperSet, find_sets
from support.paper_sets import make_sets

NAMES = ("oval_wide", "oval_deep")


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, PaperSet]:
    return find_sets(make_sets(tmp_path / "data", "unsat", "unsat", names=NAMES), NAMES)


@pytest.fixture
def clipped(tmp_path: Path) -> dict[str, PaperSet]:
    return find_sets(make_sets(tmp_path / "clipped", "unsat", "unsat", names=NAMES, widths=(0.2, 0.15)), NAMES)
