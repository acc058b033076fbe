"""Folders of instances for a campaign whose engine is the stand-in of tests/campaign/fake."""

from __future__ import annotations

import json
import os
import sqlite3
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
        (folder / model).write_bytes(os.fsencode(f"{folder.name} {model}"))
    lines = []
    for i, (word, _, limit) in enumerate(word.partition(":") for word in words):
        (folder / f"{i}-{word}.vnnlib").write_text(f"; fake {word}\n; {i}\n")
        lines.append(f"{MODELS[i % models]},{i}-{word}.vnnlib,{limit or LIMIT}")
    (folder / "instances.csv").write_text("\n".join(lines) + "\n")
    return folder


OLD_FORM = (  # as netproof 0.1.0 made it
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, key TEXT NOT NULL, benchmark TEXT NOT NULL, folder TEXT NOT NULL,"
    " onnx TEXT NOT NULL, onnx_sha256 TEXT NOT NULL, vnnlib TEXT NOT NULL, vnnlib_sha256 TEXT NOT NULL, truth TEXT,"
    " method TEXT NOT NULL, options TEXT NOT NULL, timeout REAL, device TEXT NOT NULL, threads INTEGER,"
    " seed INTEGER NOT NULL, attack INTEGER NOT NULL, verdict TEXT NOT NULL, reason TEXT NOT NULL,"
    " decided_by TEXT NOT NULL, seconds TEXT NOT NULL, total REAL NOT NULL, lower_bound REAL, upper_bound REAL,"
    " domains INTEGER NOT NULL, leaf_lps INTEGER NOT NULL, rounds INTEGER NOT NULL, peak_memory INTEGER NOT NULL,"
    " witness TEXT NOT NULL, versions TEXT NOT NULL, started TEXT NOT NULL, finished TEXT NOT NULL,"
    " error TEXT NOT NULL, log TEXT NOT NULL)"
)


def old_store(path: Path, *results: Result) -> Path:
    """A store in form 1 with these results, all of netproof 0.1.0."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(
        f"PRAGMA journal_mode = WAL; {OLD_FORM}; CREATE INDEX runs_key ON runs (key);"
        " PRAGMA application_id = 1852863078; PRAGMA user_version = 1;"
    )
    names = [row[1] for row in connection.execute("PRAGMA table_info(runs)")][1:]
    for result in results:
        plain = [getattr(result, name) for name in names]
        values = [json.dumps(value) if isinstance(value, dict) else value for value in plain]
        connection.execute(f"INSERT INTO runs ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values)
    connection.commit()
    connection.close()
    return path


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
