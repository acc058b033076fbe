"""What the root of large residual networks costs, in seconds and memory, and how that grows with their neurons.

The networks are made here, from a seed: a family of one depth and width on images of several sides, or three that are
named. Each is asked whether the label stays for every input within eps. `--write` puts the same questions into a folder
that `netproof bench` and other tools read. A small root that is not counted comes first. The quick attack is timed too;
with `--beside` also both at once, in two threads, as `verify` has them on a GPU: what they take less than one after the
other is what that gains.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import options
import torch
from float64 import Counter
from floor import describe, synchronise
from tables import count, say, short, table
from torch import Tensor, nn

import netproof
from netproof.bounds.base import Clock
from netproof.bounds.beta import Beta
from netproof.bounds.linear.interval import Intervals
from netproof.bounds.linear.memory import with_less
from netproof.bounds.neurons.each import LayerNeurons
from netproof.bounds.zonotope.forward import Forward
from netproof.core.deadline import Deadline
from netproof.core.machine.allowance import allowance, allowing, read_caps
from netproof.core.machine.gpu import obey_cap
from netproof.core.verdict import Stats
from netproof.errors import OutOfMemory
from netproof.methods.device import resolve_device
from netproof.numerics import use_strict_float32
from netproof.problem.problem import Problem
from netproof.problem.reduce import reduce
from netproof.run.beside import Beside
from netproof.search.attack import QUICK
from netproof.search.goals import Decide

WARM = 16  # the side of an image that is bounded before anything is counted
SIDES = [16, 24, 32, 48, 64, 96]  # of the family: 29 thousand to a million neurons
WIDTH, BLOCKS, CLASSES = 16, (2, 2), 10
NAMED: dict[str, tuple[int, tuple[int, ...], int, int]] = {  # width, blocks, side, classes
    "small": (16, (2, 2, 2), 32, 10),
    "resnet18": (64, (2, 2, 2, 2), 32, 100),
    "tiny64": (32, (2, 2, 2, 2), 64, 200),
}
IMAGES = 5  # the seed of the first image
COLUMNS = ("network", "neurons", "unstable %", "targets", "proved")
MEASURED = ("attack s", "root s", "beside s", "peak GB", "float64")
PHASES = ("intervals", "forward", "backward", "targets")


class Block(nn.Module):
    """Two convolutions with batch norm, and a shortcut past them."""

    def __init__(self, fan: int, width: int, stride: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(fan, width, 3, stride, 1), nn.BatchNorm2d(width)
        self.c, self.d = nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width)
        self.s = nn.Conv2d(fan, width, 1, stride) if stride != 1 or fan != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(n, fan, H, W) to (n, width, H/stride, W/stride)."""
        return torch.relu(self.d(self.c(torch.relu(self.b(self.a(x))))) + self.s(x))


