"""Makes Tables 1 and 2 and Figures 3 to 5 of the paper anew, part by part, with a time limit for each.

Each part is a `netproof reproduce` command, ended as by Ctrl-C when its time is up. The same call goes on where it
stopped, so that parts which need longer end after a few calls.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import options
from tables import say

PROFILES = ("released", "printed")
UNCLIPPED = ("--boxes", "unclipped")
LP_SETS = ("oval_base_med", "oval_base_hard", "oval_deep")  # as docs/paper.md has them


def parts(limit: float, sets: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return by name what `netproof reproduce` is given; limit: seconds for a property; sets: none for all."""
    seconds = ("--timeout", f"{limit:g}")
    found: dict[str, tuple[str, ...]] = {}
    for profile in PROFILES:
        method = "lirpa" if profile == "released" else "lirpa-printed"
        asked = ("--profile", profile, *UNCLIPPED, *seconds)
        found[f"table1-{profile}"] = ("table1", *asked, "--published", "--method", method, "--method", "auto")
        found[f"table2-{profile}"] = ("table2", *asked, "--first", "2")
        found[f"cpu-{profile}"] = ("cpu", *asked, "--first", "3")
        found[f"bounds-{profile}"] = ("bounds", "--profile", profile, *UNCLIPPED, "--all")
        some = ("--first", "2", "--timeout", f"{10 * limit:g}")
        found[f"lp-{profile}"] = ("lp", "--profile", profile, *UNCLIPPED, *some)
    found["rivals"] = ("table1", *UNCLIPPED, *seconds, "--published", "--method", "bdd", "--method", "lirpa-tight")
    longer = ("--first", "3", "--timeout", f"{5 * limit:g}")  # rivals that take minutes by design
    found["lp-rivals"] = ("table1", *UNCLIPPED, *longer, "--published", "--method", "babsr-lp", "--method", "gnn")
    return {name: (*command, *_sets(command[0], sets)) for name, command in found.items()}


def _sets(command: str, asked: Sequence[str]) -> list[str]:
    """Return the sets that a command is told of: Figure 3 is of one, which it has by default."""
    named = () if command == "bounds" else asked or (LP_SETS if command == "lp" else ())
    return [word for name in named for word in ("--set-name", name)]


def run(command: list[str], minutes: float) -> str:
    """Run a part until it ends or its time is up; return how it went."""
    process, began = subprocess.Popen(command), time.monotonic()
    try:
        process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):  # killed below: its store has what was done
            process.wait(60)
        return "to be continued"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    seconds = time.monotonic() - began
    return f"done in {seconds:.0f} s" if process.returncode == 0 else f"failed with exit code {process.returncode}"


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds the OVAL sets")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a folder for every part")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="(default: auto)")
    parser.add_argument(
        "--minutes", type=options.above_zero, default=9.0, metavar="M", help="for each part (default: 9)"
    )
    parser.add_argument(
        "--limit", type=options.above_zero, default=60.0, metavar="S", help="for each property (default: 60)"
    )
    parser.add_argument("--set-name", action="append", default=[], metavar="NAME", help="only this set; repeatable")
    parser.add_argument("--part", action="append", metavar="NAME", help=f"repeatable: {', '.join(parts(60))}")
    given = parser.parse_args()
    unknown = [name for name in given.part or () if name not in parts(60)]
    if not given.data.is_dir():
        parser.error(f"--data: no such folder: {given.data}")
    if unknown:
        parser.error(f"--part: {unknown[0]!r} is none (give one of {', '.join(parts(60))})")
    return given


def main() -> int:
    given = arguments()
    every = parts(given.limit, given.set_name)
    ended = 0
    for name in given.part or every:
        where = ("--data", str(given.data), "--out", str(given.out / name), "--device", given.device, "--quiet")
        how = run([sys.executable, "-m", "netproof", "reproduce", *every[name], *where], given.minutes)
        say(f"{name}: {how}")
        ended += how.startswith("done")
    return 0 if ended == len(given.part or every) else 1


if __name__ == "__main__":
    options.run(main)
