"""Runs the blocks of a page of the documentation, in order, as its reader would.

Blocks of `python` run in one namespace, those of `sh` line by line with the engine itself, in a process of their own. A
`text` block shows what the block before it says: each of its lines must be there, whole numbers too, others as nearly
as training on another machine repeats them, and no seconds. A block behind
`<!-- not run: why -->` is only looked at: its commands and options must exist. So is every block of a page that begins
with `<!-- no block of this page is run: why -->`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from netproof.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
sys.path.append(str(ROOT))  # for the package `sitegen`

from command import REAL, run  # noqa: E402 (as tests of the command line run it)

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
PAGE = re.compile(r"<!-- no block of this page is run: (?P<why>[^\n]+) -->\n")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?P<seconds> s\b)?")
NEAR = 0.02  # by which numbers that are not whole may differ


@dataclass(frozen=True)
class Block:
    """A fenced block; `why` it is not run, empty where it is."""

    language: str
    text: str
    line: int
    why: str = ""


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    of_all = PAGE.match(text)
    why = of_all["why"] if of_all else ""
    found = [
        Block(m["language"], m["text"], text.count("\n", 0, m.start("language")) + 1, m["why"] or why)
        for m in FENCE.finditer(text)
    ]
    assert text.count("\n```") + text.startswith("```") == 2 * len(found), f"{page.name}: a fence is not closed"
    return found


def typed(text: str) -> list[list[str]]:
    """The words of each command of a block of shell, comments and continuations taken away."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@functools.cache
def options() -> dict[str, frozenset[str]]:
    """By command, its options; a command of a group is named with it."""
    group: Any = typer.main.get_command(app)
    found = {}
    for name, command in group.commands.items():
        inner = {f"{name} {sub}": below for sub, below in getattr(command, "commands", {}).items()}
        for full, one in (inner or {name: command}).items():
            names = {option for p in one.params for option in (*p.opts, *p.secondary_opts)}
            found[full] = frozenset({*names, "--help", "-h"})
    return found


def unknown(words: list[str]) -> list[str]:
    """What of a command of netproof does not exist: the command itself, or options of it."""
    name = " ".join(words[1:3]) if " ".join(words[1:3]) in options() else words[1]
    if name not in options():
        return [] if name.startswith("--") else [name]
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [option for option in given if option not in options()[name]]


class Reader:
    """One who goes through pages in a folder, and keeps what Python defines on the way."""

    LANGUAGES = frozenset({"python", "sh", "text"})

    def __init__(self, folder: Path, **names: Any) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page", **names}
        self.said = ""
        self.after: list[dict[str, Any]] = []  # the names after each block of Python

    def read(self, page: Path) -> list[str]:
        """Run a page; return the languages of the blocks that were run."""
        done = []
        for block in blocks(page):
            where = f"{page.relative_to(ROOT)}:{block.line}"
            if block.why or block.language not in self.LANGUAGES:
                continue
            if block.language == "python":
                self.said = self._python(block.text, where)
                self.after.append(dict(self.names))
            elif block.language == "sh":
                self.said = "".join(self._shell(words, where) for words in typed(block.text))
            else:
                said = self.said.splitlines()
                missing = [line for line in block.text.splitlines() if not any(is_same(line, one) for one in said)]
                assert not missing, f"{where}: not said: {missing}\nbut:\n{self.said}"
            done.append(block.language)
        return done

    def _python(self, text: str, where: str) -> str:
        said = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(said):
            exec(compile(text, where, "exec"), self.names)
        return said.getvalue()

    def _shell(self, words: list[str], where: str) -> str:
        assert words[0] == "netproof", f"{where}: {words}"
        threads = ("--threads", "1") if "--threads" in options()[words[1]] else ()
        done = run(*words[1:], *threads, engine=REAL, cwd=self.folder)
        assert done.returncode == 0, f"{where}: exit {done.returncode}: {done.stderr}"
        return done.stdout + done.stderr


def is_same(shown: str, said: str) -> bool:
    """Say whether a line of a page is what was said: the same words and numbers."""
    if _words(shown) != _words(said):
        return False
    pairs = zip(NUMBER.finditer(shown), NUMBER.finditer(said), strict=True)
    return all(one["seconds"] or _near(one[0], other[0]) for one, other in pairs)


def _words(line: str) -> list[str]:
    return NUMBER.sub(lambda number: "#" + (number["seconds"] or ""), line).split()


def _near(shown: str, said: str) -> bool:
    if re.fullmatch(r"-?\d+", shown):
        return shown == said
    return abs(float(shown) - float(said)) <= NEAR * abs(float(shown))
