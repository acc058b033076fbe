"""What MkDocs calls: pages and figures that are made from the code are added to those that are written."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.append(str(Path(__file__).resolve().parents[1]))

from sitegen import columns, commands, exit_codes, figures, for_everybody, json_page, notebook, python_api

CODE = re.compile(r"`[^`]*`")
# By the path of the page, what makes its text.
PAGES = {
    "reference/commands.md": commands.page,
    "reference/exit-codes.md": exit_codes.page,
    "reference/python.md": python_api.page,
    "reference/json.md": json_page.page,
    "reference/csv.md": columns.page,
    "reference/schema.json": json_page.schema,
    "notebook.md": notebook.page,
}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and figures."""
    for path, made in PAGES.items():
        files.append(File.generated(config, path, content=made()))
    for name, svg in figures.drawn():
        files.append(File.generated(config, f"images/{name}", content=svg))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Take the backslash before a bar from code in tables: GitHub needs it there, Python-Markdown would show it."""
    lines = markdown.split("\n")
    return "\n".join(CODE.sub(_without, line) if line.startswith("|") else line for line in lines)


def on_page_content(html: str, **_: Any) -> str:
    """Name the tables."""
    return for_everybody.tables(html)


def on_post_page(output: str, **_: Any) -> str:
    """Name the menus."""
    return for_everybody.menus(output)


def _without(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")
