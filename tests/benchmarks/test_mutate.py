"""The damaged files of mutate.py: what it counts, what it keeps, and when it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]


@pytest.fixture
def mutate(script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which must not limit the memory of the tests' own process."""
    found = script("mutate")
    monkeypatch.setattr(found, "limit_memory", lambda gigabytes: None)
    return found


def test_damaged_files_end_in_success_or_one_line(run: Run, mutate: ModuleType, tmp_path: Path) -> None:
    """A slice of the mutants; what it finds would be kept in the folder."""
    keep = tmp_path / "found"
    code, table, out, err = run("mutate", "--mutants", "600", "--commands", "2", "--keep", str(keep))
    assert (code, keep.exists()) == (0, False), err
    assert sum(int(row["mutants"]) for row in table) == 602
    assert all(int(row["read"]) > 0 for row in table[:-1]), "some damage is harmless: those go on to the comparison"
    assert "peak resident memory" in out


def test_a_fault_is_kept_and_counted(
    run: Run, mutate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path) -> None:
        raise KeyError("a bug")

    real = mutate.load_network
    bench = mutate.Bench(tmp_path / "a", tmp_path, 0)
    monkeypatch.setattr(mutate, "load_property", broken)
    code, table, out, _ = run("mutate", "--mutants", "12", "--seed", "3", "--keep", str(tmp_path / "found"))
    assert code == 1
    assert [int(row["faults"]) for row in table] == [0, 2, 0, 2, 0, 2]
    assert "KeyError_test_mutate.py" in out
    kept = sorted(path.suffix for path in (tmp_path / "found").iterdir())
    assert kept == [".txt", ".vnnlib"]
    assert real is mutate.load_network
    assert bench.mutant(7)[1].read_bytes() == bench.mutant(7)[1].read_bytes()


def test_too_much_memory_fails(run: Run, mutate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate, "MOST_MEMORY", 0.01)
    code, _, out, _ = run("mutate", "--mutants", "6", "--keep", str(tmp_path / "found"))
    assert (code, "**memory**: more than 0.01 GB" in out) == (1, True)
