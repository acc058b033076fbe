"""Functions that can be read at a glance: few parameters, few lines. Both are counted in the source of the package."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from netproof.cli.app import app

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "netproof"
PARAMETERS, LINES = 7, 60

# What users call with keywords. Each setting stands in the signature with its type and default, so that `help` and
# editors show it; gathered in an object or a TypedDict they would not. So of these only what is positional counts.
BY_KEYWORD = {"api.verify", "api.bounds", "api.attack", "dataset.certify.certify", "dataset.radius.largest_eps"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Every function and method below a node, by its dotted name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
        inner = f"{prefix}{node.name}." if isinstance(node, Function | ast.ClassDef) else prefix
        yield from functions(node, inner)


@functools.cache
def in_package() -> list[tuple[str, Function]]:
    found: list[tuple[str, Function]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found += functions(ast.parse(path.read_text(encoding="utf-8")), f"{module}.")
    return found


def parameters(function: Function, *, keywords: bool = True) -> int:
    """Count them, without `self` or `cls`; *args and **rest are one each."""
    of = function.args
    named = [*of.posonlyargs, *of.args, *(of.kwonlyargs if keywords else ())]
    rest = [one for one in (of.vararg, of.kwarg) if one is not None]
    return len(named) - bool(named and named[0].arg in ("self", "cls")) + len(rest)


def commands(of: typer.Typer) -> set[str]:
    """The functions that typer makes commands of: their parameters are the options that a user may type."""
    callbacks = [command.callback for command in of.registered_commands]
    below = [commands(group.typer_instance) for group in of.registered_groups if group.typer_instance is not None]
    named = {f"{f.__module__}.{f.__qualname__}".removeprefix("netproof.") for f in callbacks if f is not None}
    return named.union(*below)


def too_many(function: Function, name: str, exempt: set[str]) -> bool:
    return name not in exempt and parameters(function, keywords=name not in BY_KEYWORD) > PARAMETERS


def test_no_function_has_more_than_seven_parameters() -> None:
    exempt = commands(app)
    assert [(name, parameters(f)) for name, f in in_package() if too_many(f, name, exempt)] == []


def test_no_function_has_more_than_sixty_lines() -> None:
    lengths = {name: (f.end_lineno or 0) - f.lineno + 1 for name, f in in_package()}
    assert {name: lines for name, lines in lengths.items() if lines > LINES} == {}


def test_what_is_exempt_exists_and_needs_it() -> None:
    wide = {name for name, f in in_package() if parameters(f) > PARAMETERS}
    assert wide >= BY_KEYWORD
    assert wide <= BY_KEYWORD | commands(app)
    assert {"cli.commands.verify.verify", "cli.robust.command.robust", "paper.command.table1"} <= commands(app)


@pytest.mark.parametrize(
    ("signature", "count"),
    [("a, b", 2), ("self, a, /, b", 2), ("a, *, b, c=1", 3), ("cls, *args, **rest", 2), ("", 0), ("a=1, *b", 2)],
)
def test_parameters_are_counted(signature: str, count: int) -> None:
    ((name, function),) = functions(ast.parse(f"class A:\n    def f({signature}): pass"), "m.")
    assert (name, parameters(function)) == ("m.A.f", count)


def test_a_function_that_is_too_wide_is_seen() -> None:
    ((name, function),) = functions(ast.parse("async def f(a, b, c, d, *, e, g, h, i): pass"), "m.")
    assert too_many(function, name, set())
    assert not too_many(function, name, {"m.f"})
