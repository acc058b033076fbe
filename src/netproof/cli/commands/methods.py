"""`netproof methods`: what --method accepts, and the fields that --set can change."""

from __future__ import annotations

from typing import Any

from netproof.cli.show.output import print_out


def methods() -> int:
    """List every method with its typed fields."""
    from netproof.methods.registry import METHODS

    blocks = []
    for name, info in METHODS.items():
        lines = [f"{name}  {info.summary}"]
        width = max((len(_signature(field)) for field in info.fields), default=0)
        lines += [f"    {_signature(field):<{width}}  {field.help}" for field in info.fields]
        blocks.append("\n".join(lines))
    print_out("\n\n".join(blocks) + "\n")
    return 0


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
