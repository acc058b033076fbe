"""The queries of VNN-COMP in VNN-LIB 2.0: an answer to each within its limit, that of 1.0 where both are there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import netproof
from netproof.campaign.instances import read_folder
from netproof.problem.vnnlib.reader import load_property

FOLDERS = ("acasxu", "adaptive_cruise", "isomorphic_acasxu")


@pytest.mark.benchmark
@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_every_query_has_an_answer(name: str, benchmarks: Path) -> None:
    folder = benchmarks / "vnnlib_2.0" / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not in the folder of benchmarks")
    known = _known(benchmarks / "acasxu_2023") if name == "acasxu" else {}
    compared = 0
    for instance in read_folder(folder):
        models = dict(instance.networks) or instance.onnx
        verdict = netproof.verify(models, instance.vnnlib, timeout=instance.timeout, device="cpu")
        assert verdict.status in ("sat", "unsat"), instance
        truth = known.get((instance.onnx.name, instance.vnnlib.name))
        assert truth in (None, verdict.status), instance
        compared += truth is not None
    assert compared or not known


@pytest.mark.benchmark
@pytest.mark.parametrize("name", FOLDERS)
def test_every_query_is_read(name: str, benchmarks: Path) -> None:
    paths = sorted((benchmarks / "vnnlib_2.0" / name).rglob("*.vnnlib*"))
    if not paths:
        pytest.skip(f"{name} is not in the folder of benchmarks")
    for path in paths:
        assert load_property(path).interface is not None


def _known(folder: Path) -> dict[tuple[str, str], str]:
    file = folder / "known.csv"
    if not file.is_file():
        return {}
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    plain = (
        (Path(row["onnx"]).name.removesuffix(".gz"), Path(row["vnnlib"]).name.removesuffix(".gz"), row["truth"])
        for row in rows
    )
    return {(onnx, vnnlib): truth for onnx, vnnlib, truth in plain if truth in ("sat", "unsat")}
