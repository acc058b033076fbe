"""`netproof check CERTIFICATE|WITNESS MODEL SPEC`: what `npcheck` says, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from netproof.cli.exits import EXIT_INTERRUPTED


def check(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CERTIFICATE|WITNESS MODEL.onnx SPEC.vnnlib",
            help="And the options of npcheck; see npcheck --help.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Check a certificate with npcheck, which trusts nothing of netproof: line 1 is valid or invalid.

    With a counterexample (text or .npy), line 1 is violated or not violated: by the real-valued network, at this point.
    Exit 0 where it is valid, 1 where it is not, 2 where nothing could be checked, 3 where it is violated.
    """
    from netproof.certificate.installed import require_npcheck

    require_npcheck()
    try:
        return subprocess.call([sys.executable, "-P", "-m", "npcheck", *(arguments or ["--help"])])
    except KeyboardInterrupt:  # npcheck has said so
        return EXIT_INTERRUPTED
