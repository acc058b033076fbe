"""What the root and a sub-domain cost, against the number of unstable neurons, width, depth, eps or cores.

The networks are random, fully connected and made here, so nothing needs to be downloaded. Sub-domains are bounded with
a threshold that none can reach, so no proof ends a batch early; bounding neurons again never pays then.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import options
import torch
from floor import describe, synchronise, timed
from tables import say, short, table
from torch import Tensor, nn

import netproof
from netproof.bounds.base import Bounds, Clock
from netproof.bounds.domains import Domains, split
from netproof.bounds.neurons.root import Root
from netproof.core.batch import concatenate
from netproof.core.cpu import available_cpus
from netproof.core.deadline import Deadline
from netproof.core.extras import CANDIDATES
from netproof.errors import UsageError
from netproof.methods.build import build_method
from netproof.methods.device import resolve_device
from netproof.methods.registry import method_info
from netproof.numerics import generator, use_strict_float32
from netproof.problem.problem import Problem
from netproof.problem.reduce import reduce
from netproof.problem.specs import output_constraint
from netproof.search.method import Method

INPUTS = 32
AXES: dict[str, list[float]] = {
    "unstable": [16, 64, 256, 512],
    "width": [32, 64, 128, 256],
    "depth": [2, 3, 4, 6],
    "eps": [0.01, 0.03, 0.1, 0.3],
    "cores": [],  # powers of two, as many as there are
}
COLUMNS = ("neurons", "unstable", "root s", "tighter root s", "domains", "s per 1000 domains")


def random_network(width: int, depth: int, seed: int) -> nn.Sequential:
    """`depth` hidden layers; values neither grow nor vanish on their way."""
    source = generator(seed)
    layers: list[nn.Module] = []
    for fan, out in zip([INPUTS] + [width] * depth, [width] * depth + [1], strict=True):
        linear = nn.Linear(fan, out)
        with torch.no_grad():
            linear.weight.copy_(torch.randn(out, fan, generator=source) * (2 / fan) ** 0.5)
            linear.bias.copy_(torch.randn(out, generator=source) * 0.1)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@torch.no_grad()
def make_unstable(network: nn.Sequential, x: Tensor, eps: float, count: int) -> None:
    """Move the biases until `count` hidden neurons, evenly over the layers, are 0 at x and no other can change sign."""
    hidden = [layer for layer in network if isinstance(layer, nn.Linear)][:-1]
    value, radius = x.flatten(), torch.full((INPUTS,), eps)
    for k, layer in enumerate(hidden):
        share = (k + 1) * count // len(hidden) - k * count // len(hidden)
        reach = layer.weight.abs() @ radius
        side = 1.0 - 2.0 * (torch.arange(layer.out_features) % 2)
        aim = side * (1.01 * reach + 0.01)
        aim[:share] = 0.0
        layer.bias.add_(aim - layer(value))
        value, radius = aim.clamp(min=0), torch.where(aim < 0, 0.0, reach)


def question(given: argparse.Namespace) -> Problem:
    """One output over a ball around a random point."""
    x = torch.rand(1, INPUTS, generator=generator(given.seed))
    network = random_network(given.width, given.depth, given.seed)
    if given.unstable is not None:
        make_unstable(network, x, given.eps, given.unstable)
    property = output_constraint(netproof.linf_ball(x, given.eps), [[1.0]], [0.0])
    (problem,) = reduce(netproof.load_network(network, example_shape=(1, INPUTS)), property)
    return problem


class Bench:
    """The parts of a search, timed one by one."""

    def __init__(self, method: Method, device: torch.device) -> None:
        self._bounder, self._brancher, self._device = method.bounder, method.brancher, device
        self._probes = method.extras.probes

    def root(self, problem: Problem) -> tuple[Root, Bounds]:
        never = torch.full((len(problem.disjuncts),), torch.inf, dtype=torch.float64, device=self._device)
        first = self._bounder.root(problem, never, self._device, Deadline(), Clock())
        assert first is not None  # there is no deadline
        return first

    def tighter(self, root: Root) -> Root | None:
        return self._bounder.tighter(root, None, Deadline())

    def grown(self, root: Root, bounds: Bounds, count: int) -> Domains:
        """`count` sub-domains that can be split; where there are not so many different ones, some several times."""
        domains = self._ranked(root, bounds)
        while len(domains) < count:
            children = self._round(root, domains)
            able = (children.candidates >= 0).any(1)
            if not able.any():
                break
            domains = children.select(able)
        return domains.select(torch.arange(count, device=self._device) % len(domains))

    def round(self, root: Root, domains: Domains) -> None:
        """Half of them split and bounded: as many children as there are domains."""
        self._round(root, domains.select(slice(0, len(domains) // 2)))

    def _round(self, root: Root, domains: Domains) -> Domains:
        candidates = self._brancher.reorder(root, domains, self._probes)
        children = split(domains, candidates[:, :1])
        parts = []
        for index in torch.arange(len(children), device=self._device).split(self._bounder.domains_at_once(root)):
            some = children.select(index)
            never = torch.full((len(some),), torch.inf, dtype=torch.float64, device=self._device)
            parts.append(self._ranked(root, self._bounder.bound(root, some, never, Deadline(), Clock())))
        return concatenate(parts)

    def _ranked(self, root: Root, bounds: Bounds) -> Domains:
        return replace(bounds.domains, candidates=self._brancher.choose(root, bounds, CANDIDATES))


def seconds_of(call: Callable[[], Any], device: torch.device, repeats: int) -> float:
    return statistics.median(timed(call, device) for _ in range(repeats))


def measure(given: argparse.Namespace, device: torch.device) -> list[str]:
    """One row, without the axis."""
    problem = question(given)
    torch.set_num_threads(given.cores)
    bench = Bench(build_method(given.method, method_info(given.method).options(dict(given.set)), device), device)
    root, bounds = bench.root(problem)  # once untimed: kernels, pages
    at_root = seconds_of(lambda: bench.root(problem), device, given.repeats)
    tighter = bench.tighter(root)
    again = None if tighter is None else seconds_of(lambda: bench.tighter(root), device, given.repeats)
    neurons = sum(node.size for node in problem.graph.nodes if node.index in problem.graph.nonlinear)
    cells = [str(neurons), str(root.count), short(at_root), short(again)]
    if root.count == 0:
        return [*cells, "-", "-"]
    domains = bench.grown(root, bounds, given.domains)
    bench.round(root, domains)
    synchronise(device)
    each = seconds_of(lambda: bench.round(root, domains), device, given.repeats) / len(domains)
    return [*cells, str(len(domains)), short(1000 * each)]


def values_of(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [0.0]
    if min(values) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} are not numbers above 0, as in 16,64,256")
    return values


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("--axis", choices=tuple(AXES), default="unstable", help="what varies (default: unstable)")
    parser.add_argument("--values", type=values_of, metavar="V,V", help="its values (default: a few, by axis)")
    parser.add_argument("--width", type=options.positive, default=256, metavar="N", help="of a layer (default: 256)")
    parser.add_argument("--depth", type=options.positive, default=3, metavar="N", help="hidden layers (default: 3)")
    parser.add_argument("--eps", type=options.above_zero, default=0.1, metavar="E", help="of the ball (default: 0.1)")
    parser.add_argument("--domains", type=options.positive, metavar="N", help="at once (default: 1024, on a GPU 16384)")
    parser.add_argument("--repeats", type=options.positive, default=3, metavar="R", help="medians of R (default: 3)")
    parser.add_argument("--method", default="beta", help="(default: beta)")
    options.engine_options(parser)
    given = parser.parse_args()
    given.cores = given.threads or available_cpus()
    given.unstable = None
    return given


def steps(given: argparse.Namespace) -> list[float]:
    """The values of the axis."""
    if given.axis == "cores" and not given.values:
        return [1 << k for k in range(given.cores.bit_length())]
    values, neurons = given.values or AXES[given.axis], given.width * given.depth
    if given.axis == "unstable" and max(values) > neurons:
        raise UsageError(
            f"{max(values):g} unstable neurons of {neurons}", remedy="raise --width or --depth, or set --values"
        )
    if given.axis != "eps" and any(value != int(value) for value in values):
        raise UsageError(f"--values: {given.axis} takes whole numbers")
    return values


def main() -> int:
    given = arguments()
    device = resolve_device(given.device)
    use_strict_float32()
    given.domains = 2 * max(1, (given.domains or (16384 if device.type == "cuda" else 1024)) // 2)
    values = steps(given)
    rows: list[list[str]] = [[given.axis if given.axis != "unstable" else "asked", *COLUMNS]]
    for value in values:
        at = argparse.Namespace(**{**vars(given), given.axis: value if given.axis == "eps" else int(value)})
        rows.append([f"{value:g}", *measure(at, device)])
        say(" | ".join(rows[-1]))
    torch.set_num_threads(given.cores)
    print(table(rows), f"{describe(device)}; width {given.width}, depth {given.depth}, eps {given.eps:g}", sep="\n\n")
    return 0


if __name__ == "__main__":
    options.run(main)
