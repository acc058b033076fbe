"""Read the network field of an instance: print the arguments of `netproof verify` for it, one a line.

    instance.py NETWORK SPEC

NETWORK is a path, or the list that instances with several networks have, as Python writes it:
[('f', 'onnx/a.onnx'), ('g', 'onnx/b.onnx')]. A path that does not lead to a file from here is looked for beside the
specification and in the folders above it, where instances.csv counts from. Only the standard library, and little of
it: its start counts.
"""

from __future__ import annotations

import ast
import os
import sys


class Unreadable(Exception):
    """An instance that cannot be read, and why."""


def networks_of(field: str) -> list[tuple[str | None, str]]:
    """Return the networks of an instance by name; a path alone has none."""
    text = field.strip()
    if text[:1] not in ("[", "(", "{") or os.path.exists(field):
        return [(None, field.strip())]
    try:
        read = ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:
        raise Unreadable(f"the networks {field!r} are not a list of names and paths: {error}") from None
    pairs = list(read.items()) if isinstance(read, dict) else list(read) if isinstance(read, list | tuple) else []
    if len(pairs) == 2 and all(isinstance(part, str) for part in pairs) and isinstance(read, tuple):
        pairs = [tuple(pairs)]  # one pair without a list around it
    if len(pairs) == 1 and isinstance(pairs[0], str):
        return [(None, pairs[0])]
    fine = all(isinstance(p, list | tuple) and len(p) == 2 and all(isinstance(s, str) for s in p) for p in pairs)
    if not pairs or not fine or len({name for name, _ in pairs}) != len(pairs):
        raise Unreadable(f"the networks {field!r} are not pairs of a name and a path, each name once")
    return [(name, path) for name, path in pairs]


def found(path: str, spec: str) -> str:
    """Return the path of a file, which may have .gz behind its name."""
    folder = os.path.dirname(os.path.abspath(spec))
    above = [folder]
    while os.path.dirname(above[-1]) != above[-1]:
        above.append(os.path.dirname(above[-1]))
    for candidate in (path, *(os.path.join(at, path) for at in above)):
        if os.path.isfile(candidate) or os.path.isfile(candidate + ".gz"):
            return candidate
    raise Unreadable(f"{path}: no such file, nor {path}.gz")


def arguments(field: str, spec: str) -> list[str]:
    """Return what `netproof verify` is given for an instance."""
    spec = found(spec, spec)
    networks = [(name, found(path, spec)) for name, path in networks_of(field)]
    if networks[0][0] is None:
        return [networks[0][1], spec]
    return [spec, *(part for name, path in networks for part in ("--network", f"{name}={path}"))]


def main() -> int:
    try:
        print("\n".join(arguments(*sys.argv[1:3])))
    except (Unreadable, TypeError) as error:
        print(f"instance.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
