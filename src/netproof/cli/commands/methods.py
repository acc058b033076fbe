"""`netproof methods`: what --method accepts, and the fields that --set can change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from netproof.cli import options
from netproof.cli.show.output import print_out

if TYPE_CHECKING:
    from netproof.methods.registry import MethodInfo


def methods(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show the fields of this one.", autocompletion=options.known_methods),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show the fields of all of them.")] = False,
) -> int:
    """List the methods; of one that is named, the fields that --set can change."""
    from netproof.methods.registry import METHODS

    if name is not None:
        options.check_method(name)
        print_out(_fields(METHODS[name]) + "\n")
    elif every:
        print_out("\n\n".join(map(_fields, METHODS.values())) + "\n")
    else:
        width = max(map(len, METHODS))
        print_out("".join(f"{info.name:<{width}}  {info.summary}\n" for info in METHODS.values()))
    return 0


def _fields(info: MethodInfo) -> str:
    """Write a method and its fields, one a line with what it is for."""
    lines = [f"{info.name}  {info.summary}"]
    width = max((len(_signature(field)) for field in info.fields), default=0)
    lines += [f"    {_signature(field):<{width}}  {field.help}" for field in info.fields]
    return "\n".join(lines)


def _signature(field: Any) -> str:
    """Write a field such as `probes: int = 6 (0 to 12)`."""
    kind = field.type if isinstance(field.type, str) else field.type.__name__
    text = f"{field.name}: {kind} = {'none' if field.default is None else field.default}"
    low, high = field.low, field.high
    if low is not None and high is not None:
        return f"{text} ({low} to {high})"
    if low is not None:
        return f"{text} (at least {low})"
    if high is not None:
        return f"{text} (at most {high})"
    return text
