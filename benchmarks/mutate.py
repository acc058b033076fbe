"""Does any damaged file reach more than one line of error? Byte-mutants of the bundled networks and specifications.

Mutant number i of a seed is always the same. Each is read in this process as `verify` would read it, and a network is
compared with onnxruntime; what ends in anything but success or an error that netproof words itself is a fault. It is
kept as a file, and so is the traceback. Some mutants can go through the command as well, where 0 and 2 are the only
exit codes that a file may cause, and 2 comes with one line.
"""

from __future__ import annotations

import argparse
import collections
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import options
from tables import count, say, table

import netproof
from netproof.demo import copy_data
from netproof.errors import NetproofError
from netproof.model.load import load_network
from netproof.model.network import Network
from netproof.model.onnx.file import read_file
from netproof.problem.reduce import reduce
from netproof.problem.vnnlib.reader import load_property

PAIRS = ("fc-3-holds", "conv-3-two-images", "res-4-holds")
COLUMNS = ["of", "mutants", "read", "refused", "faults", "slowest s"]
TELL_EVERY = 5000
TELL_COMMANDS_EVERY = 50
COMMAND_LIMIT = 120.0  # seconds
MOST_MEMORY = 3.0  # gigabytes resident that no damaged file may bring this process or a command to
SPECIAL = {  # bytes that mean something there
    "onnx": bytes((0x00, 0x01, 0x02, 0x08, 0x0A, 0x10, 0x12, 0x7F, 0x80, 0xFF)),
    "vnnlib": b' \t\r\n;()|"<>=+-*/.0123456789eEXY_andorst',
}


@dataclass(frozen=True)
class Original:
    """A file to damage: its bytes, and which of them are not weights, where damage does more."""

    name: str
    data: bytes
    structure: tuple[int, ...]

    @property
    def kind(self) -> str:
        return "onnx" if self.name.endswith(".onnx") else "vnnlib"


@dataclass
class Tally:
    mutants: int = 0
    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    faults: collections.Counter[str] = field(default_factory=collections.Counter)

    def row(self, name: str) -> list[str]:
        faults = sum(self.faults.values())
        return [name, *(count(n) for n in (self.mutants, self.read, self.refused, faults)), f"{self.slowest:.2f}"]


