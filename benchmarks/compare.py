"""netproof beside a rival in the same run, both as commands: whole-process seconds, their ratio, and the verdicts.

A command is a template with {onnx}, {vnnlib} and {timeout}; files that are packed are unpacked for both beforehand.
The commands take turns, and who goes first alternates. A verdict is the last of the words unsat, sat, timeout, unknown
(or holds, violated) that the rival prints.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import options
from instances import read_sets, unpacked
from tables import say, spread, table

from netproof.campaign.instances import Instance
from netproof.errors import UsageError

GRACE = 30.0  # seconds past its limit after which a command is asked to end,
LAST_CHANCE = 5.0  # and then made to
WORDS = {
    "unsat": "unsat",
    "sat": "sat",
    "timeout": "timeout",
    "unknown": "unknown",
    "holds": "unsat",
    "violated": "sat",
}
DECIDED = ("unsat", "sat")


@dataclass(frozen=True)
class Command:
    name: str
    template: str
    result: str = ""  # the file it writes its verdict to; empty: stdout

    def filled(self, template: str, values: Mapping[str, str]) -> str:
        """Braces other than the three names stay what they are: a command may be a program."""
        return re.sub(r"\{(onnx|vnnlib|timeout)\}", lambda found: values[found[1]], template)

    def run(self, values: Mapping[str, str], limit: float) -> tuple[float, str]:
        """Seconds of the whole process, and its verdict."""
        words = [self.filled(word, values) for word in shlex.split(self.template)]
        result = Path(self.filled(self.result, values)) if self.result else None
        if result is not None:
            result.unlink(missing_ok=True)
        seconds, said, code = timed(words, limit + GRACE)
        if code is None:
            return seconds, "timeout"
        if result is not None:
            said = result.read_text() if result.is_file() else ""
        verdict = verdict_in(said)
        return seconds, verdict if verdict or code == 0 else f"exit code {code}"


def timed(words: list[str], limit: float) -> tuple[float, str, int | None]:
    """Seconds, stdout and the exit code, which is None where the process had to be ended, with all it had started."""
    began = time.perf_counter()
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"cannot run {words[0]}: {error.strerror}") from error
    with process:
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end(process)
            return time.perf_counter() - began, "", None
        except KeyboardInterrupt:
            end(process)
            raise
    return time.perf_counter() - began, said.decode(errors="replace"), process.returncode


def end(process: subprocess.Popen[bytes]) -> None:
    """With all it has started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=LAST_CHANCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def verdict_in(text: str) -> str:
    found = re.findall(rf"\b({'|'.join(WORDS)})\b", text.lower())
    return WORDS[found[-1]] if found else ""


@dataclass
class Runs:
    """Of one instance: by command, seconds and verdict of each repeat."""

    instance: Instance
    seconds: dict[str, list[float]] = field(default_factory=dict)
    verdicts: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, seconds: float, verdict: str) -> None:
        self.seconds.setdefault(name, []).append(seconds)
        self.verdicts.setdefault(name, []).append(verdict)

    def verdict(self, name: str) -> str:
        """One word, or all of them where the repeats differ."""
        return "/".join(dict.fromkeys(word or "none" for word in self.verdicts[name]))

    @property
    def ratios(self) -> list[float]:
        """The rival's seconds over netproof's, repeat by repeat."""
        return [r / n for r, n in zip(self.seconds["rival"], self.seconds["netproof"], strict=True)]

    def decided(self, *names: str) -> bool:
        """By all of them, every time."""
        return all(word in DECIDED for name in names for word in self.verdicts[name])

    @property
    def agreement(self) -> str:
        said = {name: set(self.verdicts[name]) & set(DECIDED) for name in ("netproof", "rival")}
        if len(said["netproof"] | said["rival"]) > 1:
            return "CONTRADICT"
        only = [name for name, words in said.items() if words]
        return "agree" if len(only) == 2 else f"{only[0]} only" if only else "neither"

    def row(self) -> list[str]:
        label = f"{self.instance.benchmark}: {self.instance.vnnlib.stem}"
        return [
            label,
            *(cell for name in ("netproof", "rival") for cell in (self.verdict(name), spread(self.seconds[name]))),
            self.agreement,
            spread(self.ratios),
            *([spread(above(self))] if "baseline" in self.seconds else []),
        ]


