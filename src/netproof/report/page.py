"""One HTML page that needs no other file: style, script, data and pictures are inside, and it loads nothing."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

SCRIPTS = ("tables.js",)  # of every page
EXPLORING = ("explore.js", "plots.js", "start.js")  # of one with an explorer: after the others, in one scope with them
VERDICTS = ("unsat", "sat", "timeout", "unknown", "error", "proved", "broken", "open", "misread")  # shown in colour


@dataclass(frozen=True)
class Table:
    """Cells as text.

    The first `names` columns are words, the others figures. A cell of `marked` (row, column) is shown as something
    wrong; rows of `totals` stay last however the table is sorted.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    caption: str = ""
    folded: bool = False  # shown when asked for
    marked: frozenset[tuple[int, int]] = frozenset()
    totals: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Picture:
    """An SVG drawing, and what it shows in words."""

    svg: bytes
    words: str

    @property
    def source(self) -> str:
        return data_uri(self.svg, "image/svg+xml")


def data_uri(content: bytes, kind: str) -> str:
    """Return the content as an address that needs no file."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


@dataclass(frozen=True)
class Explorer:
    """Rows that the page's script shows, sorts and filters (assets/explore.js says what it reads).

    plain: the same for those without JavaScript, or the first of them.
    """

    data: Mapping[str, Any]
    plain: Table

    @property
    def json(self) -> str:
        """Return the data as JSON that cannot end the element it stands in."""
        text = json.dumps(self.data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.replace("<", "\\u003c")


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in this order: words, warnings, lists, tables, pictures, an explorer."""

    title: str
    text: str = ""
    warnings: Sequence[str] = ()
    items: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()  # files beside the page, and what each is
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    explorer: Explorer | None = None  # at most one in a page


def page(title: str, sections: Sequence[Section], *, text: str = "", facts: Sequence[tuple[str, str]] = ()) -> str:
    """Make the page, with everything that it shows inside; facts: what stands at its top, each under a name."""
    explored = any(section.explorer is not None for section in sections)
    script = "\n".join(_asset(name) for name in (*SCRIPTS, *(EXPLORING if explored else ())))
    return _template().render(
        title=title,
        text=text,
        facts=facts,
        sections=sections,
        verdicts=VERDICTS,
        style=_asset("page.css").rstrip(),
        script=script.rstrip(),
    )


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(words=words, breakable=breakable)
    return environment.from_string(_asset("page.html"))


@functools.cache
def _asset(name: str) -> str:
    return (files("netproof.report") / "assets" / name).read_text(encoding="utf-8")


def words(text: str) -> str:
    """Turn prose into markup that is safe to show, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def breakable(text: str) -> str:
    """Turn a name into safe markup whose lines end behind the marks that join its parts rather than anywhere."""
    return re.sub(r"([_./-])(?=\w)", r"\1<wbr>", html.escape(text))
