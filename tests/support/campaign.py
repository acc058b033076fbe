"""Folders of instances for a campaign whose engine is the stand-in of tests/campaign/fake."""

from __future__ import annotations

import os
from pathlib import Path

from netproof.campaign.store import Result

TESTS = Path(__file__).parents[1]
MODELS = ("a.onnx", "b.onnx")


def environment(folder: Path) -> dict[str, str]:
    """For the process of a campaign and its workers."""
    path = os.pathsep.join([str(TESTS / "campaign" / "fake"), str(TESTS.parent / "src")])
    return {"PYTHONPATH": path, "FAKE_CALLS": str(folder / "calls.txt")}


LIMIT = "100"  # seconds: far beyond what the stand-in takes


def make_set(folder: Path, *words: str, models: int = 1) -> Path:
    """A folder with one instance for each word: what the stand-in does with it, or `WORD:LIMIT`."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in MODELS[:models]:
        (folder / model).write_bytes(f"{folder.name} {model}".encode())
    lines = []
    for i, (word, _, limit) in enumerate(word.partition(":") for word in words):
        (folder / f"{i}-{word}.vnnlib").write_text(f"; fake {word}\n; {i}\n")
        lines.append(f"{MODELS[i % models]},{i}-{word}.vnnlib,{limit or LIMIT}")
    (folder / "instances.csv").write_text("\n".join(lines) + "\n")
    return folder


def calls(folder: Path, kind: str = "verify") -> list[str]:
    """The files that the stand-in was asked about, in order."""
    file = folder / "calls.txt"
    lines = file.read_text().splitlines() if file.is_file() else []
    return [line.split()[1] for line in lines if line.split()[0] == kind]


def a_result(
    vnnlib: str = "p.vnnlib",
    verdict: str = "unsat",
    *,
    method: str = "auto",
    benchmark: str = "set",
    truth: str | None = None,
    total: float = 1.0,
    domains: int = 10,
    seed: int = 0,
    timeout: float | None = 20.0,
    error: str = "",
    options: dict[str, int] | None = None,
) -> Result:
    return Result(
        key=f"{vnnlib}-{method}-{seed}",
        benchmark=benchmark,
        folder="",
        onnx="onnx/m.onnx",
        onnx_sha256="1",
        vnnlib=vnnlib,
        vnnlib_sha256="2",
        truth=truth,
        method=method,
        options=options or {"steps": 5},
        timeout=timeout,
        device="cpu",
        threads=1,
        seed=seed,
        attack=True,
        verdict=verdict,
        total=total,
        domains=domains,
        versions={"netproof": "0.1.0"},
        started="2026-01-01T10:00:00+00:00",
        finished="2026-01-01T10:00:01+00:00",
        error=error,
    )
