"""`netproof reproduce lp`: what is timed on what, and how the two bounds relate."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from netproof.bounds.base import Bounds
from netproof.bounds.lirpa import Lirpa
from netproof.bounds.scope import split_on
from netproof.cli.app import run as obey
from netproof.core.deadline import Deadline, DeadlineExpired
from netproof.methods.build import build_method
from netproof.methods.registry import method_info
from netproof.model.load import load_network
from netproof.paper.sets import Boxes, PaperSet
from netproof.paper.tables import lp
from netproof.paper.tables.lp_run import Measured
from netproof.paper.tables.lp_solves import Pool, Timing, cold, warm
from netproof.paper.tables.lp_times import Asked, Times, through, times_of, worst_of
from netproof.problem.reduce import reduce
from netproof.problem.vnnlib.reader import load_property
from netproof.search.method import Start
from support.asking import CPU, gaussian, root_of
from support.exact import milp_minimum

PRINTED = {"free_splits": False, "layer_slopes": False, "joint": True}  # which leaves more open
SHORT = {"root_steps": 5, "neuron_steps": 0, "steps": 4, **PRINTED}
QUIET = ("--device", "cpu", "--threads", "1")
N = 8
ROUNDS = 4


def make_instance(folder: Path, margin: float = 0.005) -> tuple[Path, Path]:
    """A network whose output is above 0 by a margin: by little, so that a search has to split."""
    folder.mkdir(parents=True, exist_ok=True)
    network = gaussian(0, (3, 12, 10, 1))
    least = milp_minimum(network.graph, np.full(3, -1.0), np.full(3, 1.0), np.ones((1, 1)), np.zeros(1)).value
    model, spec = network.save(folder / "m.onnx"), folder / "p.vnnlib"
    inputs = "".join(f"(declare-const X_{i} Real)\n(assert (>= X_{i} -1))\n(assert (<= X_{i} 1))\n" for i in range(3))
    spec.write_text(f"{inputs}(declare-const Y_0 Real)\n(assert (<= Y_0 {least - margin:.6f}))\n")
    (folder / "instances.csv").write_text("m.onnx,p.vnnlib,60\n")
    return model, spec


def times(folder: Path, deadline: Deadline | None = None, margin: float = 0.005, **how: Any) -> Times | None:
    model, spec = make_instance(folder, margin)
    network, property = load_network(model), load_property(spec)
    name = how.get("method", "lirpa")
    asked = Asked(name, method_info(name).options(SHORT), N, ROUNDS, CPU, how.get("threads", 1))
    steps = how.get("progress", lambda phase, done, total: None)
    return times_of(network, property, reduce(network, property)[0], asked, deadline or Deadline(), steps)


@pytest.mark.parametrize(("method", "threads"), [("lirpa", 1), ("lirpa", 3), ("lirpa-printed", 1)])
def test_both_bound_the_same_sub_domains(
    method: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, bound, phases = [], Lirpa.bound, []

    def watched(self: Lirpa, root: Any, domains: Any, *rest: Any) -> Bounds:
        if "batch" in phases:  # not those of the search before
            sizes.append(len(domains))
        return bound(self, root, domains, *rest)

    monkeypatch.setattr(Lirpa, "bound", watched)
    found = times(tmp_path, method=method, threads=threads, progress=lambda phase, *_: phases.append(phase))
    assert found is not None
    assert found.domains == len(found.lirpa_bounds) == len(found.lp_bounds)
    assert 2 < found.domains <= N
    assert sizes == [found.domains] * 4 + [1] * (found.domains + 1)  # one batch, and one alone, before the clock
    assert all(lp >= own - 1e-6 for lp, own in zip(found.lp_bounds, found.lirpa_bounds, strict=True))
    assert any(lp > own + 1e-4 for lp, own in zip(found.lp_bounds, found.lirpa_bounds, strict=True))
    assert all(math.isfinite(own) or own == math.inf for own in found.lirpa_bounds)
    assert min(found.batch, found.single, found.lp, found.warm) > 0
    assert list(dict.fromkeys(phases)) == [
        *("round", "batch", "one at a time", "LP", "LP of parents", "LP, from the parent's basis")
    ]


def test_both_lps_have_the_same_value(tmp_path: Path) -> None:
    model, spec = make_instance(tmp_path)
    network = load_network(model)
    method = build_method("lirpa", method_info("lirpa").options(SHORT), CPU)
    root, bounds = root_of(method.bounder, reduce(network, load_property(spec))[0])
    chosen = method.brancher.choose(root, bounds, root.count)
    parents = bounds.domains
    for _ in range(2):
        halves = split_on(root, parents, chosen[:1, :1].expand(len(parents), 1))
        chosen, parents_before, parents = chosen[:, 1:], parents, halves
    nothing = Deadline(), lambda phase, done, total: None
    with ThreadPoolExecutor(2) as executor:
        first, second = cold(root, halves, 1, *nothing), warm(root, parents_before, halves, Pool(executor, 2), *nothing)
        through([first, second], nothing[0])
    assert len(first.bounds) == 4
    assert np.allclose(first.bounds, second.bounds, atol=1e-6)


def test_the_worst_that_can_be_split_are_taken(tmp_path: Path) -> None:
    model, spec = make_instance(tmp_path)
    method = build_method("lirpa", method_info("lirpa").options(SHORT), CPU)
    root, bounds = root_of(method.bounder, reduce(load_network(model), load_property(spec))[0])
    four = bounds.domains.select(torch.zeros(4, dtype=torch.int64))
    four = four.map(torch.clone)
    four.bound[:] = torch.tensor([-1.0, -4.0, -2.0, -3.0])
    candidates = torch.tensor([[0], [-1], [2], [3]])
    start = Start(root, type(four)(**{**vars(four), "candidates": candidates}))
    assert worst_of(start, 4).bound.tolist() == [-3.0, -2.0]
    assert worst_of(start, 1).bound.tolist() == [-3.0]
    assert len(worst_of(start, 100)) == 3


def test_a_property_that_leaves_nothing_open(tmp_path: Path) -> None:
    assert times(tmp_path, margin=1000.0) is None


def stop_at(deadline: Deadline, phase: str, after: int = 0) -> Callable[[str, int, int], None]:
    """End the time when a phase has done so much."""

    def stop(now: str, done: int, total: int) -> None:
        if now == phase and done >= after:
            deadline.cancel()

    return stop


@pytest.mark.parametrize(("phase", "after"), [("round", 0), ("batch", 0), ("batch", 1)])
def test_what_the_deadline_cuts_short_is_no_measurement(phase: str, after: int, tmp_path: Path) -> None:
    """The first batch is before the clock."""
    deadline = Deadline()
    with pytest.raises(DeadlineExpired):
        times(tmp_path, deadline, progress=stop_at(deadline, phase, after))


WARM = "LP, from the parent's basis"


@pytest.mark.parametrize(
    ("phase", "after", "single", "cold", "by_basis"),
    [
        ("batch", 2, 0, 0, 0),
        ("one at a time", 3, 3, 0, 0),
        ("LP", 0, N, 0, 0),
        ("LP", 2, N, 2, 0),
        ("LP of parents", 0, N, N, 0),
        (WARM, 1, N, N, 1),
    ],
)
def test_what_was_timed_before_the_deadline_stays(
    phase: str, after: int, single: int, cold: int, by_basis: int, tmp_path: Path
) -> None:
    deadline = Deadline()
    found = times(tmp_path, deadline, progress=stop_at(deadline, phase, after))
    assert found is not None
    assert found.domains == N  # else the numbers above are others
    assert (found.timed("batch"), found.timed("single")) == (N, single)
    assert (found.timed("lp"), found.timed("warm")) == (cold, by_basis)
    assert set(found.short) == {
        name for name, count in (("single", single), ("lp", cold), ("warm", by_basis)) if count < N
    }
    for name in ("batch", "single", "lp", "warm"):
        seconds = getattr(found, name)
        assert seconds > 0 if found.timed(name) else seconds is None
    assert [bound is not None for bound in found.lp_bounds] == [i < max(cold, by_basis) for i in range(N)]
    assert len(found.lirpa_bounds) == N
    whole = times(tmp_path)
    assert whole is not None
    assert found.lp_bounds[: max(cold, by_basis)] == pytest.approx(whole.lp_bounds[: max(cold, by_basis)], abs=1e-6)
    assert len(found.pairs) == max(cold, by_basis)


def test_each_way_has_its_share_and_then_what_the_others_leave() -> None:
    """By a clock that moves one second with every solve: thirty seconds for three times ten and more."""
    clock = Ticking(30.0)
    deadline: Any = clock
    seen: list[str] = []

    def timing(name: str, count: int, length: float) -> Timing:
        def solve(some: slice) -> list[float]:
            seen.append(name)
            clock.now += length
            return [0.0]

        return Timing(name, count, 1, deadline, lambda phase, done, total: None, solve)

    ways = [timing("a", 100, 1.0), timing("b", 2, 1.0), timing("c", 100, 2.0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netproof.paper.tables.lp_solves.time.monotonic", lambda: clock.now)
        through(ways, deadline)
    assert [len(way.bounds) for way in ways] == [10, 2, 8]  # the ninth of c ends with the time, so it does not count
    assert seen == ["a"] * 10 + ["b"] * 2 + ["c"] * 9
    assert [way.seconds for way in ways] == [1.0, 1.0, 2.0]


@dataclass
class Ticking:
    """A deadline of a clock of its own."""

    seconds: float
    now: float = 0.0

    def remaining(self) -> float:
        return max(0.0, self.seconds - self.now)

    def check(self) -> None:
        if self.remaining() == 0.0:
            raise DeadlineExpired


def test_no_round_begins_in_the_second_half_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []

    def watch(phase: str, done: int, total: int) -> None:
        if phase == "round":
            rounds.append(done)

    whole = times(tmp_path, progress=watch)
    assert whole is not None
    assert rounds == [1, 2, 3, 4]
    rounds.clear()
    monkeypatch.setattr(Deadline, "elapsed", lambda self: 1000.0)
    found = times(tmp_path, Deadline(1000.0), progress=watch)
    assert found is not None
    assert rounds == [1]
    assert found.domains < whole.domains


# --- what the times say together ---

WIDE = PaperSet("oval_wide_unclipped", (), Boxes(2, 0))
FIRST = Times(2, 3, 0.001, 0.01, 0.8, 0.1, [-1.0, 0.5], [-0.5, 0.5])
SECOND = Times(6, 3, 0.002, 0.02, 0.4, 0.2, [-1.0] * 5 + [math.inf], [-math.inf] * 4 + [0.25, math.inf])


def measured(times: Times | None, property: str = "p", why: str = "", place: str = "1 core") -> Measured:
    return Measured("oval_wide_unclipped", "unclipped", property, place, times, why)


def test_a_set_is_the_mean_over_its_sub_domains() -> None:
    found = [measured(FIRST), measured(SECOND, "q"), measured(None, "r", "nothing was open after a round")]
    (line,) = lp.lines_of(found, {"oval_wide_unclipped": WIDE})
    assert (line.properties, line.domains) == (2, 8)
    assert line.seconds == pytest.approx({"lp": 0.5, "warm": 0.175, "single": 0.0175, "batch": 0.00175})
    assert line.over == pytest.approx((0.5 / 0.0175, 0.5 / 0.00175, 10.0, 100.0))
    assert line.proved == (3, 2)  # one of the first property and two of the second; one each
    assert line.higher == 2
    assert line.gap == 0.5  # of 0.5, 0 and 1.25
    (said,) = lp.said([line])
    assert said.startswith("1 core: an LP from the parent's basis takes 100.0 times as long as a bound of LiRPA in a")


CUT = Times(6, 3, 0.002, 0.02, 0.4, None, [-1.0, 2.0] * 3, [0.5, None] * 3, {"single": 4, "lp": 3, "warm": 0})


def test_what_was_cut_short_counts_with_what_was_timed() -> None:
    (line,) = lp.lines_of([measured(FIRST), measured(CUT, "q", "ended")], {"oval_wide_unclipped": WIDE})
    assert (line.properties, line.domains) == (2, 8)
    assert line.timed == {"lp": 5, "warm": 2, "single": 6, "batch": 8}
    assert line.seconds["lp"] == pytest.approx((2 * 0.8 + 3 * 0.4) / 5)
    assert line.seconds["warm"] == pytest.approx(0.1)
    assert line.proved == (4, 1)  # LiRPA's as well only where the LP was solved
    assert lp.shown_line(line)[5:9] == ("560.00 (5 of 8)", "100.00 (2 of 8)", "16.67 (6 of 8)", "1.75")
    (alone,) = lp.lines_of([measured(CUT)], {"oval_wide_unclipped": WIDE})
    assert alone.over[2:] == (None, None)
    assert lp.shown_line(alone)[6] == "–"
    (said,) = lp.said([alone])
    assert said == (
        "1 core: an LP from the parent's basis was not timed; an LP from nothing takes 200.0 times as long as a bound"
        " of LiRPA in a batch, 20.0 times as long as one alone."
    )


def test_places_are_kept_apart() -> None:
    both = [measured(FIRST), measured(SECOND, place="GPU")]
    lines = lp.lines_of(both, {"oval_wide_unclipped": WIDE})
    assert [(line.place, line.domains) for line in lines] == [("1 core", 2), ("GPU", 6)]
    assert [said.split(":")[0] for said in lp.said(lines)] == ["1 core", "GPU"]


# --- the command ---


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def command(folder: Path, *more: str) -> list[str]:
    fields = [word for name, value in SHORT.items() for word in ("--set", f"{name}={value}")]
    where = ["--data", str(folder / "data"), "--out", str(folder / "out"), "--set-name", "oval_wide"]
    return ["reproduce", "lp", *where, "--n", str(N), "--rounds", str(ROUNDS), *fields, *QUIET, *more]


def test_all_files_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_instance(tmp_path / "data" / "oval_wide")
    assert obey(command(tmp_path)) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split()[:4] == ["oval_wide", "unclipped", "1", "core"]
    assert "1/1  oval_wide: p.vnnlib, 1 core  " in err
    assert "Boxes x ± ε" in err
    assert all((tmp_path / "out" / f"lp.{suffix}").is_file() for suffix in ("csv", "png", "pdf", "html"))
    (row,) = rows_of(tmp_path / "out" / "lp.csv")
    each = rows_of(tmp_path / "out" / "lp-bounds.csv")
    assert int(row["sub_domains"]) == len(each) > 2
    ratio = float(row["lp_warm_s_per_bound"]) / float(row["lirpa_batch_s_per_bound"])
    assert float(row["lp_warm_over_batch"]) == pytest.approx(ratio)
    assert int(row["lp_proves"]) == sum(float(one["lp_bound"]) > 0 for one in each)
    page = (tmp_path / "out" / "lp.html").read_text(encoding="utf-8")
    assert "Boxes x ± ε, as in equation (10) and as published: oval_wide." in page
    assert "steps=4" in page
    assert obey(command(tmp_path)) == 0  # kept, so the seconds are the same to the last digit
    assert rows_of(tmp_path / "out" / "lp.csv") == [row]
    assert obey(command(tmp_path, "--set", "rate=0.2")) == 0  # another question
    assert len(list((tmp_path / "out" / "lp-kept").iterdir())) == 2


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data" / "oval_wide"
    _, spec = make_instance(folder)
    (folder / "q.vnnlib").write_text(spec.read_text() + "\n; another\n")
    (folder / "instances.csv").write_text("m.onnx,p.vnnlib,60\nm.onnx,q.vnnlib,60\n")
    asked = []

    def stop(*given: Any) -> Times:
        asked.append(given)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return FIRST

    monkeypatch.setattr("netproof.paper.tables.lp_times.times_of", stop)
    assert obey(command(tmp_path)) == 130
    assert "interrupted: 1 of 2 measurements are kept" in capsys.readouterr().err
    assert not (tmp_path / "out" / "lp.html").exists()
    assert obey(command(tmp_path)) == 0
    assert len(asked) == 3  # the first is not asked again
    (kept, _) = (json.loads(path.read_text()) for path in (tmp_path / "out" / "lp-kept").iterdir())
    assert Times(**kept["times"]) == FIRST


def test_what_is_left_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data" / "oval_wide"
    _, spec = make_instance(folder)
    (folder / "q.vnnlib").write_text(spec.read_text() + "\n; another\n")
    (folder / "instances.csv").write_text("m.onnx,p.vnnlib,60\nm.onnx,q.vnnlib,60\n")
    answers: list[Times | None] = [FIRST, None]
    monkeypatch.setattr("netproof.paper.tables.lp_times.times_of", lambda *given: answers.pop(0))
    assert obey(command(tmp_path)) == 0
    assert "q.vnnlib, 1 core: nothing was open" in (tmp_path / "out" / "lp.html").read_text(encoding="utf-8")
    assert [row["why_not"] for row in rows_of(tmp_path / "out" / "lp.csv")] == ["", "nothing was open after a round"]


def test_what_the_clock_ended_is_kept_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_instance(tmp_path / "data" / "oval_wide")
    answers: list[Times] = [CUT, FIRST]
    monkeypatch.setattr("netproof.paper.tables.lp_times.times_of", lambda *given: answers.pop(0))
    assert obey(command(tmp_path, "--timeout", "60")) == 0
    out, err = capsys.readouterr()
    said = (
        "ended by the limit of 60 s, of 6 sub-domains LP, from nothing on 3, LP, from the parent's basis on 0,"
        " LiRPA, one at a time on 4"
    )
    assert said in err
    assert "400.00 (3 of 6)" in out
    assert said in (tmp_path / "out" / "lp.html").read_text(encoding="utf-8").replace("&#x27;", "'")
    (row,) = rows_of(tmp_path / "out" / "lp.csv")
    assert (row["lp_timed_on"], row["lp_warm_timed_on"], row["lp_warm_s_per_bound"]) == ("3", "0", "")
    assert row["why_not"] == said
    assert [one["lp_bound"] for one in rows_of(tmp_path / "out" / "lp-bounds.csv")] == ["0.5", ""] * 3
    assert all((tmp_path / "out" / f"lp.{suffix}").stat().st_size > 1000 for suffix in ("png", "pdf"))
    assert obey(command(tmp_path, "--timeout", "60")) == 0  # no more time, so nothing is asked again
    assert rows_of(tmp_path / "out" / "lp.csv") == [row]
    assert obey(command(tmp_path, "--timeout", "61")) == 0
    (row,) = rows_of(tmp_path / "out" / "lp.csv")
    assert (row["sub_domains"], row["lp_timed_on"], row["why_not"]) == ("2", "2", "")
    assert not answers
    assert obey(command(tmp_path)) == 0  # all of it is there


def test_more_time_in_which_nothing_was_timed_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*given: Any) -> Times:
        raise DeadlineExpired

    make_instance(tmp_path / "data" / "oval_wide")
    monkeypatch.setattr("netproof.paper.tables.lp_times.times_of", lambda *given: CUT)
    assert obey(command(tmp_path, "--timeout", "60")) == 0
    (row,) = rows_of(tmp_path / "out" / "lp.csv")
    monkeypatch.setattr("netproof.paper.tables.lp_times.times_of", late)
    assert obey(command(tmp_path, "--timeout", "90")) == 0
    assert rows_of(tmp_path / "out" / "lp.csv") == [row]


def test_nothing_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_instance(tmp_path / "data" / "oval_wide")
    assert obey([*command(tmp_path, "--timeout", "1e-9"), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "nothing could be timed: not finished in 1e-09 s" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out" / "lp-kept").exists()  # with more time it is tried again