def above(runs: Runs) -> list[float]:
    """netproof's seconds less the baseline's, repeat by repeat."""
    return [n - b for n, b in zip(runs.seconds["netproof"], runs.seconds["baseline"], strict=True)]


def total(every: list[Runs]) -> list[str]:
    """Medians over the instances that both decide, of each one's median; the spread is over instances.

    What netproof takes above the baseline is over all that it decides: the rival has no part in that.
    """
    both = [runs for runs in every if runs.decided("netproof", "rival")]
    times = [[statistics.median(runs.seconds[name]) for runs in both] for name in ("netproof", "rival")]
    solved = [sum(runs.decided(name) for runs in every) for name in ("netproof", "rival")]
    cells = [
        cell for count, seconds in zip(solved, times, strict=True) for cell in (f"{count} solved", spread(seconds))
    ]
    ratios = [statistics.median(runs.ratios) for runs in both]
    last = []
    if "baseline" in every[0].seconds:
        last = [spread([statistics.median(above(runs)) for runs in every if runs.decided("netproof")])]
    return [f"median of {len(both)} decided by both", *cells, "", spread(ratios), *last]


def measure(instance: Instance, limit: float, commands: list[Command], repeats: int) -> Runs:
    runs = Runs(instance)
    with tempfile.TemporaryDirectory() as folder:
        onnx, vnnlib = unpacked(instance, Path(folder))
        values = {"onnx": str(onnx), "vnnlib": str(vnnlib), "timeout": f"{limit:g}"}
        for repeat in range(repeats):
            for command in commands if repeat % 2 == 0 else reversed(commands):
                seconds, verdict = command.run(values, limit)
                if command.name == "baseline" and verdict:
                    raise UsageError(f"the baseline ended with {verdict}: {command.template}")
                runs.add(command.name, seconds, verdict)
    say(" | ".join(runs.row()))
    return runs


def netproof_command(given: argparse.Namespace) -> str:
    words = [sys.executable, "-m", "netproof", "verify", "{onnx}", "{vnnlib}", "--timeout", "{timeout}", "--quiet"]
    words += ["--method", given.method, "--device", given.device, "--seed", str(given.seed)]
    words += ["--threads", str(given.threads)] if given.threads else []
    return shlex.join(words + [word for name, value in given.set for word in ("--set", f"{name}={value}")])


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("folder", nargs="*", help="a set, or a folder of sets (default: all in $NETPROOF_BENCHMARKS)")
    parser.add_argument("--rival", required=True, metavar="COMMAND", help="a template with {onnx} {vnnlib} {timeout}")
    parser.add_argument(
        "--rival-result", default="", metavar="FILE", help="where the rival writes its verdict (default: stdout)"
    )
    parser.add_argument("--baseline", metavar="COMMAND", help="also report netproof's seconds above those of this one")
    parser.add_argument("--first", type=options.positive, metavar="N", help="only the first N instances of each set")
    parser.add_argument("--repeats", type=options.positive, default=3, metavar="R", help="of each (default: 3)")
    parser.add_argument(
        "--timeout", type=options.above_zero, metavar="S", help="for each instance (default: that of instances.csv)"
    )
    parser.add_argument("--warm-up", action="store_true", help="run each command once on the first instance, untimed")
    parser.add_argument("--method", default="auto", help="netproof's (default: auto)")
    options.engine_options(parser)
    return parser.parse_args()


def main() -> int:
    given = arguments()
    instances = read_sets(given.folder, given.first, given.timeout)
    commands = [Command("netproof", netproof_command(given)), Command("rival", given.rival, given.rival_result)]
    header = ["instance", "netproof", "netproof s", "rival", "rival s", "verdicts", "rival/netproof"]
    if given.baseline:
        commands.append(Command("baseline", given.baseline))
        header.append("above baseline s")
    if given.warm_up:
        measure(*instances[0], commands, repeats=1)
    every = [measure(instance, limit, commands, given.repeats) for instance, limit in instances]
    print(table([header, *(runs.row() for runs in every), total(every)]))
    if given.baseline:
        print(f"\nbaseline: {spread([s for runs in every for s in runs.seconds['baseline']])} s")
    return 1 if any(runs.agreement == "CONTRADICT" for runs in every) else 0


if __name__ == "__main__":
    options.run(main)
