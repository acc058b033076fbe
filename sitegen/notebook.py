"""The notebook in the documentation: run, stored with what it shows, and turned into a page.

`python -m sitegen.notebook` runs every cell again and stores its outputs. No kernel is needed: cells run in this
process, and what a notebook would show of the last expression of a cell is kept.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "docs" / "notebook.ipynb"


def cells(file: Path = FILE) -> list[dict[str, Any]]:
    """Return the cells as they are stored."""
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return found


def run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell and return its outputs: what it printed, and its last expression as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(said.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        if html := getattr(value, "_repr_html_", None):
            data["text/html"] = lines(html())
        outputs.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data})
    return outputs


def lines(text: str) -> list[str]:
    """Return a text as a notebook stores it, without spaces at the ends of lines."""
    return re.sub(r"[ \t]+$", "", text.rstrip("\n"), flags=re.MULTILINE).splitlines(keepends=True)


def execute(file: Path = FILE) -> None:
    """Run all cells in an empty folder and store what they show."""
    found = cells(file)
    names: dict[str, Any] = {"__name__": "notebook"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate((cell for cell in found if cell["cell_type"] == "code"), 1):
            cell["outputs"] = run("".join(cell["source"]), names)
            cell["execution_count"] = number
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = number
    write(found, file)


def write(found: list[dict[str, Any]], file: Path = FILE) -> None:
    """Store cells as a notebook of format 4.5, each with a name of its own."""
    for number, cell in enumerate(found):
        cell["id"] = f"cell-{number}"
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    document = {"cells": found, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page() -> str:
    """Return the notebook as a page: text, code and what the code shows."""
    parts = []
    for cell in cells():
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```python\n{source}\n```")
            parts += [_shown(output) for output in cell["outputs"]]
    return "\n\n".join([*parts, ""])


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="notebook-output">{"".join(data["text/html"])}</div>'
    return "```text\n" + "".join(data.get("text/plain", output.get("text", []))) + "\n```"


if __name__ == "__main__":
    execute()
