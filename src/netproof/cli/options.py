"""What was typed, read: files known by their suffix, numbers, and options that several commands share."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

import typer

from netproof.core.cpu import available_cpus
from netproof.core.machine.allowance import read_caps
from netproof.errors import UsageError
from netproof.problem.decimal import LIMITS, decimal

# Groups of options in --help.
SEARCH, OUTPUTS = "Search", "Output"

DEVICES = ("auto", "cpu", "cuda")
SUFFIXES = {".onnx": "model", ".vnnlib": "spec"}


def known_methods(incomplete: str) -> list[str]:
    """Return the methods whose names begin so, for the shell to complete."""
    from netproof.methods.registry import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]


def not_empty(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Refuse an empty name, which would be this very folder: a variable of the shell that is not set is one."""
    if value == "":
        name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
        raise UsageError(f"{name}: the name is empty", remedy="give a folder; . is the present one")
    return value


Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", "-t", metavar="S", help="Seconds in all, start-up counted. (default: none)", rich_help_panel=SEARCH
    ),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.", rich_help_panel=SEARCH)]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="CPU threads. (default: what the container grants)",
        show_default=False,
        rich_help_panel=SEARCH,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="auto|NAME",
        help="See `netproof methods`.",
        autocompletion=known_methods,
        rich_help_panel=SEARCH,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="A field of the method, as `netproof methods NAME` lists them; repeatable.",
        rich_help_panel=SEARCH,
    ),
]
Attack = Annotated[
    bool | None,
    typer.Option(
        "--attack/--no-attack",
        help="Look for counterexamples first. (default: yes; no with lirpa and the rivals)",
        show_default=False,
        rich_help_panel=SEARCH,
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", help="The same seed gives the same run on one device.", rich_help_panel=SEARCH)
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory to stay within, GPU and host each, as 8G; or gpu=16G,host=8G. (default: what is free)",
        show_default=False,
        rich_help_panel=SEARCH,
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write everything known as JSON; - for stdout, which then holds nothing else.",
        rich_help_panel=OUTPUTS,
    ),
]
Network = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="NAME=MODEL.onnx",
        help="The model of a network of a VNN-LIB 2.0 query; repeatable.",
    ),
]
WitnessFile = Annotated[
    str | None,
    typer.Option(
        "--witness",
        metavar="FILE",
        help="Save a counterexample: .npy the array, .png the image itself, else text.",
        rich_help_panel=OUTPUTS,
    ),
]
PictureFile = Annotated[
    str | None,
    typer.Option(
        "--picture",
        metavar="FILE.png",
        help="Draw a counterexample of an image beside the original and the difference.",
        rich_help_panel=OUTPUTS,
    ),
]
Certificate = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="After a proof, write a certificate of it, which npcheck can check alone.",
        rich_help_panel=OUTPUTS,
    ),
]
Certificates = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="After each proof, write a certificate of it there, which npcheck can check alone.",
        rich_help_panel=OUTPUTS,
        callback=not_empty,
    ),
]
CertificateTimeout = Annotated[
    float,
    typer.Option(
        metavar="S", help="Seconds for writing it after the verdict, and for checking it.", rich_help_panel=OUTPUTS
    ),
]
CertificateCheck = Annotated[
    bool,
    typer.Option(
        "--certificate-check/--no-certificate-check",
        help="Have npcheck check what was written.",
        rich_help_panel=OUTPUTS,
    ),
]
Output = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="NAME",
        help="A tensor that the outputs are, also from inside the network; repeatable. (default: all outputs)",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.", rich_help_panel=OUTPUTS)]


