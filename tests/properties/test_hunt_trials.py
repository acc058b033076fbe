"""The trials of the hunt: no verdict is wrong, and each family finds the fault that it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import netproof.api  # noqa: F401  what is patched must have been imported
from hunt.loop import Tally
from hunt.trials import EVERY, FAMILIES, family_of, try_seed
from netproof.dataset.prediction import largest_output
from netproof.model.conv import Conv
from netproof.problem.property import Box, Row
from netproof.problem.rounding import Rounded


def seeds(family: str, count: int) -> list[int]:
    """The first seeds of a family."""
    every = range(0, EVERY * len(FAMILIES) * count, EVERY)
    return [seed for seed in every if family_of(seed) == family]


def tried(family: str, count: int, folder: Path, until: str = "") -> tuple[Tally, list[str]]:
    """Try so many seeds, or until a fault of a name is found."""
    tally, said = Tally(), list[str]()
    for seed in seeds(family, count):
        tally.merge(try_seed(seed, folder, said.append, timeout=2.0))
        if tally.faults[until]:
            break
    return tally, said


@pytest.mark.parametrize("family", FAMILIES)
def test_no_answer_is_wrong(family: str, tmp_path: Path) -> None:
    tally, said = tried(family, 3, tmp_path)
    assert not tally.faults, "\n".join(said)
    assert tally.runs >= 9


def test_seeds_between_make_no_trial(tmp_path: Path) -> None:
    assert all(try_seed(seed, tmp_path, print).runs == 0 for seed in range(40) if seed % EVERY)


# --- each family, with the fault that it is there for ---


def any_interval_is_pinned(patch: pytest.MonkeyPatch) -> None:
    def pin(self: Box, lower: Any, upper: Any, held: Any) -> tuple[int, ...]:
        beyond = np.flatnonzero(lower > upper).tolist()
        near = Rounded.of([(self.lower[i] + self.upper[i]) / 2 for i in beyond])
        lower[beyond] = upper[beyond] = near.near if lower.dtype == np.float64 else near.single_near()
        return tuple(beyond)

    patch.setattr(Box, "_pin", pin)


def linear_branches_are_dropped(patch: pytest.MonkeyPatch) -> None:
    real = Conv.adjoint
    patch.setattr(Conv, "adjoint", lambda self, coef: tuple(torch.zeros_like(c) for c in real(self, coef)))


def order_is_turned_round(patch: pytest.MonkeyPatch) -> None:
    def turned(row: Row) -> Row:
        return replace(row, coefs={i: -c for i, c in row.coefs.items()})

    patch.setattr("netproof.problem.last.order._ordered", turned)


def margins_are_of_scores(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("netproof.run.conclude.margin_of_places", lambda network, written: Fraction(100))


def the_first_of_equal_outputs_is_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("netproof.dataset.cases.predicted_class", lambda network, x: largest_output(network.replay(x)))


# By family: the fault, the seeds that it takes at most, and what it is called.
FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], int, str]] = {
    "between": (any_interval_is_pinned, 4, "wrong witness"),
    "branches": (linear_branches_are_dropped, 4, "wrong lower bound"),
    "saturated": (order_is_turned_round, 3, "wrong upper bound"),
    "places": (margins_are_of_scores, 6, "wrong margin"),
    "classifiers": (the_first_of_equal_outputs_is_read, 20, "certify and verify contradict"),
}


@pytest.mark.parametrize("family", FAULTS)
def test_its_own_fault_is_found(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, count, name = FAULTS[family]
    fault(monkeypatch)
    tally, said = tried(family, count, tmp_path, until=name)
    assert tally.faults[name], tally.faults
    for folder in tmp_path.iterdir():
        assert (folder / "model.onnx").exists()
        assert any(line.startswith((folder / "CASE").read_text().rstrip()) for line in said)
