"""Read the network field of an instance: print the arguments of `netproof verify` for it, one a line.

    instance.py NETWORK SPEC

NETWORK is a path, or the list that instances with several networks have, as Python writes it:
[('f', 'onnx/a.onnx'), ('g', 'onnx/b.onnx')]. A path that does not lead to a file from here is looked for beside the
specification and in the folders above it, where instances.csv counts from. Little is imported: its start counts.
"""

from __future__ import annotations

import os
import sys

from netproof.core.network_list import networks_of


class Unreadable(Exception):
    """An instance that cannot be read, and why."""


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
    written = [(None, field)] if os.path.exists(field) else networks_of(field)
    networks = [(name, found(path, spec)) for name, path in written]
    if networks[0][0] is None:
        return [networks[0][1], spec]
    return [spec, *(part for name, path in networks for part in ("--network", f"{name}={path}"))]


def main() -> int:
    try:
        print("\n".join(arguments(*sys.argv[1:3])))
    except (Unreadable, ValueError, TypeError) as error:
        print(f"instance.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
