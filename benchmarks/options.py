"""What the command lines of the scripts share: errors in one line, types of arguments, options of the engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from netproof.errors import NetproofError

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An error is one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def run(main: Callable[[], int]) -> NoReturn:
    """Leave with main's exit code; what the user can mend is one line and exit code 2."""
    try:
        sys.exit(main())
    except NetproofError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="(default: auto)")
    parser.add_argument("--threads", type=positive, metavar="N", help="CPU threads (default: what there is)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument(
        "--set",
        action="append",
        type=field,
        default=[],
        metavar="FIELD=VALUE",
        help="a field of the method; repeatable",
    )


def writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file in a folder that exists")
    return path


def field(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE")
    return name, value


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def positives(text: str) -> list[int]:
    """As in 1024,4096."""
    return [positive(part) for part in text.split(",")]


def above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
