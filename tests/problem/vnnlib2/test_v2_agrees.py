"""The same question in both versions: the same violations, and the same verdicts."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest

import netproof
from netproof.problem.vnnlib.reader import parse_property
from support.asking import gaussian
from support.queries import Both, save_text


@pytest.mark.parametrize("seed", range(60))
def test_both_readings_have_the_same_violations(seed: int) -> None:
    old, new = (parse_property(text) for text in Both(seed, 2, 2).texts(assertions=3, depth=3))
    rng = random.Random(seed)
    for _ in range(60):
        x, y = ([Fraction(rng.randint(-6, 6), 4) for _ in range(2)] for _ in range(2))
        assert old.violated(x, y) == new.violated(x, y), (x, y)


@pytest.mark.parametrize("seed", range(40))
def test_both_readings_have_the_same_verdict(seed: int, tmp_path: Path) -> None:
    path = gaussian(seed, (2, 4, 2)).save(tmp_path / "f.onnx")
    texts = Both(1000 + seed).texts(assertions=2, depth=2)
    new = texts[1].replace("real [2]", "real [1,2]")
    for k in (0, 1):
        new = new.replace(f"X[{k}]", f"X[0,{k}]").replace(f"Y[{k}]", f"Y[0,{k}]")
    verdicts = [
        netproof.verify(path, save_text(tmp_path, text, f"{k}.vnnlib"), timeout=20, device="cpu")
        for k, text in enumerate((texts[0], new))
    ]
    statuses = {str(verdict.status) for verdict in verdicts}
    assert statuses in ({"sat"}, {"unsat"}), verdicts
