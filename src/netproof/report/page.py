"""One HTML page that needs no other file: pictures are inside, and tables scroll on a small screen."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Table:
    """Cells as text; the first `names` columns are words, the others figures. A cell of `marked` (row, column) is

    shown as something wrong.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    caption: str = ""
    folded: bool = False  # shown when asked for
    marked: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Picture:
    """An SVG drawing, and what it shows in words."""

    svg: bytes
    words: str

    @property
    def source(self) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode("ascii")


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in this order: words, warnings, a list, tables, pictures."""

    title: str
    text: str = ""
    warnings: Sequence[str] = ()
    items: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


def page(title: str, sections: Sequence[Section], *, text: str = "") -> str:
    """Make the page, with everything that it shows inside."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((files("netproof.report") / "page.html").read_text(encoding="utf-8"))
    return template.render(title=title, text=text, sections=sections)