class Bench:
    """The originals, a folder for the file at hand, and one for the faults."""

    def __init__(self, folder: Path, keep: Path, seed: int) -> None:
        self.folder, self.keep, self.seed = folder, keep, seed
        found = {instance.name: instance for instance in copy_data(folder / "demo")}
        paths = [(folder / "demo" / found[name].onnx, folder / "demo" / found[name].vnnlib) for name in PAIRS]
        self.models = {spec.name: model for model, spec in paths}
        self.specs = {model.name: spec for model, spec in paths}
        self.originals = [original(path) for pair in paths for path in pair]
        self.networks: dict[str, Network] = {spec.name: load_network(model) for model, spec in paths}
        self.tallies = {original.name: Tally() for original in self.originals}
        self.commands = Tally()

    def mutant(self, number: int) -> tuple[Original, Path]:
        """Number `number`, as a file."""
        source = self.originals[number % len(self.originals)]
        path = self.folder / source.name
        path.write_bytes(damaged(source, Random(f"{self.seed}:{number}")))
        return source, path

    def try_here(self, number: int) -> None:
        source, path = self.mutant(number)
        tally = self.tallies[source.name]
        tally.mutants += 1
        began = time.monotonic()
        try:
            self._read(source, path)
            tally.read += 1
        except NetproofError as error:
            tally.refused += 1
            if "\n" in str(error):
                self._fault(tally, path, number, "several lines", str(error))
        except Exception as error:  # whatever it is, finding it is what this is for
            last = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__}_{Path(last.filename).name}_{last.lineno}"
            self._fault(tally, path, number, kind, "".join(traceback.format_exception(error)))
        tally.slowest = max(tally.slowest, time.monotonic() - began)

    def _read(self, source: Original, path: Path) -> None:
        if source.kind == "onnx":
            load_network(path)
        else:
            reduce(self.networks[source.name], load_property(path))

    def try_command(self, number: int) -> None:
        source, path = self.mutant(number)
        model = path if source.kind == "onnx" else self.models[source.name]
        spec = path if source.kind == "vnnlib" else self.specs[source.name]
        inspected = source.kind == "onnx" and (number // len(self.originals)) % 2
        verified = ["verify", str(model), str(spec), "--timeout", "10", "--quiet", "--device", "cpu"]
        code, told, seconds = ask(["inspect", str(model)] if inspected else verified)
        tally = self.commands
        tally.mutants += 1
        tally.slowest = max(tally.slowest, seconds)
        tally.read += code == 0
        tally.refused += code == 2
        if code not in (0, 2):
            self._fault(tally, path, number, f"exit_{code}", told)
        elif code == 2 and not inspected and (told.count("\n") != 1 or not {model.name, spec.name} & names_in(told)):
            self._fault(tally, path, number, "not one line on the file", told)

    def _fault(self, tally: Tally, path: Path, number: int, kind: str, told: str) -> None:
        tally.faults[kind] += 1
        if sum(t.faults[kind] for t in (*self.tallies.values(), self.commands)) == 1:
            say(f"mutant {number}: {kind}")
        self.keep.mkdir(parents=True, exist_ok=True)
        saved = self.keep / f"{kind.replace(' ', '_')}{path.suffix}"
        if not saved.exists():
            saved.write_bytes(path.read_bytes())
            saved.with_suffix(f"{path.suffix}.txt").write_text(f"seed {self.seed}, mutant {number}\n{told}")


def ask(arguments: Sequence[str]) -> tuple[int | None, str, float]:
    """Exit code, stderr and seconds of the command; no exit code where it does not end."""
    began = time.monotonic()
    try:
        command = [sys.executable, "-m", "netproof", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None, f"still there after {COMMAND_LIMIT:g} s", COMMAND_LIMIT
    return done.returncode, done.stderr, time.monotonic() - began


def names_in(told: str) -> set[str]:
    return {Path(word.rstrip(":")).name for word in told.split()}


def original(path: Path) -> Original:
    data = path.read_bytes()
    kept = set(range(len(data)))
    if path.suffix == ".onnx":
        for tensor in read_file(path).model.graph.initializer:
            start = data.find(tensor.raw_data) if len(tensor.raw_data) > 16 else -1
            if start >= 0:
                kept.difference_update(range(start, start + len(tensor.raw_data)))
    return Original(path.name, data, tuple(sorted(kept)))


def damaged(source: Original, random: Random) -> bytes:
    """One to four bytes overwritten, put in, taken out or repeated, or the end cut off."""
    data = bytearray(source.data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        at = random.choice(source.structure) if random.random() < 0.7 else random.randrange(len(source.data))
        at = min(at, len(data) - 1)
        byte = random.choice(SPECIAL[source.kind]) if random.random() < 0.6 else random.randrange(256)
        way = random.random()
        if way < 0.7:
            data[at] = byte
        elif way < 0.8:
            data[at] ^= 1 << random.randrange(8)
        elif way < 0.87:
            data.insert(at, byte)
        elif way < 0.94:
            del data[at : at + random.randint(1, 8)]
        elif way < 0.98:
            data[at:at] = data[at : at + random.randint(1, 64)]
        else:
            del data[at:]
        if not data:
            break
    return bytes(data)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("--mutants", type=options.positive, default=1000, metavar="N", help="read here (default: 1000)")
    parser.add_argument("--commands", type=int, default=0, metavar="M", help="through the command (default: 0)")
    parser.add_argument("--start", type=int, default=0, metavar="I", help="number of the first mutant (default: 0)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument(
        "--memory",
        type=options.above_zero,
        default=12.0,
        metavar="GB",
        help="address space that this process and its commands may take, torch's own included (default: 12)",
    )
    parser.add_argument("--keep", type=Path, default=Path("mutants"), metavar="FOLDER", help="for what is found")
    return parser.parse_args(given)


def limit_memory(gigabytes: float) -> None:
    """A mutant that asks for too much fails here and does not bring the machine down."""
    most = int(gigabytes * 1e9)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> int:
    given = arguments()
    limit_memory(given.memory)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), given.keep, given.seed)
        for number in range(given.start, given.start + given.mutants):
            bench.try_here(number)
            if (number + 1 - given.start) % TELL_EVERY == 0:
                say(f"{number + 1 - given.start} mutants, {time.monotonic() - began:.0f} s")
        seconds = time.monotonic() - began
        for number in range(given.start, given.start + given.commands):
            bench.try_command(number)
            if (number + 1 - given.start) % TELL_COMMANDS_EVERY == 0:
                say(f"{number + 1 - given.start} commands, {time.monotonic() - began:.0f} s")
    return report(bench, given, seconds)


def report(bench: Bench, given: argparse.Namespace, seconds: float) -> int:
    rows = [tally.row(name) for name, tally in bench.tallies.items()]
    rows += [bench.commands.row("commands")] if given.commands else []
    print(table([COLUMNS, *rows]), end="\n\n")
    here, commands = peak_memory(resource.RUSAGE_SELF), peak_memory(resource.RUSAGE_CHILDREN)
    print(
        f"{given.mutants / seconds:.0f} mutants per second; peak resident memory {here:.2f} GB in this process", end=""
    )
    print(f", {commands:.2f} GB in the largest command" if given.commands else "")
    last = given.start + given.mutants - 1
    print(f"seed {given.seed}, mutants {given.start} to {last}; netproof {netproof.__version__}")
    faults: collections.Counter[str] = collections.Counter()
    for tally in (*bench.tallies.values(), bench.commands):
        faults.update(tally.faults)
    if faults:
        print("\n**faults**, kept in", given.keep)
        print("\n".join(f"- {kind}: {number}" for kind, number in faults.most_common()))
    if max(here, commands) > MOST_MEMORY:
        print(f"\n**memory**: more than {MOST_MEMORY:g} GB")
    return 1 if faults or max(here, commands) > MOST_MEMORY else 0


def peak_memory(whose: int) -> float:
    """Return the most gigabytes that were resident in this process, or in one of its finished children."""
    peak = resource.getrusage(whose).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


if __name__ == "__main__":
    options.run(main)
