"""The released profile beside the authors' counts (released_code.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, list[dict[str, str]], str, str]]

HEADER = "set,property,result,branches,root_bound\n"


@pytest.fixture
def counts(instances: Path, tmp_path: Path) -> Path:
    path = tmp_path / "counts.csv"
    path.write_text(f"{HEADER}{instances.name},fc-4-needs-splits,proved,0,-0.5\n")
    return path


def asked(instances: Path, tmp_path: Path, *more: str) -> tuple[str, ...]:
    return ("--data", str(instances.parent), "--out", str(tmp_path / "ours.csv"), *more)


def test_a_rerun_goes_on_and_another_method_is_measured_anew(
    run: Run, counts: Path, instances: Path, tmp_path: Path
) -> None:
    """A row that the authors' root proves has 0 branches, and still a difference."""
    lines = []
    for method in ("lirpa", "lirpa", "lirpa-printed"):
        code, rows, out, err = run("released_code", str(counts), *asked(instances, tmp_path, "--method", method))
        assert code == 0, err
        assert len(rows) == 1
        assert "Of 1 that the authors' code proves 1 are proved here" in out
        lines.append(len((tmp_path / "ours.csv").read_text().splitlines()))
    assert lines == [2, 2, 3]


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,2\n",
        b"\xff\xfe\x00",
        f"{HEADER}digits,fc-4-needs-splits,proved,many,-0.5\n".encode(),
        f"{HEADER}digits,fc-4-needs-splits,proved,3,nan\n".encode(),
        f"{HEADER}digits,fc-4-needs-splits\n".encode(),
    ],
)
def test_counts_that_are_none_are_one_line(
    run: Run, counts: Path, instances: Path, tmp_path: Path, content: bytes
) -> None:
    counts.write_bytes(content)
    code, _, _, err = run("released_code", str(counts), *asked(instances, tmp_path))
    assert code == 2
    assert "counts.csv: not a CSV file with the columns set, property, result" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "ours.csv").exists()


def test_what_is_kept_elsewhere_is_not_written_to(run: Run, counts: Path, instances: Path, tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text("a,b\n1,2\n")
    code, _, _, err = run("released_code", str(counts), *asked(instances, tmp_path))
    assert code == 2
    assert "ours.csv: not a CSV file with the columns" in err
    assert (tmp_path / "ours.csv").read_text() == "a,b\n1,2\n"
