"""The pages in a real browser: no error, no request, keyboard, contrast, 10 000 rows. Skipped where there is none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from netproof.campaign.rivals import Rival
from netproof.campaign.store import Result
from netproof.campaign.summary import Run
from netproof.dataset.result import Certification, ImageResult, ImageStatus
from netproof.dataset.store import Kept
from netproof.report.campaign import write_report
from netproof.report.dataset import write_page
from netproof.report.page import Picture, Section, Table, page
from netproof.report.rows import explorer
from support.browser import Browser
from support.campaign import a_result

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>'
WITNESS = "(" + "\n ".join(f"(X_{i} {i / 16})" for i in range(16)) + "\n (Y_0 1.0))\n"


def results() -> list[Result]:
    image = {"input_shape": "1,1,4,4", "original": " ".join(["0.5"] * 16), "read_as": 3, "was": 5, "changed": 0.5}
    sat = dataclasses.replace(a_result("b.vnnlib", "sat", total=0.2), witness=WITNESS, **image)
    return [
        dataclasses.replace(a_result("a.vnnlib", total=1.5), seconds={"root": 1.0, "search": 0.5}, folder="/f o"),
        a_result("a.vnnlib", method="lirpa", total=3.0),
        sat,
        a_result("b.vnnlib", "timeout", method="lirpa", total=20.0),
        a_result("c <i>.vnnlib", "error", benchmark="other", error="m.onnx: unsupported operator Sigmoid"),
        a_result("c <i>.vnnlib", "unsat", method="lirpa", benchmark="other", total=7.0, truth="sat"),
    ]


def certified(folder: Path) -> Path:
    statuses = (*ImageStatus, ImageStatus.BROKEN)
    images = [ImageResult(i, i % 3, i % 3, kind, 0.5, 0.1, i % 4, reason="<b>") for i, kind in enumerate(statuses)]
    kept = {i.index: Kept(i, f"{i.index}.png", 1.0, SVG if "e" in i.status[:5] else b"") for i in images}
    found = Certification(tuple(images), "1/255", "inf", 2.0)
    about = {"title": "certified", "again": "netproof certify m.onnx --data x.npz --eps 1/255 --only"}
    return write_page(found, kept, folder / "certify.html", facts=[("Machine", "a machine")], **about)


def reproduced(folder: Path) -> Path:
    """A page as `netproof reproduce` makes them: tables and pictures, nothing to search."""
    table = Table(("name", "seconds"), [("b", "2.5"), ("a", "10"), ("c", "–"), ("all", "12.5")], totals=frozenset({3}))
    folded = Table(("", "x"), [("a", "1"), ("b", "2")], caption="more", folded=True)
    parts = [
        Section("One", "by `netproof.relax`", tables=[table, folded]),
        Section("Two", pictures=[Picture(SVG, "a")]),
    ]
    path = folder / "paper.html"
    path.write_text(page("a paper", [*parts, Section("Sources", items=["x"])]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    rival = Rival("rival", "r.csv", (Run("rival", a_result("a.vnnlib", total=9.0), rival=True),), 2)
    bench = write_report(results(), folder / "report", title="netproof bench", rivals=[rival])
    return {"bench": bench, "certify": certified(folder), "reproduce": reproduced(folder)}


@pytest.fixture
def bench(tab: Browser, pages: dict[str, Path]) -> Browser:
    tab.look(1280)
    tab.open(pages["bench"])
    return tab


def column(tab: Browser, place: int) -> list[str]:
    return tab.js(
        f"[...document.querySelectorAll('.explored tbody tr')].map((row) => row.cells[{place}].innerText.trim())"
    )


@pytest.mark.parametrize("name", ["bench", "certify", "reproduce"])
def test_everybody_can_read_it(tab: Browser, pages: dict[str, Path], name: str) -> None:
    """At three widths, light and dark; nothing is loaded but the page, and it logs no error."""
    for width in (390, 768, 1280):
        for dark in (False, True):
            tab.look(width, dark=dark)
            tab.open(pages[name])
            assert tab.faults() == [], (width, dark)
            if tab.js("document.querySelector('.open-run') !== null"):
                tab.js("document.querySelector('.open-run').click()")
                assert tab.faults() == [], (width, dark, "a run is open")
            assert tab.errors == []
            assert tab.requests == [pages[name].as_uri()]


def test_the_rules_notice_what_is_wrong(tab: Browser, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(
        "<title>x</title><h1>a</h1><h3>b</h3><img src='data:,'><input><button></button><p style='color:#999'>grey</p>"
        "<table><thead><tr><th>a</th></tr></thead><tr><td>1</td><td>2</td></tr></table><p id=a></p><p id=a></p>"
        "<a href='#no'>x</a><div style='width:5000px'>wide</div>"
    )
    tab.look(1280)
    tab.open(tmp_path / "bad.html")
    broken = {line.split(":")[0] for line in tab.faults()}
    assert broken >= {
        *("html-has-lang", "landmark-one-main", "viewport", "reflow", "duplicate-id", "heading-order", "image-alt"),
        *("button-name", "label", "link-target", "th-scope", "td-headers", "target-size", "color-contrast"),
    }


def test_the_keyboard_sorts_and_opens_a_run(bench: Browser) -> None:
    assert column(bench, 5) == ["1.50", "3.00", "0.20", "20.00", "1.00", "7.00", "9.00"]
    for _ in range(80):
        bench.key("Tab")
        if bench.js("document.activeElement.textContent") == "seconds":
            break
    style = "((style) => style.outlineStyle + style.outlineWidth)(getComputedStyle(document.activeElement))"
    assert bench.js(style) == "solid3px", "one sees where one is"
    bench.key("Enter")
    bench.until("document.activeElement.parentElement.getAttribute('aria-sort')", "ascending")
    assert column(bench, 5) == ["0.20", "1.00", "1.50", "3.00", "7.00", "9.00", "20.00"]
    bench.key("Enter")
    bench.until("document.activeElement.parentElement.getAttribute('aria-sort')", "descending")
    assert column(bench, 5)[0] == "20.00"
    bench.js("document.querySelectorAll('.open-run')[6].focus()")
    bench.key("Enter")
    bench.until("document.querySelector('dialog[open]') !== null", True)
    text = bench.js("document.querySelector('dialog[open]').innerText")
    assert "b.vnnlib" in text
    assert "netproof verify onnx/m.onnx b.vnnlib --method auto" in text
    assert bench.js("location.hash") == "#row-2"
    assert "read as 3 (was 5 in the middle of the input set), changed by at most 0.5" in text
    bench.until("document.querySelector('dialog img').naturalWidth", 512)  # three panels beside each other
    assert "(X_3 0.1875)" in text
    bench.key("Escape")
    bench.until("document.querySelector('dialog[open]')", None)
    bench.until("location.hash", "")
    bench.until("document.activeElement.className", "open-run")  # back to where it was opened


def test_a_run_has_an_address(tab: Browser, pages: dict[str, Path]) -> None:
    tab.open(pages["bench"], "#row-0")
    text = tab.js("document.querySelector('dialog[open]').innerText")
    assert "netproof verify '/f o/onnx/m.onnx' '/f o/a.vnnlib' --method auto" in text
    assert "Seconds by phase" in text
    assert "1.00 s" in text


def choose(tab: Browser, selector: str, value: str) -> None:
    tab.js(
        f"(() => {{ const at = document.querySelector({selector!r}); at.value = {value!r};"
        " at.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_filters_and_search(bench: Browser) -> None:
    choose(bench, "[data-facet=verdict]", "0")
    assert column(bench, 4) == ["unsat", "unsat", "unsat wrong", "unsat"]
    assert bench.js("document.getElementById('count').textContent") == "4 of 7 runs match"
    assert "solved of 2 instances" in bench.js("document.querySelector('.plot svg').getAttribute('aria-label')")
    choose(bench, "#search", "LIRPA other")
    assert column(bench, 2) == ["c <i>.vnnlib"]
    choose(bench, "#search", "nothing such")
    assert column(bench, 0) == ["Nothing matches."]
    bench.js("document.querySelector('[type=reset]').click()")
    bench.until("document.querySelectorAll('.explored tbody tr').length", 7)
    choose(bench, "#view", "side")
    assert column(bench, 1) == ["m.onnx a.vnnlib", "m.onnx b.vnnlib", "m.onnx c <i>.vnnlib"]
    assert column(bench, 3) == ["unsat 1.50 s", "sat 0.20 s", "error 1.00 s"]
    assert bench.errors == []


def test_plots_say_which_run_a_point_is(bench: Browser) -> None:
    plot, tip = "document.querySelectorAll('.canvas svg')[1]", "document.querySelectorAll('.tip')[1].textContent"
    bench.js("document.querySelectorAll('.canvas')[1].focus()")  # which may scroll: places are measured after it
    legend = bench.js("document.querySelectorAll('.legend')[1].innerText")
    assert " ".join(legend.split()) == "unsat: 1 sat: 1 solved by neither: 1"  # of the last one is wrong
    first = "set m.onnx b.vnnlib: auto sat 0.20 s, lirpa timeout 20.00 s"
    bench.key("ArrowRight")
    bench.until(tip, first)
    bench.js(f"{plot}.scrollIntoView({{block: 'center'}})")
    x, y = bench.js(
        f"((plot, mark, box) => ['x', 'y'].map((at) =>"
        f" box[at] + mark.getAttribute('c' + at) * box.width / plot.viewBox.baseVal.width))"
        f"({plot}, {plot}.querySelector('.mark'), {plot}.getBoundingClientRect())"
    )
    bench.key("ArrowRight")
    bench.until(tip, "set m.onnx a.vnnlib: auto unsat 1.50 s, lirpa unsat 3.00 s")
    bench.mouse("mouseMoved", x + 2, y + 2)
    bench.until(tip, first)
    bench.mouse("mousePressed", x + 2, y + 2)
    bench.mouse("mouseReleased", x + 2, y + 2)
    bench.until("location.hash", "#row-2")


def test_tables_that_stand_in_the_page_are_sorted_too(tab: Browser, pages: dict[str, Path]) -> None:
    tab.open(pages["reproduce"])
    order = "[...document.querySelectorAll('table')[0].tBodies[0].rows].map((row) => row.cells[0].textContent)"
    click = "document.querySelectorAll('th button')[1].click()"
    tab.js(click)
    assert tab.js(order) == ["b", "a", "c", "all"], "numbers as numbers, what has none after them, totals last"
    tab.js(click)
    assert tab.js(order) == ["a", "b", "c", "all"]


def test_images_of_a_data_set(tab: Browser, pages: dict[str, Path]) -> None:
    tab.open(pages["certify"])
    assert tab.js("document.querySelectorAll('.gallery img').length") == 3
    choose(tab, "[data-facet=verdict]", "0")
    assert tab.js("document.querySelector('.gallery').innerText.trim()") == "image 0.png · label 0 misread"
    tab.js("document.querySelector('.gallery button').click()")
    text = tab.js("document.querySelector('dialog[open]').innerText")
    assert "<b>" in text
    assert "netproof certify m.onnx --data x.npz --eps 1/255 --only 0" in text


def test_without_script_there_is_a_table(tab: Browser, pages: dict[str, Path]) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(pages["bench"])
        root = tab.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        rows = tab.call("DOM.querySelectorAll", nodeId=root, selector="noscript table tbody tr")["nodeIds"]
        assert len(rows) == 7
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_ten_thousand_rows_are_sorted(tab: Browser, tmp_path: Path) -> None:
    """How fast is measured by benchmarks/report.py: here the machine may be busy."""
    runs = [
        Run(
            method,
            a_result(f"p{i}.vnnlib", ("unsat", "sat", "timeout")[i % 3], method=method, total=(i * 7919 % 5003) / 100),
        )
        for i in range(5000)
        for method in ("auto", "lirpa")
    ]
    part = Section("Runs", explorer=explorer(runs))
    (tmp_path / "large.html").write_text(page("large", [part]), encoding="utf-8")
    tab.look(1280)
    tab.open(tmp_path / "large.html")
    tab.js("document.querySelectorAll('.explored th button')[5].click()")
    assert column(tab, 5)[:2] == ["0.0000", "0.0000"]
    assert len(column(tab, 0)) == 100
    assert tab.js("document.getElementById('where').textContent") == "1 to 100 of 10000"
    tab.js("document.getElementById('on').click()")
    assert tab.js("document.getElementById('where').textContent") == "101 to 200 of 10000"
    assert tab.errors == []
