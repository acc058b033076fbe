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

from support.pages import ROOT, Reader, blocks, is_same, typed, unknown

DOCS = ROOT / "docs"

# Pages whose blocks other tests run, all of a language by `blocks(page, language)`, each with what it has to know.
ELSEWHERE = {
    "test_docs.py": (
        *(("python.md", "python"), ("torch-export.md", "python"), ("properties.md", "vnnlib")),
        *(("benchmarking.md", "sh"), ("benchmarking.md", "text"), ("benchmarking.md", "python")),
    ),
    "test_docs_certify.py": (("certify.md", "python"), ("certify.md", "sh"), ("certify.md", "text")),
    "test_site.py": (("howto/ci.md", "yaml"),),
}
# Pages that are read from the top to the bottom, in the folder that the tutorial leaves.
READ = (DOCS / "robust.md", *sorted((DOCS / "howto").glob("*.md")), DOCS / "index.md")


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
    check_notebook(day)
    for page in READ:
        Reader(tmp_path).read(page)


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("read as 0 (was 3), changed by at most 0.3 in 1.25 s", True),
        ("read as 0 (was 3), changed by at most 0.301 in 9 s", True),
        ("read as 6 (was 3), changed by at most 0.3 in 1.25 s", False),
        ("read as 0 (was 3), changed by at most 0.4 in 1.25 s", False),
        ("read as 0 (was 3), changed by at most 0.3 in 1.25 h", False),
    ],
)
def test_a_reader_compares_numbers(said: str, same: bool) -> None:
    assert is_same("read as 0 (was 3), changed by at most 0.3 in 1.25 s", said) == same


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


def check_notebook(tutorial: Reader) -> None:
    """Run the notebook's cells after those that are the tutorial's: what is stored is what they show, up to numbers."""
    from sitegen import notebook

    code = [cell for cell in notebook.cells() if cell["cell_type"] == "code"]
    first = [block.text for block in blocks(DOCS / "tutorial.md") if block.language == "python"][:2]
    assert ["".join(cell["source"]) + "\n" for cell in code[:2]] == first
    assert [len(cell["outputs"]) for cell in code[:2]] == [0, 1]
    names = dict(tutorial.after[1])
    assert len(code) >= 6
    for cell in code[2:]:
        now = notebook.run("".join(cell["source"]), names)
        assert [_shape(output) for output in now] == [_shape(output) for output in cell["outputs"]]


def _shape(output: dict[str, Any]) -> str:
    kept = {key: value for key, value in output.items() if key != "execution_count"}
    return re.sub(r"data:image[^'\"]*|\d[\d.]*(e-?\d+)?", "#", json.dumps(kept))


PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    """And commands that are not run have commands and options that exist."""
    run = {language for pairs in ELSEWHERE.values() for name, language in pairs if DOCS / name == page}
    if page in READ or page in (DOCS / "tutorial.md", ROOT / "README.md"):
        run |= Reader.LANGUAGES
    for block in blocks(page):
        assert block.why or block.language in run, f"{page.name}:{block.line}: not run"
        if block.language == "sh":
            wrong = [words for words in typed(block.text) if words[0] == "netproof" and unknown(words)]
            assert not wrong, f"{page.name}:{block.line}"


@pytest.mark.parametrize("file", ELSEWHERE)
def test_what_is_run_elsewhere_is_run_there(file: str) -> None:
    """A test that takes all blocks of a language from a page says so in these words."""
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert [pair for pair in ELSEWHERE[file] if f'blocks("{pair[0]}", "{pair[1]}")' not in text] == []