@dataclass(frozen=True)
class Engine:
    """The options that go to the engine, checked as far as this is possible without it."""

    method: str
    device: str
    threads: int
    timeout: float | None
    options: dict[str, str]
    seed: int = 0
    attack: bool | None = None  # None: as the method has it
    outputs: tuple[str, ...] | None = None  # None: all of the file's
    memory: str | None = None  # None: what is free

    def asking(self, outputs: Sequence[str] | None, memory: str | None = None) -> Engine:
        """Return the same for tensors by name, within caps on memory; UsageError where these cannot be read."""
        read_caps(memory, "--memory")
        return replace(self, outputs=tuple(outputs) if outputs else None, memory=memory)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for `netproof.api.verify`; the deadline comes from the supervisor."""
        return {name: value for name, value in vars(self).items() if name != "timeout"}


def engine(
    *,
    method: str,
    device: str,
    threads: int | None,
    timeout: float | None,
    settings: Sequence[str] | None,
    seed: int = 0,
    attack: bool | None = None,
) -> Engine:
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise UsageError(
            f"--timeout: {timeout:g} is not a time limit", remedy="give seconds above 0, as in --timeout 60"
        )
    if device not in DEVICES:
        raise UsageError(f"--device: unknown device {device!r}", remedy="use auto, cpu or cuda")
    if threads is not None and threads < 1:
        raise UsageError(f"--threads: {threads} is not a number of threads", remedy="give 1 or more")
    if not 0 <= seed < 2**63:
        raise UsageError(f"--seed: {seed} is out of range", remedy="give a number from 0 to 2^63 − 1")
    chosen = read_settings(method, settings or ())
    return Engine(method, device, threads or available_cpus(), timeout, chosen, seed, attack)


def read_settings(method: str, settings: Iterable[str]) -> dict[str, str]:
    """Read FIELD=VALUE pairs; UsageError for an unknown method or field, a field given twice, or a wrong value."""
    from netproof.methods.registry import METHODS

    check_method(method, "--method: ")
    known = [field.name for field in METHODS[method].fields]
    chosen: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or not value:
            raise UsageError(f"--set: {setting!r} is not FIELD=VALUE", remedy="as in --set batch=200")
        if name not in known:
            raise UsageError(
                f"--set: method {method!r} has no field {name!r}{_nearest(name, known)}",
                remedy="it has " + ", ".join(known) if known else "it has no fields",
            )
        if name in chosen:
            raise UsageError(f"--set: {name!r} is given twice", remedy="give it once")
        chosen[name] = value
    try:
        METHODS[method].options(chosen)  # refuses values of the wrong type or out of range
    except UsageError as error:
        raise UsageError(f"--set {error.message}", remedy=error.remedy) from None
    return chosen


def check_method(name: str, option: str = "") -> None:
    """Raise UsageError unless there is such a method."""
    from netproof.methods.registry import METHODS

    if name not in METHODS:
        raise UsageError(
            f"{option}unknown method {name!r}{_nearest(name, METHODS)}",
            remedy="see `netproof methods`; known: " + ", ".join(METHODS),
        )


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def model_and_spec(files: Sequence[str], instead: str = "") -> tuple[str, str]:
    """Return the model and the spec, given in either order, told apart by their suffixes.

    instead: what may be given in place of a spec, said where there is none.
    """
    found: dict[str, str] = {}
    for path in files:
        kind = SUFFIXES.get(_suffix(path))
        if kind is None:
            raise UsageError(
                "neither a model nor a spec by its name",
                file=path,
                remedy="a model ends in .onnx, a spec in .vnnlib, either may add .gz",
            )
        if kind in found:
            raise UsageError(
                f"a second {kind}, after {found[kind]}", file=path, remedy="give one .onnx and one .vnnlib"
            )
        found[kind] = existing(path)
    for suffix, kind in SUFFIXES.items():
        if kind not in found:
            other = f", or {instead}" if instead and kind == "spec" else ""
            raise UsageError(f"no {kind} was given", remedy=f"add a {suffix} file{other}")
    return found["model"], found["spec"]


def query_and_networks(files: Sequence[str], networks: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a VNN-LIB 2.0 query and, by name, the models of its networks, given as NAME=PATH."""
    if len(files) != 1 or SUFFIXES.get(_suffix(files[0])) != "spec":
        raise UsageError(
            "with --network only the query is given besides",
            remedy="netproof verify QUERY.vnnlib --network NAME=MODEL.onnx",
        )
    found: dict[str, str] = {}
    for network in networks:
        name, equals, path = network.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"--network: {network!r} is not NAME=PATH", remedy="as in --network f=model.onnx")
        if name in found:
            raise UsageError(f"--network: {name!r} is given twice", remedy="give each network once")
        found[name] = model_file(path)
    return existing(files[0]), found


def model_file(path: str) -> str:
    if _suffix(path) != ".onnx":
        raise UsageError("not a model by its name", file=path, remedy="a model ends in .onnx or .onnx.gz")
    return existing(path)


def _suffix(path: str) -> str:
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def existing(path: str) -> str:
    """Return the path, or the path with .gz when only that is there; UsageError if it cannot be read."""
    found = path if os.path.exists(path) else path + ".gz"
    if not os.path.exists(found):
        raise UsageError("no such file", file=path, remedy="check the path")
    if os.path.isdir(found):
        raise UsageError("is a directory", file=path, remedy="give the file in it")
    if not os.access(found, os.R_OK):
        raise UsageError("cannot be read", file=path, remedy="check its permissions")
    return found


def number(option: str, text: str) -> Fraction:
    """Read an exact number: `2/255`, `0.5/255`, `0.01`, `1e-3`."""
    above, slash, below = (part.strip() for part in text.partition("/"))
    try:
        value, divisor = decimal(above), decimal(below) if slash else Fraction(1)
    except OverflowError as error:
        raise UsageError(f"{option}: {error}", remedy=LIMITS) from None
    if value is None or divisor is None or divisor == 0:
        why = "divides by zero" if value is not None and divisor == 0 else "is not a number"
        raise UsageError(f"{option}: {text!r} {why}", remedy="write 0.01, 1e-3, 2/255 or 0.5/255")
    return value / divisor


def numbers(option: str, text: str) -> tuple[Fraction, ...]:
    return tuple(number(option, part) for part in text.split(","))
