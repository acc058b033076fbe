"""The networks of one instance, as VNN-COMP writes them in one field. Little is imported: a clock runs."""

from __future__ import annotations

import ast


def networks_of(field: str) -> list[tuple[str | None, str]]:
    """Read a field: a path alone, which has no name, or as Python writes it a list of names and paths.

    Such as [('f', 'onnx/a.onnx'), ('g', 'onnx/b.onnx')]. Raises a ValueError that says what is wrong.
    """
    text = field.strip()
    if text[:1] not in ("[", "(", "{"):
        return [(None, text)]
    try:
        read = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"the networks {field!r} are not a list of names and paths: {error}") from None
    pairs = list(read.items()) if isinstance(read, dict) else list(read) if isinstance(read, list | tuple) else []
    if isinstance(read, tuple) and len(pairs) == 2 and all(isinstance(part, str) for part in pairs):
        pairs = [tuple(pairs)]  # one pair without a list around it
    if len(pairs) == 1 and isinstance(pairs[0], str) and pairs[0]:
        return [(None, pairs[0])]
    fine = all(isinstance(p, list | tuple) and len(p) == 2 and all(isinstance(s, str) and s for s in p) for p in pairs)
    if not pairs or not fine or len({name for name, _ in pairs}) != len(pairs):
        raise ValueError(f"the networks {field!r} are not pairs of a name and a path, each name once")
    return [(name, path) for name, path in pairs]
