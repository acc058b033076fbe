"""docs/paper.md names modules, tests and commands: each of them exists."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from netproof.cli.app import app
from netproof.methods.registry import METHODS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", PAGE)
BLOCKS = [block.replace("\\\n", " ").strip() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]


def commands() -> dict[str, set[str]]:
    """By command, its options; a command of a group is named with it."""
    import typer

    group = typer.main.get_command(app)
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        inner = {f"{name} {sub}": c for sub, c in getattr(command, "commands", {}).items()} or {name: command}
        for full, one in inner.items():
            found[full] = {option for parameter in one.params for option in parameter.opts}
    return found


FILES = sorted(
    {
        word
        for word in CODE
        if re.fullmatch(r"[\w/.]+\.(py|csv)", word) and word not in ("published.csv", "instances.csv")
    }
)


@pytest.mark.parametrize("name", FILES)
def test_every_module_and_file_exists(name: str) -> None:
    home = ROOT if name.startswith(("tests/", "benchmarks/")) else ROOT / "src" / "netproof"
    assert (home / name).is_file()


def test_there_are_modules_to_check() -> None:
    assert len(FILES) > 40


def test_every_command_and_option_exists() -> None:
    known = commands()
    inline = [word for word in CODE if word.startswith("netproof ")]
    blocks = [line for block in BLOCKS for line in block.splitlines() if line.startswith("netproof ")]
    assert len(inline) > 15
    assert len(blocks) > 6
    asked = [line.split()[1:] for line in (*inline, *blocks)]
    for words in asked:
        name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        assert name in known, words
        for option in (word for word in words if word.startswith("--")):
            assert option in known[name], (name, option)
        if name != "bounds":
            for option, value in itertools.pairwise(words):
                assert option != "--method" or value in METHODS


MEASURED = (
    *("Two kinds of boxes", "Table 1 here and there", "BaBSR's published counts", "Table 2 here and there"),
    "LiRPA against the LP, bound by bound",
)


def test_every_measured_table_has_its_command() -> None:
    """Each section with figures of ours has a command that makes them."""
    for title in MEASURED:
        section = PAGE.split(f"# {title}\n")[1].split("\n#")[0]
        assert "```sh\nnetproof " in section, title


def test_nobody_claims_the_very_same_properties() -> None:
    """Published figures are of x ± ε, and two of three tables were measured on clipped boxes."""
    assert "very same" not in PAGE


def test_functions_and_fields_in_brackets_exist() -> None:
    """As in `search/loop.py` (`run`)."""
    pairs = re.findall(r"`([\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", PAGE)
    assert len(pairs) >= 6
    for file, names in pairs:
        text = (ROOT / "src" / "netproof" / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"def {name}\b|[\"']{name}[\"']", text), (file, name)


def test_nothing_is_left_to_fill_in() -> None:
    assert not re.findall(r"\b[A-Z]+[0-9]?_[A-Z]+\b", PAGE.replace("NETPROOF_BENCHMARKS", "").replace("GNN_", ""))


@pytest.mark.parametrize("number", range(1, 11))
def test_every_equation_is_there(number: int) -> None:
    assert f"({number})" in PAGE
