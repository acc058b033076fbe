"""The page: everything is inside, and nothing of what it shows is taken for markup."""

from __future__ import annotations

import csv
import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from netproof.campaign.names import file_name, stable_name
from netproof.campaign.store import Result
from netproof.campaign.summary import Run, latest
from netproof.dataset.result import Certification, ImageResult, ImageStatus
from netproof.dataset.store import Kept
from netproof.errors import UsageError
from netproof.methods.registry import method_info
from netproof.report.campaign import write_report
from netproof.report.dataset import write_page
from netproof.report.files import write_vnncomp
from netproof.report.page import Picture, Section, Table, page
from support.campaign import a_result

VOID = {"meta", "img", "wbr"}


class Balanced(HTMLParser):
    """Fails on a tag that is not closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_is_whole_and_safe() -> None:
    section = Section(
        "A <b>title</b>",
        text="1 < 2",
        warnings=["no & none"],
        items=["one"],
        tables=[
            Table(("name", "s"), [("x", "1"), ("y", "2")], marked=frozenset({(1, 1)})),
            Table(("name",), [("z",)], caption="more", folded=True),
        ],
        pictures=[Picture(b"<svg/>", 'says "hello"')],
    )
    text = page("Report", [section], text="about `code` & all", facts=[("Machine", "a & b")])
    seen = Balanced(text)
    assert "A <b>title</b>" in seen.text
    assert "1 < 2" in seen.text
    assert '<td class="bad">2</td>' in text
    assert "<td>1</td>" in text
    assert "<details><summary>more</summary>" in text
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "overflow-x: auto" in text
    assert seen.links
    assert all(link.startswith("data:image/svg+xml;base64,") for link in seen.links)
    assert "http://" not in text
    assert "https://" not in text
    assert "<code>code</code> & all" in text.replace("&amp;", "&")


def some_results() -> list[Result]:
    return [
        a_result("p.vnnlib", "unsat", total=0.5, truth="unsat"),
        a_result("p.vnnlib", "timeout", method="lirpa", total=20.0, truth="unsat"),
        a_result("q.vnnlib", "sat", total=1.5, truth="unsat"),
        a_result("q.vnnlib", "error", method="lirpa", error="the worker was <killed>"),
        a_result("p.vnnlib", "unsat", benchmark="other/set", total=2.0),
    ]


def test_report(tmp_path: Path) -> None:
    path = write_report(some_results(), tmp_path / "report", title="a campaign")
    seen = Balanced(path.read_text())
    names = {file.name for file in path.parent.iterdir()}
    drawn = (
        "cactus",
        "cactus-set",
        other := f"cactus-{file_name('other/set')}",
        "scatter-auto_netproof=0.1.0-lirpa_steps=5_attack=True_netproof=0.1.0",
    )
    plots = {f"{name}.{suffix}" for name in drawn for suffix in ("png", "pdf")}
    plots -= {"cactus-set.png", f"{other}.png"}
    tables = {f"{name}.{suffix}" for name in ("summary", "speedups") for suffix in ("csv", "tex")}
    assert names == plots | tables | {"index.html", "runs.csv"}
    assert "3 instances, 5 runs, from 2026-01-01 10:00 to 2026-01-01 10:00 UTC." in " ".join(seen.text)
    assert "the worker was <killed>" in seen.text
    assert "Contradiction: set: onnx/m.onnx q.vnnlib: known to be unsat, but sat by auto" in seen.text
    assert {link for link in seen.links if not link.startswith("#")} == plots | tables | {"runs.csv"}


def test_csv_files(tmp_path: Path) -> None:
    write_report(some_results(), tmp_path)
    runs = list(csv.DictReader((tmp_path / "runs.csv").open()))
    assert [run["verdict"] for run in runs] == ["unsat", "timeout", "sat", "error", "unsat"]
    assert runs[0]["onnx_sha256"] == "1"
    assert runs[0]["versions"] == '{"netproof": "0.1.0"}'
    one, two, _, three, *_ = csv.DictReader((tmp_path / "summary.csv").open())
    assert (one["benchmark"], one["method"], one["solved"], one["wrong"], one["mean_s"]) == (
        "set",
        "auto",
        "2",
        "1",
        "1",
    )
    assert (two["timeout"], two["error"], two["mean_s"], two["mean_domains"]) == ("1", "1", "20", "10")
    assert three["benchmark"] == "other/set"


def plain(label: str, result: Result) -> Run:
    """A run as this version makes it, with the method's defaults."""
    options = method_info(result.method).options()
    attacks = method_info(result.method).attacks
    return Run(label, dataclasses.replace(result, options=options, attack=attacks, versions={}))


def test_vnncomp(tmp_path: Path) -> None:
    runs = [plain(run.label, run.result) for run in latest(some_results())]
    paths = write_vnncomp(runs, tmp_path)
    assert [path.name for path in paths] == ["results-auto.csv", "results.csv", "results-lirpa.csv"]
    assert paths[2].read_text() == (
        "set,onnx/m.onnx,p.vnnlib,0.0,timeout,20.000000\nset,onnx/m.onnx,q.vnnlib,0.0,error,1.000000\n"
    )
    assert paths[0].read_text() == paths[1].read_text()


def test_names_of_files_stay_when_configurations_join(tmp_path: Path) -> None:
    one = plain("auto", a_result())
    steps = Run("auto (steps=9)", dataclasses.replace(one.result, options={**one.result.options, "steps": 9}))
    seed = Run("auto (seed=1)", dataclasses.replace(one.result, seed=1, attack=False, device="cuda"))
    alien = Run("auto (netproof=0.1.0)", dataclasses.replace(one.result, versions={"netproof": "0.1.0"}))
    for count in range(1, 5):
        some = [one, steps, seed, alien][:count]
        names = [path.name for path in write_vnncomp(some, tmp_path)]
        assert (
            names
            == [
                *("results-auto.csv", "results.csv", "results-auto_steps=9.csv"),
                *("results-auto_attack=False_seed=1_device=cuda.csv", "results-auto_netproof=0.1.0.csv"),
            ][: count + 1]
        )
    unknown = dataclasses.replace(one.result, method="gone", options={"x": 1})
    assert stable_name(unknown) == "gone_x=1"


def test_names_of_files_are_plain() -> None:
    for label in ("auto (steps=5, seed=0)", "a/b", "../x", "é ü"):
        assert re.fullmatch(r"[A-Za-z0-9._=-]+", f"x{file_name(label)}")
        assert "/" not in file_name(label)
    assert len({file_name(label) for label in ("x y", "x_y", "x/y", "_x_y", "x" * 200, "x" * 201)}) == 6


def test_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results yet"):
        write_report([], tmp_path / "report")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(some_results(), tmp_path / "report")


def test_a_data_set_s_page_says_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures up to the room that they may take, and the folder of counterexamples where there is one."""
    images = [ImageResult(i, 1, 1, ImageStatus.BROKEN, 0.5, None, 2) for i in range(3)]
    kept = {image.index: Kept(image, f"{image.index}.png", 1.0, b"<svg/>" * 10) for image in images}
    found = Certification(tuple(images), "1/255", "inf", 2.0)
    text = write_page(found, kept, tmp_path / "index.html", title="x").read_text()
    assert "of them are drawn" not in text
    assert "counterexamples/" not in text
    (tmp_path / "counterexamples").mkdir()
    monkeypatch.setattr("netproof.report.dataset.BYTES", 100)
    text = write_page(found, kept, tmp_path / "index.html", title="x").read_text()
    assert "The first 2 of them are drawn." in text
    assert "counterexamples/" in text
