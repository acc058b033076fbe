"""What the source says of the fields of a dataclass: the comment behind each, or on the lines above it."""

from __future__ import annotations

import inspect
import re

FIELD = re.compile(r"    (\w+): [^#\n]*?(?:#\s*(.*))?$")


def comments(of: type) -> dict[str, str]:
    """Return by field the comment that stands behind it in the source; empty where there is none."""
    found = {}
    for line in inspect.getsource(of).splitlines():
        if line.startswith("    @") or line.startswith("    def "):
            break  # fields come first
        if match := FIELD.match(line):
            found[match.group(1)] = (match.group(2) or "").strip()
    return found


def sentence(text: str) -> str:
    """Return a comment as the cell of a table."""
    return text[:1].upper() + text[1:].replace("|", "\\|") if text else ""
