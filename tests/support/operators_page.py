"""The table in docs/operators.md, made from the registry: `python -m support.operators_page` rewrites it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from netproof.model.onnx import operators
from netproof.model.onnx.context import CONVERTERS, Converter
from netproof.model.onnx.folding.fold import foldable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"
HEADER = "| operator | how it is treated | kind |\n|---|---|---|\n"


def own() -> dict[str, Converter]:
    """Return netproof's own converters, without those that tests or other packages entered."""
    return {name: made for name, made in sorted(CONVERTERS.items()) if made.__module__.startswith(operators.__name__)}


def rows() -> list[str]:
    """Return a row for each operator: its name, the first line of its converter's docstring, its module."""
    found = []
    for name, converter in own().items():
        text = " ".join((converter.__doc__ or "").strip().split("\n\n")[0].split())
        kind = converter.__module__.removeprefix(operators.__name__ + ".")
        found.append(f"| `{name}` | {text.replace('|', chr(92) + '|')} | `{kind}` |")
    return found


def folded(names: Iterable[str]) -> str:
    """Return in one line the operators that are computed where all of their inputs are constants."""
    return "Folded: " + ", ".join(f"`{name}`" for name in sorted(names) if foldable(name)) + "."


def known_names() -> set[str]:
    """Return the names of all operators that the installed onnx knows."""
    import onnx

    return {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}


def rewritten(page: str) -> str:
    """Return the page with its table and its line of folded operators as the registry has them."""
    before, _, rest = page.partition(HEADER)
    _, _, after = rest.partition("\n\n")
    lines = after.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Folded: "))
    lines[start] = folded(known_names())
    return before + HEADER + "\n".join(rows()) + "\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