def residual(width: int, blocks: tuple[int, ...], side: int, classes: int) -> nn.Sequential:
    """A residual network on images (3, side, side), with torch's default weights; every stage but the first halves."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1), nn.ReLU()]
    fan = width
    for stage, number in enumerate(blocks):
        for block in range(number):
            layers.append(Block(fan, width << stage, 2 if block == 0 < stage else 1))
            fan = width << stage
    layers += [nn.AvgPool2d(side >> (len(blocks) - 1)), nn.Flatten(), nn.Linear(fan, classes)]
    return nn.Sequential(*layers).eval()


@dataclass(frozen=True, eq=False)
class Question:
    name: str
    network: nn.Sequential
    x: Tensor  # (1, 3, side, side)
    label: int
    classes: int


def questions(given: argparse.Namespace) -> Iterator[Question]:
    """Make the family, or the named networks: these one after the other from one seed."""
    if given.family:
        for k, side in enumerate(given.sides):
            torch.manual_seed(given.seed)
            yield _question(f"side {side}", residual(WIDTH, BLOCKS, side, CLASSES), side, CLASSES, k)
        return
    torch.manual_seed(given.seed)
    made = {name: residual(*of) for name, of in NAMED.items()}
    for k, (name, (_, _, side, classes)) in enumerate(NAMED.items()):
        if name in given.networks:
            yield _question(name, made[name], side, classes, k)


@torch.no_grad()
def _question(name: str, network: nn.Sequential, side: int, classes: int, k: int) -> Question:
    torch.manual_seed(IMAGES + k)
    x = torch.rand(1, 3, side, side)
    return Question(name, network, x, int(network(x).argmax()), classes)


def problem_of(question: Question, eps: float) -> Problem:
    """Return what is asked, by way of the files that others are given."""
    with tempfile.TemporaryDirectory() as folder:
        onnx, vnnlib, _ = write(question, eps, Path(folder)).split(",")
        network, property = netproof.load_network(Path(folder, onnx)), netproof.load_property(Path(folder, vnnlib))
        (problem,) = reduce(network, property)
    return problem


# --- files for others ---


def write(question: Question, eps: float, folder: Path) -> str:
    """Write model and property; return the line of instances.csv."""
    stem = question.name.replace(" ", "_")
    for part in ("onnx", "vnnlib"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(question.network, (question.x,), folder / f"onnx/{stem}.onnx", dynamo=False, opset_version=13)
    lines = [f"(declare-const X_{i} Real)" for i in range(question.x.numel())]
    lines += [f"(declare-const Y_{j} Real)" for j in range(question.classes)]
    for i, v in enumerate(question.x.flatten().tolist()):
        lines += [f"(assert (<= X_{i} {v + eps:.8f}))", f"(assert (>= X_{i} {v - eps:.8f}))"]
    others = [j for j in range(question.classes) if j != question.label]
    lines.append("(assert (or " + " ".join(f"(and (>= Y_{j} Y_{question.label}))" for j in others) + "))")
    (folder / f"vnnlib/{stem}.vnnlib").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"onnx/{stem}.onnx,vnnlib/{stem}.vnnlib,60"


# --- measuring ---


def clock_of(given: argparse.Namespace) -> Callable[[], float]:
    """Seconds as they pass, or those that processors spend on this process, which others do not lengthen."""
    return time.process_time if given.cpu_seconds else time.perf_counter


@contextmanager
def watched(device: torch.device, clock: Callable[[], float]) -> Iterator[dict[str, float]]:
    """Seconds by phase, while the root is built; waiting for the device at each end costs some of them."""
    spent = dict.fromkeys(PHASES, 0.0)

    def timed(call: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def new(*args: Any, **more: Any) -> Any:
            synchronise(device)
            began = clock()
            found = call(*args, **more)
            synchronise(device)
            spent[phase] += clock() - began
            return found

        return new

    places = ((Intervals, "extend", "intervals"), (Forward, "bounds", "forward"), (LayerNeurons, "bound", "backward"))
    kept = [getattr(owner, name) for owner, name, _ in places]
    try:
        for owner, name, phase in places:
            setattr(owner, name, timed(getattr(owner, name), phase))
        yield spent
    finally:
        for (owner, name, _), old in zip(places, kept, strict=True):
            setattr(owner, name, old)


@dataclass(frozen=True)
class Row:
    name: str
    neurons: int
    unstable: int
    targets: int
    proved: int
    attack: float  # seconds of the quick attack alone, which are not counted in the root's
    seconds: float
    beside: float | None  # seconds of both at once
    peak: float  # GB; on a CPU of the whole process so far
    phases: dict[str, float]
    products: int | None = None  # multiply-adds in float64

    @property
    def cells(self) -> list[str]:
        shares = [f"{100 * self.phases[phase] / self.seconds:.0f}" for phase in PHASES]
        share = f"{100 * self.unstable / self.neurons:.2f}"
        head = [self.name, count(self.neurons), share, str(self.targets), str(self.proved)]
        beside = "-" if self.beside is None else short(self.beside)
        products = "-" if self.products is None else f"{self.products:.2e}"
        return [*head, short(self.attack), short(self.seconds), beside, f"{self.peak:.2f}", products, *shares]


def warm_up(given: argparse.Namespace, device: torch.device) -> None:
    """Bound a small root that is not counted: the first of a process waits for libraries and kernels to load."""
    torch.manual_seed(given.seed)
    problem = problem_of(_question("warm-up", residual(WIDTH, BLOCKS, WARM, CLASSES), WARM, CLASSES, 0), given.eps)
    threshold = torch.zeros(len(problem.disjuncts), dtype=torch.float64, device=device)
    attacked(problem, given, device, clock_of(given))
    Beta().root(problem, threshold, device, Deadline(given.timeout), Clock())
    synchronise(device)


def attacked(problem: Problem, given: argparse.Namespace, device: torch.device, clock: Callable[[], float]) -> float:
    """Return the seconds of the attack before the root."""
    synchronise(device)
    began = clock()
    attack(problem, given, device, Deadline(given.timeout))
    synchronise(device)
    return clock() - began


def attack(problem: Problem, given: argparse.Namespace, device: torch.device, deadline: Deadline) -> bool:
    """Make the quick attack; no point is replayed."""
    with suppress(OutOfMemory):
        return QUICK.find(problem, Decide(problem, lambda point, target: None), device, given.seed, deadline)
    return False


def both_at_once(problem: Problem, given: argparse.Namespace, device: torch.device) -> float:
    """Return the seconds of the attack and the root side by side, as `verify` has them."""
    threshold = torch.zeros(len(problem.disjuncts), dtype=torch.float64, device=device)
    beside = Beside(partial(attack, problem, given, device), lambda: None, Stats(), device)
    synchronise(device)
    began = time.perf_counter()

    def root() -> tuple[Any, Any] | None:
        with beside(Deadline(given.timeout)) as deadline:
            return Beta().root(problem, threshold, device, deadline, Clock())

    with_less(root, device)
    synchronise(device)
    return time.perf_counter() - began


def measure(question: Question, given: argparse.Namespace, device: torch.device) -> Row | None:
    """Bound the root as `beta` does, with all targets; None where the time limit came first."""
    problem = problem_of(question, given.eps)
    threshold = torch.zeros(len(problem.disjuncts), dtype=torch.float64, device=device)
    neurons = sum(problem.graph.nodes[i].size for i in problem.graph.nonlinear)
    rows: list[Row] = []
    clock = clock_of(given)
    for _ in range(given.repeats):
        allowance().renew()  # as every question begins
        attack = attacked(problem, given, device, clock)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        with watched(device, clock) as spent:
            synchronise(device)
            began = clock()
            limit = Deadline(given.timeout)
            found = with_less(partial(Beta().root, problem, threshold, device, limit, Clock()), device)
            synchronise(device)
            seconds = clock() - began
        if found is None:
            return None
        root, bounds = found
        spent["targets"] = max(0.0, seconds - sum(spent.values()))
        proved = int((bounds.domains.bound > 0).sum())
        head = (question.name, neurons, root.count, len(threshold), proved)
        peak = _peak(device)
        del root, bounds, found
        beside = both_at_once(problem, given, device) if given.beside else None
        rows.append(Row(*head, attack, seconds, beside, peak, spent))
    middle = sorted(rows, key=lambda row: row.seconds)[(len(rows) - 1) // 2]
    if not given.count:
        return middle
    with Counter() as counter:
        with_less(partial(Beta().root, problem, threshold, device, Deadline(given.timeout), Clock()), device)
    return replace(middle, products=counter.all)


def _peak(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def exponent(rows: list[Row]) -> float:
    """The slope of log seconds against log neurons, by least squares."""
    x, y = ([math.log(v) for v in values] for values in ([r.neurons for r in rows], [r.seconds for r in rows]))
    return statistics.linear_regression(x, y).slope


def plot(rows: list[Row], path: Path, device: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    neurons = [row.neurons for row in rows]
    left.loglog(neurons, [row.seconds for row in rows], "o-")
    left.set(xlabel="neurons", ylabel="seconds of the root")
    right.loglog(neurons, [row.peak for row in rows], "s-")
    right.set(xlabel="neurons", ylabel="peak memory in GB")
    figure.suptitle(f"{device}; seconds grow with neurons to the power {exponent(rows):.2f}")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("--family", action="store_true", help="images of several sides, instead of named networks")
    parser.add_argument("--sides", type=options.positives, default=SIDES, metavar="N,N", help="of the family's images")
    parser.add_argument(
        "--networks", type=_names, default=list(NAMED), metavar="NAME,NAME", help="(default: all three)"
    )
    parser.add_argument("--eps", type=options.above_zero, default=1e-3, metavar="E", help="(default: 0.001)")
    parser.add_argument("--repeats", type=options.positive, default=1, metavar="R", help="medians of R (default: 1)")
    parser.add_argument("--timeout", type=options.above_zero, default=300.0, metavar="S", help="a root (default: 300)")
    parser.add_argument("--beside", action="store_true", help="time attack and root side by side too")
    parser.add_argument("--count", action="store_true", help="multiply-adds in float64 too, of one root more")
    parser.add_argument("--cpu-seconds", action="store_true", help="of this process alone, for a machine that is busy")
    parser.add_argument("--plot", type=options.writable, metavar="FILE", help="the growth over networks, as PNG")
    parser.add_argument("--memory", metavar="SIZE", help="keep to so much, as `verify` does: 8G, or gpu=8G,host=4G")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the questions as files and end")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="(default: auto)")
    parser.add_argument("--threads", type=options.positive, metavar="N", help="CPU threads (default: what there is)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    given = parser.parse_args()
    if given.cpu_seconds and resolve_device(given.device).type != "cpu":
        parser.error("--cpu-seconds: a GPU's work is not among them; add --device cpu")
    if given.cpu_seconds and given.beside:
        parser.error("--cpu-seconds: those of two threads say nothing of both at once; leave out --beside")
    try:
        given.memory = read_caps(given.memory)
    except netproof.UsageError as error:
        parser.error(f"--{error}")
    if any(side % 2 for side in given.sides):
        parser.error("--sides: the family halves its images, so sides are even")
    return given


def _names(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(NAMED):
        raise argparse.ArgumentTypeError(f"{text!r} are not among {', '.join(NAMED)}")
    return names


def main() -> int:
    given = arguments()
    if given.write is not None:
        try:
            lines = [write(question, given.eps, given.write) for question in questions(given)]
            (given.write / "instances.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        except OSError as error:
            raise netproof.UsageError(
                f"--write {given.write}: {error.strerror}", remedy="name another folder"
            ) from error
        say(f"{len(lines)} questions in {given.write}")
        return 0
    device = resolve_device(given.device)
    use_strict_float32()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    with allowing(given.memory):
        obey_cap(device)
        return compare(given, device)


def compare(given: argparse.Namespace, device: torch.device) -> int:
    """Measure all networks, and say what their roots took."""
    rows: list[Row] = []
    cells = [[*COLUMNS, *MEASURED, *(f"{phase} %" for phase in PHASES)]]
    warm_up(given, device)
    for question in questions(given):
        row = measure(question, given, device)
        cells.append([question.name, *["-"] * (len(cells[0]) - 1)] if row is None else row.cells)
        rows += [] if row is None else [row]
        say(" | ".join(cells[-1]))
    print(table(cells), f"{describe(device)}; eps {given.eps:g}", sep="\n\n")
    if given.family and len(rows) > 1:
        print(f"root seconds grow with neurons to the power {exponent(rows):.2f}")
    if given.plot is not None and len(rows) < 2:
        say("--plot: growth takes two networks, so none was drawn")
    elif given.plot is not None:
        plot(rows, given.plot, describe(device))
    return 0


if __name__ == "__main__":
    options.run(main)
