"""The small parts of the command line by themselves."""

from __future__ import annotations

import gc
import json
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from netproof.cli import options, words
from netproof.cli.clock import process_started
from netproof.cli.output import Outputs, blank_record, to_json
from netproof.cli.picture import draw_counterexample
from netproof.cli.robust import overall
from netproof.cli.supervisor import soft_limit
from netproof.cli.verify import known_so_far, prepare
from netproof.core.cpu import available_cpus, cgroup_quota
from netproof.errors import UsageError


def cgroup(root: Path, membership: str, **files: str) -> tuple[Path, Path]:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(membership)
    for name, content in files.items():
        path = root / "sys" / name.replace("__", "/").replace("cpu_", "cpu.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root / "proc", root / "sys"


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/\n", {"cpu_max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu_max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a__cpu_max": "100000 100000", "a__b__cpu_max": "400000 100000"}, 1.0),
        ("0::/../b\n", {"cpu_max": "200000 100000"}, 2.0),
        (
            "4:cpu,cpuacct:/a\n",
            {"cpu__a__cpu_cfs_quota_us": "50000", "cpu__a__cpu_cfs_period_us": "100000"},
            0.5,
        ),
        ("4:cpu:/\n", {"cpu__cpu_cfs_quota_us": "-1", "cpu__cpu_cfs_period_us": "100000"}, None),
        ("", {}, None),
    ],
)
def test_the_quota_of_a_container(tmp_path: Path, membership: str, files: dict[str, str], quota: float | None) -> None:
    assert cgroup_quota(*cgroup(tmp_path, membership, **files)) == quota


def test_there_is_at_least_one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netproof.core.cpu.affinity_cpus", lambda: 8)
    for quota, count in ((None, 8), (0.2, 1), (1.5, 2), (64.0, 8)):
        monkeypatch.setattr("netproof.core.cpu.cgroup_quota", lambda quota=quota: quota)
        assert available_cpus() == count


def test_the_process_began_before_now_and_not_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    for age, counted in ((0.5, 0.5), (100.0, 0.0), (-1.0, 0.0)):  # an old process has replaced its shell
        monkeypatch.setattr("netproof.cli.clock._age", lambda age=age: age)
        before = time.monotonic()
        assert before - counted <= process_started() <= time.monotonic() - counted


def test_numbers_are_exact() -> None:
    assert options.number("--eps", "2/255") == Fraction(2, 255)
    assert options.number("--eps", "1e-3") == Fraction(1, 1000)
    assert options.numbers("--std", "0.1, 0.2") == (Fraction(1, 10), Fraction(1, 5))


def test_json_has_no_infinity_and_no_nan() -> None:
    text = to_json({"a": float("inf"), "b": [float("nan"), 1.0], "c": {"d": -float("inf")}})
    assert json.loads(text) == {"a": None, "b": [None, 1.0], "c": {"d": None}}


def test_a_link_is_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    outputs = Outputs({"--json": str(tmp_path / "link.txt")})
    outputs.check(())
    outputs.write("--json", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_disk_that_fills_up_is_the_users_to_mend() -> None:
    outputs = Outputs({"--json": "/dev/full"})
    with pytest.raises(UsageError, match="/dev/full"):
        outputs.write("--json", "text")


def test_the_worker_stops_before_the_limit() -> None:
    assert soft_limit(None) is None
    assert all(0 < soft_limit(limit) < limit for limit in (0.01, 1.0, 60.0, 1e6))  # type: ignore[operator]


def test_the_collector_works_again_after_the_imports() -> None:
    try:
        prepare(options.engine(method="auto", device="cpu", threads=1, timeout=None, settings=None))
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_progress_on_one_of_many_problems_bounds_only_that_one() -> None:
    one = {"phase": "search", "lower_bound": 0.5, "upper_bound": 1.0, "domains": 4, "rounds": 1}
    assert known_so_far({**one, "problem": 0, "problems": 1})["lower_bound"] == 0.5
    assert "lower_bound" not in known_so_far({**one, "problem": 1, "problems": 3})
    assert known_so_far({"phase": "load"}) == {"lower_bound": None}


def records(*verdicts: str) -> list[dict[str, object]]:
    return [{**blank_record(), "verdict": verdict, "lower_bound": 0.5} for verdict in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "complete", "expected"),
    [
        (("unsat", "unsat"), True, "unsat"),
        (("unsat", "unsat"), False, "unknown"),
        ((), True, "unknown"),
        (("unsat", "timeout", "sat"), True, "sat"),
        (("unsat", "timeout", "unknown"), True, "timeout"),
        (("unsat", "unknown"), True, "unknown"),
    ],
)
def test_many_verdicts_make_one(verdicts: tuple[str, ...], complete: bool, expected: str) -> None:
    assert overall(records(*verdicts), complete=complete)["verdict"] == expected


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"verdict": "unsat"}, "PROVED: holds for every input"),
        ({"verdict": "unsat", "reason": "input set is empty"}, "PROVED: but the input set is empty"),
        ({"verdict": "sat"}, "BROKEN: counterexample found"),
        (
            {"verdict": "sat", "reason": "within rounding"},
            "BROKEN: counterexample found and replayed (within",
        ),
        ({"verdict": "timeout", "reason": "late"}, "UNDECIDED: late; try a longer --timeout"),
        ({"verdict": "unknown", "reason": "interrupted"}, "UNDECIDED: interrupted; run it again"),
        ({"verdict": "unknown"}, "UNDECIDED: no proof and no counterexample; try"),
    ],
)
def test_plain_words(changes: dict[str, str], start: str) -> None:
    assert words.summary({**blank_record(), **changes}, method="auto", device="cpu").startswith(start)


def test_a_picture_shows_both_images_enlarged(tmp_path: Path) -> None:
    original = np.array([[0.0, 1.0], [0.2, 0.4]])
    broken = np.array([[0.1, 1.0], [0.2, 0.2]])
    draw_counterexample(
        tmp_path / "p.png",
        title="t",
        original=original,
        broken=broken,
        scores=np.array([1.0, 0.0]),
        broken_scores=np.array([0.0, 1.0]),
        label=0,
    )
    with Image.open(tmp_path / "p.png") as file:
        pixels = np.asarray(file)
    whites = [tuple(pixel) for pixel in pixels[120, :, :]]
    assert (0, 0, 0) in whites  # the dark corner of the original
    assert (26, 26, 26) in whites  # the same corner, brighter in the counterexample


def test_the_difference_has_a_sign(tmp_path: Path) -> None:
    from netproof.cli.picture import LESS, MORE, _signed

    panel = np.asarray(_signed(np.array([[0.2, -0.2, 0.0]])))
    assert panel[0].tolist() == [MORE.tolist(), LESS.tolist(), [255, 255, 255]]
