"""`npcheck CERTIFICATE MODEL.onnx SPEC.vnnlib`: the first line of the answer is `valid` or `invalid`.

With a counterexample in place of the certificate it is `violated` or `not violated`. Exit codes: 0 valid, 1 invalid or
not violated, 2 nothing could be checked (a file that cannot be read, or something unknown in it), 3 violated, 130 after
Ctrl-C. Only a proof gives 0: a script that waits for one must not take a counterexample for it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path

from npcheck import __version__
from npcheck.check import At, Checked, check
from npcheck.errors import Invalid, Refused
from npcheck.witness import is_witness, judge

OPERATORS = ("relu", "argmax", "exp", "log", "order", "product", "quotient", "root", "sigmoid", "softplus")
EXIT_VIOLATED = 3
EVERY = 2.0  # seconds between two lines of progress
LONGEST = 1000  # line


class Progress:
    """Says on stderr where a long check is."""

    def __init__(self, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock, self._leaves = quiet, clock, 0
        self._began = self._said = clock()

    def __call__(self, at: At) -> None:
        """Hear of what was read; say it now and then."""
        self._leaves += at.leaves
        now = self._clock()
        if self._quiet or now - self._said < EVERY:
            return
        self._said, seconds = now, now - self._began
        left = f", about {seconds * (1.0 - at.share) / at.share:.0f} s left" if 0.0 < at.share < 1.0 else ""
        line = (
            f"{at.share:.0%} of the certificate, {at.what}, {_counted(self._leaves, 'leaf', 'leaves')}, {seconds:.0f} s"
        )
        print(f"npcheck: {clean(line)}{left}", file=sys.stderr, flush=True)


def clean(line: str) -> str:
    """Return a line that is one, whatever names of a file are in it: no control characters, and not too long."""
    line = line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not know every character
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.exact and given.jobs > 1:
        parser.error("--exact follows the one process that checks: leave out --jobs")
    try:
        return _witness(given) if is_witness(given.certificate) else _certificate(given)
    except Invalid as fault:
        _say("invalid", clean(str(fault)))
        return 1
    except Refused as reason:
        print(f"npcheck: {clean(str(reason))}", file=sys.stderr)
        return 2
    except MemoryError:
        print("npcheck: memory ran out: nothing was decided", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("npcheck: interrupted: nothing was decided", file=sys.stderr)
        return 130
    except Exception:  # a fault of npcheck, which must not look like one of the certificate
        traceback.print_exc()
        print("npcheck: this is a fault of npcheck: nothing was decided", file=sys.stderr)
        return 2


def _say(*lines: str) -> None:
    """Write an answer to stdout; who reads it may have seen enough after the first line."""
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _certificate(given: argparse.Namespace) -> int:
    """Check a certificate."""
    progress = Progress(given.quiet)
    options = {"exact": given.exact, "seed": given.seed, "jobs": given.jobs, "only": given.only}
    checked = check(given.certificate, given.model, given.spec, progress, **options)
    _say("valid", *_shown(checked))
    return 0


def _witness(given: argparse.Namespace) -> int:
    """Evaluate a counterexample."""
    if given.only is not None:
        raise Refused("--only is about the operators that a proof rests on, and this is a counterexample")
    judged = judge(given.certificate, given.model, given.spec)
    answer = "violated" if judged.violated else "not violated"
    _say(answer, *map(clean, judged.lines), f"model {judged.model}", f"spec  {judged.spec}")
    return EXIT_VIOLATED if judged.violated else 1


def _shown(checked: Checked) -> list[str]:
    """Return what was checked, in words."""
    disjuncts, leaves = _counted(checked.targets, "disjunct"), _counted(checked.leaves, "leaf", "leaves")
    lines = [
        f"no input of the specification breaks it: {disjuncts}, {leaves}",
        "about the real-valued function of the file's weights, on boxes that hold the specification's and its float32s",
        f"model {checked.model}",
        f"spec  {checked.spec}",
    ]
    if checked.operators:
        lines.append(f"beyond ReLUs and affine operators it rests on: {', '.join(checked.operators)}")
    if checked.maps:
        lines.append(f"asked before the last maps of the network: {', '.join(checked.maps)}")
    if checked.exact is not None:
        lines.append(
            f"{_counted(checked.exact[0], 'leaf', 'leaves')} and {_counted(checked.exact[1], 'bound')} of neurons, "
            f"chosen at random (seed {checked.seed}), held in exact arithmetic too"
            + (", planes of operators taken as they are" if checked.operators else "")
        )
    if checked.balls:
        lines.append(f"{checked.balls} of the disjuncts lie in a ball, too: in its exact points, rounded outward")
    if checked.empty:
        lines.append(
            f"{checked.empty} of the disjuncts have an input whose lower end is above its upper end: they are empty"
        )
    if checked.pinned:
        lines.append(f"{checked.pinned} inputs have one value in every disjunct")
    return lines


def _count(text: str, least: int = 0) -> int:
    count = int(text)
    if count < least:
        raise ValueError
    return count


def _only(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not set(names) <= set(OPERATORS):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {', '.join(OPERATORS)}")
    return names


def _some(text: str) -> int:
    return _count(text, 1)


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="npcheck",
        description="Check a certificate that a neural network satisfies a specification on all of its inputs, or a "
        "counterexample, as text or .npy, that it does not.",
        epilog="exit: 0 valid, 1 invalid or not violated, 2 nothing could be checked, 3 violated. MODEL and SPEC may "
        "be .gz.",
    )
    parser.add_argument("certificate", type=Path, metavar="CERTIFICATE|WITNESS")
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("spec", type=Path, metavar="SPEC.vnnlib")
    parser.add_argument(
        "--exact",
        type=_count,
        default=0,
        metavar="K",
        help="do K leaves and K bounds of neurons, chosen at random, again in exact rational arithmetic",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="choose them as a run did that said this number")
    parser.add_argument(
        "--only",
        type=_only,
        metavar="NAMES",
        help=f"refuse a network with other operators beyond affine ones than these: {','.join(OPERATORS)}",
    )
    parser.add_argument(
        "--jobs", type=_some, default=1, metavar="N", help="compute bounds in N other processes, if N is more than 1"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--version", action="version", version=f"npcheck {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
