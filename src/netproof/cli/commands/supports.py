"""`netproof supports --CAPABILITY`: what can be asked, in the words of the VNN-LIB 2.0 standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from netproof.cli.show.output import print_out
from netproof.errors import UsageError


def _opsets() -> list[str]:
    from netproof.model.onnx.file import OPSETS

    return [str(OPSETS.start), str(OPSETS.stop - 1)]


def _operators() -> list[str]:
    from netproof.model.onnx import operators  # noqa: F401 (it registers the converters)
    from netproof.model.onnx.context import CONVERTERS

    return sorted(CONVERTERS)


def _always(*lines: str) -> Callable[[], list[str]]:
    return lambda: list(lines)


CAPABILITIES: dict[str, Callable[[], list[str]]] = {
    "--onnx-opset-versions": _opsets,
    "--onnx-element-types": _always("real"),  # a proof is one in real arithmetic, whatever the file's type
    "--onnx-operators": _operators,
    "--vnnlib-versions": _always("1.0", "2.0"),
    "--hidden-node-theories": _always("NH", "H"),
    "--multiple-input-output-theories": _always("SIO", "MIO"),
    "--multiple-network-theories": _always("SNET", "MENET", "MINET", "MNET"),
    "--multiple-node-comparison-theories": _always("SNC", "MNC"),
    "--arithmetic-complexity-theories": _always("BND", "OUTC", "LIN", "POLY"),
    "--optimised-disjunctive-reasoning": _always("true"),
    "--serialise-assignments": _always("true"),
    "--unsat-proofs": _always("false"),
}


def supports(
    capability: Annotated[
        list[str] | None,
        typer.Argument(metavar="--CAPABILITY", help="One of: " + ", ".join(CAPABILITIES) + ".", show_default=False),
    ] = None,
) -> int:
    """Say what netproof can be asked, by VNN-LIB 2.0: one capability, its answer one item a line."""
    asked = capability or []
    if len(asked) != 1 or asked[0] not in CAPABILITIES:
        what = f"unknown capability {asked[0]!r}" if len(asked) == 1 else f"{len(asked)} capabilities, not one"
        raise UsageError(f"supports: {what}", remedy="one of: " + ", ".join(CAPABILITIES))
    print_out("\n".join(CAPABILITIES[asked[0]]()) + "\n")
    return 0
