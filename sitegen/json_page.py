"""The page of the documents that `--json` writes, from their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from netproof.run.schema import VERSION, schemas

HEAD = f"""# JSON

`--json FILE` writes everything that is known about a run; `--json -` writes it to stdout, which then holds nothing
else. In Python, `to_dict()` of a verdict or a certification has the same keys, without those about the command.

A document says its version under `schema`, now {VERSION}. It grows when a key goes or changes its meaning; new keys
leave it. Numbers that are not known are `null`; none is infinite or NaN. The tables are made from
[JSON Schema](schema.json), by which documents can be checked.
"""


def page() -> str:
    """Return the page: a table for each command, keys of objects inside others with a dot."""
    parts = [HEAD]
    for name, schema in schemas().items():
        rows = [f"| `{key}` | {kind} | {about} |" for key, kind, about in _rows(schema, "")]
        parts += [f"## {name}\n", "| key | type | |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def schema() -> str:
    """Return all schemas as one document, by command."""
    return json.dumps(schemas(), indent=2, ensure_ascii=False) + "\n"


def _rows(node: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    for key, inner in node.get("properties", {}).items():
        optional = key not in node.get("required", ())
        about = inner.get("description", "")
        values = inner.get("enum", ())
        said = about + (" (" + ", ".join(f"`{value}`" for value in values if value is not None) + ")" if values else "")
        yield prefix + key, _kind(inner), _cell(("only where there is one: " if optional else "") + said)
        yield from _rows(inner, f"{prefix}{key}.")
        yield from _rows(inner.get("items", {}), f"{prefix}{key}[].")


def _kind(node: dict[str, Any]) -> str:
    kinds = node.get("type", [])
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
