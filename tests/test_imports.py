"""Imports go one way, and the command line starts without the heavy packages."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "netproof"

# Each part may import itself and the parts before it.
ORDER = (
    "errors",
    "arguments",
    "numerics",
    "core",
    "model",
    "problem",
    "relax",
    "bounds",
    "programs",
    "branching",
    "search",
    "certificate",
    "methods",
    "run",
    "api",
    "dataset",
    "demo",
    "workers",
    "campaign",
    "report",
    "cli",
    "paper",
    "__main__",
    "__init__",
)
LEAVES = frozenset({"_version"})  # anyone may import these; they import nothing of netproof


def part_of(path: Path) -> str:
    """The part that a file belongs to: the first name below the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def parts_imported(tree: ast.AST, package: tuple[str, ...], parts: frozenset[str]) -> list[tuple[int, str]]:
    """(line, part) of every import of netproof in `tree`, deferred ones included.

    `package` is the dotted name, from `netproof` on, of the package that the file lies in. Importing a name
    from `netproof` itself means a part of that name, if there is one, and `__init__` otherwise.
    """
    found = []
    for node in ast.walk(tree):
        targets: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            targets = [(*base, alias.name) for alias in node.names] if base == ("netproof",) else [base]
        for target in targets:
            if target[0] == "netproof":
                second = target[1] if len(target) > 1 else "__init__"
                found.append((node.lineno, second if second in parts else "__init__"))
    return found


def back_edges(part: str, imported: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Those imports that `part` must not make."""
    if part in LEAVES:
        return imported
    rank = {name: i for i, name in enumerate(ORDER)}
    return [(line, other) for line, other in imported if other not in LEAVES and rank[other] > rank[part]]


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "data" not in path.relative_to(PACKAGE).parts)


PARTS = frozenset(part_of(path) for path in modules())


def test_every_part_has_its_place() -> None:
    assert PARTS - set(ORDER) - LEAVES == set(), "give the new part its place in ORDER"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    package = ("netproof", *path.relative_to(PACKAGE).parent.parts)
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    wrong = back_edges(part_of(path), parts_imported(tree, package, PARTS))
    assert not wrong, f"{part_of(path)} must not import (line, part): {wrong}"


@pytest.mark.parametrize(
    ("part", "source", "expected"),
    [
        ("model", "import netproof.bounds.crown", [(1, "bounds")]),
        ("model", "from netproof.search import loop", [(1, "search")]),
        ("model", "from ..search.loop import run", [(1, "search")]),
        ("model", "from .. import cli", [(1, "cli")]),
        ("model", "from netproof import verify", [(1, "__init__")]),
        ("model", "import netproof", [(1, "__init__")]),
        ("model", "def f():\n    from netproof.api import verify", [(2, "api")]),
        ("_version", "from netproof.errors import NetproofError", [(1, "errors")]),
        ("model", "from . import graph\nfrom netproof.core import forms\nfrom netproof import errors", []),
        ("errors", "from netproof._version import __version__", []),
        ("cli", "import torch\nfrom netproof.demo import copy_data", []),
    ],
)
def test_back_edges_are_seen(part: str, source: str, expected: list[tuple[int, str]]) -> None:
    parts = frozenset(ORDER) | LEAVES
    found = parts_imported(ast.parse(source), ("netproof", part), parts)
    assert back_edges(part, found) == expected


@pytest.mark.parametrize("module", ["netproof", "netproof.cli.main"])
def test_start_is_light(module: str) -> None:
    """`netproof --help` must not wait for torch."""
    heavy = ("torch", "onnx", "onnxruntime", "highspy", "scipy", "matplotlib")
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
