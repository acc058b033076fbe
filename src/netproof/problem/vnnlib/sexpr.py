"""S-expressions that remember where they stand in their file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from netproof.errors import SpecError

# Readers of the tree recurse once or twice per level, so the depth is limited where the tree is made.
MAX_DEPTH = 200

BLANKS = " \t\r\n"  # all that SMT-LIB 2.6 has

# A parenthesis, a comment, a string, a quoted symbol, a plain atom, or a quote that nothing closes.
_TOKEN = re.compile(rf'[()]|;[^\r\n]*|"(?:[^"]|"")*"|\|[^|]*\||[^{BLANKS}();"|]+|["|]')
_LONG = re.compile(r"\S{61,}")


def cut(message: str) -> str:
    """Cut words of more than 60 characters, which a file may have of any length."""
    return _LONG.sub(lambda word: word.group()[:57] + "...", message)


@dataclass(frozen=True)
class Source:
    """The text of a specification and its file's name."""

    text: str
    file: str = ""

    def place(self, at: int) -> tuple[int, int]:
        """Return line and column of the character `at`, both counted from 1; lines end with LF, CR or both."""
        ends = self.text.count("\n", 0, at) + self.text.count("\r", 0, at) - self.text.count("\r\n", 0, at)
        return ends + 1, at - max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at))

    def error(self, message: str, at: int, remedy: str | None = None) -> SpecError:
        line, column = self.place(at)
        remedy = None if remedy is None else cut(remedy)
        return SpecError(cut(message), file=self.file or None, line=line, column=column, remedy=remedy)


@dataclass(slots=True)
class Atom:
    text: str
    at: int  # offset in the source; `Source.place` turns it into line and column

    def __str__(self) -> str:
        return self.text if len(self.text) <= 40 else self.text[:37] + "..."


@dataclass(slots=True)
class Group:
    """A parenthesised list; `at` is its opening parenthesis."""

    items: list[SExpr]
    at: int

    @property
    def head(self) -> str:
        """Return the leading atom, or "" when there is none."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Atom) else ""

    def __str__(self) -> str:
        return f"({self.head} ...)" if self.head else "(...)"


SExpr = Atom | Group


def _stray(source: Source, token: str, at: int) -> SpecError:
    """Make the error for a character that only looks like a blank, such as a no-break space, or is invisible."""
    offset, char = next((i, char) for i, char in enumerate(token) if not char.isprintable())
    return source.error(
        f"the character U+{ord(char):04X} separates nothing",
        at + offset,
        "only space, tab and line ends are blanks: replace it by a space, or remove it",
    )


def parse(source: Source) -> list[Group]:
    """Read the groups of a file, in order; SpecError for atoms outside every group, and for bad parentheses."""
    top: list[Group] = []
    open_groups: list[Group] = []
    for match in _TOKEN.finditer(source.text):
        token = match.group()
        first = token[0]
        if first == "(":
            group = Group([], match.start())
            (open_groups[-1].items if open_groups else top).append(group)
            open_groups.append(group)
            if len(open_groups) > MAX_DEPTH:
                raise source.error(
                    f"parentheses are nested deeper than {MAX_DEPTH}",
                    match.start(),
                    "flatten the formula: and, or, + and * take any number of arguments",
                )
        elif first == ")":
            if not open_groups:
                raise source.error("')' closes nothing", match.start(), "remove it, or add the missing '('")
            open_groups.pop()
        elif first == ";":
            continue
        elif token in ('"', "|"):
            raise source.error(f"{token} is never closed", match.start(), f"add the closing {token}")
        elif first not in '"|' and not token.isprintable():
            raise _stray(source, token, match.start())
        elif not open_groups:
            raise source.error(
                f"unexpected {str(Atom(token, 0))!r} outside parentheses",
                match.start(),
                "every command of a VNN-LIB file stands in parentheses",
            )
        else:
            open_groups[-1].items.append(Atom(token, match.start()))
    if open_groups:
        raise source.error("'(' is never closed", open_groups[-1].at, "add the missing ')'")
    if not top:
        raise SpecError("the file has no commands", file=source.file or None, remedy="give a VNN-LIB 1.0 file")
    return top
