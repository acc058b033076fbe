"""Bounds of every operator, on random networks of depth 4, are at most half as wide as intervals."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def loaded() -> dict[str, object]:
    """The script's names; a folder of tests is called as it is, so it is run by its path."""
    sys.path.insert(0, str(FOLDER))
    try:
        return runpy.run_path(str(FOLDER / "operators.py"), run_name="script")
    finally:
        sys.path.remove(str(FOLDER))


SCRIPT = loaded()


@pytest.mark.parametrize("name", SCRIPT["CASES"])
def test_at_most_half_of_what_intervals_give(name: str) -> None:
    found = [SCRIPT["widths"](SCRIPT["CASES"][name], seed) for seed in range(1)]  # type: ignore[operator, index]
    assert SCRIPT["median_share"](found, "alpha") <= 0.5  # type: ignore[operator]
    assert all(w.sampled <= w.alpha * (1 + 1e-6) for w in found)
