"""What people read fits 45, 60 and 80 columns, and no verdict, method or radius is ever cut."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import netproof
from netproof.campaign.instances import Instance
from netproof.campaign.jobs import Job
from netproof.campaign.run import Event
from netproof.cli.commands import campaign_view, demo
from netproof.cli.robust import command as robust
from netproof.cli.robust.question import Row
from netproof.cli.show import layout, progress
from netproof.cli.show.answer import Answer
from netproof.core.shown import line, progress_bar
from netproof.demo import Instance as Bundled
from netproof.methods.registry import METHODS
from netproof.run.record import Record
from support.campaign import a_result

WIDTHS = (45, 60, 80)
LONG = "lirpa-tight"


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


def printed(thing: Any, width: int) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(thing)
    text = console.export_text()
    assert all(len(one) <= width for one in text.splitlines()), text
    return text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def display(monkeypatch: pytest.MonkeyPatch, timeout: float | None = 60.0) -> Any:
    clock = Clock()
    monkeypatch.setattr(line, "time", clock)
    shown = progress.Display(started=100.0, timeout=timeout)
    return shown, clock


SEARCHING = {"phase": "search", "lower_bound": -0.85, "upper_bound": 0.25, "domains": 100, "frontier": 3000}


def test_progress_says_what_is_needed_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, clock = display(monkeypatch)
    assert shown.line() == "reading · 0 s · 1 min 00 s left"
    shown.update({"progress": SEARCHING})
    clock.now = 102.0
    shown.update({"progress": {**SEARCHING, "domains": 2006, "frontier": 2385}})
    assert shown.line() == "branching · [-0.85 … +0.25] need > 0 · 2385 open ↓ · 953/s · 2 s · 58 s left"
    shown.update({"progress": {**SEARCHING, "domains": 2007, "frontier": 3001, "problem": 1, "problems": 4}})
    assert shown.line(60) == "branching 2 of 4 · [-0.85 … +0.25] need > 0 · 3001 open ↑"
    assert shown.line(45) == "[-0.85 … +0.25] need > 0 · 3001 open ↑"
    shown.update({"progress": {"phase": "attack"}, "title": "eps 0.1297"})
    assert shown.line(45) == "eps 0.1297 · looking for a counterexample"


def test_the_line_of_a_radius_keeps_the_radius(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown, _ = display(monkeypatch)
    wide = {**SEARCHING, "lower_bound": -1.234e-05, "upper_bound": 123456.0, "problem": 3, "problems": 12}
    shown.update({"progress": wide, "title": "eps 0.1297"})
    said = shown.line(width)
    assert len(said) <= width + 3  # at 45 columns it may take a second line: it is folded, not cut
    assert said.startswith("eps 0.1297 · ")
    assert "[-1.23e-05 … +1.23e+05] need > 0" in said


def test_certify_shows_a_bar_and_the_time_left(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown, clock = display(monkeypatch, None)
    clock.now = 110.0
    shown.update({"progress": {"phase": "attack", "done": 0, "images": 1000}})
    clock.now = 120.0
    shown.update({"progress": {"phase": "search", "done": 250, "images": 1000}})
    said = shown.line(width)
    assert len(said) <= width
    assert "250 of 1000 images · search" in said
    assert shown.line() == "█████░░░░░░░░░░░░░░░ · 250 of 1000 images · search · 20 s · about 30 s left"


def test_the_table_of_radii_keeps_radii_and_verdicts(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    record = Record("timeout", lower_bound=-0.63123, domains=1234567)
    rows = [
        Row(Fraction("0.1296875"), Answer(record, "cpu"), 12.34),
        Row(Fraction(1, 3), Answer(record.but(verdict="unknown"), "cpu"), 1234.5),
    ]
    robust._table(rows, largest=True)
    said = capsys.readouterr().err
    assert all(len(one) <= width for one in said.splitlines()), said
    assert "…" not in said
    for words in (["0.1296875", "timeout", "-0.63123"], ["1/3", "undecided", "-0.63123"]):
        assert any(one.split()[:3] == words for one in said.splitlines()), said
    assert ("1234.50" in said) == (width >= 60)


def test_the_demo_keeps_its_verdicts(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    one = Bundled("conv-3-two-images", "onnx/digits-conv.onnx", "v.vnnlib", "i.png", 3, 0.08, "unsat", "?")
    demo.show([demo.Row(one, Record("unsat"), 1.5, "")], Path("out"))
    table = capsys.readouterr().out.splitlines()[:4]
    assert all(len(one) <= width for one in table)
    assert any("conv-3-two-images" in one and "0.08" in one and "proved" in one for one in table)


def test_a_campaign_keeps_methods_and_verdicts(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(campaign_view, "time", clock)
    instance = Instance("set", Path("a-long-name-of-a-network.onnx"), Path("and-of-a-property-17.vnnlib"), 60.0, "sat")
    view = campaign_view.View(total=40, methods=["auto", LONG], quiet=True)
    view._console = Console(width=width, file=io.StringIO())
    clock.now = 120.0
    for k in range(10):
        view.on_event(Event("finished", 0, result=a_result(verdict="timeout", method=LONG, vnnlib=f"{k}.vnnlib")))
    view.on_event(Event("started", 1, Job(instance, LONG, timeout=60.0)))
    view.on_event(Event("progress", 1, progress={"phase": "search", "domains": 1234567}))
    said = printed(view.tables(), width)
    assert said.count(LONG) == 2
    assert "property-17.vnnlib"[-15:] in said
    assert "10 of 40 runs" in said
    assert "about 1 min 00 s left" in said
    if width == 80:
        assert any(one.split() == [LONG, "0", "0", "0", "10", "0", "0", "0"] for one in said.splitlines()), said
    else:
        assert f"{LONG}: 10 timeout" in said
        assert "auto: nothing yet" in said


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_the_narrowest_table(method: str) -> None:
    columns = [layout.Column("method"), layout.Column("solved", right=True), layout.Column("at", 1)]
    assert method in printed(layout.fitting_table(columns, [[method, "12", "x" * 60]], 45), 45)


def test_bars_and_times() -> None:
    assert [line.bar(k, 4, 4) for k in (0, 1, 4)] == ["░░░░", "█░░░", "████"]
    assert line.bar(0, 0, 2) == "░░"
    assert layout.ending("abcdef", 4) == "…def"
    assert layout.ending("abc", 4) == "abc"


def test_a_bar_for_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal has one line that changes and is cleared; a file has a line now and then; each run begins anew."""
    terminal, clock = Terminal(), Clock()
    for module in (line, progress_bar):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setenv("COLUMNS", "61")
    with netproof.progress_bar(terminal) as bar:
        bar(netproof.Progress("search", -0.5, 0.25, 10, 7, remaining=30.0, seconds=2.0))
        clock.now += 0.05
        bar(netproof.Progress("search", -0.4, 0.25, 12, 7, remaining=30.0, seconds=2.1))  # too soon to show
        clock.now += 0.1
        bar(netproof.CertifyProgress("bound", 3, 10, 1.0))
    first, second, cleared, last = terminal.getvalue().split("\r")[1:]
    assert first == "branching · [-0.5 … +0.25] need > 0 · 7 open · 30 s left"
    assert second.rstrip() == "██████░░░░░░░░░░░░░░ · 3 of 10 images · bound · 0 s"
    assert not cleared.strip()
    assert last == ""
    plain = io.StringIO()
    with netproof.progress_bar(plain) as bar:
        for k in range(8):
            bar(netproof.Progress("search", float("-inf"), 0.25, k, 7, seconds=float(k)))
            clock.now += 1.0
    assert plain.getvalue() == "netproof: branching · 7 open · 1/s · 5 s\n"
