"""What screen readers and keyboards need, and Markdown and the theme leave out: names of tables and of menus."""

from __future__ import annotations

import html
import re

HEADING_OR_TABLE = re.compile(r"<h[1-6][^>]*>(?P<heading>.*?)</h[1-6]>|(?P<table><table.*?</table>)", re.S)
HEAD, BODY_ROW = re.compile(r"<thead>.*?</thead>\s*", re.S), re.compile(r"(?<=<tr>\n)<td([^>]*)>(.*?)</td>", re.S)
PERMALINK, TAG = re.compile(r'<a class="headerlink".*?</a>', re.S), re.compile(r"<[^>]+>")
EMPTY_HEADING, HEADING = re.compile(r"<th[^>]*></th>"), re.compile(r"<th(?=[ >])")
# A menu that a page opens has the page's link as its name, and the theme names it after an empty label beside that.
MENU = re.compile(
    r'aria-labelledby="(__nav_\w+)_label"(?P<rest>[^>]*>\s*<label class="md-nav__title" for="\1">(.*?)</label>)', re.S
)


def tables(content: str) -> str:
    """Put each table into a region that scrolls and has the name of its section; say what its headings head."""
    section = ""

    def named(found: re.Match[str]) -> str:
        nonlocal section
        if found["table"] is None:
            section = _text(PERMALINK.sub("", found["heading"]))
            return found[0]
        name = html.escape(f"Table: {section}", quote=True)
        return f'<div class="table" role="region" aria-label="{name}" tabindex="0">{_headed(found["table"])}</div>'

    return HEADING_OR_TABLE.sub(named, content)


def menus(page: str) -> str:
    """Give the menus their names."""
    return MENU.sub(lambda found: f'aria-label="{html.escape(_text(found[3]), quote=True)}"{found["rest"]}', page)


def _headed(table: str) -> str:
    """Mark headings of columns; where all of them are empty, the first cell of each row is its heading."""
    head = HEAD.search(table)
    if head is None:
        return table
    if _text(head[0]):
        columns = HEADING.sub('<th scope="col"', EMPTY_HEADING.sub("<td></td>", head[0]))
        return table.replace(head[0], columns)
    return BODY_ROW.sub(r'<th scope="row"\1>\2</th>', table.replace(head[0], ""))


def _text(markup: str) -> str:
    return html.unescape(" ".join(TAG.sub("", markup).split()))
