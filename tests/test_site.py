"""The documentation builds as a site, strictly: every link leads somewhere, every page is in the navigation."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

import netproof
from netproof.campaign.store import Result
from netproof.cli import exits
from netproof.report.files import LONG
from netproof.run.schema import schemas
from support.browser import Browser
from support.pages import ROOT, options, typed, unknown
from test_docs import blocks

if not os.environ.get("CI"):
    pytest.importorskip("mkdocs", reason="mkdocs is installed by `make docs` and `make test`")

from sitegen import columns, commands, exit_codes, figures, json_page, python_api, rival
from sitegen.look import LOOKS, Look

# What a server shows for a page that is not there: it names its files from the root, which a folder has not.
NOT_READ = ("404.html",)
# The theme's script puts a button beside each piece of code into a <nav> without a name; the button has one.
THEMES_OWN = ("region-name: <nav md-code__nav>",)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built. The tests of it stand together, so that one worker builds it once for them."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


def test_the_site_is_whole(site: Path) -> None:
    """It has the pages that are written and those that are made, and nothing of it is fetched from elsewhere."""
    names = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    written = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    made = {"reference/commands.html", "reference/python.html", "reference/json.html", "reference/csv.html"}
    assert written | made | {"notebook.html", "reference/exit-codes.html"} <= names
    assert (site / "notebook.ipynb").is_file()
    for path in site.rglob("*.html"):
        head = path.read_text(encoding="utf-8").partition("</head>")[0]
        assert "fonts.googleapis" not in head
    shown = figures_on_pages()
    figures = {name.rpartition("-")[0] for name in shown}
    assert shown == {f"{name}-{look.name}.svg" for name in figures for look in LOOKS}
    assert shown == {path.name for path in (site / "images").glob("*.svg")}


def test_everybody_can_read_the_site(site: Path, tab: Browser) -> None:
    """Every page on a phone, light and dark in turn, and one at every width in both; none asks the network or fails."""
    pages = sorted(path for path in site.rglob("*.html") if path.name not in NOT_READ)
    looks = [(path, 390, i % 2 == 1) for i, path in enumerate(pages)]
    looks += [(site / "tutorial.html", width, dark) for width in (768, 1280) for dark in (False, True)]
    for path, width, dark in looks:
        tab.look(width, dark=dark)
        tab.open(path)
        assert tab.faults(THEMES_OWN) == [], (path.name, width, dark)
        assert tab.errors == [], path.name
        assert [url for url in tab.requests if not url.startswith(site.as_uri())] == [], path.name


def test_the_workflow_runs_a_command_of_today() -> None:
    """The recipe is YAML, and its steps run a command that exists and can fail a build."""
    import yaml

    (recipe,) = blocks("howto/ci.md", "yaml")
    steps = yaml.safe_load(recipe)["jobs"]["certify"]["steps"]
    lines = [words for step in steps for words in typed(step.get("run", ""))]
    (command,) = (words for words in lines if words[0] == "netproof")
    assert command[1] == "certify"
    assert "--at-least" in command
    assert not unknown(command)


def test_bars_end_within_their_frame() -> None:
    """One that ends on it looks as if it went on."""
    (axes,) = figures.bars(LOOKS[0]).axes
    low, high = axes.get_ylim()
    for bar in axes.patches:
        assert low < bar.get_y() <= bar.get_y() + bar.get_height() < high


def figures_on_pages() -> set[str]:
    pages = (path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    return {name for page in pages for name in re.findall(r"images/([\w-]+\.svg)", page)}


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_the_chart_shows_the_figures_of_the_page(look: Look) -> None:
    """`python -m sitegen.rival` draws it again where the tables of docs/performance.md have changed."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    stored = (ROOT / "docs" / "images" / f"rival-{look.name}.svg").read_text(encoding="utf-8")
    assert stored == rival.draw(look, rival.seconds(page))


def test_every_command_and_option_is_on_the_page() -> None:
    page = commands.page()
    for name, given in options().items():
        _, _, section = page.partition(f"# netproof {name}\n")
        assert section, name
        section = section.partition("\n## ")[0]
        missing = [option for option in given - {"--help", "-h"} if option.startswith("-") and option not in section]
        assert not missing, (name, missing)


def test_everything_exported_is_on_the_page_in_a_group() -> None:
    named = {name for names in python_api.GROUPS.values() for name in names}
    assert {name for name in netproof.__all__ if not name.startswith("__")} <= named
    page = python_api.page()
    assert all(f"### {name}\n" in page for name in netproof.__all__ if not name.startswith("__"))
    assert "## Others" not in page


def test_every_json_key_is_on_the_page() -> None:
    page = json_page.page()
    for name, schema in schemas().items():
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{key}` |" in section for key in schema["properties"]), name


def test_every_exit_code_is_on_the_page() -> None:
    page = exit_codes.page()
    assert all(f"| {value} |" in page for name, value in vars(exits).items() if name.startswith("EXIT_"))


def test_every_column_says_what_it_is() -> None:
    page = columns.page()
    assert "|  |" not in page
    assert all(f"| `{field.name}` |" in page for field in dataclasses.fields(Result) if field.name not in LONG)
