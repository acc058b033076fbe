"""A newcomer's first day: the tutorial as it stands, then every how-to page, with nothing written by hand.

A small CNN with MaxPool is trained and exported, looked at, proved, broken and measured on 100 images, asked a question
of its own, and the page of what failed is opened. One folder and one network serve all pages.
"""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from support.pages import ROOT, Reader, blocks, typed, unknown

DOCS = ROOT / "docs"

# Pages whose blocks other tests run, each with what it has to know: test_docs.py, test_docs_certify.py,
# test_cli_pictures.py.
ELSEWHERE = {"python.md", "torch-export.md", "benchmarking.md", "certify.md", "properties.md", "robust.md"}
# Blocks of these languages are not code that runs; each is looked at below, or shows what a block before it says.
SHOWN = {"text", "yaml", ""}


class Page(HTMLParser):
    """What a page holds: how many of each tag, its text, and where its links and pictures lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.words: list[str] = []
        self.leads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.leads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words += data.split()


HOW_TO = sorted((DOCS / "howto").glob("*.md"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's of its own exporter
def test_the_first_day(tmp_path: Path) -> None:
    """The tutorial, what it leaves behind, and then the pages that start from there, in the same folder."""
    day = Reader(tmp_path)
    assert set(day.read(DOCS / "tutorial.md")) == {"python", "sh", "text"}
    used = {words[1] for block in blocks(DOCS / "tutorial.md") if block.language == "sh" for words in typed(block.text)}
    assert used == {"inspect", "robust", "certify"}
    assert day.names["radius"].certified < day.names["radius"].broken
    assert day.names["verdict"].proved
    check_certified(tmp_path / "certified")
    for page in HOW_TO:
        Reader(tmp_path).read(page)
    assert Reader(tmp_path, image=day.names["three"][None, None]).read(DOCS / "index.md") == ["python", "text"]


def check_certified(folder: Path) -> None:
    """Open what `certify` wrote: a row for each of 100 images, and a page that is whole by itself."""
    with (folder / "results.csv").open(encoding="utf-8") as file:
        statuses = [row["status"] for row in csv.DictReader(file)]
    assert len(statuses) == 100
    assert statuses.count("proved") > 60
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    assert page.tags["table"] >= 1
    assert "broken" in page.words
    assert not [lead for lead in page.leads if re.match(r"(https?:)?//", lead)]


def test_the_readme_runs(tmp_path: Path) -> None:
    assert Reader(tmp_path).read(ROOT / "README.md") == ["sh", "text", "python", "text"]


def test_the_notebook_shows_what_its_cells_show_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored outputs are those of a run, up to numbers and pictures."""
    from sitegen import notebook

    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "notebook"}
    code = [cell for cell in notebook.cells() if cell["cell_type"] == "code"]
    assert len(code) >= 5
    for cell in code:
        now = notebook.run("".join(cell["source"]), names)
        assert [_shape(output) for output in now] == [_shape(output) for output in cell["outputs"]]


def _shape(output: dict[str, Any]) -> str:
    kept = {key: value for key, value in output.items() if key != "execution_count"}
    return re.sub(r"data:image[^'\"]*|\d[\d.]*(e-?\d+)?", "#", json.dumps(kept))


PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    """And commands that are not run have commands and options that exist."""
    run_here = page in HOW_TO or page.name in ("tutorial.md", "index.md", "README.md") or page.name in ELSEWHERE
    for block in blocks(page):
        assert run_here or block.why or block.language in SHOWN, f"{page.name}:{block.line}: not run"
        if block.language == "sh":
            wrong = [words for words in typed(block.text) if words[0] == "netproof" and unknown(words)]
            assert not wrong, f"{page.name}:{block.line}"
