"""Runs the blocks of a page of the documentation, in order, as its reader would.

```python blocks run in one namespace, ```sh blocks line by line with the engine itself, in a process of their own. A
```text block shows what the block before it says: each of its lines must be there, up to numbers. A block behind
`<!-- not run: why -->` is only looked at: its commands and options must exist.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))

from command import REAL, run  # noqa: E402 (the same as tests of the command line run)

FENCE = re.compile(r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n)?(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d.,]*(?:e[+-]?\d+)?%?")


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
    found = [
        Block(m["language"], m["text"], text.count("\n", 0, m.start("fence")) + 1, m["why"] or "")
        for m in FENCE.finditer(text)
    ]
    assert text.count("\n```") + text.startswith("```") == 2 * len(found), f"{page.name}: a fence is not closed"
    return found


def commands(text: str) -> list[list[str]]:
    """The words of each command of a block of shell, comments and continuations taken away."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


class Reader:
    """One who goes through pages in a folder, and keeps what Python defines on the way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}
        self.said = ""

    def read(self, page: Path, only: slice = slice(None)) -> None:
        for block in blocks(page)[only]:
            where = f"{page.relative_to(ROOT)}:{block.line}"
            if block.why:
                continue
            if block.language == "python":
                self.said = self._python(block.text, where)
            elif block.language == "sh":
                self.said = "".join(self._shell(words, where) for words in commands(block.text))
            elif block.language == "text":
                missing = [line for line in block.text.splitlines() if _plain(line) not in _lines(self.said)]
                assert not missing, f"{where}: not said: {missing}\nbut:\n{self.said}"

    def _python(self, text: str, where: str) -> str:
        said = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(said):
            exec(compile(text, where, "exec"), self.names)
        return said.getvalue()

    def _shell(self, words: list[str], where: str) -> str:
        assert words[0] == "netproof", f"{where}: {words}"
        threads = [] if words[1] in ("inspect", "methods", "report") else ["--threads", "1"]
        done = run(*words[1:], *threads, engine=REAL, cwd=self.folder)
        assert done.returncode in (0, 3), f"{where}: {done.stderr}"
        return done.stdout + done.stderr


def _plain(line: str) -> str:
    return " ".join(NUMBER.sub("#", line).split())


def _lines(said: str) -> set[str]:
    return {_plain(line) for line in said.splitlines()}
