"""The LP phase of the released code: a second search from the root, one sub-domain at a time, with LPs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from netproof.core.verdict import Status
from support.asking import ask, knotted, sharpened


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [1, 3])
def test_past_the_threshold_it_starts_again_with_lps(seed: int, threshold: int, tmp_path: Path) -> None:
    asked = sharpened(knotted(seed), [Fraction(1, 64)])
    options = {"batch": 8, "lp_threshold": threshold}
    plain = ask(asked.network, asked.property, tmp_path, method="lirpa", attack=False)
    again = ask(asked.network, asked.property, tmp_path, method="lirpa", attack=False, options=options)
    assert plain.status == again.status == Status.UNSAT
    if plain.stats.rounds > threshold:  # else there were never more open
        assert again.stats.lps > 0


@pytest.mark.parametrize("seed", range(6))
def test_what_is_broken_is_never_proved_there(seed: int, tmp_path: Path) -> None:
    asked = sharpened(knotted(seed), [Fraction(-1, 64)])
    options = {"batch": 8, "lp_threshold": 1}
    found = ask(asked.network, asked.property, tmp_path, method="lirpa", attack=False, options=options, timeout=60)
    assert found.status == Status.SAT


def test_without_leaf_lps_there_are_none(tmp_path: Path) -> None:
    asked = sharpened(knotted(2), [Fraction(1, 64)])
    options = {"batch": 4, "lp_threshold": 1, "leaf_lp": False}
    found = ask(asked.network, asked.property, tmp_path, method="lirpa", attack=False, options=options, timeout=60)
    assert found.stats.lps == found.stats.leaf_lps == 0
    assert found.status in (Status.UNSAT, Status.UNKNOWN)


def test_where_no_lp_can_follow_it_does_not_start_again(tmp_path: Path) -> None:
    """Without leaf LPs a second search, one sub-domain at a time, would only be slower."""
    asked = sharpened(knotted(5), [Fraction(1, 64)])
    counts = []
    for restarts in (True, False):
        options = {"batch": 4, "lp_threshold": 1, "leaf_lp": False, "lp_restart": restarts}
        if not restarts:
            options["lp_threshold"] = 10**6
        found = ask(asked.network, asked.property, tmp_path, method="lirpa", attack=False, options=options, timeout=60)
        counts.append((found.status, found.stats.domains))
    assert counts[0] == counts[1]
